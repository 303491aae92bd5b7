//! `x-penstock-policies`: the policies of an API and of its operations.

use std::sync::Arc;

use mediation::{POLICIES, PolicyRow, RESPONSE_CACHE, check_policy, policy, response_cache_s};
use model::{Policies, Policy, PolicyFlow};

use super::interceptors::Interceptors;
use super::values;
use crate::report::{Report, shorten, suggest};
use crate::tree::{Map, Node};

const NAME: &str = "x-penstock-policies";

/// Reads the policies of one level.
pub(super) fn read(of: &Map<'_>, report: &mut Report) -> Policies {
    let mut policies = Policies::default();
    let Some(map) = of.get(NAME).and_then(|node| values::map(node, NAME, report)) else {
        return policies;
    };
    let names = || PolicyFlow::ALL.into_iter().map(PolicyFlow::name);
    for member in map.iter() {
        let Some(flow) = PolicyFlow::ALL.into_iter().find(|flow| flow.name() == member.key) else {
            let message = format!("unknown key `{}` in `{NAME}`", shorten(&member.key));
            let help = suggest(&member.key, names(), || {
                "write `request`, `response` or `fault`".to_owned()
            });
            report.error(member.key_place, message, help);
            continue;
        };
        let list = values::list(&member.value, &member.key, report).unwrap_or_default();
        let found = list.iter().filter_map(|node| one(node, flow, report));
        let found = found.collect();
        match flow {
            PolicyFlow::Request => policies.request = found,
            PolicyFlow::Response => policies.response = found,
            PolicyFlow::Fault => policies.fault = found,
        }
    }
    policies
}

/// Policies of an API for all its operations.
#[derive(Default)]
pub(super) struct OfApi {
    policies: Policies,
    interceptors: Interceptors,
    /// Policies and interceptors together, for operations without their own.
    all: Arc<Policies>,
}

impl OfApi {
    pub(super) fn read(of: &Map<'_>, report: &mut Report) -> Self {
        let (policies, interceptors) = (read(of, report), Interceptors::read(of, report));
        let all = Arc::new(with_interceptors(policies.clone(), &interceptors));
        Self { policies, interceptors, all }
    }

    /// The policies of an operation: those of the API, then its own. The interceptors of the innermost level are the
    /// nearest to the upstream.
    ///
    /// The policy `responseCache` does not become a step. Also returns its value: the time for which responses are
    /// stored, in seconds.
    pub(super) fn and(
        &self,
        own: Policies,
        interceptors: Interceptors,
        report: &mut Report,
    ) -> (Option<Arc<Policies>>, Option<u32>) {
        let interceptors = interceptors.or(&self.interceptors);
        let mut all = if own == Policies::default() && interceptors == self.interceptors {
            Arc::clone(&self.all)
        } else {
            let api = &self.policies;
            let join = |first: &[Policy], then| [first.to_vec(), then].concat();
            let both = Policies {
                request: join(&api.request, own.request),
                response: join(&api.response, own.response),
                fault: join(&api.fault, own.fault),
            };
            Arc::new(with_interceptors(both, &interceptors))
        };
        let is_cache = |policy: &Policy| policy.name == RESPONSE_CACHE;
        let mut response_cache = None;
        if let Some(policy) = all.response.iter().rfind(|policy| is_cache(policy)).cloned() {
            response_cache = response_cache_s(&policy);
            let policies = Arc::make_mut(&mut all);
            policies.response.retain(|policy| !is_cache(policy));
            if policies.mediate_exchanges() {
                let message = format!(
                    "`{RESPONSE_CACHE}` cannot be combined with other policies for requests or responses"
                );
                let help =
                    "cache in front of the upstream, or list it for operations without others";
                report.error(policy.place, message, help);
            }
        }
        ((*all != Policies::default()).then_some(all), response_cache)
    }
}

fn with_interceptors(mut policies: Policies, interceptors: &Interceptors) -> Policies {
    policies.request.extend(interceptors.request.clone());
    policies.response.splice(..0, interceptors.response.clone());
    policies
}

fn one(node: &Node<'_>, flow: PolicyFlow, report: &mut Report) -> Option<Policy> {
    const KEYS: [&str; 2] = ["name", "parameters"];
    let map = values::map(node, "a policy", report)?;
    for member in map.iter().filter(|member| !KEYS.contains(&member.key.as_ref())) {
        let message = format!("unknown key `{}` of a policy", shorten(&member.key));
        let help = suggest(&member.key, KEYS, || "write `name` and `parameters`".to_owned());
        report.error(member.key_place, message, help);
    }
    let Some(name_node) = map.get("name") else {
        return report.reject(node.place, "a policy has no `name`", "write `name: addHeader`");
    };
    let name = values::text(name_node, "name", report)?;
    let Some(row) = policy(name) else {
        let names = POLICIES.iter().map(|row| row.name);
        let help = suggest(name, names, || "docs/policies.md lists them".to_owned());
        return report.reject(name_node.place, format!("unknown policy `{}`", shorten(name)), help);
    };
    if !row.flows.contains(&flow) {
        let message = format!("the policy `{name}` has no effect in `{}`", flow.name());
        let flows = row.flows.iter().map(|flow| format!("`{}`", flow.name()));
        let help = format!("move it to {}", flows.collect::<Vec<_>>().join(" or "));
        return report.reject(name_node.place, message, help);
    }
    let given = match map.get("parameters") {
        Some(node) => Some(values::map(node, "parameters", report)?),
        None => None,
    };
    let parameters = match given {
        Some(given) => parameters(given, row, report)?,
        None => Vec::new(),
    };
    let policy = Policy { name: name.to_owned(), parameters, place: node.place };
    for problem in check_policy(&policy, flow) {
        let value = problem.parameter.and_then(|name| given?.get(&name));
        report.error(value.unwrap_or(name_node).place, problem.message, problem.help);
    }
    Some(policy)
}

