//! Endpoints, templates, and what is wrong with artefacts.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod host;

use std::sync::Arc;

use host::{
    ENDPOINTS, Outcome, World, diagnostics, drive, echo, flow, program, proxy, refuse, request,
    streaming,
};
use penstock_mediation::{
    Ask, Body, Code, Compiler, Direction, Event, Exchange, Flow, Format, Message, PlainHead,
    Program, Run,
};
use xpath::Budget;

#[test]
fn what_is_not_served_of_expressions_and_endpoints_says_what_to_write() {
    let lookup = "<sequence name=\"s\"><property name=\"p\" expression=\"wso2:vault-lookup('a')\" xmlns:wso2=\"urn:v\"/></sequence>";
    let found = diagnostics(lookup).concat();
    assert!(found.contains("write `${configs.NAME}`"), "{found}");
    let address = |attribute: &str, child: &str| {
        let endpoint = format!("<address uri=\"http://a/\"{attribute}>{child}</address>");
        diagnostics(&format!("<endpoint name=\"e\">{endpoint}</endpoint>")).concat()
    };
    assert_eq!(address(" optimize=\"mtom\"", ""), "");
    let found = address("", "<enableAddressing version=\"1.0\"/>");
    assert!(found.contains("write one of `final`, `submission`"), "{found}");
    let found = address("", "<enableAddressing separateListener=\"true\"/>");
    assert!(found.contains("warning: `separateListener` has no effect"), "{found}");
    let found = diagnostics("<proxy name=\"P\"><target/><enableAddressing/></proxy>").concat();
    assert!(found.contains("remove it, if no client needs"), "{found}");
}

#[test]
fn an_endpoint_whose_wsdl_is_published_has_an_address() {
    let proxy = "<proxy name=\"P\"><target><inSequence><respond/></inSequence></target><publishWSDL endpoint=\"E\"/></proxy>";
    let found = |endpoint: &str| diagnostics(&format!("{proxy}{endpoint}")).concat();
    let missing = found("<endpoint name=\"F\"><address uri=\"http://a/\"/></endpoint>");
    assert!(missing.contains("warning: `publishWSDL`: there is no endpoint `E`"), "{missing}");
    let other = found("<endpoint name=\"E\"><http uri-template=\"http://a/\"/></endpoint>");
    assert!(other.contains("warning: `publishWSDL`: the endpoint `E` is no `address`"), "{other}");
    let program =
        program(&format!("{proxy}<endpoint name=\"E\"><address uri=\"http://a/b?c\"/></endpoint>"));
    let url = program.wsdl_url(&program.proxies()[0]);
    assert_eq!(url.as_deref(), Some("http://a/b?wsdl"));
}

#[test]
fn an_endpoint_gets_its_address_from_the_message() {
    let url = |endpoint: &str, steps: &str| {
        let target = format!("><inSequence>{steps}</inSequence><endpoint>{endpoint}</endpoint>");
        proxy("", &target, &echo).sent.first().unwrap().split(' ').next().unwrap().to_owned()
    };
    let set = |name: &str, value: &str, scope: &str| {
        format!("<property name=\"{name}\" value=\"{value}\" scope=\"{scope}\"/>")
    };
    let postfix = set("REST_URL_POSTFIX", "/7?x=1", "axis2");
    assert_eq!(url("<address uri=\"http://h/base\"/>", &postfix), "http://h/base/7?x=1");
    assert_eq!(url("<address uri=\"http://h/base/?k=v\"/>", &postfix), "http://h/base/7?k=v&x=1");
    let id = set("uri.var.id", "a b/ü", "default");
    assert_eq!(
        url("<http method=\"get\" uri-template=\"http://h/{uri.var.id}{?uri.var.none}\"/>", &id),
        "http://h/a%20b%2F%C3%BC"
    );
    assert_eq!(
        url("<http uri-template=\"http://h/{+uri.var.id}\"/>", &id),
        "http://h/a%20b/%C3%BC"
    );
    assert_eq!(url("<default/>", "<header name=\"To\" value=\"http://own/x\"/>"), "http://own/x");
    let own = format!("{postfix}<header name=\"To\" value=\"http://own/x\"/>");
    assert_eq!(url("<default/>", &own), "http://own/x/7?x=1");
}

#[test]
fn a_template_may_begin_with_a_whole_url() {
    let url = |template: &str, value: &str| {
        let target = format!(
            "><inSequence><property name=\"uri.var.u\" value=\"{value}\"/></inSequence>\
             <endpoint><http uri-template=\"{template}\"/></endpoint>"
        );
        proxy("", &target, &echo).sent.first().unwrap().split(' ').next().unwrap().to_owned()
    };
    let whole = "http://h:80/a b?q=1,2";
    assert_eq!(url("{uri.var.u}", whole), "http://h:80/a%20b?q=1,2");
    assert_eq!(url("{uri.var.u}/{uri.var.u}", "http://h"), "http://h/http%3A%2F%2Fh");
    assert_eq!(url("{+uri.var.u}/x", "http://h"), "http://h/x");
    let escaped = "http://h/S(15)%2827%29 %41+b";
    assert_eq!(url("{uri.var.u}", escaped), "http://h/S(15)%2827%29%20%41+b");
    assert_eq!(url("legacy-encoding:{uri.var.u}", escaped), "http://h/S(15)(27)%20A+b");
    assert_eq!(
        url("legacy-encoding:http://h/{uri.var.u}", "a/%2F%252F ü"),
        "http://h/a//%252F%20%C3%BC"
    );
}

#[test]
fn soap_is_posted_to_the_address_of_an_endpoint_without_the_rest_of_the_path() {
    let sent = |endpoint: &str, content_type: &str, steps: &str| {
        let artefacts = format!(
            "<proxy name=\"P\"><target><inSequence><property name=\"REST_URL_POSTFIX\" value=\"/7\" scope=\"axis2\"/>\
             {steps}</inSequence><endpoint>{endpoint}</endpoint></target></proxy>"
        );
        let program = program(&artefacts);
        let head = PlainHead {
            method: "PUT".to_owned(),
            target: "/7".to_owned(),
            fields: vec![("Content-Type".to_owned(), content_type.to_owned())],
        };
        let body = Body::held(Format::of(content_type), b"<a/>".to_vec());
        let message = Message::new(Direction::Request, Box::new(head), body);
        let mut run = Run::new(Arc::clone(&program), flow(&program), message, Budget::default());
        let Event::Ask(_, Ask::Exchange(exchange)) = run.next(&World::default()) else { panic!() };
        (exchange.target.url, exchange.target.method)
    };
    let address = |format: &str| format!("<address uri=\"http://h/x\" {format}/>");
    let post = Some("POST".to_owned());
    for format in ["format=\"soap11\"", "format=\"soap12\""] {
        let found = sent(&address(format), "application/xml", "");
        assert_eq!(found, ("http://h/x".to_owned(), post.clone()), "{format}");
    }
    let http = "<http uri-template=\"http://h/x\" method=\"put\" format=\"soap11\"/>";
    assert_eq!(sent(http, "text/xml", "").1.as_deref(), Some("PUT"));
    let action = "<header name=\"SOAPAction\" scope=\"transport\" value=\"urn:a\"/>";
    let post = "<property name=\"HTTP_METHOD\" scope=\"axis2\" value=\"POST\"/>";
    let url = |format, content_type, steps: &str| sent(&address(format), content_type, steps).0;
    let both = format!("{action}{post}");
    assert_eq!(url("", "text/xml", &both), "http://h/x");
    assert_eq!(url("", "application/soap+xml;action=\"urn:a\"", post), "http://h/x");
    assert_eq!(url("format=\"rest\"", "text/xml", &both), "http://h/x/7");
    assert_eq!(url("", "text/xml", post), "http://h/x/7");
    assert_eq!(url("", "text/xml", action), "http://h/x/7");
    assert_eq!(url("", "application/json", &both), "http://h/x/7");
}

