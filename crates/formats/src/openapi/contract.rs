//! The description of an operation for the policy `schemaValidation`: its parameters, bodies and responses, with the
//! parts of the file that they refer to, as JSON.

use std::collections::BTreeMap;

use mediation::{CONTRACT, Members, SCHEMA_VALIDATION, check_policy};
use model::{Place, Policies, Policy, PolicyFlow};

use super::refs::{Reference, at};
use crate::report::{Report, shorten};
use crate::tree::{Keep, Map, Node, Value};

/// The members of an operation that describe messages.
const PARTS: [&str; 3] = ["parameters", "requestBody", "responses"];

/// The parts of a description to keep: everything, if it may have the policy.
pub(super) fn keep(text: &[u8]) -> Keep {
    let name = SCHEMA_VALIDATION.as_bytes();
    let has_policy = text.windows(name.len()).any(|part| part == name);
    if has_policy { Keep::Everything } else { Keep::Document }
}

pub(super) fn is_wanted(policies: &Policies) -> bool {
    let of = |flow| policies.flow(flow).iter().any(|policy| policy.name == SCHEMA_VALIDATION);
    PolicyFlow::ALL.into_iter().any(of)
}

/// An operation in its file.
pub(super) struct Described<'n> {
    pub(super) root: &'n Node<'n>,
    /// `parameters` of its path item.
    pub(super) item: Option<&'n Node<'n>>,
    pub(super) operation: &'n Map<'n>,
    pub(super) place: Place,
}

impl Described<'_> {
    /// Passes the description to the policies that check it.
    pub(super) fn hand_over(&self, policies: &mut Policies, report: &mut Report) {
        let Some(contract) = self.contract(report) else { return };
        for flow in PolicyFlow::ALL {
            let policies = match flow {
                PolicyFlow::Request => &mut policies.request,
                PolicyFlow::Response => &mut policies.response,
                PolicyFlow::Fault => &mut policies.fault,
            };
            for policy in policies.iter_mut().filter(|policy| policy.name == SCHEMA_VALIDATION) {
                self.fill(policy, flow, &contract, report);
            }
        }
    }

    fn fill(&self, policy: &mut Policy, flow: PolicyFlow, contract: &str, report: &mut Report) {
        policy.parameters = vec![(CONTRACT.to_owned(), contract.to_owned())];
        for problem in check_policy(policy, flow) {
            report.error(self.place, problem.message, problem.help);
        }
    }

    /// The description as JSON; `None` if an error was reported.
    fn contract(&self, report: &mut Report) -> Option<String> {
        let version = self.root.as_map().and_then(|root| root.get("openapi")?.as_text());
        let Some(version) = version else {
            let message = format!("`{SCHEMA_VALIDATION}` needs OpenAPI 3");
            let help = "convert the description, or remove the policy";
            return report.reject(self.place, message, help);
        };
        let version = if version.starts_with("3.0") { "3.0" } else { "3.1" };
        let mut refs = BTreeMap::new();
        let mut is_complete = true;
        let mut rest: Vec<_> =
            self.item.map(|item| (item, Members::Keywords)).into_iter().collect();
        let parts =
            PARTS.map(|key| Some((self.operation.get(key)?, Members::Keywords.below(key)?)));
        rest.extend(parts.into_iter().flatten());
        while let Some((node, members)) = rest.pop() {
            let nodes = children(node, members);
            let map = node.as_map().filter(|_| members == Members::Keywords);
            let reference = map.and_then(|map| map.get("$ref"));
            if let Some((text, place)) = reference.and_then(|it| Some((it.as_text()?, it.place))) {
                match self.target(text) {
                    Ok((pointer, target)) => {
                        if refs.insert(pointer, target).is_none() {
                            rest.push((target, Members::Keywords));
                        }
                    }
                    Err((message, help)) => {
                        report.error(place, message, help);
                        is_complete = false;
                    }
                }
            }
            rest.extend(nodes);
        }
        is_complete.then(|| self.write(version, &refs))
    }

    /// The target of a `$ref`.
    fn target(&self, text: &str) -> Result<(Vec<String>, &Node<'_>), (String, String)> {
        let reference = Reference::read(text, None)?;
        if reference.file.is_some() {
            let message = format!("`{SCHEMA_VALIDATION}` does not follow a `$ref` to another file");
            return Err((message, "move what it refers to into this file".to_owned()));
        }
        match at(self.root, &reference.pointer) {
            Some(target) => Ok((reference.pointer, target)),
            None => Err((
                format!("`{}` does not exist", shorten(text)),
                "correct the `$ref`".to_owned(),
            )),
        }
    }

    fn write(&self, version: &str, refs: &BTreeMap<Vec<String>, &Node<'_>>) -> String {
        let mut out = format!("{{\"version\":\"{version}\",\"item\":{{");
        if let Some(parameters) = self.item {
            out.push_str("\"parameters\":");
            write(parameters, &mut out);
        }
        out.push_str("},\"operation\":{");
        let found = PARTS.into_iter().filter_map(|key| Some((key, self.operation.get(key)?)));
        for (position, (key, node)) in found.enumerate() {
            out.push_str(if position > 0 { "," } else { "" });
            quote(key, &mut out);
            out.push(':');
            write(node, &mut out);
        }
        out.push_str("},\"refs\":[");
        for (position, (pointer, node)) in refs.iter().enumerate() {
            out.push_str(if position > 0 { ",[[" } else { "[[" });
            for (position, part) in pointer.iter().enumerate() {
                out.push_str(if position > 0 { "," } else { "" });
                quote(part, &mut out);
            }
            out.push_str("],");
            write(node, &mut out);
            out.push(']');
        }
        out.push_str("]}");
        out
    }
}

