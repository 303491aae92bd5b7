//! The manual of `penstock.toml`: every key once, with type, default and meaning. What is not here
//! is an unknown key.

/// Every key: its name with its table, its type and default, its meaning. `docs/configuration.md` is
/// made of it ([`manual_markdown`]); a test keeps the two in step.
#[rustfmt::skip]
pub const MANUAL: &[(&str, &str, &str)] = &[
    ("gateway.http", "address with port; absent: not opened", "The listener in clear: HTTP/1.1, and HTTP/2 with prior knowledge. At least one of `http` and `https` is needed."),
    ("gateway.https", "address with port; absent: not opened", "The listener with TLS 1.2 and 1.3: HTTP/1.1 and HTTP/2 by ALPN."),
    ("gateway.workers", "1 to 256; default: the CPUs that affinity and cgroup quota allow", "Worker threads. Each has its own listeners, connections to backends and token cache."),
    ("gateway.apis", "list of paths; default: [\"apis/\"]", "Files and folders of API descriptions, watched for changes."),
    ("gateway.data", "path; default: \"data/\"", "Folder for generated keys and certificates."),
    ("gateway.trusted_proxies", "list of addresses and CIDR blocks; default: []", "Who may set `X-Forwarded-*` and `Forwarded`. From everybody else they are removed."),
    ("gateway.fault_status", "\"wso2\" or \"http\"; default: \"wso2\"", "How faults of backends are answered: `wso2` with 500, `http` with 502, 503 and 504. The body is the same."),
    ("gateway.drain_s", "0 to 3600 seconds; default: 30", "Longest time that SIGTERM leaves to requests under way. After it connections are cut."),
    ("gateway.response_head_ms", "1 to 3600000 milliseconds; default: 120000", "Longest wait for a backend's response head, where the API sets no other. Longer: 101504. A stream that flows has no limit."),
    ("gateway.connect_ms", "1 to 3600000 milliseconds; default: 5000", "Longest wait for a connection to a backend, TLS included. Longer: 101508."),
    ("gateway.stall_ms", "1 to 3600000 milliseconds; default: 60000", "Longest time without one byte moving in a body. Longer: the connection is closed, after a 408 if nothing was answered yet."),
    ("gateway.head_ms", "1 to 3600000 milliseconds; default: 15000", "Longest wait for a whole request head, from its first byte on. Longer: 408."),
    ("gateway.idle_ms", "1 to 3600000 milliseconds; default: 60000", "Longest wait for the next request on a kept connection. Longer: closed."),
    ("gateway.connections_max", "1 to 20000; default: 20000", "Most client connections of one worker. More: 503 and close."),
    ("tls.cert", "path of a PEM file; absent: generated, kept in `data`", "Certificate of the https listener, leaf first. Read again when it changes."),
    ("tls.key", "path of a PEM file; goes with `cert`", "Its private key: PKCS#8, PKCS#1 or SEC1."),
    ("tls.sni.hosts", "list of host names", "`[[tls.sni]]`: the names that this certificate is for. `*.example.org` stands for exactly one label."),
    ("tls.sni.cert", "path of a PEM file", "Certificate for these names, leaf first."),
    ("tls.sni.key", "path of a PEM file", "Its private key."),
    ("admin.listen", "address with port; absent: not opened", "The listener of `/healthz`, `/readyz`, `/metrics` and `/diagnostics`. It asks for no credential: keep it on loopback or a private network."),
    ("upstream_tls.ca", "list of paths of PEM files; default: []", "Authorities that backends' certificates may come from, besides the system's."),
    ("upstream_tls.system_roots", "true or false; default: true", "Whether the machine's own authorities are trusted as well. Backends' certificates are always verified."),
    ("access_log.to", "\"stdout\" or \"file\"; absent: no access log", "Where one JSON line for each request goes."),
    ("access_log.file", "path; goes with `to = \"file\"`", "The file that lines are appended to."),
    ("log.level", "\"error\", \"warn\", \"info\", \"debug\" or \"trace\"; default: \"info\"", "What the process's own log tells."),
    ("log.format", "\"text\" or \"json\"; default: \"text\"", "Its form."),
    ("issuer.name", "text", "`[[issuer]]`: the name in logs and metrics. Each issuer its own."),
    ("issuer.iss", "text", "The claim `iss` of its tokens, compared byte for byte. Each issuer its own."),
    ("issuer.jwks", "path or https URL", "Its public keys as a JWK set. A URL is fetched once for all workers and refreshed; http is allowed for 127.0.0.1, ::1 and localhost only. One of `jwks`, `pem` and `secret` is needed."),
    ("issuer.pem", "path of a PEM file", "Its public key, or a certificate with it."),
    ("issuer.secret.env", "name of an environment variable", "`secret = { env = \"NAME\" }`: the shared secret of HS256, HS384 and HS512, at least as long as the hash (32, 48, 64 bytes). It never stands in this file."),
    ("issuer.secret.file", "path", "`secret = { file = \"path\" }`: the same from a file. A line end at its end is not part of it."),
    ("issuer.algorithms", "list; default: the asymmetric ones that the keys allow", "The signature algorithms that are accepted: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, ES512, EdDSA; with `secret`, where it must be given, HS256, HS384, HS512."),
    ("issuer.audiences", "list of texts; default: [], not checked", "A token's `aud` must hold one of these."),
    ("issuer.leeway_s", "0 to 300 seconds; default: 0", "Clock skew that is forgiven at `exp` and `nbf`."),
    ("issuer.padded_segments", "true or false; default: false", "Whether tokens may carry base64url with `=` padding, as WSO2's own generator writes them."),
];

