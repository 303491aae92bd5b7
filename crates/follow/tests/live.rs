//! The parts that are served after files change, with real folders and notifications. Each test waits for an expected
//! change. To check that something does not change, a test makes a later change (the fence) and waits for that.

mod artefacts;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base::{Clock, Now, SystemClock, limits};
use jose::SigningKey;
use model::{ApiState, GatewaySettings, IssuerSettings, KeySource, Settings, Snapshot};
use penstock_follow::{
    AskFeed, AskVault, Change, Fetch, Follower, Handle, OnUnknownKid, Options, Status,
};

/// Longest wait for a change, much longer than needed on any machine.
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn a_file_renamed_into_place_is_served() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a")]);
    assert_eq!(scene.served(), "/a");
    scene.replace("apis/a.yaml", &api("/b"));
    scene.until("/b");
}

#[test]
fn a_file_truncated_and_rewritten_is_served() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a")]);
    fs::write(scene.path("apis/a.yaml"), api("/b")).unwrap();
    scene.until("/b");
}

#[test]
fn a_file_written_in_pieces_is_read_when_it_is_closed() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a")]);
    let text = api("/b");
    let (first, second) = text.split_at(text.len() / 2);
    let mut file = File::create(scene.path("apis/a.yaml")).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    file.flush().unwrap();
    file.write_all(second.as_bytes()).unwrap();
    drop(file);
    scene.until("/b");
    assert_eq!(scene.status.reloads().failed, 0, "no part of it was read");
}

#[test]
fn an_editor_that_moves_the_old_file_away_first_causes_no_interruption() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a")]);
    fs::rename(scene.path("apis/a.yaml"), scene.path("apis/a.yaml~")).unwrap();
    fs::write(scene.path("apis/a.yaml"), api("/b")).unwrap();
    scene.until("/b");
    assert!(
        !scene.history.iter().any(String::is_empty),
        "never without the API: {:?}",
        scene.history
    );
}

#[test]
fn kubernetes_swaps_a_link_to_the_whole_folder() {
    let mut scene = Scene::new(&[]);
    let folder = scene.path("apis");
    for (version, path) in [("..one", "/a"), ("..two", "/b")] {
        fs::create_dir(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("a.yaml"), api(path)).unwrap();
    }
    symlink("..one", folder.join("..data")).unwrap();
    symlink("..data/a.yaml", folder.join("a.yaml")).unwrap();
    scene.until("/a");
    symlink("..two", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    scene.until("/b");
}

#[test]
fn a_link_to_the_configured_folder_can_be_swapped() {
    let mut scene = Scene::unstarted();
    for (version, path) in [("one", "/a"), ("two", "/b")] {
        fs::create_dir(scene.path(version)).unwrap();
        fs::write(scene.path(version).join("a.yaml"), api(path)).unwrap();
    }
    fs::remove_dir(scene.path("apis")).unwrap();
    symlink("one", scene.path("apis")).unwrap();
    scene.start();
    assert_eq!(scene.served(), "/a");
    symlink("two", scene.path("next")).unwrap();
    fs::rename(scene.path("next"), scene.path("apis")).unwrap();
    scene.until("/b");
}

#[test]
fn the_target_of_a_link_is_followed_outside_the_folder() {
    let mut scene = Scene::unstarted();
    fs::create_dir(scene.path("elsewhere")).unwrap();
    fs::write(scene.path("elsewhere/real.yaml"), api("/a")).unwrap();
    symlink("../elsewhere/real.yaml", scene.path("apis/a.yaml")).unwrap();
    scene.start();
    scene.replace("elsewhere/real.yaml", &api("/b"));
    scene.until("/b");
}

#[test]
fn the_api_of_a_removed_file_is_not_served() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a"), ("apis/b.yaml", "/b")]);
    fs::remove_file(scene.path("apis/a.yaml")).unwrap();
    scene.until("/b");
}

