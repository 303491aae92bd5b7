//! `penstock up`: from nothing to a secured API, as a new user meets it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use harness::Process;
use nix::sys::signal::Signal::{SIGINT, SIGKILL};

/// A data folder as the first start leaves it, with ports that nobody else has. The first start itself
/// ends at once, since the sample backend's port is taken.
fn data() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    // Whether we hold it or somebody else does: it is taken.
    let _held = TcpListener::bind("127.0.0.1:8688");
    let (code, text) = Process::run(folder.path(), &["up", "--data", "data dir"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("127.0.0.1:8688 (echo backend) is taken; its port is set by"), "{text}");
    assert!(text.contains("data dir/apis/echo.yaml"), "{text}");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    edit(folder.path(), "apis/echo.yaml", &[("127.0.0.1:8688", &format!("127.0.0.1:{free}"))]);
    let ports = [":8280\"", ":8243\"", ":9201\""].map(|port| (port, ":0\""));
    edit(folder.path(), "penstock.toml", &ports);
    folder
}

fn edit(folder: &Path, name: &str, changes: &[(&str, &str)]) {
    let file = folder.join("data dir").join(name);
    let mut text = fs::read_to_string(&file).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "{from} in {text}");
        text = text.replace(from, to);
    }
    fs::write(file, text).unwrap();
}

fn up(folder: &Path) -> (Process, String) {
    let process = Process::start(folder, &["up", "--data", "data dir"]);
    let printed = process.wait_for("Ctrl-C ends it.");
    (process, printed)
}

/// What the shell says to the `curl` lines of `printed`, in their order.
fn run_curls(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter(|line| line.starts_with("curl "));
    let run = |line: &str| {
        // Somewhere else: the lines can be pasted anywhere.
        let elsewhere = tempfile::tempdir().unwrap();
        let output =
            Command::new("sh").args(["-c", line]).current_dir(elsewhere.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    lines.map(run).collect()
}

#[track_caller]
fn check_curls(printed: &str) {
    let answers = run_curls(printed);
    let [http, https, denied] = answers.as_slice() else { panic!("three lines in {printed}") };
    for answer in [http, https] {
        assert!(answer.starts_with("HTTP/"), "{answer}");
        assert!(answer.lines().next().unwrap().contains(" 200"), "{answer}");
        assert!(answer.ends_with("{\"hello\":\"world\"}"), "{answer}");
    }
    assert!(denied.starts_with("HTTP/1.1 401 "), "{denied}");
    assert!(
        denied.contains("{\"code\":\"900902\",\"message\":\"Missing Credentials\""),
        "{denied}"
    );
}

#[test]
fn the_printed_curl_lines_do_what_they_say_and_ctrl_c_ends_it_well() {
    let folder = data();
    let (mut process, printed) = up(folder.path());
    check_curls(&printed);
    process.signal(SIGINT);
    assert_eq!(process.wait().code(), Some(0), "{}", process.text());
}

#[test]
fn after_kill_9_it_starts_again_on_the_same_folder() {
    let folder = data();
    let (mut process, printed) = up(folder.path());
    check_curls(&printed);
    let keys = || fs::read(folder.path().join("data dir/keys/jwks.json")).unwrap();
    let before = keys();
    process.signal(SIGKILL);
    assert_eq!(process.wait().code(), None);
    let (mut process, printed) = up(folder.path());
    check_curls(&printed);
    assert_eq!(keys(), before, "the signing key is kept");
    process.signal(SIGINT);
    assert_eq!(process.wait().code(), Some(0));
}

#[test]
fn the_sample_may_be_edited_while_it_runs() {
    let folder = data();
    let (_process, printed) = up(folder.path());
    let denied = printed.lines().rfind(|line| line.starts_with("curl ")).unwrap();
    assert!(run_curls(denied)[0].starts_with("HTTP/1.1 401 "));
    edit(folder.path(), "apis/echo.yaml", &[("paths:", "security: []\npaths:")]);
    while run_curls(denied)[0].starts_with("HTTP/1.1 401 ") {}
    assert!(run_curls(denied)[0].ends_with("{\"hello\":\"world\"}"));
}
