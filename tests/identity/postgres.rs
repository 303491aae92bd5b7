//! The same on PostgreSQL, started for the test from the Debian package.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Files, Issuer, Process};
use serde_json::json;
use tempfile::TempDir;

use crate::applications;
use crate::key_manager::{CONTROL, KeyManager, error, success};

/// A server with an empty database, stopped when dropped.
struct Postgres {
    folder: TempDir,
    port: u16,
}

impl Postgres {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        if is_root() {
            // PostgreSQL refuses to run as root.
            let owner = Command::new("chown").arg("nobody:nogroup").arg(folder.path()).status();
            assert!(owner.unwrap().success());
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Self { folder, port };
        server.run("initdb", &["--username=penstock", "--auth=trust", "--no-sync"]);
        let options = format!("-h 127.0.0.1 -p {port} -k {}", server.folder.path().display());
        server.run("pg_ctl", &["start", "--wait", "--silent", "--log=/dev/null", "-o", &options]);
        server
    }

    fn url(&self) -> String {
        format!("postgres://penstock:a-password@127.0.0.1:{}/postgres", self.port)
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let program = programs().join(program);
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let data = self.folder.path().join("data");
        let status = command.arg("-D").arg(data).args(arguments).current_dir("/").status();
        assert!(status.unwrap().success(), "{arguments:?}");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.run("pg_ctl", &["stop", "--mode=immediate", "--silent"]);
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Debian installs the server's programs outside of the search path.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let mut found: Vec<PathBuf> = versions.map(|entry| entry.unwrap().path().join("bin")).collect();
    found.sort();
    found.into_iter().rfind(|folder| Path::new(folder).join("initdb").exists()).expect("a server")
}

#[test]
#[ignore = "needs PostgreSQL; `make test` runs it. On Debian: apt-get install postgresql"]
fn the_key_manager_works_on_postgresql() {
    let server = Postgres::start();
    let files = Files::new()
        .toml(&format!("{CONTROL}keys = [\"key.pem\"]\n[store]\nurl = \"{}\"\n", server.url()));
    files.write("key.pem", &Issuer::new("key").pem);
    let manager = KeyManager::of(files);
    let more = json!({
        "tokenType": "OAUTH",
        "grantType": "client_credentials password refresh_token",
        "tokenScope": "read",
    });
    let (id, secret) = manager.register("a", more.clone());
    assert_eq!(manager.register("a", more.clone()).0, id, "the same owner and name");
    let (other, other_secret) = manager.register("A", more);
    assert_ne!(other, id, "names differ by case");
    let old = manager.post("/oauth2/token", Some((&id, &secret)), "grant_type=client_credentials");
    assert_eq!(error(&old), "401 invalid_client");
    let login = (other.as_str(), other_secret.as_str());
    let form = "grant_type=password&username=admin&password=correct+horse+battery&scope=read";
    let issued = manager.token(login, form);
    let text = |name: &str| issued[name].as_str().unwrap();
    applications_are_numbered(&manager);
    let manager = manager.restart();
    assert!(manager.is_active(login, text("access_token")));
    let form = format!("grant_type=refresh_token&refresh_token={}", text("refresh_token"));
    let second = success(&manager.post("/oauth2/token", Some(login), &form));
    assert_eq!(second["scope"], "read");
    assert_eq!(error(&manager.post("/oauth2/token", Some(login), &form)), "400 invalid_grant");
    assert!(!manager.is_active(login, second["access_token"].as_str().unwrap()));
    let (code, text) = manager.command(&["backup", "copy.db"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("pg_dump"), "{text}");
    assert!(!manager.process.text().contains("a-password"), "the URL is not logged");
    // Without the database: an error that says to try again, and no end of the process.
    drop(server);
    let away = manager.post("/oauth2/token", Some(login), "grant_type=client_credentials");
    assert_eq!(error(&away), "503 temporarily_unavailable");
}

fn applications_are_numbered(manager: &KeyManager) {
    for name in ["a", "b", "c"] {
        assert_eq!(applications::put(manager, name, name, &["A"]), 201);
    }
    let all = applications::changes(manager, "?after=0");
    assert_eq!(applications::names(&all), "a b c");
    assert_eq!(applications::put(manager, "a", "a", &[]), 204);
    assert_eq!(applications::send(manager, "DELETE", "b", &json!({})).status, 204);
    let taken = json!({ "keys": [{ "client_id": "c" }] });
    assert_eq!(error(&applications::send(manager, "PUT", "d", &taken)), "409 conflict");
    let some = applications::changes(manager, &format!("?after={}", all["revision"]));
    assert_eq!(applications::names(&some), "a -b");
}

#[test]
#[ignore = "needs PostgreSQL; `make test` runs it. On Debian: apt-get install postgresql"]
fn several_instances_start_at_once_on_an_empty_postgresql() {
    let server = Postgres::start();
    let files = Files::new().toml(&format!(
        "[store]\nurl = \"{}\"\n[control]\nhttps = \"127.0.0.1:0\"\nkeys = [\"key.pem\"]\n",
        server.url()
    ));
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