#[test]
fn a_renamed_file_is_still_served() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a")]);
    fs::rename(scene.path("apis/a.yaml"), scene.path("apis/z.yaml")).unwrap();
    scene.until_that(|snapshot| {
        snapshot.apis.iter().any(|loaded| loaded.api.source.ends_with("z.yaml"))
    });
    assert_eq!(scene.history, ["/a", "/a"]);
}

#[test]
fn a_new_folder_is_watched_with_its_content() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a")]);
    fs::create_dir_all(scene.path("apis/deep/er")).unwrap();
    fs::write(scene.path("apis/deep/er/b.yaml"), api("/b")).unwrap();
    scene.until("/a /b");
    scene.replace("apis/deep/er/b.yaml", &api("/c"));
    scene.until("/a /c");
}

#[test]
fn the_apis_of_a_missing_configured_folder_are_still_served() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a")]);
    fs::rename(scene.path("apis"), scene.path("gone")).unwrap();
    scene.until_diagnostic("apis: error: cannot be read: No such file");
    fs::rename(scene.path("gone"), scene.path("apis")).unwrap();
    scene.replace("apis/b.yaml", &api("/b"));
    scene.until("/a /b");
    assert_eq!(scene.status.to_json(), "[]");
    assert!(!scene.history.iter().any(String::is_empty));
}

#[test]
fn the_apis_of_a_folder_replaced_by_an_empty_one_are_served_until_a_reload() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a"), ("apis/b.yaml", "/b")]);
    // As when a volume is unmounted.
    fs::rename(scene.path("apis"), scene.path("gone")).unwrap();
    fs::create_dir(scene.path("apis")).unwrap();
    scene.until_diagnostic("its files (2) stay in use");
    fs::rename(scene.path("apis"), scene.path("empty")).unwrap();
    fs::rename(scene.path("gone"), scene.path("apis")).unwrap();
    scene.replace("apis/c.yaml", &api("/c"));
    scene.until("/a /b /c");
    assert_eq!(scene.status.to_json(), "[]");
    assert_eq!(scene.history.iter().find(|served| !served.contains("/a /b")), None);

    fs::rename(scene.path("apis"), scene.path("gone")).unwrap();
    fs::rename(scene.path("empty"), scene.path("apis")).unwrap();
    scene.until_diagnostic("its files (3) stay in use");
    scene.handle.as_ref().unwrap().reload();
    scene.until("");
    scene.until_no_diagnostics();
}

#[test]
fn the_api_of_the_last_file_of_a_folder_can_be_removed() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a"), ("apis/b.yaml", "/b")]);
    fs::remove_file(scene.path("apis/a.yaml")).unwrap();
    fs::remove_file(scene.path("apis/b.yaml")).unwrap();
    scene.until("");
    assert_eq!(scene.status.to_json(), "[]");
}

#[test]
fn a_single_file_can_be_configured() {
    let mut scene = Scene::unstarted();
    fs::write(scene.path("one.yaml"), api("/a")).unwrap();
    scene.settings.gateway.apis = vec![scene.path("one.yaml")];
    scene.start();
    assert_eq!(scene.served(), "/a");
    scene.replace("one.yaml", &api("/b"));
    scene.until("/b");
}

#[test]
fn an_invalid_change_keeps_the_last_valid_version_until_it_is_corrected() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a")]);
    scene.replace("apis/a.yaml", "openapi: 3.0.1\npaths: [");
    scene.until_diagnostic("apis/a.yaml");
    scene.replace("apis/fence.yaml", &api("/fence"));
    scene.until("/a /fence");
    assert_eq!(scene.status.reloads().failed, 1);
    scene.replace("apis/a.yaml", &api("/b"));
    scene.until("/b /fence");
    assert_eq!(scene.status.to_json(), "[]");
}

#[test]
fn of_two_files_that_claim_one_path_the_served_one_stays_and_the_other_waits() {
    let mut scene = Scene::new(&[("apis/z.yaml", "/a")]);
    scene.replace("apis/a.yaml", &api("/a"));
    scene.until_diagnostic("already defined in");
    assert!(scene.status.to_json().contains("z.yaml"));
    fs::remove_file(scene.path("apis/z.yaml")).unwrap();
    scene.until_that(|snapshot| {
        snapshot.apis.iter().any(|loaded| loaded.api.source.ends_with("a.yaml"))
    });
    assert_eq!(scene.served(), "/a");
    scene.until_no_diagnostics();
}

