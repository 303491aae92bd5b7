//! What the load generator sends, and to whom: the flags that every command which makes load has.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use lab::load::{self, Trust};
use lab::payload::Shape;

#[derive(Args)]
#[command(group = ArgGroup::new("body").args(["payload", "payload_bytes"]))]
#[command(group = ArgGroup::new("trust").args(["insecure", "ca"]))]
pub(super) struct Sent {
    /// [default: POST with a payload, GET without]
    #[arg(long, value_name = "M")]
    method: Option<String>,
    /// File to send
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// Make a payload of exactly this many bytes
    #[arg(long, value_name = "N")]
    payload_bytes: Option<usize>,
    /// Shape of the payload that is made: array, simple or object [default: array]
    #[arg(long, value_name = "S", requires = "payload_bytes")]
    shape: Option<Shape>,
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
    /// The bytes of the payload, where nothing else is said.
    ///
    /// # Errors
    /// A sentence with the flag that says more: what a scenario sends is its own.
    pub(super) fn only_bytes(&self) -> Result<Option<usize>, String> {
        let more = [
            ("--method", self.method.is_some()),
            ("--payload", self.payload.is_some()),
            ("--shape", self.shape.is_some()),
            ("--tokens", self.tokens.is_some()),
            ("--header", !self.headers.is_empty()),
            ("--expect", self.expect.is_some()),
            ("--insecure", self.insecure),
            ("--ca", self.ca.is_some()),
        ];
        match more.iter().find(|(_, given)| *given) {
            Some((flag, _)) => {
                Err(format!("{flag} is for a URL; a target gets what its --scenario sends"))
            }
            None => Ok(self.payload_bytes),
        }
    }

    /// The options of a measurement that sends this; the rest as the generator has it by default.
    pub(super) fn options(self, url: String) -> load::Options {
        let payload = match (self.payload, self.payload_bytes) {
            (Some(file), _) => load::Payload::File(file),
            (None, Some(bytes)) => {
                load::Payload::Made { shape: self.shape.unwrap_or(Shape::Array), bytes }
            }
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
            ..load::Options::new(url)
        }
    }
}
