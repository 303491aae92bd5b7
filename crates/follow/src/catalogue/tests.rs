//! Each test is a story of batches; `check` plays it and compares what is served at the end.

use super::*;

#[test]
fn a_broken_change_keeps_the_last_good_version() {
    check(&["a=/x", "a!/x"], "/x:a");
}

#[test]
fn a_file_that_never_loaded_answers_503_at_its_base_path() {
    check(&["a!/x"], "/x:a(503)");
}

#[test]
fn a_file_that_never_loaded_and_has_no_readable_base_path_is_not_served() {
    check(&["a!"], "");
}

#[test]
fn a_repaired_file_is_served() {
    check(&["a!/x", "a=/x"], "/x:a");
}

#[test]
fn a_good_file_takes_the_path_of_one_that_never_loaded() {
    check(&["a!/x", "b=/x"], "/x:b");
}

#[test]
fn of_two_files_that_claim_one_path_the_serving_one_stays() {
    check(&["b=/x", "a=/x"], "/x:b");
}

#[test]
fn of_two_newcomers_the_first_one_is_taken() {
    check(&["b=/x a=/x"], "/x:b");
}

#[test]
fn a_refused_newcomer_is_taken_when_the_first_one_goes_away() {
    check(&["a=/x", "b=/x", "a-"], "/x:b");
}

#[test]
fn a_refused_newcomer_is_taken_when_the_first_one_moves_away() {
    check(&["a=/x", "b=/x", "a=/y"], "/x:b /y:a");
}

#[test]
fn a_refused_newcomer_that_breaks_is_not_taken_later() {
    check(&["a=/x", "b=/x", "b!/x", "a-"], "/x:b(503)");
}

#[test]
fn a_move_to_a_taken_path_is_refused_and_the_old_path_serves_on() {
    check(&["a=/x b=/y", "b=/x"], "/x:a /y:b");
}

#[test]
fn two_files_can_exchange_their_paths_in_one_batch() {
    check(&["a=/x b=/y", "a=/y b=/x"], "/x:b /y:a");
}

#[test]
fn two_files_can_exchange_their_paths_one_after_the_other() {
    check(&["a=/x b=/y", "a=/y", "b=/x"], "/x:b /y:a");
}

#[test]
fn a_chain_of_moves_with_one_that_cannot_leaves_everyone_where_they_were() {
    check(&["a=/x b=/y c=/z", "a=/y b=/z"], "/x:a /y:b /z:c");
}

#[test]
fn a_renamed_file_serves_without_a_gap() {
    check(&["a=/x", "a?", "b=/x"], "/x:b");
    check(&["a=/x", "b=/x", "a?"], "/x:b");
    check(&["a=/x", "a?"], "/x:a");
    check(&["a=/x", "a?", "a-"], "");
}

#[test]
fn a_file_that_comes_back_serves_on() {
    check(&["a=/x", "a?", "a=/x", "b=/x"], "/x:a");
}

#[test]
fn the_default_version_is_a_claim_as_well() {
    check(&["a=/x/1+/x", "b=/x/2+/x", "c=/x"], "/x/1:a");
}

#[test]
fn hosts_keep_equal_paths_apart() {
    check(&["a=/x@one", "b=/x@two", "c=/x"], "/x:c /x@one:a /x@two:b");
}

#[test]
fn both_files_of_a_contested_path_are_named() {
    let mut catalogue = Catalogue::default();
    play(&mut catalogue, "a=/x");
    let applied = play(&mut catalogue, "b=/x");
    assert_eq!(applied.refused, [PathBuf::from("b")]);
    let findings = catalogue.diagnostics(Path::new("b"));
    assert_eq!(
        findings.iter().map(|finding| finding.message.as_str()).collect::<Vec<_>>(),
        ["claims the path `/x`, which a serves already"]
    );
    assert_eq!(findings.first().map(|finding| finding.file.as_path()), Some(Path::new("b")));
    let applied = play(&mut catalogue, "a-");
    assert!(applied.touched.contains(Path::new("b")), "its diagnostic went away");
    assert_eq!(catalogue.diagnostics(Path::new("b")), []);
}

#[test]
fn an_unchanged_api_keeps_its_place_in_memory() {
    let mut catalogue = Catalogue::default();
    play(&mut catalogue, "a=/x b=/y");
    let before = catalogue.apis();
    let applied = play(&mut catalogue, "b=/y");
    assert!(!applied.changed, "the same API in other words");
    play(&mut catalogue, "b=/z");
    let after = catalogue.apis();
    let same = |index: usize| {
        Arc::ptr_eq(
            &before.get(index).expect("two are served").api,
            &after.get(index).expect("two are served").api,
        )
    };
    assert!(same(0) && !same(1));
}

/// Steps are separated by commas, files of one batch by spaces: `a=/x` reads well, `a!/x` badly,
/// `a?` is missing, `a-` removed. `+/d` gives a path without version, `@h` a host.
#[track_caller]
fn check(batches: &[&str], expect: &str) {
    let mut catalogue = Catalogue::default();
    for batch in batches {
        play(&mut catalogue, batch);
    }
    let mut served: Vec<String> = catalogue.apis().iter().map(shown).collect();
    served.sort();
    assert_eq!(served.join(" "), expect);
}

fn play(catalogue: &mut Catalogue, batch: &str) -> Applied {
    catalogue.apply(batch.split(' ').map(step).collect())
}

fn step(word: &str) -> (PathBuf, Found) {
    let at = word.find(['=', '!', '?', '-']).expect("a step has a sign");
    let (file, rest) = word.split_at(at);
    let (sign, rest) = rest.split_at(1);
    let (rest, host) = rest.split_once('@').unwrap_or((rest, ""));
    let (path, default) = rest.split_once('+').unwrap_or((rest, ""));
    let hosts = if host.is_empty() { Vec::new() } else { vec![host.to_owned()] };
    let found = match sign {
        "=" => {
            let mut api = unloaded_api(Path::new(file), path.to_owned(), hosts);
            api.default_path = Some(default.to_owned()).filter(|path| !path.is_empty());
            Found::Read(Box::new(Outcome { api: Some(api), ..Outcome::default() }))
        }
        "!" => Found::Read(Box::new(Outcome {
            api: None,
            diagnostics: vec![broken(file)],
            base_path: Some(path.to_owned()).filter(|path| !path.is_empty()),
            hosts,
        })),
        "?" => Found::Missing,
        _ => Found::Removed,
    };
    (PathBuf::from(file), found)
}

fn broken(file: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: file.into(),
        place: None,
        message: "broken".to_owned(),
        help: None,
    }
}

fn shown(loaded: &LoadedApi) -> String {
    let api = &loaded.api;
    let host = api.hosts.first().map(|host| format!("@{host}")).unwrap_or_default();
    let state = match loaded.state {
        ApiState::Serving => "",
        ApiState::Unloaded => "(503)",
    };
    format!("{}{host}:{}{state}", api.base_path, api.source.display())
}