#[test]
fn only_the_changed_part_is_new() {
    let mut scene = Scene::new(&[("apis/a.yaml", "/a"), ("apis/b.yaml", "/b")]);
    let before = Arc::clone(&scene.snapshot);
    scene.replace("apis/b.yaml", &api("/c"));
    scene.until("/a /c");
    let same = |index: usize| Arc::ptr_eq(&before.apis[index].api, &scene.snapshot.apis[index].api);
    assert!(same(0) && !same(1));
    assert!(scene.snapshot.revision > before.revision);
}

#[test]
fn a_change_of_a_file_rereads_the_descriptions_that_refer_to_it() {
    let mut scene = Scene::unstarted();
    fs::create_dir(scene.path("apis/parts")).unwrap();
    fs::write(scene.path("apis/parts/pets"), path_item("get")).unwrap();
    let text = api("/a").replace("/*:\n    get: {}", "/pets:\n    $ref: parts/pets");
    fs::write(scene.path("apis/a.yaml"), text).unwrap();
    scene.start();
    assert_eq!(scene.methods(), "GET", "{}", scene.status.to_json());
    scene.replace("apis/parts/pets", &path_item("post"));
    scene.until_that(|snapshot| methods(snapshot) == "POST");
}

#[test]
fn a_reload_finds_changes_without_events() {
    let mut scene = Scene::with_a_far_link();
    scene.swap_far_link();
    scene.handle.as_ref().unwrap().reload();
    scene.until("/b");
}

#[test]
fn polling_finds_changes_without_events() {
    let mut scene = Scene::with_a_far_link();
    scene.swap_far_link();
    scene.clock.advance(u64::from(limits::FILE_POLL_MS).div_ceil(1_000));
    scene.until("/b");
}

#[test]
fn a_changed_configuration_changes_limits_and_issuers_but_not_listeners() {
    let mut scene = Scene::configured("drain_s = 5", "");
    assert_eq!(scene.snapshot.issuers.len(), 0);
    fs::write(scene.path("jwks.json"), jwks(0)).unwrap();
    scene.configure(
        "drain_s = 6",
        "[[issuer]]\nname = \"main\"\niss = \"i\"\njwks = \"jwks.json\"\n",
    );
    scene.until_that(|snapshot| snapshot.issuers.iter().any(|issuer| issuer.keys.len() == 1));
    let published = scene.published.pop().unwrap();
    assert_eq!(published.gateway.drain_s, 6);
    let listener = Some(SocketAddr::from(([127, 0, 0, 1], 1)));
    scene.replace("penstock.toml", "[gateway]\nhttp = \"127.0.0.1:2\"\napis = [\"apis/\"]\n");
    scene.until_that(|snapshot| snapshot.issuers.is_empty());
    assert_eq!(scene.published.pop().unwrap().gateway.http, listener);
}

#[test]
fn a_new_description_that_is_invalid_is_reported() {
    let mut scene = Scene::new(&[("apis/one.yaml", "/one")]);
    scene.replace("apis/new.yaml", "openapi: 3.0.3\ninfo: {title: New}\n");
    scene.until_diagnostic("new.yaml");
    scene.replace("apis/new.yaml", &api("/new"));
    scene.until("/new /one");
}

#[test]
fn an_invalid_configuration_changes_nothing_and_is_reported() {
    let mut scene = Scene::configured("", "");
    scene.configure("drain = 5", "");
    scene.until_diagnostic("penstock.toml:3:1: error: unknown key `drain`");
    scene.replace("apis/fence.yaml", &api("/fence"));
    scene.until("/fence");
    assert_eq!(scene.published, []);
    scene.configure("", "");
    scene.until_no_diagnostics();
}

