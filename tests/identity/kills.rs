//! `kill -9` before each write of a first start, of a refreshed token and of a revocation: the next start is clean.
//!
//! strace ends a start before its n-th write of a file of SQLite, or its n-th message to a database server, until there
//! are no more. strace counts for each thread, and SQLite has one for each connection: while it serves, the program is
//! ended when a file of SQLite would grow beyond n bytes.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::OnceLock;

use harness::{Client, Files, Issuer, Process, wait_until};
use serde_json::{Value, json};

use crate::key_manager::{CONTROL, KeyManager, SIGN_IN, basic, prepared};
use crate::servers;

/// Calls of the system, the files that they write (none: any), and how many of them come before the next that is tried.
type Writes<'a> = (&'a str, &'a [&'a str], usize);

/// Arguments of strace to end the program before one of its `writes`, from the first on.
fn ended_before(number: usize, (call, names, _): Writes<'_>, files: &Files) -> Vec<String> {
    let mut arguments =
        vec!["-f".to_owned(), "-o".to_owned(), files.path("calls").to_str().unwrap().to_owned()];
    for name in names {
        let path = files.path(name).to_str().unwrap().to_owned();
        // Opened by its path and by its name.
        arguments.extend(["-P".to_owned(), path, "-P".to_owned(), (*name).to_owned()]);
    }
    arguments.extend(["-e".to_owned(), format!("trace={call}"), "-e".to_owned()]);
    arguments.push(format!("inject={call}:signal=KILL:when={number}"));
    arguments
}

/// With a key that is quickly made, and an empty database.
fn files() -> Files {
    static KEY: OnceLock<String> = OnceLock::new();
    let files = prepared(Files::new().toml(&format!("{CONTROL}keys = [\"key.pem\"]\n")));
    files.write("key.pem", KEY.get_or_init(|| Issuer::new("key").pem.clone()));
    files
}

