//! The mediator `script` at its limits, and the isolation of its engine. Ordinary scripts are in `golden/script/`.

use std::sync::Arc;

use crate::host;
use crate::host::{Ran, World, drive, program, request};
use penstock_mediation::{Event, Flow, Run};
use xpath::Budget;

#[track_caller]
fn run(script: &str) -> Ran {
    let program = program(&format!(
        "<sequence name=\"main\"><script language=\"js\"><![CDATA[{script}]]></script><respond/></sequence>"
    ));
    let flow = Flow { request: program.sequence("main"), ..Flow::default() };
    drive(&program, flow, request(r#"{"n":1}"#), &host::echo)
}

#[track_caller]
fn fails(script: &str, expect: &str) {
    let ran = run(script);
    let message = &ran.failure().message;
    assert!(message.contains(expect), "{script}: {message}");
}

#[test]
fn a_script_without_an_end_is_stopped() {
    let stopped = "the script was stopped: it takes too long";
    fails("for (;;);", stopped);
    fails("(function f() { try { for (;;); } finally { f(); } })()", stopped);
    fails("/(a+)+$/.test('a'.repeat(40) + 'b')", stopped);
    fails("[...(function* () { for (;;) yield 1; })()].length", "the script");
}

#[test]
fn built_in_functions_count_by_what_they_walk_over() {
    let stopped = "the script was stopped: it takes too long";
    fails("new Array(4294967295).indexOf(1)", stopped);
    fails("Array.prototype.forEach.call({ length: 9007199254740991 }, print)", stopped);
    fails("var s = 'a'.repeat(1000000); for (;;) s.indexOf('b');", stopped);
    fails("var s = '[' + '1,'.repeat(100000) + '1]'; for (;;) JSON.parse(s);", stopped);
    fails("var a = new Array(100000).fill(1); for (;;) JSON.stringify(a);", stopped);
    // In a function, since a script keeps its last value: two lists of names would be too large.
    let names = "var a = new Array(100000).fill(1); (function () { for (;;) Object.keys(a); })()";
    fails(names, stopped);
}

/// Both have three of the engine's interrupts.
#[test]
fn operations_on_long_texts_count_by_their_time() {
    let compare = |characters: usize| {
        let script = format!(
            "var one = 'a'.repeat({characters}) + 'b', two = 'a'.repeat({characters}) + 'c'; \
             for (var at = 0, n = 0; at < 30000; at += 1) {{ if (one < two) n += 1; }} mc.setPayloadJSON(n);"
        );
        let program = program(&format!(
            "<sequence name=\"main\"><script language=\"js\"><![CDATA[{script}]]></script><respond/></sequence>"
        ));
        let flow = Flow { request: program.sequence("main"), ..Flow::default() };
        let budget = Budget::new(400_000, 64 << 20);
        host::drive_run(Run::new(program, flow, request("{}"), budget), &host::echo)
    };
    assert_eq!(compare(10).body(), "30000");
    let stopped = compare(1_000_000);
    assert!(
        stopped.failure().message.contains("it takes too long"),
        "{}",
        stopped.failure().message
    );
}

#[test]
fn loops_over_many_items_are_not_stopped() {
    let ran = run("var all = [], text = 'x'.repeat(20000), n = 0; \
         for (var at = 0; at < 20000; at += 1) { all.push(at); n += text.charCodeAt(at) === 120 ? 1 : 0; } \
         mc.setPayloadJSON({ length: all.length, n: n });");
    assert_eq!(ran.body(), r#"{"length":20000,"n":20000}"#);
    let lengths = "[].concat({ length: 9007199254740991 }); mc.setPayloadJSON(1);";
    assert_eq!(run(lengths).body(), "1", "only arrays and texts have a length to count");
}

#[test]
fn a_script_reads_the_properties_of_the_head() {
    let ran = run(
        "mc.setPayloadJSON([mc.getProperty('HTTP_SC', 'axis2'), mc.getProperty('HTTP_METHOD', 'axis2')]);",
    );
    assert_eq!(ran.body(), r#"[null,"POST"]"#);
}

#[test]
fn a_script_has_a_limit_of_memory_and_of_depth() {
    fails(
        "var all = []; for (;;) all.push('x'.repeat(100000) + all.length);",
        "the script failed: ",
    );
    fails("'x'.repeat(100000000)", "the script failed: ");
    fails("(function f() { return f() + 1; })()", "the script failed: ");
}

/// A change of XML in E4X has no effect on a text.
#[test]
fn a_script_that_takes_xml_for_more_than_text_is_reported_and_fails() {
    let at_load = |script: &str| {
        let script = format!("<script language=\"js\"><![CDATA[{script}]]></script>");
        host::diagnostics(&format!("<sequence name=\"main\">{script}</sequence>")).concat()
    };
    for (script, part) in [
        (
            "var p = mc.getPayloadXML(); mc.setProperty('a', p.symbol);",
            "warning: the script seems to use `p.symbol`",
        ),
        ("var p = mc.getPayloadXML();\ndelete p.address;\nmc.setPayloadXML(p);", "`p.address`"),
        ("mc.setProperty('a', mc.getPayloadXML().child('a'));", "`mc.getPayloadXML().child`"),
        ("var x = new XML('<a/>');", "error: the script uses `new XML(`"),
        ("// was: a text\nvar x = new XML('<a/>');", "error: the script uses `new XML(`"),
    ] {
        let found = at_load(script);
        assert!(found.contains(part) && found.contains("E4X"), "{script}: {found}");
    }
    for script in ["// was: new XML('<a/>')\nmc.getTo();", "mc.setProperty('a', 'new XML(');"] {
        assert_eq!(at_load(script), "");
    }
    for script in [
        "var p = mc.getPayloadXML(); var q = p; q.symbol;",
        "var p = mc.getPayloadXML(); var q = p; q.symbol = 1;",
        "var p = mc.getPayloadXML(); var q = p; delete q.symbol;",
        "mc.getEnvelopeXML()['symbol'];",
    ] {
        fails(script, "XML is text here, without `symbol`");
    }
}

#[test]
fn xml_is_a_text_for_whatever_a_text_has() {
    let ran = run("var p = mc.getPayloadXML(); var n = p.length; \
         mc.setPayloadJSON([p.replace('n>', 'm>'), p + '', `${p}`.length === n, p.indexOf('n'), p[1], p, [...p].length === n]);");
    let xml = "<jsonObject><n>1</n></jsonObject>";
    let other = xml.replacen("n>", "m>", 1);
    assert_eq!(
        ran.body(),
        format!("[\"{other}\",\"{xml}\",true,{},\"j\",\"{xml}\",true]", xml.find('n').unwrap())
    );
    assert_eq!(run("mc.setPayloadXML(mc.getPayloadXML());").body(), r#"{"n":1}"#);
}

#[test]
fn nothing_survives_a_message() {
    let program = program(
        "<sequence name=\"main\"><script language=\"js\">\
         seen = typeof seen === 'undefined' ? 1 : seen + 1; Object.prototype.evil = seen; mc.setPayloadJSON(seen);\
         </script><respond/></sequence>",
    );
    let flow = Flow { request: program.sequence("main"), ..Flow::default() };
    for _ in 0..2 {
        assert_eq!(drive(&program, flow, request("{}"), &host::echo).body(), "1");
    }
}

#[test]
fn a_script_runs_on_a_thread_for_heavy_work() {
    let program = program(
        "<sequence name=\"main\"><script language=\"js\">mc.setProperty('a', 1);</script><respond/></sequence>",
    );
    let flow = Flow { request: program.sequence("main"), ..Flow::default() };
    let mut run = Run::new(Arc::clone(&program), flow, request("{}"), Budget::default());
    assert!(matches!(run.next(&World::default()), Event::Heavy));
    assert!(matches!(run.next_heavy(&World::default()), Event::Respond(..)));
}