#[test]
fn a_folder_added_to_the_configuration_is_watched_and_a_removed_one_is_not_served() {
    let mut scene = Scene::configured("", "");
    scene.replace("apis/a.yaml", &api("/a"));
    scene.until("/a");
    fs::create_dir(scene.path("more")).unwrap();
    scene.replace("more/b.yaml", &api("/b"));
    scene.replace("penstock.toml", "[gateway]\nhttp = \"127.0.0.1:1\"\napis = [\"more/\"]\n");
    scene.until("/b");
    scene.replace("more/b.yaml", &api("/c"));
    scene.until("/c");
}

#[test]
fn a_rotated_jwks_file_is_reloaded() {
    let mut scene = Scene::unstarted();
    fs::write(scene.path("jwks.json"), jwks(0)).unwrap();
    scene.settings.issuers = vec![issuer(KeySource::JwksFile(scene.path("jwks.json")))];
    scene.start();
    let before = Arc::clone(&scene.snapshot);
    assert!(before.issuers[0].keys.has_kid("key-0"));
    scene.replace("jwks.json", &jwks(1));
    scene.until_that(|snapshot| snapshot.issuers[0].keys.has_kid("key-1"));
    assert!(scene.snapshot.issuers[0].revision > before.issuers[0].revision);
}

#[test]
fn a_rotated_shared_secret_is_reloaded_and_one_that_is_too_long_is_rejected() {
    let mut scene = Scene::unstarted();
    fs::write(scene.path("secret"), "1".repeat(32)).unwrap();
    scene.configure(
        "",
        "[[issuer]]\nname = \"main\"\niss = \"i\"\nsecret = { file = \"secret\" }\n\
         algorithms = [\"HS256\"]\n",
    );
    scene.start();
    let first = scene.snapshot.issuers[0].revision;
    scene.replace("secret", &"2".repeat(32));
    scene.until_that(|snapshot| snapshot.issuers[0].revision > first);
    let second = scene.snapshot.issuers[0].revision;
    scene.replace("secret", &"3".repeat(usize::try_from(limits::SECRET_BYTES_MAX).unwrap() + 1));
    scene.until_diagnostic("larger than 65536 bytes");
    scene.replace("apis/fence.yaml", &api("/fence"));
    scene.until("/fence");
    assert_eq!(scene.snapshot.issuers[0].revision, second);
    scene.replace("secret", &"3".repeat(32));
    scene.until_that(|snapshot| snapshot.issuers[0].revision > second);
    scene.until_no_diagnostics();
}

#[test]
fn an_invalid_jwks_file_leaves_the_previous_keys() {
    let mut scene = Scene::unstarted();
    fs::write(scene.path("jwks.json"), jwks(0)).unwrap();
    scene.settings.issuers = vec![issuer(KeySource::JwksFile(scene.path("jwks.json")))];
    scene.start();
    scene.replace("jwks.json", "{}");
    scene.until_diagnostic("keys of issuer `main`: ");
    scene.replace("apis/fence.yaml", &api("/fence"));
    scene.until("/fence");
    assert!(scene.snapshot.issuers[0].keys.has_kid("key-0"));
}

#[test]
fn an_unknown_kid_fetches_the_jwks_early_but_not_twice_in_thirty_seconds() {
    let server = Server::start(jwks(0));
    let mut scene = Scene::unstarted();
    scene.settings.issuers = vec![issuer(KeySource::JwksUrl(server.url()))];
    scene.start();
    assert!(scene.snapshot.issuers[0].keys.has_kid("key-0"));
    let ask = Arc::clone(scene.unknown_kid.as_ref().unwrap());
    *server.body.lock().unwrap() = jwks(1);
    ask("main");
    scene.until_that(|snapshot| snapshot.issuers[0].keys.has_kid("key-1"));
    assert!(scene.answers.is_empty(), "the keys come before the answer");
    *server.body.lock().unwrap() = jwks(2);
    ask("main");
    scene.replace("apis/fence.yaml", &api("/fence"));
    scene.until("/fence");
    assert_eq!(scene.answers, ["main", "main"], "an answer does not wait for a later fetch");
    assert_eq!(server.requests.load(Ordering::SeqCst), 2);
    scene.clock.advance(limits::JWKS_UNKNOWN_KID_S_MIN);
    scene.replace("apis/fence.yaml", &api("/again"));
    scene.until_that(|snapshot| snapshot.issuers[0].keys.has_kid("key-2"));
    assert_eq!(server.requests.load(Ordering::SeqCst), 3);
}

