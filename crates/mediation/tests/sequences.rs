//! Sequences on messages, without a runtime.

use std::sync::Arc;

use crate::host;
use crate::host::{ENDPOINTS, Ran, drive, echo, program, request};
use penstock_mediation::{
    Answer, Body, BodyUse, Direction, EndpointKind, Flow, Format, Message, PlainHead, ResourcePath,
    Run,
};
use xpath::Budget;

fn order() -> Box<Message> {
    let body = Body::held(
        Format::Json,
        br#"{"symbol":"IBM","items":[{"price":1.50},{"price":20}]}"#.to_vec(),
    );
    let head = PlainHead {
        method: "POST".to_owned(),
        target: "/orders".to_owned(),
        fields: vec![("routing".to_owned(), "gold".to_owned())],
    };
    Message::new(Direction::Request, Box::new(head), body)
}

/// Runs the mediators and responds.
#[track_caller]
fn run_on(message: Box<Message>, mediators: &str) -> Ran {
    host_run(message, &format!("<sequence name=\"main\">{mediators}<respond/></sequence>"))
}

/// Runs the sequence `main`; endpoints are silent.
#[track_caller]
fn host_run(message: Box<Message>, artefacts: &str) -> Ran {
    let program = program(artefacts);
    let flow = Flow { request: program.sequence("main"), ..Flow::default() };
    drive(&program, flow, message, &|_, _| None)
}

#[track_caller]
fn run(mediators: &str) -> Ran {
    run_on(order(), mediators)
}

/// The lines that a sequence logs.
#[track_caller]
fn check_log(mediators: &str, lines: &[&str]) {
    let ran = run(mediators);
    assert_eq!(ran.log, lines, "{ran:?}");
}

#[test]
fn filter_runs_one_branch() {
    let branches = "<then><log level=\"custom\"><property name=\"branch\" value=\"then\"/></log></then>\
                    <else><log level=\"custom\"><property name=\"branch\" value=\"else\"/></log></else>";
    for (condition, branch) in [
        ("source=\"$trp:routing\" regex=\"g.ld\"", "branch = then"),
        ("source=\"$trp:routing\" regex=\"g.l\"", "branch = else"),
        ("source=\"json-eval($.symbol)\" regex=\"IBM\"", "branch = then"),
        ("xpath=\"$trp:routing = 'gold'\"", "branch = then"),
        ("xpath=\"$trp:absent\"", "branch = else"),
        ("xpath=\"${payload.items[1].price > 10}\"", "branch = then"),
    ] {
        check_log(&format!("<filter {condition}>{branches}</filter>"), &[branch]);
    }
}

/// An envelope with a header and one order.
fn envelope() -> Box<Message> {
    let body = "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Header><r xmlns=\"urn:r\">gold</r></e:Header>\
                <e:Body><order><symbol>IBM</symbol></order></e:Body></e:Envelope>";
    let body = Body::held(Format::Soap11, body.as_bytes().to_vec());
    Message::new(Direction::Request, Box::<PlainHead>::default(), body)
}

#[test]
fn a_fault_is_an_envelope_of_the_version() {
    let fault = |version: &str| {
        let parts = "<code value=\"x:Server\"/><reason value=\"bad &lt;order>\"/>";
        run_on(
            envelope(),
            &format!("<makefault version=\"{version}\">{parts}</makefault><send/><drop/>"),
        )
    };
    // A fault is a response: `send` sends it to the client.
    let soap11 = fault("soap11");
    let expect = "<e:Envelope xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><e:Header><r xmlns=\"urn:r\">gold</r></e:Header>\
                  <e:Body><e:Fault><faultcode>e:Server</faultcode><faultstring>bad &lt;order&gt;</faultstring></e:Fault>\
                  </e:Body></e:Envelope>";
    assert_eq!(soap11.body(), expect);
    let soap12 = fault("soap12");
    assert!(soap12.body().contains("<e:Code><e:Value>e:Server</e:Value></e:Code>"), "{soap12:?}");
}

#[test]
fn xpath_reads_json_and_json_path_reads_xml() {
    let log = |expression: &str| {
        format!("<log level=\"custom\"><property name=\"v\" expression=\"{expression}\"/></log>")
    };
    check_log(&log("//items[2]/price"), &["v = 20"]);
    let ran = run_on(envelope(), &log("json-eval($.order.symbol)"));
    assert_eq!(ran.log, ["v = IBM"]);
    assert_eq!(ran.message().body.state(), BodyUse::Read);
}

