//! The suites and targets that come with the lab, and what a run does with them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use penstock_lab::matrix::suite::Suite;
use penstock_lab::matrix::{cases, scenario};
use penstock_lab::target::declared;

fn suites() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../suites")
}

fn read(name: &str) -> Suite {
    Suite::read(&suites().join(format!("{name}.toml"))).unwrap()
}

/// Cases of each suite; those of the published tables where there are such.
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
    // The published table keeps the best of the user counts.
    assert_eq!(cases::all(&read("micro-integrator")).len(), 4 * 4 * 4);
    assert_eq!(cases::all(&read("quick")).len(), 3 * 11 * 2);
    let mut names = HashSet::new();
    for entry in std::fs::read_dir(suites()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.extension().is_some_and(|end| end == "toml") && name != "scenarios" {
            assert_eq!(read(&name).name, name);
            names.insert(name);
        }
    }
    assert_eq!(names.len(), 6, "{names:?}");
}

/// Users, sizes and delays of each published row are those of a case of the suite.
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
fn every_shipped_target_says_of_every_scenario_whether_it_serves_it() {
    let scenarios = scenario::shipped().unwrap();
    assert_eq!(
        declared::SHIPPED.len(),
        std::fs::read_dir(suites().join("targets")).unwrap().count()
    );
    for (name, _) in declared::SHIPPED {
        let target = declared::find(name, &suites()).unwrap().unwrap();
        assert_eq!(target.name, *name);
        for need in scenarios.iter().flat_map(|scenario| &scenario.needs) {
            let told = usize::from(target.can.contains(need))
                + usize::from(target.cannot.contains_key(need));
            assert_eq!(told, 1, "{name}: `can` or `cannot` has to name {need}, not both");
        }
    }
}

#[test]
fn a_bad_suite_is_refused_with_position_and_nearest_name() {
    for (wrong, place, help) in [
        ("targets = ['penstok']", "a.toml:3:12", "`penstock`"),
        ("scenarios = ['passthru']", "a.toml:4:14", "`passthrough`"),
        ("user = [1]", "a.toml:5:1", "`users`"),
        ("users = [0]", "a.toml:5:9", "from 1 to"),
        ("warm_up = '1 parsec'", "a.toml:8:11", "10s"),
        ("bytes = []", "a.toml:6:9", "one or more"),
        ("[set.penstock]\nworker = 2", "a.toml:11:1", "`workers`"),
        ("[set.nginks]\nworker = 2", "a.toml:10:6", "`penstock`"),
        ("[limits.targets]\ncpus = 1", "a.toml:10:9", "`target`"),
        ("[sweep]\nsetting = 'worker'\nvalues = [1]", "a.toml:11:11", "`workers`"),
        ("[cores]\ntarget = 'all'", "a.toml:11:10", "2-3"),
    ] {
        let key = wrong.split(' ').next().unwrap().trim_end_matches('s');
        let mut lines: Vec<String> = "name = 'a'\n[matrix]\ntargets = ['penstock']\n\
            scenarios = ['passthrough']\nusers = [1]\nbytes = [50]\n[time]\nwarm_up = '1s'\n\
            measure = '1s'"
            .lines()
            .map(str::to_owned)
            .collect();
        match lines.iter_mut().find(|line| !wrong.starts_with('[') && line.starts_with(key)) {
            Some(line) => *line = wrong.to_owned(),
            None => lines.push(wrong.to_owned()),
        }
        let source = penstock_lab::matrix::Source { name: "a.toml".into(), text: lines.join("\n") };
        let refusal = Suite::from_source(source).unwrap_err();
        assert!(refusal.starts_with(place) && refusal.contains(help), "{wrong}: {refusal}");
    }
}