#[test]
fn the_start_continues_without_keys_if_a_jwks_cannot_be_fetched() {
    let mut scene = Scene::unstarted();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    scene.settings.issuers = vec![issuer(KeySource::JwksUrl(format!("http://{closed}/jwks")))];
    scene.start();
    assert!(scene.snapshot.issuers[0].keys.is_empty());
    assert!(scene.status.to_json().contains("no connection to"), "{}", scene.status.to_json());
}

#[test]
fn a_huge_jwks_is_rejected() {
    let huge = format!("{{\"keys\":[],\"pad\":\"{}\"}}", "x".repeat(limits::JWKS_BYTES_MAX));
    let server = Server::start(huge);
    let mut scene = Scene::unstarted();
    scene.settings.issuers = vec![issuer(KeySource::JwksUrl(server.url()))];
    scene.start();
    assert!(scene.snapshot.issuers[0].keys.is_empty());
    let published = format!("{} bytes", limits::JWKS_BYTES_MAX);
    assert!(scene.status.to_json().contains(&published), "{}", scene.status.to_json());
}

#[test]
fn new_certificates_are_loaded_and_an_invalid_pair_is_not() {
    let mut scene = Scene::unstarted();
    let names = (scene.path("tls.crt"), scene.path("tls.key"));
    let write = |scene: &Scene| {
        let pair = wire::tls::generate_self_signed(&["localhost"], 1_790_000_000).unwrap();
        scene.replace("tls.crt", &pair.0);
        scene.replace("tls.key", &pair.1);
    };
    write(&scene);
    let files = model::CertificateFiles { cert: names.0, key: names.1 };
    scene.settings.tls.default = Some(files);
    scene.settings.gateway.https = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    scene.start();
    let count = scene.status.reloads().succeeded;
    scene.replace("tls.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    scene.until_diagnostic("of `default`");
    write(&scene);
    scene.until_no_diagnostics();
    assert!(scene.status.reloads().succeeded > count);
}

// --- scene ------------------------------------------------------------------------------------

struct Scene {
    folder: tempfile::TempDir,
    settings: Settings,
    clock: MovableClock,
    snapshot: Arc<Snapshot>,
    changes: Receiver<Change>,
    handle: Option<Handle>,
    status: Arc<Status>,
    unknown_kid: Option<OnUnknownKid>,
    /// The base paths served, since the start.
    history: Vec<String>,
    published: Vec<Arc<Settings>>,
    /// Issuers of `Change::Keys`.
    answers: Vec<String>,
}

impl Scene {
    /// Watches a folder with files of these base paths.
    fn new(files: &[(&str, &str)]) -> Self {
        let mut scene = Self::unstarted();
        for (file, base_path) in files {
            fs::write(scene.path(file), api(base_path)).unwrap();
        }
        scene.start();
        scene
    }

    fn unstarted() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("apis")).unwrap();
        Self {
            settings: settings(folder.path()),
            folder,
            clock: MovableClock::default(),
            snapshot: Arc::default(),
            changes: mpsc::channel().1,
            handle: None,
            status: Arc::default(),
            unknown_kid: None,
            history: Vec::new(),
            published: Vec::new(),
            answers: Vec::new(),
        }
    }

    fn start(&mut self) {
        let file = self.path("penstock.toml");
        let configuration = file.exists().then_some(file);
        if let Some(file) = &configuration {
            self.settings = penstock_follow::read_settings(file).unwrap().0;
        }
        let clock = Arc::new(self.clock.clone());
        let https = self.settings.has_https();
        let ask_feed: AskFeed = Arc::new(|_, _| Err("not followed".to_owned()));
        let ask_vault: AskVault = Arc::new(|_, _, _| Err("not followed".to_owned()));
        let (certificates, fetch) = (Arc::default(), fetch());
        let options =
            Options { configuration, https, certificates, clock, fetch, ask_feed, ask_vault };
        let (follower, snapshot) = Follower::load(self.settings.clone(), options).unwrap();
        self.status = follower.status();
        self.unknown_kid = Some(follower.on_unknown_kid());
        let (sender, changes) = mpsc::channel();
        let publish = Box::new(move |change| drop(sender.send(change)));
        self.handle = Some(follower.watch(publish).unwrap());
        self.changes = changes;
        self.snapshot = snapshot;
        self.history.push(served(&self.snapshot));
    }

    /// A scene with a `penstock.toml` that [`Scene::configure`] can change.
    fn configured(gateway: &str, rest: &str) -> Self {
        let mut scene = Self::unstarted();
        scene.configure(gateway, rest);
        scene.start();
        scene
    }

    fn configure(&self, gateway: &str, rest: &str) {
        let head = "[gateway]\nhttp = \"127.0.0.1:1\"";
        self.replace("penstock.toml", &format!("{head}\n{gateway}\napis = [\"apis/\"]\n{rest}"));
    }

    /// A scene with a description behind two links, the second of which is in a folder that is not watched.
    fn with_a_far_link() -> Self {
        let mut scene = Self::unstarted();
        for folder in ["hop", "one", "two"] {
            fs::create_dir(scene.path(folder)).unwrap();
        }
        fs::write(scene.path("one/a.yaml"), api("/a")).unwrap();
        fs::write(scene.path("two/a.yaml"), api("/b")).unwrap();
        symlink("../one/a.yaml", scene.path("hop/link")).unwrap();
        symlink("../hop/link", scene.path("apis/a.yaml")).unwrap();
        scene.start();
        scene
    }

    fn swap_far_link(&self) {
        symlink("../two/a.yaml", self.path("hop/next")).unwrap();
        fs::rename(self.path("hop/next"), self.path("hop/link")).unwrap();
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// Writes another file and renames it.
    fn replace(&self, file: &str, text: &str) {
        let beside = self.path(file).with_extension("new");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.path(file)).unwrap();
    }

    fn served(&self) -> String {
        served(&self.snapshot)
    }

    fn methods(&self) -> String {
        methods(&self.snapshot)
    }

    #[track_caller]
    fn until(&mut self, expect: &str) {
        self.until_that(|snapshot| served(snapshot) == expect);
    }

    #[track_caller]
    fn until_that(&mut self, is: impl Fn(&Snapshot) -> bool) {
        while !is(&self.snapshot) {
            let Ok(change) = self.changes.recv_timeout(PATIENCE) else {
                panic!("no change; served {:?}; {}", self.history, self.status.to_json());
            };
            match change {
                Change::Snapshot(snapshot) => {
                    self.snapshot = snapshot;
                    self.history.push(served(&self.snapshot));
                }
                Change::Settings(settings) => self.published.push(settings),
                Change::Keys(issuer) => self.answers.push(issuer),
            }
        }
    }

    /// Polls, because diagnostics are not published.
    #[track_caller]
    fn until_diagnostic(&self, text: &str) {
        self.until_shown(|shown| shown.contains(text));
    }

    #[track_caller]
    fn until_no_diagnostics(&self) {
        self.until_shown(str::is_empty);
    }

    #[track_caller]
    fn until_shown(&self, is: impl Fn(&str) -> bool) {
        let clock = SystemClock::new();
        loop {
            let diagnostics = self.status.diagnostics();
            let shown: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
            let shown = shown.join("\n");
            if is(&shown) {
                return;
            }
            let waited_us = u128::from(clock.now().mono_us);
            assert!(waited_us < PATIENCE.as_micros(), "the status shows `{shown}`");
            thread::yield_now();
        }
    }
}

