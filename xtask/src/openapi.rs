//! docs/openapi.md, generated from the table of extensions that the OpenAPI reader uses.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::tidy::{Finding, Tree};

const SOURCE: &str = "crates/formats/src/openapi/extensions.rs";
const PAGE: &str = "docs/openapi.md";

const HEAD: &str = "\
# OpenAPI descriptions

An API is described by one OpenAPI 3.0, OpenAPI 3.1 or Swagger 2.0 file, in YAML or JSON. `penstock check FILE...`
reports everything that is wrong with it, with line, column and what to write instead.

- **Security**: every operation requires a token of a configured issuer unless `x-wso2-disable-security: true`,
  `x-auth-type: None` or `security: []` opens it. Any one of several scopes suffices, unless `x-penstock-scopes: all`.
  `oauth2`, `openIdConnect` and `http` with `bearer` are tokens; `apiKey` is an [API key](api-keys.md), in a header
  field, the query or a cookie, which has no scopes. Any one of several alternatives suffices; one that asks for two
  credentials at once is an error. `http` with `basic` is the [password](api-keys.md) of a user. Client certificates
  count by `x-wso2-mutual-ssl` alone: an alternative that asks for one is ignored with a warning, and an error if it is
  the only one.
- **Base path**: `x-wso2-basePath`, else the path of the first server, else `/TITLE/VERSION`.
- **Endpoints**: `x-wso2-production-endpoints` and `x-wso2-sandbox-endpoints`, else `servers`.
- **Paths**: a literal segment takes precedence over a parameter; `/*` at the end matches any remainder. Two paths that
  differ only in the names of parameters are one path, which is a warning; a method on both is an error.
- **References**: a `$ref` to another file is resolved if the file is in the folder of the description or below it.
  URLs are never fetched.

## Projects of API Manager

A folder that `apictl export api` has written is read as it is, from API Manager 4 on: unpack it into a folder of
`apis`. `api.yaml` and `Definitions/swagger.yaml` are one API; the other files of the project are not read, except for
those of `Client-certificates`.

| `data` in `api.yaml` | meaning |
|---|---|
| `name`, `version`, `context` | those of the API; its base path is the context and the version, or the context with the version in place of `{version}` |
| `isDefaultVersion` | `x-penstock-default-version` |
| `lifeCycleStatus` | `x-penstock-lifecycle` |
| `transport`, `authorizationHeader`, `apiKeyHeader` | `x-wso2-transports`, `x-wso2-auth-header`, `x-wso2-api-key-header` |
| `securityScheme` | `oauth2`, `basic_auth` and `api_key`: kinds of credential, of which one suffices, as `security-types`. `mutualssl`: client certificates, those of `Client-certificates`, which must be there; `mutualssl_mandatory` and `oauth_basic_auth_api_key_mandatory`: each client needs one, or a credential. With neither, one of the two suffices |
| `endpointConfig` | the endpoint sets, of type `http`, `load_balance` or `failover`, with `endpoint_security` ([credentials](upstream-credentials.md)) and `actionDuration` |
| `corsConfiguration`, `maxTps`, `apiThrottlingPolicy` | `x-wso2-cors`, `x-penstock-max-tps`, `x-throttling-tier` |
| `responseCachingEnabled`, `cacheTimeout` | `x-wso2-response-cache` |
| `policies` | only `DefaultSubscriptionless` or `AsyncDefaultSubscriptionless`: no subscription is needed |

They take precedence over extensions in the description; settings that `api.yaml` lacks, such as
`x-penstock-strict-paths`, can be written there. Paths, scopes, plans of operations and `x-auth-type` are those of the
description, as at an import into API Manager. Members that a gateway does not need, such as `visibility` and
`businessInformation`, are accepted. Everything else that would change the handling of requests is an error with its
line: another `type` than `HTTP`, policies, mediation, threat protection, schema validation, mocks, `audiences` and
`keyManagers` other than `all`.

## Extensions

| status | meaning |
|---|---|
| served | It has its documented effect. |
| accepted | Read without a diagnostic; it changes nothing that a gateway does. |
| warning | Not supported and ignored, with a warning. The API is served. |
| error | Not supported, and ignoring it would weaken security, drop a limit or change the behaviour of the API: the API is rejected. |

