//! The blocks of WS-Addressing that an endpoint adds.

use penstock_mediation::{Ask, Event, Exchange};
use xpath::Budget;

use crate::host::{
    World, begin, diagnostics, drive, first_exchange, flow, program, request, streaming,
};

/// The message at the endpoint `e` for a SOAP message that has blocks of WS-Addressing already.
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
    first_exchange(&program, message)
}

/// The header blocks of an envelope: namespace, name and text.
fn blocks(envelope: &[u8]) -> String {
    let document = xml::Document::parse(envelope).unwrap();
    let header = document.root().descendants().find(|node| node.local_name() == "Header").unwrap();
    let blocks = header.elements();
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
        let mut run = begin(&program, request(&long));
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
            "<endpoint><address uri=\"http://{name}/\"><enableAddressing/><retryConfig>\
             <enabledErrorCodes>101505</enabledErrorCodes></retryConfig></address></endpoint>"
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