#[test]
fn a_first_start_that_is_killed_before_any_of_its_writes_is_followed_by_a_clean_one() {
    let clean = tables(&KeyManager::of(files()));
    let sqlite: &[Writes<'_>] = &[
        ("pwrite64", &["penstock.db-journal"], 1),
        ("pwrite64", &["penstock.db-wal"], 5),
        ("pwrite64", &["penstock.db"], 5),
    ];
    let server: &[Writes<'_>] = &[("sendto", &[], 19)];
    for writes in if servers::given().is_some() { server } else { sqlite } {
        let killed = (1..).step_by(writes.2).take_while(|number| {
            let (files, is_killed) = first_start(*number, *writes);
            // Administrator included: `register` needs the password.
            let manager = KeyManager::of_prepared(files);
            let (id, secret) = manager.register("a", json!({}));
            manager.token((&id, &secret), "grant_type=client_credentials");
            assert_eq!(tables(&manager), clean, "{writes:?} {number}");
            is_killed
        });
        let killed = killed.count();
        assert!(killed >= 2, "{writes:?}: {killed}");
    }
}

/// Whether the start was ended before it had served.
fn first_start(number: usize, writes: Writes<'_>) -> (Files, bool) {
    let files = files();
    files.configure();
    // It stays a child of the test.
    let mut strace = vec!["strace".to_owned(), "-D".to_owned(), "-qq".to_owned()];
    strace.extend(ended_before(number, writes, &files));
    let strace: Vec<&str> = strace.iter().map(String::as_str).collect();
    let arguments = ["control", "--config", "penstock.toml"];
    let process = Process::start_by(files.folder(), &strace, &arguments);
    let is_killed = !process.has_printed(" serving ");
    (files, is_killed)
}

/// The tables after a first start.
fn tables(manager: &KeyManager) -> String {
    if servers::given().is_none() {
        assert_eq!(manager.sql("PRAGMA integrity_check").trim(), "ok");
    }
    manager.sql(
        "SELECT version FROM schema_versions ORDER BY version; SELECT name, admin FROM users; \
         SELECT COUNT(*) FROM revisions;",
    )
}

/// A client whose user has signed in.
struct Session {
    manager: KeyManager,
    login: (String, String),
    refresh: String,
    access: String,
}

impl Session {
    fn new(manager: KeyManager) -> Self {
        let more = json!({ "tokenType": "OAUTH", "grantType": "password refresh_token" });
        let login = manager.register("a", more);
        let text = String::new();
        let mut session = Self { manager, login, refresh: text.clone(), access: text };
        session.sign_in();
        session
    }

    fn sign_in(&mut self) {
        let issued = self.manager.token((&self.login.0, &self.login.1), SIGN_IN);
        self.keep(&issued);
    }

    fn keep(&mut self, issued: &Value) {
        let text = |name: &str| issued[name].as_str().unwrap().to_owned();
        (self.access, self.refresh) = (text("access_token"), text("refresh_token"));
    }

    /// Rows of all tokens, and how many are spent.
    fn rows(&self) -> (u32, u32) {
        self.numbers(
            "SELECT (SELECT COUNT(*) FROM tokens), (SELECT COUNT(*) FROM tokens WHERE spent = 1)",
        )
    }

    /// Rows of the access token, and of its revocation.
    fn rows_of_access(&self) -> (u32, u32) {
        let hash = jose::token_hash_text(&jose::sha256(self.access.as_bytes()));
        self.numbers(&format!(
            "SELECT (SELECT COUNT(*) FROM tokens WHERE hash = '{hash}'), \
             (SELECT COUNT(*) FROM revocations WHERE hash = '{hash}')"
        ))
    }

    fn numbers(&self, select: &str) -> (u32, u32) {
        let row = self.manager.sql(select);
        let mut numbers = row.trim().split(['|', '\t']).map(|number| number.parse().unwrap());
        (numbers.next().unwrap(), numbers.next().unwrap())
    }

    /// Lets the key manager be ended by its n-th write from now on.
    fn arm(&self, number: usize) -> Option<Strace> {
        if servers::given().is_some() {
            return Some(Strace::attach(&self.manager, number, ("sendto", &[], 1)));
        }
        // All that is written is appended to an empty file. 0: no reader was in the way.
        let empty = "PRAGMA wal_checkpoint(TRUNCATE)";
        wait_until(|| self.manager.sql(empty).starts_with("0|"));
        limit_files(&self.manager.process, &((number - 1) * HALF_A_PAGE).to_string());
        None
    }

    /// Lets it run. False: strace had not taken hold of it yet.
    fn disarm(&self, strace: Option<Strace>) -> bool {
        let Some(mut strace) = strace else {
            limit_files(&self.manager.process, "unlimited");
            return true;
        };
        strace.detach();
        let calls = std::fs::read_to_string(self.manager.files.path("calls")).unwrap();
        calls.contains("sendto(")
    }

    /// Ends the key manager before the n-th write of a request, for each n, and restarts it. `check` gets the response
    /// to the request, which is absent if the key manager was ended; at last there is one. Returns how often there was
    /// none.
    fn each_time(
        self,
        request: impl Fn(&Self) -> (&'static str, String),
        mut check: impl FnMut(&mut Self, Option<Value>),
    ) -> usize {
        let mut session = self;
        let (mut number, mut uncounted) = (1, 0);
        loop {
            assert!(uncounted < ATTEMPTS, "strace does not take hold of the program");
            let (path, form) = request(&session);
            let fields = basic(Some((&session.login.0, &session.login.1)))
                + "Content-Type: application/x-www-form-urlencoded\r\n";
            let mut client = session.manager.connect();
            // The handshake is over.
            assert_eq!(client.fetch("GET /oauth2/jwks", "").status, 200);
            let strace = session.arm(number);
            let response = send(&mut client, path, &fields, &form);
            match response {
                Some(response) => {
                    let is_counted = session.disarm(strace);
                    // Something else that it wrote may have ended it meanwhile.
                    session.manager = restarted(session.manager);
                    check(&mut session, Some(response));
                    if is_counted {
                        return number - 1;
                    }
                    uncounted += 1;
                }
                None => {
                    if let Some(mut strace) = strace {
                        strace.end();
                    }
                    session.manager = restarted(session.manager);
                    check(&mut session, None);
                    number += 1;
                }
            }
        }
    }
}

/// Starts it again after it was killed, when a database server has noticed that: a transaction whose end it had
/// received may end later.
fn restarted(manager: KeyManager) -> KeyManager {
    let stopped = manager.stop();
    if let Some(server) = servers::given() {
        let others = if server.starts_with("postgres") {
            "SELECT COUNT(*) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()"
        } else {
            "SELECT COUNT(*) FROM information_schema.processlist \
             WHERE db = DATABASE() AND id <> CONNECTION_ID()"
        };
        wait_until(|| stopped.sql(others).trim() == "0");
    }
    stopped.start()
}

/// The body of the response, if one came.
fn send(client: &mut Client, path: &str, fields: &str, form: &str) -> Option<Value> {
    client.try_send(format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {}\r\n\r\n{form}",
        form.len()
    ));
    let response = client.try_read()?;
    assert_eq!(response.status, 200, "{}", response.text());
    Some(serde_json::from_slice(&response.body).unwrap_or_default())
}

/// That strace gets to take hold of a program.
const ATTEMPTS: usize = 50;

/// Half a page of SQLite's log, in bytes.
const HALF_A_PAGE: usize = 2_060;

/// Ends `process` (SIGXFSZ) when it would make a file larger than this.
fn limit_files(process: &Process, bytes: &str) {
    let mut command = Command::new("prlimit");
    command.args(["--core=0", &format!("--fsize={bytes}:"), "--pid", &process.id().to_string()]);
    assert!(command.status().expect("prlimit is installed").success());
}

/// A running strace with its output, which has to be kept open: strace ends if it cannot report another thread.
struct Strace {
    child: Child,
    _printed: BufReader<ChildStderr>,
}

impl Strace {
    fn attach(manager: &KeyManager, number: usize, writes: Writes<'_>) -> Self {
        for _ in 0..ATTEMPTS {
            let mut strace = Self::of_threads(manager, number, writes);
            if is_traced(&manager.process) {
                return strace;
            }
            // A thread has begun meanwhile.
            strace.detach();
        }
        panic!("strace does not take hold of all threads");
    }

    /// Attaches to the existing threads.
    fn of_threads(manager: &KeyManager, number: usize, writes: Writes<'_>) -> Self {
        let mut command = Command::new("strace");
        command.args(ended_before(number, writes, &manager.files));
        command.arg("-p").arg(manager.process.id().to_string());
        let mut child = command.stderr(Stdio::piped()).spawn().expect("strace is installed");
        let mut printed = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        printed.read_line(&mut line).unwrap();
        assert!(line.contains("attached"), "{line}");
        Self { child, _printed: printed }
    }

    /// Lets the program run.
    fn detach(&mut self) {
        let id = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGTERM).unwrap();
        let begun = std::time::Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if begun.elapsed() > harness::PATIENCE / 4 {
                return self.end();
            }
            std::thread::yield_now();
        }
    }

    /// It may wait without end for a program that has ended.
    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Whether all of its threads are.
