//! APIs for tests.

use base::Method;
use model::{Accepts, Api, Caller, Operation, ScopeRule, Security};

/// An API called `base_path`, for every host, on both listeners, without endpoints.
pub(crate) fn api(base_path: &str, operations: &[&str]) -> Api {
    Api {
        operations: operations.iter().map(|line| operation(line)).collect(),
        ..Api::new(base_path.to_owned(), "1".to_owned(), base_path.to_owned())
    }
}

/// `METHOD TEMPLATE`; the template may be empty.
pub(crate) fn operation(line: &str) -> Operation {
    let (method, template) = line.split_once(' ').unwrap_or((line, ""));
    Operation {
        method: Method::from_bytes(method.as_bytes()),
        template: template.to_owned(),
        security: Security::Required(Accepts::token(ScopeRule::Anything)),
        production: None,
        sandbox: None,
        plan: None,
        policies: None,
        response_cache: None,
    }
}

/// The caller of a token without claims.
pub(crate) fn caller() -> Caller {
    Caller { issuer: Some(0), ..Caller::default() }
}
