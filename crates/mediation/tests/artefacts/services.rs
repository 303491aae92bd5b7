//! Proxies, inbound endpoints, and which artefacts are served.

use std::sync::Arc;

use penstock_mediation::{Code, Compiler, Flow};

use crate::host::{Outcome, compile, diagnostics, drive, echo, flow, program, refuse, request};

#[test]
fn an_endpoint_whose_wsdl_is_published_has_an_address() {
    let proxy = "<proxy name=\"P\"><target><inSequence><respond/></inSequence></target><publishWSDL endpoint=\"E\"/></proxy>";
    let found = |endpoint: &str| diagnostics(&format!("{proxy}{endpoint}")).concat();
    let missing = found("<endpoint name=\"F\"><address uri=\"http://a/\"/></endpoint>");
    assert!(missing.contains("warning: `publishWSDL`: there is no endpoint `E`"), "{missing}");
    let other = found("<endpoint name=\"E\"><http uri-template=\"http://a/\"/></endpoint>");
    assert!(
        other.contains("warning: `publishWSDL`: the endpoint `E` is not an `address`"),
        "{other}"
    );
    let program =
        program(&format!("{proxy}<endpoint name=\"E\"><address uri=\"http://a/b?c\"/></endpoint>"));
    let url = program.wsdl_url(&program.proxies()[0]);
    assert_eq!(url.as_deref(), Some("http://a/b?wsdl"));
}

#[test]
fn an_artefact_with_an_error_is_not_served_nor_is_one_that_uses_it() {
    let (program, found) = compile(
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
    let (program, found) = compile(&all);
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
        ("protocol=\"jms\"", port.to_owned(), "error: the inbound protocol `jms` is not supported"),
        (own, String::new(), "error: the inbound endpoint `b` has no port"),
        (own, port.replace("8085", "65536"), "error: `inbound.http.port` is `65536`"),
        (own, parameter("dispatch.filter.pattern", "("), "error: the pattern `(`"),
        (own, parameter("SSLVerifyClient", "require"), "error: `SSLVerifyClient` is not supported"),
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
    let (program, found) = compile(&two);
    assert!(
        found[0].starts_with("test.xml:2:1: error: port 8085 is used by the inbound endpoint `a`")
    );
    assert_eq!(program.inbounds().len(), 1);
    let broken = format!("<sequence name=\"s\"><lgo/></sequence>{}", inbound("a", own, port));
    assert_eq!(compile(&broken).0.inbounds().len(), 0, "its sequence has errors");
}

#[test]
fn the_first_of_two_artefacts_with_one_name_is_served() {
    let (program, found) = compile(
        "<sequence name=\"s\"><drop/></sequence><sequence name=\"s\"><respond/></sequence>",
    );
    assert!(found.iter().any(|text| text.contains("duplicate sequence `s`")), "{found:?}");
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
    let (program, found) = compile(&target("faultSequence=\"fault\""));
    let warned: Vec<_> = found.iter().map(|text| text.lines().next().unwrap()).collect();
    let warning = |name: &str| {
        format!(
            "test.xml:1:70: warning: there is no sequence `{name}`: that of Micro Integrator is used, which logs the message"
        )
    };
    assert_eq!(warned, [warning("main"), warning("fault")]);
    // Artefacts that name none are not changed.
    assert_eq!((program.sequence("main"), program.sequence("fault")), (None, None));
    let program = Arc::new(program);
    let ran = drive(&program, flow(&program), request("1"), &echo);
    assert_eq!(ran.body(), r#"{"from":"http://a/","got":1}"#);
    let ran = drive(&program, flow(&program), request("1"), &refuse);
    assert_eq!(ran.failure().code, Code::NOT_CONNECTED, "it drops the message: {ran:?}");
    assert!(ran.log[0].ends_with("ERROR_CODE = 101503, ERROR_MESSAGE = refused"), "{ran:?}");
    let own = "<sequence name=\"main\"/><sequence name=\"fault\"><respond/></sequence>";
    let (program, found) = compile(&format!("{own}{}", target("faultSequence=\"fault\"")));
    assert!(found.is_empty() && program.sequence("fault").is_some(), "{found:?}");
}

#[test]
fn a_proxy_may_have_all_transports() {
    let (program, found) =
        compile("<proxy name=\"P\" transports=\"all\"><target><inSequence/></target></proxy>");
    let transports = program.proxies().first().map(|proxy| proxy.transports);
    assert!(transports.is_some_and(|all| all.http && all.https), "{found:?}");
}

#[test]
fn a_proxy_is_served_over_http_whatever_its_other_transports() {
    let proxy = |transports: &str| {
        format!(
            "<proxy name=\"P\" transports=\"{transports}\"><target><inSequence/></target></proxy>"
        )
    };
    for (transports, expect) in
        [("jms,https", (false, true)), ("http vfs", (true, false)), ("mailto all", (true, true))]
    {
        let (program, found) = compile(&proxy(transports));
        let served = program.proxies().first().map(|proxy| proxy.transports);
        assert_eq!(served.map(|of| (of.http, of.https)), Some(expect), "{found:?}");
        assert!(matches!(&*found, [one] if one.contains("warning: the transport")), "{found:?}");
    }
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
