//! Properties that Synapse gives a meaning.

use crate::host;
use crate::host::{
    ENDPOINTS, Outcome, World, begin, diagnostics, drive, echo, flow, program, proxy, request,
    response,
};
use penstock_mediation::{
    Answer, Ask, Body, BodyUse, Direction, Event, Format, Message, PlainHead, PropertyScope,
    PropertyValue,
};
use xpath::Budget;

fn set(name: &str, scope: &str) -> String {
    format!("<property name=\"{name}\" value=\"true\" scope=\"{scope}\"/>")
}

fn logged(expression: &str) -> String {
    format!("<log level=\"custom\"><property name=\"v\" expression=\"{expression}\"/></log>")
}

#[test]
fn the_client_of_an_accepted_message_does_not_wait_for_its_response() {
    let out = format!("<outSequence>{}<send/></outSequence>", logged("json-eval($.got)"));
    let accepts = |steps: &str| {
        let target = format!(" endpoint=\"a\"><inSequence>{steps}</inSequence>{out}");
        proxy("", &target, &echo)
    };
    let forced = accepts(&set("FORCE_SC_ACCEPTED", "axis2"));
    assert!(matches!(forced.outcome, Outcome::Accepted), "{forced:?}");
    assert_eq!(forced.log, ["v = 1"], "the run goes on, and its response goes nowhere");
    let silent = |_: &str, _: &str| None;
    let target = format!(" endpoint=\"a\"><inSequence>{}</inSequence>", set("OUT_ONLY", "default"));
    let ran = proxy("", &target, &silent);
    assert!(matches!(ran.outcome, Outcome::Accepted), "{ran:?}");
}

#[test]
fn a_message_that_failed_before_it_was_sent_is_not_accepted() {
    let fail = "<throwError type=\"T\" errorMessage=\"m\"/>";
    let steps = format!("{}{fail}", set("FORCE_SC_ACCEPTED", "axis2"));
    let ran = proxy("", &format!("><inSequence>{steps}</inSequence>"), &echo);
    assert_eq!(ran.failure().message, "m");
}

#[test]
fn a_soap_fault_is_a_failure_if_the_message_says_so() {
    let fault = |version: &str, body: &str| {
        let fault = format!(
            "<s:Envelope xmlns:s=\"{version}\"><s:Body><s:Fault>{body}</s:Fault></s:Body></s:Envelope>"
        );
        move |_: &str, _: &str| Some(Answer::Response(response(&fault)))
    };
    let soap11 = fault(
        "http://schemas.xmlsoap.org/soap/envelope/",
        "<faultcode>s:Server</faultcode><faultstring>no stock</faultstring>",
    );
    let soap12 = fault(
        "http://www.w3.org/2003/05/soap-envelope",
        "<s:Code/><s:Reason><s:Text>no stock</s:Text></s:Reason>",
    );
    let handler = format!(
        "<faultSequence>{}<respond/></faultSequence>",
        logged("concat($ctx:ERROR_CODE, ' ', $ctx:ERROR_MESSAGE)")
    );
    for step in
        ["<call><endpoint key=\"a\"/></call><respond/>", "<send><endpoint key=\"a\"/></send>"]
    {
        for soap in [&soap11 as &host::Endpoint, &soap12] {
            let steps = format!("{}{step}", set("FORCE_ERROR_ON_SOAP_FAULT", "default"));
            let ran = proxy("", &format!("><inSequence>{steps}</inSequence>{handler}"), soap);
            assert_eq!(ran.log, ["v = 500000 no stock"], "{step}");
            let ran = proxy("", &format!("><inSequence>{step}</inSequence>{handler}"), soap);
            assert!(ran.log.is_empty(), "{step}");
        }
    }
}

/// A request of unknown length, whose body streams.
fn chunked() -> Box<Message> {
    Message::new(Direction::Request, Box::<PlainHead>::default(), Body::streaming(Format::Json))
}

/// How the body of the first message that is sent reaches the host.
fn sent(steps: &str, message: Box<Message>) -> Box<Message> {
    let target = format!(
        "<target><inSequence>{steps}<send><endpoint key=\"a\"/></send></inSequence></target>"
    );
    let program = program(&format!("{ENDPOINTS}<proxy name=\"P\">{target}</proxy>"));
    let mut run = begin(&program, message);
    loop {
        match run.next(&World::default()) {
            Event::Ask(_, Ask::Exchange(exchange)) => return exchange.message,
            Event::Ask(id, Ask::Body(_)) => run.answer(id, Answer::Body("[1]".into())),
            event @ (Event::Ask(..)
            | Event::Respond(..)
            | Event::Accepted
            | Event::Failed(_)
            | Event::Heavy
            | Event::Waiting
            | Event::Done) => panic!("{event:?}"),
        }
    }
}

