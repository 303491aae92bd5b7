//! Where a request came in.

/// Where a request came in. Expressions read properties of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    pub service: Option<Served>,
    /// Over TLS.
    pub secure: bool,
}

/// The service of a request, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    Proxy(usize),
    Resource { api: usize, resource: usize },
}
