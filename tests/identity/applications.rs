//! Applications of the control plane, and the gateways that follow them.

use std::time::Instant;

use harness::{Client, Files, PATIENCE, Process, Response, Upstream, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::key_manager::{KeyManager, Login, PASSWORD, basic, error, success};
use crate::revocations::{self, kept_file};

pub(crate) const ADMIN: Option<Login<'_>> = Some(("admin", PASSWORD));
pub(crate) const PATH: &str = "/api/penstock/applications";
pub(crate) const PLANS: &str = "/api/penstock/plans";

/// The client of a gateway that follows applications.
pub(crate) fn gateway_login(manager: &KeyManager) -> (String, String) {
    manager.register("gateway", json!({ "tokenScope": "penstock_gateway" }))
}

/// A gateway with one API, which follows `manager` as the client `login`. Keys are in a file, so that it can start
/// while the control plane is down.
fn gateway(manager: &KeyManager, login: Login<'_>, upstream: &Upstream) -> (Files, Process) {
    let files = files(manager, login, upstream, ("", &revocations::toml(manager, login)));
    let process = Process::gateway(&files);
    (files, process)
}

/// The files of [`gateway`]. `more`: of the description, and `penstock.toml`.
pub(crate) fn files(
    manager: &KeyManager,
    login: Login<'_>,
    upstream: &Upstream,
    more: (&str, &str),
) -> Files {
    let (origin, id) = (manager.process.address("https"), login.0);
    let files = revocations::files(manager, login, upstream, more).gateway(&format!(
        "control_plane = {{ url = \"https://{origin}\", client_id = \"{id}\", \
         client_secret = {{ file = \"secret\" }} }}\napplications = [\"applications/\"]\n"
    ));
    std::fs::create_dir(files.path("applications")).unwrap();
    files
}

fn fetch(gateway: &Process, token: &str) -> Response {
    let fields = format!("Authorization: Bearer {token}\r\n");
    Client::connect(gateway.address("http")).fetch("GET /a/x", &fields)
}

/// Sends the token until the response is `expect`: status and code, or 200.
#[track_caller]
fn wait_for(gateway: &Process, token: &str, expect: &str) {
    let begun = Instant::now();
    loop {
        let found = fetch(gateway, token).status_and_code();
        if found.trim() == expect {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{found} instead of {expect}");
    }
}

fn token(manager: &KeyManager, login: &(String, String)) -> String {
    let issued = manager.token((&login.0, &login.1), "grant_type=client_credentials");
    issued["access_token"].as_str().unwrap().to_owned()
}

pub(crate) fn send(manager: &KeyManager, method: &str, name: &str, body: &Value) -> Response {
    send_to(manager, &format!("{method} {PATH}/{name}"), body)
}

pub(crate) fn send_to(manager: &KeyManager, request: &str, body: &Value) -> Response {
    let fields = "Content-Type: application/json\r\n".to_owned() + &basic(ADMIN);
    manager.connect().fetch_with_body(request, &fields, &body.to_string())
}

/// Stores the plan `name` with so many requests a year.
#[track_caller]
fn put_plan(manager: &KeyManager, name: &str, requests: u32) -> u16 {
    let body = json!({ "limits": [{ "requests": requests, "per": "1y" }] });
    let response = send_to(manager, &format!("PUT {PLANS}/{name}"), &body);
    assert!([201, 204].contains(&response.status), "{}", response.text());
    response.status
}

/// Stores the application `name` with the key `client_id` and a subscription to the API under `plan`.
#[track_caller]
fn subscribe(manager: &KeyManager, name: &str, client_id: &str, plan: &str) {
    let subscription = json!({ "api": "A", "version": "1", "plan": plan });
    let body = json!({ "keys": [{ "client_id": client_id }], "subscriptions": [subscription] });
    let response = send(manager, "PUT", name, &body);
    assert!([201, 204].contains(&response.status), "{}", response.text());
}

/// The data of the control plane that a gateway keeps.
fn kept(files: &Files) -> String {
    std::fs::read_to_string(kept_file(files, "applications-").unwrap()).unwrap()
}

/// Stores the application `name` with the key `client_id` and subscriptions to version 1 of `apis`.
#[track_caller]
pub(crate) fn put(manager: &KeyManager, name: &str, client_id: &str, apis: &[&str]) -> u16 {
    let subscription = |api: &&str| json!({ "api": api, "version": "1", "plan": "Gold" });
    let subscriptions: Vec<Value> = apis.iter().map(subscription).collect();
    let keys = json!([{ "client_id": client_id }]);
    let body = json!({ "owner": "admin", "keys": keys, "subscriptions": subscriptions });
    let response = send(manager, "PUT", name, &body);
    assert!([201, 204].contains(&response.status), "{}", response.text());
    response.status
}

pub(crate) fn changes(manager: &KeyManager, query: &str) -> Value {
    success(&manager.connect().fetch(&format!("GET {PATH}{query}"), &basic(ADMIN)))
}

pub(crate) fn names(page: &Value) -> String {
    let mark = |one: &Value| if one["application"].is_null() { "-" } else { "" };
    let list = page["applications"].as_array().unwrap().iter();
    list.map(|one| format!("{}{}", mark(one), one["name"].as_str().unwrap()))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_registered_client_with_a_subscription_is_served_although_no_file_changes() {
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let orders = manager.register("orders", json!({}));
    let first = token(&manager, &orders);
    let upstream = Upstream::fixed("from the upstream");
    let (_files, process) = gateway(&manager, (&own.0, &own.1), &upstream);
    assert_eq!(fetch(&process, &first).status_and_code(), "403 900908");
    assert_eq!(put(&manager, "orders", &orders.0, &["A"]), 201);
    wait_for(&process, &first, "200");
    let revoked =
        manager.post("/oauth2/revoke", Some((&orders.0, &orders.1)), &format!("token={first}"));
    assert_eq!(revoked.status, 200);
    wait_for(&process, &first, "401 900901");
    let second = token(&manager, &orders);
    assert_eq!(fetch(&process, &second).status, 200);
    assert_eq!(put(&manager, "orders", &orders.0, &["B"]), 204);
    wait_for(&process, &second, "403 900908");
    assert_eq!(put(&manager, "orders", &orders.0, &["B", "A"]), 204);
    wait_for(&process, &second, "200");
    assert_eq!(send(&manager, "DELETE", "orders", &json!({})).status, 204);
    wait_for(&process, &second, "403 900908");
}

#[test]
fn a_gateway_starts_while_the_control_plane_is_down_and_catches_up() {
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let [kept, removed, added] =
        ["kept", "removed", "added"].map(|name| manager.register(name, json!({})));
    let [of_kept, of_removed, of_added] =
        [&kept, &removed, &added].map(|login| token(&manager, login));
    put(&manager, "kept", &kept.0, &["A"]);
    put(&manager, "removed", &removed.0, &["A"]);
    let upstream = Upstream::fixed("from the upstream");
    let (files, process) = gateway(&manager, (&own.0, &own.1), &upstream);
    assert_eq!(fetch(&process, &of_kept).status, 200, "known at the start");
    drop(process);
    let stopped = manager.stop();
    let process = Process::gateway(&files);
    assert_eq!(fetch(&process, &of_kept).status, 200);
    assert_eq!(fetch(&process, &of_removed).status, 200);
    assert_eq!(fetch(&process, &of_added).status_and_code(), "403 900908");
    let manager = stopped.start();
    put(&manager, "added", &added.0, &["A"]);
    assert_eq!(send(&manager, "DELETE", "removed", &json!({})).status, 204);
    wait_for(&process, &of_added, "200");
    wait_for(&process, &of_removed, "403 900908");
    assert_eq!(fetch(&process, &of_kept).status, 200);
}

#[test]
fn after_a_gap_all_applications_are_transferred_and_removed_ones_end() {
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let [kept, removed] = ["kept", "removed"].map(|name| manager.register(name, json!({})));
    let [of_kept, of_removed] = [&kept, &removed].map(|login| token(&manager, login));
    put(&manager, "kept", &kept.0, &["A"]);
    put(&manager, "removed", &removed.0, &["A"]);
    let upstream = Upstream::fixed("from the upstream");
    let (_files, process) = gateway(&manager, (&own.0, &own.1), &upstream);
    assert_eq!(fetch(&process, &of_removed).status, 200);
    // As if the database was restored from a backup before the second application.
    let stopped = manager.stop();
    stopped.sql("DELETE FROM applications WHERE name = 'removed'");
    stopped.sql("UPDATE revisions SET last = (SELECT MAX(revision) FROM applications)");
    let _manager = stopped.start();
    wait_for(&process, &of_removed, "403 900908");
    assert_eq!(fetch(&process, &of_kept).status, 200);
}

#[test]
fn what_a_file_has_is_not_taken_from_the_control_plane() {
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let orders = manager.register("orders", json!({}));
    let of_orders = token(&manager, &orders);
    let upstream = Upstream::fixed("from the upstream");
    let (files, process) = gateway(&manager, (&own.0, &own.1), &upstream);
    let file =
        format!("[application]\nname = \"in-file\"\nkeys = [{{ client_id = \"{}\" }}]\n", orders.0);
    files.write("applications/a.toml", &file);
    process.wait_for("application loaded");
    put(&manager, "orders", &orders.0, &["A"]);
    let origin = format!("https://{}", manager.process.address("https"));
    let conflict = format!(
        "{origin}{PATH}/orders: error: the client ID `{}` is already defined in ",
        orders.0
    );
    let line = process.wait_for(&conflict);
    assert!(line.contains("applications/a.toml"), "{line}");
    assert_eq!(fetch(&process, &of_orders).status_and_code(), "403 900908");
    std::fs::remove_file(files.path("applications/a.toml")).unwrap();
    wait_for(&process, &of_orders, "200");
}

#[test]
fn a_plan_of_the_control_plane_is_live_at_gateways_also_after_restarts() {
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let orders = manager.register("orders", json!({}));
    let of_orders = token(&manager, &orders);
    let upstream = Upstream::fixed("from the upstream");
    let (files, process) = gateway(&manager, (&own.0, &own.1), &upstream);
    // The plan comes after the application that names it. The plan's name ends like that of a file in another format.
    subscribe(&manager, "orders", &orders.0, "tiny.yaml");
    process.wait_for("there is no plan `tiny.yaml`");
    assert_eq!(put_plan(&manager, "Tiny.yaml", 2), 201);
    wait_for(&process, &of_orders, "200");
    wait_for(&process, &of_orders, "429 900804");
    assert_eq!(put_plan(&manager, "TINY.YAML", 1_000_000), 204);
    wait_for(&process, &of_orders, "200");
    assert_eq!(put_plan(&manager, "tiny.yaml", 1), 204);
    wait_for(&process, &of_orders, "429 900804");
    // Without the control plane, from its kept data, which are written after a change is live.
    wait_until(|| kept(&files).replace('\\', "").contains(r#""requests":1}"#));
    drop(process);
    let stopped = manager.stop();
    let process = Process::gateway(&files);
    assert_eq!(fetch(&process, &of_orders).status, 200);
    assert_eq!(fetch(&process, &of_orders).status_and_code(), "429 900804");
    let manager = stopped.start();
    let response = send_to(&manager, &format!("DELETE {PLANS}/Tiny.yaml"), &json!({}));
    assert_eq!(error(&response), "409 conflict", "an application names it");
    subscribe(&manager, "orders", &orders.0, "Unlimited");
    wait_for(&process, &of_orders, "200");
    let response = send_to(&manager, &format!("DELETE {PLANS}/Tiny.yaml"), &json!({}));
    assert_eq!(response.status, 204, "{}", response.text());
    assert_eq!(put_plan(&manager, "tiny.yaml", 1), 201);
}

#[test]
fn a_plan_that_an_application_names_in_whatever_case_is_not_removed() {
    let manager = KeyManager::start();
    for (plan, named, expect) in [
        ("Gold-1", "GOLD-1", "409 conflict"),
        ("Gold_1", "Gold-1", "204 "),
        ("a%25b", "aXb", "204 "),
        ("a%25b", "A%b", "409 conflict"),
        ("a!b", "a!B", "409 conflict"),
        ("q%22", "Q\"", "409 conflict"),
        ("gold", "gold-1", "204 "),
        ("G%C3%BCte", "g\u{fc}TE", "409 conflict"),
        ("G%C3%9Cte", "g\u{dc}TE", "409 conflict"),
    ] {
        put_plan(&manager, plan, 1);
        subscribe(&manager, "orders", "x", named);
        let response = send_to(&manager, &format!("DELETE {PLANS}/{plan}"), &json!({}));
        assert_eq!(error(&response), expect, "{plan} {named}");
        let body = json!({ "plan": named });
        assert_eq!(send(&manager, "PUT", "orders", &body).status, 204);
        let response = send_to(&manager, &format!("DELETE {PLANS}/{plan}"), &json!({}));
        let expect = if expect.starts_with("204") { "404 not_found" } else { expect };
        assert_eq!(error(&response), expect, "{plan} {named}");
    }
}

#[test]
fn a_text_that_looks_like_the_name_of_a_plan_does_not_keep_it() {
    let manager = KeyManager::start();
    assert_eq!(put_plan(&manager, "gold", 1), 201);
    for attributes in [json!({ "plan": "gold" }), json!({ "x": "\"plan\":\"gold\"" })] {
        let body = json!({ "attributes": attributes, "plan": "silver" });
        assert!([201, 204].contains(&send(&manager, "PUT", "orders", &body).status));
        put_plan(&manager, "gold", 1);
        let response = send_to(&manager, &format!("DELETE {PLANS}/gold"), &json!({}));
        assert_eq!(response.status, 204, "{}", response.text());
    }
}

#[test]
fn removed_plans_and_applications_do_not_count() {
    let manager = KeyManager::start();
    let last: u64 = manager.sql("SELECT last FROM revisions").trim().parse().unwrap();
    // As many as there may be.
    for (table, count) in [("plans", 1_000), ("applications", 100_000)] {
        let row = |number: u64| format!("('{table}-{number}', '', {}, 1)", last + number);
        let rows = (1..=count).map(row).collect::<Vec<_>>().join(", ");
        manager.sql(&format!(
            "INSERT INTO {table} (name, document, revision, removed_s) VALUES {rows}"
        ));
    }
    manager.sql("UPDATE revisions SET last = last + 100000");
    assert_eq!(put_plan(&manager, "gold", 1), 201);
    assert_eq!(send(&manager, "PUT", "orders", &json!({ "plan": "gold" })).status, 201);
}

#[test]
fn a_plan_of_a_file_is_used_in_place_of_that_of_the_control_plane() {
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let orders = manager.register("orders", json!({}));
    let of_orders = token(&manager, &orders);
    subscribe(&manager, "orders", &orders.0, "Small");
    put_plan(&manager, "Small", 1_000_000);
    let upstream = Upstream::fixed("from the upstream");
    let (files, process) = gateway(&manager, (&own.0, &own.1), &upstream);
    assert_eq!(fetch(&process, &of_orders).status, 200, "that of the control plane");
    let text = "[[plan]]\nname = \"small\"\nlimits = [{ requests = 1, per = \"1y\" }]\n";
    files.write("plans.toml", text);
    let origin = format!("https://{}", manager.process.address("https"));
    let line = process.wait_for("the plan `small` is already defined in ");
    assert!(line.contains(&format!("{origin}{PATH}/plans/small")), "{line}");
    assert!(line.contains("plans.toml"), "{line}");
    wait_for(&process, &of_orders, "429 900804");
    std::fs::remove_file(files.path("plans.toml")).unwrap();
    wait_for(&process, &of_orders, "200");
}

#[test]
fn plans_are_written_by_administrators_and_checked_as_those_of_files() {
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let own = (own.0.as_str(), own.1.as_str());
    assert_eq!(put_plan(&manager, "Gold%2F1", 5), 201);
    for name in ["gold%2F1", "GOLD%2f1"] {
        let stored =
            success(&manager.connect().fetch(&format!("GET {PLANS}/{name}"), &basic(ADMIN)));
        let limits = json!([{ "requests": 5, "per": "1y" }]);
        assert_eq!(stored, json!({ "name": "Gold/1", "limits": limits }));
        let again = send_to(&manager, &format!("PUT {PLANS}/Gold%2F1"), &stored);
        assert_eq!(again.status, 204, "what is read can be written");
    }
    for (body, expect) in [
        (json!([]), "400 invalid_request"),
        (json!({ "name": "other" }), "400 invalid_request"),
        (json!({ "limit": [] }), "400 invalid_request"),
        (json!({ "limits": [{ "requests": 1 }] }), "400 invalid_request"),
        (json!({ "limits": [{ "requests": -1, "per": "1m" }] }), "400 invalid_request"),
        (json!({ "limits": [{ "requests": 1, "per": "1 fortnight" }] }), "400 invalid_request"),
        (json!({ "limits": [{ "requests": null, "per": "1m" }] }), "400 invalid_request"),
        (json!({ "burst": { "requests": 0, "per": "1s" } }), "400 invalid_request"),
    ] {
        let response = send_to(&manager, &format!("PUT {PLANS}/a"), &body);
        assert_eq!(error(&response), expect, "{body}");
    }
    for (method, path, login, expect) in [
        ("GET", "/gold%2F1", Some(own), "401 access_denied"),
        ("PUT", "/a", Some(own), "401 access_denied"),
        ("DELETE", "/a", ADMIN, "404 not_found"),
        ("GET", "/a", ADMIN, "404 not_found"),
        ("POST", "/a", ADMIN, "405 invalid_request"),
        ("GET", "", ADMIN, "404 not_found"),
    ] {
        let fields = "Content-Type: application/json\r\n".to_owned() + &basic(login);
        let request = format!("{method} {PLANS}{path}");
        let response = manager.connect().fetch_with_body(&request, &fields, "{}");
        assert_eq!(error(&response), expect, "{method} {path}");
    }
    let page = changes(&manager, "?after=0");
    assert_eq!(page["plans"][0]["name"], "gold/1");
    assert_eq!(page["plans"][0]["plan"]["name"], "Gold/1");
}

#[test]
fn a_gateway_that_was_cut_off_for_20000_changes_gets_each_application_once() {
    const APPLICATIONS: usize = 300;
    const ROUNDS: usize = 67;
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let [kept_client, later] = ["kept", "later"].map(|name| manager.register(name, json!({})));
    let [of_kept, of_later] = [&kept_client, &later].map(|login| token(&manager, login));
    put(&manager, "kept", &kept_client.0, &["A"]);
    let upstream = Upstream::fixed("from the upstream");
    let (files, process) = gateway(&manager, (&own.0, &own.1), &upstream);
    assert_eq!(fetch(&process, &of_kept).status, 200);
    let before = kept(&files);
    process.signal(Signal::SIGSTOP);
    // All changes of `revisions` at the end: PostgreSQL walks over each version of a row that its transaction wrote.
    const LAST: &str = "(SELECT last FROM revisions)";
    let mut changes = "BEGIN;\n".to_owned();
    let mut revisions = 0;
    for round in 0..ROUNDS {
        for number in 0..APPLICATIONS {
            // The last one of all belongs to a client that has a token.
            let client = if number + 1 == APPLICATIONS && round + 1 == ROUNDS {
                later.0.clone()
            } else {
                format!("c{number}-{round}")
            };
            let document = format!(
                "'{{\"keys\":[{{\"client_id\":\"{client}\",\"type\":\"production\"}}],\"subscriptions\":\
                 [{{\"api\":\"A\",\"version\":\"1\",\"state\":\"active\"}}]}}'"
            );
            revisions += 1;
            changes += &match round {
                0 => format!(
                    "INSERT INTO applications (name, document, revision, removed_s) \
                     VALUES ('a{number}', {document}, {LAST} + {revisions}, 0);\n"
                ),
                _ => format!(
                    "UPDATE applications SET document = {document}, revision = {LAST} + {revisions} \
                     WHERE name = 'a{number}';\n"
                ),
            };
        }
    }
    changes += &format!("UPDATE revisions SET last = last + {revisions};\n");
    manager.sql(&(changes + "COMMIT;\n"));
    process.signal(Signal::SIGCONT);
    wait_for(&process, &of_later, "200");
    assert_eq!(fetch(&process, &of_kept).status, 200);
    // It went on where it was: its kept data grow by one entry for each application.
    let begun = Instant::now();
    let added = loop {
        let after = kept(&files);
        let added = after.strip_prefix(&before).expect("the file is not replaced").to_owned();
        if added.lines().count() > APPLICATIONS {
            break added;
        }
        assert!(begun.elapsed() < PATIENCE, "{added}");
    };
    let entries: Vec<&str> = added.lines().filter(|line| line.starts_with('{')).collect();
    assert_eq!(entries.len(), APPLICATIONS);
    let last = format!("-{}\"", ROUNDS - 1);
    let newest = entries.iter().filter(|entry| entry.contains(&last)).count();
    assert_eq!(newest, APPLICATIONS - 1, "the last version of each");
}

#[test]
fn applications_are_written_by_administrators_and_read_by_gateways() {
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let other = manager.register("other", json!({}));
    put(&manager, "a%2Fb", "x", &["A"]);
    let stored = success(&manager.connect().fetch(&format!("GET {PATH}/a%2Fb"), &basic(ADMIN)));
    let subscription = json!({ "api": "A", "version": "1", "plan": "Gold", "state": "active" });
    let expect = json!({
        "owner": "admin",
        "keys": [{ "client_id": "x", "type": "production" }],
        "subscriptions": [subscription],
    });
    assert_eq!(stored, expect);
    let (own, other) = ((own.0.as_str(), own.1.as_str()), (other.0.as_str(), other.1.as_str()));
    for (method, path, login, expect) in [
        ("GET", "", None, "401 invalid_client"),
        ("GET", "", Some(other), "403 access_denied"),
        ("GET", "", Some(own), "200 "),
        ("GET", "/a%2Fb", Some(own), "401 access_denied"),
        ("PUT", "/c", Some(own), "401 access_denied"),
        ("DELETE", "/a%2Fb", None, "401 access_denied"),
        ("DELETE", "/c", ADMIN, "404 not_found"),
        ("POST", "/c", ADMIN, "405 invalid_request"),
        ("POST", "", ADMIN, "405 invalid_request"),
    ] {
        let fields = "Content-Type: application/json\r\n".to_owned() + &basic(login);
        let response =
            manager.connect().fetch_with_body(&format!("{method} {PATH}{path}"), &fields, "{}");
        assert_eq!(error(&response), expect, "{method} {path}");
    }
    let twice = json!([{ "api": "A", "version": "1" }, { "api": "A", "version": "1" }]);
    let key = |more: Value| of_api_key("secret", &more);
    for (body, expect) in [
        (json!({ "keys": [{ "client_id": "x" }] }), "409 conflict"),
        (json!({ "keys": [{ "client_id": "y" }, { "client_id": "y" }] }), "400 invalid_request"),
        (json!({ "keys": [{}] }), "400 invalid_request"),
        (json!({ "keys": [{ "api_key_sha256": "12" }] }), "400 invalid_request"),
        (json!({ "keys": [{ "client_id": "y", "referers": ["a"] }] }), "400 invalid_request"),
        (json!({ "keys": [key(json!({ "addresses": [] }))] }), "400 invalid_request"),
        (json!({ "keys": [key(json!({ "addresses": ["10.1.0.0/8"] }))] }), "400 invalid_request"),
        (json!({ "keys": [key(json!({ "referers": vec!["a"; 101] }))] }), "400 invalid_request"),
        (json!({ "attributes": { "a": 1 } }), "400 invalid_request"),
        (json!({ "attributes": { "a": "x".repeat(2_048) } }), "400 invalid_request"),
        (json!({ "subscriptions": twice }), "400 invalid_request"),
        (json!({ "subscriptions": [{ "api": "", "version": "1" }] }), "400 invalid_request"),
        (json!({ "plans": "Gold" }), "400 invalid_request"),
    ] {
        assert_eq!(error(&send(&manager, "PUT", "c", &body)), expect, "{body}");
    }
    let attributes = json!({ "attributes": { "team": "billing" } });
    assert_eq!(send(&manager, "PUT", "d", &attributes).status, 201);
    let stored = success(&manager.connect().fetch(&format!("GET {PATH}/d"), &basic(ADMIN)));
    assert_eq!(stored["attributes"], attributes["attributes"]);
    assert_eq!(put(&manager, "a%2Fb", "y", &[]), 204);
    assert_eq!(put(&manager, "c", "x", &[]), 201, "the key is free");
}

/// The key of an application that is the API key `key`.
fn of_api_key(key: &str, more: &Value) -> Value {
    let hash = jose::sha256(key.as_bytes()).map(|byte| format!("{byte:02x}")).concat();
    let mut found = more.clone();
    found["api_key_sha256"] = json!(hash);
    found
}

#[test]
fn an_api_key_of_the_control_plane_is_for_the_addresses_and_referers_that_it_lists() {
    let manager = KeyManager::start();
    let own = gateway_login(&manager);
    let upstream = Upstream::fixed("from the upstream");
    let (files, process) = gateway(&manager, (&own.0, &own.1), &upstream);
    let description = std::fs::read_to_string(files.path("apis/a.yaml")).unwrap();
    let accepts = "x-wso2-application-security: {security-types: [api_key]}\n";
    files.write("apis/a.yaml", &(description + accepts));
    let keys = json!([
        of_api_key("here", &json!({ "addresses": ["127.0.0.2", "10.0.0.0/8"] })),
        of_api_key("page", &json!({ "referers": ["https://a.example/*"] })),
    ]);
    let subscriptions = json!([{ "api": "A", "version": "1" }]);
    let body = json!({ "owner": "admin", "keys": keys, "subscriptions": subscriptions });
    assert_eq!(send(&manager, "PUT", "keys", &body).status, 201);
    let stored = success(&manager.connect().fetch(&format!("GET {PATH}/keys"), &basic(ADMIN)));
    assert_eq!(stored["keys"][0]["addresses"], json!(["127.0.0.2", "10.0.0.0/8"]));
    let fetch = |source: u8, key: &str, referer: &str| {
        let fields = format!("apikey: {key}\r\nReferer: {referer}\r\n");
        let mut client = Client::connect_from([127, 0, 0, source].into(), process.address("http"));
        client.fetch("GET /a/x", &fields).status_and_code()
    };
    wait_until(|| fetch(2, "here", "") == "200");
    for (source, key, referer, expect) in [
        (2, "here", "https://b.example/", "200"),
        (1, "here", "https://a.example/", "403 900908"),
        (1, "page", "https://a.example/x", "200"),
        (2, "page", "https://a.example.evil/x", "403 900908"),
        (2, "page", "", "403 900908"),
        (2, "other", "https://a.example/x", "401 900901"),
    ] {
        assert_eq!(fetch(source, key, referer), expect, "{source} {key} {referer}");
    }
}

#[test]
fn a_gateway_gets_what_changed_since_and_everything_after_a_gap() {
    let manager = KeyManager::start();
    for name in ["a", "b", "c"] {
        put(&manager, name, name, &[]);
    }
    let all = changes(&manager, "?after=0");
    assert_eq!(
        (names(&all), &all["reset"], &all["more"]),
        ("a b c".to_owned(), &json!(true), &json!(false))
    );
    let after = format!("?after={}", all["revision"]);
    let none = changes(&manager, &after);
    assert_eq!((names(&none), &none["reset"]), (String::new(), &json!(false)));
    for _ in 0..20 {
        put(&manager, "b", "b", &[]);
    }
    send(&manager, "DELETE", "a", &json!({}));
    let some = changes(&manager, &after);
    assert_eq!(names(&some), "b -a", "many changes are one");
    assert_eq!(names(&changes(&manager, "?after=0")), "c b");
    assert_eq!(put(&manager, "a", "a", &[]), 201);
    assert_eq!(names(&changes(&manager, &after)), "b a");
    send(&manager, "DELETE", "a", &json!({}));
    // It is forgotten that there was one.
    manager.sql("UPDATE applications SET removed_s = 1 WHERE removed_s > 0");
    let manager = manager.restart();
    assert_ne!(changes(&manager, "?after=0")["start"], all["start"]);
    let begun = Instant::now();
    while changes(&manager, &after)["reset"] != json!(true) {
        assert!(begun.elapsed() < PATIENCE);
    }
    assert_eq!(names(&changes(&manager, &after)), "c b");
}

#[test]
fn all_applications_come_in_parts_of_a_megabyte_at_most() {
    let manager = KeyManager::start();
    // Each is nearly as large as a request may be.
    let subscription =
        |index: usize| json!({ "api": "A".repeat(180), "version": index.to_string() });
    let subscriptions: Vec<Value> = (0..250).map(subscription).collect();
    let body = json!({ "subscriptions": subscriptions });
    for index in 0..20 {
        assert_eq!(send(&manager, "PUT", &format!("a{index}"), &body).status, 201);
    }
    let (mut query, mut parts, mut all) = ("?after=0".to_owned(), 0, Vec::new());
    loop {
        let page = changes(&manager, &query);
        assert!(page["applications"].to_string().len() <= 1024 * 1024);
        all.extend(names(&page).split(' ').map(str::to_owned));
        parts += 1;
        if page["more"] == json!(false) {
            break;
        }
        query = format!("?after={}&full=true", page["revision"]);
    }
    let expect: Vec<String> = (0..20).map(|index| format!("a{index}")).collect();
    assert_eq!((parts, all), (2, expect));
}