#[test]
fn a_body_of_unknown_length_is_held_if_it_must_not_be_chunked() {
    assert_eq!(sent("", chunked()).body.state(), BodyUse::Untouched);
    let disabled = set("DISABLE_CHUNKING", "axis2");
    for name in ["DISABLE_CHUNKING", "FORCE_HTTP_CONTENT_LENGTH", "FORCE_HTTP_1.0"] {
        let property = &set(name, "axis2");
        assert_eq!(sent(property, chunked()).body.state(), BodyUse::Read, "{property}");
    }
    let mut known = chunked();
    known.set_field("Content-Length", "3").unwrap();
    assert_eq!(sent(&disabled, known).body.state(), BodyUse::Untouched);
}

#[test]
fn the_content_type_is_what_the_property_says() {
    let steps =
        "<property name=\"ContentType\" value=\"application/vnd.order+json\" scope=\"axis2\"/>";
    let field = |message: &Message| message.head.field("Content-Type").unwrap().into_owned();
    assert_eq!(field(&sent(steps, chunked())), "application/vnd.order+json");
    let xml = "<property name=\"ContentType\" value=\"application/xml; v=2\" scope=\"axis2\"/>\
               <log level=\"custom\"><property name=\"v\" expression=\"json-eval($)\"/></log>";
    let message = sent(xml, chunked());
    assert_eq!(field(&message), "application/xml; v=2");
    assert!(message.body.text(&Budget::default()).unwrap().starts_with("<jsonArray"));
}

#[test]
fn a_property_of_the_client_scope_is_one_of_the_transport_unless_that_has_its_own() {
    let content_type = |steps: &str| {
        let message = sent(steps, chunked());
        message.head.field("Content-Type").unwrap().into_owned()
    };
    let set = |scope: &str, value: &str| {
        format!("<property name=\"messageType\" value=\"{value}\" scope=\"{scope}\"/>")
    };
    let client = set("axis2-client", "application/xml");
    assert_eq!(content_type(&client), "application/xml; charset=UTF-8");
    let both = format!("{}{client}", set("axis2", "application/json"));
    assert_eq!(content_type(&both), "application/json; charset=UTF-8");
}

#[test]
fn what_a_message_is_can_be_read_before_it_is_set() {
    let read = logged(
        "concat($axis2:messageType, '|', $axis2:ContentType, '|', get-property('axis2', 'NO_ENTITY_BODY'))",
    );
    let keep = "<property name=\"kept\" expression=\"$axis2:messageType\"/>";
    let set =
        |attribute: &str| format!("<property name=\"messageType\" {attribute} scope=\"axis2\"/>");
    let steps = format!(
        "{read}{keep}{}<call><endpoint key=\"a\"/></call>{}{read}<respond/>",
        set("value=\"application/xml\""),
        set("expression=\"$ctx:kept\""),
    );
    let returns = |_: &str, body: &str| Some(Answer::Response(response(body)));
    let ran = proxy("", &format!("><inSequence>{steps}</inSequence>"), &returns);
    let json = "v = application/json|application/json; charset=UTF-8|";
    let xml = "v = application/json|application/xml; charset=UTF-8|";
    assert_eq!(
        (ran.log.as_slice(), &*ran.body()),
        ([json, xml].map(str::to_owned).as_slice(), "1")
    );
    let target = format!("<target><inSequence>{read}<respond/></inSequence></target>");
    let program = program(&format!("<proxy name=\"P\">{target}</proxy>"));
    let empty = Body::held(Format::Binary, Vec::new());
    let message = Message::new(Direction::Request, Box::<PlainHead>::default(), empty);
    assert_eq!(drive(&program, flow(&program), message, &echo).log, ["v = ||true"]);
}

#[test]
fn a_content_type_names_no_charset_if_the_message_says_so() {
    let payload =
        "<payloadFactory media-type=\"json\"><format>[\"\u{e4}\"]</format><args/></payloadFactory>";
    let charset =
        "<property name=\"CHARACTER_SET_ENCODING\" value=\"ISO-8859-1\" scope=\"axis2\"/>";
    let value = |value: &str| {
        format!("<property name=\"setCharacterEncoding\" value=\"{value}\" scope=\"axis2\"/>")
    };
    let rows = [
        (payload.to_owned(), "application/json; charset=UTF-8"),
        (format!("{payload}{charset}"), "application/json; charset=ISO-8859-1"),
        (format!("{payload}{}", value("true")), "application/json; charset=UTF-8"),
        (format!("{payload}{}", value("false")), "application/json"),
        (format!("{payload}{charset}{}", value("false")), "application/json"),
    ];
    for (steps, expected) in rows {
        let message = sent(&steps, chunked());
        assert_eq!(message.head.field("Content-Type").as_deref(), Some(expected), "{steps}");
        let is_utf8 = !expected.ends_with("8859-1");
        let bytes = message.body.bytes(&Budget::default()).unwrap().unwrap();
        assert_eq!(std::str::from_utf8(&bytes).is_ok(), is_utf8, "{steps}");
    }
    // One that arrived and was read.
    let mut read = request("1");
    read.set_field("Content-Type", "application/json; v=2; charset=utf-8").unwrap();
    let message = sent(&value("false"), read);
    assert_eq!(message.head.field("Content-Type").as_deref(), Some("application/json; v=2"));
}

