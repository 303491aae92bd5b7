//! `x-wso2-request-interceptor` and `x-wso2-response-interceptor`: Choreo Connect's names for the policy
//! `callInterceptorService`.

use mediation::check_policy;
use model::{Policy, PolicyFlow};

use super::values;
use crate::report::{Report, shorten, suggest};
use crate::tree::{Map, Member, Node};

pub(super) const POLICY: &str = "callInterceptorService";
/// The keys, and the parameters of the policy.
const KEYS: [(&str, &str); 3] = [
    ("serviceURL", "interceptorServiceURL"),
    ("includes", "includes"),
    ("requestTimeout", "requestTimeout"),
];
const CLUSTER_TIMEOUT: &str = "clusterTimeout";

/// The services of one level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interceptors {
    pub(super) request: Option<Policy>,
    pub(super) response: Option<Policy>,
}

impl Interceptors {
    pub(super) fn read(of: &Map<'_>, report: &mut Report) -> Self {
        let mut read = |name: &str, flow| one(of.member(name)?, flow, report);
        Self {
            request: read("x-wso2-request-interceptor", PolicyFlow::Request),
            response: read("x-wso2-response-interceptor", PolicyFlow::Response),
        }
    }

    /// The services of this level, else of the level above.
    pub(super) fn or(self, above: &Self) -> Self {
        let or = |own: Option<Policy>, above: &Option<Policy>| own.or_else(|| above.clone());
        Self {
            request: or(self.request, &above.request),
            response: or(self.response, &above.response),
        }
    }
}

fn one(member: &Member<'_>, flow: PolicyFlow, report: &mut Report) -> Option<Policy> {
    // A value other than a map names a class, which `extensions` reports.
    let map = member.value.as_map()?;
    for member in map.iter() {
        let key = member.key.as_ref();
        let names = || KEYS.into_iter().map(|(name, _)| name);
        if key == CLUSTER_TIMEOUT {
            let message = format!("`{CLUSTER_TIMEOUT}` has no effect");
            let help = "`connect_ms` of penstock.toml limits connecting";
            report.warning(member.key_place, message, help);
        } else if !names().any(|name| name == key) {
            let message = format!("unknown key `{}` of an interceptor", shorten(key));
            let help = suggest(key, names(), || "write `serviceURL`, `includes`".to_owned());
            report.error(member.key_place, message, help);
        }
    }
    let mut parameters = Vec::new();
    for (key, parameter) in KEYS {
        let Some(node) = map.get(key) else { continue };
        let value = match key {
            "serviceURL" => origin(node, report)?,
            "includes" => includes(node, report)?,
            _ => values::text(node, key, report)?.to_owned(),
        };
        parameters.push((parameter.to_owned(), value));
    }
    let policy = Policy { name: POLICY.to_owned(), parameters, place: member.key_place };
    for problem in check_policy(&policy, flow) {
        let key = problem.parameter.and_then(|wrong| {
            let key = KEYS.into_iter().find(|(_, parameter)| *parameter == wrong);
            map.get(key?.0)
        });
        let place = key.map_or(member.key_place, |node| node.place);
        let message = problem.message.replace("interceptorServiceURL", "serviceURL");
        let help = problem.help.replace("interceptorServiceURL", "serviceURL");
        report.error(place, message, help);
    }
    Some(policy)
}

/// Scheme, host and port: as in Choreo Connect, the rest has no effect.
fn origin(node: &Node<'_>, report: &mut Report) -> Option<String> {
    let url = values::text(node, "serviceURL", report)?;
    let authority_at = url.find("://").map_or(0, |at| at + 3);
    let path_at = url.get(authority_at..).and_then(|rest| rest.find('/'));
    let path_at = path_at.map_or(url.len(), |at| authority_at + at);
    let (origin, path) = url.split_at_checked(path_at).unwrap_or((url, ""));
    if !matches!(path, "" | "/") {
        let message = format!("the path `{}` of `serviceURL` has no effect", shorten(path));
        report.warning(node.place, message, "remove it: `/api/v1/handle-request` is appended");
    }
    Some(origin.to_owned())
}

/// The list, separated by commas, without trailers, which services do not receive.
fn includes(node: &Node<'_>, report: &mut Report) -> Option<String> {
    let listed = values::texts(node, "includes", report)?;
    let listed = listed.into_iter().filter(|(name, place)| {
        let is_trailers = matches!(*name, "request_trailers" | "response_trailers");
        if is_trailers {
            let message = format!("`{name}` has no effect: trailers are not passed to services");
            report.warning(*place, message, "remove it");
        }
        !is_trailers
    });
    Some(listed.map(|(name, _)| name).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Defaults, read};

    /// Checks the diagnostics of an interceptor of an API, which begins at 7:29, without lines of help.
    #[track_caller]
    fn check(interceptor: &str, expect: &[&str]) {
        let text = format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\nsecurity: []\n\
             servers: [{{url: 'http://b'}}]\npaths: {{/: {{get: {{}}}}}}\n\
             x-wso2-request-interceptor: {interceptor}\n"
        );
        let refs = |_: &str| Err(String::new());
        let outcome = read(Path::new("a"), text.as_bytes(), &refs, &Defaults::default());
        let shown = outcome.diagnostics.iter().map(ToString::to_string);
        let shown: Vec<_> = shown.map(|it| it.lines().next().unwrap().to_owned()).collect();
        assert_eq!(shown, expect, "{interceptor}");
        let has_policy = |api: model::Api| api.operations.iter().all(|it| it.policies.is_some());
        assert!(outcome.api.is_none_or(has_policy), "{interceptor}");
    }

    #[test]
    fn mistakes_in_an_interceptor_are_reported_where_they_are() {
        check("{serviceURL: 'http://i:9081', includes: [request_body], requestTimeout: 5}", &[]);
        check("{serviceURL: 'http://i:9081/'}", &[]);
        for (interceptor, expect) in [
            ("{}", "7:1: error: `callInterceptorService` needs the parameter `serviceURL`"),
            ("{serviceURL: i}", "7:42: error: `i` is not an absolute URL"),
            (
                "{serviceURL: 'http://'}",
                "7:42: error: `http://` is more than scheme, host and port",
            ),
            (
                "{serviceURL: 'http://i/base'}",
                "7:42: warning: the path `/base` of `serviceURL` has no effect",
            ),
            (
                "{serviceURL: 'http://i', include: []}",
                "7:54: error: unknown key `include` of an interceptor",
            ),
            (
                "{serviceURL: 'http://i', includes: [request_bodies]}",
                "7:64: error: unknown part `request_bodies` of a message",
            ),
            (
                "{serviceURL: 'http://i', includes: [response_body]}",
                "7:64: error: there is no `response_body` before the response",
            ),
            (
                "{serviceURL: 'http://i', includes: [request_trailers]}",
                "7:65: warning: `request_trailers` has no effect: trailers are not passed to services",
            ),
            (
                "{serviceURL: 'http://i', requestTimeout: 0}",
                "7:70: error: `requestTimeout` must be between 1 and 3600 seconds",
            ),
            (
                "{serviceURL: 'http://i', clusterTimeout: 5}",
                "7:54: warning: `clusterTimeout` has no effect",
            ),
            (
                "'java:org.example.Interceptor'",
                "7:1: error: `x-wso2-request-interceptor` is not supported: requests would be forwarded \
                 unchecked and unchanged",
            ),
        ] {
            check(interceptor, &[&format!("a:{expect}")]);
        }
    }
}
