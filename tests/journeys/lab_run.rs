//! `penstock lab run`: real targets, result folders, rejections, interruption and resumption.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use base::SystemClock;
use harness::{Files, PATIENCE, Process, penstock};
use lab::load::Shape;
use lab::result::{CaseResult, State};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Long enough for several samples of processes, even if the machine stops now and then.
const MEASURED: &str = "4s";

/// `more` is added to `[matrix]`.
fn suite(targets: &str, scenarios: &str, measure: &str, more: &str) -> String {
    format!(
        "name = 'journey'\n[matrix]\ntargets = [{targets}]\nscenarios = [{scenarios}]\nusers = [2]\n\
         bytes = [50]\n{more}\n[time]\nwarm_up = '100ms'\nmeasure = '{measure}'\n\
         [load]\njtl = true\n"
    )
}

fn run(files: &Files, arguments: &[&str]) -> (Option<i32>, String) {
    run_into(files, "out", arguments)
}

fn run_into(files: &Files, out: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let all: Vec<&str> = ["lab", "run", "suite.toml", "--out", out]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    Process::run(files.folder(), &all)
}

fn result(files: &Files, case: &str) -> CaseResult {
    let file = format!("out/{case}/2_users/50B/0ms_sleep/1/result.json");
    CaseResult::read(&files.path(&file)).unwrap()
}

/// Whether there is any verdict. Lines of standard error may be between it and the counts.
fn has_verdict(text: &str) -> bool {
    let verdicts = [" has the ", "Can't tell which ", " requests/s, p50 ", "No figure is usable"];
    let is_verdict =
        |line: &str| line.ends_with('.') && verdicts.iter().any(|verdict| line.contains(verdict));
    text.lines().any(is_verdict)
}

#[test]
fn every_case_is_measured_or_not_served_and_never_overwritten() {
    let files = Files::new();
    let scenarios = "'forward', 'passthrough', 'direct-proxy'";
    files.write("suite.toml", &suite("'penstock', 'backend'", scenarios, MEASURED, ""));
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("3 measured") && text.contains("3 not served"), "{text}");
    assert!(has_verdict(&text), "{text}");
    for (case, state) in [
        ("forward/penstock", State::Measured),
        ("passthrough/penstock", State::Measured),
        ("direct-proxy/penstock", State::NotServed),
        ("forward/backend", State::Measured),
        ("passthrough/backend", State::NotServed),
        ("direct-proxy/backend", State::NotServed),
    ] {
        let found = result(&files, case);
        assert_eq!(found.state, state, "{case}: {found:?}");
        assert_eq!(found.reason.is_some(), state != State::Measured, "{case}");
        if state == State::Measured {
            let figure = |name: &str| found.figure(name).unwrap();
            assert!(figure("requests") > 0.0, "{case}");
            assert!(figure("errors") < 0.5, "{case}: {:?}", found.load.get("errors_by_kind"));
            assert!(found.generator_use.is_some() && found.backend_use.is_some(), "{case}");
            assert!(!found.versions.is_empty() && found.machine.memory_bytes > 0);
        }
    }
    let penstock = files.path("out/passthrough/penstock/2_users/50B/0ms_sleep/1");
    assert!(result(&files, "passthrough/penstock").target_use.unwrap().rss_peak_bytes > 0);
    for file in ["histogram.hlog", "results.jtl", "backend.log", "gateway-1/gateway.log"] {
        assert!(penstock.join(file).is_file(), "{file}");
    }

    let (code, text) = run(&files, &[]);
    assert!(code == Some(2) && text.contains("never overwritten"), "{text}");
    let (code, text) = run(&files, &["--resume"]);
    assert!(code == Some(0) && text.contains("6 kept from the earlier run"), "{text}");
    files.write("suite.toml", &suite("'backend'", "'forward'", "500ms", ""));
    let (code, text) = run(&files, &["--resume"]);
    assert!(code == Some(2) && text.contains("different version"), "{text}");
}

