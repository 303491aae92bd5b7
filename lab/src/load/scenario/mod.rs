//! Scenarios: several requests with weights, and sequences of requests that pass values on.
//!
//! A [`Scenario`] is read from a TOML file ([`file`]), sent to agents as it is, and compiled before the measurement.
//! Each user has a [`Session`]: it runs one sequence after another, chosen by weight. A single request is a sequence
//! of one.
//!
//! - `{{name}}` in a path, header field, body or expected text stands for a value: of the row of a data file that
//!   belongs to this pass through the sequence, or extracted from an earlier response of it.
//! - A request that fails ends its sequence, because the following ones may need its values.
//! - Requests without values are prepared once; others when they are sent.
//!
//! Architecture invariant: no clock, no socket.

mod convert;
mod extract;
mod file;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::load::request::{Destination, Prepared, RequestSpec, Tokens};
use crate::load::response::{Captured, Outcome};
use crate::load::search::Search;
use crate::load::shape::Think;
use crate::load::thread_state::ThreadState;
use crate::load::{LoadError, Protocol};
use crate::random::{below, mix};
use crate::target::template::{Piece, pieces};
pub use convert::{from_curl, from_har, from_openapi};
pub use extract::Extract;
use extract::Extractor;

/// A scenario with its data, as read from a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name.
    pub name: String,
    sequences: Vec<Sequence>,
    data: Vec<Table>,
}

/// Requests that follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sequence {
    weight: u32,
    requests: Vec<Request>,
}

/// A request of a scenario. The texts may contain `{{name}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    name: String,
    method: Option<String>,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
    /// The only successful status; any 2xx without it.
    status: Option<u16>,
    expect: Option<String>,
    /// Pause of the user after the response.
    think: Option<Think>,
    extract: Vec<(String, Extract)>,
}

/// A data file: its columns, and one value for each in every row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

type Values = BTreeMap<String, String>;

impl Scenario {
    /// The names of all requests, in the order of the file.
    pub(crate) fn names(&self) -> Vec<String> {
        self.requests().map(|request| request.name.clone()).collect()
    }

    /// The name of each request, and its URL below `base`; values are in braces.
    pub(crate) fn urls(&self, base: &str) -> Vec<(String, String)> {
        let base = base.trim_end_matches('/');
        self.requests().map(|one| (one.name.clone(), format!("{base}{}", one.path))).collect()
    }

    /// Mean pause after each request, in milliseconds; `None`: that of the load shape.
    pub(crate) fn pauses_ms(&self) -> Vec<Option<f64>> {
        let mean = |think: Think| think.mean_us() as f64 / 1_000.0;
        self.requests().map(|request| request.think.map(mean)).collect()
    }

    /// The first request with a think time of its own.
    pub(crate) fn thinking(&self) -> Option<&str> {
        self.requests().find(|request| request.think.is_some()).map(|found| found.name.as_str())
    }

    fn requests(&self) -> impl Iterator<Item = &Request> {
        self.sequences.iter().flat_map(|sequence| &sequence.requests)
    }
}

/// Settings common to all requests of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) target: Destination,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) tokens: Tokens,
    pub(crate) protocol: Protocol,
    pub(crate) closes: bool,
}

/// A scenario that is ready to be sent.
pub(crate) struct Compiled {
    common: Common,
    steps: Vec<Step>,
    /// The sum of the weights up to each sequence, and its steps.
    sequences: Vec<(u64, Range<usize>)>,
    data: Vec<Table>,
    seed: u64,
}

struct Step {
    request: Request,
    /// The request, if it has no values.
    fixed: Option<Arc<Prepared>>,
    extract: Vec<(String, Extractor)>,
}

impl Compiled {
    /// # Errors
    /// [`LoadError::Usage`]: a request is invalid.
    pub(crate) fn new(scenario: Scenario, common: Common, seed: u64) -> Result<Self, LoadError> {
        let mut own = Self { common, steps: vec![], sequences: vec![], data: scenario.data, seed };
        let mut weights = 0;
        for sequence in scenario.sequences {
            let first = own.steps.len();
            for request in sequence.requests {
                let step = own.step(request)?;
                own.steps.push(step);
            }
            weights += u64::from(sequence.weight);
            own.sequences.push((weights, first..own.steps.len()));
        }
        Ok(own)
    }

