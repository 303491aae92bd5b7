//! `penstock explain`: the steps of artefacts, as text and as a picture.

use harness::{Files, Process};

const ARTEFACTS: &str = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
  <endpoint name="Stock"><http method="post" uri-template="https://stock.example/{uri.var.id}"/></endpoint>
  <sequence name="Price">
    <payloadFactory media-type="json"><format>{"a":1}</format><args/></payloadFactory>
  </sequence>
  <api name="Orders" context="/orders">
    <resource methods="GET" uri-template="/{id}">
      <inSequence>
        <log level="custom"><property name="id" expression="$ctx:uri.var.id"/></log>
        <filter source="$trp:X-Kind" regex="a.*">
          <then><sequence key="Price"/></then>
          <else><respond/></else>
        </filter>
        <call><endpoint key="Stock"/></call>
        <property name="n" expression="json-eval($.n)"/>
        <respond/>
      </inSequence>
      <faultSequence><drop/></faultSequence>
    </resource>
  </api>
  <proxy name="Split">
    <target>
      <inSequence>
        <clone>
          <target endpoint="Stock"/>
          <target><sequence><drop/></sequence></target>
        </clone>
      </inSequence>
    </target>
  </proxy>
  <proxy name="Direct"><target endpoint="Stock"/></proxy>
</definitions>
"#;

#[track_caller]
fn run(arguments: &[&str], code: i32) -> (Files, String) {
    let files = Files::new();
    files.write("a.xml", ARTEFACTS);
    files.write("wrong.xml", "<proxy xmlns=\"http://ws.apache.org/ns/synapse\" name=\"P\"><target endpoint=\"x\"/></proxy>");
    let (status, output) = Process::run(files.folder(), arguments);
    assert_eq!(status, Some(code), "{output}");
    (files, output)
}

#[test]
fn the_steps_of_an_api_are_drawn_with_branches_body_use_and_cost() {
    let (_, output) = run(&["explain", "a.xml", "--name", "Orders"], 0);
    let expect = "\
api Orders at /orders

GET /{id}: inSequence: the body is held from `payloadFactory` in line 4 on, else it streams through; the response to `call` in line 14 is held from `property` in line 15 on
                                                                                     1 KB   10 KB  100 KB
  ├─ log level=custom
  ├─ filter source=$trp:X-Kind  regex=a.*
  │  ├ then
  │  │ └─ sequence key=Price
  │  │    └─ payloadFactory media-type=json                     rewrites the body   20 µs  160 µs  1.8 ms
  │  └ else
  │    └─ respond
  ├─ call → Stock https://stock.example/{uri.var.id}
  ├─ property name=n  expression=json-eval($.n)                 reads the body       7 µs   22 µs  230 µs
  └─ respond
  at most 27 µs for 1 KB, 182 µs for 10 KB, 2.0 ms for 100 KB

GET /{id}: faultSequence: the body streams through
  └─ drop
";
    assert_eq!(output, expect);
}

#[test]
fn all_services_are_shown_and_targets_are_named() {
    let (_, output) = run(&["explain", "a.xml"], 0);
    for part in [
        "api Orders at /orders\n",
        "proxy Split at /services/Split\n",
        "clone → Stock https://stock.example/{uri.var.id}",
        "     └ sequence (on a copy)\n       └─ drop\n",
        "proxy Direct at /services/Direct\n\ninSequence: the body streams through\n  └─ endpoint → Stock https",
    ] {
        assert!(output.contains(part), "{part}\n{output}");
    }
}

/// All of examples/micro-integrator; `PENSTOCK_BLESS=1` writes the expected output.
#[test]
fn the_examples_are_explained_as_before() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let golden = root.join("tests/journeys/explained.txt");
    let (status, output) = Process::run(&root, &["explain", "examples/micro-integrator"]);
    assert_eq!(status, Some(0), "{output}");
    if std::env::var_os("PENSTOCK_BLESS").is_some() {
        std::fs::write(&golden, &output).unwrap();
    }
    assert_eq!(output, std::fs::read_to_string(&golden).unwrap());
}