fn is_traced(process: &Process) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{}/task", process.id())).unwrap();
    threads.map(Result::unwrap).all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        !status.contains("\nTracerPid:\t0\n")
    })
}

#[test]
fn a_refresh_that_is_killed_before_any_of_its_writes_has_happened_as_a_whole_or_not_at_all() {
    let session = Session::new(KeyManager::of(files()));
    let (mut before, mut whole, mut nothing) = (session.rows(), 0, 0);
    let killed = session.each_time(
        |session| {
            let token = &session.refresh;
            ("/oauth2/token", format!("grant_type=refresh_token&refresh_token={token}"))
        },
        |session, response| {
            let found = session.rows();
            if found == before {
                assert!(response.is_none(), "what was acknowledged is lost");
                nothing += 1;
            } else {
                assert_eq!(found, (before.0 + 2, before.1 + 1));
                whole += 1;
                match response {
                    Some(issued) => session.keep(&issued),
                    None => session.sign_in(),
                }
            }
            let login = (session.login.0.as_str(), session.login.1.as_str());
            assert!(session.manager.is_active(login, &session.access));
            before = session.rows();
        },
    );
    assert!(nothing >= 2, "it was ended {killed} times");
    assert!(whole >= 1);
}

#[test]
fn a_revocation_that_is_killed_before_any_of_its_writes_is_published_if_it_happened() {
    let session = Session::new(KeyManager::of(files()));
    let mut nothing = 0;
    let killed = session.each_time(
        |session| ("/oauth2/revoke", format!("token={}", session.access)),
        |session, response| {
            if session.rows_of_access() == (1, 0) {
                assert!(response.is_none(), "what was acknowledged is lost");
                nothing += 1;
            } else {
                assert_eq!(session.rows_of_access(), (0, 1));
                session.sign_in();
            }
        },
    );
    assert!(nothing >= 2, "it was ended {killed} times");
}