#[test]
fn a_suite_measures_http2_at_rates_that_change() {
    let files = Files::new();
    let load =
        "http2 = true\nshape = { kind = 'stages', stages = 'to 200/s in 0.3s, 100/s for 0.3s' }\n";
    files.write("suite.toml", &(suite("'penstock'", "'passthrough'", "600ms", "") + load));
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    let found = result(&files, "passthrough/penstock");
    let options = &found.load["options"];
    let shared = (options["protocol"].as_str(), options["connections"].as_u64());
    assert_eq!(shared, (Some("HTTP/2"), Some(1)));
    assert_eq!(
        (found.figure("requests"), found.figure("errors")),
        (Some(60.0), Some(0.0)),
        "{text}"
    );
    let shape: Shape = serde_json::from_value(found.load["shape"].clone()).unwrap();
    let stages = "to 200/s in 0.3s, 100/s for 0.3s".parse().unwrap();
    assert_eq!((shape.rate_per_s(), shape), (Some(100.0), Shape::Stages { stages }));
}

#[test]
fn a_suite_measures_a_number_of_grpc_calls_and_websocket_messages() {
    let files = Files::new();
    let scenario = |name: &str, more: &str| {
        format!(
            "[[scenario]]\nname = '{name}'\ndisplay = 'x'\nabout = ''\npath = '/echo'\n{more}\n\
             payload = 'array'\nexpect = '{{{{bytes}}}}B'\nupstream_requests = 1\n"
        )
    };
    let scenarios = [
        scenario("calls", "protocol = 'grpc'\nmessages = 3\nneeds = ['forward', 'grpc']"),
        scenario("chat", "protocol = 'websocket'\nneeds = ['forward', 'websocket']"),
    ];
    let names = "'calls', 'chat'";
    let suite = suite("'penstock', 'backend'", names, "0s", "") + &scenarios.concat();
    let suite = suite.replace("measure = '0s'", "requests = 100\ncalibrate = '200ms'");
    files.write("suite.toml", &suite);
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    for (case, protocol) in
        [("calls/backend", "HTTP/2"), ("chat/backend", "WebSocket"), ("chat/penstock", "WebSocket")]
    {
        let found = result(&files, case);
        assert_eq!(found.state, State::Measured, "{case}: {found:?}");
        assert_eq!(found.load["options"]["protocol"], protocol);
        let counts = (found.figure("requests"), found.figure("errors"));
        assert_eq!(counts, (Some(100.0), Some(0.0)), "{case}: {text}");
        assert!(found.calibration.is_some_and(|rate| rate > 0.0), "{case}: {:?}", found.warnings);
    }
    assert_eq!(result(&files, "calls/backend").load["messages_received"], 300);
    let reason = result(&files, "calls/penstock").reason.unwrap();
    assert!(reason.contains("grpc (forwards over HTTP/1.1)"), "{reason}");
}

#[test]
fn a_suite_measures_the_requests_of_a_scenario_file() {
    let files = Files::new();
    let requests = "[[sequence]]\n[[sequence.request]]\nname = 'create'\npath = '/orders'\n\
        body = '{\"id\": 5}'\nextract.id = { json = '$.id' }\n\
        [[sequence.request]]\nname = 'read'\npath = '/orders/{{id}}'\n";
    files.write("orders.toml", requests);
    let scenario = "[[scenario]]\nname = 'orders'\ndisplay = 'Orders'\nabout = ''\npath = '/shop'\n\
        requests = 'orders.toml'\n";
    let suite = suite("'backend'", "'orders'", "500ms", "") + scenario;
    files.write("suite.toml", &suite);
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    let load = result(&files, "orders/backend").load;
    let names: Vec<_> =
        load["by_request"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["create", "read"]);
    assert!(load["requests"].as_u64() > Some(0) && load["errors"].as_u64() == Some(0), "{load}");

    files.write("suite.toml", &(suite.clone() + "method = 'PUT'\n"));
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(2), "{text}");
    let line = suite.lines().count() + 1;
    let error = format!("suite.toml:{line}:10: error: `method` and `requests` exclude each other");
    assert!(text.contains(&error), "{text}");
    files.write("suite.toml", &suite);
    files.write("orders.toml", &requests.replace("{{id}}", "{{ix}}"));
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("orders.toml:9:8: error: unknown value `ix`"), "{text}");
}