#[test]
fn handlers_and_repeated_sequences_are_shown() {
    let files = Files::new();
    files.write(
        "a.xml",
        r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
  <sequence name="Log"><log level="full"/></sequence>
  <sequence name="Send" onError="Log"><call><endpoint><address uri="http://a/"/></endpoint></call></sequence>
  <proxy name="P"><target><inSequence onError="Log">
    <sequence key="Send"/>
    <sequence key="Send"/>
    <iterate expression="//a"><target><sequence><call><endpoint><address uri="http://b/"/></endpoint></call></sequence>
    </target></iterate>
  </inSequence></target></proxy>
</definitions>
"#,
    );
    let (_, output) = Process::run(files.folder(), &["explain", "a.xml"]);
    let expect = "\
proxy P at /services/P

inSequence: the body is held from `log` in line 2 on, else it streams through; the response to `call` in line 3 is held from `log` in line 2 or `iterate` in line 7 on, else it streams through; the response to `call` in line 7 streams through
                                                                                     1 KB   10 KB  100 KB
  ├─ sequence key=Send
  │  └─ call → http://a/
  │  └ onError: sequence Log
  │    └─ log level=full                                        reads the body       1 µs    1 µs    9 µs
  ├─ sequence key=Send
  │  └─ (as above)
  │  └ onError: sequence Log (as above)
  └─ iterate expression=//a                                     reads the body      64 µs  770 µs  8.9 ms
     └ sequence
       └─ call → http://b/
  at most 64 µs for 1 KB, 770 µs for 10 KB, 8.9 ms for 100 KB

inSequence onError: sequence Log: the body is held from `log` in line 2 on
                                                                                     1 KB   10 KB  100 KB
  └─ log level=full                                             reads the body       1 µs    1 µs    9 µs
  at most 1 µs for 1 KB, 1 µs for 10 KB, 9 µs for 100 KB
";
    assert_eq!(output, expect);
}

#[test]
fn the_picture_is_well_formed_and_says_what_it_shows() {
    let (files, _) = run(&["explain", "a.xml", "--svg", "a.svg"], 0);
    let (status, output) = Process::run(files.folder(), &["xml", "check", "a.svg"]);
    assert_eq!(status, Some(0), "{output}");
    let svg = std::fs::read_to_string(files.path("a.svg")).unwrap();
    for part in [
        "role=\"img\" aria-labelledby=\"title desc\"",
        "<title id=\"title\">api Orders at /orders, proxy Split at /services/Split, proxy Direct",
        "GET /{id}: inSequence: the body is held from `payloadFactory` in line 4 on",
        "reads the body, 22 µs",
        "prefers-color-scheme: dark",
    ] {
        assert!(svg.contains(part), "{part}\n{svg}");
    }
}

#[test]
fn what_has_errors_does_not_hide_the_rest_of_a_folder() {
    let (_, output) = run(&["explain", "."], 1);
    assert!(output.contains("wrong.xml:1:57: error: there is no endpoint `x`"), "{output}");
    assert!(output.contains("proxy Split at") && !output.contains("proxy P at"), "{output}");
    let (_, output) = run(&["explain", ".", "--name", "P"], 1);
    assert!(output.contains("wrong.xml:1:57: error: "), "{output}");
}

#[test]
fn errors_are_those_of_check() {
    let (_, output) = run(&["explain", "wrong.xml"], 1);
    assert!(output.contains("wrong.xml:1:57: error: there is no endpoint `x`"), "{output}");
    let (_, output) = run(&["explain", "a.xml", "--name", "Nope"], 1);
    assert!(
        output.contains("a.xml: no proxy, API, inbound endpoint, sequence or template `Nope`"),
        "{output}"
    );
}