An extension at the wrong level, a misspelt `x-wso2-` or any unknown `x-penstock-` extension is reported. Extensions of
other products are ignored.

| extension | level | status | meaning |
|---|---|---|---|
";

/// Writes the page.
///
/// # Errors
/// The table cannot be read, or the page cannot be written.
pub(crate) fn run(root: &Path, _arguments: &[String]) -> Outcome {
    let source = std::fs::read_to_string(root.join(SOURCE));
    let page = page(&source.map_err(|error| format!("{SOURCE}: {error}"))?)?;
    std::fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
}

/// Reports a page that differs from the table.
pub(crate) fn drift(tree: &Tree) -> Vec<Finding> {
    let found = |what: String, instead: &str, line| {
        vec![Finding { file: PathBuf::from(PAGE), line, what, instead: instead.to_owned() }]
    };
    let wanted = match page(&tree.text(Path::new(SOURCE))) {
        Ok(wanted) => wanted,
        Err(why) => {
            let instead = "write `row(NAME, LEVEL, VALUE, SUPPORT, NOTE, HELP),` on one line";
            return found(why, instead, 1);
        }
    };
    let present = tree.text(Path::new(PAGE));
    if present == wanted {
        return Vec::new();
    }
    let same = present.lines().zip(wanted.lines()).take_while(|(a, b)| a == b).count();
    let what = format!("differs from the table in {SOURCE}");
    found(what, "run `cargo xtask openapi`", same + 1)
}

fn page(source: &str) -> Result<String, String> {
    let mut page = String::from(HEAD);
    let lines = source.lines().map(str::trim).filter(|line| line.starts_with("row(\""));
    let mut rows = 0;
    for line in lines {
        let row = row(line).ok_or_else(|| format!("{SOURCE}: not understood: `{line}`"))?;
        page.push_str(&row);
        rows += 1;
    }
    if rows == 0 { Err(format!("{SOURCE}: no rows found")) } else { Ok(page) }
}

/// `row("x-a", Level::ALL, Value::Text("b"), Support::Error, "note", "help"),` as a row of the
/// page.
fn row(line: &str) -> Option<String> {
    let inside = line.strip_prefix("row(")?.strip_suffix("),")?;
    let [name, level, value, support, note, _help] = arguments(inside).try_into().ok()?;
    let level = match level.strip_prefix("Level::")? {
        "API" => "API",
        "OPERATION" => "operation",
        "SET" => "endpoint set",
        "API_OR_OPERATION" => "API, operation",
        "ALL" => "API, path, operation",
        _ => return None,
    };
    let value = match value.strip_prefix("Value::")? {
        "Any" => String::new(),
        "False" => ": false".to_owned(),
        "Disabled" => ": {enabled: false}".to_owned(),
        "Map" => ": {...}".to_owned(),
        text => format!(": {}", text.strip_prefix("Text(\"")?.strip_suffix("\")")?),
    };
    let support = support.strip_prefix("Support::")?.to_lowercase();
    let name = name.trim_matches('"');
    let note = note.strip_prefix('"')?.strip_suffix('"')?;
    let mut letters = note.chars();
    let note: String = letters.next()?.to_uppercase().chain(letters).collect();
    let mut out = String::new();
    writeln!(out, "| `{name}{value}` | {level} | {support} | {note} |").ok()?;
    Some(out)
}

/// Splits at commas outside string literals.
fn arguments(text: &str) -> Vec<&str> {
    let mut quoted = false;
    let outside = |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    };
    text.split(outside).map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_source_becomes_a_row_of_the_page() {
        let line =
            "row(\"x-a\", Level::API, Value::Text(\"b\"), Support::Error, \"one, two\", \"\"),";
        assert_eq!(row(line).unwrap(), "| `x-a: b` | API | error | One, two |\n");
    }

    #[test]
    fn a_row_that_is_not_understood_is_an_error() {
        assert!(page("row(\"x-a\", Level::API),").unwrap_err().contains("x-a"));
        assert!(page("").unwrap_err().contains("no rows"));
    }
}
