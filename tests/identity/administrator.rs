//! The administrator of a first start.

use harness::{Files, Process};
use serde_json::json;

use crate::key_manager::{KeyManager, PASSWORD, error};

const PRINTED: &str = "password (shown only now): ";

fn control(files: &Files, flags: &[&str]) -> Process {
    let file = files.configure();
    let arguments = [&["control", "--config", file.to_str().unwrap()], flags].concat();
    Process::start(files.folder(), &arguments)
}

fn printed(text: &str) -> Option<String> {
    let (_, rest) = text.split_once(PRINTED)?;
    rest.lines().next().map(str::to_owned)
}

/// Whether `admin` can register a client with this password.
fn is_password(manager: &KeyManager, password: &str) -> bool {
    let status = registration(manager, password);
    assert!([200, 401].contains(&status), "{status}");
    status == 200
}

fn registration(manager: &KeyManager, password: &str) -> u16 {
    let path = "/client-registration/v0.17/register";
    let body = json!({ "clientName": "a" });
    manager.post_json(path, Some(("admin", password)), &body).status
}

#[test]
fn the_first_start_prints_a_password_once_and_a_lost_one_is_replaced() {
    let files = Files::new().toml("[control]\nhttps = \"127.0.0.1:0\"\n");
    let process = control(&files, &[]);
    process.wait_for(PRINTED);
    process.wait_for(" serving ");
    let first = printed(&process.text()).unwrap();
    assert!(first.len() >= 20, "{first}");
    let manager = KeyManager { files, process };
    assert_eq!(registration(&manager, &first), 403);
    assert_eq!(manager.replace_password("admin", &first, "chosen-first").status, 200);
    assert!(is_password(&manager, "chosen-first"));
    assert!(!is_password(&manager, "admin"));

    let manager = manager.restart();
    assert_eq!(printed(&manager.process.text()), None);
    assert!(is_password(&manager, "chosen-first"));

    // Also while it runs.
    let (code, text) = manager.command(&["user", "password", "admin"]);
    assert_eq!(code, Some(0), "{text}");
    let second = printed(&text).unwrap();
    assert!(!is_password(&manager, "chosen-first"));
    assert_eq!(registration(&manager, &second), 403);
    assert_eq!(manager.replace_password("admin", &second, "chosen-second").status, 200);
    assert!(is_password(&manager, "chosen-second"));
}

#[test]
fn a_configured_password_is_not_printed() {
    let manager = KeyManager::start();
    assert_eq!(printed(&manager.process.text()), None);
    assert!(is_password(&manager, PASSWORD));
    assert!(!is_password(&manager, "admin"));
}

#[test]
fn only_a_user_may_register_clients_and_only_for_themselves() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({}));
    for path in ["/client-registration/v0.17/register", "/api/identity/oauth2/dcr/v1.1/register"] {
        let body = json!({ "clientName": "b", "client_name": "b" });
        for login in [None, Some((id.as_str(), secret.as_str()))] {
            let response = manager.post_json(path, login, &body);
            assert_eq!(error(&response), "401 access_denied", "{path}");
            assert!(response.header("WWW-Authenticate").unwrap().starts_with("Basic "));
        }
    }
    let foreign = json!({ "clientName": "b", "owner": "someone" });
    let path = "/client-registration/v0.17/register";
    let response = manager.post_json(path, Some(("admin", PASSWORD)), &foreign);
    assert_eq!(error(&response), "400 invalid_client_metadata");
}

#[test]
fn after_sighup_the_log_names_what_needs_a_restart() {
    let ldap = |password: &str| {
        format!(
            "[control.ldap]\nurls = [\"ldaps://127.0.0.1:1\"]\nbind_dn = \"cn=a\"\n\
             bind_password = {{ file = \"{password}\" }}\nbase = \"o=a\"\n"
        )
    };
    let files = Files::new().toml(&(crate::key_manager::control() + &ldap("ldap-password")));
    files.write("ldap-password", "before");
    let manager = KeyManager::of(files);
    let reload = || manager.process.signal(nix::sys::signal::Signal::SIGHUP);
    reload();
    manager.process.wait_for("certificates read again");
    assert!(!manager.process.text().contains("after a restart"), "nothing has changed");

    manager.files.write("ldap-password", "after");
    reload();
    manager.process.wait_for("after a restart");
    let file = manager.files.path("penstock.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(manager.process.text().matches("after a restart").count(), 1);
    assert!(manager.process.text().contains("[control.ldap]"), "{}", manager.process.text());
    let changed = text.replace("[control]\n", "[control]\naccess_token_s = 60\n");
    std::fs::write(&file, &changed).unwrap();
    reload();
    manager.process.wait_for("section=\"[control]\"");
    std::fs::write(&file, changed.replace("access_token_s = 60", "access_token_s = 1")).unwrap();
    reload();
    manager.process.wait_for("`access_token_s`");
}

#[test]
fn registering_again_replaces_the_secret() {
    let manager = KeyManager::start();
    let (id, old) = manager.register("apictl", json!({}));
    let (same, new) = manager.register("apictl", json!({}));
    assert_eq!(id, same);
    let status = |secret: &str| {
        let login = Some((id.as_str(), secret));
        manager.post("/oauth2/token", login, "grant_type=client_credentials").status
    };
    assert_eq!((status(&old), status(&new)), (401, 200));
}

#[test]
fn an_administrator_who_was_removed_stays_removed() {
    let manager = KeyManager::start();
    manager.files.write("other", "another password");
    let add = ["user", "add", "ann", "--admin", "--password-file", "other"];
    assert_eq!(manager.command(&add).0, Some(0));
    assert_eq!(manager.command(&["user", "remove", "admin"]), (Some(0), String::new()));
    let mut manager = manager.restart();
    assert!(!is_password(&manager, "admin"));
    assert_eq!(registration(&manager, PASSWORD), 401);
    // Nor after the last user is removed.
    assert_eq!(manager.command(&["user", "remove", "ann"]).0, Some(0));
    manager = manager.restart();
    assert_eq!(manager.sql("SELECT COUNT(*) FROM users").trim(), "0");
    // An operator can add one.
    let add = ["user", "add", "admin", "--admin", "--password-file", "password"];
    assert_eq!(manager.command(&add).0, Some(0));
    assert_eq!(registration(&manager, PASSWORD), 200);
}