    fn step(&self, request: Request) -> Result<Step, LoadError> {
        let invalid = |error: String| LoadError::Usage(format!("`{}`: {error}", request.name));
        let extract = request.extract.iter().map(|(name, how)| {
            how.compile().map(|compiled| (name.clone(), compiled)).map_err(invalid)
        });
        let extract = extract.collect::<Result<_, _>>()?;
        let has_values =
            request.texts().any(|text| pieces(text).any(|piece| matches!(piece, Piece::Name(_))));
        // A request with values is checked with some that are valid everywhere.
        let prepared =
            self.prepare(&request, &|_| Some("0")).map_err(|error| invalid(error.to_string()))?;
        let fixed = (!has_values).then(|| Arc::new(prepared));
        Ok(Step { request, fixed, extract })
    }

    /// The request with its values.
    fn prepare<'v>(
        &self,
        request: &Request,
        value: &dyn Fn(&str) -> Option<&'v str>,
    ) -> Result<Prepared, LoadError> {
        let unknown = || LoadError::Usage("a value is missing".to_owned());
        let filled = |text: &str| fill(text, value).ok_or_else(unknown);
        let base = self.common.target.path.trim_end_matches('/');
        let path = fill_encoded(&request.path, value).ok_or_else(unknown)?;
        let target = Destination { path: format!("{base}{path}"), ..self.common.target.clone() };
        let mut headers = Vec::with_capacity(self.common.headers.len() + request.headers.len());
        for (name, text) in &request.headers {
            headers.push((name.clone(), filled(text)?));
        }
        let is_own =
            |name: &str| request.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        headers.extend(self.common.headers.iter().filter(|(name, _)| !is_own(name)).cloned());
        let body = request.body.as_deref().map(filled).transpose()?;
        let spec = RequestSpec {
            method: request.method.as_deref(),
            headers: &headers,
            payload: body.as_deref().map(str::as_bytes),
            tokens: Arc::clone(&self.common.tokens),
            protocol: self.common.protocol,
            closes: self.common.closes,
        };
        Prepared::new(&target, spec)
    }
}

impl Request {
    fn texts(&self) -> impl Iterator<Item = &str> {
        let headers = self.headers.iter().map(|(_, value)| value.as_str());
        let texts = [Some(&self.path), self.body.as_ref(), self.expect.as_ref()];
        texts.into_iter().flatten().map(String::as_str).chain(headers)
    }
}

/// `None`: a value is missing.
fn fill<'v>(text: &str, value: &dyn Fn(&str) -> Option<&'v str>) -> Option<String> {
    let filled = pieces(text).map(|piece| match piece {
        Piece::Text(text) => Some(text.to_owned()),
        Piece::Name(name) => value(name).map(str::to_owned),
    });
    filled.collect()
}

/// As [`fill`], with values percent-encoded for a URL.
fn fill_encoded<'v>(text: &str, value: &dyn Fn(&str) -> Option<&'v str>) -> Option<String> {
    let filled = pieces(text).map(|piece| match piece {
        Piece::Text(text) => Some(text.to_owned()),
        Piece::Name(name) => value(name).map(encoded),
    });
    filled.collect()
}