#[test]
fn agents_generate_the_load_of_a_suite() {
    let files = Files::new();
    files.write("secret", "the secret of this journey");
    let start = || {
        let arguments = ["lab", "agent", "--listen", "127.0.0.1:0", "--token-file", "secret"];
        let agent = Process::start(files.folder(), &arguments);
        agent.wait_for("agent listening on");
        let addr = agent.text().split_whitespace().last().unwrap().to_owned();
        (agent, addr)
    };
    let agents = [start(), start()];
    let (one, other) = (&agents[0].1, &agents[1].1);
    let suite = suite("'penstock'", "'passthrough'", "3s", "").replace("jtl = true", "");
    let with_agents =
        format!("{suite}agents = ['{one}', '{other}']\nagent_token_file = 'secret'\n");
    files.write("suite.toml", &with_agents);
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    let found = result(&files, "passthrough/penstock");
    let shares = found.load["agents"].as_array().unwrap();
    let requests: Vec<u64> =
        shares.iter().map(|share| share["requests"].as_u64().unwrap()).collect();
    assert!(requests.len() == 2 && requests.iter().all(|&count| count > 0), "{requests:?}");
    assert_eq!(found.figure("requests"), Some(requests.iter().sum::<u64>() as f64));
    let series = found.load["series"].as_array().unwrap();
    assert_eq!(series.len(), 3, "{series:?}");
    assert!(series.iter().all(|second| second["target_cpus"].as_f64().is_some()), "{series:?}");
    let case = "out/passthrough/penstock/2_users/50B/0ms_sleep/1";
    assert!(files.path(case).join("histogram.hlog").is_file());

    for (change, problem) in [
        ("agent_token_file = 'secret'", "need each other"),
        ("jtl = true", "`jtl` is not available with agents"),
        ("threads = 2", "need at least 4, not 2"),
    ] {
        let changed = match change.starts_with("agent") {
            true => with_agents.replace(change, ""),
            false => format!("{with_agents}{change}\n"),
        };
        files.write("suite.toml", &changed);
        let (code, text) = run(&files, &[]);
        assert!(code == Some(2) && text.contains(problem), "{change}: {text}");
    }
}

#[test]
fn an_interrupted_run_can_be_resumed() {
    let files = Files::new();
    files.write("suite.toml", &suite("'backend'", "'forward'", "1s", "repetitions = 2"));
    let mut process = Process::start(files.folder(), &["lab", "run", "suite.toml", "--out", "out"]);
    process.wait_for("[1/2]");
    process.signal(Signal::SIGINT);
    let status = process.wait();
    assert_eq!(status.code(), Some(1), "{}", process.text());
    assert!(process.text().contains("--resume"), "{}", process.text());
    // Completed cases are reported.
    let text = process.text();
    assert!(text.contains("\n1 measured (") && has_verdict(&text), "{text}");
    let folder = files.path("out/forward/backend/2_users/50B/0ms_sleep");
    assert_eq!(names(&folder), ["1"]);
    let (code, text) = run(&files, &["--resume"]);
    assert!(code == Some(0) && text.contains("1 kept from the earlier run"), "{text}");
    assert_eq!(names(&folder), ["1", "2"]);
}

#[test]
fn a_sweep_varies_one_setting_and_only_selects_cases() {
    let files = Files::new();
    let sweep = "\n[sweep]\nsetting = 'workers'\nvalues = [1, 2]\n";
    let text = suite("'penstock'", "'forward', 'access-log'", MEASURED, "restart = 'suite'");
    files.write("suite.toml", &(text + sweep));
    let conditions = "rate < 1000000000/s, errors > 100%";
    let (code, text) = run(&files, &["--only", "^forward/", "--fail-if", conditions]);
    assert_eq!(code, Some(1), "{text}");
    assert_eq!(text.matches("FAILED: rate < 1000000000/s").count(), 2, "{text}");
    assert_eq!(names(&files.path("out/forward")), ["penstock_workers=1", "penstock_workers=2"]);
    assert!(!files.path("out/access-log").exists());
    let threads = |case: &str| result(&files, case).target_use.unwrap().threads;
    let (one, two) = (threads("forward/penstock_workers=1"), threads("forward/penstock_workers=2"));
    assert!(one < two, "{one} and {two} threads");
    // Kept cases still fail.
    let (code, text) = run(&files, &["--resume", "--only", "^forward/"]);
    assert!(code == Some(1) && text.contains("--fail-if: 2 cases"), "{text}");
    // New conditions are checked in their place; the stored ones stay.
    for (conditions, code, expect) in
        [("p99 >= 0us", 1, "FAILED: p99 >= 0ms"), ("p99 > 3600s", 0, "2 kept from the earlier run")]
    {
        let arguments = ["--resume", "--only", "^forward/", "--fail-if", conditions];
        let (found, text) = run(&files, &arguments);
        assert!(found == Some(code) && text.contains(expect), "{conditions}: {text}");
        assert!(result(&files, "forward/penstock_workers=1").is_broken(), "{conditions}");
    }
    let (code, text) = run(&files, &["--resume", "--only", "nothing"]);
    assert!(code == Some(2) && text.contains("no case matches"), "{text}");
}