#[test]
fn the_message_type_decides_how_the_body_is_written() {
    let property =
        |of: &str| format!("<property name=\"messageType\" value=\"{of}\" scope=\"axis2\"/>");
    for (message, of, body) in [
        (envelope(), "application/json", r#"{"order":{"symbol":"IBM"}}"#),
        (
            envelope(),
            "application/xml",
            "<order xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"><symbol>IBM</symbol></order>",
        ),
        (
            order(),
            "application/xml",
            "<jsonObject><symbol>IBM</symbol><items><price>1.50</price></items><items><price>20</price></items></jsonObject>",
        ),
        (
            order(),
            "application/soap+xml",
            "<soapenv:Envelope xmlns:soapenv=\"http://www.w3.org/2003/05/soap-envelope\"><soapenv:Body><jsonObject><symbol>IBM</symbol>\
             <items><price>1.50</price></items><items><price>20</price></items></jsonObject></soapenv:Body></soapenv:Envelope>",
        ),
        (order(), "application/json", r#"{"symbol":"IBM","items":[{"price":1.50},{"price":20}]}"#),
    ] {
        assert_eq!(run_on(message, &property(of)).body(), body, "{of}");
    }
}

#[test]
fn the_need_of_a_sequence_includes_what_it_enters() {
    let program = program(
        "<sequence name=\"a\"><filter xpath=\"$trp:x\"><then><sequence key=\"b\"/></then></filter></sequence>\
         <sequence name=\"b\"><sequence key=\"a\"/><log level=\"full\"/></sequence>\
         <sequence name=\"c\"><filter source=\"$trp:x\" regex=\".*\"><then><send/></then></filter></sequence>",
    );
    let body_use = |name: &str| program.body_use(program.sequence(name).unwrap());
    assert_eq!(
        format!("{:?} {:?} {:?}", body_use("a"), body_use("b"), body_use("c")),
        "Read Read Untouched"
    );
}

#[test]
fn a_proxy_has_sequences_and_an_endpoint_by_name_or_inline() {
    let program = program(
        "<endpoint name=\"RealService\"><address uri=\"http://backend:8688/echo\"><timeout><duration>30000</duration><responseAction>fault</responseAction></timeout>\
         <suspendOnFailure><errorCodes>-1</errorCodes><progressionFactor>1.0</progressionFactor></suspendOnFailure></address></endpoint>\
         <proxy name=\"Direct\" transports=\"http\"><target endpoint=\"RealService\"><inSequence/><outSequence><send/></outSequence></target></proxy>\
         <proxy name=\"Inline\"><target faultSequence=\"f\"><endpoint><address uri=\"http://other/\"/></endpoint></target></proxy>\
         <sequence name=\"f\"><drop/></sequence>",
    );
    let [direct, inline] = program.proxies() else { panic!("{:?}", program.proxies()) };
    let endpoint = |id| program.endpoint_at(id).unwrap();
    let direct_endpoint = endpoint(direct.flow.endpoint.unwrap());
    assert!(
        matches!(&direct_endpoint.kind, EndpointKind::Address { uri } if uri == "http://backend:8688/echo")
    );
    assert_eq!(
        (direct_endpoint.timeout.ms, direct_endpoint.suspend.as_ref().unwrap().codes.clone()),
        (30_000, Some(Vec::new()))
    );
    assert!(direct.transports.http && !direct.transports.https);
    assert!(inline.flow.request.is_none() && inline.flow.fault == program.sequence("f"));
    assert_ne!(direct.flow.endpoint, inline.flow.endpoint);
}

#[test]
fn an_api_has_resources_below_its_context_and_version() {
    let program = program(
        "<api name=\"Orders\" context=\"/orders\" version=\"1.0.0\" version-type=\"url\">\
         <resource methods=\"GET POST\" uri-template=\"/{id}\"><inSequence><respond/></inSequence></resource>\
         <resource url-mapping=\"/all/*\"/><resource methods=\"DELETE\"/></api>",
    );
    let [api] = program.apis() else { panic!("{:?}", program.apis()) };
    assert_eq!(api.base_path, "/orders/1.0.0");
    let paths: Vec<_> = api.resources.iter().map(|resource| &resource.path).collect();
    let expect = [
        &ResourcePath::Template("/{id}".to_owned()),
        &ResourcePath::Mapping("/all/*".to_owned()),
        &ResourcePath::Any,
    ];
    assert_eq!(paths, expect);
    assert_eq!(api.resources[0].methods, ["GET", "POST"]);
}

#[test]
fn a_template_sees_its_parameters_and_only_its_own() {
    let ran = host_run(
        order(),
        "<template name=\"greet\"><parameter name=\"who\" isMandatory=\"true\"/><parameter name=\"how\" defaultValue=\"hello\"/>\
         <sequence><filter xpath=\"1 = 1\"><then><log level=\"custom\"><property name=\"text\" expression=\"concat($func:how, ' ', $func:who)\"/></log></then></filter>\
         </sequence></template>\
         <template name=\"inner\"><sequence><log level=\"custom\"><property name=\"who\" expression=\"$func:who\"/></log></sequence></template>\
         <sequence name=\"main\"><call-template target=\"greet\"><with-param name=\"who\" value=\"{json-eval($.symbol)}\"/></call-template>\
         <call-template target=\"greet\"><with-param name=\"who\" value=\"you\"/><with-param name=\"how\" value=\"bye\"/></call-template>\
         <call-template target=\"inner\"/></sequence>",
    );
    assert_eq!(ran.log, ["text = hello IBM", "text = bye you", "who = null"]);
}

/// Runs the sequence `main` with 1 MB of memory on a message with a text of 100 kB.
#[track_caller]
fn run_within_a_megabyte(artefacts: &str) -> Ran {
    let body = format!("{{\"text\":\"{}\"}}", "x".repeat(100_000));
    let program = program(artefacts);
    let flow = Flow { request: program.sequence("main"), ..Flow::default() };
    let budget = Budget::new(100_000_000, 1_000_000);
    host::drive_run(Run::new(program, flow, request(&body), budget), &|_, _| None)
}

#[test]
fn the_text_that_a_condition_reads_is_not_kept() {
    let conditions = "<filter source=\"$ctx:text\" regex=\"x*\"><then/></filter>\
                      <switch source=\"$ctx:text\"><case regex=\"y\"/></switch>";
    let ran = run_within_a_megabyte(&format!(
        "<sequence name=\"main\"><property name=\"text\" expression=\"json-eval($.text)\"/>{}<respond/></sequence>",
        conditions.repeat(10)
    ));
    assert!(ran.body().contains("xxx"));
}

#[test]
fn a_property_that_is_set_again_and_again_takes_the_memory_of_one() {
    let body = format!("{{\"text\":\"{}\",\"all\":[{}1]}}", "x".repeat(8_000), "1,".repeat(2_000));
    let big = "<property name=\"big\" expression=\"json-eval($.text)\"/>";
    for steps in [
        "<property name=\"a\" expression=\"concat($ctx:big, 'y')\"/>",
        "<property name=\"a\" expression=\"json-eval($.all)\" type=\"JSON\"/>",
        "<property name=\"a\" expression=\"//all\" type=\"OM\"/>",
        "<variable name=\"a\" expression=\"${payload.all}\"/>",
        "<variable name=\"a\" expression=\"${payload.all}\"/><variable name=\"a\" action=\"remove\"/>",
        "<property name=\"a\" expression=\"concat($ctx:big, 'y')\" scope=\"axis2\"/>",
        "<enrich><source type=\"body\"/><target type=\"property\" property=\"a\"/></enrich>",
        "<filter xpath=\"concat($ctx:big, 'y') = 'z'\"><then/></filter>",
    ] {
        let program = program(&format!(
            "{ENDPOINTS}<sequence name=\"main\">{big}<sequence key=\"again\"/></sequence>\
             <sequence name=\"again\">{steps}<send receive=\"again\"><endpoint key=\"a\"/></send></sequence>"
        ));
        let flow = Flow { request: program.sequence("main"), ..Flow::default() };
        let run = Run::new(program, flow, request(&body), Budget::new(400_000, 1 << 19));
        let answer = body.clone();
        let ran =
            host::drive_run(run, &move |_, _| Some(Answer::Response(host::response(&answer))));
        assert!(ran.failure().message.contains("400000 steps"), "{steps}: {:?}", ran.outcome);
        assert!(ran.sent.len() > 20, "{steps}: {}", ran.sent.len());
    }
}

#[test]
fn parameters_of_templates_that_call_each_other_are_charged() {
    let template = |name: &str, other: &str| {
        format!(
            "<template name=\"{name}\"><parameter name=\"p\"/><sequence><call-template target=\"{other}\">\
             <with-param name=\"p\" value=\"{{$func:p}}\"/></call-template></sequence></template>"
        )
    };
    let ran = run_within_a_megabyte(&format!(
        "{}{}<sequence name=\"main\"><call-template target=\"a\">\
         <with-param name=\"p\" value=\"{{json-eval($.text)}}\"/></call-template></sequence>",
        template("a", "b"),
        template("b", "a")
    ));
    assert!(ran.failure().to_string().contains("bytes"), "{}", ran.failure());
}

/// The body after `enrich` on the envelope.
#[track_caller]
fn check_enrich(source: &str, target: &str, body: &str) {
    let ran = run_on(envelope(), &format!("<enrich><source {source}/><target {target}/></enrich>"));
    let whole = ran.body();
    let parts = whole.split_once("<e:Body>").and_then(|(_, rest)| rest.split_once("</e:Body>"));
    let scope = " xmlns:e=\"http://schemas.xmlsoap.org/soap/envelope/\"";
    assert_eq!(parts.unwrap().0.replace(scope, ""), body, "{whole}");
}

#[test]
fn enrich_inserts_nodes_below_behind_and_in_place_of_others() {
    let inline = |xml: &str| format!("type=\"inline\"><x xmlns=\"\">{xml}</x></source><source");
    let source = "xpath=\"//symbol\"";
    check_enrich(
        source,
        "action=\"child\" xpath=\"//order\"",
        "<order><symbol>IBM</symbol><symbol>IBM</symbol></order>",
    );
    check_enrich(
        source,
        "action=\"sibling\" type=\"body\"",
        "<order><symbol>IBM</symbol></order><symbol>IBM</symbol>",
    );
    check_enrich(source, "action=\"replace\" xpath=\"//order\"", "<symbol>IBM</symbol>");
    check_enrich(source, "type=\"body\"", "<symbol>IBM</symbol>");
    check_enrich(
        "xpath=\"//symbol\" clone=\"false\"",
        "action=\"sibling\" xpath=\"//order\"",
        "<order/><symbol>IBM</symbol>",
    );
    check_enrich("xpath=\"string(//r)\"", "xpath=\"//symbol\"", "<order><symbol/></order>");
    check_enrich(
        "xpath=\"count(//order)\"",
        "xpath=\"//symbol\"",
        "<order><symbol>1.0</symbol></order>",
    );
    check_enrich(source, "action=\"remove\" xpath=\"//symbol\"", "<order/>");
    let ran = run_on(
        envelope(),
        &format!("<enrich><source {}/><target type=\"body\"/></enrich>", inline("1"))
            .replace("<source/>", ""),
    );
    assert!(ran.body().contains("<e:Body><x>1</x></e:Body>"), "{ran:?}");
}

#[test]
fn enrich_keeps_a_body_in_a_property_and_brings_it_back() {
    let steps = "<enrich><source type=\"body\"/><target type=\"property\" property=\"kept\"/></enrich>\
                 <payloadFactory media-type=\"json\"><format>{\"hello\":\"world\"}</format><args/></payloadFactory>\
                 <log level=\"custom\"><property name=\"b\" expression=\"json-eval($.hello)\"/></log>\
                 <enrich><source type=\"property\" property=\"kept\"/><target type=\"body\"/></enrich>";
    let ran = run(steps);
    assert_eq!(ran.log, ["b = world"]);
    assert_eq!(ran.body(), r#"{"symbol":"IBM","items":[{"price":1.50},{"price":20}]}"#);
}

#[test]
fn a_free_marker_template_reads_the_body_and_its_arguments() {
    let ran = run(
        "<payloadFactory media-type=\"json\" template-type=\"freemarker\"><format><![CDATA[{\"s\":\"${payload.symbol}\",\"n\":${args.arg1}}]]></format>\
         <args><arg value=\"7\"/></args></payloadFactory>",
    );
    assert_eq!(ran.body(), r#"{"s":"IBM","n":7}"#);
}

#[test]
fn of_two_values_the_one_that_synapse_takes_counts_with_a_warning() {
    let log = "<log level=\"custom\"><property name=\"a\" expression=\"$ctx:a\"/></log>";
    let cases = [
        ("<property name=\"a\" value=\"1\" expression=\"'2'\"/>", "`expression` has no effect"),
        ("<property name=\"a\" value=\"1\"><b/></property>", "the child element has no effect"),
        (
            "<property name=\"a\" expression=\"'2'\"><b xmlns=\"\">1</b></property>\
             <property name=\"a\" expression=\"$ctx:a//text()\"/>",
            "`expression` has no effect",
        ),
        (
            "<filter xpath=\"true()\" source=\"'x'\" regex=\"y\"><then><property name=\"a\" value=\"1\"/></then></filter>",
            "`source` with `regex` has no effect",
        ),
        (
            "<rewrite inProperty=\"b\" outProperty=\"a\"><rewriterule><action value=\"2\" xpath=\"'1'\"/></rewriterule></rewrite>",
            "`value` has no effect",
        ),
        (
            "<header name=\"To\" value=\"1\" expression=\"'2'\"/><property name=\"a\" expression=\"$ctx:To\"/>",
            "`expression` has no effect",
        ),
    ];
    for (steps, expect) in cases {
        let artefacts = format!("<sequence name=\"main\">{steps}{log}<respond/></sequence>");
        let (program, found) = host::compile(&artefacts);
        let [warning] = &*found else { panic!("{steps}: {found:#?}") };
        assert!(warning.contains("warning: ") && warning.contains(expect), "{warning}");
        let flow = Flow { request: program.sequence("main"), ..Flow::default() };
        let ran = drive(&Arc::new(program), flow, request("{}"), &echo);
        assert_eq!(ran.log, ["a = 1"], "{steps}");
    }
}