#[test]
fn the_format_of_an_endpoint_decides_how_the_body_is_written() {
    let target = "><endpoint><address uri=\"http://a/\" format=\"soap12\"/></endpoint>";
    let program = program(&format!("<proxy name=\"P\"><target{target}</target></proxy>"));
    let ran = drive(&program, flow(&program), streaming(), &|_, _| None);
    assert_eq!(ran.bodies, 1);
    let sent = "http://a/ <soapenv:Envelope xmlns:soapenv=\"http://www.w3.org/2003/05/soap-envelope\">\
                <soapenv:Body><jsonObject><symbol>IBM</symbol></jsonObject></soapenv:Body></soapenv:Envelope>";
    assert_eq!(ran.sent, [sent]);
}

/// What the endpoint `e` gets of a SOAP message that has blocks of WS-Addressing already.
fn addressed(endpoints: &str, steps: &str) -> Exchange {
    let text = format!(
        "{endpoints}<proxy name=\"P\"><target endpoint=\"e\"><inSequence>{steps}</inSequence></target></proxy>"
    );
    let program = program(&text);
    let message = request(
        "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns:w=\"http://www.w3.org/2005/08/addressing\">\
         <s:Header><w:To>http://old/</w:To><w:MessageID>urn:old</w:MessageID><w:Action>urn:block</w:Action>\
         <w:ReplyTo><w:Address>http://old/reply</w:Address></w:ReplyTo><k xmlns=\"urn:k\">kept</k></s:Header>\
         <s:Body><a/></s:Body></s:Envelope>",
    );
    let mut run = Run::new(Arc::clone(&program), flow(&program), message, Budget::default());
    let Event::Ask(_, Ask::Exchange(exchange)) = run.next(&World::default()) else { panic!() };
    *exchange
}

/// The header blocks of an envelope: namespace, name and text.
fn blocks(envelope: &[u8]) -> String {
    let document = xml::Document::parse(envelope).unwrap();
    let header = document.root().descendants().find(|node| node.local_name() == "Header").unwrap();
    let blocks = header.children().filter(|block| block.is_element());
    let blocks = blocks.map(|block| {
        let year = block.namespace().split(['/', ':']).find(|part| part.starts_with("20"));
        format!("{}{}={}", year.unwrap_or_default(), block.local_name(), block.string_value())
    });
    blocks.collect::<Vec<_>>().join(" ")
}

#[test]
fn an_endpoint_may_add_the_blocks_of_ws_addressing_to_soap() {
    let of = |addressing: &str, steps: &str| {
        let address =
            format!("<address uri=\"http://a/\"><enableAddressing{addressing}/></address>");
        let sent = addressed(&format!("<endpoint name=\"e\">{address}</endpoint>"), steps);
        blocks(&sent.message.body.bytes(&Budget::default()).unwrap().unwrap())
    };
    let new = "k=kept 2005To=http://a/ 2005MessageID=urn:uuid:1 2005Action=urn:block";
    for version in ["", " version=\"final\" separateListener=\"false\""] {
        assert_eq!(of(version, ""), new);
    }
    let named =
        "<header name=\"Action\" value=\"urn:named\"/><header name=\"From\" value=\"http://me/\"/>";
    assert_eq!(
        of(" version=\"submission\"", named),
        "k=kept 2004To=http://a/ 2004ReplyTo=http://schemas.xmlsoap.org/ws/2004/08/addressing/role/anonymous \
         2004From=http://me/ 2004MessageID=urn:uuid:1 2004Action=urn:named"
    );
    let keep = "<property name=\"PRESERVE_WS_ADDRESSING\" value=\"true\"/>\
                <header name=\"From\" value=\"http://me/\"/>";
    assert_eq!(
        of("", keep),
        "2005To=http://old/ 2005MessageID=urn:old 2005Action=urn:block 2005ReplyTo=http://old/reply \
         k=kept 2005From=http://me/"
    );
}

#[test]
fn what_is_not_sent_as_soap_has_no_blocks_and_streams_to_an_endpoint_with_addressing() {
    let run = |format: &str| {
        let target = format!(
            "><endpoint><address uri=\"http://a/\"{format}><enableAddressing/></address></endpoint>"
        );
        let program = program(&format!("<proxy name=\"P\"><target{target}</target></proxy>"));
        drive(&program, flow(&program), streaming(), &|_, _| None)
    };
    let plain = run("");
    assert_eq!((plain.bodies, &*plain.sent), (0, &["http://a/".to_owned()][..]));
    let soap = run(" format=\"soap11\"");
    assert_eq!(soap.bodies, 1);
    let body = soap.sent[0].split_once(' ').unwrap().1;
    let body = body.get(body.find('<').unwrap()..).unwrap();
    assert_eq!(
        blocks(body.as_bytes()),
        "2005To=http://a/ 2005MessageID=urn:uuid:2 2005Action=urn:anonOutInOp"
    );
}

#[test]
fn a_long_body_gets_its_blocks_on_a_thread_for_heavy_work() {
    let endpoint = "<endpoint><address uri=\"http://a/\"><enableAddressing/></address></endpoint>";
    let long = format!(
        "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><a>{}</a></s:Body></s:Envelope>",
        "x".repeat(200_000)
    );
    for target in [
        endpoint.to_owned(),
        format!("<inSequence><send>{endpoint}</send></inSequence>"),
        format!("<inSequence><call>{endpoint}</call><respond/></inSequence>"),
    ] {
        let program = program(&format!("<proxy name=\"P\"><target>{target}</target></proxy>"));
        let mut run =
            Run::new(Arc::clone(&program), flow(&program), request(&long), Budget::default());
        assert!(matches!(run.next(&World::default()), Event::Heavy), "{target}");
        let Event::Ask(_, Ask::Exchange(exchange)) = run.next_heavy(&World::default()) else {
            panic!("{target}")
        };
        let sent = exchange.message.body.bytes(&Budget::default()).unwrap().unwrap();
        assert!(blocks(&sent).starts_with("2005To=http://a/ "), "{target}");
    }
}

