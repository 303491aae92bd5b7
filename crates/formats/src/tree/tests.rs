//! JSON and YAML give the same tree, and syntax errors with their positions.

use std::path::Path;

use base::limits;

use super::*;
use crate::report::assert_lines;

#[test]
fn json_becomes_a_tree() {
    tree("a.json", "{}", "{}");
    tree(
        "a.json",
        " [1, -0.5e+3, true, false, null, \"x\"]\n",
        "[#1 #-0.5e+3 true false null 'x']",
    );
    tree("a.json", "{\"a\": {\"b\": []}, \"c\": \"\"}", "{a:{b:[]} c:''}");
    tree("a.json", r#""\"\\\/\b\f\n\r\t\u0041\ud83d\ude00é""#, "'\"\\/\u{8}\u{c}\n\r\tA😀é'");
    tree("a.json", "\u{feff}{}", "{}");
    tree("description", "{\"a\": 1}", "{a:#1}");
}

#[test]
fn json_is_read_strictly() {
    tree("a.json", "", "1:1: error: end of the file");
    tree("a.json", "{\"a\": 1,}", "1:9: error: `}`");
    tree("a.json", "[1,]", "1:4: error: `]`");
    tree("a.json", "[1 2]", "1:4: error: `2`");
    tree("a.json", "{\"a\" 1}", "1:6: error: `1`");
    tree("a.json", "{} {}", "1:4: error: after the end");
    tree("a.json", "// x\n{}", "1:1: error: `/`");
    tree("a.json", "{'a': 1}", "1:2: error: double quotes");
    tree("a.json", "[01]", "1:3: error: start with 0");
    tree("a.json", "[1.]", "1:4: error: a digit");
    tree("a.json", "[+1]", "1:2: error: `+`");
    tree("a.json", "[.5]", "1:2: error: `.`");
    tree("a.json", "[NaN]", "1:2: error: `N`");
    tree("a.json", "[tru]", "1:2: error: `t`");
    tree("a.json", "[\"a\nb\"]", "1:4: error: control character");
    tree("a.json", "[\"abc", "1:6: error: closing");
    tree("a.json", r#"["\x"]"#, "1:3: error: unknown escape");
    tree("a.json", r#"["\u00g0"]"#, "1:3: error: 00g0");
    tree("a.json", r#"["\ud800"]"#, "1:3: error: surrogate");
    tree("a.json", r#"["\ud800A"]"#, "1:3: error: surrogate");
    tree("a.json", r#"["\udc00"]"#, "1:3: error: surrogate");
}

#[test]
fn columns_count_characters_not_bytes() {
    tree("a.json", "{\n \"é\": \"😀\", x", "2:12: error: `x`");
    tree("a.yaml", "é: 😀\né: 1", "2:1: error: `é`; {é:'😀'}");
}

#[test]
fn duplicate_keys_are_reported_in_parts_that_are_not_kept_too() {
    tree("a.json", "{\"a\": 1, \"a\": 2}", "1:10: error: `a`; {a:#1}");
    tree("a.json", "{\"a\": 1, \"\\u0061\": 2}", "1:10: error: `a`; {a:#1}");
    tree("a.yaml", "a: 1\nb: 2\n'a': 3\n", "3:1: error: `a`; {a:#1 b:#2}");
    let (diagnostics, tree) = keeping(Keep::Document, "a.json", r#"{"tags": [{"x": 1, "x": 2}]}"#);
    assert_lines(&diagnostics, "1:20: error: `x`");
    assert_eq!(tree.as_deref(), Some("{tags:-}"));
}

#[test]
fn members_of_large_maps_are_found() {
    let members: Vec<String> = (0..100).map(|n| format!("\"k{n}\": {n}")).collect();
    let text = format!("{{{}, \"k7\": 1}}", members.join(", "));
    let mut report = Report::new(Path::new("a.json"));
    let node = read(text.as_bytes(), Keep::Everything, &mut report).expect("it is JSON");
    let map = node.as_map().expect("it is a map");
    for n in 0..100 {
        let found = map.get(&format!("k{n}")).and_then(Node::as_text);
        assert_eq!(found, Some(n.to_string().as_str()));
    }
    assert_eq!(map.get("k100"), None);
    assert_eq!(report.finish(Path::new("a.json")).len(), 1);
}

#[test]
fn yaml_follows_the_core_schema() {
    tree(
        "a.yaml",
        "a: 1.0\nb: '1.0'\nc: yes\nd: true\ne: ~\nf:\n",
        "{a:#1.0 b:'1.0' c:'yes' d:true e:null f:null}",
    );
    tree(
        "a.yaml",
        "[0x1F, 0o17, .5, 1e3, -.inf, .NaN, 1_000, 2026-01-01]",
        "[#0x1F #0o17 #.5 #1e3 #-.inf #.NaN '1_000' '2026-01-01']",
    );
    tree("a.yaml", "a: !!str 1\nb: ! 2\nc: !!int 3", "{a:'1' b:'2' c:#3}");
    tree("a.yaml", "200: ok\ntrue: x\n", "{200:'ok' true:'x'}");
    tree("a.yaml", "a: |\n  one\n  two\n", "{a:'one\ntwo\n'}");
    tree("a.yaml", "--- {a: b}\n...\n", "{a:'b'}");
}

#[test]
fn aliases_are_copied_and_merge_keys_yield_to_keys() {
    tree("a.yaml", "a: &x {k: 1}\nb: *x\n", "{a:{k:#1} b:{k:#1}}");
    tree("a.yaml", "a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3\n", "{a:{k:#1 l:#2} b:{k:#3 l:#2}}");
    tree(
        "a.yaml",
        "- &x {k: 1}\n- &y {k: 2, l: 2}\n- <<: [*x, *y]\n",
        "[{k:#1} {k:#2 l:#2} {k:#1 l:#2}]",
    );
    tree("a.yaml", "<<: 1", "1:5: error: `<<`");
}

#[test]
fn many_maps_are_merged_in_one_pass() {
    let maps: Vec<String> = (0..5_000).map(|n| format!("{{k{n}: {n}, k: {n}}}")).collect();
    let text = format!("<<: [{}]\n", maps.join(","));
    let mut report = Report::new(Path::new("a.yaml"));
    let node = read(text.as_bytes(), Keep::Everything, &mut report).expect("it is YAML");
    let map = node.as_map().expect("it is a map");
    assert_eq!(map.iter().count(), 5_001);
    assert_eq!(map.get("k").and_then(Node::as_text), Some("0"), "the first one");
    assert_eq!(report.finish(Path::new("a.yaml")), []);
}

#[test]
fn unsupported_yaml_is_rejected() {
    tree("a.yaml", "", "1:1: error: the file is empty");
    tree("a.yaml", "a: 1\n---\nb: 2\n", "2:1: error: more than one");
    tree("a.yaml", "? [a]\n: b\n", "1:3: error: key");
    tree("a.yaml", "a: !mine 1", "1:4: error: `!mine`");
    tree("a.yaml", "a: !!int x", "1:4: error: !int");
    tree("a.yaml", "a: &x [*x]", "1:8: error: own anchor");
}

#[test]
fn quoted_strings_may_be_indented_less_than_yaml_requires() {
    let text = "a:\n  b: \"one\ntwo\n\n three\"\n  c: 'it''s\n'\n  d: {e: \"x\ny\", f: 1}\nb: 1\n";
    let expect = "{a:{b:'one two\nthree' c:'it's ' d:{e:'x y' f:#1}} b:#1}";
    tree("a.yaml", text, expect);
    let (_, deeper) = keeping(Keep::Everything, "a.yaml", &text.replace("\ntwo", "\n      two"));
    assert_eq!(deeper.as_deref(), Some(expect), "indentation is not part of the string");
}

#[test]
fn positions_after_a_reindented_string_are_those_of_the_file() {
    tree(
        "a.yaml",
        "a:\n  b: {c: \"x\ny\", d: 1, d: 2}\n",
        "3:11: error: `d`; {a:{b:{c:'x y' d:#1}}}",
    );
    tree("a.yaml", "a:\n  b: \"x\ny\"\n  b: !mine 1\n", "4:6: error: `!mine`");
}

#[test]
fn flow_collections_may_be_indented_less_than_yaml_requires() {
    tree("a.yaml", "a: {b: 1,\nc: [x,\n y\n]\n}\nd: 2\n", "{a:{b:#1 c:['x' 'y']} d:#2}");
    tree("a.yaml", "a:\n  - b:\n      [\n1, 2\n ]\n  - c: {\n}\n", "{a:[{b:[#1 #2]} {c:{}}]}");
    tree(
        "a.yaml",
        "a:\n  b: # see [x]\n    {\n'}': \"]\n}\", # }\nd: rock 'n' roll,\ne: f}\n  c: 1\n",
        "{a:{b:{}:'] }' d:'rock 'n' roll' e:'f'} c:#1}}",
    );
    // Aliases, whose anchors are before the collection.
    tree("a.yaml", "x: &x 1\na: [\n*x,\n*x,\n2\n]\nb: 3\n", "{x:#1 a:[#1 #1 #2] b:#3}");
    // A sequence of two, both of them in one that is closed on a shallow line.
    tree(
        "a.yaml",
        "a:\n  b: [{c: 1,\nd: 2}, {\ne: 3}\n]\nf: 4\n",
        "{a:{b:[{c:#1 d:#2} {e:#3}]} f:#4}",
    );
}

#[test]
fn positions_after_a_reindented_collection_are_those_of_the_file() {
    tree("a.yaml", "a:\n  b: {c: 1,\n c: 2}\n", "3:2: error: `c`; {a:{b:{c:#1}}}");
    tree("a.yaml", "a:\n  b: [\n1]\n  b: !mine 1\n", "4:6: error: `!mine`");
    tree("a.yaml", "a:\n  b: [é, {\ng: 1}]\n  h: !mine 1\n", "4:6: error: `!mine`");
}

#[test]
fn flow_collections_that_do_not_end_are_rejected() {
    tree("a.yaml", "a:\n  b: {c: 1,\nd: 2\ne: 3\n", "4:2: error: ");
    tree("a.yaml", "a: [1,\n2\nb: 3\n", "3:2: error: ");
    tree("a.yaml", "a: [1,\n---\n2]\n", "2:1: error: ");
}

#[test]
fn quoted_strings_that_do_not_end_are_rejected() {
    tree("a.yaml", "a:\n  b: \"x\ny\n", "2:6: error: quoted");
    tree("a.yaml", "a:\n  b: 'x\n---\n'\n", "2:6: error: quoted");
}

#[test]
fn strings_with_too_little_indentation_are_limited_by_the_bytes_to_scan_again() {
    let text = "a:\n".to_owned() + &"  - 'x\ny'\n".repeat(100);
    let read = |scans: usize| {
        let most = u64::try_from(scans * 2 * text.len()).expect("a small number");
        let mut report = Report::new(Path::new("a.yaml"));
        yaml::read_within(&text, Keep::Everything, &mut report, most)
    };
    assert!(read(100).is_ok());
    let error = read(10).expect_err("it is too much");
    assert!(error.message.contains("not indented") && error.place.line > 10, "{error:?}");
}

#[test]
fn collections_with_too_little_indentation_are_limited_by_the_bytes_to_scan_again() {
    let text = "a:\n".to_owned() + &"  - [x,\ny]\n".repeat(100);
    let read = |scans: usize| {
        let most = u64::try_from(scans * 2 * text.len()).expect("a small number");
        let mut report = Report::new(Path::new("a.yaml"));
        yaml::read_within(&text, Keep::Everything, &mut report, most)
    };
    assert!(read(300).is_ok());
    let error = read(30).expect_err("it is too much");
    assert!(error.message.contains("not indented") && error.place.line > 10, "{error:?}");
}

#[test]
fn strings_that_would_need_too_much_indentation_are_rejected() {
    let (column, lines) = ("x".repeat(10_000), "y\n".repeat(10_000));
    let text = format!("a:\n  b: {{c: '{column}', d: \"{lines}z\"}}\n");
    tree("a.yaml", &text, "2:10017: error: not indented");
}

#[test]
fn invalid_utf_8_is_reported_at_its_position() {
    let mut report = Report::new(Path::new("a.yaml"));
    assert_eq!(read(b"a: 1\nb: \xff", Keep::Everything, &mut report), None);
    let places: Vec<_> = report.finish(Path::new("a.yaml")).iter().map(|d| d.place).collect();
    assert_eq!(places, [Some(Place { line: 2, column: 4 })]);
}

#[test]
fn nesting_and_aliases_are_bounded() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    for file in ["a.json", "a.yaml"] {
        let (diagnostics, tree) = keeping(Keep::Everything, file, &deep(limits::JSON_DEPTH_MAX));
        assert_eq!((diagnostics, tree.is_some()), (Vec::new(), true), "{file}");
        let (diagnostics, tree) =
            keeping(Keep::Everything, file, &deep(limits::JSON_DEPTH_MAX + 2));
        assert!(diagnostics.iter().any(|f| f.contains("nested deeper")), "{file}: {diagnostics:?}");
        assert_eq!(tree, None);
    }
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..10 {
        let alias = format!("*a{},", n - 1).repeat(10);
        laughs.push_str(&format!("a{n}: &a{n} [{alias}]\n"));
    }
    let (diagnostics, tree) = keeping(Keep::Everything, "a.yaml", &laughs);
    assert!(diagnostics.iter().any(|f| f.contains("aliases expand")), "{diagnostics:?}");
    let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(100_000), "*a,".repeat(100));
    let (diagnostics, _) = keeping(Keep::Everything, "long.yaml", &long);
    assert!(diagnostics.iter().any(|f| f.contains("aliases expand")), "{diagnostics:?}");
    assert_eq!(tree, None);
    let mut tower = String::from("a0: &a0 [x]\n");
    for n in 1..100 {
        tower.push_str(&format!("a{n}: &a{n} [*a{}]\n", n - 1));
    }
    let (diagnostics, _) = keeping(Keep::Everything, "a.yaml", &tower);
    assert!(diagnostics.iter().any(|f| f.contains("nested deeper")), "{diagnostics:?}");
}

#[test]
fn parts_that_are_not_needed_are_checked_and_not_kept() {
    let text = r#"{"openapi": "3.0.0", "paths": {"/a": {"get": {"responses": {"200": {}}, "security": []}, "x-wso2-x": 1}},
        "components": {"schemas": {"A": {}}, "securitySchemes": {"o": {}}}, "x-other": {}}"#;
    let expect = "{openapi:'3.0.0' paths:{/a:{get:{responses:- security:[]} x-wso2-x:#1}} components:{schemas:- securitySchemes:{o:{}}} x-other:-}";
    for file in ["a.json", "a.yaml"] {
        let (diagnostics, tree) = keeping(Keep::Document, file, text);
        assert_eq!(diagnostics, [""; 0]);
        assert_eq!(tree.as_deref(), Some(expect), "{file}");
    }
}

#[test]
fn an_alias_of_a_part_that_is_not_needed_is_complete() {
    let text = "tags: &x [{get: {security: []}}]\npaths:\n  /a:\n    <<: *x\n  /b: {get: {security: *x, responses: *x}}\n";
    let (diagnostics, tree) = keeping(Keep::Document, "a.yaml", text);
    assert_eq!(diagnostics, [""; 0]);
    let security = "[{get:{security:[]}}]";
    let expect = format!(
        "{{tags:- paths:{{/a:{{get:{{security:[]}}}} /b:{{get:{{security:{security} responses:-}}}}}}}}"
    );
    assert_eq!(tree, Some(expect));
}

/// `expect`: the diagnostics and the tree.
#[track_caller]
fn tree(file: &str, text: &str, expect: &str) {
    let (mut lines, tree) = keeping(Keep::Everything, file, text);
    lines.extend(tree);
    assert_lines(&lines, expect);
}

fn keeping(keep: Keep, file: &str, text: &str) -> (Vec<String>, Option<String>) {
    let file = Path::new(file);
    let mut report = Report::new(file);
    let tree = read(text.as_bytes(), keep, &mut report).map(|node| shown(&node));
    let diagnostics = report.finish(file).into_iter().map(|diagnostic| {
        let place = diagnostic.place.unwrap_or(START);
        format!("{}:{}: error: {}", place.line, place.column, diagnostic.message)
    });
    (diagnostics.collect(), tree)
}

fn shown(node: &Node<'_>) -> String {
    match &node.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(text) => format!("#{text}"),
        Value::Text(text) => format!("'{text}'"),
        Value::List(items) => {
            format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(" "))
        }
        Value::Map(map) => {
            let members =
                map.iter().map(|member| format!("{}:{}", member.key, shown(&member.value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(" "))
        }
        Value::Unread => "-".to_owned(),
    }
}