#[test]
fn a_target_that_fails_to_start_is_a_failed_case_and_repeated() {
    let files = Files::new();
    let target = "name = 'broken'\nabout = 'exits immediately'\ncan = ['forward']\n\
        url = 'http://127.0.0.1:{{it.port}}'\n[[process]]\nname = 'it'\n\
        command = ['sh', '-c', 'echo the disk is full; exit 3']\nports = ['port']\n";
    files.write("broken.toml", target);
    files.write("suite.toml", &suite("'broken.toml'", "'forward'", "300ms", ""));
    for (arguments, failed) in [(&[][..], 0), (&["--resume"][..], 1)] {
        let (code, text) = run(&files, arguments);
        assert!(code == Some(1) && text.contains("the disk is full"), "{text}");
        assert_eq!(result(&files, "forward/broken").state, State::Failed);
        let folder = files.path("out/forward/broken/2_users/50B/0ms_sleep");
        let kept = names(&folder).iter().filter(|name| name.contains("failed")).count();
        assert_eq!(kept, failed, "the first try is kept");
    }
}

#[test]
fn a_wrong_number_of_upstream_requests_fails_the_case_by_name() {
    let files = Files::new();
    let scenario = |name: &str, upstream_requests: &str| {
        format!(
            "[[scenario]]\nname = '{name}'\ndisplay = 'It'\nabout = 'echoed'\npath = '/echo'\nneeds = ['forward']\n\
             payload = 'simple'\nupstream_requests = {upstream_requests}\n"
        )
    };
    let scenarios = [("once", "1"), ("each", "{ each = 'payload' }"), ("twice", "2")];
    let text = suite("'penstock'", "'once', 'each', 'twice'", "300ms", "restart = 'suite'")
        + &scenarios.map(|(name, number)| scenario(name, number)).concat();
    files.write("suite.toml", &text);
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(1), "{text}");
    for name in ["once", "each"] {
        let found = result(&files, &format!("{name}/penstock"));
        assert_eq!((found.state, found.reason), (State::Measured, None), "{text}");
    }
    let found = result(&files, "twice/penstock");
    assert_eq!(found.state, State::Failed, "{text}");
    let reason = found.reason.unwrap();
    assert!(reason.starts_with("upstream-count: the backend got "), "{reason}");
    assert!(reason.contains("with 2 each, as scenario `twice` says"), "{reason}");
}

#[test]
fn a_program_or_module_that_is_not_installed_is_not_served() {
    let files = Files::new();
    let target = "name = 'absent'\nabout = 'is not installed'\ncan = ['forward']\n\
        url = 'http://127.0.0.1:{{it.port}}'\n[[process]]\nname = 'it'\n\
        command = ['no-such-gateway', '--now']\nports = ['port']\n";
    files.write("absent.toml", target);
    files.write("suite.toml", &suite("'absent.toml'", "'forward'", "300ms", ""));
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    let found = result(&files, "forward/absent");
    assert_eq!(found.state, State::NotServed);
    let expect = "absent: program `no-such-gateway` is not in PATH";
    assert_eq!(found.reason.as_deref(), Some(expect));
    files.write(
        "absent.toml",
        &format!("requires = ['sh', '/no/module.so']\n{target}").replace("no-such-gateway", "sh"),
    );
    let (_, text) = run_into(&files, "module", &[]);
    assert!(text.contains("absent: file `/no/module.so` does not exist"), "{text}");
    // The message about a shipped target has a command that installs it.
    files.write("envoy.toml", &target.replace("'absent'", "'envoy'"));
    files.write("suite.toml", &suite("'envoy.toml'", "'forward'", "300ms", ""));
    let (code, text) = run_into(&files, "envoy", &[]);
    assert!(code == Some(0) && text.contains("; `make bench-peers` installs it, into "), "{text}");
}