#[test]
fn each_member_of_a_group_gets_its_own_address_in_a_block() {
    let member = |name: &str| {
        format!(
            "<endpoint><address uri=\"http://{name}/\"><enableAddressing/></address></endpoint>"
        )
    };
    for kind in ["loadbalance", "failover"] {
        let inner =
            format!("<endpoint><failover>{}{}</failover></endpoint>", member("b"), member("c"));
        let group =
            format!("<endpoint name=\"e\"><{kind}>{}{inner}</{kind}></endpoint>", member("a"));
        let sent = addressed(&group, "");
        let first = sent.message.body.bytes(&Budget::default()).unwrap().unwrap();
        let [own, inner] = &*sent.target.members else { panic!("{:?}", sent.target) };
        assert_eq!(own.body, None, "{kind}: it gets the body of the message");
        let bodies = inner.members.iter().map(|member| member.body.as_ref().unwrap());
        for (body, name) in std::iter::once(&first).chain(bodies).zip(["a", "b", "c"]) {
            let expect = format!(
                "k=kept 2005To=http://{name}/ 2005MessageID=urn:uuid:1 2005Action=urn:block"
            );
            assert_eq!(blocks(body), expect, "{kind}");
        }
    }
    let without = "<endpoint><address uri=\"http://b/\"/></endpoint>";
    let other =
        member("c").replace("<enableAddressing/>", "<enableAddressing version=\"submission\"/>");
    let found = |members: &str| {
        diagnostics(&format!("<endpoint name=\"e\"><failover>{members}</failover></endpoint>"))
    };
    assert_eq!(found(&format!("{}{without}", member("a"))), Vec::<String>::new());
    let found = found(&format!("{}{other}", member("a"))).concat();
    assert!(found.contains("all members get the `enableAddressing` of the first"), "{found}");
}

#[test]
fn the_scheme_of_a_request_chooses_the_port_of_a_member() {
    let url = |ports: &str, secure: bool| {
        let member = format!("<loadbalance><member hostName=\"h\"{ports}/></loadbalance>");
        let target = format!("<endpoint>{member}</endpoint>");
        let program = program(&format!("<proxy name=\"P\"><target>{target}</target></proxy>"));
        let mut message = request("1");
        message.arrival.secure = secure;
        let mut run = Run::new(Arc::clone(&program), flow(&program), message, Budget::default());
        let Event::Ask(_, Ask::Exchange(exchange)) = run.next(&World::default()) else { panic!() };
        exchange.target.members[0].url.clone()
    };
    let both = " httpPort=\"1\" httpsPort=\"2\"";
    assert_eq!(url(both, false), "http://h:1/orders");
    assert_eq!(url(both, true), "https://h:2/orders");
    assert_eq!(url(" httpPort=\"1\"", true), "http://h:1/orders");
    assert_eq!(url(" httpsPort=\"2\"", false), "https://h:2/orders");
    assert_eq!(url("", true), "https://h/orders");
}

#[test]
fn a_group_of_endpoints_is_resolved_for_the_host() {
    let member = |name: &str| format!("<endpoint key=\"{name}\"/>");
    let group = |kind: &str| {
        format!(
            "<endpoint name=\"g\"><{kind}>{}<endpoint><failover>{}</failover></endpoint></{kind}></endpoint>",
            member("a"),
            member("b")
        )
    };
    for kind in ["loadbalance", "failover"] {
        let artefacts =
            format!("{ENDPOINTS}{}<proxy name=\"P\"><target endpoint=\"g\"/></proxy>", group(kind));
        let program = program(&artefacts);
        let mut run =
            Run::new(Arc::clone(&program), flow(&program), request("1"), Budget::default());
        let Event::Ask(_, Ask::Exchange(exchange)) = run.next(&World::default()) else { panic!() };
        let [first, second] = &*exchange.target.members else { panic!("{:?}", exchange.target) };
        assert_eq!((&*first.url, &*second.members[0].url), ("http://a/", "http://b/"), "{kind}");
        assert_eq!(exchange.target.endpoint, program.endpoint("g"));
    }
}

#[test]
fn get_property_reads_a_local_entry_where_there_is_no_property() {
    let entries = "<localEntry key=\"host\">http://b</localEntry>\
        <localEntry key=\"tree\"><a xmlns=\"\"><b>7</b></a></localEntry>";
    let log = |name: &str, source: &str| {
        format!("<log level=\"custom\"><property name=\"{name}\" expression=\"{source}\"/></log>")
    };
    let target = format!(
        "><inSequence><property name=\"uri.var.host\" expression=\"get-property('host')\"/>{}{}{}\
         <call><endpoint><http uri-template=\"{{uri.var.host}}/x\"/></endpoint></call>\
         <property name=\"host\" value=\"own\"/>{}<respond/></inSequence>",
        log("nodes", "get-property('tree')//b"),
        log("text", "get-property( 'tree' )"),
        log("other", "get-property('axis2', 'host')"),
        log("property", "get-property('host')"),
    );
    let ran = proxy(entries, &target, &echo);
    assert_eq!(ran.sent, ["http://b/x 1"]);
    let expect = ["nodes = 7", "text = <a><b>7</b></a>", "other = null", "property = own"];
    assert_eq!(ran.log, expect);
}

#[test]
fn sequences_and_endpoints_in_local_entries_are_artefacts_where_they_are_named() {
    let entry =
        |key: &str, content: &str| format!("<localEntry key=\"{key}\">{content}</localEntry>");
    let log = "<log level=\"custom\"><property name=\"in\" value=\"inner\"/></log>";
    let entries = [
        entry("outer", "<sequence><sequence key=\"inner\"/></sequence>"),
        entry("inner", &format!("<sequence>{log}</sequence>")),
        entry("to", "<endpoint><address uri=\"http://to/\"/></endpoint>"),
        entry("unused", "<sequence><unknown/></sequence>"),
    ];
    let ran = proxy(&entries.concat(), " inSequence=\"outer\" endpoint=\"to\">", &echo);
    assert_eq!(
        (ran.sent, ran.log),
        (vec!["http://to/ 1".to_owned()], vec!["in = inner".to_owned()])
    );
    let broken = entry("bad", "<sequence><unknown/></sequence>");
    let found =
        diagnostics(&format!("{broken}<sequence name=\"s\"><sequence key=\"bad\"/></sequence>"));
    assert!(found.iter().any(|text| text.contains("uses the sequence `bad`")), "{found:?}");
}

