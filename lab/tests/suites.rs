//! The shipped suites and targets, and the validation of suite files.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use penstock_lab::load::{Protocol, Shape, Think};
use penstock_lab::suite::cases;
use penstock_lab::suite::definition::Suite;
use penstock_lab::suite::scenario::{self, Exchange};
use penstock_lab::target::definition;

fn suites() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../suites")
}

fn read(name: &str) -> Suite {
    Suite::read(&suites().join(format!("{name}.toml"))).unwrap()
}

/// The number of cases of each suite matches its published table, if there is one.
#[test]
fn every_shipped_suite_has_the_cases_of_its_published_matrix() {
    let published = |name: &str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("published/{name}.csv"));
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().skip(1).filter(|line| !line.trim().is_empty()).count()
    };
    for name in ["api-manager", "api-microgateway"] {
        assert_eq!((cases::all(&read(name)).len(), published(name)), (144, 144), "{name}");
    }
    let choreo = cases::all(&read("choreo-connect"));
    assert_eq!((choreo.len(), published("choreo-connect-1cpu")), (24, 24));
    // All 23 scenarios and the baseline, instead of the published five with more users and sizes. Six have one size.
    assert_eq!(cases::all(&read("micro-integrator")).len(), 3 * (18 * 2 + 6));
    assert_eq!(cases::all(&read("quick")).len(), 3 * 7 * 2);
    let mut names = HashSet::new();
    for entry in std::fs::read_dir(suites()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|end| end == "toml") && name != "scenarios" {
            assert_eq!(read(&name).name, name);
            names.insert(name);
        }
    }
    assert!(names.contains("quick") && names.contains("cost"), "{names:?}");
}

/// Users, size and delay of each published row match a case of the suite.
#[test]
fn every_published_row_is_a_case() {
    for name in ["api-manager", "api-microgateway"] {
        let suite = read(name);
        let display = |case: &penstock_lab::result::Case| {
            suite.scenarios.iter().find(|s| s.name == case.scenario).unwrap().display.clone()
        };
        let ours: HashSet<String> = cases::all(&suite)
            .iter()
            .map(|c| format!("{},{},{},{}", display(c), c.users, c.payload_bytes, c.delay_ms))
            .collect();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("published/{name}.csv"));
        let text = std::fs::read_to_string(file).unwrap();
        for line in text.lines().skip(1).filter(|line| !line.trim().is_empty()) {
            let cells: Vec<&str> = line.split(',').collect();
            let row = format!("{},{},{},{}", cells[0], cells[2], cells[3], cells[4]);
            assert!(ours.contains(&row), "{name}: {row}");
        }
    }
}

#[test]
fn every_shipped_target_declares_every_need() {
    let scenarios = scenario::shipped().unwrap();
    assert_eq!(
        definition::SHIPPED.len(),
        std::fs::read_dir(suites().join("targets")).unwrap().count()
    );
    for (name, _) in definition::SHIPPED {
        let target = definition::find(name, &suites()).unwrap().unwrap();
        assert_eq!(target.name, *name);
        let used = |scenario: &scenario::Scenario| {
            [scenario.needs.clone(), scenario.wants.clone()].concat()
        };
        for need in &scenarios.iter().flat_map(used).collect::<Vec<_>>() {
            let declared = usize::from(target.can.contains(need))
                + usize::from(target.cannot.contains_key(need));
            assert_eq!(declared, 1, "{name}: {need} must be in either `can` or `cannot`");
        }
    }
}

/// The comment `MARK` precedes exactly the scenarios that no shipped target serves.
#[test]
fn scenarios_that_no_target_serves_are_marked() {
    const MARK: &str = "# Not served by any shipped target yet.\n";
    let text = std::fs::read_to_string(suites().join("scenarios.toml")).unwrap();
    let targets: Vec<_> = definition::SHIPPED
        .iter()
        .map(|(name, _)| definition::find(name, &suites()).unwrap().unwrap())
        .collect();
    for scenario in scenario::shipped().unwrap() {
        let is_served = |target: &definition::Target| {
            scenario.needs.iter().all(|need| target.can.contains(need))
        };
        let start = format!("[[scenario]]\nname = \"{}\"", scenario.name);
        let marked = text.contains(&format!("{MARK}{start}"));
        assert!(text.contains(&start), "{}", scenario.name);
        assert_eq!(marked, !targets.iter().any(is_served), "{}", scenario.name);
    }
}

