//! `penstock lab payload`: a payload of an exact size.

use std::path::PathBuf;

use clap::Args;
use lab::payload::{self, Shape};

use crate::commands::write_result;
use crate::failure::Failure;

/// Make a payload of an exact size
#[derive(Args)]
#[command(after_help = "Example:
  penstock lab payload --bytes 1024 --shape array --out 1KiB.json")]
pub(crate) struct Payload {
    /// Size in bytes
    #[arg(long, value_name = "N")]
    bytes: usize,
    /// array, simple or object
    #[arg(long, value_name = "S")]
    shape: Shape,
    /// [default: stdout]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(asked: &Payload) -> Result<(), Failure> {
    let made = payload::make(asked.shape, asked.bytes).map_err(Failure::Usage)?;
    write_result(asked.out.as_deref(), &made)
}