#[test]
fn a_local_entry_may_be_a_sequence_of_another_file() {
    const NS: &str = "xmlns=\"http://ws.apache.org/ns/synapse\"";
    let text = format!(
        "<definitions {NS}><localEntry key=\"s\" src=\"file:s.xml\"/><proxy name=\"P\"><target inSequence=\"s\"/></proxy>\
         </definitions>"
    );
    let sequence = format!("<sequence {NS} name=\"any\"><respond/></sequence>");
    let artefact = model::Artefact {
        kind: model::ArtefactKind::Definitions,
        name: "a.xml".to_owned(),
        version: String::new(),
        file: "a.xml".into(),
        bytes: text.into_bytes().into(),
        configs: std::collections::BTreeMap::default(),
        documents: [("file:s.xml".to_owned(), sequence.into_bytes().into())].into(),
        contains: Vec::new(),
        problems: Vec::new(),
        application: None,
    };
    let mut set = model::ArtefactSet { artefacts: vec![artefact], ..model::ArtefactSet::default() };
    let (program, diagnostics) = Compiler::compile_set(&set);
    assert_eq!((program.proxies().len(), diagnostics), (1, Vec::new()));
    // What is wrong with the entry is wrong with what it holds.
    set.artefacts[0].problems.push(model::Diagnostic {
        severity: model::Severity::Error,
        file: "a.xml".into(),
        place: Some(model::Place { line: 1, column: 70 }),
        message: "wrong".to_owned(),
        help: None,
    });
    let (program, diagnostics) = Compiler::compile_set(&set);
    assert_eq!(program.proxies().len(), 0, "{diagnostics:?}");
}

#[test]
fn an_endpoint_may_be_another_one() {
    let alias = |name: &str, of: &str| format!("<endpoint name=\"{name}\" key=\"{of}\"/>");
    let aliases = [alias("first", "second"), alias("second", "b")].concat();
    assert_eq!(proxy(&aliases, " endpoint=\"first\">", &echo).sent, ["http://b/ 1"]);
    let known = program(&format!("{ENDPOINTS}{aliases}"));
    assert_eq!(known.endpoint("first"), known.endpoint("b"), "with its state");
    let computed = "<endpoint name=\"e\" key-expression=\"concat('', 'b')\"/>";
    assert_eq!(proxy(computed, " endpoint=\"e\">", &echo).sent, ["http://b/ 1"]);
    for wrong in [alias("x", "y"), alias("x", "x"), alias("x", "z") + &alias("z", "x")] {
        let found = diagnostics(&format!("{ENDPOINTS}{wrong}"));
        assert!(found.iter().all(|text| text.contains("there is no endpoint")), "{found:?}");
        assert!(!found.is_empty(), "{wrong}");
    }
}

#[test]
fn an_endpoint_by_computed_name_must_exist() {
    let target = |name: &str| {
        format!(
            "><inSequence><property name=\"to\" value=\"{name}\"/><call><endpoint key-expression=\"$ctx:to\"/></call><respond/></inSequence>"
        )
    };
    assert_eq!(proxy("", &target("b"), &echo).sent, ["http://b/ 1"]);
    assert_eq!(proxy("", &target("c"), &echo).failure().code, Code::NO_ENDPOINT);
}

#[test]
fn what_nobody_reads_is_an_error_with_a_place() {
    for (artefact, expect) in [
        ("<sequence name=\"s\"><call sorce=\"x\"/></sequence>", "`call` has no attribute `sorce`"),
        (
            "<sequence name=\"s\"><send><endpont key=\"a\"/></send></sequence>",
            "`send` has no child `endpont`",
        ),
        (
            "<sequence name=\"s\"><respond><log/></respond></sequence>",
            "`respond` has no child `log`",
        ),
        (
            "<proxy name=\"p\"><target><inSequnce/></target></proxy>",
            "`target` has no child `inSequnce`",
        ),
        (
            "<api name=\"a\" context=\"/a\"><resource method=\"GET\"/></api>",
            "`resource` has no attribute `method`",
        ),
        (
            "<endpoint name=\"e\"><address uri=\"http://a/\" encodign=\"x\"/></endpoint>",
            "`address` has no attribute `encodign`",
        ),
    ] {
        let found = diagnostics(artefact);
        assert!(
            found.iter().any(|text| text.contains(expect)
                && text.contains("test.xml:1:")
                && text.contains("error")),
            "{expect}\n{found:#?}"
        );
    }
}

#[test]
fn what_is_not_known_is_reported_once() {
    let rules = "xmlns=\"http://wso2.org/carbon/rules\"";
    for (artefact, expect) in [
        (
            "<endpoint name=\"e\" template=\"t\" uri=\"http://e/\"><parameter name=\"p\" value=\"v\"/></endpoint>",
            "there is no endpoint template `t`",
        ),
        (
            "<sequence name=\"s\"><rewrite><rule><action fragment=\"host\" value=\"h\"/></rule></rewrite></sequence>",
            "`rewrite` has no child `rule` (write `rewriterule`",
        ),
        (
            &format!("<sequence name=\"s\"><rule {rules}><source/></rule></sequence>"),
            "the mediator `rule` is not served (write `switch`",
        ),
        (
            &format!("<sequence name=\"s\"><log {rules}/></sequence>"),
            "`log` is not in Synapse's namespace",
        ),
        (
            "<api name=\"a\" context=\"/a\"><resurce methods=\"GET\"/></api>",
            "`api` has no child `resurce`",
        ),
        (
            "<api name=\"a\" context=\"/a\"><handlers/></api>",
            "`handlers` of `api` is not served (put an OpenAPI",
        ),
        ("<proxy name=\"p\"><target/><enableSec/></proxy>", "`enableSec` of `proxy` is not served"),
        ("<proxy name=\"p\"><target/><secure/></proxy>", "`proxy` has no child `secure`"),
        (
            "<sequence name=\"s\"><log><property name=\"p\" expression=\"${properties.uri.var.a}\"/></log></sequence>",
            "`properties` needs a scope: write `properties.synapse.NAME`",
        ),
    ] {
        let found = diagnostics(artefact);
        let [one] = &found[..] else { panic!("{artefact}: {found:#?}") };
        assert!(one.replace("\n    help: ", " (").contains(expect), "{one}");
    }
}

#[test]
fn attributes_without_a_meaning_there_are_no_errors() {
    let steps = "<property name=\"x\" action=\"remove\" type=\"STRING\" value=\"v\" expression=\"$ctx:a\"/>\
        <header name=\"To\" action=\"remove\" value=\"\" expression=\"$ctx:a\"/>\
        <log><property name=\"x\" value=\"v\" scope=\"default\" type=\"STRING\" action=\"set\"/></log>\
        <switch source=\"$ctx:a\"><case regex=\"a\" description=\"d\"/></switch>\
        <throwError/>";
    let api = format!(
        "<api name=\"a\" context=\"/a\" description=\"d\"><resource methods=\"GET\" description=\"d\">\
         <inSequence>{steps}</inSequence></resource></api>"
    );
    assert_eq!(diagnostics(&api), [""; 0]);
}

#[test]
fn what_older_endpoints_have_is_served_or_explained() {
    let of = |attribute: &str, part: &str| {
        format!(
            "<endpoint name=\"e\" {attribute}><address uri=\"http://a/\">{part}</address></endpoint>"
        )
    };
    let old = of("", "<suspendDurationOnFailure>60</suspendDurationOnFailure>");
    let (program, found) = host::compile(&old);
    let suspend = program.endpoint_at(program.endpoint("e").unwrap()).unwrap().suspend.clone();
    let suspend = suspend.unwrap();
    assert_eq!((suspend.initial_ms, suspend.factor), (60_000, 1.0));
    assert!(found[0].contains("warning") && found[0].contains("60000"), "{found:?}");
    let found = diagnostics(&of("onError=\"h\"", ""));
    assert!(found[0].contains("`onError` of an endpoint is not served"), "{found:?}");
    for (kind, help) in [("class", "key-expression"), ("serviceDynamicLoadbalance", "loadbalance")]
    {
        let found = diagnostics(&format!("<endpoint name=\"e\"><{kind}/></endpoint>"));
        assert!(found[0].contains("not served") && found[0].contains(help), "{found:?}");
    }
}

