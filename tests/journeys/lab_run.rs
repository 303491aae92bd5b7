//! `penstock lab run`: real targets, cases in their folders, refusals, interruption and resumption.

use std::fs;
use std::path::Path;

use harness::{Files, Process};
use lab::result::{CaseResult, State};
use nix::sys::signal::Signal;

/// `more` goes into `[matrix]`.
fn suite(targets: &str, scenarios: &str, measure: &str, more: &str) -> String {
    format!(
        "name = 'journey'\n[matrix]\ntargets = [{targets}]\nscenarios = [{scenarios}]\nusers = [2]\n\
         bytes = [50]\n{more}\n[time]\nwarm_up = '100ms'\nmeasure = '{measure}'\n\
         [load]\njtl = true\n"
    )
}

fn run(files: &Files, arguments: &[&str]) -> (Option<i32>, String) {
    let all: Vec<&str> = ["lab", "run", "suite.toml", "--out", "out"]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    Process::run(files.folder(), &all)
}

fn result(files: &Files, case: &str) -> CaseResult {
    let file = format!("out/{case}/2_users/50B/0ms_sleep/1/result.json");
    CaseResult::read(&files.path(&file)).unwrap()
}

#[test]
fn every_case_is_measured_or_told_why_not_in_a_folder_that_is_never_written_over() {
    let files = Files::new();
    let scenarios = "'forward', 'passthrough', 'direct-proxy'";
    files.write("suite.toml", &suite("'penstock', 'backend'", scenarios, "2s", ""));
    let (code, text) = run(&files, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("3 measured") && text.contains("3 not served"), "{text}");
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
    assert!(code == Some(2) && text.contains("never written over"), "{text}");
    let (code, text) = run(&files, &["--resume"]);
    assert!(code == Some(0) && text.contains("6 kept from before"), "{text}");
    files.write("suite.toml", &suite("'backend'", "'forward'", "500ms", ""));
    let (code, text) = run(&files, &["--resume"]);
    assert!(code == Some(2) && text.contains("other contents"), "{text}");
}

#[test]
fn an_interrupted_run_keeps_what_is_done_and_goes_on() {
    let files = Files::new();
    files.write("suite.toml", &suite("'backend'", "'forward'", "1s", "repetitions = 2"));
    let mut process = Process::start(files.folder(), &["lab", "run", "suite.toml", "--out", "out"]);
    process.wait_for("[1/2]");
    process.signal(Signal::SIGINT);
    let status = process.wait();
    assert_eq!(status.code(), Some(1), "{}", process.text());
    assert!(process.text().contains("--resume"), "{}", process.text());
    let folder = files.path("out/forward/backend/2_users/50B/0ms_sleep");
    assert_eq!(names(&folder), ["1"]);
    let (code, text) = run(&files, &["--resume"]);
    assert!(code == Some(0) && text.contains("1 kept from before"), "{text}");
    assert_eq!(names(&folder), ["1", "2"]);
}

#[test]
fn a_sweep_varies_one_setting_and_only_chooses_among_its_cases() {
    let files = Files::new();
    let sweep = "\n[sweep]\nsetting = 'workers'\nvalues = [1, 2]\n";
    let text = suite("'penstock'", "'forward', 'access-log'", "2s", "restart = 'suite'");
    files.write("suite.toml", &(text + sweep));
    let (code, text) = run(&files, &["--only", "^forward/"]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(names(&files.path("out/forward")), ["penstock_workers=1", "penstock_workers=2"]);
    assert!(!files.path("out/access-log").exists());
    let threads = |case: &str| result(&files, case).target_use.unwrap().threads;
    let (one, two) = (threads("forward/penstock_workers=1"), threads("forward/penstock_workers=2"));
    assert!(one < two, "{one} and {two} threads");
    let (code, text) = run(&files, &["--resume", "--only", "nothing"]);
    assert!(code == Some(2) && text.contains("no case is called so"), "{text}");
}

#[test]
fn a_target_that_cannot_start_is_a_failed_case_with_its_words_and_is_tried_again() {
    let files = Files::new();
    let target = "name = 'broken'\nabout = 'ends at once'\ncan = ['forward']\n\
        url = 'http://127.0.0.1:{{it.port}}'\n[[process]]\nname = 'it'\n\
        command = ['sh', '-c', 'echo the disk is on fire; exit 3']\nports = ['port']\n";
    files.write("broken.toml", target);
    files.write("suite.toml", &suite("'broken.toml'", "'forward'", "300ms", ""));
    for (arguments, failed) in [(&[][..], 0), (&["--resume"][..], 1)] {
        let (code, text) = run(&files, arguments);
        assert!(code == Some(1) && text.contains("the disk is on fire"), "{text}");
        assert_eq!(result(&files, "forward/broken").state, State::Failed);
        let folder = files.path("out/forward/broken/2_users/50B/0ms_sleep");
        let kept = names(&folder).iter().filter(|name| name.contains("failed")).count();
        assert_eq!(kept, failed, "the first try is kept");
    }
}

/// What is in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
