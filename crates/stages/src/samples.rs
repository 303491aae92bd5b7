//! APIs for tests.

use base::Method;
use model::{Api, Operation, ScopeRule, Security, Transports};

/// An API called `base_path`, for every host, on both listeners, without endpoints.
pub(crate) fn api(base_path: &str, operations: &[&str]) -> Api {
    Api {
        name: base_path.to_owned(),
        version: "1".to_owned(),
        base_path: base_path.to_owned(),
        default_path: None,
        hosts: Vec::new(),
        transports: Transports { http: true, https: true },
        auth_header: "authorization".to_owned(),
        forward_auth_header: false,
        forward_fields: Vec::new(),
        strict_paths: false,
        mutual_tls: false,
        cors: None,
        upgrades: Vec::new(),
        operations: operations.iter().map(|line| operation(line)).collect(),
        upstreams: Vec::new(),
        production: None,
        sandbox: None,
        source: "sample.yaml".into(),
    }
}

/// `METHOD TEMPLATE`; the template may be empty.
pub(crate) fn operation(line: &str) -> Operation {
    let (method, template) = line.split_once(' ').unwrap_or((line, ""));
    Operation {
        method: Method::from_bytes(method.as_bytes()),
        template: template.to_owned(),
        security: Security::Token(ScopeRule::Anything),
        production: None,
        sandbox: None,
    }
}