/// The system clock, which tests can move forward.
#[derive(Clone, Default)]
struct MovableClock {
    clock: SystemClock,
    ahead_s: Arc<AtomicU64>,
}

impl MovableClock {
    fn advance(&self, seconds: u64) {
        self.ahead_s.fetch_add(seconds, Ordering::SeqCst);
    }
}

impl Clock for MovableClock {
    fn now(&self) -> Now {
        let ahead_s = self.ahead_s.load(Ordering::SeqCst);
        let now = self.clock.now();
        Now { unix_s: now.unix_s + ahead_s, mono_us: now.mono_us + ahead_s * 1_000_000 }
    }
}

/// Responds to every request with `body`.
struct Server {
    address: SocketAddr,
    body: Arc<Mutex<String>>,
    requests: Arc<AtomicU64>,
}

impl Server {
    fn start(body: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let body = Arc::new(Mutex::new(body));
        let requests = Arc::new(AtomicU64::new(0));
        let (body_now, count) = (Arc::clone(&body), Arc::clone(&requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut head = [0; 4096];
                let _ = stream.read(&mut head).unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let body = body_now.lock().unwrap().clone();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                // Fails if the client closes the connection because the body is too large.
                drop(stream.write_all(format!("{head}{body}").as_bytes()));
            }
        });
        Self { address, body, requests }
    }

    fn url(&self) -> String {
        format!("http://{}/jwks", self.address)
    }
}