#[test]
fn a_target_is_changed_under_load_and_measured_again_as_control() {
    let files = Files::new();
    let text = suite("'penstock', 'backend'", "'bearer'", "2s", "control = 'penstock'")
        .replace("[load]", "settle = '100ms'\n[load]");
    let more = "[change]\nevery = '100ms'\n[set.penstock]\napis = 3\n";
    files.write("suite.toml", &(text + more));
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    for target in ["penstock", "penstock-again"] {
        let found = result(&files, &format!("bearer/{target}"));
        let changes = found.changes.unwrap();
        assert!(changes.live > 0 && changes.lost == 0, "{changes:?}");
        assert!(changes.p50_ms > 0.0 && changes.p50_ms <= changes.max_ms, "{changes:?}");
        let start = found.start.unwrap();
        assert!(start.ready_ms > 0.0 && start.idle_rss_bytes.unwrap() > 0, "{start:?}");
        let (errors, requests) = (found.figure("errors"), found.figure("requests"));
        assert!(errors == Some(0.0) && requests > Some(0.0), "{:?}", found.load);
        let apis = format!("out/bearer/{target}/2_users/50B/0ms_sleep/1/gateway-1/apis");
        // The other numbered files were removed.
        let expect = ["echo.yaml", "orders-0001.yaml"];
        assert_eq!(names(&files.path(&apis)), expect);
        // Penstock verifies the tokens of this scenario, although they are not needed.
        let echo = fs::read_to_string(files.path(&format!("{apis}/echo.yaml"))).unwrap();
        assert!(!echo.contains("x-wso2-disable-security"), "{echo}");
    }
    let unchanged = result(&files, "bearer/backend");
    assert_eq!(unchanged.state, State::NotServed);
    assert!(unchanged.reason.unwrap().contains("no [change]"));

    files.write("doc.md", "# Results\n\n<!-- lab journey -->\n<!-- end of journey -->\n");
    let table = ["lab", "table", "out", "--relative-to", "penstock", "--into", "doc.md"];
    let (code, text) = Process::run(files.folder(), &table);
    assert_eq!(code, Some(0), "{text}");
    let document = fs::read_to_string(files.path("doc.md")).unwrap();
    assert!(document.contains("| bearer | 2 | 50B | penstock-again | "), "{document}");
    assert!(document.contains("| changes live |"), "{document}");
}

/// The shipped suite, with fewer applications and shorter.
#[test]
fn an_application_is_changed_under_load() {
    let files = Files::new();
    let mut suite = include_str!("../../suites/bench-applications.toml").to_owned();
    for (long, short) in [
        ("20s", "1s"),
        ("settle = \"2s\"", "settle = \"100ms\""),
        ("[1000, 10000, 100000]", "[20]"),
        ("[cores]\ntarget = \"1\"\nbackend = \"0\"\ngenerator = \"0\"\n", ""),
    ] {
        assert!(suite.contains(long), "{long}");
        suite = suite.replace(long, short);
    }
    files.write("suite.toml", &suite);
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    let case = "out/api-key/penstock-applications_applications=20/1_users/0B/0ms_sleep/1";
    let found = CaseResult::read(&files.path(&format!("{case}/result.json"))).unwrap();
    let changes = found.changes.as_ref().unwrap();
    assert!(changes.live > 1 && changes.lost == 0, "{changes:?}");
    let counts = (found.figure("errors"), found.figure("requests"));
    assert!(counts.0 == Some(0.0) && counts.1 > Some(0.0), "{:?}", found.load);
    let applications = names(&files.path(&format!("{case}/gateway-1/applications")));
    assert_eq!(applications, ["0001.toml", "changed.toml"]);
}

