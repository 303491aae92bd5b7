//! Where messages are sent, and how.

use penstock_mediation::{Ask, Body, Code, Direction, Event, Format, Message, PlainHead, Run};
use xpath::Budget;

use crate::host::{
    ENDPOINTS, World, diagnostics, drive, echo, first_exchange, flow, program, proxy, request,
    streaming,
};

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
        let exchange = first_exchange(&program, message);
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

#[test]
fn the_scheme_of_a_request_chooses_the_port_of_a_member() {
    let url = |ports: &str, secure: bool| {
        let member = format!("<loadbalance><member hostName=\"h\"{ports}/></loadbalance>");
        let target = format!("<endpoint>{member}</endpoint>");
        let program = program(&format!("<proxy name=\"P\"><target>{target}</target></proxy>"));
        let mut message = request("1");
        message.arrival.secure = secure;
        let exchange = first_exchange(&program, message);
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
    let first = "<endpoint><address uri=\"http://a/\"><retryConfig><enabledErrorCodes>101505</enabledErrorCodes>\
                 </retryConfig></address></endpoint>";
    let group = |kind: &str| {
        format!(
            "<endpoint name=\"g\"><{kind}>{first}<endpoint><failover><endpoint key=\"b\"/></failover></endpoint></{kind}></endpoint>"
        )
    };
    for kind in ["loadbalance", "failover"] {
        let artefacts =
            format!("{ENDPOINTS}{}<proxy name=\"P\"><target endpoint=\"g\"/></proxy>", group(kind));
        let program = program(&artefacts);
        let exchange = first_exchange(&program, request("1"));
        let [first, second] = &*exchange.target.members else { panic!("{:?}", exchange.target) };
        assert_eq!((&*first.url, &*second.members[0].url), ("http://a/", "http://b/"), "{kind}");
        assert_eq!(exchange.target.endpoint, program.endpoint("g"));
    }
}

#[test]
fn a_failover_that_does_not_repeat_a_post_is_a_warning_at_the_group() {
    let member =
        |parts: &str| format!("<endpoint><address uri=\"http://h/\">{parts}</address></endpoint>");
    let codes = |name: &str| format!("<retryConfig><{name}>101504</{name}></retryConfig>");
    let by = |method: &str| {
        format!("<endpoint><http method=\"{method}\" uri-template=\"http://h/\"/></endpoint>")
    };
    let named = "<endpoint key=\"a\"/>";
    let (listed, plain) = (member(&codes("enabledErrorCodes")), member(""));
    // The endpoint `a` is defined behind the group.
    let found = |group: &str, members: &[&str], a: &str| {
        let members = members.concat();
        let group = format!("<endpoint name=\"g\">\n<{group}>{members}</{group}></endpoint>");
        let a = a.replacen("<endpoint>", "<endpoint name=\"a\">", 1);
        diagnostics(&format!("{group}{a}"))
    };
    for (members, a) in [([named, &*plain], &*plain), ([&by("post"), &by("get")], &plain)] {
        let found = found("failover", &members, a).concat();
        assert!(
            found.starts_with("test.xml:2:1: warning: a POST is not sent to the next member"),
            "{found}"
        );
        assert!(found.contains("`enabledErrorCodes`"), "{found}");
    }
    let fine: [(&str, &[&str], &str); 6] = [
        ("failover", &[&listed, &plain], &plain),
        ("failover", &[named, &plain], &listed),
        ("failover", &[&member(&codes("disabledErrorCodes")), &plain], &plain),
        ("failover", &[&by("get"), &by("put")], &plain),
        ("failover", &[&plain], &plain),
        ("loadbalance", &[&plain, &plain], &plain),
    ];
    for (group, members, a) in fine {
        assert_eq!(found(group, members, a), Vec::<String>::new(), "{group} {members:?}");
    }
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
        let exchange = first_exchange(&program, request("1"));
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
    let exchange = first_exchange(&program, request("1"));
    let sent = exchange.target;
    // RFC 7617 section 2.
    assert_eq!(sent.authorization.as_deref(), Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="));
    assert_eq!(sent.host.as_deref(), Some("me:81"));
    let bad = "><inSequence><property name=\"REQUEST_HOST_HEADER\" value=\"a b\" scope=\"axis2\"/></inSequence>\
               <endpoint key=\"a\"/>";
    assert!(proxy("", bad, &echo).failure().message.contains("not a host"));
}

#[test]
fn groups_may_say_when_synapse_reads_the_body() {
    for group in ["failover", "loadbalance", "recipientlist"] {
        let group = format!("<{group} buildMessage=\"true\"><endpoint key=\"a\"/></{group}>");
        let found = diagnostics(&format!("{ENDPOINTS}<endpoint name=\"g\">{group}</endpoint>"));
        assert!(found.is_empty(), "{found:?}");
    }
}

/// As `CHARACTER_SET_ENCODING`, which it sets.
#[test]
fn an_endpoint_says_in_which_charset_it_wants_bodies() {
    let address = |encoding: &str| {
        format!("<endpoint><address uri=\"http://a/\" encoding=\"{encoding}\"/></endpoint>")
    };
    let set = "<property name=\"CHARACTER_SET_ENCODING\" value=\"UTF-16\" scope=\"axis2\"/>";
    let sent_with = |endpoint: &str, others: &str| {
        let proxy = format!(
            "<proxy name=\"P\"><target><inSequence><payloadFactory media-type=\"text\"><format>é</format></payloadFactory>{set}\
             </inSequence>{endpoint}</target></proxy>"
        );
        let program = program(&format!("{proxy}{others}"));
        let flow = flow(&program);
        let mut run = Run::new(program, flow, request("1"), Budget::default());
        let Event::Ask(_, Ask::Exchange(exchange)) = run.next_heavy(&World::default()) else {
            panic!()
        };
        let bytes = exchange.message.body.bytes(&Budget::default()).unwrap().unwrap();
        let content_type = exchange.message.head.field("Content-Type").unwrap().into_owned();
        (bytes, content_type)
    };
    let sent_to = |endpoint: &str| sent_with(endpoint, "");
    let sent = |encoding: &str| sent_to(&address(encoding));
    let (bytes, content_type) = sent("ISO-8859-1");
    assert_eq!(&*bytes, b"\xe9");
    assert!(content_type.ends_with("charset=ISO-8859-1"), "{content_type}");
    assert_eq!(&*sent("UTF-8").0, "é".as_bytes());
    let wrong = "<endpoint name=\"e\"><address uri=\"http://a/\" encoding=\"none\"/></endpoint>";
    assert!(diagnostics(wrong).concat().contains("unknown charset `none` in `encoding`"));
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
    // Members may be defined behind the group.
    let by_name = |members: &[&str]| {
        let named = |(at, encoding): (usize, &&str)| {
            address(encoding).replacen("<endpoint>", &format!("<endpoint name=\"m{at}\">"), 1)
        };
        let keys = (0..members.len()).map(|at| format!("<endpoint key=\"m{at}\"/>"));
        let keys: String = keys.collect();
        let named: String = members.iter().enumerate().map(named).collect();
        format!("<endpoint name=\"g\"><loadbalance>{keys}</loadbalance></endpoint>{named}")
    };
    let found = diagnostics(&by_name(&["utf-8", "utf-16"])).concat();
    assert!(found.contains("all members get the `encoding` of the first"), "{found}");
    let named = by_name(&["", "windows-1252"]);
    assert_eq!(&*sent_with("<endpoint key=\"g\"/>", &named).0, b"\xe9");
}

#[test]
fn what_members_have_of_their_own_is_reported_wherever_they_are_defined() {
    let group = "<endpoint name=\"g\">\n<failover><endpoint key=\"a\"/><endpoint key=\"b\"/></failover></endpoint>";
    let address = |name: &str, inner: &str, of: &str| {
        format!(
            "<endpoint name=\"{name}\"><address uri=\"http://h/\" {of}>{inner}</address></endpoint>"
        )
    };
    let property = "<endpoint name=\"a\"><address uri=\"http://h/\"/><property name=\"x\" value=\"1\"/></endpoint>";
    let get = |name: &str| {
        format!(
            "<endpoint name=\"{name}\"><http method=\"get\" uri-template=\"http://h/\"/></endpoint>"
        )
    };
    let discards =
        "<timeout><duration>1</duration><responseAction>discard</responseAction></timeout>";
    for (members, expect) in [
        (
            [property.to_owned(), get("b")],
            "test.xml:2:1: error: properties of members are not supported",
        ),
        (
            [address("a", "", "format=\"get\""), address("b", "", "format=\"soap11\"")],
            "test.xml:2:1: warning: all members get the `format` of the first that has one",
        ),
        (
            [address("a", discards, "format=\"get\""), get("b")],
            "test.xml:2:1: warning: `discard` of a member has no effect",
        ),
    ] {
        let members = members.concat();
        for artefacts in [format!("{group}{members}"), format!("\n{members}{group}")] {
            let found = diagnostics(&artefacts).join("\n");
            let expect = if artefacts.starts_with('\n') {
                expect.replacen(":2:", ":3:", 1)
            } else {
                expect.to_owned()
            };
            assert!(found.contains(&expect), "{artefacts}: {found}");
        }
    }
    let (program, _) = crate::host::compile(&format!("{group}{property}{}", get("b")));
    assert!(program.endpoint("g").is_none() && program.endpoint("b").is_some(), "it has an error");
}
