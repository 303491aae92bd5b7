//! What to send, where, how often and for how long: the flags of `penstock lab load`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[cfg(doc)]
use base::limits;

use crate::payload::Shape;

/// One measurement. [`Options::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// `http://` or `https://`, host, port, path and query.
    pub url: String,
    /// Connections, each with one request outstanding. 1 to [`limits::LOAD_USERS_MAX`].
    pub users: usize,
    /// Measured time; the warm-up comes before it. Default 10 s.
    pub duration: Duration,
    /// Time before the measurement whose requests are not counted. Default 3 s.
    pub warm_up: Duration,
    /// Default: POST with a payload, GET without.
    pub method: Option<String>,
    pub payload: Payload,
    /// File with one token per line; sent as `Authorization: Bearer`, one after the other.
    pub tokens: Option<PathBuf>,
    /// Further header lines. `Content-Type`, `Host` or `User-Agent` replace the default one.
    pub headers: Vec<(String, String)>,
    /// Text that every answer's body must contain.
    pub expect: Option<String>,
    pub trust: Trust,
    /// Generator threads. Default 1.
    pub threads: usize,
    /// Longest wait for a whole answer, connecting included. Default 20 s.
    pub timeout: Duration,
    /// Ctrl-C (SIGINT) ends the measurement early, with a report.
    pub ctrl_c: bool,
    /// The same from the program.
    pub stop: Stop,
}

/// Where the request's body comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    None,
    File(PathBuf),
    Made { shape: Shape, bytes: usize },
}

/// Whom an `https` target's certificate is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The system's authorities.
    System,
    /// Nobody: any certificate is taken.
    Insecure,
    /// The authorities in this PEM file, and no others.
    Ca(PathBuf),
}

/// Ends a running measurement early. Clones mean the same measurement.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn stop(&self) {
        self.0.store(true, Ordering::Release);
    }

    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Options {
    /// The defaults of the command line.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            users: 1,
            duration: Duration::from_secs(10),
            warm_up: Duration::from_secs(3),
            method: None,
            payload: Payload::None,
            tokens: None,
            headers: Vec::new(),
            expect: None,
            trust: Trust::System,
            threads: 1,
            timeout: Duration::from_secs(20),
            ctrl_c: false,
            stop: Stop::default(),
        }
    }
}
