//! Acknowledged writes survive `kill -9`; several instances share a database.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;

use harness::{Client, Files, PATIENCE, Process};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::key_manager::{KeyManager, PASSWORD, SIGN_IN, basic, error, success};
use crate::servers;

#[test]
fn tokens_and_clients_survive_kill_9() {
    let manager = KeyManager::start();
    let more =
        json!({ "tokenType": "OAUTH", "grantType": "client_credentials password refresh_token" });
    let (id, secret) = manager.register("a", more);
    let login = (id.as_str(), secret.as_str());
    let issued = manager.token(login, SIGN_IN);
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
    let toml = "[control]\nhttps = \"127.0.0.1:0\"\n";
    let files = Files::new().toml(toml);
    files.configure();
    let start = || Process::start(files.folder(), &["control", "--config", "penstock.toml"]);
    let instances = [start(), start(), start(), start()];
    for instance in &instances {
        instance.wait_for(" serving ");
    }
    let printed = instances.iter().filter(|one| one.text().contains("shown only now")).count();
    assert_eq!(printed, 1, "one administrator, and one password");
    let keys: Vec<_> = instances
        .iter()
        .map(|instance| {
            let tls = files.identity().client(&["http/1.1"]);
            let mut client = Client::connect_tls(instance.address("https"), tls, "localhost");
            client.fetch("GET /oauth2/jwks", "").text()
        })
        .collect();
    assert!(keys.iter().all(|key| *key == keys[0]), "one signing key: {keys:?}");
}

#[test]
fn instances_share_failed_attempts_which_a_restart_does_not_forget() {
    let manager = KeyManager::start();
    let second = Process::start(manager.files.folder(), &["control", "--config", "penstock.toml"]);
    second.wait_for(" serving ");
    let ask = |address, password| {
        let tls = manager.files.identity().client(&["http/1.1"]);
        let login = basic(Some(("admin", password)));
        let mut client = Client::connect_tls(address, tls, "localhost");
        client.fetch("GET /api/penstock/applications", &login).status
    };
    let addresses = [manager.process.address("https"), second.address("https")];
    let counted = || manager.sql("SELECT COUNT(*) FROM failures").trim().to_owned();
    assert_eq!((ask(addresses[0], PASSWORD), counted().as_str()), (200, "0"));
    assert_eq!((ask(addresses[0], "guess"), counted().as_str()), (401, "3"));
    assert_eq!(
        (ask(addresses[1], PASSWORD), counted().as_str()),
        (200, "1"),
        "that of the address"
    );
    // Ten for a user from one address; a slow machine lets a few more be tried.
    let guesses = |addresses: &[SocketAddr]| {
        let guess = |address: &SocketAddr| ask(*address, "guess");
        addresses.iter().cycle().map(guess).take_while(|status| *status == 401).count()
    };
    let tried = guesses(&addresses);
    assert!((10..16).contains(&tried), "{tried}");
    drop(second);
    let manager = manager.restart();
    let guess = || {
        let login = basic(Some(("admin", "guess")));
        manager.connect().fetch("GET /api/penstock/applications", &login).status
    };
    let tried = std::iter::repeat_with(guess).take_while(|status| *status == 401).count();
    assert!(tried < 10, "{tried}");
}

#[test]
fn no_token_that_was_issued_is_lost_by_kill_9_while_others_are_written() {
    let manager = KeyManager::start();
    let (id, secret) = manager.register("a", json!({ "tokenType": "OAUTH" }));
    let login = (id.as_str(), secret.as_str());
    let body = "grant_type=client_credentials";
    let request = format!(
        "POST /oauth2/token HTTP/1.1\r\nHost: localhost\r\n{}\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
        basic(Some(login)),
        body.len()
    );
    let requests = request.repeat(200);
    let token = |response: &str| {
        let (_, rest) = response.split_once("\"access_token\":\"")?;
        rest.split_once('"').map(|(token, _)| token.to_owned())
    };
    // All clients have some of their tokens, and wait for more.
    let (has_some, having) = mpsc::channel();
    let tokens: Vec<String> = std::thread::scope(|scope| {
        let clients = [(); 4].map(|()| {
            let mut client = manager.connect();
            let (requests, has_some) = (&requests, has_some.clone());
            scope.spawn(move || {
                client.try_send(requests);
                let mut tokens = [(); 8].map(|()| token(&client.read().text()).unwrap()).to_vec();
                has_some.send(()).unwrap();
                let rest = client.read_until_close();
                tokens.extend(rest.split("HTTP/1.1 200").filter_map(token));
                tokens
            })
        });
        clients.iter().for_each(|_| having.recv_timeout(PATIENCE).unwrap());
        manager.process.signal(Signal::SIGKILL);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert!(tokens.len() >= 32, "{} were issued", tokens.len());
    let manager = manager.restart();
    if servers::given().is_none() {
        assert_eq!(manager.sql("PRAGMA integrity_check").trim(), "ok");
    }
    for token in &tokens {
        assert!(manager.is_active(login, token));
    }
}

#[test]
fn a_backup_is_made_while_the_key_manager_runs_and_restored_while_it_does_not() {
    let manager = KeyManager::on_sqlite();
    let (id, secret) = manager.register("a", json!({ "tokenType": "OAUTH" }));
    let login = (id.as_str(), secret.as_str());
    let issue = |manager: &KeyManager| {
        let issued = manager.token(login, "grant_type=client_credentials");
        issued["access_token"].as_str().unwrap().to_owned()
    };
    let before = issue(&manager);
    let (code, text) = manager.command(&["backup", "copy.db"]);
    assert_eq!(code, Some(0), "{text}");
    let mode = std::fs::metadata(manager.files.path("copy.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let after = issue(&manager);
    assert_fails(&manager, &["backup", "copy.db"], "File exists");
    assert_fails(&manager, &["restore", "copy.db"], "another process uses the database");
    assert!(manager.is_active(login, &after));

    manager.process.signal(Signal::SIGKILL);
    manager.files.write("damaged.db", "SQLite format 3\0 and nothing else");
    assert_fails(&manager, &["restore", "damaged.db"], "damaged");
    assert_fails(&manager, &["restore", "missing.db"], "missing.db");
    let manager = manager.restart();
    assert!(manager.is_active(login, &after), "nothing was changed");

    manager.process.signal(Signal::SIGKILL);
    let (code, text) = manager.command(&["restore", "copy.db"]);
    assert_eq!(code, Some(0), "{text}");
    let manager = manager.restart();
    assert!(manager.is_active(login, &before));
    assert!(!manager.is_active(login, &after));
    assert!(!manager.files.path("penstock.db-restoring").exists());
    // A damaged database is replaced, too.
    manager.process.signal(Signal::SIGKILL);
    manager.files.write("penstock.db", "garbage");
    let (code, text) = manager.command(&["restore", "copy.db"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(manager.restart().is_active(login, &before));
}

fn assert_fails(manager: &KeyManager, command: &[&str], expect: &str) {
    let (code, text) = manager.command(command);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(expect), "{text}");
}

#[test]
fn a_database_of_a_newer_version_is_not_touched() {
    let manager = KeyManager::start();
    manager.process.signal(Signal::SIGKILL);
    manager.sql("INSERT INTO schema_versions VALUES (999)");
    assert_fails(&manager, &[], "schema version 999");
}