#[test]
fn a_soap_fault_is_returned_with_the_status_200_if_the_response_says_so() {
    let envelope = |inner: &str| {
        format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body>{inner}</s:Body></s:Envelope>"
        )
    };
    let fault = envelope(
        "<s:Fault><faultcode>s:Server</faultcode><faultstring>no stock</faultstring></s:Fault>",
    );
    let says = set("FAULTS_AS_HTTP_200", "axis2");
    let rows = [
        (&*says, 500, fault.clone(), 200),
        ("", 500, fault.clone(), 500),
        // The status is another one's, and no fault of SOAP.
        (&says, 404, fault, 404),
        (&says, 500, envelope("<a/>"), 500),
        (&says, 500, "{}".to_owned(), 500),
    ];
    for (says, status, body, expected) in rows {
        let returned = body.clone();
        let returns = move |_: &str, _: &str| {
            let mut response = response(&returned);
            let status = PropertyValue::new(status.to_string());
            response.set(PropertyScope::Axis2, "HTTP_SC", status, &Budget::default()).unwrap();
            Some(Answer::Response(response))
        };
        let status = format!("<property name=\"HTTP_SC\" value=\"{status}\" scope=\"axis2\"/>");
        for end in ["<respond/>", "<send/>", ""] {
            let target = format!(" endpoint=\"a\"><outSequence>{status}{says}{end}</outSequence>");
            let Outcome::Responded(message) = proxy("", &target, &returns).outcome else {
                panic!()
            };
            assert_eq!(message.status(), expected, "{says} {body}");
            assert_eq!(message.body.text(&Budget::default()).unwrap(), body);
        }
    }
}

#[test]
fn the_name_of_a_property_may_be_computed() {
    let steps = "<property name=\"which\" value=\"second\"/>\
                 <property name=\"{concat('the-', $ctx:which)}\" value=\"1\"/>\
                 <property name=\"${props.synapse.which}\" value=\"2\" scope=\"transport\"/>\
                 <log level=\"custom\"><property name=\"v\" expression=\"concat(get-property('the-second'), \
                 get-property('transport', get-property('which')))\"/></log><respond/>";
    let ran = proxy("", &format!("><inSequence>{steps}</inSequence>"), &echo);
    assert_eq!(ran.log, ["v = 12"]);
    let empty = "<property name=\"{$ctx:none}\" value=\"1\"/>";
    let ran = proxy("", &format!("><inSequence>{empty}</inSequence>"), &echo);
    assert!(ran.failure().message.contains("not the name of a property"), "{ran:?}");
}

#[test]
fn a_property_without_its_effect_is_a_warning_with_a_place() {
    let found = |property: &str| {
        diagnostics(&format!("<sequence name=\"s\">\n<property {property}/></sequence>")).join("")
    };
    for (name, scope) in [
        ("NO_DEFAULT_CONTENT_TYPE", "axis2"),
        ("NO_DEFAULT_CONTENT_TYPE", "axis2-client"),
        ("target.endpoint", "default"),
        ("RETRY_ON_SOAPFAULT", "default"),
        ("enableMTOM", "axis2"),
        ("enableSwA", "axis2"),
        ("HTTP_ETAG", "axis2"),
    ] {
        let warning = found(&format!("name=\"{name}\" value=\"s\" scope=\"{scope}\""));
        let expect = format!("test.xml:2:1: warning: the property `{name}` has no effect");
        assert!(warning.starts_with(&expect), "{warning}");
    }
    for fine in [
        "name=\"NO_DEFAULT_CONTENT_TYPE\" action=\"remove\" scope=\"axis2\"",
        "name=\"CHARACTER_SET_ENCODING\" value=\"UTF-8\" scope=\"axis2\"",
        "name=\"NO_DEFAULT_CONTENT_TYPE\" value=\"false\" scope=\"axis2\"",
        "name=\"NO_DEFAULT_CONTENT_TYPE\" value=\"true\"",
        "name=\"ClientApiNonBlocking\" value=\"true\" scope=\"axis2\"",
        "name=\"enableMTOM\" value=\"false\" scope=\"axis2\"",
        "name=\"DECODE_MULTIPART_DATA\" value=\"true\" scope=\"axis2\"",
        "name=\"SET_ROLLBACK_ONLY\" value=\"true\" scope=\"axis2\"",
    ] {
        assert_eq!(found(fine), "", "{fine}");
    }
}
