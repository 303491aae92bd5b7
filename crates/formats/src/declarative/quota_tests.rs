//! Plan files and application files.

use std::path::{Path, PathBuf};

use model::{
    Condition, CustomRule, Deny, KeyCredential, KeyPart, KeyType, Limit, LimitBy, Permitted, Plan,
    Plans, Quantity, Subject, SubscriptionState,
};

use super::*;
use crate::report::assert_lines;

#[test]
fn a_file_of_plans_adds_to_those_that_are_shipped_and_replaces_them() {
    let text = r#"
[[plan]]
name = "gold"
limits = [{ requests = 6000, per = "1m" }, { kilobytes = 100, per = "1h", by = "user" }]
burst = { requests = 50, per = "1s" }
[[plan]]
name = "Free"
"#;
    let plans = check("plans.toml", text, "");
    assert_eq!(
        shown(&plans, "GOLD"),
        "gold Requests 6000/60000 All; Bytes 102400/3600000 User; burst Requests 50/1000 All"
    );
    assert_eq!(shown(&plans, "Free"), "Free");
    assert_eq!(shown(&plans, "Bronze"), "Bronze Requests 1000/60000 All");
    assert_eq!(shown(&plans, "10kPerMin"), "10KPerMin Requests 10000/60000 All");
    assert_eq!(shown(&plans, "unlimited"), "Unlimited");
    assert_eq!(shown(&plans, "AsyncUnlimited"), "AsyncUnlimited");
}

#[test]
fn every_unit_of_time_is_a_period() {
    for (per, ms) in [
        ("1s", 1_000),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("1mo", 2_592_000_000),
        ("1y", 31_536_000_000_u64),
    ] {
        let text =
            format!("[[plan]]\nname = \"a\"\nlimits = [{{ requests = 1, per = \"{per}\" }}]\n");
        assert_eq!(shown(&check("plans.toml", &text, ""), "a"), format!("a Requests 1/{ms} All"));
    }
    for per in ["", "s", "0s", "1", "1x", "-1s", "2y", "99999999999999999999s", "1 s"] {
        let text =
            format!("[[plan]]\nname = \"a\"\nlimits = [{{ requests = 1, per = \"{per}\" }}]\n");
        let problem = if per.is_empty() { "`per` is empty" } else { "is not a period" };
        check("plans.toml", &text, &format!("plans.toml:3:33: error: {problem}"));
    }
}

#[test]
fn what_is_wrong_with_plans_is_reported_with_its_place() {
    for (text, expect) in [
        ("[[plan]]\n", "1:1: error: there is no `name`"),
        ("[[plan]]\nname = \"a\"\nlimit = []\n", "3:1: error: unknown key `limit`"),
        ("[[plan]]\nname = \"a\"\nlimits = [{ per = \"1s\" }]\n", "3:11: error: a limit needs"),
        (
            "[[plan]]\nname = \"a\"\nlimits = [{ requests = 0, per = \"1s\" }]\n",
            "3:24: error: out of range",
        ),
        (
            "[[plan]]\nname = \"a\"\nlimits = [{ requests = 1, per = \"1s\" }, { requests = 2, per = \"1s\" }]\n",
            "1:1: error: two limits",
        ),
        ("[[plan]]\nname = \"a\"\n[[plan]]\nname = \"A\"\n", "4:8: error: already defined"),
    ] {
        let expect: Vec<_> = expect.split("; ").map(|one| format!("plans.toml:{one}")).collect();
        check("plans.toml", text, &expect.join("; "));
    }
    let files = [(PathBuf::from("plans.toml"), Err("no such file".to_owned()))];
    let lines: Vec<_> = read_plans(&files).diagnostics.iter().map(ToString::to_string).collect();
    assert_lines(&lines, "plans.toml: error: no such file");
}