/// A scenario whose tokens are the target's own.
fn with_tokens(name: &str, needs: &str, more: &str) -> String {
    format!(
        "[[scenario]]\nname = '{name}'\ndisplay = 'x'\nabout = ''\npath = '/echo/1.0.0'\nneeds = [{needs}]\n\
         tokens = {{ kind = 'jwt', count = 20 }}\n{more}\n"
    )
}

/// The shipped target, and the same with tokens of a client whose application has no subscription.
#[test]
fn tokens_of_the_key_manager_are_accepted_if_their_application_is_subscribed() {
    let files = Files::new();
    let counted = |targets: &str, scenarios: &str| {
        suite(targets, scenarios, "0s", "").replace("measure = '0s'", "requests = 100")
    };
    let needs = |kind: &str| format!("'forward', 'tls', 'subscriptions', '{kind}'");
    let scenario = |name: &str, kind: &str, more: &str| with_tokens(name, &needs(kind), more);
    let echoed = "payload = 'array'\nexpect = '{{bytes}}B'";
    let text = counted("'penstock-managed'", "'jwt', 'opaque', 'application-key'")
        + &scenario("jwt", "jwt", echoed)
        + &scenario("opaque", "opaque-tokens", echoed);
    files.write("suite.toml", &text);
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    let check = |case: &str, tokens: u64| {
        let found = result(&files, case);
        assert_eq!(found.state, State::Measured, "{case}: {:?}", found.reason);
        let counts = (found.figure("requests"), found.figure("errors"));
        assert_eq!(counts, (Some(100.0), Some(0.0)), "{case}: {:?}", found.load);
        assert_eq!(found.load["options"]["tokens"], tokens, "{case}");
    };
    for (case, tokens) in [("jwt", 20), ("opaque", 20), ("application-key", 0)] {
        check(&format!("{case}/penstock-managed"), tokens);
    }
    let kept = files.path("out/jwt/penstock-managed/2_users/50B/0ms_sleep/1");
    assert!(!kept.join("tokens.txt").exists() && kept.join("gateway-1/secret").is_file());

    let start = "exec \"$1\" gateway";
    let other = "register other '{{part.token-type}}'\n\
        printf 'user = \"%s:%s\"\\n' \"$id\" \"$secret\" >application\n";
    let target = include_str!("../../suites/targets/penstock-managed.toml");
    assert!(target.contains(start));
    let target = target
        .replace("name = \"penstock-managed\"", "name = \"other\"")
        .replace(start, &format!("{other}{start}"));
    files.write("other.toml", &target);
    let denied = "[[sequence]]\n[[sequence.request]]\nname = 'denied'\npath = '/x'\nstatus = 403\n\
        extract.code = { regex = '900908' }\n";
    files.write("denied.toml", denied);
    let requests = "requests = 'denied.toml'";
    let text = counted("'other.toml'", "'denied-jwt', 'denied-opaque'")
        + &scenario("denied-jwt", "jwt", requests)
        + &scenario("denied-opaque", "opaque-tokens", requests);
    files.write("suite.toml", &text);
    fs::rename(files.path("out"), files.path("accepted")).unwrap();
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    for case in ["denied-jwt/other", "denied-opaque/other"] {
        check(case, 20);
    }
}

#[test]
fn a_target_prints_as_many_tokens_as_the_scenario_needs() {
    let files = Files::new();
    let scenario = with_tokens("tokens", "'forward'", "payload = 'array'");
    files.write("suite.toml", &(suite("'own.toml'", "'tokens'", "300ms", "") + &scenario));
    for (out, command, problem) in [
        ("enough", "seq {{token_count}}", None),
        ("fewer", "seq 19; echo no more >&2", Some("printed 19 lines instead of 20\n    no more")),
        ("failed", "echo no server >&2; exit 3", Some("exit status: 3\n    no server")),
    ] {
        let target = format!(
            "name = 'own'\nabout = ''\ncan = ['forward']\nurl = 'http://127.0.0.1:{{{{backend_port}}}}'\n\
             [tokens]\ncommand = ['sh', '-c', '{command}']\n"
        );
        files.write("own.toml", &target);
        let (code, text) = run_into(&files, out, &[]);
        assert_eq!(code, Some(i32::from(problem.is_some())), "{text}");
        let file = format!("{out}/tokens/own/2_users/50B/0ms_sleep/1/result.json");
        let reason = CaseResult::read(&files.path(&file)).unwrap().reason;
        assert_eq!(reason.is_some(), problem.is_some(), "{reason:?}");
        if let Some((reason, problem)) = reason.zip(problem) {
            assert!(reason.contains(problem), "{reason}");
        }
    }
}

