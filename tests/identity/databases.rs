//! The key manager on database servers.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Instant;

use harness::{Files, Identity, Issuer, PATIENCE, Process};
use serde_json::json;

use crate::applications;
use crate::key_manager::{CONTROL, KeyManager, Login, PASSWORD, error, success};
use crate::servers::{Kind, Server, client};

/// Each test on each kind of server.
macro_rules! on_servers {
    ($($test:ident)*) => {
        mod postgresql {
            $(#[test]
            #[ignore = "needs PostgreSQL; `make test` runs it. On Debian: apt-get install postgresql"]
            fn $test() {
                super::$test(super::Kind::Postgres);
            })*
        }
        mod mariadb {
            $(#[test]
            #[ignore = "needs MariaDB; `make test` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
            fn $test() {
                super::$test(super::Kind::MariaDb);
            })*
        }
    };
}

on_servers! {
    all_tests_pass
    the_key_manager_works
    several_instances_start_at_once_on_an_empty_database
    what_was_issued_survives_kill_9_of_the_server_under_load
    connections_are_encrypted_and_the_certificate_is_verified
}

fn all_tests_pass(kind: Kind) {
    Server::start(kind).run_tests();
}

fn files(url: &str) -> Files {
    let toml = format!("{CONTROL}keys = [\"key.pem\"]\n[store]\nurl = \"{url}\"\n");
    let files = Files::new().toml(&toml);
    files.write("key.pem", &Issuer::new("key").pem);
    files.write("password", PASSWORD);
    files
}

/// Runs `penstock control`, which fails. Returns its output.
fn failure(url: &str) -> String {
    let files = files(url);
    let file = files.configure();
    let arguments = ["control", "--config", file.to_str().unwrap()];
    let (code, text) = Process::run(files.folder(), &arguments);
    assert_eq!(code, Some(1), "{text}");
    text
}

