//! Whether two APIs claim the same host and path.

use model::Api;

/// The host and path that both `a` and `b` claim, by base path or default path; `None`: both can be
/// served. A host takes precedence over a wildcard, and that over APIs for every host, so only
/// equal hosts collide; in the same way only equal paths do.
#[must_use]
pub fn claims_overlap(a: &Api, b: &Api) -> Option<String> {
    let host = shared_host(a, b)?;
    let path = paths(a).find(|path| paths(b).any(|other| normalised(other) == normalised(path)))?;
    let path = if path.is_empty() { "/" } else { path };
    Some(host.map_or_else(|| format!("`{path}`"), |host| format!("`{path}` of host `{host}`")))
}

/// `Some(None)`: both serve every host.
fn shared_host<'a>(a: &'a Api, b: &Api) -> Option<Option<&'a str>> {
    if a.hosts.is_empty() && b.hosts.is_empty() {
        return Some(None);
    }
    let same = |host: &&String| b.hosts.iter().any(|other| other.eq_ignore_ascii_case(host));
    a.hosts.iter().find(same).map(|host| Some(host.as_str()))
}

fn paths(api: &Api) -> impl Iterator<Item = &str> {
    std::iter::once(api.base_path.as_str()).chain(api.default_path.as_deref())
}

fn normalised(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    crate::openapi::normalise(path, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::openapi::{Defaults, read};

    #[test]
    fn two_apis_overlap_only_if_hosts_and_paths_are_equal() {
        check("x-wso2-basePath: /a/1", "x-wso2-basePath: /a/1", Some("`/a/1`"));
        check("x-wso2-basePath: /a/1", "x-wso2-basePath: /a/1/b", None);
        check("x-wso2-basePath: /%7Ea", "x-wso2-basePath: /~a", Some("`/%7Ea`"));
        check("x-wso2-basePath: /", "x-wso2-basePath: /", Some("`/`"));
        check(
            "x-wso2-basePath: /a/1\nx-penstock-hosts: [a.example]",
            "x-wso2-basePath: /a/1",
            None,
        );
        check(
            "x-wso2-basePath: /a/1\nx-penstock-hosts: [b.example, a.example]",
            "x-wso2-basePath: /a/1\nx-penstock-hosts: [A.example]",
            Some("`/a/1` of host `a.example`"),
        );
        check(
            "x-wso2-basePath: /a/1\nx-penstock-hosts: ['*.example']",
            "x-wso2-basePath: /a/1\nx-penstock-hosts: [a.example]",
            None,
        );
    }

    #[test]
    fn a_default_path_overlaps_too() {
        let default = "x-wso2-basePath: /a/1\nx-penstock-default-version: true";
        check(default, "x-wso2-basePath: /a", Some("`/a`"));
        check("x-wso2-basePath: /a", default, Some("`/a`"));
        check(default, "x-wso2-basePath: /1/a\nx-penstock-default-version: true", Some("`/a`"));
    }

    #[track_caller]
    fn check(a: &str, b: &str, expect: Option<&str>) {
        assert_eq!(claims_overlap(&api(a), &api(b)).as_deref(), expect);
    }

    #[track_caller]
    fn api(extensions: &str) -> Api {
        let text = format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: 1}}\nservers: [{{url: 'http://x'}}]\nsecurity: []\npaths: {{/*: {{get: {{}}}}}}\n{extensions}\n"
        );
        let defaults =
            Defaults { response_head_ms: 1, issuers_configured: false, strict_paths: false };
        let outcome = read("a.yaml".as_ref(), text.as_bytes(), &|_| Err(String::new()), &defaults);
        assert!(outcome.api.is_some(), "{:?}", outcome.diagnostics);
        outcome.api.unwrap_or_else(|| unreachable!())
    }
}
