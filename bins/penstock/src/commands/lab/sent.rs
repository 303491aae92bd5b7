//! What the load generator sends, and to whom: the flags that every command which makes load has.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use lab::load::{self, Trust};
use lab::payload::Shape;

#[derive(Args)]
#[command(group = ArgGroup::new("body").args(["payload", "payload_bytes"]))]
#[command(group = ArgGroup::new("trust").args(["insecure", "ca"]))]
pub(super) struct Sent {
    /// http:// or https://
    url: String,
    /// [default: POST with a payload, GET without]
    #[arg(long, value_name = "M")]
    method: Option<String>,
    /// File to send
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// Make a payload of exactly this many bytes
    #[arg(long, value_name = "N")]
    payload_bytes: Option<usize>,
    /// Shape of the payload that is made: array, simple or object
    #[arg(long, value_name = "S", default_value = "array", requires = "payload_bytes")]
    shape: Shape,
    /// File with one token per line, sent in turn as `Authorization: Bearer`
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// A header line more; may be given several times. Content-Type is application/json unless given
    #[arg(long = "header", value_name = "K: V", value_parser = load::parse_header)]
    headers: Vec<(String, String)>,
    /// Text that every answer's body must contain
    #[arg(long, value_name = "TEXT")]
    expect: Option<String>,
    /// Take any certificate
    #[arg(long)]
    insecure: bool,
    /// Trust the authorities in this file and no others
    #[arg(long, value_name = "PEM")]
    ca: Option<PathBuf>,
}

impl Sent {
    /// The options of a measurement that sends this; the rest as the generator has it by default.
    pub(super) fn options(self) -> load::Options {
        let payload = match (self.payload, self.payload_bytes) {
            (Some(file), _) => load::Payload::File(file),
            (None, Some(bytes)) => load::Payload::Made { shape: self.shape, bytes },
            (None, None) => load::Payload::None,
        };
        let trust = match (self.insecure, self.ca) {
            (true, _) => Trust::Insecure,
            (false, Some(file)) => Trust::Ca(file),
            (false, None) => Trust::System,
        };
        load::Options {
            method: self.method,
            payload,
            tokens: self.tokens,
            headers: self.headers,
            expect: self.expect,
            trust,
            ..load::Options::new(self.url)
        }
    }
}
