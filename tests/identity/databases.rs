//! The key manager on database servers.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use harness::{Files, Identity, Issuer, PATIENCE, Process, wait_until};
use serde_json::{Value, json};

use crate::key_manager::{CONTROL, KeyManager, PASSWORD, SIGN_IN, error, success};
use crate::servers::{Kind, Server, client};
use crate::{applications, outages};

/// Each test on each kind of server.
macro_rules! on_servers {
    ($($test:ident)*) => {
        mod postgresql {
            $(#[test]
            #[ignore = "needs PostgreSQL; `make test-all` runs it. On Debian: apt-get install postgresql"]
            fn $test() {
                super::$test(super::Kind::Postgres);
            })*
        }
        mod mariadb {
            $(#[test]
            #[ignore = "needs MariaDB; `make test-all` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
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
    known_credentials_work_and_nothing_is_lost_while_the_server_and_the_key_manager_are_killed
    a_login_under_way_when_the_password_changes_results_in_nothing
    a_refresh_under_way_when_the_password_changes_ends_with_it
    a_plan_that_an_application_is_about_to_name_is_not_removed
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

fn known_credentials_work_and_nothing_is_lost_while_the_server_and_the_key_manager_are_killed(
    kind: Kind,
) {
    let mut server = Server::start(kind);
    let manager = KeyManager::of(files(&server.url("penstock")));
    outages::survives(manager, Some(&mut server));
}

/// A program that keeps a transaction open.
struct Other {
    child: Child,
    statements: ChildStdin,
    rows: BufReader<ChildStdout>,
}

impl Other {
    fn start(server: &Server) -> Self {
        let mut command = client(&server.url("penstock"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let statements = child.stdin.take().unwrap();
        let rows = BufReader::new(child.stdout.take().unwrap());
        Self { child, statements, rows }
    }

    /// Returns when they have been executed.
    fn execute(&mut self, text: &str) {
        writeln!(self.statements, "{text}; SELECT 'done';").unwrap();
        let mut row = String::new();
        while row.trim() != "done" {
            row.clear();
            assert!(self.rows.read_line(&mut row).unwrap() > 0, "{text}");
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Statements that wait for a row, or for the lock of [`a_refresh_under_way_when_the_password_changes_ends_with_it`].
fn wait_for_waiting(kind: Kind, server: &Server, count: u32) {
    let waiting = match kind {
        Kind::Postgres => "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
        // Not by `innodb_trx`, which is read anew only when it was not read for a while.
        Kind::MariaDb => {
            "SELECT (SELECT variable_value FROM information_schema.global_status \
             WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS') + \
             (SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock')"
        }
    };
    wait_until(|| server.sql(waiting).trim().parse::<u32>().unwrap() == count);
}

/// A client for a user who signs in.
fn with_user(manager: &KeyManager) -> (String, String) {
    manager.register(
        "app",
        json!({
            "tokenType": "OAUTH",
            "grantType": "password refresh_token authorization_code \
                urn:ietf:params:oauth:grant-type:device_code",
            "callbackUrl": "https://app.example/callback",
        }),
    )
}

fn a_login_under_way_when_the_password_changes_results_in_nothing(kind: Kind) {
    let server = Server::start(kind);
    let manager = KeyManager::of(files(&server.url("penstock")));
    let (id, secret) = with_user(&manager);
    let login = Some((id.as_str(), secret.as_str()));
    let device = manager.post("/oauth2/device_authorize", login, "");
    let user_code = success(&device)["user_code"].as_str().unwrap().to_owned();
    let allow = "username=admin&password=correct+horse+battery&decision=allow";
    let mut other = Other::start(&server);
    for (path, login, form, expect) in [
        ("/oauth2/token", login, SIGN_IN.to_owned(), 400),
        (
            "/oauth2/authorize",
            None,
            format!(
                "response_type=code&client_id={id}&redirect_uri=https%3A%2F%2Fapp.example%2Fcallback\
                 &code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM\
                 &code_challenge_method=S256&{allow}"
            ),
            403,
        ),
        ("/oauth2/device", None, format!("user_code={user_code}&{allow}"), 400),
    ] {
        // As `user password` begins.
        other.execute("BEGIN; UPDATE users SET password = CONCAT(password, ' new')");
        let response = std::thread::scope(|scope| {
            let signing_in = scope.spawn(|| manager.post(path, login, &form));
            // The password was right, and its result is about to be stored.
            wait_for_waiting(kind, &server, 1);
            other.execute("COMMIT");
            signing_in.join().unwrap()
        });
        assert_eq!(response.status, expect, "{path}: {}{}", response.head, response.text());
        assert_eq!(response.header("Location"), None);
        server.sql("UPDATE users SET password = REPLACE(password, ' new', '')");
    }
    let stored = "SELECT (SELECT COUNT(*) FROM tokens) + (SELECT COUNT(*) FROM codes) + \
         (SELECT COUNT(*) FROM devices WHERE decision <> 0)";
    assert_eq!(server.sql(stored).trim(), "0");
    success(&manager.post("/oauth2/token", login, SIGN_IN));
}

fn a_refresh_under_way_when_the_password_changes_ends_with_it(kind: Kind) {
    let server = Server::start(kind);
    let manager = KeyManager::of(files(&server.url("penstock")));
    let (id, secret) = with_user(&manager);
    let login = (id.as_str(), secret.as_str());
    let first = manager.token(login, SIGN_IN);
    let refresh = |issued: &Value| {
        let token = issued["refresh_token"].as_str().unwrap();
        let form = format!("grant_type=refresh_token&refresh_token={token}");
        manager.post("/oauth2/token", Some(login), &form)
    };
    // The refresh waits when the old token is spent and before the new ones are stored.
    let (lock, unlock) = match kind {
        Kind::Postgres => {
            server.sql(
                "CREATE FUNCTION wait() RETURNS TRIGGER LANGUAGE plpgsql AS \
                 'BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NEW; END'; \
                 CREATE TRIGGER waits BEFORE INSERT ON tokens FOR EACH ROW EXECUTE FUNCTION wait()",
            );
            ("SELECT pg_advisory_lock(7)", "SELECT pg_advisory_unlock(7)")
        }
        Kind::MariaDb => {
            server.sql(
                "CREATE TRIGGER waits BEFORE INSERT ON tokens FOR EACH ROW \
                 SET @taken = GET_LOCK('wait', 60), @released = RELEASE_LOCK('wait')",
            );
            ("SELECT GET_LOCK('wait', 60)", "SELECT RELEASE_LOCK('wait')")
        }
    };
    let mut other = Other::start(&server);
    other.execute(lock);
    let (second, changed) = std::thread::scope(|scope| {
        let refreshing = scope.spawn(|| refresh(&first));
        wait_for_waiting(kind, &server, 1);
        let changing = scope.spawn(|| manager.command(&["user", "password", "admin"]));
        wait_for_waiting(kind, &server, 2);
        other.execute(unlock);
        (refreshing.join().unwrap(), changing.join().unwrap())
    });
    assert_eq!(changed.0, Some(0), "{}", changed.1);
    let second = success(&second);
    assert!(!manager.is_active(login, second["access_token"].as_str().unwrap()));
    assert_eq!(error(&refresh(&second)), "400 invalid_grant");
    assert_eq!(server.sql("SELECT COUNT(*) FROM tokens").trim(), "0");
}

fn a_plan_that_an_application_is_about_to_name_is_not_removed(kind: Kind) {
    let server = Server::start(kind);
    let manager = KeyManager::of(files(&server.url("penstock")));
    let limits = json!({ "limits": [{ "requests": 1, "per": "1m" }] });
    let plan = |method: &str| {
        applications::send_to(&manager, &format!("{method} {}/gold", applications::PLANS), &limits)
    };
    assert_eq!(plan("PUT").status, 201);
    let mut other = Other::start(&server);
    // As another instance stores an application.
    other.execute(
        "BEGIN; UPDATE revisions SET last = last + 1; \
         INSERT INTO applications (document, revision, name, removed_s) \
         SELECT '{\"plan\":\"Gold\"}', last, 'a', 0 FROM revisions",
    );
    let response = std::thread::scope(|scope| {
        let removing = scope.spawn(|| plan("DELETE"));
        wait_for_waiting(kind, &server, 1);
        other.execute("COMMIT");
        removing.join().unwrap()
    });
    assert_eq!(error(&response), "409 conflict");
    assert_eq!(plan("GET").status, 200);
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

/// As if migration 11, which adds a column to `codes` and one to `devices`, and an index, had not ended. Later
/// migrations are recorded again.
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
#[ignore = "needs MariaDB; `make test-all` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
fn a_first_start_that_is_killed_again_and_again_ends_with_the_same_tables_on_mariadb() {
    let mut server = Server::start(Kind::MariaDb);
    let files = files(&server.url("penstock"));
    files.configure();
    let columns = "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE()";
    // There are 78 in the end.
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
#[ignore = "needs MariaDB; `make test-all` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
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
#[ignore = "needs MariaDB; `make test-all` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
fn a_migration_that_fails_half_way_is_continued_when_its_cause_is_gone_on_mariadb() {
    let server = Server::start(Kind::MariaDb);
    works(&server);
    // A foreign column is in the way of the second statement.
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
#[ignore = "needs MariaDB; `make test-all` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
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
#[ignore = "needs MariaDB; `make test-all` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
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
#[ignore = "needs MariaDB; `make test-all` runs it. On Debian: apt-get install mariadb-server-core mariadb-client-core"]
fn a_transaction_that_a_deadlock_ends_is_repeated_on_mariadb() {
    let server = Server::start(Kind::MariaDb);
    let manager = KeyManager::of(files(&server.url("penstock")));
    let (id, secret) =
        manager.register("a", json!({ "tokenType": "OAUTH", "grantType": "password" }));
    let login = (id.as_str(), secret.as_str());
    let form = "grant_type=password&username=admin&password=correct+horse+battery";
    let tokens = [(); 8].map(|()| manager.token(login, form)["access_token"].clone());
    let mut other = Other::start(&server);
    // It changes more rows, so that the server ends the other transaction.
    other.execute("BEGIN; UPDATE tokens SET scope = CONCAT(scope, ' more')");
    let deadlocks = "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'";
    let before = server.sql(deadlocks);
    let (code, text) = std::thread::scope(|scope| {
        let change = scope.spawn(|| manager.command(&["user", "password", "admin"]));
        wait_for_waiting(Kind::MariaDb, &server, 1);
        other.execute("UPDATE users SET created_s = 1 WHERE name = 'admin'");
        other.execute("COMMIT");
        change.join().unwrap()
    });
    assert_eq!(code, Some(0), "{text}");
    assert_ne!(server.sql(deadlocks), before, "there was a deadlock");
    for token in tokens {
        assert!(!manager.is_active(login, token.as_str().unwrap()));
    }
}