/// Line 1: name. Line 2: `[matrix]`. Lines 3 to 6: its keys. Line 7: `[time]`. Lines 8 and 9: its keys.
const SUITE: &str = "name = 'a'\n[matrix]\ntargets = ['penstock']\nscenarios = ['passthrough']\n\
    users = [1]\nbytes = [50]\n[time]\nwarm_up = '1s'\nmeasure = '1s'";

/// `SUITE` with the line of the same key replaced by `change`, or `change` appended.
fn changed(change: &str) -> String {
    let key = change.split(' ').next().unwrap().trim_end_matches('s');
    let mut lines: Vec<&str> = SUITE.lines().collect();
    match lines.iter_mut().find(|line| !change.starts_with('[') && line.starts_with(key)) {
        Some(line) => *line = change,
        None => lines.push(change),
    }
    lines.join("\n")
}

fn error(name: &Path, text: String) -> String {
    let source = penstock_lab::suite::Source { name: name.to_owned(), text };
    match Suite::from_source(source) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error,
    }
}

#[test]
fn invalid_suites_are_rejected_with_position_and_nearest_name() {
    for (wrong, place, help) in [
        ("targets = ['penstok']", "a.toml:3:12", "`penstock`"),
        ("targets = ['ngnix']", "a.toml:3:12", "did you mean `nginx`?"),
        ("targets = ['nginx', 'haproxy', 'nginx']", "a.toml:3:32", "duplicate"),
        ("scenarios = ['passthru']", "a.toml:4:14", "`passthrough`"),
        ("scenarios = ['forward', 'forward']", "a.toml:4:25", "duplicate"),
        ("user = [1]", "a.toml:5:1", "`users`"),
        ("users = [0]", "a.toml:5:10", "expected 1 to"),
        ("users = [1, 2, 1]", "a.toml:5:16", "duplicate"),
        ("warm_up = '1 parsec'", "a.toml:8:11", "10s"),
        ("bytes = []", "a.toml:6:9", "is empty"),
        ("bytes = [50, 10]", "a.toml:6:14", "minimum is 30"),
        ("bytes = [0]", "a.toml:6:10", "minimum is 30"),
        ("bytes = [50, 50]", "a.toml:6:14", "duplicate"),
        ("measure = '0s'", "a.toml: error", "duration"),
        ("measure = '1s'\nrequests = 5", "a.toml: error", "exclude each other"),
        ("measure = '0s'\nrequests = 0", "a.toml: error", "at least 1"),
        ("[load]\nthreads = 0", "a.toml: error", "threads"),
        ("[load]\nstreams = 4", "a.toml: error", "`streams` needs `http2 = true`"),
        ("[load]\nhttp2 = true\nstreams = 0", "a.toml:12:11", "nonzero"),
        (
            "[load]\nshape = { kind = 'closed', think = '5' }",
            "a.toml:11:9",
            "`5` is not a duration",
        ),
        ("[load]\nshape = { kind = 'stages', stages = '5' }", "a.toml:11:9", "`5` is not a stage"),
        (
            "[load]\nshape = { kind = 'stages', stages = '5/s for 9s' }",
            "a.toml: error",
            "take 9s, not 1s",
        ),
        ("[set.penstock]\nworker = 2", "a.toml:11:1", "`workers`"),
        ("[set.penstock]\nworkers = [1]", "a.toml:11:11", "a string, a number, `true` or `false`"),
        ("[set.nginks]\nworker = 2", "a.toml:10:6", "`penstock`"),
        ("[limits.targets]\ncpus = 1", "a.toml:10:9", "`target`"),
        ("[limits.target]\ncpus = -1", "a.toml:11:8", "0.01 to"),
        ("[limits.target]\ncpus = nan", "a.toml:11:8", "0.01 to"),
        ("[limits.target]\ncpus = inf", "a.toml:11:8", "0.01 to"),
        ("[limits.target]\nmemory = '0'", "a.toml:11:10", "512MiB"),
        ("[limits.target]\nmemory = '1T'", "a.toml:11:10", "GiB"),
        ("[sweep]\nsetting = 'worker'\nvalues = [1]", "a.toml:11:11", "`workers`"),
        ("[sweep]\nsetting = 'workers'\nvalues = [1, 2, 1]", "a.toml:12:17", "duplicate"),
        ("[sweep]\nsetting = 'workers'\nvalues = ['a/b', 'a b']", "a.toml:12:18", "duplicate"),
        ("[sweep]\nsetting = 'workers'\nvalues = [[1]]", "a.toml:12:10", "a string, a number"),
        ("[cores]\ntarget = 'all'", "a.toml:11:10", "2-3"),
        ("[backend]\nlisten = '10.0.0.1:80'", "a.toml:11:10", "0.0.0.0:8688"),
        ("[backend]\nlisten = '0.0.0.0:0'", "a.toml:11:10", "0.0.0.0:8688"),
    ] {
        let output = error(Path::new("a.toml"), changed(wrong));
        assert!(output.starts_with(place) && output.contains(help), "{wrong}: {output}");
    }
    assert_eq!(error(Path::new("a.toml"), SUITE.to_owned()), "accepted");
    let agents = changed("[load]\nagents = ['a:1', 'b:1']\nagent_token_file = 'x'");
    for (users, expect) in [("[2, 100]", "accepted"), ("[1, 100]", "a.toml: error: [load]: ")] {
        let output = error(Path::new("a.toml"), agents.replace("[1]", users));
        assert!(output.starts_with(expect), "{users}: {output}");
    }
    let websocket = changed("[load]\nhttp2 = true").replace("'passthrough'", "'websocket'");
    let output = error(Path::new("a.toml"), websocket);
    assert!(output.contains("`http2` does not apply to WebSocket scenarios"), "{output}");
    let half = "[sweep]\nsetting = 'workers'\nvalues = [0.5, 1.0]";
    assert_eq!(accepted(half).sweep.unwrap().values, ["0.5", "1.0"]);
}