/// A suite of three cases with the backend alone.
fn three(measure: &str, more: &str) -> String {
    suite("'backend'", "'forward'", measure, more).replace("users = [2]", "users = [2, 3, 4]")
}

#[test]
fn a_crashed_backend_fails_only_its_case() {
    let files = Files::new();
    files.write("suite.toml", &three("1s", "restart = 'suite'"));
    let mut process = Process::start(files.folder(), &["lab", "run", "suite.toml", "--out", "out"]);
    let folder = "out/forward/backend/2_users/50B/0ms_sleep";
    // The log is created when the load starts.
    until(|| files.path(&format!("{folder}/1.partial/histogram.hlog")).exists());
    let backend = children(process.id(), "echo");
    assert_eq!(backend.len(), 1, "{backend:?}");
    kill(backend[0], Signal::SIGKILL).unwrap();
    let status = process.wait();
    assert_eq!(status.code(), Some(1), "{}", process.text());
    let of = |users: u32| {
        let file = format!("out/forward/backend/{users}_users/50B/0ms_sleep/1/result.json");
        CaseResult::read(&files.path(&file)).unwrap()
    };
    let failed = of(2);
    assert_eq!(failed.state, State::Failed, "{}", process.text());
    assert!(failed.reason.unwrap().contains("backend ended during the case"));
    for users in [3, 4] {
        let found = of(users);
        assert_eq!((found.state, found.figure("errors")), (State::Measured, Some(0.0)), "{users}");
    }
    let (code, text) = run(&files, &["--resume"]);
    assert!(code == Some(0) && text.contains("2 kept from the earlier run"), "{text}");
}

#[test]
fn a_folder_is_locked_and_a_killed_run_leaves_no_processes() {
    let files = Files::new();
    files.write("suite.toml", &suite("'penstock'", "'forward'", "60s", ""));
    let mut process = Process::start(files.folder(), &["lab", "run", "suite.toml", "--out", "out"]);
    let partial = files.path("out/forward/penstock/2_users/50B/0ms_sleep/1.partial");
    until(|| partial.join("histogram.hlog").exists());
    let (code, text) = run(&files, &["--resume"]);
    assert!(code == Some(2) && text.contains("in use by another run"), "{text}");
    assert!(partial.join("histogram.hlog").exists(), "the folder still belongs to the first run");

    let mut started = children(process.id(), "echo");
    started.extend(children(process.id(), "gateway"));
    assert_eq!(started.len(), 2, "{started:?}");
    process.signal(Signal::SIGKILL);
    process.wait();
    until(|| started.iter().all(|&pid| !lives(pid)));
    // The lock has been released.
    files.write("suite.toml", &suite("'penstock'", "'forward'", "59s", ""));
    let (code, text) = run(&files, &["--resume"]);
    assert!(code == Some(2) && text.contains("different version"), "{text}");
}

