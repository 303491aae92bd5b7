//! Each test applies batches of changes; `check` compares the parts that are served at the end.

use formats::openapi::Outcome;
use model::ArtefactKind;

use super::*;
use crate::part::unloaded_api;

#[test]
fn an_invalid_change_keeps_the_last_valid_version() {
    check(&["a=/x", "a!/x"], "/x:a");
}

#[test]
fn a_file_that_was_never_valid_gets_503_at_its_base_path() {
    check(&["a!/x"], "/x:a(503)");
}

#[test]
fn a_file_that_was_never_valid_and_has_no_base_path_is_not_served() {
    check(&["a!"], "");
}

#[test]
fn a_corrected_file_is_served() {
    check(&["a!/x", "a=/x"], "/x:a");
}

#[test]
fn a_valid_file_gets_the_path_of_one_that_was_never_valid() {
    check(&["a!/x", "b=/x"], "/x:b");
}

#[test]
fn of_two_files_that_claim_one_path_the_served_one_stays() {
    check(&["b=/x", "a=/x"], "/x:b");
}

#[test]
fn paths_that_routing_does_not_distinguish_are_one_path() {
    check(&["a=/x%2Cy", "b=/x,y", "c=/x%2fy", "d=/x%2Fy", "e=/x/y"], "/x%2Cy:a /x%2fy:c /x/y:e");
}

#[test]
fn of_two_new_files_the_first_one_is_served() {
    check(&["b=/x a=/x"], "/x:b");
}

#[test]
fn a_waiting_file_is_served_when_the_other_one_is_removed() {
    check(&["a=/x", "b=/x", "a-"], "/x:b");
}

#[test]
fn a_waiting_file_is_served_when_the_other_one_changes_its_path() {
    check(&["a=/x", "b=/x", "a=/y"], "/x:b /y:a");
}

#[test]
fn a_waiting_file_that_becomes_invalid_is_not_served_later() {
    check(&["a=/x", "b=/x", "b!/x", "a-"], "/x:b(503)");
}

#[test]
fn a_change_to_an_owned_path_is_rejected_and_the_old_path_stays() {
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
fn a_chain_of_changes_is_rejected_as_a_whole_if_the_last_one_is() {
    check(&["a=/x b=/y c=/z", "a=/y b=/z"], "/x:a /y:b /z:c");
}

#[test]
fn a_renamed_file_is_served_without_interruption() {
    check(&["a=/x", "a?", "b=/x"], "/x:b");
    check(&["a=/x", "b=/x", "a?"], "/x:b");
    check(&["a=/x", "a?"], "/x:a");
    check(&["a=/x", "a?", "a-"], "");
}

#[test]
fn a_file_that_comes_back_is_still_served() {
    check(&["a=/x", "a?", "a=/x", "b=/x"], "/x:a");
}

#[test]
fn the_default_path_is_a_claim_too() {
    check(&["a=/x/1+/x", "b=/x/2+/x", "c=/x"], "/x/1:a");
}

#[test]
fn equal_paths_of_different_hosts_do_not_collide() {
    check(&["a=/x@one", "b=/x@two", "c=/x"], "/x:c /x@one:a /x@two:b");
}

#[test]
fn the_diagnostic_of_a_waiting_file_names_both_files() {
    let mut catalogue = Catalogue::default();
    play(&mut catalogue, "a=/x");
    let applied = play(&mut catalogue, "b=/x");
    assert_eq!(applied.rejected, [Arc::from(Path::new("b"))]);
    let diagnostics = catalogue.diagnostics(Path::new("b"), false);
    let [diagnostic] = diagnostics.as_slice() else { panic!("{diagnostics:?}") };
    assert!(diagnostic.message.contains("`/x`"), "{diagnostic}");
    assert!(diagnostic.message.ends_with("in a"), "{diagnostic}");
    assert_eq!(diagnostic.file, Path::new("b"));
    let applied = play(&mut catalogue, "a-");
    assert!(applied.touched.contains(Path::new("b")), "its diagnostic is gone");
    assert_eq!(catalogue.diagnostics(Path::new("b"), false), []);
}

#[test]
fn an_unchanged_api_is_the_same_allocation() {
    let mut catalogue = Catalogue::default();
    play(&mut catalogue, "a=/x b=/y");
    let before = catalogue.apis();
    let applied = play(&mut catalogue, "b=/y");
    assert!(!applied.changed, "the same API");
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

#[test]
fn of_two_files_with_one_artefact_the_served_one_stays() {
    let set = |file: &str, names: &[&str]| {
        let artefacts = names.iter().map(|name| model::Artefact {
            kind: ArtefactKind::Proxy,
            name: (*name).to_owned(),
            version: String::new(),
            file: file.into(),
            bytes: Arc::from([]),
            configs: BTreeMap::default(),
            documents: BTreeMap::new(),
            contains: Vec::new(),
            problems: Vec::new(),
            application: None,
        });
        let set = ArtefactSet { artefacts: artefacts.collect(), ..ArtefactSet::default() };
        let part = Some(Part::Artefacts(Arc::new(set)));
        (Path::new(file).into(), Found::Read(Box::new(Content { part, ..Content::default() })))
    };
    let mut catalogue = Catalogue::default();
    catalogue.apply(vec![set("a.car", &["one", "two"])]);
    let applied = catalogue.apply(vec![set("b.car", &["two", "three"])]);
    assert_eq!(applied.rejected, [Arc::from(Path::new("b.car"))]);
    let names = |catalogue: &Catalogue| {
        let set = catalogue.artefacts();
        set.artefacts.iter().map(|one| one.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&catalogue), "one two");
    let diagnostics = catalogue.diagnostics(Path::new("b.car"), false);
    let [diagnostic] = diagnostics.as_slice() else { panic!("{diagnostics:?}") };
    assert_eq!(diagnostic.message, "the proxy `two` is already defined in a.car");
    catalogue.apply(vec![(Path::new("a.car").into(), Found::Removed)]);
    assert_eq!(names(&catalogue), "two three");
}

/// Files of one batch are separated by spaces: `a=/x` is valid, `a!/x` invalid, `a?` missing, `a-`
/// removed. `+/d` adds a default path, `@h` a host.
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

fn step(word: &str) -> (Arc<Path>, Found) {
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
            Found::Read(Box::new(Content {
                part: Some(Part::Api(Arc::new(api))),
                ..Content::default()
            }))
        }
        "!" => {
            let outcome = Outcome {
                api: None,
                diagnostics: vec![invalid(file)],
                base_path: Some(path.to_owned()).filter(|path| !path.is_empty()),
                hosts,
            };
            Found::Read(Box::new(Content::of_api(Path::new(file), outcome)))
        }
        "?" => Found::Missing,
        _ => Found::Removed,
    };
    (Path::new(file).into(), found)
}

fn invalid(file: &str) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error,
        file: file.into(),
        place: None,
        message: "invalid".to_owned(),
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
