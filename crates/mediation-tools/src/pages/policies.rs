//! docs/policies.md, examples/policies.yaml and examples/schemas.yaml.

use mediation::{POLICIES, PolicyRow, SCHEMA_VALIDATION};
use model::PolicyFlow;

const PAGE: &str = "\
# Policies

Policies change or check messages before they are forwarded. `x-penstock-policies`, at the top level of a description or
in an operation, lists them for requests, for responses, and for the gateway's responses to faults:

```yaml
x-penstock-policies:
  request:
    - {name: removeHeader, parameters: {headerName: X-Internal}}
    - {name: rewriteResourcePath, parameters: {newResourcePath: '/v2/pets/{id}'}}
  response:
    - {name: addHeader, parameters: {headerName: X-Api, headerValue: '${props.synapse.API_NAME}'}}
  fault:
    - {name: addHeader, parameters: {headerName: X-Error, headerValue: '${props.synapse.ERROR_CODE}'}}
```

- The API's policies run before the operation's, each list from top to bottom, after the token was verified. An unknown
  policy, an unknown parameter or an invalid value is an error, and the API is not served.
- Names and parameters are those of WSO2 API Manager's policies where it has the policy.
- A *template* is text with [expressions](expressions.md): `${headers.x}`, `${payload.x}`, `${params.queryParams.x}`,
  `${params.pathParams.x}`, and properties as `${props.synapse.API_NAME}`, or as `${props.synapse[\"api.ut.resource\"]}`
  if the name has a dot. The properties are `API_NAME`, `SYNAPSE_REST_API_VERSION`, `REST_API_CONTEXT`,
  `api.ut.resource`, `api.ut.HTTP_METHOD`, `jwt_claims`, and in policies for faults `ERROR_CODE`.
- Operations without policies have no overhead. Bodies stream unless a policy reads or replaces them; the limits of held
  bodies then apply (`held_body_bytes_max`).
- The policies for faults run on every fault of the gateway once the operation is known, a rejected token included. If
  one of them fails, the response is sent unchanged.
- Requests to operations with policies for requests or responses cannot be upgraded: they are forwarded without
  `Upgrade`, so a WebSocket client gets an ordinary response (over HTTP/2, fault 101506 instead of a 2xx). Listing such
  a policy for a GET of an API with `x-penstock-upgrades` is an error. Policies for faults do not prevent upgrades.

## Schema validation

`schemaValidation` validates requests if it is listed in `request`, and responses if it is listed in `response`, against
the OpenAPI 3 description that lists it. Schemas are compiled when the file is read: an invalid schema is an error, and
so is a `$ref` to another file.

- Parameters in path, query and header must be present if they are `required`, and their values must match their schema.
  Lists are parsed in the styles `form`, `simple`, `spaceDelimited` and `pipeDelimited`; for objects and parameters with
  `content`, only their presence is checked. Cookies and parameters that are not described are not checked.
- A request body must be present if it is `required`, and have one of the described media types. A JSON body must match
  its schema, without duplicate names in an object; for other bodies, only the media type is checked.
- A response is validated if its status is described (`200`, `2XX`, `default`) and it has a body.
- OpenAPI 3.0 uses JSON Schema draft 4 with `nullable`; 3.1 uses JSON Schema 2020-12. Properties that are `readOnly` are
  optional in requests, and those that are `writeOnly` in responses. Regular expressions have no look-around and no
  back-references.
- For an invalid request, the client gets 400 with the reason; if the schema has `$ref`, `anyOf`, `oneOf`, `not` or
  `if`, the reason is only that the body does not match. For an invalid response, the client gets 500, and the reason is
  logged.

## Interceptor services

`callInterceptorService` and Choreo Connect's `x-wso2-request-interceptor` and `x-wso2-response-interceptor` are the
same policy. The service gets a POST with a JSON object that has the parts listed in `includes`: header fields as
forwarded to the upstream (names in lower case), bodies in base64, and in `invocationContext` the API, the operation and
the client's token. A service for responses also gets `responseCode`, and the `interceptorContext` that the service for
requests returned.

It responds with 204 to change nothing, or with 200 and an object:

| member | effect |
|---|---|
| `headersToRemove`, `headersToReplace`, `headersToAdd` | applied in this order; framing and connection fields cannot be changed |
| `body` | replaces the body, in base64; `includes` must list it |
| `responseCode` | the status of the response |
| `directRespond: true` | the client gets `responseCode`, `headersToAdd` and `body` instead of the upstream's response; no policy follows |
| `dynamicEndpoint: {endpointName}` | the request goes to this set of `x-wso2-endpoints` |
| `interceptorContext` | an object that is passed to the service for responses |

