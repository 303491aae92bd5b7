use super::*;

const URL: &str = "https://issuer.example/jwks";

#[test]
fn a_jwks_url_is_fetched_at_once_and_then_every_five_minutes() {
    let mut issuers = configured(&[by_url()]);
    assert_eq!(due(&mut issuers, 0), ["main"]);
    assert_eq!(due(&mut issuers, 1_000), none(), "one fetch at a time");
    issuers.fetched("main", &by_url().keys, true, 2 * SECOND_US);
    assert_eq!(due(&mut issuers, 301), none());
    assert_eq!(due(&mut issuers, 302), ["main"]);
}

#[test]
fn a_failing_fetch_is_retried_with_backoff() {
    let mut issuers = configured(&[by_url()]);
    let mut now_s = 0;
    let mut waits = Vec::new();
    for _ in 0..12 {
        assert_eq!(due(&mut issuers, now_s), ["main"]);
        issuers.fetched("main", &by_url().keys, false, now_s * SECOND_US);
        let next_s = issuers.next_us().expect("a next time") / SECOND_US;
        waits.push(next_s - now_s);
        now_s = next_s;
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
}

#[test]
fn an_unknown_kid_fetches_early_at_most_every_thirty_seconds() {
    let mut issuers = configured(&[by_url()]);
    due(&mut issuers, 0);
    issuers.fetched("main", &by_url().keys, true, 0);
    let mut fetches = Vec::new();
    for now_s in 10..100 {
        issuers.unknown_kid("main", now_s * SECOND_US);
        issuers.unknown_kid("unknown", now_s * SECOND_US);
        if due(&mut issuers, now_s) == ["main"] {
            fetches.push(now_s);
            issuers.fetched("main", &by_url().keys, true, now_s * SECOND_US);
        }
    }
    assert_eq!(fetches, [10, 40, 70]);
}

#[test]
fn an_unknown_kid_does_not_shorten_the_backoff() {
    let mut issuers = configured(&[by_url()]);
    due(&mut issuers, 0);
    for _ in 0..5 {
        issuers.fetched("main", &by_url().keys, false, 0);
    }
    issuers.unknown_kid("main", SECOND_US);
    assert_eq!(due(&mut issuers, 15), none());
    assert_eq!(due(&mut issuers, 16), ["main"]);
}

#[test]
fn invalid_keys_do_not_replace_valid_ones() {
    let mut issuers = configured(&[by_secret(&[])]);
    let source = by_secret(&[]).keys;
    assert_eq!(issuers.offer("main", &source, vec![7; 64]), Offer::Loaded);
    let before = issuers.current();
    assert_eq!(issuers.offer("main", &source, vec![7; 64]), Offer::Unchanged);
    assert!(matches!(issuers.offer("main", &source, Vec::new()), Offer::Rejected(_)));
    let after = issuers.current();
    assert!(Arc::ptr_eq(&before[0], &after[0]));
    assert_eq!(issuers.offer("main", &source, vec![8; 64]), Offer::Loaded);
    assert!(issuers.current()[0].revision > before[0].revision);
}

#[test]
fn a_secret_is_never_used_with_an_asymmetric_algorithm() {
    let mut issuers = configured(&[by_secret(&[Algorithm::Rs256])]);
    let source = by_secret(&[]).keys;
    let offered = issuers.offer("main", &source, vec![7; 64]);
    assert!(matches!(offered, Offer::Rejected(why) if why.contains("algorithms")));
}

#[test]
fn a_result_for_an_older_configuration_is_dropped() {
    let mut issuers = configured(&[by_url()]);
    issuers.configure(&[by_secret(&[])], 0);
    assert_eq!(issuers.offer("main", &by_url().keys, b"{}".to_vec()), Offer::Unchanged);
    assert_eq!(issuers.next_us(), None, "a secret is not fetched");
}

#[test]
fn a_change_of_audiences_keeps_the_keys_and_raises_the_revision() {
    let mut issuers = configured(&[by_secret(&[])]);
    issuers.offer("main", &by_secret(&[]).keys, vec![7; 64]);
    let before = issuers.current();
    issuers.configure(&[by_secret(&[])], 0);
    assert!(Arc::ptr_eq(&before[0], &issuers.current()[0]), "nothing changed");
    let mut rules = by_secret(&[]);
    rules.audiences = vec!["api".to_owned()];
    issuers.configure(&[rules], 0);
    let after = issuers.current();
    assert!(after[0].revision > before[0].revision);
    assert_eq!(after[0].keys.len(), before[0].keys.len());
}

#[test]
fn keys_that_the_new_algorithms_rule_out_stay_reported() {
    let mut issuers = configured(&[by_secret(&[])]);
    let source = by_secret(&[]).keys;
    issuers.offer("main", &source, vec![7; 64]);
    issuers.configure(&[by_secret(&[Algorithm::Rs256])], 0);
    assert!(issuers.current()[0].keys.is_empty());
    for _ in 0..2 {
        assert!(matches!(issuers.offer("main", &source, vec![7; 64]), Offer::Rejected(_)));
    }
}

fn configured(settings: &[IssuerSettings]) -> Issuers {
    let mut issuers = Issuers::default();
    issuers.configure(settings, 0);
    issuers
}

fn due(issuers: &mut Issuers, now_s: u64) -> Vec<String> {
    issuers.pop_due(now_s * SECOND_US).into_iter().map(|(name, _)| name).collect()
}

fn none() -> Vec<String> {
    Vec::new()
}

fn by_url() -> IssuerSettings {
    settings(KeySource::JwksUrl(URL.to_owned()), &[])
}

fn by_secret(algorithms: &[Algorithm]) -> IssuerSettings {
    settings(KeySource::Secret(vec![7; 64]), algorithms)
}

fn settings(keys: KeySource, algorithms: &[Algorithm]) -> IssuerSettings {
    IssuerSettings {
        name: "main".to_owned(),
        iss: "https://issuer.example".to_owned(),
        keys,
        algorithms: algorithms.to_vec(),
        audiences: Vec::new(),
        leeway_s: 0,
        padded_segments: false,
        api_keys: false,
        allow_unlimited: false,
        introspection: None,
        revocations: None,
    }
}
