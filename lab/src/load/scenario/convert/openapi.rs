//! The examples of an OpenAPI 3 description: a request for each operation whose required parameters and body have one.

use serde_json::Value;

use super::{Draft, yaml};
use crate::load::scenario::encoded;

/// References that lead to references: more are not followed.
const REFERENCES_MAX: usize = 16;

/// The methods of a path item. Source: OpenAPI 3.1.0 section 4.8.9.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// The text of a scenario file. `text`: JSON or YAML.
///
/// # Errors
/// Neither JSON nor YAML, or no operation with examples.
pub fn from_openapi(text: &str) -> Result<String, String> {
    let root = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(_) => yaml::read(text)?,
    };
    let api = Api { root: &root };
    let server = root.pointer("/servers/0/url").and_then(Value::as_str).unwrap_or("/");
    let base =
        if server.contains("://") { server.to_owned() } else { format!("http://HOST{server}") };
    let mut draft = Draft::default();
    draft.usage(base.trim_end_matches('/'));
    let items = root.get("paths").and_then(Value::as_object);
    for (path, item) in items.ok_or("1:1: error: no `paths`: not an OpenAPI description")? {
        let item = api.resolved(item);
        for method in METHODS {
            let Some(operation) = item.get(method) else { continue };
            match api.request(path, item, operation) {
                Ok(Made { path, headers, body }) => {
                    draft.request(&method.to_ascii_uppercase(), &path, headers, body);
                }
                Err(missing) => {
                    let method = method.to_ascii_uppercase();
                    draft
                        .comment(format!("{method} {path} is left out: no example for {missing}."));
                }
            }
        }
    }
    if draft.requests.is_empty() {
        return Err(format!(
            "no operation has examples for all that it requires\n{}",
            draft.comments.join("\n")
        ));
    }
    draft.text(false)
}

/// A request made of examples.
struct Made {
    path: String,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

struct Api<'r> {
    root: &'r Value,
}

impl<'r> Api<'r> {
    /// The value that a `$ref` within the file points to.
    fn resolved(&self, mut value: &'r Value) -> &'r Value {
        for _ in 0..REFERENCES_MAX {
            let reference = value.get("$ref").and_then(Value::as_str);
            let pointer = reference.and_then(|reference| reference.strip_prefix('#'));
            match pointer.and_then(|pointer| self.root.pointer(pointer)) {
                Some(found) => value = found,
                None => break,
            }
        }
        value
    }

    /// The error names the part without an example.
    fn request(&self, path: &str, item: &'r Value, operation: &'r Value) -> Result<Made, String> {
        let mut made = Made { path: path.to_owned(), headers: Vec::new(), body: None };
        let mut query = Vec::new();
        let list =
            |of: &'r Value| of.get("parameters").and_then(Value::as_array).into_iter().flatten();
        // An operation's parameters replace those of its path.
        let mut parameters: Vec<&Value> = Vec::new();
        for parameter in list(item).chain(list(operation)).map(|one| self.resolved(one)) {
            let key = |of: &Value| (of.get("in").cloned(), of.get("name").cloned());
            parameters.retain(|other| key(other) != key(parameter));
            parameters.push(parameter);
        }
        for parameter in parameters {
            let text = |key: &str| parameter.get(key).and_then(Value::as_str).unwrap_or_default();
            let (name, place) = (text("name"), text("in"));
            let is_required = parameter.get("required") == Some(&Value::Bool(true));
            let Some(value) = self.example(parameter).map(plain_text) else {
                if is_required || place == "path" {
                    return Err(format!("parameter `{name}`"));
                }
                continue;
            };
            match place {
                "path" => {
                    let segment = encoded(&value).replace('/', "%2F").replace('?', "%3F");
                    made.path = made.path.replace(&format!("{{{name}}}"), &segment);
                }
                "query" => query.push(format!("{}={}", component(name), component(&value))),
                "header" => made.headers.push((name.to_owned(), value)),
                "cookie" => made.headers.push(("Cookie".to_owned(), format!("{name}={value}"))),
                _ => {}
            }
        }
        if !query.is_empty() {
            made.path.push_str(&format!("?{}", query.join("&")));
        }
        if made.path.contains(['{', '}']) {
            return Err("a parameter of the path".to_owned());
        }
        if let Some(body) = operation.get("requestBody").map(|body| self.resolved(body)) {
            self.body(body, &mut made)?;
        }
        Ok(made)
    }

    fn body(&self, body: &'r Value, made: &mut Made) -> Result<(), String> {
        let content = body.get("content").and_then(Value::as_object).into_iter().flatten();
        let mut examples = content.filter_map(|(media, of)| Some((media, self.example(of)?)));
        match examples.next() {
            Some((media, example)) => {
                made.headers.push(("Content-Type".to_owned(), media.clone()));
                let text = example.as_str().filter(|_| !media.contains("json"));
                made.body = Some(text.map_or_else(|| example.to_string(), str::to_owned));
                Ok(())
            }
            None if body.get("required") == Some(&Value::Bool(true)) => Err("the body".to_owned()),
            None => Ok(()),
        }
    }

    /// The example of a parameter or media type: its own, the first of several, or that of its schema.
    fn example(&self, of: &'r Value) -> Option<&'r Value> {
        let first = || of.get("examples")?.as_object()?.values().next();
        let own = of.get("example").or_else(|| self.resolved(first()?).get("value"));
        own.or_else(|| {
            let schema = self.resolved(of.get("schema")?);
            let one_of = |key: &str| schema.get(key)?.as_array()?.first();
            let own = schema.get("example").or_else(|| one_of("examples"));
            own.or_else(|| schema.get("default")).or_else(|| one_of("enum"))
        })
    }
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A name or value of a query.
fn component(text: &str) -> String {
    encoded(text).replace('&', "%26").replace('=', "%3D").replace('+', "%2B")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::load::Scenario;
    use crate::suite::Source;

    const API: &str = "openapi: 3.0.3
servers: [{url: 'https://api.example/v1/'}]
paths:
  /pets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string, example: a/b}}
    get:
      parameters:
        - {name: q, in: query, example: 'x y&z'}
        - {name: optional, in: query}
        - {name: X-Trace, in: header, example: 7}
    put:
      requestBody: {$ref: '#/components/requestBodies/pet'}
  /owners:
    post:
      requestBody: {required: true, content: {application/json: {schema: {type: object}}}}
components:
  requestBodies:
    pet:
      content:
        application/json: {examples: {one: {value: {name: Rex, age: 1.50}}}}
";

    #[test]
    fn examples_become_requests() {
        let text = from_openapi(API).unwrap();
        for line in [
            "# penstock lab load https://api.example/v1 --scenario THIS-FILE",
            "# POST /owners is left out: no example for the body.",
            "path = \"/pets/a%2Fb?q=x%20y%26z\"",
            "X-Trace = \"7\"",
            "body = '{\"age\":1.5,\"name\":\"Rex\"}'",
            "method = \"PUT\"",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} in {text}");
        }
        let scenario = Scenario::from_source(&Source { name: "api.toml".into(), text }).unwrap();
        assert_eq!(scenario.names(), ["GET /pets/a%2Fb", "PUT /pets/a%2Fb"]);
    }

    #[test]
    fn other_files_are_rejected() {
        assert!(from_openapi("{}").unwrap_err().starts_with("1:1: error: no `paths`"));
        assert!(from_openapi("a: [").unwrap_err().contains("error: invalid YAML"));
        let none = from_openapi("paths:\n  /a/{b}:\n    get: {}\n").unwrap_err();
        assert!(none.contains("no operation has examples"), "{none}");
    }
}