/// Reads parameters; all values are text. `None` if an error was reported.
fn parameters(
    given: &Map<'_>,
    row: &PolicyRow,
    report: &mut Report,
) -> Option<Vec<(String, String)>> {
    let names = || row.parameters.iter().map(|parameter| parameter.name);
    let mut found = Vec::new();
    for member in given.iter() {
        let name = member.key.as_ref();
        let flag = member.value.as_bool().map(|flag| flag.to_string());
        if !names().any(|known| known == name) {
            let message = format!("the policy `{}` has no parameter `{}`", row.name, shorten(name));
            let help = suggest(name, names(), || "remove it".to_owned());
            report.error(member.key_place, message, help);
        } else if let Some(value) = member.value.as_text().map(str::to_owned).or(flag) {
            found.push((name.to_owned(), value));
        } else {
            let message = format!("`{name}` must be a string, not {}", member.value.kind());
            report.error(member.value.place, message, "");
        }
    }
    (found.len() == given.iter().count()).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Defaults, read};

    /// Checks the diagnostics of `policies`, which begin at 7:22, without lines of help.
    #[track_caller]
    fn check(policies: &str, expect: &str) {
        let text = format!(
            "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\nsecurity: []\n\
             servers: [{{url: 'http://b'}}]\npaths: {{/: {{get: {{}}}}}}\n\
             x-penstock-policies: {policies}\n"
        );
        let refs = |_: &str| Err(String::new());
        let outcome = read(Path::new("a"), text.as_bytes(), &refs, &Defaults::default());
        let shown = outcome.diagnostics.iter().map(ToString::to_string);
        let shown: Vec<_> = shown.map(|it| it.lines().next().unwrap().to_owned()).collect();
        assert_eq!(shown.join("\n"), expect, "{policies}");
        assert_eq!(outcome.api.is_some(), expect.is_empty());
    }

    #[test]
    fn mistakes_in_policies_are_errors_where_they_are() {
        check("{request: [{name: removeHeader, parameters: {headerName: a}}]}", "");
        for (policies, expect) in [
            ("{requests: []}", "7:23: error: unknown key `requests` in `x-penstock-policies`"),
            ("{request: [{name: addHead}]}", "7:40: error: unknown policy `addHead`"),
            ("{request: [{parameters: {}}]}", "7:33: error: a policy has no `name`"),
            (
                "{response: [{name: mock}]}",
                "7:41: error: the policy `mock` has no effect in `response`",
            ),
            (
                "{request: [{name: removeHeader}]}",
                "7:40: error: `removeHeader` needs the parameter `headerName`",
            ),
            (
                "{request: [{name: removeHeader, parameters: {headerName: a, header: b}}]}",
                "7:82: error: the policy `removeHeader` has no parameter `header`",
            ),
            (
                "{request: [{name: removeHeader, parameters: {headerName: 'a b'}}]}",
                "7:79: error: `a b` is not the name of a header field",
            ),
            (
                "{request: [{name: removeHeader, parameters: {headerName: host}}]}",
                "7:79: error: the gateway writes `host` itself",
            ),
            (
                "{request: [{name: removeHeader, parameters: {headerName: [a]}}]}",
                "7:79: error: `headerName` must be a string, not a list",
            ),
            (
                "{request: [{name: regexPolicy, parameters: {regex: '('}}]}",
                "7:73: error: the pattern `(`: invalid pattern: error: unclosed group; \
                 look-around and back-references are not supported",
            ),
            (
                "{request: [{name: redirect, parameters: {url: /}}], response: [{name: responseCache}]}",
                "7:85: error: `responseCache` cannot be combined with other policies for requests or responses",
            ),
            (
                "{response: [{name: responseCache, parameters: {cacheTimeoutInSeconds: x}}]}",
                "7:92: error: `cacheTimeoutInSeconds` must be a whole number, not `x`",
            ),
            (
                "{request: [{name: redirect, parameters: {url: /}}]}\nx-penstock-upgrades: [spdy/3]",
                " error: GET / cannot upgrade: it has policies for requests or responses",
            ),
            (
                "{request: [{name: setToHeader, parameters: {to: example.org}}]}",
                "7:70: error: `example.org` is not an absolute URL",
            ),
        ] {
            check(policies, &format!("a:{expect}"));
        }
    }
}
