//! What is acknowledged survives `kill -9`; several instances share a database.

use harness::{Files, Issuer, Process};
use serde_json::json;

use crate::key_manager::{KeyManager, error, success};

#[test]
fn tokens_and_clients_survive_kill_9() {
    let manager = KeyManager::start();
    let more =
        json!({ "tokenType": "OAUTH", "grantType": "client_credentials password refresh_token" });
    let (id, secret) = manager.register("a", more);
    let login = (id.as_str(), secret.as_str());
    let form = "grant_type=password&username=admin&password=correct+horse+battery";
    let issued = manager.token(login, form);
    let text = |name: &str| issued[name].as_str().unwrap();
    // Dropping the process kills it.
    let manager = manager.restart();
    assert!(manager.is_active(login, text("access_token")));
    let form = format!("grant_type=refresh_token&refresh_token={}", text("refresh_token"));
    success(&manager.post("/oauth2/token", Some(login), &form));
    let manager = manager.restart();
    let reused = manager.post("/oauth2/token", Some(login), &form);
    assert_eq!(error(&reused), "400 invalid_grant", "the exchange was not forgotten");
    assert!(!manager.is_active(login, text("access_token")));
}

#[test]
fn several_instances_start_at_once_on_one_database() {
    let toml = "[control]\nhttps = \"127.0.0.1:0\"\nkeys = [\"key.pem\"]\n";
    let files = Files::new().toml(toml);
    files.write("key.pem", &Issuer::new("key").pem);
    files.configure();
    let start = || Process::start(files.folder(), &["control", "--config", "penstock.toml"]);
    let instances = [start(), start(), start(), start()];
    for instance in &instances {
        instance.wait_for(" serving ");
    }
    let printed = instances.iter().filter(|one| one.text().contains("shown only now")).count();
    assert_eq!(printed, 1, "one administrator, and one password");
}

#[test]
fn a_database_of_a_newer_version_is_not_touched() {
    let manager = KeyManager::start();
    let KeyManager { files, process } = manager;
    drop(process);
    let status = std::process::Command::new("sqlite3")
        .arg(files.path("penstock.db"))
        .arg("INSERT INTO schema_versions VALUES (999)")
        .status()
        .unwrap();
    assert!(status.success());
    let file = files.configure();
    let arguments = ["control", "--config", file.to_str().unwrap()];
    let (code, text) = Process::run(files.folder(), &arguments);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("schema version 999"), "{text}");
}