#[test]
fn a_suite_sets_the_protocol_and_the_course_of_the_load() {
    let load = accepted("[load]\nhttp2 = true\nstreams = 4\nconnection_per_request = false").load;
    assert_eq!(load.protocol(Exchange::Http, 10), Protocol::Http2 { connections: 3 });
    let load = accepted("[load]\nhttp2 = true\nconnection_per_request = true").load;
    assert_eq!(load.protocol(Exchange::Http, 10), Protocol::Http2 { connections: 10 });
    assert_eq!(
        accepted("[load]\nconnection_per_request = true").load.protocol(Exchange::Http, 10),
        Protocol::Http1
    );
    let load = accepted("[load]\nthreads = 1").load;
    assert_eq!(load.protocol(Exchange::Http, 200), Protocol::Http1);
    let grpc = Exchange::Grpc { messages: 1 };
    assert_eq!(load.protocol(grpc, 200), Protocol::Http2 { connections: 2 });
    assert_eq!(load.protocol(Exchange::WebSocket, 200), Protocol::WebSocket);
    let requests = accepted("measure = '0s'\nrequests = 500").time.requests;
    assert_eq!(requests, Some(500));
    let stages = "5/s for 0.5s, to 9/s in 0.5s";
    let load =
        accepted(&format!("[load]\nshape = {{ kind = 'stages', stages = '{stages}' }}")).load;
    assert_eq!(load.shape, Shape::Stages { stages: stages.parse().unwrap() });
    for (think, expect) in [
        ("'100ms'", Think::Constant { us: 100_000 }),
        ("'100ms..300ms'", Think::Uniform { from_us: 100_000, to_us: 300_000 }),
        ("{ kind = 'constant', us = 5 }", Think::Constant { us: 5 }),
    ] {
        let load =
            accepted(&format!("[load]\nshape = {{ kind = 'closed', think = {think} }}")).load;
        assert_eq!(load.shape, Shape::Closed { think: expect });
    }
}

#[track_caller]
fn accepted(change: &str) -> Suite {
    let source = penstock_lab::suite::Source { name: "a.toml".into(), text: changed(change) };
    Suite::from_source(source).unwrap()
}

