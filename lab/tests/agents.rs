//! Controllers and agents on the loopback interface.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use echo::Echo;
use penstock_lab::agent::{self, Agent, Secret};
use penstock_lab::load::{LoadError, Options, Payload, Report, Shape};
use penstock_lab::payload;
use penstock_lab::recording::Recordings;
use penstock_lab::validity::Warning;

#[test]
fn two_agents_make_one_measurement() {
    let echo = start_echo();
    let agents = [start(false), start(false)];
    let names = names(&agents);
    for shape in [Shape::default(), Shape::Arrivals { rate_per_s: 500.0 }] {
        let before = echo.requests();
        let report = run(&Options { shape: shape.clone(), ..options(&echo) }, &names).unwrap();
        assert_eq!(report.requests_in_all, echo.requests() - before, "{shape:?}");
        assert_eq!(report.errors_in_all, 0);
        assert_eq!(report.agents.iter().map(|agent| agent.requests).sum::<u64>(), report.requests);
        assert_eq!(report.agents.iter().map(|agent| agent.name.clone()).collect::<Vec<_>>(), names);
        assert_eq!(report.published.samples, report.requests);
        if shape.is_open() {
            assert_eq!((report.requests, report.requests_in_all), (200, 250));
            assert_eq!(
                report.agents.iter().map(|agent| agent.requests).collect::<Vec<_>>(),
                [100, 100]
            );
        }
        // All agents run on this machine, so their clocks agree.
        for agent in &report.agents {
            let (offset_us, uncertainty_us) =
                (agent.clock_offset_us.unsigned_abs(), agent.clock_uncertainty_us);
            assert!(offset_us <= uncertainty_us + 1_000, "{offset_us} us, +- {uncertainty_us}");
        }
    }
}

#[test]
fn the_seconds_of_all_agents_are_one_series() {
    let echo = start_echo();
    let agents = [start(false), start(false)];
    let folder = tempfile::tempdir().unwrap();
    let hlog = folder.path().join("run.hlog");
    let recordings = Recordings { hlog: Some(hlog.clone()), jtl: None };
    let shape = Shape::Arrivals { rate_per_s: 200.0 };
    let duration = Duration::from_millis(2_500);
    let options = Options { shape, duration, recordings, ..options(&echo) };
    let mut shown = Vec::new();
    let secret = secret("the secret of these tests");
    let report =
        agent::run(&options, &names(&agents), &secret, &mut |progress| shown.push(*progress));
    let report = report.unwrap();
    let starts: Vec<f64> = report.series.iter().map(|point| point.from_s.round()).collect();
    assert_eq!(starts, [0.0, 1.0, 2.0]);
    assert_eq!(report.series.iter().map(|point| point.requests).sum::<u64>(), report.requests);
    assert_eq!(std::fs::read_to_string(hlog).unwrap().matches("Tag=service").count(), 3);
    assert!(shown.iter().any(|progress| progress.p99_ms.is_some()), "{shown:?}");
}

#[test]
fn nobody_on_the_network_can_read_tokens_payloads_or_results() {
    let echo = start_echo();
    let agent = start(false);
    let folder = tempfile::tempdir().unwrap();
    let tokens = folder.path().join("tokens");
    std::fs::write(&tokens, "a-precious-token\n").unwrap();
    let seen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let proxied = tapped(agent.addr(), Arc::clone(&seen));
    run(&Options { tokens: Some(tokens), ..options(&echo) }, &[proxied.to_string()]).unwrap();
    let seen = seen.lock().unwrap();
    let has = |text: &str| seen.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(seen.len() > 1_000);
    for text in ["precious", "payload", "latencies", "requests"] {
        assert!(!has(text), "{text}");
    }
}

#[test]
fn a_stop_reaches_every_agent() {
    let echo = start_echo();
    let agents = [start(false), start(false)];
    let options = Options { duration: Duration::from_secs(3_600), ..options(&echo) };
    let stop = options.stop.clone();
    let secret = secret("the secret of these tests");
    let report = agent::run(&options, &names(&agents), &secret, &mut |_| stop.stop()).unwrap();
    assert!(warnings(&report).iter().any(|code| code == "interrupted"));
    assert_eq!(report.requests_in_all, echo.requests());
}

#[test]
fn a_lost_agent_is_a_warning_and_the_others_count() {
    let echo = Arc::new(start_echo());
    let (good, proxied) = (start(false), start(false));
    let dying = dying_after_begin(proxied.addr(), &echo);
    let names = [good.addr().to_string(), dying.to_string()];
    let report = run(&options(&echo), &names).unwrap();
    let lost =
        |warning: &Warning| warning.code == "agent-lost" && warning.message.contains(&names[1]);
    assert!(report.warnings().iter().any(lost), "{:?}", report.warnings());
    assert_eq!(report.agents.len(), 1);
    assert!(report.requests > 0);
    let error = run(&options(&echo), &names[1..]).unwrap_err();
    assert!(matches!(&error, LoadError::Agent { name, .. } if *name == names[1]), "{error}");
}

#[test]
fn a_wrong_secret_is_rejected() {
    let echo = start_echo();
    let agent = start(false);
    let names = [agent.addr().to_string()];
    let other = secret("another secret of these tests");
    let error = agent::run(&options(&echo), &names, &other, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("different secret"), "{error}");
    assert_eq!(echo.requests(), 0);
    run_when_free(&options(&echo), &names);
}

/// Runs a measurement as soon as the agent has noticed that the previous controller is gone.
#[track_caller]
fn run_when_free(options: &Options, names: &[String]) {
    let free = (0..100_000).find_map(|_| match run(options, names) {
        Err(error) if error.to_string().contains("busy") => None,
        done => Some(done),
    });
    free.expect("the agent stays busy").unwrap();
}