/// `text` with everything percent-encoded that is not allowed in a path or query. Source: RFC 3986 section 3.3.
fn encoded(text: &str) -> String {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte);
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_allowed(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// A user's way through a scenario.
pub(crate) struct Session {
    compiled: Arc<Compiled>,
    user: u64,
    /// Sequences that it has begun.
    begun: u64,
    /// The current step, and the rest of its sequence.
    step: usize,
    rest: Range<usize>,
    values: Values,
    prepared: Arc<Prepared>,
}

impl Session {
    /// `idle`: any request, until the first one starts.
    pub(crate) fn new(compiled: &Arc<Compiled>, user: usize, idle: &Arc<Prepared>) -> Self {
        Self {
            compiled: Arc::clone(compiled),
            user: user as u64,
            begun: 0,
            step: 0,
            rest: 0..0,
            values: Values::new(),
            prepared: Arc::clone(idle),
        }
    }

    /// The pause before the next request, if the scenario sets it.
    pub(crate) fn think(&self) -> Option<Think> {
        self.current().and_then(|step| step.request.think)
    }

    /// Proceeds to the next request. `false`: its values make it invalid, and it is not sent.
    pub(crate) fn next(&mut self, state: &ThreadState) -> bool {
        let compiled = Arc::clone(&self.compiled);
        if self.rest.is_empty() {
            self.begin(&compiled, state);
        }
        self.step = self.rest.next().unwrap_or(0);
        let Some(step) = compiled.steps.get(self.step) else { return false };
        let prepared = match &step.fixed {
            Some(fixed) => Ok(Arc::clone(fixed)),
            None => {
                let value = |name: &str| self.values.get(name).map(String::as_str);
                compiled.prepare(&step.request, &value).map(Arc::new)
            }
        };
        match prepared {
            Ok(prepared) => {
                self.prepared = prepared;
                true
            }
            Err(_) => {
                self.rest = 0..0;
                false
            }
        }
    }

    /// The request to send.
    pub(crate) fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Index of the current request among [`Scenario::names`].
    pub(crate) fn request(&self) -> usize {
        self.step
    }

    /// The search for the text that the response has to contain.
    pub(crate) fn search(&self) -> Option<Search> {
        let text = self.current()?.request.expect.as_deref()?;
        let value = |name: &str| self.values.get(name).map(String::as_str);
        Some(Search::new(fill(text, &value).unwrap_or_default().as_bytes()))
    }

    /// Parts of the response that values are extracted from.
    pub(crate) fn capture(&self) -> Captured {
        let extract = self.current().map(|step| step.extract.as_slice()).unwrap_or_default();
        let is_field = |(_, how): &(String, Extractor)| matches!(how, Extractor::Header(_));
        Captured::new(extract.iter().any(is_field), !extract.iter().all(is_field))
    }

    /// Ends the request: extracts values from its response, and returns the outcome with the scenario's rules.
    pub(crate) fn finish(&mut self, outcome: Outcome, status: u16, response: &Captured) -> Outcome {
        let compiled = Arc::clone(&self.compiled);
        let Some(step) = compiled.steps.get(self.step) else { return outcome };
        let mut outcome = match (outcome, step.request.status) {
            (Outcome::Status(found), Some(wanted)) if found == wanted => Outcome::Good,
            (Outcome::Good, Some(wanted)) if status != wanted => Outcome::Status(status),
            (outcome, _) => outcome,
        };
        if outcome == Outcome::Good {
            for (name, how) in &step.extract {
                match how.run(response) {
                    Some(value) => drop(self.values.insert(name.clone(), value)),
                    None => outcome = Outcome::Extract,
                }
            }
        }
        if outcome.is_error() {
            self.rest = 0..0;
        }
        outcome
    }

    fn begin(&mut self, compiled: &Compiled, state: &ThreadState) {
        let seed = mix(compiled.seed ^ mix(self.user)).wrapping_add(self.begun);
        let weights = compiled.sequences.last().map_or(0, |(weights, _)| *weights);
        let drawn = below(mix(seed), u128::from(weights));
        let chosen = compiled.sequences.iter().find(|(weights, _)| drawn < *weights);
        self.rest = chosen.map_or(0..0, |(_, steps)| steps.clone());
        self.begun += 1;
        self.values.clear();
        if compiled.data.is_empty() {
            return;
        }
        let turn = state.next_row();
        for table in &compiled.data {
            let row = turn.checked_rem(table.rows.len()).and_then(|row| table.rows.get(row));
            let cells = table.columns.iter().cloned().zip(row.into_iter().flatten().cloned());
            self.values.extend(cells);
        }
    }

    fn current(&self) -> Option<&Step> {
        (self.begun > 0).then(|| self.compiled.steps.get(self.step)).flatten()
    }
}