#[test]
fn an_artefact_with_an_error_is_not_served_nor_is_one_that_uses_it() {
    let (program, found) = host::compile(
        "<sequence name=\"broken\"><lgo/></sequence>\
         <sequence name=\"user\"><sequence key=\"broken\"/></sequence>\
         <sequence name=\"good\"><log/></sequence>\
         <endpoint name=\"bad\"><address/></endpoint>\
         <proxy name=\"A\"><target inSequence=\"user\"/></proxy>\
         <proxy name=\"B\"><target inSequence=\"good\"/></proxy>\
         <api name=\"C\" context=\"/c\"><resource endpoint=\"bad\"/></api>",
    );
    let mut sequences: Vec<_> = program.sequences().map(|(name, _)| name).collect();
    sequences.sort_unstable();
    assert_eq!(sequences, ["good"]);
    let proxies: Vec<_> = program.proxies().iter().map(|proxy| &*proxy.name).collect();
    assert_eq!((proxies, program.apis().len()), (vec!["B"], 0));
    assert!(program.endpoint("bad").is_none());
    for expect in
        ["uses the sequence `broken`", "uses the sequence `user`", "uses the endpoint `bad`"]
    {
        assert!(found.iter().any(|text| text.contains(expect)), "{expect}\n{found:#?}");
    }
}

#[test]
fn an_inbound_endpoint_has_a_port_and_sequences() {
    let inbound = |name: &str, attributes: &str, parameters: &str| {
        format!(
            "<inboundEndpoint name=\"{name}\" {attributes}><parameters>{parameters}</parameters></inboundEndpoint>"
        )
    };
    let port = "<parameter name=\"inbound.http.port\"> 8085 </parameter>";
    let own = "protocol=\"http\" sequence=\"s\" onError=\"s\" suspend=\"false\"";
    let sequence = "<sequence name=\"s\"><respond/></sequence>";
    let needless = "<parameter name=\"inbound.worker.pool.size.core\">400</parameter>\
                    <parameter name=\"dispatch.filter.pattern\"/>";
    let all = format!("{sequence}{}", inbound("a", own, &format!("{port}{needless}")));
    let (program, found) = host::compile(&all);
    assert_eq!((program.inbounds().len(), found), (1, Vec::<String>::new()));
    let inbound_of = &program.inbounds()[0];
    let sequence_id = program.sequence("s");
    assert_eq!((inbound_of.port, inbound_of.secure), (8085, false));
    assert_eq!(
        inbound_of.flow,
        Flow { request: sequence_id, fault: sequence_id, ..Flow::default() }
    );
    let parameter =
        |name: &str, value: &str| format!("{port}<parameter name=\"{name}\">{value}</parameter>");
    for (attributes, parameters, expect) in [
        ("protocol=\"jms\"", port.to_owned(), "error: the inbound protocol `jms` is not served"),
        (own, String::new(), "error: the inbound endpoint `b` has no port"),
        (own, port.replace("8085", "65536"), "error: `inbound.http.port` is `65536`"),
        (own, parameter("dispatch.filter.pattern", "("), "error: the pattern `(`"),
        (own, parameter("SSLVerifyClient", "require"), "error: `SSLVerifyClient` is not served"),
        (
            own,
            parameter("keystore", "<KeyStore/>"),
            "warning: the parameter `keystore` has no effect",
        ),
        (
            "protocol=\"http\" sequence=\"none\"",
            port.to_owned(),
            "error: there is no sequence `none`",
        ),
        (
            "protocol=\"http\" suspend=\"true\"",
            port.to_owned(),
            "warning: the inbound endpoint `b` is not served",
        ),
        (own, port.to_owned(), ""),
    ] {
        let found = diagnostics(&format!("{sequence}\n{}", inbound("b", attributes, &parameters)));
        let found = found.first().map_or("", |found| found);
        assert!(
            found.contains(expect) && found.is_empty() == expect.is_empty(),
            "{expect}: {found}"
        );
        assert!(found.is_empty() || found.starts_with("test.xml:2:"), "{found}");
    }
    let two = format!("{sequence}{}\n{}", inbound("a", own, port), inbound("b", own, port));
    let (program, found) = host::compile(&two);
    assert!(
        found[0].starts_with("test.xml:2:1: error: the inbound endpoint `a` has the port 8085")
    );
    assert_eq!(program.inbounds().len(), 1);
    let broken = format!("<sequence name=\"s\"><lgo/></sequence>{}", inbound("a", own, port));
    assert_eq!(host::compile(&broken).0.inbounds().len(), 0, "its sequence has errors");
}

#[test]
fn the_first_of_two_artefacts_with_one_name_is_served() {
    let (program, found) = host::compile(
        "<sequence name=\"s\"><drop/></sequence><sequence name=\"s\"><respond/></sequence>",
    );
    assert!(found.iter().any(|text| text.contains("two of `sequence`")), "{found:?}");
    let program = Arc::new(program);
    let flow = Flow { request: program.sequence("s"), ..Flow::default() };
    let ran = drive(&program, flow, request("1"), &echo);
    assert!(matches!(ran.outcome, Outcome::Nothing), "{ran:?}");
}

