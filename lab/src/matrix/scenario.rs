//! What a caller sends and what it takes for an answer: one named request, and what a gateway has to
//! be able to do for it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::file::Source;

/// The scenarios that come with the lab (`suites/scenarios.toml`).
const SHIPPED: &str = include_str!("../../../suites/scenarios.toml");

/// One request, as often as it is asked for.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// As folders and suites call it.
    pub name: String,
    /// As the published tables call it.
    pub display: String,
    /// What it does, for the progress and the report.
    pub about: String,
    /// Where the definition comes from.
    #[serde(default)]
    pub source: String,
    #[serde(default = "post")]
    pub method: String,
    pub path: String,
    /// What a target must be able to do; a target's `can` is compared with it.
    #[serde(default)]
    pub needs: Vec<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    #[serde(default)]
    pub tokens: Option<Tokens>,
    pub payload: PayloadShape,
    /// Text that every answer's body must contain; `{{bytes}}` is the payload's size.
    #[serde(default)]
    pub expect: Option<String>,
}

/// What callers show of themselves, one after the other.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, Hash)]
#[serde(deny_unknown_fields)]
pub struct Tokens {
    pub kind: TokenKind,
    pub count: u32,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, Hash)]
#[serde(rename_all = "kebab-case")]
pub enum TokenKind {
    /// RS256 with a key of 2,048 bits, each with its own `jti`.
    Jwt,
    /// 36 characters of `a-z0-9`: a gateway asks somebody what they mean.
    Opaque,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum PayloadShape {
    None,
    Array,
    Simple,
    Object,
    /// The SOAP orders of the micro integrator's tests.
    BuyStocks,
}

/// The scheme that a scenario speaks is a need like any other.
pub const TLS: &str = "tls";

impl Scenario {
    pub(crate) fn tls(&self) -> bool {
        self.needs.iter().any(|need| need == TLS)
    }

    /// What `can` lacks of what this scenario needs.
    pub(crate) fn lacking<'s>(&'s self, can: &[String]) -> Vec<&'s str> {
        self.needs.iter().filter(|need| !can.contains(need)).map(String::as_str).collect()
    }
}

fn post() -> String {
    "POST".to_owned()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: Vec<Scenario>,
}

/// The scenarios that come with the lab.
///
/// # Errors
/// The shipped file has a mistake; a test reads it.
pub fn shipped() -> Result<Vec<Scenario>, String> {
    let source = Source { name: "suites/scenarios.toml".into(), text: SHIPPED.to_owned() };
    Ok(source.parse::<File>()?.scenario)
}
