//! The manual agrees with the reader.

use super::*;
use crate::declarative::snippets::SNIPPETS;

/// The full example, which the reader accepts, has every key of the manual.
#[test]
fn the_manual_and_the_full_example_name_the_same_keys() {
    for (key, kind, meaning) in MANUAL {
        let name = key.rsplit('.').next().unwrap_or_default();
        let used = FULL.lines().chain(APP_ROLE.lines()).any(|line| {
            line.starts_with(&format!("{name} = ")) || line.contains(&format!("{{ {name} = "))
        });
        assert!(used, "`{key}` is missing from the example");
        assert!(!kind.is_empty() && meaning.ends_with('.'), "`{key}`");
    }
}

#[test]
fn the_manual_page_agrees_with_the_source() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = manual_markdown();
    if std::env::var_os("PENSTOCK_BLESS").is_some() {
        std::fs::write(&page, &text).expect("the page can be written");
    }
    let found = std::fs::read_to_string(&page).unwrap_or_default();
    assert!(
        found == text,
        "regenerate docs/configuration.md: PENSTOCK_BLESS=1 cargo test -p penstock-formats manual"
    );
}

#[test]
fn the_manual_has_the_actual_limits_and_defaults() {
    let ms = format!("1 to {} milliseconds; default: ", limits::CONFIGURED_MS_MAX);
    for (key, expect) in [
        ("gateway.workers", format!("1 to {}; ", limits::WORKERS_MAX)),
        (
            "gateway.drain_s",
            format!("0 to {} seconds; default: {}", limits::DRAIN_S_MAX, limits::DRAIN_S_DEFAULT),
        ),
        ("gateway.response_head_ms", format!("{ms}{}", limits::RESPONSE_HEAD_MS_MAX)),
        (
            "gateway.retry_budget_percent",
            format!("0 to 100; default: {}", limits::RETRY_BUDGET_PERCENT),
        ),
        ("gateway.connect_ms", format!("{ms}{}", limits::CONNECT_MS_MAX)),
        ("gateway.stall_ms", format!("{ms}{}", limits::STALL_MS_MAX)),
        ("gateway.head_ms", format!("{ms}{}", limits::HEAD_MS_MAX)),
        ("gateway.idle_ms", format!("{ms}{}", limits::IDLE_CLIENT_MS_MAX)),
        (
            "gateway.connections_max",
            format!("1 to {0}; default: {0}", limits::CLIENT_CONNECTIONS_MAX),
        ),
        (
            "gateway.client_connections_max",
            format!(
                "1 to {}; default: {}",
                limits::CLIENT_CONNECTIONS_MAX,
                limits::CLIENT_CONNECTIONS_DEFAULT
            ),
        ),
        (
            "gateway.client_requests_max",
            format!("1 to {}; default: {}", limits::REQUESTS_MAX, limits::CLIENT_REQUESTS_DEFAULT),
        ),
        (
            "gateway.api_requests_max",
            format!("1 to {}; default: {}", limits::REQUESTS_MAX, limits::API_REQUESTS_DEFAULT),
        ),
        (
            "gateway.endpoint_waiting_max",
            format!("1 to {}; default: {}", limits::REQUESTS_MAX, limits::ENDPOINT_WAITING_DEFAULT),
        ),
        (
            "gateway.min_rate",
            format!(
                "0 to {} bytes per second; default: {}",
                limits::MIN_RATE_MAX,
                limits::MIN_RATE_DEFAULT
            ),
        ),
        (
            "gateway.held_body_bytes_max",
            format!(
                "1 to {} bytes; default: {}",
                limits::HELD_BODY_BYTES_MAX,
                limits::HELD_BODY_BYTES_DEFAULT
            ),
        ),
        (
            "gateway.held_bytes_max",
            format!(
                "1 to {} bytes; default: {}",
                limits::HELD_BYTES_MAX,
                limits::HELD_BYTES_DEFAULT
            ),
        ),
        ("issuer.leeway_s", format!("0 to {} seconds", limits::LEEWAY_S_MAX)),
    ] {
        let row = MANUAL.iter().find(|(name, _, _)| *name == key);
        assert!(row.is_some_and(|(_, kind, _)| kind.starts_with(&expect)), "{key}: {expect}");
    }
}

/// Sections of which the snippet of another one shows the keys.
const SHOWN_ELSEWHERE: [&str; 5] = [
    "control.api_keys.api",
    "control.ldap.claim",
    "control.ldap.role",
    "control.provider.claim",
    "control.provider.role",
];

#[test]
fn every_section_of_the_manual_begins_with_a_snippet() {
    let page = manual_markdown();
    for section in page.split("\n## ").skip(1) {
        let heading = section.lines().next().unwrap_or_default();
        let table = heading.trim_matches(['`', '[', ']']);
        let is_first =
            page.matches(&format!("\n## {heading}\n")).count() == 1 || table == "control";
        let has_snippet = section.contains(&format!("```toml\n{}", heading.trim_matches('`')));
        let is_elsewhere = SHOWN_ELSEWHERE.contains(&table);
        let is_second = table == "control" && section.contains("api_keys.validity_s");
        assert!(is_first && (has_snippet != (is_elsewhere || is_second)), "{heading}");
    }
}

#[test]
fn the_snippets_of_the_manual_are_accepted() {
    const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
    const GATEWAY: &str = "[gateway]\nhttp = \"127.0.0.1:0\"\n";
    let env = |_: &str| Some(String::from_utf8_lossy(SECRET).into_owned());
    let files = |path: &Path| match path.extension().and_then(|of| of.to_str()) {
        Some("pem") => Ok(SIGNING.as_bytes().to_vec()),
        _ => Ok(SECRET.to_vec()),
    };
    let vault = |_: &VaultField| Some(SECRET.to_vec());
    for (table, snippet) in SNIPPETS {
        if ["plan", "custom", "deny", "application"].contains(table) {
            continue;
        }
        let with = |tables: &[&str]| {
            let of = |name: &&str| SNIPPETS.iter().find(|(table, _)| table == name);
            tables.iter().filter_map(of).map(|(_, text)| *text).collect::<String>()
        };
        let needed = match *table {
            "gateway" => String::new(),
            "login" => format!("{GATEWAY}{}", with(&["issuer"])),
            "store"
            | "control.ldap"
            | "control.provider"
            | "control.scope"
            | "control.trusted_issuer" => {
                format!("{GATEWAY}{}", with(&["control"]))
            }
            "tls.sni" => format!("{GATEWAY}{}", with(&["tls"])),
            "service" => format!("{GATEWAY}{}", with(&["integration", "issuer"])),
            _ => GATEWAY.to_owned(),
        };
        let text = format!("{needed}{snippet}");
        let (settings, diagnostics) =
            read(Path::new("etc/penstock.toml"), &text, &env, &files, &vault);
        assert_eq!(diagnostics, [], "{text}");
        assert!(settings.is_some(), "{text}");
    }
}
