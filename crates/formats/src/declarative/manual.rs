//! The manual of `penstock.toml`: every key with its type, default and meaning. Other keys are
//! rejected.

use std::collections::BTreeSet;

use super::snippets::SNIPPETS;

/// A key with its table, its type and default, its meaning.
pub(super) type Row = (&'static str, &'static str, &'static str);

/// The keys of `penstock.toml`. `docs/configuration.md` is generated from it
/// ([`manual_markdown`]), and a test checks that they agree.
#[rustfmt::skip]
pub const MANUAL: &[(&str, &str, &str)] = &[
    ("gateway.http", "address and port; absent: no listener", "Cleartext listener: HTTP/1.1, and HTTP/2 with prior knowledge. Without `[integration]`, at least one of `http` and `https` is required."),
    ("gateway.https", "address and port; absent: no listener", "TLS 1.2 and 1.3 listener: HTTP/1.1 and HTTP/2, negotiated by ALPN."),
    ("gateway.workers", "1 to 256; default: the CPUs that affinity and cgroup quota allow", "Worker threads. Each has its own listeners, upstream connections and token cache."),
    ("gateway.apis", "list of paths; default: [\"apis/\"], or [] without a listener", "Files and folders of API descriptions, watched for changes. The API of a removed file is no longer served. If a whole folder listed here cannot be read, or is replaced by an empty one (an unmounted volume), its APIs stay in use and an error is logged; SIGHUP removes those of an empty folder."),
    ("gateway.plans", "list of paths; default: [\"plans.toml\"], if the file exists", "Files of plans, described below, watched for changes: TOML, or YAML such as the `policies.yaml` of API Microgateway. They add to the plans that WSO2 ships, and replace those of the same name, also those of `control_plane`. docs/quotas.md explains plans."),
    ("gateway.applications", "list of paths; absent, with `control_plane`, too: callers need no subscription", "Files and folders of applications, described below, watched for changes. With this key, a caller needs a subscription of its application to the API, unless the API has `x-penstock-subscription: false`."),
    ("gateway.control_plane.url", "https URL; required in `control_plane`", "Control plane of Penstock whose applications and plans are followed, such as `https://localhost:9443`, written as `control_plane = { url = \"...\", ... }`. As with `applications`, a caller needs a subscription then; both keys can be present (docs/quotas.md). http is allowed only for 127.0.0.1, ::1 and localhost. The last state is kept in `data`."),
    ("gateway.control_plane.client_id", "string; required in `control_plane`", "The gateway's own client there, registered with the scope `penstock_gateway`, for HTTP Basic."),
    ("gateway.control_plane.client_secret.env", "name of an environment variable", "Client secret, written as `client_secret = { env = \"NAME\" }`."),
    ("gateway.control_plane.client_secret.file", "path", "The same from a file, written as `client_secret = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("gateway.data", "path; default: \"data/\"", "Folder for generated keys and certificates."),
    ("gateway.trusted_proxies", "list of IP addresses and CIDR blocks; default: []", "Proxies whose `X-Forwarded-*`, `Forwarded`, `X-Real-IP` and similar fields are kept. From all other clients they are removed."),
    ("gateway.fault_status", "\"wso2\" or \"http\"; default: \"wso2\"", "Status of responses to upstream faults: `wso2` sends 500, `http` sends 502, 503 or 504. The body is the same."),
    ("gateway.http2", "true, false, \"http\" or \"https\"; default: true", "Listeners that accept HTTP/2 from clients, besides HTTP/1.1: both, none, only the cleartext one (by prior knowledge), or only the one with TLS (by ALPN). Needs a restart."),
    ("gateway.dpop_nonce", "true or false; default: false", "Whether DPoP proofs have to have a nonce (RFC 9449 section 9), which the gateway gives out and changes every two minutes, so that no proof can be made long before it is used. A client without one is told to use it, and repeats its request. Each gateway has nonces of its own."),
    ("gateway.strict_paths", "true or false; default: false", "Whether APIs reject, with 400, every path that an upstream could interpret differently from the gateway: with an empty segment (`//`), a parameter (`;`), an escaped separator (`%2F`, `%5C`), a dot segment or a needless escape (`%2e`, `%61`). The routed path is then exactly the path that was sent. An API's `x-penstock-strict-paths` takes precedence. The file that `penstock up` writes sets it to true."),
    ("gateway.drain_s", "0 to 3600 seconds; default: 20", "Time for requests in progress to finish after SIGTERM. Then their connections are closed. The service manager must wait longer before it kills the process: systemd (`TimeoutStopSec`, 45 s in the packaged unit) and Kubernetes (`terminationGracePeriodSeconds`, 30 s by default)."),
    ("gateway.response_head_ms", "1 to 3600000 milliseconds; default: 120000", "Longest wait for an upstream's response head, unless the API sets its own. Longer: fault 101504. A body that keeps flowing has no limit."),
    ("gateway.try_ms", "1 to 3600000 milliseconds; absent: only `response_head_ms` limits a try", "Longest wait for the response head of one try, unless the API sets its own. Longer: a request that is safe to repeat is retried, any other gets fault 101504."),
    ("gateway.retry_budget_percent", "0 to 100; default: 20", "Retries as a percentage of the requests to an endpoint set, per worker, besides one a second and a reserve of 10. More: the first failure is the response."),
    ("gateway.connect_ms", "1 to 3600000 milliseconds; default: 5000", "Longest wait for an upstream connection, TLS handshake included. Longer: fault 101508."),
    ("gateway.source_addresses", "list of IP addresses; default: [], the kernel's choice", "Addresses of this machine that connections to upstreams come from, at most 64: those of requests, health checks, introspection, and fetches of key sets and feeds. Each connection comes from the one with the fewest connections to its destination, among those of the same family. With one address, a destination gets at most half of the local ports (14,116 by default), each further address adds as many. Connections to loopback addresses come from loopback addresses only. The gateway does not start with an address that the machine does not have; a change to one keeps the previous list, and an error is logged."),
    ("gateway.nameservers", "list of IP addresses, with or without port; default: those of /etc/resolv.conf", "Name servers that look up the host names of endpoints, after /etc/hosts. With this key, search domains are not used. Needs a restart."),
    ("gateway.stall_ms", "1 to 3600000 milliseconds; default: 60000", "Longest time without any progress of a body. Longer: the connection is closed, after a 408 if no response has been sent."),
    ("gateway.head_ms", "1 to 3600000 milliseconds; default: 15000", "Longest wait for a complete request head, from its first byte. Longer: 408."),
    ("gateway.idle_ms", "1 to 3600000 milliseconds; default: 60000", "Longest wait for the next request on an idle connection. Longer: the connection is closed."),
    ("gateway.connections_max", "1 to 20000; default: 20000", "Maximum number of client connections per worker. More: 503 and close."),
    ("gateway.client_connections_max", "1 to 20000; default: 10000", "Maximum number of connections of one client per worker; a client is an IPv4 address or a /64 of IPv6. More: 503 and close. As many of its HTTP/2 streams may be open, or `client_requests_max` if that is more; others are refused (`REFUSED_STREAM`), and the client may send them again. Clients in `trusted_proxies` have no such limit."),
    ("gateway.client_requests_max", "1 to 16384; default: 2048", "Maximum number of requests of one client in progress per worker, each with an upstream connection. More wait for up to `connect_ms`, then 429. Clients in `trusted_proxies` have no such limit."),
    ("gateway.api_requests_max", "1 to 16384; default: 4096", "Maximum number of requests to one API in progress per worker. More wait for up to `connect_ms`, then 503."),
    ("gateway.endpoint_waiting_max", "1 to 16384; default: 3072", "Maximum number of requests per worker that wait for a connection to one endpoint, or for the head of its response. More: the next endpoint of the set, or 303001 at once (500; 503 with `fault_status = \"http\"`), so that an endpoint that hangs does not hold the places of others."),
    ("gateway.min_rate", "0 to 1000000 bytes per second; default: 100", "Slower progress of a body does not extend `stall_ms`: a client that takes or sends a few bytes now and then is disconnected. It applies to request bodies, apart from `application/grpc`, and to responses that their client does not take; a response in which the upstream sends nothing is not affected, nor is a tunnel. 0: any progress counts."),
    ("gateway.held_body_bytes_max", "1 to 1073741824 bytes; default: 10485760", "Largest body that is held in memory, because mediation reads it. Larger: 413; for a response 502001."),
    ("gateway.held_bytes_max", "1 to 68719476736 bytes; default: 100663296", "Memory for all held bodies, per worker; a client may use at most two thirds of it. More: a body waits for `connect_ms`, then 503001."),
    ("integration.http", "address and port; absent: no listener", "Cleartext listener of Synapse's proxy services (`/services/NAME`) and APIs; Micro Integrator's port is 8290. At least one of `http` and `https` is required in this section. Needs a restart."),
    ("integration.https", "address and port; absent: no listener", "TLS listener of the same, with the certificates of `[tls]`; Micro Integrator's port is 8253. Needs a restart."),
    ("integration.http2", "true, false, \"http\" or \"https\"; default: as `gateway.http2`", "Listeners of this section, and of inbound endpoints, that accept HTTP/2 from clients, besides HTTP/1.1. Needs a restart."),
    ("integration.artifacts", "list of paths; default: [\"artifacts/\"]", "Synapse artefacts, watched for changes like `gateway.apis`: XML files, `.car` archives, and folders in Micro Integrator's layouts. docs/integration.md lists the files that are read. An archive is read completely or not at all."),
    ("integration.cors_origins", "list of origins; absent: no CORS fields", "Origins whose pages may use the Synapse APIs, as in `x-wso2-cors`: `https://host`, `https://*.host` or `*`. Preflights are answered, and responses get CORS fields. It replaces `synapse.rest.CORSConfig.Access-Control-Allow-Origin` of Micro Integrator."),
    ("integration.cors_headers", "list of names; default: []", "Header fields that such pages may send; `*`: any. It replaces `synapse.rest.CORSConfig.Access-Control-Allow-Headers`."),
    ("integration.json_auto_primitive", "true or false; default: true", "When XML becomes JSON, texts that spell a number, `true`, `false` or `null` become such values; false: strings. The keys `json_*` replace properties of Synapse, here `synapse.commons.json.output.autoPrimitive` (`synapse.enable_auto_primitive` of Micro Integrator's `deployment.toml`)."),
    ("integration.json_string_pattern", "regular expression; absent: none", "Numbers that it matches as a whole stay strings, such as `'0.*|[0-9]{10,}'`. It replaces `synapse.commons.json.output.disableAutoPrimitive.regex`."),
    ("integration.json_auto_array", "true or false; default: true", "Several elements of one name become an array; false: each becomes a member of its own, so that a name occurs several times. It replaces `synapse.commons.json.output.jsonoutAutoArray`."),
    ("integration.json_read_multiple", "true or false; default: true", "`<?xml-multiple name?>` makes an array of the elements of that name. It replaces `synapse.commons.json.output.jsonoutMultiplePI`."),
    ("integration.json_write_multiple", "true or false; default: false", "When JSON becomes XML, arrays get `<?xml-multiple name?>`, so that one element, or none, is an array again. It replaces `synapse.commons.json.output.xmloutMultiplePI`."),
    ("integration.json_null_for_empty", "true or false; default: true", "Elements without content become `null`; false: empty strings. It replaces `synapse.commons.enableXmlNullForEmptyElement`."),
    ("integration.json_nil", "true or false; default: false", "`null` becomes an element with `xsi:nil=\"true\"`, and one with it becomes `null`. It replaces `synapse.commons.enableXmlNilReadWrite`."),
    ("integration.json_namespaces", "true or false; default: false", "Names of elements and attributes keep their prefix: `ns_name`. It replaces `synapse.commons.json.preserve.namespace`."),
    ("integration.json_namespace_separator", "one character; default: \"_\"", "The character behind the prefix. It replaces `synapse.commons.json.output.namespaceSepChar`."),
    ("integration.json_namespace_declarations", "true or false; default: false", "With `json_namespaces`, declarations become members: `@xmlns_ns`. It replaces `synapse.commons.json.output.enableNSDeclarations`."),
    ("service.name", "string; required in `[[service]]`", "Name of a proxy service, or of a Synapse API: `orders` for every version of it, `orders:v1.0` for one. An inbound endpoint's own sequence, and the sequence `main`, have such a section by their name, too. Services without a section are open and have no plans, as in Micro Integrator."),
    ("service.security", "list of names of issuers; default: []", "`name` of each `[[issuer]]` whose tokens the service accepts. A request needs one of them in `Authorization`, which is not passed to endpoints then. []: the service needs no token."),
    ("service.scopes", "list of strings; default: []", "Scopes of which a token needs one. Without any of them: 403, 900910."),
    ("service.plans", "list of names of plans; default: []", "Plans for all requests to the service together; all of them apply. Beyond the limits of one: 429, 900800."),
    ("tls.cert", "path of a PEM file; absent: generated and kept in `data`", "Certificate chain of the https listener, leaf first. Reloaded when it changes."),
    ("tls.key", "path of a PEM file; required with `cert`", "Private key: PKCS#8, PKCS#1 or SEC1."),
    ("tls.client_ca", "list of paths of PEM files; absent: no client certificates", "CAs whose certificates clients may present (mutual TLS); a certificate that is listed is itself accepted, too. One from another CA, or one that has expired, fails the handshake. An API requires one with `x-wso2-mutual-ssl: mandatory`. Needs a restart."),
    ("tls.client_certificate", "\"optional\" or \"required\"; default: \"optional\"", "With `required`, a handshake without a client certificate fails."),
    ("tls.client_certificate_header", "name of a header field; absent: none", "The field in which `trusted_proxies` that end TLS send the certificates of their clients, such as `X-WSO2-CLIENT-CERTIFICATE`: PEM, percent-encoded, or base64 of the DER form. It is verified by `client_ca` as in a handshake, and counts in place of the proxy's own certificate; without it, the client has none. The field is removed from all requests; from other clients it is ignored. Needs a restart."),
    ("tls.forward_client_certificate", "true or false; default: false", "Whether upstreams get the client's certificate, as base64 of its DER form, in the field `X-WSO2-CLIENT-CERTIFICATE`. The field is removed from clients' requests, except those of `trusted_proxies` without `client_certificate_header`."),
    ("tls.sni.hosts", "list of host names", "Server names that select this certificate. `*.example.org` matches exactly one label."),
    ("tls.sni.cert", "path of a PEM file", "Certificate chain for these names, leaf first."),
    ("tls.sni.key", "path of a PEM file", "Private key."),
    ("admin.listen", "address and port; absent: no listener", "Listener of `/healthz`, `/readyz`, `/metrics` and `/diagnostics`. It has no authentication: keep it on loopback or a private network."),
    ("control.https", "address and port; required", "TLS listener of the control plane, which issues tokens (docs/key-manager.md); WSO2's port is 9443. It uses the certificates of `[tls]`. The section is read by `penstock control` and `penstock up`. Changes of it need a restart, except for those of `keys`."),
    ("control.issuer", "https URL; default: https://localhost:PORT/oauth2/token", "The `iss` claim of its tokens, and `iss` of the `[[issuer]]` that accepts them. The scheme, host and port are also those of the addresses in its discovery document."),
    ("control.keys", "list of paths of PEM files; required with a database server; default: a key that is generated and kept in `gateway.data`", "Private keys: RSA (RS256), P-256 (ES256) or Ed25519 (EdDSA). The first signs tokens; the public keys of all are published. To replace a key, add the new one last; when all gateways have fetched it, ten minutes later, move it to the front; and remove the old one when its last token has expired. `penstock control` reads them again on SIGHUP."),
    ("control.access_token_s", "number of seconds, 60 to 2592000; default: 3600", "Lifetime of access tokens and ID tokens, at most `refresh_token_s`. A gateway without `revocations` accepts a token for so long after it was revoked."),
    ("control.refresh_token_s", "number of seconds, 60 to 315360000; default: 86400", "Lifetime of refresh tokens. A user of a `[[control.provider]]` signs in again after that time."),
    ("control.admin_password.env", "name of an environment variable", "Password of the user `admin`, who is created at the first start, written as `admin_password = { env = \"NAME\" }`. Absent: a password is generated and printed once, and has to be replaced at `/account/password`. Later changes have no effect: `penstock control --config FILE user password admin` sets a new one."),
    ("control.admin_password.file", "path", "The same from a file, written as `admin_password = { file = \"path\" }`. A trailing newline is not part of the password."),
    ("control.client_ca", "list of paths of PEM files; absent: no certificates of clients", "With this key, OAuth2 clients may authenticate by a certificate (RFC 8705): one that these CAs issued, or one that the client registered, for which the list can be empty. Browsers that have certificates may ask their users for one then. Needs a restart."),
    ("control.trusted_proxies", "list of IP addresses and CIDR blocks; default: []", "Gateways and proxies whose `X-Forwarded-For` is trusted, for the pauses after failed attempts and for the log: list the gateways that forward `/token` or send passwords of their clients (docs/key-manager.md), and proxies in front of them. Certificates of their clients do not count. They have no limit of connections of one address. Needs a restart."),
    ("control.cors_origins", "list of origins; default: []", "Origins, such as `https://app.example`, whose pages may send requests to the endpoints for tokens, revocation, keys, user info and discovery, and read the responses (CORS). `*`: all. Needs a restart."),
    ("control.access_token_claims", "list of claims; default: []", "Claims of users, of `[[control.ldap.claim]]` and `[[control.provider.claim]]`, that are in access tokens that are JWTs, too, and thereby in the backend JWT. Needs a restart."),
    ("control.scope.name", "string; required in this section", "A scope that is granted for users only if they have one of `roles`, besides being registered for the client. Without such a section, a scope is granted for all users. Tokens without a user get it as registered. Changes of this section need a restart."),
    ("control.scope.roles", "list of strings; required in this section", "Roles of the users who get it: those of `[[control.ldap.role]]`, `[[control.provider.role]]` and `penstock control user roles`; `admin` is that of administrators."),
    ("control.trusted_issuer.name", "string; required in this section", "Name of an issuer whose JWTs are exchanged for tokens by the grant `jwt-bearer` (docs/tokens.md); there can be several. A user `ann` is `NAME/ann` in tokens. Changes of this section need a restart."),
    ("control.trusted_issuer.iss", "string; required in this section", "The `iss` claim of its JWTs."),
    ("control.trusted_issuer.jwks", "path or https URL; required in this section", "Public keys of the issuer, a JWK set. It is read when a key is first needed, then once an hour, and when none of its keys verifies the signature of a JWT, at most every 30 seconds."),
    ("control.api_keys.validity_s", "number of seconds, 60 to 315360000; default: 86400", "Users can get API keys with their passwords at `/oauth2/apikey` (docs/api-keys.md), for at most so long. Absent section: they cannot. Changes of this section need a restart."),
    ("control.api_keys.api.name", "string; required in this section", "Name of an API for which the keys are valid, as `title` in its description. Without `[[control.api_keys.api]]`: all that accept API keys without a subscription."),
    ("control.api_keys.api.versions", "list of strings; default: all", "Versions of the API."),
    ("control.ldap.urls", "list of URLs; required in this section", "LDAP directory whose users can sign in as those of the key manager do (docs/key-manager.md): `ldaps://HOST`, or `ldap://HOST` with `start_tls`; `ldap://` alone only for 127.0.0.1, ::1 and localhost. All servers have the same entries; another one is used when one fails. Their certificates are verified with the CAs of `[upstream_tls]`. The keys of this section need a restart."),
    ("control.ldap.start_tls", "true or false; default: false", "Whether TLS begins on connections of `ldap://` (StartTLS)."),
    ("control.ldap.bind_dn", "distinguished name; absent: searches are anonymous", "The entry of the key manager, which may search users and groups, such as `cn=penstock,dc=example,dc=org`."),
    ("control.ldap.bind_password.env", "name of an environment variable", "Password of `bind_dn`, written as `bind_password = { env = \"NAME\" }`."),
    ("control.ldap.bind_password.file", "path", "The same from a file, written as `bind_password = { file = \"path\" }`. A trailing newline is not part of the password."),
    ("control.ldap.base", "distinguished name; required in this section", "The entry below which users are searched."),
    ("control.ldap.filter", "LDAP filter; default: \"(uid={user})\"", "The filter (RFC 4515) that finds the entry of a user. `{user}` is the name with which the user signs in. With Active Directory: `(&(sAMAccountName={user})(!(userAccountControl:1.2.840.113556.1.4.803:=2)))`."),
    ("control.ldap.name", "attribute; default: \"uid\"", "The attribute with the user's name in tokens. With Active Directory: `sAMAccountName`."),
    ("control.ldap.id", "attribute; default: \"entryUUID\"", "The attribute that identifies a user permanently. If a name is given to another person, the tokens of the earlier user are revoked. With Active Directory: `objectGUID`."),
    ("control.ldap.groups", "attribute; default: \"memberOf\", with `group_base` \"cn\"", "The attribute of the user's entry with the distinguished names of the user's groups; with `group_base`, the attribute of each group with its name."),
    ("control.ldap.group_base", "distinguished name; absent: groups are not searched", "The entry below which the groups of a user are searched."),
    ("control.ldap.group_filter", "LDAP filter; default: \"(member={dn})\"", "The filter that finds them. `{dn}` is the distinguished name of the user, `{user}` the name."),
    ("control.ldap.claim.name", "string; required in this section", "A claim of ID tokens and of `/oauth2/userinfo`, such as `email`."),
    ("control.ldap.claim.from", "attribute; required in this section", "The attribute with its value, such as `mail`. If it has several, the claim is the first."),
    ("control.ldap.role.name", "string; required in this section", "A role, which is in the claim `roles` of ID tokens and access tokens. `admin` is that of users who may register clients, and read and write all applications."),
    ("control.ldap.role.groups", "list of strings; required in this section", "The groups whose members have the role, as `groups` names them."),
    ("control.provider.name", "string; required in this section", "Name of an OpenID Connect provider at which users of the key manager can sign in (docs/key-manager.md); there can be several. A user `ann` is `NAME/ann` in tokens. Lower-case letters, digits and hyphens. Changes of this section need a restart."),
    ("control.provider.title", "string; default: `name`", "Name of the provider on the sign-in page: `Continue with TITLE`."),
    ("control.provider.issuer", "https URL; required in this section", "The `iss` of its ID tokens; its discovery document is below this URL, at `/.well-known/openid-configuration`. The certificate of its server is verified with the CAs of `[upstream_tls]`. http is allowed only for 127.0.0.1, ::1 and localhost."),
    ("control.provider.client_id", "string; required in this section", "The client at the provider that stands for the key manager. The redirect URI is `https://HOST:9443/oauth2/callback/NAME`, with scheme, host and port of `control.issuer`."),
    ("control.provider.client_secret.env", "name of an environment variable", "Client secret, for HTTP Basic, written as `client_secret = { env = \"NAME\" }`."),
    ("control.provider.client_secret.file", "path", "The same from a file, written as `client_secret = { file = \"path\" }`. A trailing newline is not part of the secret."),
    ("control.provider.scopes", "list of strings; default: []", "Requested scopes besides `openid`, such as `profile` and `email`."),
    ("control.provider.user", "claim; default: \"preferred_username\"", "The claim with the name of a user, in the ID token or at the userinfo endpoint. A name belongs to the first user (`sub`) who signs in with it."),
    ("control.provider.groups", "claim; default: \"groups\"", "The claim with the groups of a user: a list of strings, or a string. `realm_access.roles` is the member `roles` of the claim `realm_access`."),
    ("control.provider.claim.name", "string; required in this section", "A claim of ID tokens of the key manager and of `/oauth2/userinfo`, such as `email`."),
    ("control.provider.claim.from", "claim; required in this section", "The claim of the provider with its value, a string."),
    ("control.provider.role.name", "string; required in this section", "A role, as in `[[control.ldap.role]]`."),
    ("control.provider.role.groups", "list of strings; required in this section", "The groups whose members have the role."),
    ("store.url", "URL; default: \"sqlite:penstock.db\"", "Database of the control plane: `sqlite:FILE`, or a PostgreSQL, MySQL or MariaDB server, which several instances can share: `postgres://USER:PASSWORD@HOST/DATABASE` or `mysql://USER:PASSWORD@HOST/DATABASE` ([TLS and versions](key-manager.md#use-a-database-server)). Tables are created and updated at every start. Needs a restart."),
    ("store.url.env", "name of an environment variable", "A URL with a password, written as `url = { env = \"NAME\" }`."),
    ("store.url.file", "path", "The same from a file, written as `url = { file = \"path\" }`. A trailing newline is not part of the URL."),
    ("quotas.redis", "URL; required in this section", "Redis or Valkey, by which gateways share the counts of their limits: `redis://HOST:6379`, or `rediss://HOST:6379` for TLS; a user (`redis://USER@HOST`) and the number of a database (`/1`) may be named. No request waits for it; docs/quotas.md explains by how much limits may be exceeded. Absent section: each gateway counts alone. The keys of this section need a restart."),
    ("quotas.password.env", "name of an environment variable", "Password, written as `password = { env = \"NAME\" }`."),
    ("quotas.password.file", "path", "The same from a file, written as `password = { file = \"path\" }`. A trailing newline is not part of the password."),
    ("quotas.ca", "list of paths of PEM files; default: the CAs of the operating system", "The only CAs that may have issued its certificate."),
    ("quotas.when_down", "\"local\", \"open\" or \"closed\"; default: \"local\"", "While it does not answer: `local` counts in each gateway alone, from the counts that it knows; `open` admits every request; `closed` rejects, with 429, every request to which a limit applies."),
    ("backend_jwt.key.file", "path", "Private key in PEM (PKCS#8, PKCS#1 or SEC1) that signs the JWT by which upstreams learn who the caller is, written as `key = { file = \"path\" }`. Watched for changes. Absent section: upstreams get none. docs/upstream-credentials.md has its claims."),
    ("backend_jwt.key.env", "name of an environment variable", "The same from an environment variable, written as `key = { env = \"NAME\" }`."),
    ("backend_jwt.certificate", "path of a PEM file; optional", "The certificate of the key, whose thumbprints are in the header of the JWT then: `x5t`, as WSO2 writes it, and `x5t#S256`. Watched for changes."),
    ("backend_jwt.header", "name of a header field; default: \"X-JWT-Assertion\"", "The field that carries the JWT. It is removed from clients' requests."),
    ("backend_jwt.issuer", "string; default: \"wso2.org/products/am\"", "The `iss` of the JWT."),
    ("backend_jwt.dialect", "string; default: \"http://wso2.org/claims\"", "Prefix of the names of WSO2's claims."),
    ("backend_jwt.expires_s", "60 to 86,400 seconds; default: 900", "Time after which it expires. It is signed again shortly before, once for each caller, API and worker."),
    ("snapshot.directory", "path; default: `snapshots/` in `gateway.data`, if that is written", "Folder of snapshots of the served configuration: API descriptions, artefacts, applications, the files that they refer to, plans, and the public keys of issuers. One is written shortly after each change; the two newest are kept. If a source cannot be read when the gateway starts, it serves the source's content in the newest undamaged snapshot until the source is back (docs/resilience.md). Each gateway needs its own folder. Without this key and `gateway.data`, none are written. Needs a restart."),
    ("snapshot.enabled", "true or false; default: true", "Whether snapshots are written, and read at the start. Needs a restart."),
    ("upstream_tls.ca", "list of paths of PEM files; default: []", "Additional CAs for upstream certificates."),
    ("upstream_tls.system_roots", "true or false; default: true", "Whether the CAs of the operating system are trusted. Upstream certificates are always verified."),
    ("upstream_tls.endpoint.hosts", "list of host names and IP addresses", "Hosts of the endpoints that the section is for. `*.example.org` matches exactly one label."),
    ("upstream_tls.endpoint.cert", "path of a PEM file; absent: no client certificate", "Certificate chain of the gateway, leaf first, for endpoints that require one (mutual TLS). Reloaded when it changes."),
    ("upstream_tls.endpoint.key", "path of a PEM file; required with `cert`", "Private key of the certificate: PKCS#8, PKCS#1 or SEC1. Reloaded when it changes."),
    ("upstream_tls.endpoint.ca", "list of paths of PEM files; default: the CAs of [upstream_tls]", "The only CAs that may have issued the certificates of these endpoints. Reloaded when they change."),
    ("access_log.to", "\"stdout\" or \"file\"; absent: no access log", "Destination of the access log, one JSON object per line and request. `auth_failure` is the reason why a credential was rejected, such as `expired`; otherwise it is absent. docs/life-of-a-request.md lists the reasons."),
    ("access_log.file", "path; required with `to = \"file\"`", "File to append to."),
    ("log.level", "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"; default: \"info\"", "Level of the log on stderr. Libraries that Penstock uses log errors only."),
    ("log.format", "\"text\" or \"json\"; default: \"text\"", "Format of the log on stderr."),
    ("issuer.name", "string; default: `issuer`", "Name in logs and metrics, unique."),
    ("issuer.issuer", "https URL", "The issuer by its discovery document, in place of `iss` and `jwks`: the document is at this URL with `/.well-known/openid-configuration` at its end, or with `/.well-known/oauth-authorization-server` before its path, and must have the same `issuer`, byte for byte. http is allowed only for 127.0.0.1, ::1 and localhost."),
    ("issuer.iss", "string", "The `iss` claim of its tokens, compared byte for byte, unique."),
    ("issuer.jwks", "path or https URL", "Public keys as a JWK set. A URL is fetched and refreshed once for all workers; http is allowed only for 127.0.0.1, ::1 and localhost. Each issuer needs `issuer`, `jwks`, `pem`, `secret` or `introspection`."),
    ("issuer.pem", "path of a PEM file", "Public key, or a certificate that contains it."),
    ("issuer.secret.env", "name of an environment variable", "Shared secret for HS256, HS384 and HS512, written as `secret = { env = \"NAME\" }`. It must be at least as long as the hash: 32, 48 or 64 bytes."),
    ("issuer.secret.file", "path", "The same from a file, written as `secret = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("issuer.introspection.url", "https URL; required in `introspection`", "Introspection endpoint (RFC 7662) that is asked about opaque tokens, written as `introspection = { url = \"...\", ... }`. http is allowed only for 127.0.0.1, ::1 and localhost. docs/tokens.md explains opaque tokens."),
    ("issuer.introspection.client_id", "string; required in `introspection`", "The gateway's own client at the issuer, for HTTP Basic."),
    ("issuer.introspection.client_secret.env", "name of an environment variable", "Client secret, written as `client_secret = { env = \"NAME\" }`."),
    ("issuer.introspection.client_secret.file", "path", "The same from a file, written as `client_secret = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("issuer.introspection.cache_s", "1 to 900 seconds; default: 900", "Time after which an active token is asked about again, if it has not expired before. A token that is revoked at the issuer may be accepted that much longer."),
    ("issuer.passwords.url", "https URL; required in `passwords`", "Token endpoint at which the names and passwords that clients send by HTTP Basic are exchanged for tokens of this issuer (grant `password`), written as `passwords = { url = \"...\", ... }`; one issuer may have it. http is allowed only for 127.0.0.1, ::1 and localhost. docs/api-keys.md describes the access of such users."),
    ("issuer.passwords.client_id", "string; required in `passwords`", "The gateway's own client at the issuer, for HTTP Basic, which is registered for the grant `password`."),
    ("issuer.passwords.client_secret.env", "name of an environment variable", "Client secret, written as `client_secret = { env = \"NAME\" }`."),
    ("issuer.passwords.client_secret.file", "path", "The same from a file, written as `client_secret = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("issuer.passwords.scopes", "list of strings; default: []", "Scopes that the gateway asks for, which the users then have."),
    ("issuer.revocations.url", "https URL; required in `revocations`", "Endpoint of Penstock's key manager, `/oauth2/revocations`, at which the tokens that it revokes are followed, written as `revocations = { url = \"...\", ... }`. http is allowed only for 127.0.0.1, ::1 and localhost. The last state is kept in `gateway.data`."),
    ("issuer.revocations.client_id", "string; required in `revocations`", "The gateway's own client at the issuer, for HTTP Basic."),
    ("issuer.revocations.client_secret.env", "name of an environment variable", "Client secret, written as `client_secret = { env = \"NAME\" }`."),
    ("issuer.revocations.client_secret.file", "path", "The same from a file, written as `client_secret = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("issuer.algorithms", "list; default: all asymmetric algorithms that match the keys", "Accepted signature algorithms: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA. With `secret`, where the list is required: HS256, HS384, HS512."),
    ("issuer.audiences", "list of strings; default: [], not checked", "The `aud` claim of a token must contain one of these."),
    ("issuer.leeway_s", "0 to 300 seconds; default: 0", "Tolerated clock skew for `exp` and `nbf`; at least 5 s for `nbf`."),
    ("issuer.padded_segments", "true or false; default: false", "Whether tokens may use base64url with `=` padding, as WSO2's own generator does."),
    ("issuer.allow_unlimited", "true or false; default: false", "Whether tokens without `exp` are accepted. Such a token never expires: only removing the issuer or its key invalidates it."),
    ("issuer.api_keys", "true or false; default: false", "Whether its tokens are API keys, such as those of API Microgateway, which are accepted where an API asks for a key, and nowhere else. A token whose claim `token_type` is `apiKey`, as in API Manager, is one without this. Another issuer may have the same `iss`."),
    ("issuer.internal_keys", "true or false; default: false", "Whether its tokens with the claim `token_type` `InternalKey` are accepted in `Internal-Key`, with which API Manager's publisher tests an API in any lifecycle state. Another issuer may have the same `iss`. Without such an issuer, `Internal-Key` has no effect."),
    ("credential.name", "string; required in `[[credential]]`", "Name of a credential with which the gateway authenticates itself at upstreams: `securityConfig: {credential: NAME}` of an endpoint set."),
    ("credential.type", "`basic`, `digest`, `api_key`, `oauth2` or `aws`; required in `[[credential]]`", "The credential that upstreams receive: `username` and `password` by HTTP Basic or Digest; a `key`; a token that the gateway obtains with the grant `client_credentials`; or a signature of AWS (version 4). `digest` and `aws` are for endpoint sets with one endpoint."),
    ("credential.username", "string; required with `basic` and `digest`", "Name of the user."),
    ("credential.password.env", "name of an environment variable", "Password, written as `password = { env = \"NAME\" }`."),
    ("credential.password.file", "path", "The same from a file, written as `password = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("credential.password.vault", "`PATH#FIELD`", "The same from `[vault]`, written as `password = { vault = \"secret/data/a#b\" }`."),
    ("credential.header", "name of a header field; with `api_key`", "The field with the key."),
    ("credential.query", "name of a parameter; with `api_key`", "The parameter of the query with the key, instead of `header`."),
    ("credential.key.env", "name of an environment variable", "The key, written as `key = { env = \"NAME\" }`."),
    ("credential.key.file", "path", "The same from a file, written as `key = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("credential.key.vault", "`PATH#FIELD`", "The same from `[vault]`, written as `key = { vault = \"secret/data/a#b\" }`."),
    ("credential.token_url", "https URL; required with `oauth2`", "Token endpoint of the OAuth2 server. http is allowed only for 127.0.0.1, ::1 and localhost."),
    ("credential.client_id", "string; required with `oauth2`", "The gateway's own client at the server, for HTTP Basic."),
    ("credential.client_secret.env", "name of an environment variable", "Client secret, written as `client_secret = { env = \"NAME\" }`."),
    ("credential.client_secret.file", "path", "The same from a file, written as `client_secret = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("credential.client_secret.vault", "`PATH#FIELD`", "The same from `[vault]`, written as `client_secret = { vault = \"secret/data/a#b\" }`."),
    ("credential.scopes", "list of strings; default: []", "Scopes that the gateway asks for."),
    ("credential.access_key_id", "string; required with `aws`", "The access key."),
    ("credential.secret_access_key.env", "name of an environment variable", "Secret access key, written as `secret_access_key = { env = \"NAME\" }`."),
    ("credential.secret_access_key.file", "path", "The same from a file, written as `secret_access_key = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("credential.secret_access_key.vault", "`PATH#FIELD`", "The same from `[vault]`, written as `secret_access_key = { vault = \"secret/data/a#b\" }`."),
    ("credential.session_token.env", "name of an environment variable", "The session token of temporary credentials, written as `session_token = { env = \"NAME\" }`."),
    ("credential.session_token.file", "path", "The same from a file, written as `session_token = { file = \"path\" }`. Watched for changes."),
    ("credential.session_token.vault", "`PATH#FIELD`", "The same from `[vault]`, written as `session_token = { vault = \"secret/data/a#b\" }`."),
    ("credential.region", "string; required with `aws`", "Region of the endpoint, such as `eu-central-1`."),
    ("credential.service", "string; required with `aws`", "Name of the service in signatures: `s3`, `execute-api`, `lambda`, `bedrock`, ..."),
    ("vault.url", "https URL; required in this section", "HashiCorp Vault, or OpenBao, from which secrets of `[[credential]]` are read (docs/upstream-credentials.md). http is allowed only for 127.0.0.1, ::1 and localhost. `[upstream_tls]` must trust the server's certificate."),
    ("vault.namespace", "string", "Namespace of all paths (Vault Enterprise, OpenBao)."),
    ("vault.refresh_s", "1 to 3600 seconds; default: 60", "How often secrets without a lease are read again."),
    ("vault.token.env", "name of an environment variable", "Token of Vault, written as `token = { env = \"NAME\" }`. It is renewed. Exactly one of `token`, `approle` and `kubernetes` is required."),
    ("vault.token.file", "path", "The same from a file, such as that of a Vault agent, written as `token = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("vault.approle.role_id", "string; required in `approle`", "Login as an AppRole, written as `approle = { role_id = \"...\", secret_id = { file = \"path\" } }`."),
    ("vault.approle.secret_id.env", "name of an environment variable", "Secret ID, written as `secret_id = { env = \"NAME\" }`."),
    ("vault.approle.secret_id.file", "path", "The same from a file, written as `secret_id = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("vault.approle.mount", "path; default: \"approle\"", "Where the method is enabled."),
    ("vault.kubernetes.role", "string; required in `kubernetes`", "Login by the service account of the pod, for this role, written as `kubernetes = { role = \"...\" }`."),
    ("vault.kubernetes.file", "path; default: that of Kubernetes", "File with the token of the service account. Watched for changes."),
    ("vault.kubernetes.mount", "path; default: \"kubernetes\"", "Where the method is enabled."),
    ("login.name", "string; required in `[[login]]`", "Name of a login, where users of browsers sign in (OpenID Connect): `x-penstock-login: NAME` of an API. Lower-case letters, digits and hyphens, as it is part of the names of cookies."),
    ("login.issuer", "https URL; required in `[[login]]`", "The provider, by the `iss` of its tokens. It must be that of an `[[issuer]]` with keys, which verify ID tokens and access tokens. http is allowed only for 127.0.0.1, ::1 and localhost."),
    ("login.authorize_url", "https URL; default: that of the issuer's discovery document", "Where the gateway sends the browsers of users who have to sign in."),
    ("login.token_url", "https URL; required with `authorize_url`", "Where the gateway gets the tokens."),
    ("login.logout_url", "https URL; absent: only the gateway's cookies are removed", "Where the gateway sends the browsers of users who sign out."),
    ("login.revoke_url", "https URL; absent: refresh tokens stay valid", "Where the gateway revokes the refresh token of a user who signs out (RFC 7009)."),
    ("login.client_id", "string; required in `[[login]]`", "The gateway's own client at the provider. The redirect URI is `https://HOST/.login/NAME/callback` for each host at which browsers reach the gateway."),
    ("login.client_secret.env", "name of an environment variable", "Client secret, for HTTP Basic, written as `client_secret = { env = \"NAME\" }`."),
    ("login.client_secret.file", "path", "The same from a file, written as `client_secret = { file = \"path\" }`. A trailing newline is not part of the secret. Watched for changes."),
    ("login.scopes", "list of strings; default: []", "Scopes that the gateway asks for, besides `openid`. Many providers issue no refresh token without `offline_access`."),
    ("login.after_logout", "path; default: \"/\"", "Where a browser returns to when its user has signed out. The provider has to know the URL."),
    ("login.session_s", "1 to 2592000 seconds; default: 28800", "How long a session lasts from sign-in on, however often its token is renewed."),
    ("login.max_age_s", "0 to 2592000 seconds; absent: any", "How long ago a user may have signed in at the provider when a session begins, which is checked in the ID token (`auth_time`). With 0, each session begins with a sign-in there."),
    ("login.key.env", "name of an environment variable", "Secret of at least 32 bytes with which cookies are sealed, written as `key = { env = \"NAME\" }`. Further lines are earlier secrets, which still open cookies. Default: a secret that is generated and kept in `gateway.data`, as `session.key`; several gateways need the same."),
    ("login.key.file", "path", "The same from a file, written as `key = { file = \"path\" }`. Watched for changes."),
    ("user.name", "string; required in `[[user]]`", "Name of a user who may call APIs with a password (HTTP Basic), where they ask for one. It has no colon."),
    ("user.password_hash", "string; required in `[[user]]`", "Hash of the password, by argon2id, in PHC string format: `printf %s \"$password\" \\| argon2 \"$(openssl rand -hex 8)\" -id -t 2 -k 19456 -p 1 -e` prints one. Give all users the same `t`, `k` and `p`."),
    ("user.scopes", "list of strings; default: []", "Scopes that the user has, for operations that require one."),
];

/// The keys of plan files.
#[rustfmt::skip]
pub(super) const PLANS: &[Row] = &[
    ("plan.name", "string", "Name, unique; case makes no difference."),
    ("plan.limits.requests", "integer", "Requests within each window. Each limit has `requests`, `kilobytes`, or `amount` and `of`."),
    ("plan.limits.kilobytes", "integer", "Kilobytes (1,024 bytes) within each window: bodies of requests, and responses."),
    ("plan.limits.amount", "integer", "Amount of `of` that may be used within each window."),
    ("plan.limits.of", "\"response_header:NAME\"", "The counted quantity: the number in this header field of responses. docs/quotas.md explains it."),
    ("plan.limits.per", "such as \"1s\", \"10m\", \"1h\", \"1d\", \"1mo\", \"1y\"", "Length of the window. A month has 30 days, a year 365."),
    ("plan.limits.by", "\"user\", \"address\", \"api\", \"header:NAME\", \"query:NAME\" or \"claim:NAME\", or a list of them; absent: one count", "Count separately for each user, client address, API, or value that requests have; for a list, each combination of values. docs/quotas.md explains them."),
    ("plan.burst.requests", "integer", "Requests within each short window, written as `burst = { requests = 50, per = \"1s\" }`."),
    ("plan.burst.per", "such as \"1s\"", "Length of the window."),
    ("plan.conditions.when.addresses", "list of IP addresses and CIDR blocks", "Clients that the group is for, written as `conditions = [{ when = [...], limits = [...] }]`. The first group whose conditions are all met replaces the limits of the plan."),
    ("plan.conditions.when.header", "string", "Name of a header field that must have the `value`."),
    ("plan.conditions.when.query", "string", "Name of a parameter of the query that must have it."),
    ("plan.conditions.when.claim", "string", "Name of a claim of the token that must have it."),
    ("plan.conditions.when.value", "string", "The value; `*` stands for anything but spaces."),
    ("plan.conditions.when.inverted", "true or false; default: false", "Whether the condition must not be met."),
    ("plan.conditions.limits.requests", "integer", "Requests within each window, for requests of the group."),
    ("plan.conditions.limits.kilobytes", "integer", "The same for kilobytes."),
    ("plan.conditions.limits.amount", "integer", "Amount of `of` that may be used within each window."),
    ("plan.conditions.limits.of", "as in the plan", "The counted quantity."),
    ("plan.conditions.limits.per", "such as \"1m\"", "Length of the window."),
    ("plan.conditions.limits.by", "as in the plan", "The parts of requests that are counted separately."),
    ("custom.plan", "name of a plan; required in `[[custom]]`", "Plan for requests to all APIs, besides all others. Beyond its limits: 429, 900806."),
    ("custom.api", "path; absent: all APIs", "Base path of the only API that the plan is for."),
    ("deny.api", "path", "Base path of an API whose requests are all denied. Each [[deny]] has one of `api`, `application`, `user` and `addresses`; its requests get 403, 900805."),
    ("deny.application", "string", "Name of an application that may not call."),
    ("deny.user", "string", "`sub` of tokens that may not call."),
    ("deny.addresses", "list of IP addresses and CIDR blocks", "Clients that may not call."),
    ("deny.inverted", "true or false; default: false", "With `addresses`: all other clients may not call."),
];

/// The keys of an application's file.
#[rustfmt::skip]
pub(super) const APPLICATION: &[Row] = &[
    ("application.name", "string", "Name, unique."),
    ("application.owner", "string; optional", "Who owns it."),
    ("application.plan", "name of a plan; absent: unlimited", "Plan for all requests of the application."),
    ("application.attributes", "table of strings; default: {}", "Any names and values, which upstreams get in the backend JWT as `applicationAttributes`: `attributes = { team = \"billing\" }`. At most 32, with 2,048 bytes together."),
    ("application.keys.client_id", "string", "`client_id`, or else `azp`, `cid` or `appid`, of the tokens of the application. Each key has either `client_id` or `api_key_sha256`."),
    ("application.keys.api_key_sha256", "64 hexadecimal digits", "SHA-256 hash of an API key."),
    ("application.keys.addresses", "list of IP addresses and CIDR blocks; absent: all", "With `api_key_sha256`: addresses of clients that may use the key."),
    ("application.keys.referers", "list of strings; absent: all", "With `api_key_sha256`: values of `Referer` with which the key may be used, such as `https://*.example.org/*`; `*` stands for anything but spaces; scheme, host and path are compared apart."),
    ("application.keys.type", "\"production\" or \"sandbox\"; default: \"production\"", "Endpoints that the key gives access to."),
    ("application.subscriptions.api", "string", "`info.title` of the API."),
    ("application.subscriptions.version", "string", "`info.version` of the API."),
    ("application.subscriptions.plan", "name of a plan; absent: unlimited", "Plan for the requests of the application to this API."),
    ("application.subscriptions.state", "\"active\", \"blocked\", \"production_blocked\" or \"inactive\"; default: \"active\"", "`blocked` rejects all requests, `production_blocked` those with production keys; `inactive` is one that was not approved."),
];

/// The keys of the table `name` (empty: the root).
pub(super) fn keys_of(manual: &'static [Row], name: &str) -> impl Iterator<Item = &'static str> {
    let mut before = None;
    manual.iter().filter_map(move |(key, _, _)| {
        let below =
            if name.is_empty() { key } else { key.strip_prefix(name)?.strip_prefix('.')? };
        let first = below.split_once('.').map_or(below, |(first, _)| first);
        (before.replace(first) != Some(first)).then_some(first)
    })
}

/// The row of `key` in the table `name`.
pub(super) fn row(manual: &'static [Row], name: &str, key: &str) -> Option<&'static Row> {
    manual.iter().find(|(full, _, _)| {
        full.strip_prefix(name)
            .and_then(|rest| rest.strip_prefix('.'))
            .is_some_and(|rest| rest == key)
    })
}

/// The text of `docs/configuration.md`.
#[must_use]
pub fn manual_markdown() -> String {
    let mut out = String::from(
        "# Configuration\n\n\
         `penstock gateway --config penstock.toml` reads one TOML file. Relative paths are relative to that file. Unknown keys\n\
         are errors. Changed files, and SIGHUP, reload APIs, issuers, certificates and limits. Changes of listeners, workers,\n\
         `data` and logs are logged and take effect after a restart. `penstock check penstock.toml` reports everything that\n\
         is wrong.\n\n\
         Generated from `crates/formats/src/declarative/manual.rs`.\n",
    );
    tables(MANUAL, &mut out);
    out.push_str("\n# Plans\n\nFiles of `[gateway] plans`.\n");
    tables(PLANS, &mut out);
    out.push_str(
        "\n# Applications\n\nFiles of `[gateway] applications`, one for each application.\n",
    );
    tables(APPLICATION, &mut out);
    out
}

fn tables(manual: &'static [Row], out: &mut String) {
    let mut section = "";
    let mut seen = BTreeSet::new();
    for (key, kind, meaning) in manual {
        let (table, name) = split(key);
        if table != section {
            section = table;
            let head = heading(table);
            out.push_str(&format!("\n## `{head}`\n"));
            let snippet = SNIPPETS.iter().find(|(of, _)| *of == table && seen.insert(table));
            if let Some((_, snippet)) = snippet {
                out.push_str(&format!("\n```toml\n{snippet}```\n"));
            }
            out.push_str("\n| key | type and default | meaning |\n|---|---|---|\n");
        }
        out.push_str(&format!("| `{name}` | {kind} | {meaning} |\n"));
    }
}

/// Tables of which there can be several.
const REPEATED: [&str; 18] = [
    "control.api_keys.api",
    "control.ldap.claim",
    "control.ldap.role",
    "control.provider.claim",
    "control.provider.role",
    "control.provider",
    "control.scope",
    "control.trusted_issuer",
    "credential",
    "custom",
    "deny",
    "issuer",
    "login",
    "plan",
    "service",
    "tls.sni",
    "upstream_tls.endpoint",
    "user",
];

/// Tables below another one that occur only once.
const NESTED: [&str; 1] = ["control.ldap"];

/// The table as written in the file.
pub(super) fn heading(table: &str) -> String {
    if REPEATED.contains(&table) { format!("[[{table}]]") } else { format!("[{table}]") }
}

/// `tls.sni.cert` is the key `cert` of `tls.sni`; `issuer.secret.env` is `secret.env` of `issuer`.
fn split(key: &'static str) -> (&'static str, &'static str) {
    let nested = REPEATED
        .iter()
        .chain(&NESTED)
        .find_map(|table| Some((*table, key.strip_prefix(table)?.strip_prefix('.')?)));
    nested.or_else(|| key.split_once('.')).unwrap_or(("", key))
}
