//! `penstock try`: messages through Synapse artefacts, without a network.

use harness::{Files, Process};

const PROXY: &str = r#"<definitions xmlns="http://ws.apache.org/ns/synapse">
  <endpoint name="RealService"><address uri="http://localhost:8688/echo"/></endpoint>
  <proxy name="Orders">
    <target>
      <inSequence>
        <filter source="json-eval($.symbol)" regex="IBM">
          <then><send><endpoint key="RealService"/></send></then>
          <else><throwError type="UNKNOWN" errorMessage="only IBM is sold"/></else>
        </filter>
      </inSequence>
      <outSequence>
        <payloadFactory media-type="json">
          <format>{"price":$1}</format>
          <args><arg evaluator="json" expression="$.price"/></args>
        </payloadFactory>
        <send/>
      </outSequence>
    </target>
  </proxy>
</definitions>
"#;

fn files() -> Files {
    let files = Files::new();
    files.write("orders.xml", PROXY);
    files.write("ibm.json", r#"{"symbol":"IBM"}"#);
    files.write("sun.json", r#"{"symbol":"SUN"}"#);
    files.write("response.json", r#"{"price": 1.50, "volume": 3}"#);
    files.write("wrong.xml", &PROXY.replace("key=\"RealService\"", "key=\"RealServise\""));
    files
}

/// The output of the program, stderr included.
#[track_caller]
fn run(files: &Files, arguments: &[&str], code: i32) -> String {
    let (status, output) = Process::run(files.folder(), arguments);
    assert_eq!(status, Some(code), "{output}");
    output
}

#[test]
fn a_message_is_shown_where_it_leaves() {
    let files = files();
    let sent = run(&files, &["try", "orders.xml", "--payload", "ibm.json"], 0);
    assert!(sent.starts_with("sends POST to http://localhost:8688/echo\n"), "{sent}");
    assert!(sent.contains("\n\n{\"symbol\":\"IBM\"}\n"), "{sent}");
    let given = ["try", "orders.xml", "--payload", r#"{"symbol":"IBM"}"#];
    assert_eq!(run(&files, &given, 0), sent, "the body itself");
    let whole = ["try", "orders.xml", "--payload", "ibm.json", "--response", "response.json"];
    let responds = run(&files, &whole, 0);
    assert!(responds.starts_with("responds to the client: 200\n"), "{responds}");
    assert!(responds.contains("\n\n{\"price\":1.50}\n"), "{responds}");
}

#[test]
fn a_trace_shows_what_each_mediator_changes() {
    let files = files();
    let arguments =
        ["try", "orders.xml", "--payload", "ibm.json", "--response", "response.json", "--trace"];
    let output = run(&files, &arguments, 0);
    for line in [
        "filter at orders.xml:6:9\n",
        "send at orders.xml:7:17\n",
        "sends POST to http://localhost:8688/echo\n",
        "payloadFactory at orders.xml:12:9\n",
        "  - body {\"price\": 1.50, \"volume\": 3}\n  + axis2 messageType = application/json\n  + body {\"price\":1.50}\n",
    ] {
        assert!(output.contains(line), "{line}{output}");
    }
}

#[test]
fn failures_and_mistakes_have_a_place() {
    let files = files();
    let failed = run(&files, &["try", "orders.xml", "--payload", "sun.json"], 1);
    assert!(failed.contains("throwError at orders.xml:8:17: only IBM is sold"), "{failed}");
    let wrong = run(&files, &["try", "wrong.xml", "--payload", "ibm.json"], 1);
    assert!(wrong.contains("wrong.xml:7:23: error: there is no endpoint `RealServise`"), "{wrong}");
    assert!(wrong.contains("did you mean `RealService`?"), "{wrong}");
    assert!(run(&files, &["try", "orders.xml", "--run", "Nope"], 2).contains("`Orders`"));
    assert!(run(&files, &["try", "absent.xml"], 1).contains("absent.xml"));
}

#[test]
fn artefacts_in_several_files_are_tried_as_a_folder() {
    let files = Files::new();
    std::fs::create_dir(files.path("project")).unwrap();
    let proxy = "<proxy xmlns=\"http://ws.apache.org/ns/synapse\" name=\"P\"><target><inSequence>\n\
        <call><endpoint key=\"Stock\"/></call></inSequence></target></proxy>";
    files.write("project/P.xml", proxy);
    files.write(
        "project/Stock.xml",
        "<endpoint xmlns=\"http://ws.apache.org/ns/synapse\" name=\"Stock\"><address uri=\"http://stock/\"/></endpoint>",
    );
    files.write("project/wrong.xml", &proxy.replace("\"P\"", "\"Q\"").replace("Stock", "Stok"));
    let alone = run(&files, &["try", "project/P.xml"], 1);
    assert!(
        alone.contains("P.xml:2:7: error: there is no endpoint `Stock`\n    help: pass the folder"),
        "{alone}"
    );
    let whole = run(&files, &["try", "project", "--run", "P"], 0);
    assert!(whole.contains("sends POST to http://stock/\n"), "{whole}");
    assert!(whole.contains("wrong.xml:2:7: error: there is no endpoint `Stok`"), "{whole}");
}

#[test]
fn a_message_that_is_tried_has_the_address_that_the_gateway_would_give_it() {
    let files = files();
    let logs =
        "<log level=\"custom\"><property name=\"to\" expression=\"get-property('To')\"/></log>";
    let reads = "<property name=\"read\" expression=\"//q\"/><respond/>";
    files.write(
        "to.xml",
        &format!(
            "<definitions xmlns=\"http://ws.apache.org/ns/synapse\"><proxy name=\"P\"><target><inSequence>{logs}<respond/>\
             </inSequence></target></proxy><proxy name=\"R\"><target><inSequence>{logs}{reads}</inSequence></target></proxy>\
             <api name=\"A\" context=\"/a\"><resource methods=\"POST\" uri-template=\"/*\"><inSequence>{logs}<respond/>\
             </inSequence></resource></api><sequence name=\"S\">{logs}<respond/></sequence></definitions>"
        ),
    );
    let envelope = "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Header><To \
         xmlns=\"http://www.w3.org/2005/08/addressing\">urn:shop</To></s:Header><s:Body><q/></s:Body></s:Envelope>";
    for (chosen, payload, to) in [
        (["--run", "P"], "{}", "/services/P"),
        (["--run", "P"], envelope, "/services/P"),
        (["--run", "R"], envelope, "urn:shop"),
        (["--path", "/a/x?y=1"], "{}", "/a/x?y=1"),
        (["--run", "S"], "{}", "/"),
    ] {
        let whole: Vec<_> =
            ["try", "to.xml", "--payload", payload].into_iter().chain(chosen).collect();
        let output = run(&files, &whole, 0);
        assert!(output.contains(&format!("INFO to = {to}\n")), "{output}");
    }
}

#[test]
fn a_resource_of_an_api_is_chosen_by_path_and_method() {
    let files = files();
    files.write(
        "api.xml",
        r#"<api xmlns="http://ws.apache.org/ns/synapse" name="Orders" context="/orders">
  <resource methods="GET" uri-template="/{id}">
    <inSequence>
      <log level="custom"><property name="id" expression="$ctx:uri.var.id"/>
        <property name="shop" expression="$trp:X-Shop"/><property name="path" expression="$env:PATH"/>
        <property name="v" expression="$ctx:query.param.v"/></log>
      <respond/>
    </inSequence>
  </resource>
</api>
"#,
    );
    let whole = [
        "try",
        "api.xml",
        "--path",
        "/orders/17?v=1",
        "--method",
        "GET",
        "--header",
        "X-Shop: berlin",
        "--header",
        "X-Other: 1",
    ];
    let found = run(&files, &whole, 0);
    assert!(found.contains("id = 17, shop = berlin, path = /"), "{found}");
    assert!(found.contains("v = 1"), "{found}");
    assert!(run(&files, &["try", "api.xml", "--header", "X-Shop"], 2).contains("`name: value`"));
    assert!(found.contains("responds to the client"), "{found}");
    let not_allowed = run(&files, &["try", "api.xml", "--path", "/orders/17"], 1);
    assert!(not_allowed.contains("405: the API `Orders` allows GET"), "{not_allowed}");
    let absent = run(&files, &["try", "api.xml", "--path", "/order/17"], 1);
    assert!(absent.contains("404: no API has `/order/17`"), "{absent}");
    assert!(run(&files, &["try", "api.xml"], 2).contains("--path"));
}

#[test]
fn a_proxy_is_tried_with_a_path_a_query_and_the_method_that_it_sends() {
    let files = files();
    let case = |value: &str, method: &str| {
        format!(
            "<case regex=\"{value}\"><property name=\"HTTP_METHOD\" scope=\"axis2\" value=\"{method}\"/></case>"
        )
    };
    files.write(
        "url.xml",
        &format!(
            "<proxy xmlns=\"http://ws.apache.org/ns/synapse\" name=\"P\"><target><inSequence><switch source=\"$url:a\">{}{}\
             </switch><call><endpoint><address uri=\"http://stock\"/></endpoint></call></inSequence></target></proxy>",
            case("1", "DELETE"),
            case("2", "PATCH")
        ),
    );
    for (arguments, line) in [
        (&["--path", "/services/P?a=1"][..], "sends DELETE to http://stock?a=1\n"),
        (&["--path", "/services/P/x?a=2"], "sends PATCH to http://stock/x?a=2\n"),
        (&["--path", "/services/P?a=1", "--run", "P"], "sends DELETE to http://stock?a=1\n"),
        (&["--path", "/services/P.PPort/x"], "sends POST to http://stock/x\n"),
        (&["--path", "/x?a=2", "--run", "P"], "sends PATCH to http://stock\n"),
        (&["--method", "PUT"], "sends PUT to http://stock\n"),
    ] {
        let whole: Vec<_> = ["try", "url.xml"].iter().chain(arguments).copied().collect();
        let output = run(&files, &whole, 0);
        assert!(output.contains(line), "{arguments:?}: {output}");
    }
    let absent = run(&files, &["try", "url.xml", "--path", "/services/Q"], 1);
    assert!(absent.contains("404: no API or proxy has `/services/Q`"), "{absent}");
}

#[test]
fn artefacts_with_errors_are_left_out_of_what_is_tried() {
    let files = files();
    let responds = "<target><inSequence><respond/></inSequence></target>";
    let broken = "<target><inSequence><send><endpoint key=\"Gone\"/></send></inSequence></target>";
    let inbound = "<inboundEndpoint name=\"I\" protocol=\"http\" sequence=\"S\"><parameters>\
        <parameter name=\"inbound.http.port\">x</parameter></parameters></inboundEndpoint>";
    let sequence = "<sequence name=\"S\"><respond/></sequence>";
    let api = "<api name=\"X\" context=\"/x\"><resource uri-template=\"/b\"><inSequence><respond/></inSequence>\
        </resource></api>";
    let write = |name: &str, artefacts: &[&str]| {
        let artefacts = artefacts.concat();
        let whole = format!(
            "<definitions xmlns=\"http://ws.apache.org/ns/synapse\">{artefacts}</definitions>"
        );
        files.write(name, &whole);
    };
    let proxy = |name: &str, target: &str| format!("<proxy name=\"{name}\">{target}</proxy>");
    let (good, bad) = (proxy("P", responds), proxy("Q", broken));
    write("inbound.xml", &[inbound, sequence, api, &good]);
    for arguments in [&["--path", "/x/b"][..], &[], &["--run", "S"]] {
        let whole: Vec<_> = ["try", "inbound.xml"].iter().chain(arguments).copied().collect();
        let output = run(&files, &whole, 0);
        assert!(output.contains("inbound.xml:1:"), "{output}");
        assert!(output.contains("responds to the client: 200\n"), "{output}");
    }
    write("one.xml", &[sequence, &good, &bad]);
    assert!(run(&files, &["try", "one.xml"], 2).contains("--run NAME: the file has `P`"));
    assert!(run(&files, &["try", "one.xml", "--run", "P"], 0).contains("responds to the client"));
    let named = run(&files, &["try", "one.xml", "--run", "Q"], 1);
    assert!(named.contains("no endpoint `Gone`") && !named.contains("penstock: "), "{named}");
    write("bad.xml", &[sequence, &bad]);
    let only = run(&files, &["try", "bad.xml"], 1);
    assert!(only.contains("no endpoint `Gone`") && !only.contains("responds"), "{only}");
    let path = run(&files, &["try", "bad.xml", "--path", "/services/Q"], 1);
    assert!(path.contains("404: no API or proxy has `/services/Q`; what has errors was left out"));
}

#[test]
fn a_message_may_come_by_https() {
    let files = files();
    let log = "<inSequence><log level=\"custom\"><property name=\"by\" expression=\"$ctx:TRANSPORT_IN_NAME\"/>\
               </log><respond/></inSequence>";
    files.write(
        "both.xml",
        &format!(
            "<definitions xmlns=\"http://ws.apache.org/ns/synapse\"><api name=\"Orders\" context=\"/orders\">\
             <resource protocol=\"https\">{log}</resource></api>\
             <proxy name=\"P\"><target>{log}</target></proxy></definitions>"
        ),
    );
    for (what, plain, refused) in [
        (["--path", "/orders"], 1, "400: the resource of `/orders`"),
        (["--run", "P"], 0, "by = http\n"),
    ] {
        let whole = ["try", "both.xml", what[0], what[1], "--https"];
        let secure = run(&files, &whole, 0);
        assert!(secure.contains("by = https\n"), "{secure}");
        let found = run(&files, &whole[..4], plain);
        assert!(found.contains(refused), "{found}");
    }
}

#[test]
fn a_loopback_in_the_out_sequence_ends() {
    let files = files();
    files.write(
        "loop.xml",
        r#"<proxy xmlns="http://ws.apache.org/ns/synapse" name="Loop"><target>
  <inSequence><loopback/></inSequence>
  <outSequence><loopback/></outSequence>
</target></proxy>
"#,
    );
    let failed = run(&files, &["try", "loop.xml", "--payload", "ibm.json"], 1);
    assert!(failed.contains("loopback at loop.xml:3:16"), "{failed}");
}