fn fetch() -> Fetch {
    Arc::new(|url| {
        let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/jwks"));
        let address = address.ok_or("not a URL of this test")?;
        let no_connection = |error| format!("no connection to {address}: {error}");
        let mut tcp = TcpStream::connect(address).map_err(no_connection)?;
        let mut response = String::new();
        let head = format!("GET /jwks HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        tcp.write_all(head.as_bytes()).map_err(|error| error.to_string())?;
        tcp.read_to_string(&mut response).map_err(|error| error.to_string())?;
        let body = response.split_once("\r\n\r\n").ok_or("no head")?.1;
        Ok(body.as_bytes().to_vec())
    })
}

fn served(snapshot: &Snapshot) -> String {
    let mut served: Vec<String> = snapshot
        .apis
        .iter()
        .map(|loaded| match loaded.state {
            ApiState::Serving => loaded.api.base_path.clone(),
            ApiState::Unloaded => format!("{}(503)", loaded.api.base_path),
        })
        .collect();
    let artefacts = snapshot.artefacts.artefacts.iter();
    served.extend(artefacts.map(|one| format!("{}:{}", one.kind.element(), one.name)));
    served.extend(snapshot.artefacts.resources.keys().cloned());
    served.sort();
    served.join(" ")
}

fn methods(snapshot: &Snapshot) -> String {
    let operations = snapshot.apis.iter().flat_map(|loaded| &loaded.api.operations);
    operations.map(|operation| operation.method.as_str()).collect::<Vec<_>>().join(" ")
}

fn api(base_path: &str) -> String {
    format!(
        "openapi: 3.0.1
info: {{title: Test, version: '1'}}
x-wso2-basePath: {base_path}
x-wso2-disable-security: true
servers:
  - url: http://127.0.0.1:9
paths:
  /*:
    get: {{}}
"
    )
}

fn path_item(method: &str) -> String {
    format!("{method}:\n  responses: {{}}\n")
}

fn jwks(number: u8) -> String {
    static KEY: std::sync::LazyLock<SigningKey> = std::sync::LazyLock::new(|| {
        SigningKey::from_pem(SigningKey::generate_rsa().unwrap().as_bytes()).unwrap()
    });
    let jwk = KEY.public_jwk(Some(&format!("key-{number}"))).unwrap();
    format!("{{\"keys\":[{jwk}]}}")
}

fn issuer(keys: KeySource) -> IssuerSettings {
    let (name, iss) = ("main".to_owned(), "https://issuer.example".to_owned());
    IssuerSettings { name, iss, keys, ..IssuerSettings::default() }
}

fn settings(folder: &Path) -> Settings {
    let (apis, data) = (vec![folder.join("apis")], folder.join("data"));
    let gateway = GatewaySettings { apis, data, ..GatewaySettings::default() };
    Settings { gateway, ..Settings::default() }
}