#[test]
fn a_run_survives_its_terminal() {
    let files = Files::new();
    files.write("suite.toml", &three("300ms", ""));
    let mut command = Command::new(penstock());
    command.args(["lab", "run", "suite.toml", "--out", "out"]).current_dir(files.folder());
    let mut child = command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // From now on, its output has no reader.
    drop((child.stderr.take(), child.stdout.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(names(&files.path("out/forward/backend")), ["2_users", "3_users", "4_users"]);
}

#[test]
fn a_helpers_use_is_reported_separately() {
    let files = Files::new();
    let target = "name = 'helped'\nabout = 'a helper that is always busy'\ncan = ['forward']\n\
        url = 'http://127.0.0.1:{{backend_port}}'\n[[process]]\nname = 'busy'\nrole = 'helper'\n\
        command = ['sh', '-c', 'while :; do :; done']\n";
    files.write("helped.toml", target);
    files.write("suite.toml", &suite("'helped.toml'", "'forward'", MEASURED, ""));
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    let found = result(&files, "forward/helped");
    assert_eq!(found.target_use, None);
    let helper = found.helper_use.unwrap();
    assert!(helper.cpu_user_us > 0.0 && helper.threads == 1, "{helper:?}");
}

/// 300 connections with a soft limit of 256 files, which the generator raises first.
#[test]
fn a_raised_descriptor_limit_causes_no_warning() {
    let files = Files::new();
    let text = suite("'backend'", "'forward'", MEASURED, "");
    files.write("suite.toml", &text.replace("users = [2]", "users = [300]"));
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 256; exec \"$@\"", "sh"]).arg(penstock());
    command.args(["lab", "run", "suite.toml", "--out", "out"]).current_dir(files.folder());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = "out/forward/backend/300_users/50B/0ms_sleep/1/result.json";
    let found = CaseResult::read(&files.path(file)).unwrap();
    let environment = found.environment;
    assert!(
        environment.descriptors > 256 && environment.descriptors_limit > 256,
        "{environment:?}"
    );
    assert!(
        found.warnings.iter().all(|warning| warning.code != "descriptors-exhausted"),
        "{found:?}"
    );
    // May include connections of other tests; unit tests check exact counts.
    assert!(environment.ports_in_use >= 300, "{environment:?}");
}

#[test]
fn a_failing_calibration_is_a_warning() {
    let files = Files::new();
    let text = suite("'backend'", "'forward'", "300ms", "delays_ms = [200]")
        .replace("[load]", "calibrate = '300ms'\n[load]\ntimeout = '20ms'");
    files.write("suite.toml", &text);
    let (_, text) = run(&files, &[]);
    let file = "out/forward/backend/2_users/50B/200ms_sleep/1/result.json";
    let found = CaseResult::read(&files.path(file)).unwrap();
    let warning = |code| found.warnings.iter().find(|warning| warning.code == code);
    let alone = warning("backend-alone");
    assert!(alone.is_some_and(|warning| warning.message.contains("unknown")), "{text}");
    // 300 ms are too few samples for more than latency and rate.
    assert!(warning("short").is_some(), "{text}");
    assert_eq!(found.calibration, None);
}

#[test]
fn a_remote_gateway_uses_the_configured_backend_address() {
    let files = Files::new();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap();
    let target = format!(
        "name = 'elsewhere'\nabout = 'not started by the lab'\ncan = ['forward']\nurl = 'http://{address}'\n"
    );
    files.write("elsewhere.toml", &target);
    let text = suite("'elsewhere.toml'", "'forward'", MEASURED, "delays_ms = [30]");
    files.write("suite.toml", &(text + &format!("\n[backend]\nlisten = '{address}'\n")));
    // Another listener must not be mistaken for the backend.
    let (code, text) = run(&files, &[]);
    assert!(code == Some(1) && text.contains(&format!("backend: {address}")), "{text}");
    drop(taken);
    let (code, text) = run(&files, &["--resume"]);
    assert_eq!(code, Some(0), "{text}");
    let file = "out/forward/elsewhere/2_users/50B/30ms_sleep/1/result.json";
    let found = CaseResult::read(&files.path(file)).unwrap();
    assert!(found.figure("min_ms").unwrap() >= 29.0, "{text}");
    assert!(found.backend_use.is_some() && found.target_use.is_none());
}

/// Polls until `done`.
#[track_caller]
fn until(mut done: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    while !done() {
        assert!(u128::from(clock.now_us()) < PATIENCE.as_micros(), "timed out");
        std::thread::yield_now();
    }
}

/// Children of `parent` with the argument `word`.
fn children(parent: u32, word: &str) -> Vec<Pid> {
    let everyone = fs::read_dir("/proc").unwrap().flatten();
    let pids = everyone.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        stat(*pid).is_some_and(|(_, of)| of == parent.to_string())
            && words.split(|&byte| byte == 0).any(|found| found == word.as_bytes())
    };
    pids.filter(is_child).map(Pid::from_raw).collect()
}

fn lives(pid: Pid) -> bool {
    stat(pid.as_raw()).is_some_and(|(state, _)| state != "Z")
}

/// State and parent.
fn stat(pid: i32) -> Option<(String, String)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace().map(str::to_owned);
    Some((fields.next()?, fields.next()?))
}

/// Sorted entries of a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