/// The keys of the table `name` (empty: the root), each once.
pub(super) fn keys_of(name: &str) -> impl Iterator<Item = &'static str> {
    let mut before = None;
    MANUAL.iter().filter_map(move |(key, _, _)| {
        let below =
            if name.is_empty() { key } else { key.strip_prefix(name)?.strip_prefix('.')? };
        let first = below.split_once('.').map_or(below, |(first, _)| first);
        (before.replace(first) != Some(first)).then_some(first)
    })
}

/// The row of `key` in the table `name`.
pub(super) fn row(
    name: &str,
    key: &str,
) -> Option<&'static (&'static str, &'static str, &'static str)> {
    MANUAL.iter().find(|(full, _, _)| {
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
         `penstock gateway --config penstock.toml` reads one TOML file. Relative paths start at the file's folder. Unknown keys\n\
         are refused, with the nearest valid name. SIGHUP, and a change of the files, re-read APIs, issuers, certificates and\n\
         limits; listeners and workers need a restart, and the log says so. `penstock check penstock.toml` tells what is wrong.\n\n\
         This page is made from the source (`crates/formats/src/declarative/manual.rs`), and a test keeps it in step.\n",
    );
    let mut section = "";
    for (key, kind, meaning) in MANUAL {
        let (table, name) = split(key);
        if table != section {
            section = table;
            let head = if REPEATED.contains(&table) {
                format!("[[{table}]]")
            } else {
                format!("[{table}]")
            };
            out.push_str(&format!(
                "\n## `{head}`\n\n| key | type and default | meaning |\n|---|---|---|\n"
            ));
        }
        out.push_str(&format!("| `{name}` | {kind} | {meaning} |\n"));
    }
    out
}

/// Tables that may stand several times.
const REPEATED: [&str; 2] = ["issuer", "tls.sni"];

/// `tls.sni.cert` is the key `cert` of `tls.sni`; `issuer.secret.env` is `secret.env` of `issuer`.
fn split(key: &'static str) -> (&'static str, &'static str) {
    let nested = REPEATED
        .iter()
        .find_map(|table| Some((*table, key.strip_prefix(table)?.strip_prefix('.')?)));
    nested.or_else(|| key.split_once('.')).unwrap_or(("", key))
}