/// The children of a node that may contain schemas; examples do not.
fn children<'n>(node: &'n Node<'_>, members: Members) -> Vec<(&'n Node<'n>, Members)> {
    match &node.value {
        Value::List(items) => items.iter().map(|item| (item, members)).collect(),
        Value::Map(map) => {
            let below = map.iter().map(|one| Some((&one.value, members.below(&one.key)?)));
            below.flatten().collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Unread => {
            Vec::new()
        }
    }
}

/// Writes a node as JSON. Recurses as deep as the reader does.
fn write(node: &Node<'_>, out: &mut String) {
    match &node.value {
        Value::Null | Value::Unread => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(text) if is_number(text) => out.push_str(text),
        Value::Number(text) | Value::Text(text) => quote(text, out),
        Value::List(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                out.push_str(if position > 0 { "," } else { "" });
                write(item, out);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (position, member) in map.iter().enumerate() {
                out.push_str(if position > 0 { "," } else { "" });
                quote(&member.key, out);
                out.push(':');
                write(&member.value, out);
            }
            out.push('}');
        }
    }
}

/// Whether a number of YAML is also one of JSON.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let has_zero = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    let starts = digits.starts_with(|first: char| first.is_ascii_digit());
    is_plain
        && starts
        && !has_zero
        && !digits.contains(".e")
        && !digits.ends_with('.')
        && text.parse::<f64>().is_ok()
}

fn quote(text: &str, out: &mut String) {
    let mut quoted = Vec::new();
    expression::json::push_quoted(&mut quoted, text);
    out.push_str(&String::from_utf8_lossy(&quoted));
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Defaults, read};

    /// Checks the diagnostics of an operation, which begins at 8:3, without lines of help.
    #[track_caller]
    fn check(version: &str, operation: &str, expect: &str) {
        let text = format!(
            "{version}\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\nsecurity: []\n\
             x-wso2-production-endpoints: {{urls: ['http://b']}}\npaths:\n /p:\n  post:\n   \
             x-penstock-policies: {{request: [{{name: schemaValidation}}]}}\n{operation}"
        );
        let refs = |_: &str| Err(String::new());
        let outcome = read(Path::new("a"), text.as_bytes(), &refs, &Defaults::default());
        let shown = outcome.diagnostics.iter().map(ToString::to_string);
        let shown: Vec<_> = shown.map(|it| it.lines().next().unwrap().to_owned()).collect();
        assert_eq!(shown.join("\n"), expect, "{operation}");
        assert_eq!(outcome.api.is_some(), expect.is_empty());
    }

    #[test]
    fn schemas_that_cannot_be_checked_are_errors_where_they_are() {
        const V3: &str = "openapi: 3.0.3";
        let body = |schema: &str| {
            format!("   requestBody: {{content: {{application/json: {{schema: {schema}}}}}}}\n")
        };
        check(
            V3,
            &body("{type: string, maxLength: 0o7, example: {$ref: nowhere}}"),
            "a:8:3: error: \
            `schemaValidation`: the schema of `application/json`: \"0o7\" is not of type \"integer\"",
        );
        check(V3, &body("{type: string, exclusiveMinimum: true, minimum: 1.5e3}"), "");
        check(
            V3,
            &body("{$ref: '#/components/schemas/None'}"),
            "a:10:62: error: `#/components/schemas/None` does not exist",
        );
        check(
            V3,
            &body("{$ref: 'other.yaml#/A'}"),
            "a:10:62: error: `schemaValidation` does not follow a `$ref` to another file",
        );
        check(
            V3,
            &format!(
                "{}components: {{schemas: {{A: {{type: list}}}}}}\n",
                body("{$ref: '#/components/schemas/A'}")
            ),
            "a:8:3: error: `schemaValidation`: the schema of `application/json`: Unexpected type",
        );
        check(
            V3,
            "   responses: {default: {content: {application/json: {schema: {$ref: '#/nowhere'}}}}}\n",
            "a:10:70: error: `#/nowhere` does not exist",
        );
        check(
            V3,
            &format!(
                "{}components: {{schemas: {{A: {{type: string}}}}}}\n",
                body(
                    "{properties: {default: {$ref: '#/components/schemas/A'}, $ref: {type: string}}}"
                )
            ),
            "",
        );
        check("swagger: '2.0'", "", "a:8:3: error: `schemaValidation` needs OpenAPI 3");
    }
}