#[test]
fn unsafe_and_reserved_names_are_rejected() {
    let scenario = |name: &str| {
        format!(
            "[[scenario]]\nname = '{name}'\ndisplay = 'x'\nabout = 'x'\npath = '/'\n\
             needs = ['forward']\npayload = 'array'"
        )
    };
    for name in ["../../../../escape/x", "..", ".hidden", "", "a/b", "fixtures", "sources"] {
        let output = error(Path::new("a.toml"), changed(&scenario(name)));
        assert!(output.starts_with("a.toml:11:8: error"), "{name}: {output}");
    }
    let heap = error(Path::new("a.toml"), SUITE.replace("[time]", "heap = ['4G', '../x']\n[time]"));
    assert!(heap.starts_with("a.toml:7:15: error: a name consists"), "{heap}");
    let twice = format!("{}\n{}", scenario("mine"), scenario("mine"));
    let output = error(Path::new("a.toml"), changed(&twice));
    assert!(output.starts_with("a.toml:18:8: error: duplicate scenario"), "{output}");
}

#[test]
fn invalid_scenarios_are_rejected_with_position() {
    for (slip, place, help) in [
        ("needs = ['fordward']", "a.toml:15:10", "did you mean `forward`?"),
        ("tokens = { kind = 'jwt', count = 0 }", "a.toml:15:34", "expected 1 to"),
        ("tokens = { kind = 'jwd', count = 1 }", "a.toml:15:19", "did you mean `jwt`?"),
        ("protocol = 'ws'", "a.toml:15:12", "`websocket`"),
        ("messages = 2", "a.toml:15:12", "`protocol = \"grpc\"`"),
        ("protocol = 'grpc'\nmessages = 0", "a.toml:16:12", "expected 1 to"),
        ("protocol = 'grpc'\nmethod = 'PUT'", "a.toml:16:10", "always uses POST"),
        ("protocol = 'websocket'\nmessages = 2", "a.toml:16:12", "omit it"),
    ] {
        let text = format!(
            "[[scenario]]\nname = 'mine'\ndisplay = 'x'\nabout = 'x'\npath = '/'\n{slip}\n\
             payload = 'none'"
        );
        let output = error(Path::new("a.toml"), changed(&text));
        assert!(output.starts_with(place) && output.contains(help), "{slip}: {output}");
    }
}

#[test]
fn target_names_must_be_unique_and_safe() {
    let folder = tempfile::tempdir().unwrap();
    let suite = folder.path().join("a.toml");
    let target = |text: &str| std::fs::write(folder.path().join("mine.toml"), text).unwrap();
    let output = |change: &str| error(&suite, changed(change));
    target("name = 'nginx'\nabout = ''\ncan = []\nurl = 'http://127.0.0.1:{{backend_port}}'\n");
    let both = output("targets = ['nginx', 'mine.toml']");
    assert!(both.contains("a.toml:3:21: error: duplicate target"), "{both}");
    for name in ["..", "../x", "report"] {
        target(&format!("name = '{name}'\nabout = ''\ncan = []\nurl = 'http://h/'\n"));
        let rejected = output("targets = ['mine.toml']");
        assert!(rejected.contains("mine.toml:1:8: error"), "{name}: {rejected}");
    }
    target(
        "name = 'x'\nabout = ''\ncan = []\nurl = 'http://h/'\n[[process]]\nname = 'x'\n\
        command = ['x']\ncpus = -0.5\n",
    );
    let rejected = output("targets = ['mine.toml']");
    assert!(rejected.contains("mine.toml:8:8: error: -0.5 CPUs"), "{rejected}");
}

#[test]
fn delays_without_effect_are_rejected() {
    let delays = |targets: &str, more: &str| {
        let matrix = format!("targets = [{targets}]\ndelays_ms = [0, 30]");
        error(Path::new("a.toml"), changed(&matrix) + more)
    };
    let remote = delays("'backend', 'remote'", "");
    assert!(remote.starts_with("a.toml:3:23: error: target `remote`"), "{remote}");
    assert_eq!(delays("'backend', 'nginx', 'penstock'", ""), "accepted");
    // With a fixed address, the remote gateway can be configured to use it.
    assert_eq!(delays("'remote'", "\n[backend]\nlisten = '0.0.0.0:8688'"), "accepted");
    assert_eq!(error(Path::new("a.toml"), changed("targets = ['remote']")), "accepted");
}