- If the service cannot be reached, takes longer than `requestTimeout`, or responds with another status, the client gets
  fault 103500; if its response is invalid, 103501. Nothing is forwarded in either case.
- Differences from Choreo Connect: trailers are neither sent nor changed; `invocationContext` has no `protocol` and no
  names of Envoy clusters; returning a body that `includes` does not list is a fault, where Choreo Connect ignores the
  whole response; a new body does not change the status.

## Every policy

[examples/policies.yaml](../examples/policies.yaml) has an operation for each of them: start `penstock up`, copy the
file to `penstock-data/apis/`, and run `curl -i http://127.0.0.1:8280/policies/addHeader`: the response has
`X-Tenant: blue`. The build of `make run` lacks `schemaValidation`, so its example is a file of its own,
[examples/schemas.yaml](../examples/schemas.yaml), with the base path `/schemas`.

| policy | flows | what it does | parameters | example |
|---|---|---|---|---|
";

/// The page docs/policies.md.
#[must_use]
pub fn policies_page() -> String {
    let mut page = PAGE.to_owned();
    for row in POLICIES {
        let flows: Vec<_> = row.flows.iter().map(|flow| flow.name()).collect();
        let parameters = row.parameters.iter().map(|parameter| {
            let mark = if parameter.required { "" } else { " (optional)" };
            format!("`{}`{mark}: {}", parameter.name, parameter.about)
        });
        let parameters: Vec<_> = parameters.collect();
        page.push_str(&format!(
            "| `{}` | {} | {} | {} | `{}` |\n",
            row.name,
            flows.join(", "),
            row.about,
            parameters.join("; "),
            item(row).replace('|', "\\|")
        ));
    }
    page
}

/// A policy as files write it.
fn item(row: &PolicyRow) -> String {
    match row.example {
        "" => format!("{{name: {}}}", row.name),
        parameters => format!("{{name: {}, parameters: {{{parameters}}}}}", row.name),
    }
}

const EXAMPLE: &str = "\
# An operation for each policy, generated from the table of docs/policies.md. The echo backend of `penstock up` returns
# every request as its response.
openapi: 3.1.0
info:
  title: TITLE
  version: 1.0.0
x-wso2-basePath: /PATH
x-wso2-production-endpoints:
  urls:
    - http://127.0.0.1:8688
security: []
paths:
";

/// The scheme of the policy that reads a token: no other operation needs one.
const SECURED: &str = "      summary: Needs a token with this claim, of an application that has a subscription to this API.
      security:
        - token: []
";

/// The security scheme that secured operations refer to.
const SCHEMES: &str = "components: {securitySchemes: {token: {type: http, scheme: bearer}}}
";

/// Schema that `schemaValidation` compares with.
const DESCRIBED: &str = "      requestBody:
        content:
          application/json:
            schema: {type: object, required: [a], properties: {a: {type: array}}}
      responses: {}
";

/// The files examples/policies.yaml and examples/schemas.yaml: not every build has `schemaValidation`.
#[must_use]
pub fn policies_examples() -> [String; 2] {
    let (schemas, others): (Vec<_>, Vec<_>) =
        POLICIES.iter().partition(|row| row.name == SCHEMA_VALIDATION);
    [example("Policies", "policies", &others), example("Schemas", "schemas", &schemas)]
}

fn example(title: &str, path: &str, rows: &[&PolicyRow]) -> String {
    let mut file = EXAMPLE.replace("TITLE", title).replace("PATH", path);
    for row in rows {
        // The echo backend does not show the header fields of a request.
        let is_shown =
            |flow: &&PolicyFlow| row.name != "addHeader" || **flow != PolicyFlow::Request;
        let Some(flow) = row.flows.iter().find(is_shown) else { continue };
        let (name, flow, item) = (row.name, flow.name(), item(row));
        let secured = if name == "jwtClaimBasedAccessValidator" { SECURED } else { "" };
        let described = if name == SCHEMA_VALIDATION { DESCRIBED } else { "" };
        file.push_str(&format!(
            "  /{name}:\n    get: &{name}\n{secured}      x-penstock-policies:\n        {flow}:\n          - {item}\n{described}    post: *{name}\n"
        ));
    }
    if file.contains(SECURED) {
        file.push_str(SCHEMES);
    }
    file
}