#[test]
fn the_default_sequences_are_used_where_they_are_named_and_missing() {
    let target = |fault: &str| {
        format!(
            "<proxy name=\"P\"><target {fault} outSequence=\"main\"><inSequence><send><endpoint><address uri=\"http://a/\"/>\
             </endpoint></send></inSequence></target></proxy>"
        )
    };
    let (program, found) = host::compile(&target("faultSequence=\"fault\""));
    let warned: Vec<_> = found.iter().map(|text| text.lines().next().unwrap()).collect();
    let warning = |name: &str| {
        format!(
            "test.xml:1:70: warning: there is no sequence `{name}`: that of Micro Integrator is used, which logs the message"
        )
    };
    assert_eq!(warned, [warning("main"), warning("fault")]);
    // Whatever names none is not changed.
    assert_eq!((program.sequence("main"), program.sequence("fault")), (None, None));
    let program = Arc::new(program);
    let ran = drive(&program, flow(&program), request("1"), &echo);
    assert_eq!(ran.body(), r#"{"from":"http://a/","got":1}"#);
    let ran = drive(&program, flow(&program), request("1"), &refuse);
    assert_eq!(ran.failure().code, Code::NOT_CONNECTED, "it drops the message: {ran:?}");
    assert!(ran.log[0].ends_with("ERROR_CODE = 101503, ERROR_MESSAGE = refused"), "{ran:?}");
    let own = "<sequence name=\"main\"/><sequence name=\"fault\"><respond/></sequence>";
    let (program, found) = host::compile(&format!("{own}{}", target("faultSequence=\"fault\"")));
    assert!(found.is_empty() && program.sequence("fault").is_some(), "{found:?}");
}

#[test]
fn a_local_entry_may_have_a_description() {
    let entry =
        "<localEntry key=\"t\"><![CDATA[{\"a\": 1}]]><description>of it</description></localEntry>";
    let target = "><inSequence><payloadFactory media-type=\"json\"><format key=\"t\"/></payloadFactory><respond/></inSequence>";
    assert_eq!(proxy(entry, target, &echo).body(), "{\"a\": 1}");
}

#[test]
fn a_proxy_may_have_all_transports() {
    let (program, found) = host::compile(
        "<proxy name=\"P\" transports=\"all\"><target><inSequence/></target></proxy>",
    );
    let transports = program.proxies().first().map(|proxy| proxy.transports);
    assert!(transports.is_some_and(|all| all.http && all.https), "{found:?}");
}

#[test]
fn an_error_of_a_service_brings_no_others() {
    let found = diagnostics(
        "<proxy name=\"P\" transports=\"jms\"><target><inSequence/></target><parameter name=\"a\">b</parameter></proxy>",
    );
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_parameter_in_two_pairs_of_braces_is_an_expression() {
    let artefacts = "<template name=\"t\"><parameter name=\"p\"/><sequence><log level=\"custom\">\
                     <property name=\"p\" expression=\"$func:p\"/></log></sequence></template>";
    let target = |value: &str| {
        format!(
            "><inSequence><call-template target=\"t\"><with-param name=\"p\" value=\"{value}\"/></call-template></inSequence>"
        )
    };
    for value in ["{${payload.a}}", "${payload.a}", "{json-eval($.a)}", "{{json-eval($.a)}}"] {
        let program = program(&format!(
            "{artefacts}<proxy name=\"P\"><target{}</target></proxy>",
            target(value)
        ));
        let ran = drive(&program, flow(&program), request(r#"{"a":5}"#), &echo);
        assert_eq!(ran.log, ["p = 5"], "{value}");
    }
}

#[test]
fn an_endpoint_of_a_template_has_its_values() {
    let template = "<template name=\"t\"><parameter name=\"host\"/><parameter name=\"ms\"/>\
                    <endpoint name=\"$name\"><address uri=\"$uri/$host?a=$\"><timeout><duration>$ms</duration></timeout></address></endpoint></template>";
    let endpoint = |ms: &str| {
        format!(
            "<endpoint name=\"e\" template=\"t\" uri=\"http://h\"><parameter name=\"host\" value=\"x&amp;y\"/><parameter name=\"ms\" value=\"{ms}\"/></endpoint>"
        )
    };
    let ran = proxy(&format!("{}{template}", endpoint("7")), " endpoint=\"e\">", &echo);
    assert_eq!(ran.sent, ["http://h/x&y?a=$ 1"]);
    let program = program(&format!("{template}{}", endpoint("7")));
    let found = program.endpoint_at(program.endpoint("e").unwrap()).unwrap();
    assert_eq!(found.timeout.ms, 7);
    let wrong = diagnostics(&format!("{template}\n{}", endpoint("soon")));
    assert!(
        wrong[0].starts_with("test.xml:2:1: error: in the template `t`: `duration` is `soon`"),
        "{wrong:?}"
    );
}

#[test]
fn what_an_endpoint_cannot_do_is_said_by_name() {
    for (endpoint, expect) in [
        (
            "<loadbalance><endpoint key=\"a\"/></loadbalance><session type=\"soap\"/>",
            "sessions of endpoints",
        ),
        ("<dynamicLoadbalance/>", "members of a cluster are not discovered"),
        (
            "<http uri-template=\"http://h\"><authentication><oauth/></authentication></http>",
            "`oauth` has no grant",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials><clientId>a</clientId>\
             <tokenUrl>http://t/</tokenUrl></clientCredentials></oauth></authentication></http>",
            "`clientCredentials` needs a `clientSecret`",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials>\
             <clientId>{$ctx:id}</clientId></clientCredentials></oauth></authentication></http>",
            "`clientId` is an expression: tokens are not for one message",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials>\
             <clientSecret>of-${configs.none}</clientSecret></clientCredentials></oauth></authentication></http>",
            "`configs.none` has no value",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials>\
             <clientSecret>of-${vars.a}</clientSecret></clientCredentials></oauth></authentication></http>",
            "`clientSecret` is an expression",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><oauth><clientCredentials>\
             <proxyConfigs/></clientCredentials></oauth></authentication></http>",
            "`proxyConfigs` of `oauth` is not served",
        ),
        (
            "<http uri-template=\"http://h\"><authentication><basicAuth><username>u</username></basicAuth></authentication></http>",
            "`basicAuth` needs a `password`",
        ),
        (
            "<address uri=\"http://h\"/><property name=\"a\" expression=\"$body//a\"/>",
            "the body is not read on the way to an endpoint",
        ),
        (
            "<failover><endpoint><address uri=\"http://h\"/><property name=\"a\" value=\"1\"/></endpoint></failover>",
            "a property of a member is not served",
        ),
        (
            "<loadbalance algorithm=\"WeightedRoundRobin\"><endpoint><address uri=\"http://h\"/>\
             <property name=\"loadbalance.weight\" value=\"0\"/></endpoint></loadbalance>",
            "`loadbalance.weight` is `0`, not a number above zero",
        ),
        (
            "<loadbalance><endpoint><address uri=\"http://h\"/><property name=\"loadbalance.weight\" value=\"2\"/>\
             </endpoint></loadbalance>",
            "warning: the weights of the members have no effect",
        ),
        (
            "<address uri=\"http://h\"><suspendOnFailure><progressionFactor>-1</progressionFactor></suspendOnFailure></address>",
            "`progressionFactor` is `-1`",
        ),
        (
            "<address uri=\"http://h\"><retryConfig><codes/></retryConfig></address>",
            "`retryConfig` has no child",
        ),
    ] {
        let found = diagnostics(&format!("{ENDPOINTS}<endpoint name=\"e\">{endpoint}</endpoint>"));
        assert!(found.iter().any(|text| text.contains(expect)), "{expect}\n{found:#?}");
    }
}

#[test]
fn what_an_endpoint_sets_is_sent_with_the_message() {
    let named = "<endpoint name=\"e\"><http uri-template=\"http://h/{uri.var.id}\"/>\
        <property name=\"X-From\" expression=\"$ctx:from\" scope=\"transport\"/>\
        <property name=\"uri.var.id\" value=\"7\"/>\
        <property name=\"HTTP_METHOD\" value=\"PUT\" scope=\"axis2\"/></endpoint>";
    for to in ["key=\"e\"", "key-expression=\"'e'\""] {
        let target = format!(
            "><inSequence><property name=\"from\" value=\"me\"/><call><endpoint {to}/></call></inSequence>"
        );
        let text = format!("{named}<proxy name=\"P\"><target{target}</target></proxy>");
        let program = program(&text);
        let mut run =
            Run::new(Arc::clone(&program), flow(&program), request("1"), Budget::default());
        let Event::Ask(_, Ask::Exchange(exchange)) = run.next(&World::default()) else { panic!() };
        assert_eq!(exchange.target.url, "http://h/7");
        assert_eq!(exchange.message.head.field("X-From").as_deref(), Some("me"));
    }
}

#[test]
fn an_endpoint_has_credentials_and_a_host_of_its_own() {
    let target = "><inSequence><property name=\"REQUEST_HOST_HEADER\" value=\"me:81\" scope=\"axis2\"/></inSequence>\
         <endpoint><http uri-template=\"http://h/\"><authentication><basicAuth><username>Aladdin</username>\
         <password>{concat('open ', 'sesame')}</password></basicAuth></authentication></http></endpoint>";
    let program = program(&format!("<proxy name=\"P\"><target{target}</target></proxy>"));
    let mut run = Run::new(Arc::clone(&program), flow(&program), request("1"), Budget::default());
    let Event::Ask(_, Ask::Exchange(exchange)) = run.next(&World::default()) else { panic!() };
    let sent = exchange.target;
    // RFC 7617 section 2.
    assert_eq!(sent.authorization.as_deref(), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
    assert_eq!(sent.host.as_deref(), Some("me:81"));
    let bad = "><inSequence><property name=\"REQUEST_HOST_HEADER\" value=\"a b\" scope=\"axis2\"/></inSequence>\
               <endpoint key=\"a\"/>";
    assert!(proxy("", bad, &echo).failure().message.contains("not a host"));
}

#[test]
fn endpoint_templates_and_groups_that_multiply_are_rejected() {
    let template = |name: &str, endpoint: &str| {
        format!("<template name=\"{name}\"><endpoint{endpoint}</endpoint></template>")
    };
    let address = format!("><!--{}--><address uri=\"$uri\"/>", "x".repeat(4_096));
    let compiled = |templates: &str, uri: &str| {
        let first = format!("<endpoint name=\"e\" template=\"t0\" uri=\"{uri}\"/>");
        diagnostics(&format!("{templates}{}{first}", template("last", &address))).join("\n")
    };
    // Each level has 64 times as many endpoints as the one before.
    let wide = |name: &str, next: &str| {
        let member = format!("<endpoint template=\"{next}\" uri=\"http://h/\"/>");
        template(name, &format!("><failover>{}</failover>", member.repeat(64)))
    };
    let levels = [wide("t0", "t1"), wide("t1", "t2"), wide("t2", "last")].concat();
    let found = compiled(&levels, "http://h/");
    assert!(found.contains("too much memory"), "{found}");
    // Each level writes its address 64 times into the next one.
    let long = |name: &str, next: &str| {
        template(name, &format!(" template=\"{next}\" uri=\"{}\">", "$uri".repeat(64)))
    };
    let levels = [long("t0", "t1"), long("t1", "t2"), long("t2", "last")].concat();
    let found = compiled(&levels, &format!("http://h/{}", "x".repeat(100)));
    assert!(found.contains("too much memory"), "{found}");
    let found = compiled(&template("t0", " template=\"t0\" uri=\"u\">"), "http://h/");
    assert!(found.contains("nested deeper than 8"), "{found}");
    let group = |name: &str, next: &str| {
        let member = format!("<endpoint key=\"{next}\"/>");
        format!("<endpoint name=\"{name}\"><failover>{}</failover></endpoint>", member.repeat(64))
    };
    let groups = [group("g0", "g1"), group("g1", "g2"), group("g2", "a")].concat();
    let ran = proxy(&groups, " endpoint=\"g0\">", &echo);
    assert!(ran.failure().message.contains("more than 256 endpoints"), "{:?}", ran.failure());
}

#[test]
fn the_wsdl_that_is_generated_is_well_formed() {
    let program = program(
        "<proxy name=\"a&amp;b\"><target><inSequence><respond/></inSequence></target></proxy>",
    );
    let text = program.proxies()[0].wsdl_text("wsdl", "http://h/services/a&b").unwrap();
    let document = xml::Document::parse(text.as_bytes()).unwrap();
    let address = |node: &xml::Node<'_>| {
        node.attribute("", "location") == Some("http://h/services/a&b") && node.is_element()
    };
    assert_eq!(document.root().descendants().filter(address).count(), 2, "{text}");
}

#[test]
fn groups_may_say_when_synapse_reads_the_body() {
    for group in ["failover", "loadbalance", "recipientlist"] {
        let group = format!("<{group} buildMessage=\"true\"><endpoint key=\"a\"/></{group}>");
        let found = diagnostics(&format!("{ENDPOINTS}<endpoint name=\"g\">{group}</endpoint>"));
        assert!(found.is_empty(), "{found:?}");
    }
}

/// As of one that is not served, or of a parameter without a value.
#[test]
fn a_problem_that_was_found_by_reading_is_one_of_the_artefact_in_which_it_is() {
    let text = "<definitions xmlns=\"http://ws.apache.org/ns/synapse\">\n\
         <proxy name=\"good\"><target><inSequence><respond/></inSequence></target></proxy>\n\
         <task name=\"t\"/>\n\
         <proxy name=\"bad\"><target inSequence=\"s\"/></proxy>\n\
         <sequence name=\"s\">\n<unknown/></sequence></definitions>";
    let problem = |line, column, message: &str| model::Diagnostic {
        severity: model::Severity::Error,
        file: "a.xml".into(),
        place: Some(model::Place { line, column }),
        message: message.to_owned(),
        help: None,
    };
    let artefact = model::Artefact {
        kind: model::ArtefactKind::Definitions,
        name: "a.xml".to_owned(),
        version: String::new(),
        file: "a.xml".into(),
        bytes: text.as_bytes().into(),
        configs: std::collections::BTreeMap::default(),
        documents: std::collections::BTreeMap::default(),
        contains: Vec::new(),
        problems: vec![problem(3, 1, "no task"), problem(6, 3, "no value")],
        application: None,
    };
    let set = model::ArtefactSet { artefacts: vec![artefact], ..model::ArtefactSet::default() };
    let (program, diagnostics) = Compiler::compile_set(&set);
    let served: Vec<_> = program.proxies().iter().map(|proxy| &*proxy.name).collect();
    assert_eq!(served, ["good"]);
    let found: Vec<_> = diagnostics.iter().map(ToString::to_string).collect();
    let expect = [
        "3:1: error: no task",
        "6:3: error: no value",
        "6:1: error: unknown mediator",
        "4:1: error: uses",
    ];
    let is_it = |(line, expect): (&String, &&str)| line.contains(expect);
    assert!(found.len() == expect.len() && found.iter().zip(&expect).all(is_it), "{found:#?}");
}

const NS: &str = "xmlns=\"http://ws.apache.org/ns/synapse\"";

/// A proxy and resources of the registry as a program, and what is wrong with them.
fn with_registry(proxy: &str, resources: &[(&str, String)]) -> (Program, String) {
    let bytes = |text: &str| Arc::<[u8]>::from(text.as_bytes());
    let artefact = model::Artefact {
        kind: model::ArtefactKind::Proxy,
        name: "P".to_owned(),
        version: String::new(),
        file: "p.xml".into(),
        bytes: bytes(proxy),
        configs: std::collections::BTreeMap::default(),
        documents: std::collections::BTreeMap::default(),
        contains: Vec::new(),
        problems: Vec::new(),
        application: None,
    };
    let resource = |(path, text): &(&str, String)| {
        let file = format!("{}.xml", path.replace([':', '/'], "_")).into();
        let resource = model::Resource { file, bytes: bytes(text), ..model::Resource::default() };
        ((*path).to_owned(), resource)
    };
    let resources = resources.iter().map(resource).collect();
    let set = model::ArtefactSet { artefacts: vec![artefact], resources };
    let (program, diagnostics) = Compiler::compile_set(&set);
    (program, diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[test]
fn sequences_and_endpoints_of_the_registry_are_artefacts_where_they_are_named() {
    let proxy = format!(
        "<proxy {NS} name=\"P\"><target inSequence=\"conf:/in.xml\"><endpoint key=\"gov:e.xml\"/></target></proxy>"
    );
    let inner = "<sequence key=\"/_system/governance/inner.xml\"/>";
    let diagnostics = |inner_text: &str| {
        let resources = [
            ("conf:/in.xml", format!("<sequence {NS} name=\"any\">{inner}</sequence>")),
            ("gov:/inner.xml", format!("<sequence {NS} name=\"any\">{inner_text}</sequence>")),
            ("gov:/e.xml", format!("<endpoint {NS}><address uri=\"http://a/\"/></endpoint>")),
            ("gov:/unused.xml", format!("<sequence {NS}><unknown/></sequence>")),
        ];
        let (program, diagnostics) = with_registry(&proxy, &resources);
        (program.proxies().len(), diagnostics)
    };
    assert_eq!(diagnostics("<log/>"), (1, String::new()));
    let (served, found) = diagnostics("<unknown/>");
    assert_eq!(served, 0, "{found}");
    assert!(
        found.contains("gov__inner.xml.xml:1:") && found.contains("uses the sequence"),
        "{found}"
    );
}

#[cfg(feature = "validate")]
#[test]
fn schemas_of_the_registry_refer_to_others_by_key_or_from_where_they_are() {
    let proxy = format!(
        "<proxy {NS} name=\"P\"><target><inSequence><validate><schema key=\"gov:/schemas/order.json\"/>\
         <on-fail><log/></on-fail></validate><respond/></inSequence></target></proxy>"
    );
    let resources = |reference: &str, other: &'static str| {
        let order = format!("{{\"properties\":{{\"to\":{{\"$ref\":\"{reference}\"}}}}}}");
        let city = "{\"required\":[\"city\"]}".to_owned();
        [("gov:/schemas/order.json", order), ("gov:/schemas/a b.json", city.clone()), (other, city)]
    };
    for (reference, other) in [
        ("a%20b.json", "conf:/x"),
        ("/schemas/a%20b.json", "conf:/x"),
        ("conf:schemas/a.json#", "conf:/schemas/a.json"),
        ("resources:json/a.json", "gov:/mi-resources/json/a.json"),
    ] {
        let (program, found) = with_registry(&proxy, &resources(reference, other));
        assert_eq!(found, "", "{reference}");
        let program = Arc::new(program);
        let failures =
            |body: &str| drive(&program, flow(&program), request(body), &refuse).log.len();
        assert_eq!(failures("{\"to\":{\"city\":\"Oslo\"}}"), 0, "{reference}");
        assert_eq!(failures("{\"to\":{}}"), 1, "{reference}");
    }
    let (_, found) = with_registry(&proxy, &resources("none.json", "conf:/x"));
    assert!(found.contains("gov:/schemas/none.json"), "{found}");
    // Each refers to the next.
    let many: Vec<_> = (0..70)
        .map(|number| {
            let of = |number| format!("gov:/schemas/{number}.json");
            (of(number), format!("{{\"$ref\":\"{}\"}}", of(number + 1)))
        })
        .collect();
    let order = ("gov:/schemas/order.json", "{\"$ref\":\"0.json\"}".to_owned());
    let all: Vec<_> = std::iter::once(order)
        .chain(many.iter().map(|(path, text)| (&**path, text.clone())))
        .collect();
    let (_, found) = with_registry(&proxy, &all);
    assert!(found.contains("refers to more than 64 others"), "{found}");
}

/// As `CHARACTER_SET_ENCODING`, which it sets.
#[test]
fn an_endpoint_says_in_which_charset_it_wants_bodies() {
    let address = |encoding: &str| {
        format!("<endpoint><address uri=\"http://a/\" encoding=\"{encoding}\"/></endpoint>")
    };
    let set = "<property name=\"CHARACTER_SET_ENCODING\" value=\"UTF-16\" scope=\"axis2\"/>";
    let sent_to = |endpoint: &str| {
        let proxy = format!(
            "<proxy name=\"P\"><target><inSequence><payloadFactory media-type=\"text\"><format>é</format></payloadFactory>{set}\
             </inSequence>{endpoint}</target></proxy>"
        );
        let program = program(&proxy);
        let flow = flow(&program);
        let mut run = Run::new(program, flow, request("1"), Budget::default());
        let Event::Ask(_, Ask::Exchange(exchange)) = run.next_heavy(&World::default()) else {
            panic!()
        };
        let bytes = exchange.message.body.bytes(&Budget::default()).unwrap().unwrap();
        let content_type = exchange.message.head.field("Content-Type").unwrap().into_owned();
        (bytes, content_type)
    };
    let sent = |encoding: &str| sent_to(&address(encoding));
    let (bytes, content_type) = sent("ISO-8859-1");
    assert_eq!(&*bytes, b"\xe9");
    assert!(content_type.ends_with("charset=ISO-8859-1"), "{content_type}");
    assert_eq!(&*sent("UTF-8").0, "é".as_bytes());
    let wrong = "<endpoint name=\"e\"><address uri=\"http://a/\" encoding=\"none\"/></endpoint>";
    assert!(diagnostics(wrong).concat().contains("`encoding` is `none`, no charset"));
    // One body is written for a group.
    let group = |members: &[&str]| {
        let members: String = members.iter().map(|encoding| address(encoding)).collect();
        format!("<endpoint><loadbalance>{members}</loadbalance></endpoint>")
    };
    assert_eq!(&*sent_to(&group(&["utf-8", "utf-8"])).0, "é".as_bytes());
    assert_eq!(&*sent_to(&group(&["", "windows-1252"])).0, b"\xe9");
    assert_eq!(&*sent_to(&group(&["", ""])).0, b"\xfe\xff\0\xe9");
    let found = |members: &[&str]| {
        diagnostics(&group(members).replacen("<endpoint>", "<endpoint name=\"e\">", 1)).concat()
    };
    assert_eq!(found(&["utf-8", ""]), "");
    assert!(found(&["utf-8", "utf-16"]).contains("all members get the `encoding` of the first"));
}
