//! `penstock lab payload`: writes a payload of an exact size.

use std::path::PathBuf;

use clap::Args;
use lab::payload::{self, JsonShape};

use crate::commands::write_result;
use crate::failure::Failure;

/// Write a JSON payload of an exact size
#[derive(Args)]
#[command(after_help = "Example:
  penstock lab payload --bytes 1024 --shape array --out 1KiB.json")]
pub(crate) struct Payload {
    /// Size in bytes
    #[arg(long, value_name = "N")]
    bytes: usize,
    /// Shape of the payload: array, simple or object
    #[arg(long, value_name = "S")]
    shape: JsonShape,
    /// Output file; must not exist [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Payload) -> Result<(), Failure> {
    let made = payload::make(args.shape, args.bytes).map_err(Failure::Usage)?;
    write_result(args.out.as_deref(), &made)
}
