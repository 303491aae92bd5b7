//! The request sent by the load generator: flags shared by all commands that generate load.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use lab::load::{self, Trust};
use lab::payload::JsonShape;

#[derive(Args)]
#[command(group = ArgGroup::new("body").args(["payload", "payload_bytes"]))]
#[command(group = ArgGroup::new("trust").args(["insecure", "ca"]))]
pub(super) struct RequestArgs {
    /// HTTP method [default: POST with a payload, GET without]
    #[arg(long, value_name = "M")]
    method: Option<String>,
    /// File to send as the body
    #[arg(long, value_name = "FILE")]
    payload: Option<PathBuf>,
    /// Send a generated JSON body of exactly this many bytes
    #[arg(long, value_name = "N")]
    payload_bytes: Option<usize>,
    /// Shape of the generated body: array, simple or object [default: array]
    #[arg(long, value_name = "S", requires = "payload_bytes")]
    shape: Option<JsonShape>,
    /// File with one token per line, sent in rotation as `Authorization: Bearer`
    #[arg(long, value_name = "FILE")]
    tokens: Option<PathBuf>,
    /// Additional header field; repeatable. Content-Type defaults to application/json
    #[arg(long = "header", value_name = "K: V", value_parser = load::parse_header)]
    headers: Vec<(String, String)>,
    /// Text that every response body must contain
    #[arg(long, value_name = "TEXT")]
    expect: Option<String>,
    /// Accept any server certificate
    #[arg(long)]
    insecure: bool,
    /// Trust only the certificate authorities in this file
    #[arg(long, value_name = "PEM")]
    ca: Option<PathBuf>,
}

impl RequestArgs {
    /// The payload size, if no other flag is given.
    ///
    /// # Errors
    /// Names the first other flag: a scenario defines its own request.
    pub(super) fn only_bytes(&self) -> Result<Option<usize>, String> {
        let others = [
            ("--method", self.method.is_some()),
            ("--payload", self.payload.is_some()),
            ("--shape", self.shape.is_some()),
            ("--tokens", self.tokens.is_some()),
            ("--header", !self.headers.is_empty()),
            ("--expect", self.expect.is_some()),
            ("--insecure", self.insecure),
            ("--ca", self.ca.is_some()),
        ];
        match others.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(format!(
                "{flag} applies to URLs only; the request to a target is defined by --scenario"
            )),
            None => Ok(self.payload_bytes),
        }
    }

    /// Measurement options with this request, and the generator's defaults otherwise.
    pub(super) fn options(self, url: String) -> load::Options {
        let payload = match (self.payload, self.payload_bytes) {
            (Some(file), _) => load::Payload::File(file),
            (None, Some(bytes)) => {
                load::Payload::Made { shape: self.shape.unwrap_or(JsonShape::Array), bytes }
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
