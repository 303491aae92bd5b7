//! Snapshots on disk: a gateway starts while its sources are unavailable.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use harness::{Client, Files, Issuer, PATIENCE, Process, Upstream};
use nix::sys::signal::Signal::SIGKILL;

/// A secured API at `/a` that forwards to `upstream`.
fn description(upstream: &Upstream) -> String {
    format!(
        "openapi: 3.0.3\ninfo: {{title: A, version: '1'}}\nx-wso2-basePath: /a\n\
         x-wso2-production-endpoints: {{urls: ['{}']}}\n\
         paths:\n  /*:\n    $ref: parts/path.json\n",
        upstream.url()
    )
}

const PATH: &str = r#"{"get": {"responses": {"200": {"description": "ok"}}}}"#;

/// A gateway with snapshots, and one API that answers with `text`.
struct Setup {
    files: Files,
    issuer: Issuer,
    _upstream: Upstream,
}

impl Setup {
    fn new(text: &'static str) -> Self {
        let (upstream, issuer) = (Upstream::fixed(text), Issuer::new("first"));
        let files = Files::new().toml("[snapshot]\ndirectory = \"snapshots/\"\n");
        let files = files.issuer("first", &issuer);
        fs::create_dir(files.path("apis/parts")).unwrap();
        files.write("apis/parts/path.json", PATH);
        Self { files: files.api("a.yaml", &description(&upstream)), issuer, _upstream: upstream }
    }

    fn answer(&self, process: &Process) -> String {
        let bearer = format!("Authorization: {}\r\n", self.issuer.token().bearer());
        Client::connect(process.address("http")).fetch("GET /a/x", &bearer).text()
    }

    fn snapshot(&self, number: u32) -> PathBuf {
        self.files.path(&format!("snapshots/snapshot-{number:016}"))
    }

    /// Starts a gateway, waits for snapshot `number`, and kills it.
    fn save(&self, number: u32) {
        let process = Process::gateway(&self.files);
        until("the snapshot is written", || self.snapshot(number).exists());
        process.signal(SIGKILL);
    }

    fn hide(&self) {
        fs::rename(self.files.path("apis"), self.files.path("hidden")).unwrap();
        fs::remove_file(self.files.path("first.jwks")).unwrap();
    }

    fn damage(&self, number: u32) {
        let mut bytes = fs::read(self.snapshot(number)).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(self.snapshot(number), bytes).unwrap();
    }
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::yield_now();
    }
}

fn restored(process: &Process, files: u32) -> bool {
    metrics(process).contains(&format!("penstock_snapshot_restored_files {files}\n"))
}

fn metrics(process: &Process) -> String {
    Client::connect(process.address("admin")).fetch("GET /metrics", "").text()
}

#[test]
fn a_gateway_serves_what_its_missing_sources_held_until_they_are_back() {
    let setup = Setup::new("one");
    setup.save(1);
    setup.hide();
    let process = Process::gateway(&setup.files);
    assert_eq!(setup.answer(&process), "one");
    let text = process.text();
    assert!(text.contains("sources are unavailable") && text.contains("snapshot-0"), "{text}");
    assert!(restored(&process, 1));
    let two = Upstream::fixed("two");
    setup.files.write("hidden/a.yaml", &description(&two));
    fs::rename(setup.files.path("hidden"), setup.files.path("apis")).unwrap();
    until("the source is read again", || setup.answer(&process) == "two");
    until("nothing is restored", || restored(&process, 0));
}

#[test]
fn a_source_that_is_back_but_broken_leaves_the_version_of_the_snapshot_in_use() {
    let setup = Setup::new("one");
    setup.save(1);
    setup.hide();
    let process = Process::gateway(&setup.files);
    setup.files.write("hidden/a.yaml", "openapi: 3.0.3\ninfo: 7\n");
    fs::rename(setup.files.path("hidden"), setup.files.path("apis")).unwrap();
    let diagnostics =
        || Client::connect(process.address("admin")).fetch("GET /diagnostics", "").text();
    until("the broken file is read", || diagnostics().contains("a.yaml"));
    assert_eq!(setup.answer(&process), "one");
    assert!(restored(&process, 1), "{}", process.text());
    let two = Upstream::fixed("two");
    setup.files.write("apis/a.yaml", &description(&two));
    until("nothing is restored", || restored(&process, 0));
}

#[test]
fn a_snapshot_is_found_however_the_configuration_is_named() {
    let setup = Setup::new("one");
    setup.save(1);
    setup.hide();
    let process = Process::start(setup.files.folder(), &["gateway", "--config", "penstock.toml"]);
    process.wait_for(" serving ");
    assert_eq!(setup.answer(&process), "one");
}

