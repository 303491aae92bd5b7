//! Database servers, started for a test from the Debian packages.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use harness::{Identity, PATIENCE};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use tempfile::TempDir;

/// The URL of a server on which all tests make their databases, with a `/` at its end; without it they use SQLite.
const GIVEN: &str = "PENSTOCK_TEST_DATABASE";
const LOGIN: &str = "penstock:a-password@127.0.0.1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Postgres,
    MariaDb,
}

/// A server with the empty database `penstock`, on the same port each time it is started. Killed when dropped.
pub(crate) struct Server {
    kind: Kind,
    folder: TempDir,
    port: u16,
    running: Option<Child>,
}

impl Server {
    pub(crate) fn start(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identity = Identity::of(&["localhost", "127.0.0.1"]);
        let key = folder.path().join("tls.key");
        std::fs::write(folder.path().join("tls.crt"), identity.cert_pem).unwrap();
        std::fs::write(&key, identity.key_pem).unwrap();
        std::fs::set_permissions(key, PermissionsExt::from_mode(0o600)).unwrap();
        if is_root() {
            // PostgreSQL refuses to run as root.
            let mut owner = Command::new("chown");
            owner.args(["-R", "nobody:nogroup"]).arg(folder.path());
            assert!(owner.status().unwrap().success());
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Self { kind, folder, port, running: None };
        server.initialise();
        server.restart();
        server
    }

    fn initialise(&self) {
        let mut command = match self.kind {
            Kind::Postgres => {
                let mut command = self.command(&programs().join("initdb"));
                command.args(["--username=penstock", "--auth=trust", "--no-sync", "-D"]);
                command.arg(self.path("data"));
                command
            }
            Kind::MariaDb => {
                std::fs::write(self.path("user.sql"), USER).unwrap();
                let mut command = self.command(Path::new("mariadb-install-db"));
                command.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
                command.args(["--skip-test-db", &format!("--tmpdir={}", self.path(""))]);
                command.arg(format!("--datadir={}", self.path("data")));
                command
            }
        };
        let output = command.output().expect("the server is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts it, at first or after [`Self::kill`], and waits until it accepts connections.
    pub(crate) fn restart(&mut self) {
        let existing = match self.kind {
            Kind::Postgres => self.url("postgres"),
            Kind::MariaDb => self.url("mysql"),
        };
        let begun = Instant::now();
        while let Err(error) = sql(&self.url("penstock"), "SELECT 1") {
            assert!(begun.elapsed() < PATIENCE, "{error}");
            // PostgreSQL does not start while processes of the one before are ending.
            if self.running.as_mut().is_none_or(|running| running.try_wait().unwrap().is_some()) {
                self.running = Some(self.program().spawn().expect("the server is installed"));
            }
            let _ = sql(&existing, "CREATE DATABASE penstock");
        }
    }

    /// Without waiting for the disk: writes survive `kill -9`.
    fn program(&self) -> Command {
        let (folder, port) = (self.path(""), self.port.to_string());
        let (cert, key) = (self.path("tls.crt"), self.path("tls.key"));
        let mut command = match self.kind {
            Kind::Postgres => {
                let mut command = self.command(&programs().join("postgres"));
                command.args(["-h", "127.0.0.1", "-p", &port, "-k", &folder, "-c", "ssl=on"]);
                command.args(["-c", "fsync=off"]);
                command.args(["-c", &format!("ssl_cert_file={cert}")]);
                command.args(["-c", &format!("ssl_key_file={key}"), "-D", &self.path("data")]);
                command
            }
            Kind::MariaDb => {
                let mut command = self.command(Path::new("mariadbd"));
                command.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
                command.args(["--ssl-cert", &cert, "--ssl-key", &key, "--port", &port]);
                command.args(["--datadir", &self.path("data"), "--tmpdir", &folder]);
                command.args(["--socket", &self.path("socket"), "--pid-file", &self.path("pid")]);
                command.args(["--init-file", &self.path("user.sql")]);
                command.arg("--innodb-flush-method=nosync");
                command
            }
        };
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Ends it by `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            running.kill().unwrap();
            running.wait().unwrap();
        }
    }

    /// The URL of a database, with the password of its user.
    pub(crate) fn url(&self, database: &str) -> String {
        let scheme = match self.kind {
            Kind::Postgres => "postgres",
            Kind::MariaDb => "mysql",
        };
        format!("{scheme}://{LOGIN}:{}/{database}", self.port)
    }

    /// The same, for encrypted connections to a server with a certificate of `authority`.
    pub(crate) fn verified_url(&self, authority: &str) -> String {
        let query = match self.kind {
            Kind::Postgres => "sslmode=verify-full&sslrootcert",
            Kind::MariaDb => "ssl-mode=VERIFY_IDENTITY&ssl-ca",
        };
        format!("{}?{query}={authority}", self.url("penstock"))
    }

    /// The server's own certificate.
    pub(crate) fn certificate(&self) -> String {
        self.path("tls.crt")
    }

    /// Executes statements in its database `penstock`.
    pub(crate) fn sql(&self, statements: &str) -> String {
        sql(&self.url("penstock"), statements).unwrap()
    }

    /// Runs the tests of this program on it.
    pub(crate) fn run_tests(&self) {
        let mut tests = Command::new(std::env::current_exe().unwrap());
        assert!(tests.env(GIVEN, self.url("")).status().unwrap().success());
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        let path = std::env::var("PATH").unwrap_or_default();
        command.current_dir(self.folder.path()).env("PATH", format!("{path}:/usr/sbin"));
        command.stdin(Stdio::null());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = &self.running
            && self.kind == Kind::Postgres
        {
            // It ends its other processes, too.
            let id = Pid::from_raw(i32::try_from(running.id()).unwrap());
            nix::sys::signal::kill(id, Signal::SIGQUIT).unwrap();
            self.running.take().unwrap().wait().unwrap();
        }
        self.kill();
    }
}

/// MariaDB executes it at each start.
const USER: &str = "CREATE USER IF NOT EXISTS 'penstock'@'127.0.0.1' IDENTIFIED BY 'a-password';\n\
    GRANT ALL ON *.* TO 'penstock'@'127.0.0.1';\n";

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Debian installs the server's programs outside of the search path.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is installed");
    let mut found: Vec<PathBuf> = versions.map(|entry| entry.unwrap().path().join("bin")).collect();
    found.sort();
    found.into_iter().rfind(|folder| folder.join("initdb").exists()).expect("a server")
}

/// The URL of the server on which the tests run, if it is not SQLite.
pub(crate) fn given() -> Option<String> {
    std::env::var(GIVEN).ok()
}

/// Makes a database on the server at `url`; returns its URL.
pub(crate) fn create(url: &str) -> String {
    static DATABASES: AtomicU32 = AtomicU32::new(0);
    let number = DATABASES.fetch_add(1, Ordering::Relaxed);
    let name = format!("penstock_{}_{number}", std::process::id());
    let existing = if url.starts_with("postgres") { "postgres" } else { "mysql" };
    sql(&format!("{url}{existing}"), &format!("CREATE DATABASE {name}")).unwrap();
    format!("{url}{name}")
}

/// Executes statements in the database at `url`; returns the rows, one per line.
pub(crate) fn sql(url: &str, statements: &str) -> Result<String, String> {
    run(client(url), statements)
}

/// The client of the database at `url`, which reads statements.
pub(crate) fn client(url: &str) -> Command {
    if url.starts_with("postgres") {
        let mut command = Command::new("psql");
        command.args(["--no-psqlrc", "-qAt", "-v", "ON_ERROR_STOP=1", url]);
        return command;
    }
    let (_, rest) = url.split_once("://").expect("a URL");
    let (login, place) = rest.split_once('@').expect("a login");
    let (user, password) = login.split_once(':').expect("a password");
    let (address, database) = place.split_once('/').expect("a database");
    let (host, port) = address.split_once(':').expect("a port");
    let mut command = Command::new("mariadb");
    command.args(["--no-defaults", "--protocol=tcp", "--batch", "--skip-column-names"]);
    command.args(["--unbuffered", "--skip-ssl", "-h", host, "-P", port, "-u", user]);
    command.args([&format!("--password={password}"), database]);
    command
}

/// Runs a program that reads statements and prints rows.
pub(crate) fn run(mut command: Command, statements: &str) -> Result<String, String> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // A client that ends at once reads nothing; its error is in its output.
    let _ = child.stdin.take().expect("a pipe").write_all(statements.as_bytes());
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