fn the_key_manager_works(kind: Kind) {
    let server = Server::start(kind);
    let manager = KeyManager::of(files(&server.url("penstock")));
    let more = json!({
        "tokenType": "OAUTH",
        "grantType": "client_credentials password refresh_token",
        "tokenScope": "read",
    });
    let (id, secret) = manager.register("a", more.clone());
    assert_eq!(manager.register("a", more.clone()).0, id, "the same owner and name");
    for name in ["a ", "\u{e4}", "\u{1f512}"] {
        assert_ne!(manager.register(name, more.clone()).0, id, "{name:?} is another name");
    }
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
    assert!(text.contains("pg_dump") && text.contains("mariadb-dump"), "{text}");
    assert!(!manager.process.text().contains("a-password"), "the URL is not logged");
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

fn several_instances_start_at_once_on_an_empty_database(kind: Kind) {
    let server = Server::start(kind);
    let files = files(&server.url("penstock"));
    let file = files.configure();
    // Without it, a password is generated.
    let text = std::fs::read_to_string(&file).unwrap();
    let password = "admin_password = { file = \"password\" }\n";
    assert!(text.contains(password));
    files.write("penstock.toml", &text.replace(password, ""));
    let start = || Process::start(files.folder(), &["control", "--config", "penstock.toml"]);
    let instances = [start(), start(), start(), start()];
    for instance in &instances {
        instance.wait_for(" serving ");
    }
    let printed = instances.iter().filter(|one| one.text().contains("shown only now")).count();
    assert_eq!(printed, 1, "one administrator, and one password");
}

/// Requests tokens until one is refused, and reports when there are some.
fn request_tokens(manager: &KeyManager, login: Login<'_>, some: &mpsc::Sender<()>) -> Vec<String> {
    let mut tokens = Vec::new();
    loop {
        let issued = manager.post("/oauth2/token", Some(login), "grant_type=client_credentials");
        if issued.status != 200 {
            assert_eq!(error(&issued), "503 temporarily_unavailable");
            return tokens;
        }
        tokens.push(success(&issued)["access_token"].as_str().unwrap().to_owned());
        if tokens.len() == 8 {
            some.send(()).unwrap();
        }
    }
}

fn what_was_issued_survives_kill_9_of_the_server_under_load(kind: Kind) {
    let mut server = Server::start(kind);
    let manager = KeyManager::of(files(&server.url("penstock")));
    let (id, secret) = manager.register("a", json!({ "tokenType": "OAUTH" }));
    let login = (id.as_str(), secret.as_str());
    let (has_some, having) = mpsc::channel();
    let tokens: Vec<String> = std::thread::scope(|scope| {
        let clients = [(); 4].map(|()| {
            let (manager, has_some) = (&manager, has_some.clone());
            scope.spawn(move || request_tokens(manager, login, &has_some))
        });
        clients.iter().for_each(|_| having.recv_timeout(PATIENCE).unwrap());
        server.kill();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    assert!(tokens.len() >= 32, "{} were issued", tokens.len());
    server.restart();
    for token in &tokens {
        assert!(manager.is_active(login, token), "the key manager was not restarted");
    }
}

fn connections_are_encrypted_and_the_certificate_is_verified(kind: Kind) {
    let server = Server::start(kind);
    let manager = KeyManager::of(files(&server.verified_url(&server.certificate())));
    let encrypted = match kind {
        Kind::Postgres => {
            "SELECT COUNT(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
             WHERE ssl AND client_port > 0 AND application_name = ''"
        }
        Kind::MariaDb => "SHOW GLOBAL STATUS LIKE 'Ssl_finished_accepts'",
    };
    manager.register("a", json!({}));
    let count = server.sql(encrypted);
    let count = count.split_whitespace().last().unwrap().parse::<u32>().unwrap();
    assert!(count > 0, "encrypted connections");
    manager.files.write("other.crt", &Identity::of(&["127.0.0.1"]).cert_pem);
    let other = manager.files.path("other.crt");
    let text = failure(&server.verified_url(other.to_str().unwrap()));
    assert!(text.contains("certificate"), "{text}");
}

/// As if migration 11, which adds a column to `codes` and one to `devices`, and an index, had not ended. Those after it
/// are recorded again.
const UNDO: &str = "SET @last = 11; \
     DELETE FROM schema_versions WHERE version >= @last;";

fn works(server: &Server) {
    let manager = KeyManager::of(files(&server.url("penstock")));
    let (id, secret) = manager.register("a", json!({}));
    manager.token((&id, &secret), "grant_type=client_credentials");
    let left = "SELECT COUNT(*) FROM schema_steps WHERE done = 0 AND version <= \
         (SELECT MAX(version) FROM schema_versions)";
    assert_eq!(server.sql(left).trim(), "0");
    let columns = "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() \
         AND table_name IN ('codes', 'devices') AND column_name = 'auth_s'";
    assert_eq!(server.sql(columns).trim(), "2");
    let index = "SELECT COUNT(*) FROM information_schema.statistics \
         WHERE table_schema = DATABASE() AND index_name = 'users_source'";
    assert_eq!(server.sql(index).trim(), "2", "columns of the index");
}

/// Columns and indexes of the tables in `database`.
fn schema(server: &Server, database: &str) -> String {
    let of = format!("WHERE table_schema = '{database}' ORDER BY 1, 2, 3");
    server.sql(&format!(
        "SELECT table_name, column_name, column_type, column_default, collation_name \
         FROM information_schema.columns {of}; \
         SELECT table_name, index_name, seq_in_index, column_name, non_unique \
         FROM information_schema.statistics {of}; \
         SELECT COUNT(*) FROM {database}.revisions"
    ))
}

#[test]
#[ignore = "needs MariaDB; `make test` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
fn a_first_start_that_is_killed_again_and_again_ends_with_the_same_tables_on_mariadb() {
    let mut server = Server::start(Kind::MariaDb);
    let files = files(&server.url("penstock"));
    files.configure();
    let columns = "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()";
    // There are 77 in the end.
    for least in [1, 5, 15, 25, 35, 45, 55, 65] {
        let process = Process::start(files.folder(), &["control", "--config", "penstock.toml"]);
        let begun = Instant::now();
        while server.sql(columns).trim().parse::<u32>().unwrap() < least {
            assert!(begun.elapsed() < PATIENCE, "{}", process.text());
        }
        if least % 20 == 5 {
            server.kill();
            server.restart();
        }
        drop(process);
    }
    works(&server);
    server.sql("CREATE DATABASE clean");
    drop(KeyManager::of(self::files(&server.url("clean"))));
    assert_eq!(schema(&server, "penstock"), schema(&server, "clean"));
}

#[test]
#[ignore = "needs MariaDB; `make test` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
fn a_migration_that_was_interrupted_is_continued_on_mariadb() {
    let server = Server::start(Kind::MariaDb);
    works(&server);
    for interrupted in [
        // After the last statement; between a statement and its record; before one that was begun; between two.
        "",
        "UPDATE schema_steps SET done = 0 WHERE version = @last AND step = 3;",
        "UPDATE schema_steps SET done = 0 WHERE version = @last AND step >= 2;",
        "UPDATE schema_steps SET done = 0 WHERE version = @last AND step = 3; \
         ALTER TABLE users DROP INDEX users_source;",
        "DELETE FROM schema_steps WHERE version = @last AND step = 3; \
         ALTER TABLE users DROP INDEX users_source;",
        "DELETE FROM schema_steps WHERE version = @last; ALTER TABLE users DROP INDEX users_source; \
         ALTER TABLE devices DROP COLUMN auth_s; ALTER TABLE codes DROP COLUMN auth_s;",
    ] {
        server.sql(&format!("{UNDO}{interrupted}"));
        works(&server);
    }
}

#[test]
#[ignore = "needs MariaDB; `make test` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
fn a_migration_that_fails_half_way_is_continued_when_its_cause_is_gone_on_mariadb() {
    let server = Server::start(Kind::MariaDb);
    works(&server);
    // Somebody else's column is in the way of the second statement.
    server.sql(&format!(
        "{UNDO} DELETE FROM schema_steps WHERE version = @last; \
         ALTER TABLE codes DROP COLUMN auth_s;"
    ));
    for _ in 0..2 {
        let text = failure(&server.url("penstock"));
        assert!(text.contains("Duplicate column name 'auth_s'"), "{text}");
    }
    server.sql("ALTER TABLE devices DROP COLUMN auth_s; ALTER TABLE users DROP INDEX users_source");
    works(&server);
}

#[test]
#[ignore = "needs MariaDB; `make test` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
fn the_previous_version_works_with_a_part_of_a_migration_on_mariadb() {
    let server = Server::start(Kind::MariaDb);
    works(&server);
    server.sql(
        "SET @next = (SELECT MAX(version) + 1 FROM schema_versions); \
         ALTER TABLE clients ADD COLUMN more BIGINT NOT NULL DEFAULT 0; \
         INSERT INTO schema_steps VALUES (@next, 1, 1), (@next, 2, 0);",
    );
    works(&server);
}

#[test]
#[ignore = "needs MariaDB; `make test` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
fn the_tables_of_another_program_are_not_used_on_mariadb() {
    let server = Server::start(Kind::MariaDb);
    server.sql("CREATE TABLE users (id INT PRIMARY KEY)");
    for _ in 0..2 {
        let text = failure(&server.url("penstock"));
        assert!(text.contains("Table 'users' already exists"), "{text}");
    }
    assert_eq!(server.sql("SHOW COLUMNS FROM users").lines().count(), 1);
}

#[test]
#[ignore = "needs MariaDB; `make test` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
fn a_transaction_that_a_deadlock_ends_is_repeated_on_mariadb() {
    let server = Server::start(Kind::MariaDb);
    let manager = KeyManager::of(files(&server.url("penstock")));
    let (id, secret) =
        manager.register("a", json!({ "tokenType": "OAUTH", "grantType": "password" }));
    let login = (id.as_str(), secret.as_str());
    let form = "grant_type=password&username=admin&password=correct+horse+battery";
    let tokens = [(); 8].map(|()| manager.token(login, form)["access_token"].clone());
    let mut other = client(&server.url("penstock"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut statements = other.stdin.take().unwrap();
    let mut rows = BufReader::new(other.stdout.take().unwrap());
    let mut execute = |text: &str| {
        writeln!(statements, "{text}; SELECT 'done';").unwrap();
        let mut row = String::new();
        while row.trim() != "done" {
            row.clear();
            assert!(rows.read_line(&mut row).unwrap() > 0, "{text}");
        }
    };
    // It changes more rows, so that the server ends the other transaction.
    execute("BEGIN; UPDATE tokens SET scope = CONCAT(scope, ' more')");
    let deadlocks = "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'";
    let before = server.sql(deadlocks);
    let (code, text) = std::thread::scope(|scope| {
        let change = scope.spawn(|| manager.command(&["user", "password", "admin"]));
        // Not by `innodb_trx`, which is read anew only when it was not read for a while.
        let waiting = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'";
        let begun = Instant::now();
        while !server.sql(waiting).trim().ends_with("\t1") {
            if change.is_finished() {
                panic!("it does not wait for the tokens: {:?}", change.join().unwrap());
            }
            assert!(begun.elapsed() < PATIENCE, "it does not wait for the tokens");
        }
        execute("UPDATE users SET created_s = 1 WHERE name = 'admin'");
        execute("COMMIT");
        change.join().unwrap()
    });
    assert_eq!(code, Some(0), "{text}");
    assert_ne!(server.sql(deadlocks), before, "there was a deadlock");
    for token in tokens {
        assert!(!manager.is_active(login, token.as_str().unwrap()));
    }
    drop(statements);
    other.wait().unwrap();
}
