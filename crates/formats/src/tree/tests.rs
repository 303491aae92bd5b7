//! JSON and YAML become the same tree; what is wrong in either is told with its place.

use std::path::Path;

use base::limits;

use super::*;

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
    tree("a.json", "", "1:1 the file ends where a value is expected");
    tree("a.json", "{\"a\": 1,}", "1:9 `}` stands where a key in double quotes is expected");
    tree("a.json", "[1,]", "1:4 `]` stands where a value is expected");
    tree("a.json", "[1 2]", "1:4 `2` stands where `,` or `]` is expected");
    tree("a.json", "{\"a\" 1}", "1:6 `1` stands where `:` is expected");
    tree("a.json", "{} {}", "1:4 there is more after the end of the document");
    tree("a.json", "// x\n{}", "1:1 `/` stands where a value is expected");
    tree("a.json", "{'a': 1}", "1:2 `\\'` stands where a key in double quotes is expected");
    tree(
        "a.json",
        "[01]",
        "1:3 `1` stands where no digit: a number does not start with 0 is expected",
    );
    tree("a.json", "[1.]", "1:4 `]` stands where a digit is expected");
    tree("a.json", "[+1]", "1:2 `+` stands where a value is expected");
    tree("a.json", "[.5]", "1:2 `.` stands where a value is expected");
    tree("a.json", "[NaN]", "1:2 `N` stands where a value is expected");
    tree("a.json", "[tru]", "1:2 `t` stands where a value is expected");
    tree("a.json", "[\"a\nb\"]", "1:4 a control character in a text");
    tree("a.json", "[\"abc", "1:6 the file ends where the closing `\"` is expected");
    tree("a.json", r#"["\x"]"#, "1:3 an unknown escape in a text");
    tree("a.json", r#"["\u00g0"]"#, "1:3 `\\u00g0` is no escape");
    tree("a.json", r#"["\ud800"]"#, "1:3 half a surrogate pair in a text");
    tree("a.json", r#"["\ud800A"]"#, "1:3 half a surrogate pair in a text");
    tree("a.json", r#"["\udc00"]"#, "1:3 half a surrogate pair in a text");
}

#[test]
fn columns_count_characters_not_bytes() {
    tree(
        "a.json",
        "{\n \"é\": \"😀\", x",
        "2:12 `x` stands where a key in double quotes is expected",
    );
    tree("a.yaml", "é: 😀\né: 1", "2:1 `é` stands here twice; {é:'😀'}");
}

#[test]
fn a_key_that_stands_twice_is_found_in_read_and_unread_parts() {
    tree("a.json", "{\"a\": 1, \"a\": 2}", "1:10 `a` stands here twice; {a:#1}");
    tree("a.json", "{\"a\": 1, \"\\u0061\": 2}", "1:10 `a` stands here twice; {a:#1}");
    tree("a.yaml", "a: 1\nb: 2\n'a': 3\n", "3:1 `a` stands here twice; {a:#1 b:#2}");
    let (findings, tree) = keeping(Keep::Document, "a.json", r#"{"tags": [{"x": 1, "x": 2}]}"#);
    assert_eq!(findings, ["1:20 `x` stands here twice"]);
    assert_eq!(tree.as_deref(), Some("{tags:-}"));
}

#[test]
fn large_maps_are_searched_by_key() {
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
    tree("a.yaml", "<<: 1", "1:5 `<<` stands for no map");
}

#[test]
fn yaml_that_means_nothing_here_is_refused() {
    tree("a.yaml", "", "1:1 the file is empty");
    tree("a.yaml", "a: 1\n---\nb: 2\n", "2:1 a second document in one file");
    tree("a.yaml", "? [a]\n: b\n", "1:3 a list or a map as a key");
    tree("a.yaml", "a: !mine 1", "1:4 the tag `!mine` means nothing here");
    tree("a.yaml", "a: !!int x", "1:4 the tag `tag:yaml.org,2002:!int` means nothing here");
    tree("a.yaml", "a: &x [*x]", "1:8 an alias inside its own anchor");
}

#[test]
fn a_file_that_is_not_utf_8_is_told_where() {
    let mut report = Report::new(Path::new("a.yaml"));
    assert_eq!(read(b"a: 1\nb: \xff", Keep::Everything, &mut report), None);
    let told: Vec<String> =
        report.finish(Path::new("a.yaml")).iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["a.yaml:2:4: error: the file is not UTF-8 from here on\n    help: save it as UTF-8"]
    );
}

#[test]
fn nesting_and_aliases_are_bounded() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    for file in ["a.json", "a.yaml"] {
        let (findings, tree) = keeping(Keep::Everything, file, &deep(limits::JSON_DEPTH_MAX));
        assert_eq!((findings, tree.is_some()), (Vec::new(), true), "{file}");
        let (findings, tree) = keeping(Keep::Everything, file, &deep(limits::JSON_DEPTH_MAX + 2));
        assert!(findings.iter().any(|f| f.contains("nested deeper")), "{file}: {findings:?}");
        assert_eq!(tree, None);
    }
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..10 {
        let alias = format!("*a{},", n - 1).repeat(10);
        laughs.push_str(&format!("a{n}: &a{n} [{alias}]\n"));
    }
    let (findings, tree) = keeping(Keep::Everything, "a.yaml", &laughs);
    assert!(findings.iter().any(|f| f.contains("aliases stand for more than")), "{findings:?}");
    assert_eq!(tree, None);
    let mut tower = String::from("a0: &a0 [x]\n");
    for n in 1..100 {
        tower.push_str(&format!("a{n}: &a{n} [*a{}]\n", n - 1));
    }
    let (findings, _) = keeping(Keep::Everything, "a.yaml", &tower);
    assert!(findings.iter().any(|f| f.contains("nested deeper")), "{findings:?}");
}

#[test]
fn what_nobody_reads_is_checked_and_not_kept() {
    let text = r#"{"openapi": "3.0.0", "paths": {"/a": {"get": {"responses": {"200": {}}, "security": []}, "x-wso2-x": 1}},
        "components": {"schemas": {"A": {}}, "securitySchemes": {"o": {}}}, "x-other": {}}"#;
    let expect = "{openapi:'3.0.0' paths:{/a:{get:{responses:- security:[]} x-wso2-x:#1}} components:{schemas:- securitySchemes:{o:{}}} x-other:-}";
    for file in ["a.json", "a.yaml"] {
        let (findings, tree) = keeping(Keep::Document, file, text);
        assert_eq!(findings, [""; 0]);
        assert_eq!(tree.as_deref(), Some(expect), "{file}");
    }
}

#[test]
fn an_alias_shows_what_nobody_reads_at_its_anchor() {
    let text = "tags: &x [{get: {security: []}}]\npaths:\n  /a:\n    <<: *x\n  /b: {get: {security: *x, responses: *x}}\n";
    let (findings, tree) = keeping(Keep::Document, "a.yaml", text);
    assert_eq!(findings, [""; 0]);
    let security = "[{get:{security:[]}}]";
    let expect = format!(
        "{{tags:- paths:{{/a:{{get:{{security:[]}}}} /b:{{get:{{security:{security} responses:-}}}}}}}}"
    );
    assert_eq!(tree, Some(expect));
}

/// `expect`: the tree, or the findings; both where there are both.
#[track_caller]
fn tree(file: &str, text: &str, expect: &str) {
    let (mut told, tree) = keeping(Keep::Everything, file, text);
    told.extend(tree);
    assert_eq!(told.join("; "), expect, "{text}");
}

fn keeping(keep: Keep, file: &str, text: &str) -> (Vec<String>, Option<String>) {
    let file = Path::new(file);
    let mut report = Report::new(file);
    let tree = read(text.as_bytes(), keep, &mut report).map(|node| shown(&node));
    let findings = report.finish(file).into_iter().map(|finding| {
        let place = finding.place.unwrap_or(START);
        format!("{}:{} {}", place.line, place.column, finding.message)
    });
    (findings.collect(), tree)
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