#[test]
fn a_folder_of_snapshots_that_cannot_be_read_ends_the_start_without_sources() {
    let setup = Setup::new("one");
    setup.files.configure();
    setup.hide();
    std::os::unix::fs::symlink("snapshots", setup.files.path("snapshots")).unwrap();
    let folder = setup.files.folder();
    let (code, text) = Process::run(folder, &["gateway", "--config", "penstock.toml"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("the folder of snapshots cannot be read"), "{text}");
}

#[test]
fn an_empty_folder_in_place_of_a_source_is_one_that_is_missing() {
    let setup = Setup::new("one");
    setup.save(1);
    setup.hide();
    fs::create_dir(setup.files.path("apis")).unwrap();
    let process = Process::gateway(&setup.files);
    assert_eq!(setup.answer(&process), "one");
}

#[test]
fn a_damaged_snapshot_is_named_and_the_one_before_it_is_used() {
    let setup = Setup::new("one");
    setup.save(1);
    setup.save(2);
    setup.damage(2);
    setup.hide();
    let process = Process::gateway(&setup.files);
    assert_eq!(setup.answer(&process), "one");
    let text = process.text();
    assert!(text.contains("damaged") && text.contains(&format!("{:016}", 2)), "{text}");
}

#[test]
fn without_a_whole_snapshot_and_without_sources_the_gateway_does_not_start() {
    let setup = Setup::new("one");
    setup.save(1);
    setup.save(2);
    setup.damage(1);
    setup.damage(2);
    setup.hide();
    let folder = setup.files.folder();
    let (code, text) = Process::run(folder, &["gateway", "--config", "penstock.toml"]);
    assert_eq!(code, Some(1), "{text}");
    for part in ["apis", "snapshot-0000000000000001", "snapshot-0000000000000002", "damaged"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn a_gateway_serves_by_the_plans_of_the_snapshot_until_their_file_is_back() {
    // The file that needs not exist, and one that is configured.
    for (name, keys) in [("plans.toml", ""), ("conf/plans.toml", "plans = [\"conf/plans.toml\"]\n")]
    {
        let mut setup = Setup::new("one");
        setup.files = setup.files.gateway(keys);
        fs::create_dir(setup.files.path("conf")).unwrap();
        let plan = |requests: u32| {
            format!(
                "[[plan]]\nname = \"Tiny\"\nlimits = [{{ requests = {requests}, per = \"1y\" }}]\n"
            )
        };
        setup.files.write(name, &plan(1));
        let api = fs::read_to_string(setup.files.path("apis/a.yaml")).unwrap();
        setup.files.write("apis/a.yaml", &format!("x-wso2-throttling-tier: Tiny\n{api}"));
        setup.save(1);
        fs::remove_file(setup.files.path(name)).unwrap();
        let process = Process::gateway(&setup.files);
        assert!(process.text().contains("its plans are those of the snapshot"), "{name}");
        assert_eq!(setup.answer(&process), "one");
        assert_ne!(setup.answer(&process), "one", "a second request exceeds the plan");
        // The sources stay in the snapshots that this gateway writes, too.
        until("the next snapshot is written", || setup.snapshot(2).exists());
        drop(process);
        let process = Process::gateway(&setup.files);
        assert_eq!(setup.answer(&process), "one");
        assert_ne!(setup.answer(&process), "one");
        setup.files.write(name, &plan(1_000));
        until("the file is read again", || setup.answer(&process) == "one");
        // From now on, its removal counts.
        fs::remove_file(setup.files.path(name)).unwrap();
        if keys.is_empty() {
            process.wait_for("there is no plan `Tiny`");
        }
    }
}

#[test]
fn a_damaged_snapshot_is_named_where_plans_are_needed_from_it() {
    let mut setup = Setup::new("one");
    setup.files = setup.files.gateway("plans = [\"conf.toml\"]\n");
    setup.files.write("conf.toml", "");
    setup.save(1);
    setup.damage(1);
    fs::remove_file(setup.files.path("conf.toml")).unwrap();
    let folder = setup.files.folder();
    let (code, text) = Process::run(folder, &["gateway", "--config", "penstock.toml"]);
    assert_eq!(code, Some(1), "{text}");
    for part in ["conf.toml", "snapshot-0000000000000001", "damaged"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn snapshots_are_in_the_data_folder_unless_configured() {
    let mut setup = Setup::new("one");
    setup.files = Files::new().issuer("first", &setup.issuer);
    let process = Process::gateway(&setup.files);
    let first = setup.files.path("data/snapshots/snapshot-0000000000000001");
    until("a snapshot is written", || first.exists());
    drop(process);
    fs::remove_file(setup.files.path("first.jwks")).unwrap();
    let process = Process::gateway(&setup.files);
    assert!(process.text().contains("sources are unavailable"), "{}", process.text());
}

#[test]
fn a_folder_that_cannot_be_written_is_reported_and_requests_are_served() {
    let setup = Setup::new("one");
    setup.files.write("snapshots", "a file in place of the folder");
    let process = Process::gateway(&setup.files);
    let failed = "penstock_snapshot_writes_total{result=\"failure\"} 1\n";
    until("a snapshot has failed", || metrics(&process).contains(failed));
    assert_eq!(setup.answer(&process), "one");
    let diagnostics =
        Client::connect(process.address("admin")).fetch("GET /diagnostics", "").text();
    assert!(diagnostics.contains("the snapshot cannot be written"), "{diagnostics}");
}

#[test]
fn a_gateway_that_is_killed_while_it_writes_leaves_the_earlier_snapshot() {
    let setup = Setup::new("one");
    setup.save(1);
    // So much that the next one takes a moment.
    setup.files.write("apis/parts/large.json", &format!("{PATH}{}", " ".repeat(30 << 20)));
    let text = fs::read_to_string(setup.files.path("apis/a.yaml")).unwrap();
    setup.files.write("apis/a.yaml", &text.replace("path.json", "large.json"));
    let process = Process::gateway(&setup.files);
    let unfinished = setup.files.path("snapshots/.snapshot-0000000000000002.tmp");
    until("writing has begun", || unfinished.exists() || setup.snapshot(2).exists());
    process.signal(SIGKILL);
    drop(process);
    setup.hide();
    let process = Process::gateway(&setup.files);
    assert_eq!(setup.answer(&process), "one");
    assert!(!process.text().contains("damaged"), "{}", process.text());
    fs::rename(setup.files.path("hidden"), setup.files.path("apis")).unwrap();
    until("the snapshot is written", || setup.snapshot(2).exists());
    assert!(!unfinished.exists());
}