#[test]
fn agents_reject_invalid_plans_before_the_load_starts() {
    let echo = start_echo();
    let agent = start(false);
    let names = [agent.addr().to_string()];
    let unreachable = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let check = |options: &Options, names: &[String], expect: &str| {
        let error = run(options, names).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    };
    check(&Options::new(format!("http://{unreachable}/")), &names, "no connection to");
    check(&options(&echo), &[unreachable.to_string()], &unreachable.to_string());
    check(&options(&echo), &[], "0 agents");
    check(
        &Options { users: 1, ..options(&echo) },
        &[names[0].clone(), names[0].clone()],
        "need at least 2, not 1",
    );
    check(&options(&echo), &[names[0].clone(), names[0].clone()], "busy");
    let recordings = Recordings { jtl: Some("no-such-file.jtl".into()), hlog: None };
    check(&Options { recordings, ..options(&echo) }, &names, "--jtl");
    run_when_free(&options(&echo), &names);
}

#[test]
fn an_agent_with_once_exits_after_one_measurement() {
    let echo = start_echo();
    let agent = start(true);
    run(&options(&echo), &[agent.addr().to_string()]).unwrap();
    agent.wait();
}

#[test]
fn connections_without_a_valid_handshake_are_closed() {
    let echo = start_echo();
    let agent = start(false);
    for noise in [&b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"[..], &[0xff; 4_096]] {
        let mut peer = TcpStream::connect(agent.addr()).unwrap();
        peer.write_all(noise).unwrap();
        let closed = peer.shutdown(std::net::Shutdown::Write);
        let mut response = Vec::new();
        // A reset counts as closed.
        let _ = peer.read_to_end(&mut response);
        // An alert at most.
        assert!(closed.is_err() || response.len() <= 32, "{response:?}");
    }
    assert!(run(&options(&echo), &[agent.addr().to_string()]).is_ok());
}

#[test]
fn the_kubernetes_manifests_are_valid_and_complete() {
    let text = include_str!("../kubernetes/agents.yaml");
    let mut kinds = Vec::new();
    for document in text.split("\n---\n") {
        use saphyr_parser::{Event, Parser};
        let events: Vec<_> = Parser::new_from_str(document).map(|event| event.unwrap().0).collect();
        let texts = events.iter().filter_map(|event| {
            if let Event::Scalar(text, ..) = event { Some(text.to_string()) } else { None }
        });
        let texts: Vec<_> = texts.collect();
        let after = |key: &str| texts.iter().skip_while(|text| *text != key).nth(1).cloned();
        assert!(after("apiVersion").is_some(), "{document}");
        kinds.push(after("kind").unwrap());
    }
    assert_eq!(kinds, ["Secret", "Service", "Job"]);
    assert!(text.contains("--token-file") && text.contains("--once"));
}

/// A proxy to an agent that closes its connections at the agent's first message after the target has had a request.
fn dying_after_begin(agent: SocketAddr, echo: &Arc<Echo>) -> SocketAddr {
    let echo = Arc::clone(echo);
    proxy(agent, move |is_agent, _| is_agent && echo.requests() > 0)
}

/// A proxy to an agent that keeps all bytes of both directions.
fn tapped(agent: SocketAddr, seen: Arc<Mutex<Vec<u8>>>) -> SocketAddr {
    proxy(agent, move |_, bytes| {
        seen.lock().unwrap().extend(bytes);
        false
    })
}

/// A proxy to an agent. `dies` gets the bytes of either direction, with whether they are the agent's, and returns
/// whether to close instead of forwarding them.
fn proxy(
    agent: SocketAddr,
    dies: impl Fn(bool, &[u8]) -> bool + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for controller in listener.incoming().flatten() {
            let agent = TcpStream::connect(agent).unwrap();
            let copy = |is_agent: bool, mut from: TcpStream, mut to: TcpStream| {
                let dies = dies.clone();
                thread::spawn(move || {
                    let mut bytes = [0; 4_096];
                    while let Ok(read @ 1..) = from.read(&mut bytes) {
                        if dies(is_agent, &bytes[..read]) || to.write_all(&bytes[..read]).is_err() {
                            break;
                        }
                    }
                    let _ = from.shutdown(std::net::Shutdown::Both);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                })
            };
            copy(true, agent.try_clone().unwrap(), controller.try_clone().unwrap());
            copy(false, controller, agent);
        }
    });
    addr
}

fn run(options: &Options, names: &[String]) -> Result<Report, LoadError> {
    agent::run(options, names, &secret("the secret of these tests"), &mut |_| {})
}

fn start(once: bool) -> Agent {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Agent::start(listen, secret("the secret of these tests"), once).unwrap()
}

fn secret(text: &str) -> Secret {
    Secret::new(text.as_bytes()).unwrap()
}

fn names(agents: &[Agent]) -> Vec<String> {
    agents.iter().map(|agent| agent.addr().to_string()).collect()
}

fn warnings(report: &Report) -> Vec<String> {
    report.warnings().iter().map(|warning| warning.code.clone()).collect()
}

fn options(echo: &Echo) -> Options {
    Options {
        users: 6,
        warm_up: Duration::from_millis(100),
        duration: Duration::from_millis(400),
        payload: Payload::Made { shape: payload::JsonShape::Array, bytes: 1_024 },
        ..Options::new(format!("http://{}/", echo.addr()))
    }
}

fn start_echo() -> Echo {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Echo::start(echo::Options { listen, delay_ms: 0, tls: None, workers: Some(1) }).unwrap()
}