#[test]
fn a_limit_may_count_what_responses_report() {
    let text = |limits: &str| format!("[[plan]]\nname = \"a\"\nlimits = [{limits}]\n");
    let of =
        |name: &str| format!("{{ amount = 7, of = \"response_header:{name}\", per = \"1m\" }}");
    let limits = [of("X-Tokens-Used"), of("X-Cost")].join(", ");
    let plans = check("p.toml", &text(&limits), "");
    let fields = plans.get("a").expect("it has one").limits.iter().map(|limit| {
        let Quantity::Reported(number) = limit.quantity else { panic!("{limit:?}") };
        (plans.reported[&number].as_str(), limit.amount)
    });
    assert_eq!(fields.collect::<Vec<_>>(), [("x-tokens-used", 7), ("x-cost", 7)]);
    let same = [of("X-Cost"), of("x-cost")].join(", ");
    check("p.toml", &text(&same), "p.toml:1:1: error: two limits have the same period");
    let needs = "3:11: error: a limit needs";
    for (limit, expect) in [
        (r#"{ amount = 7, per = "1m" }"#, needs),
        (r#"{ requests = 7, of = "response_header:a", per = "1m" }"#, needs),
        (r#"{ requests = 7, amount = 7, of = "response_header:a", per = "1m" }"#, needs),
        (r#"{ amount = 7, of = "tokens", per = "1m" }"#, "3:30: error: unknown value `tokens`"),
        (r#"{ amount = 7, of = "response_header:", per = "1m" }"#, "3:30: error: unknown value"),
        (r#"{ amount = 7, of = "header:a b", per = "1m" }"#, "3:30: error: unknown value"),
        (r#"{ amount = 0, of = "response_header:a", per = "1m" }"#, "3:22: error: out of range"),
    ] {
        check("p.toml", &text(limit), &format!("p.toml:{expect}"));
    }
}

#[test]
fn policies_of_the_microgateway_load_as_they_are() {
    let nested = "- 10kPerMin:\n    count: 10000\n    unitTime: 1\n    timeUnit: min\n\
                  - Monthly:\n    count: 5\n    unitTime: 2\n    timeUnit: month\n    stopOnQuotaReach: true\n";
    let plans = check("policies.yaml", nested, "");
    assert_eq!(shown(&plans, "10kPerMin"), "10kPerMin Requests 10000/60000 All");
    let beside = "resourcePolicies:\n- A:\n  count: 1\n  unitTime: 1\n  timeUnit: sec\nsubscriptionPolicies:\n\
                  - B: {count: 2, unitTime: 1, timeUnit: hour}\n";
    let plans = check("policies.yml", beside, "");
    assert_eq!(shown(&plans, "A"), "A Requests 1/1000 All");
    assert_eq!(shown(&plans, "B"), "B Requests 2/3600000 All");
    check(
        "p.yaml",
        "- A: {count: -1, unitTime: 1, timeUnit: min}\n",
        "p.yaml:1:14: error: `count`",
    );
    check(
        "p.yaml",
        "- A: {count: 1, unitTime: 1, timeUnit: week}\n",
        "p.yaml:1:40: error: `timeUnit`",
    );
    let goes_on = "- A: {count: 1, unitTime: 1, timeUnit: min, stopOnQuotaReach: false}\n";
    assert_eq!(shown(&check("p.yaml", goes_on, ""), "A"), "A");
    check(
        "p.yaml",
        "- A: {count: 1, unitTime: 1, timeUnit: min, spikeArrestLimit: 5}\n",
        "p.yaml:1:45: warning: `spikeArrestLimit`",
    );
    check("p.yaml", "A: 1\n", "p.yaml:1:4: error: a list of policies");
}

#[test]
fn conditions_of_a_plan_are_read() {
    let when = "{ addresses = [\"10.0.0.0/8\"], inverted = true }, { header = \"X-Tier\", value = \"gold*\" }";
    let other = "{ query = \"q\", value = \"1\" }, { claim = \"aut\", value = \"APPLICATION\" }";
    let limit = "[{ requests = 7, per = \"1m\" }]";
    let text = format!(
        "[[plan]]\nname = \"A\"\nlimits = [{{ requests = 1, per = \"1m\" }}]\n\
         conditions = [{{ when = [{when}], limits = {limit} }}, {{ when = [{other}], limits = [] }}]\n"
    );
    let ReadPlans { plans, diagnostics, .. } =
        read_plans(&[("plans.toml".into(), Ok(text.clone().into()))]);
    assert_eq!(diagnostics, []);
    let text_of = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let blocks = vec![("10.0.0.0".parse().unwrap(), 8)];
    let (name, value) = text_of("X-Tier", "gold*");
    let met = |subject| Condition { subject, is_inverted: false };
    let first = vec![
        Condition { subject: Subject::Addresses(blocks), is_inverted: true },
        met(Subject::Header { name, value }),
    ];
    let (name, value) = text_of("q", "1");
    let query = met(Subject::Query { name, value });
    let (name, value) = text_of("aut", "APPLICATION");
    let second = vec![query, met(Subject::Claim { name, value })];
    let groups = &plans.conditions["a"];
    assert_eq!([&groups[0].when, &groups[1].when], [&first, &second]);
    let limits = |at: usize| plans.get(&groups[at].plan).expect("it has a plan").limits.clone();
    assert_eq!(limits(0).iter().map(|limit| limit.amount).collect::<Vec<_>>(), [7]);
    assert_eq!(limits(1), []);
    for (from, to, expect) in [
        (", value = \"1\"", "", "4:168: error: a condition needs"),
        ("query = \"q\"", "query = \"q\", claim = \"c\"", "4:168: error: a condition needs"),
        (other, "", "4:158: error: a group has 1 to"),
        ("{ query", "{ qery", "4:168: error: a condition needs; 4:170: error: unknown key"),
    ] {
        check(
            "plans.toml",
            &text.replace(from, to),
            &format!("plans.toml:{}", expect.replace("; ", "; plans.toml:")),
        );
    }
}

#[test]
fn a_limit_may_count_by_what_requests_have_and_apply_to_all_of_them() {
    let limits = "limits = [{ requests = 1, per = \"1m\", by = BY }]";
    let text = |by: &str| format!("[[plan]]\nname = \"a\"\n{}\n", limits.replace("BY", by));
    let part = |of: fn(String) -> KeyPart, name: &str| of(name.to_owned());
    for (by, expect) in [
        ("\"header:X-Tenant\"", vec![part(KeyPart::Header, "X-Tenant")]),
        (
            "[\"user\", \"api\", \"claim:http://a/org\"]",
            vec![KeyPart::User, KeyPart::Api, part(KeyPart::Claim, "http://a/org")],
        ),
        ("[\"address\", \"query:q\"]", vec![KeyPart::Address, part(KeyPart::Query, "q")]),
    ] {
        let plans = check("p.toml", &text(by), "");
        let LimitBy::Values(number) = plans.get("a").expect("it has one").limits[0].by else {
            panic!("{by}");
        };
        assert_eq!(plans.keys[&number], expect);
    }
    let alone = check("p.toml", &text("[\"user\"]"), "");
    assert_eq!(alone.get("a").expect("it has one").limits[0].by, LimitBy::User);
    for (by, expect) in [
        ("\"tenant\"", "unknown value `tenant` of `by`"),
        ("\"header:\"", "unknown value `header:` of `by`"),
        ("[]", "must list 1 to 4"),
        ("[\"user\", \"user\", \"user\", \"user\", \"user\"]", "must list 1 to 4"),
        ("5", "must be a string"),
    ] {
        let found = read_plans(&[("p.toml".into(), Ok(text(by).into()))]).diagnostics;
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(found.len() == 1 && found[0].contains(expect), "{by}: {found:?}");
    }
    let custom = "[[custom]]\nplan = \"GOLD\"\n[[custom]]\nplan = \"Gold\"\napi = \"/a/\"\n";
    let rule = |plan: &str, api: Option<&str>| CustomRule {
        plan: plan.to_owned(),
        api: api.map(str::to_owned),
    };
    let expect = [rule("GOLD", None), rule("Gold", Some("/a"))];
    assert_eq!(check("p.toml", custom, "").custom, expect);
    check("p.toml", "[[custom]]\nplan = \"Gild\"\n", "p.toml:2:8: error: there is no plan `Gild`");
    check("p.toml", "[[custom]]\n", "p.toml:1:1: error: there is no `plan`");
}

#[test]
fn deny_policies_are_read() {
    let text = "[[deny]]\napi = \"/pets/1.0.0/\"\n[[deny]]\napplication = \"orders\"\n\
        [[deny]]\nuser = \"ann\"\n[[deny]]\naddresses = [\"10.0.0.0/8\"]\ninverted = true\n";
    let ReadPlans { plans, diagnostics, .. } =
        read_plans(&[("plans.toml".into(), Ok(text.into()))]);
    assert_eq!(diagnostics, []);
    let blocks = vec![("10.0.0.0".parse().unwrap(), 8)];
    let expect = [
        Deny::Api("/pets/1.0.0".to_owned()),
        Deny::Application("orders".to_owned()),
        Deny::User("ann".to_owned()),
        Deny::Addresses { blocks, is_inverted: true },
    ];
    assert_eq!(plans.deny, expect);
    for (text, expect) in [
        ("[[deny]]\n", "p.toml:1:1: error: needs one of"),
        ("[[deny]]\nuser = \"a\"\napi = \"/a\"\n", "p.toml:1:1: error: needs one of"),
        ("[[deny]]\nuser = \"a\"\ninverted = true\n", "p.toml:3:12: error: `inverted`"),
        ("[[deny]]\naddresses = []\n", "p.toml:2:13: error: `addresses` must list"),
        (
            "[[deny]]\naddress = \"a\"\n",
            "p.toml:1:1: error: needs one of; p.toml:2:1: error: unknown key",
        ),
    ] {
        check("p.toml", text, expect);
    }
}

const FULL: &str = r#"[application]
name = "orders"
owner = "admin"
plan = "50PerMin"
keys = [{ client_id = "abc" }, { api_key_sha256 = "00000000000000000000000000000000000000000000000000000000000000fF", type = "sandbox", addresses = ["10.0.0.0/8", "::1"], referers = ["https://*.a/*"] }]
subscriptions = [
  { api = "Echo", version = "1.0.0", plan = "gold" },
  { api = "Pay", version = "2", state = "production_blocked" },
]
attributes = { team = "billing", "cost centre" = "" }
"#;

#[test]
fn every_key_of_an_application_is_read() {
    let (application, diagnostics) =
        read_application(Path::new("a.toml"), FULL.as_bytes(), &names());
    assert_eq!(diagnostics, []);
    let application = application.expect("it is valid");
    assert_eq!(
        (application.name.as_str(), application.owner.as_deref()),
        ("orders", Some("admin"))
    );
    assert_eq!(application.plan.as_deref(), Some("50PerMin"));
    let mut hash = [0; 32];
    hash[31] = 0xff;
    let keys: Vec<_> = application.keys.iter().map(|key| (&key.credential, key.key_type)).collect();
    let client = KeyCredential::ClientId("abc".to_owned());
    let api_key = KeyCredential::ApiKeySha256(hash);
    assert_eq!(keys, [(&client, KeyType::Production), (&api_key, KeyType::Sandbox)]);
    let permitted: Vec<_> = application.keys.iter().map(|key| key.permitted.as_deref()).collect();
    let blocks = vec![("10.0.0.0".parse().unwrap(), 8), ("::1".parse().unwrap(), 128)];
    let referers = vec!["https://*.a/*".to_owned()];
    assert_eq!(permitted, [None, Some(&Permitted { addresses: Some(blocks), referers })]);
    let attributes = [("team", "billing"), ("cost centre", "")];
    let mut found: Vec<_> = application.attributes.iter().map(|(a, b)| (&**a, &**b)).collect();
    found.sort_by_key(|pair| std::cmp::Reverse(*pair));
    assert_eq!(found, attributes);
    let to = application
        .subscriptions
        .iter()
        .map(|one| (one.api.as_str(), one.version.as_str(), one.plan.as_deref(), one.state));
    let expect = [
        ("Echo", "1.0.0", Some("gold"), SubscriptionState::Active),
        ("Pay", "2", None, SubscriptionState::ProductionBlocked),
    ];
    assert_eq!(to.collect::<Vec<_>>(), expect);
}

#[test]
fn what_is_wrong_with_an_application_is_reported_with_its_place() {
    let long = format!("team = \"{}\"", "x".repeat(base::limits::APPLICATION_ATTRIBUTES_BYTES_MAX));
    let many: String = (0..31).map(|number| format!("a{number} = \"\", ")).collect();
    let many = format!("{many}team = \"billing\"");
    let events = "4:8: error: the plan `AsyncGold` limits events, which are not counted";
    for (from, to, expect) in [
        ("50PerMin", "AsyncGold", events),
        ("50PerMin", "AsyncGolden", "4:8: error: there is no plan `AsyncGolden`"),
        (
            "[application]\n",
            "[applicatoin]\n",
            "error: there is no application; 1:2: error: unknown key",
        ),
        (
            "team = \"billing\"",
            &long,
            "10:14: error: too many attributes: at most 32, and 2048 bytes in total",
        ),
        (
            "team = \"billing\"",
            &many,
            "10:14: error: too many attributes: at most 32, and 2048 bytes in total",
        ),
        ("\"billing\"", "1", "10:23: error: `attributes` must be a table of strings"),
        (
            "{ team = \"billing\", \"cost centre\" = \"\" }",
            "[]",
            "10:14: error: a table of strings",
        ),
        ("name = \"orders\"\n", "", "1:1: error: there is no `name`"),
        ("50PerMin", "50PerMinute", "4:8: error: no plan `50PerMinute`"),
        ("gold", "golden", "7:45: error: no plan `golden`"),
        ("client_id = \"abc\"", "type = \"sandbox\"", "5:9: error: either"),
        (
            "client_id = \"abc\"",
            "client_id = \"abc\", referers = [\"a\"]",
            "5:41: error: `referers` has no effect",
        ),
        ("\"10.0.0.0/8\", \"::1\"", "", "5:149: error: `addresses` must list"),
        ("\"https://*.a/*\"", "", "5:183: error: `referers` must list"),
        ("10.0.0.0/8", "10.0.0.1/8", "5:150: error: not an IP address"),
        ("client_id = \"abc\"", "client_id = \"\"", "5:23: error: `client_id` is empty"),
        ("fF\"", "f\"", "5:51: error: not a SHA-256"),
        ("fF\"", "fG\"", "5:51: error: not a SHA-256"),
        ("\"production_blocked\"", "\"locked\"", "8:41: error: unknown value `locked`"),
        (
            "\"Pay\", version = \"2\"",
            "\"Echo\", version = \"1.0.0\"",
            "8:11: error: duplicate subscription",
        ),
        (
            "{ client_id = \"abc\" }",
            "{ client_id = \"abc\" }, { client_id = \"abc\" }",
            "5:46: error: duplicate key",
        ),
    ] {
        let text = FULL.replace(from, to);
        let (application, diagnostics) =
            read_application(Path::new("a.toml"), text.as_bytes(), &names());
        let lines: Vec<_> = diagnostics.iter().map(short).collect();
        assert_lines(&lines, expect);
        assert_eq!(application, None, "{from}");
    }
}

/// A diagnostic without its file.
fn short(diagnostic: &Diagnostic) -> String {
    let text = diagnostic.to_string();
    let text = text.strip_prefix("a.toml:").map(str::to_owned).unwrap_or(text);
    text.trim_start().to_owned()
}

fn names() -> Vec<String> {
    shipped().iter().map(|plan| plan.name.clone()).collect()
}

#[track_caller]
fn check(file: &str, text: &str, expect: &str) -> Plans {
    let ReadPlans { plans, diagnostics, .. } =
        read_plans(&[(PathBuf::from(file), Ok(text.as_bytes().to_vec()))]);
    let lines: Vec<_> = diagnostics.iter().map(ToString::to_string).collect();
    assert_lines(&lines, expect);
    plans
}

fn shown(plans: &Plans, name: &str) -> String {
    let Plan { name, limits, burst } = &**plans.get(name).expect("there is such a plan");
    let limit = |limit: &Limit| {
        let Limit { quantity, amount, period_ms, by } = limit;
        format!("{quantity:?} {amount}/{period_ms} {by:?}")
    };
    let burst = burst.iter().map(|one| format!("burst {}", limit(one)));
    let all: Vec<_> = limits.iter().map(limit).chain(burst).collect();
    [name.clone(), all.join("; ")].join(" ").trim_end().to_owned()
}

#[test]
fn an_application_of_the_control_plane_is_read_like_a_file() {
    let read = |document: serde_json::Value| {
        let (application, found) =
            read_published(Path::new("/apps/a"), "a", &document, &["Gold".to_owned()]);
        (application, found.iter().map(ToString::to_string).collect::<String>())
    };
    let subscription = serde_json::json!({ "api": "E", "version": "1", "plan": "gold" });
    let keys = serde_json::json!([{ "client_id": "x", "type": "sandbox" }]);
    let attributes = serde_json::json!({ "team": "billing" });
    let document = serde_json::json!({
        "keys": keys, "subscriptions": [subscription], "attributes": attributes,
    });
    let text = "[application]\nname = \"a\"\nattributes = { team = \"billing\" }\nkeys = [{ client_id = \"x\", type = \"sandbox\" }]\n\
                subscriptions = [{ api = \"E\", version = \"1\", plan = \"gold\" }]\n";
    let file = read_application(Path::new("a"), text.as_bytes(), &["Gold".to_owned()]);
    assert_eq!(read(document), (file.0, String::new()));
    for (document, expect) in [
        (serde_json::json!({ "plan": "Silver" }), "/apps/a: error: "),
        (serde_json::json!({ "plans": "Gold" }), "unknown key `plans`"),
        (serde_json::json!({ "owner": 1 }), "/apps/a: error: `owner` is a number"),
        (serde_json::json!({ "keys": [{ "client_id": null }] }), "`client_id` is null"),
        (serde_json::json!([]), "must be a table"),
    ] {
        let (application, found) = read(document);
        assert!(application.is_none() && found.contains(expect), "{found}");
    }
}

#[test]
fn the_snippets_of_the_manual_are_accepted() {
    let of = |name: &str| {
        let found = snippets::SNIPPETS.iter().find(|(table, _)| *table == name);
        found.map(|(_, text)| *text).expect("a snippet")
    };
    check("plans.toml", &format!("{}{}{}", of("plan"), of("custom"), of("deny")), "");
    let (application, diagnostics) =
        read_application(Path::new("orders.toml"), of("application").as_bytes(), &names());
    assert_eq!(diagnostics, []);
    assert_eq!(application.map(|application| application.name), Some("orders".to_owned()));
}
