//! Properties that hold for any artefact, message and body, for fuzz targets and tests.

use std::path::Path;
use std::sync::Arc;

use expression::{json, mapping};
use model::{Api, Operation, Place, Policies, Policy, Security};
use xpath::Budget;

use crate::compile::Origin;
use crate::error::{Code, Failure};
use crate::message::charset::Charset;
use crate::message::{
    Body, BodyCoding as Coding, Direction, Format, Message, PlainHead, PropertyScope,
    PropertyValue, charset, is_token,
};
use crate::policies::ApiPolicies;
use crate::program::{Environment, Flow, LogLevel, Program, SequenceId};
use crate::run::{Answer, Ask, Event, Run};
use crate::syntax::Compiler;

/// The budget of a run, so that no input takes long.
const STEPS: u64 = 20_000;
const BYTES: u64 = 16 << 20;

struct Nobody;

impl Environment for Nobody {
    fn unix_ms(&self) -> i64 {
        0
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

/// Runs every sequence of the input on a body, separated by a zero byte: artefacts are compiled or rejected with a
/// place, and runs end within their budget.
///
/// # Panics
/// If the property does not hold.
pub fn sequences(input: &[u8]) {
    run_all(input);
}

/// Returns the number of sequences.
fn run_all(input: &[u8]) -> usize {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    let (artefact, body) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(document) = xml::Document::parse(artefact) else { return 0 };
    let origin = Origin { file: Path::new("a.xml"), document: &document };
    let (program, diagnostics) = Compiler::compile(&[origin]);
    for diagnostic in diagnostics {
        assert!(diagnostic.place.is_some() && !diagnostic.message.is_empty(), "{diagnostic}");
    }
    let program = Arc::new(program);
    let sequences: Vec<SequenceId> = program.sequences().map(|(_, id)| id).collect();
    for sequence in &sequences {
        run(&program, *sequence, body);
    }
    sequences.len()
}

/// Endpoints return the body; every second one fails.
fn run(program: &Arc<Program>, sequence: SequenceId, body: &[u8]) {
    const ASKS_MAX: usize = 200;
    let message = || {
        let body = Body::held(Format::guess(body), body.to_vec());
        Message::new(Direction::Request, Box::<PlainHead>::default(), body)
    };
    let flow = Flow { request: Some(sequence), response: Some(sequence), ..Flow::default() };
    let budget = Budget::new(STEPS, BYTES);
    let mut run = Run::new(Arc::clone(program), flow, message(), budget);
    let (mut asks, mut responses) = (0, 0);
    loop {
        match run.next_heavy(&Nobody) {
            Event::Ask(id, ask) => {
                asks += 1;
                if asks > ASKS_MAX {
                    return;
                }
                run.answer(
                    id,
                    match ask {
                        Ask::Exchange(_) if asks % 2 == 1 => Answer::Response(message()),
                        Ask::Exchange(_) => {
                            Answer::Failed(Failure::new(Code::NOT_CONNECTED, "refused"), None)
                        }
                        Ask::Body(_) => Answer::Body(body.to_vec().into()),
                        Ask::Timer(_) => Answer::Elapsed,
                    },
                );
            }
            Event::Respond(..) | Event::Failed(_) | Event::Accepted => {
                responses += 1;
                assert_eq!(responses, 1, "a client has one response");
            }
            Event::Heavy | Event::Waiting => panic!("nothing is heavy, and all is answered"),
            Event::Done => return,
        }
    }
}

/// A compressed body, after a byte for the coding, is decoded within its limits, or malformed. So is one in a charset,
/// and text in one byte for each character is written as it was read.
///
/// # Panics
/// If the property does not hold.
pub fn coding(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    let coding = if kind % 2 == 0 { Coding::Gzip } else { Coding::Deflate };
    let most = if kind % 4 < 2 { 1_000 } else { 1_000_000 };
    let budget = Budget::new(10 * STEPS, BYTES);
    match coding.decode(bytes, most, &budget) {
        Ok(decoded) => {
            assert!(decoded.len() <= most, "{} bytes", decoded.len());
            assert_eq!(budget.bytes_used(), decoded.len() as u64);
        }
        Err(failure) => assert!(!failure.message.is_empty()),
    }
    let declared = charset::of_xml(bytes, &Charset::Utf16);
    for charset in
        ["gb18030", "windows-1252", "koi8-r"].map(Charset::named).into_iter().chain([declared])
    {
        let budget = Budget::new(10 * STEPS, BYTES);
        let Ok(text) = charset.decode(bytes, &budget) else { continue };
        assert!(budget.bytes_used() >= text.len() as u64, "{charset:?}");
        let written = charset.encode(&text, Format::Xml, &budget);
        // The others have characters that they do not write.
        if [Charset::named("windows-1252"), Charset::named("koi8-r")].contains(&charset) {
            assert_eq!(written.as_deref(), Ok(bytes), "{charset:?}");
        }
    }
}

/// A form, a multipart body with the boundary `B`, or an envelope with attachments, by the first byte: the text written
/// after an edit is read again as the same, with the boundary in its content type.
///
/// # Panics
/// If the property does not hold.
pub fn form(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    let content_type = match kind % 3 {
        0 => "application/x-www-form-urlencoded",
        1 => "multipart/form-data; boundary=B",
        _ => "multipart/related; type=\"text/xml\"; boundary=B",
    };
    let budget = Budget::large();
    let message = |bytes: Vec<u8>, content_type: &str| {
        let fields = vec![("Content-Type".to_owned(), content_type.to_owned())];
        let head = PlainHead { fields, ..PlainHead::default() };
        let body = Body::held(Format::of(content_type), bytes);
        Message::new(Direction::Request, Box::new(head), body)
    };
    let read = |message: &Message| {
        let document = message.body.xml(&budget).ok()??;
        document.write(xml::WriterOptions::default()).ok()
    };
    let mut edited = message(bytes.to_vec(), content_type);
    let Some(before) = read(&edited) else { return };
    if edited.body.edit_xml(&budget).ok().flatten().is_none() {
        return;
    }
    let written = edited.finish(&budget).unwrap_or_else(|failure| panic!("{failure}"));
    let content_type = edited.head.field("Content-Type").unwrap_or_default();
    let again = message(written.unwrap_or_default().to_vec(), &content_type);
    let after = read(&again).unwrap_or_default();
    assert_eq!(String::from_utf8_lossy(&before), String::from_utf8_lossy(&after));
}

/// For any answer of an interceptor service, the client gets one response, and no part of the answer is in a head that
/// could not be written.
///
/// # Panics
/// If the property does not hold.
pub fn interceptor(answer: &[u8]) {
    let service = |includes: &str| {
        let parameters = [("interceptorServiceURL", "http://service"), ("includes", includes)];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Policy {
            name: "callInterceptorService".to_owned(),
            parameters: parameters.map(owned).to_vec(),
            place: Place { line: 1, column: 1 },
        }
    };
    let policies = Policies {
        request: vec![service("request_headers, request_body")],
        response: vec![service("response_headers, response_body")],
        fault: Vec::new(),
    };
    let operation = Operation {
        method: base::Method::Post,
        template: "/*".to_owned(),
        security: Security::Open,
        production: None,
        sandbox: None,
        plan: None,
        policies: Some(Arc::new(policies)),
        response_cache: None,
    };
    let api = Api {
        operations: vec![operation],
        ..Api::new(String::new(), String::new(), "/a".to_owned())
    };
    let compiled = ApiPolicies::compile(&api).expect("it has policies");
    let flow = compiled.operations.first().copied().flatten().expect("its operation, too").flow;
    let body = Body::held(Format::Text, b"sent".to_vec());
    let request = Message::new(Direction::Request, Box::<PlainHead>::default(), body);
    let budget = Budget::new(10 * STEPS, BYTES);
    let mut run = Run::new(Arc::clone(&compiled.program), flow, request, budget);
    let (mut asks, mut responses) = (0, 0);
    let response = || {
        let body = Body::held(Format::Json, answer.to_vec());
        let mut response = Message::new(Direction::Response, Box::<PlainHead>::default(), body);
        let status = PropertyValue::new("200");
        let set = response.set(PropertyScope::Axis2, "HTTP_SC", status, &Budget::large());
        set.map(|()| response).expect("the budget suffices")
    };
    loop {
        match run.next_heavy(&Nobody) {
            Event::Ask(id, Ask::Exchange(exchange)) => {
                asks += 1;
                assert!(asks <= 3, "a service, the upstream, and a service");
                head_can_be_written(&exchange.message);
                run.answer(id, Answer::Response(response()));
            }
            Event::Ask(..) | Event::Heavy | Event::Waiting | Event::Accepted => {
                panic!("nothing streams, and all is answered")
            }
            Event::Respond(message, _) => {
                responses += 1;
                head_can_be_written(&message);
            }
            Event::Failed(failure) => {
                responses += 1;
                assert!(!failure.message.is_empty());
            }
            Event::Done => break,
        }
    }
    assert_eq!(responses, 1, "a client has one response");
}

fn head_can_be_written(message: &Message) {
    message.head.fields(&mut |name, value| {
        assert!(is_token(name), "{name:?}");
        assert!(!value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{value:?}");
    });
}

/// Settings of the mapping, which a round trip stands.
const MAPPINGS: [&[(&str, &str)]; 3] = [
    &[],
    &[
        ("synapse.commons.json.output.xmloutMultiplePI", "true"),
        ("synapse.commons.enableXmlNilReadWrite", "true"),
        ("synapse.commons.enableXmlNullForEmptyElement", "false"),
    ],
    &[
        ("synapse.commons.json.output.autoPrimitive", "false"),
        ("synapse.commons.json.preserve.namespace", "true"),
    ],
];

/// JSON that became XML and JSON again does not change any more.
///
/// # Panics
/// If the property does not hold.
pub fn mapping(input: &[u8]) {
    for properties in MAPPINGS {
        let mut rules = mapping::Rules::DEFAULT;
        for (name, value) in properties {
            rules.set(name, value).unwrap_or_else(|error| panic!("{error}"));
        }
        mapping_with(&rules, input);
    }
}

fn mapping_with(rules: &mapping::Rules, input: &[u8]) {
    let budget = Budget::large();
    let round = |document: &json::Document<'_>| {
        let xml = mapping::to_xml(document.root(), rules, &budget).ok()?;
        let bytes = xml.write(xml::WriterOptions::default()).ok()?;
        let read = xml::Document::parse(&bytes);
        let read = read.unwrap_or_else(|error| panic!("{error}: {}", document.text()));
        mapping::to_json(read.element()?, rules, &budget).ok()
    };
    let Ok(document) = json::Document::parse(input) else { return };
    views(&document, &budget);
    let Some(once) = round(&document) else { return };
    let twice = round(&once).unwrap_or_else(|| panic!("{}", once.text()));
    assert_eq!(once.text(), twice.text());
}

/// A body whose views were read, and which was converted to the format that it has, is the same bytes.
fn views(document: &json::Document<'_>, budget: &Budget) {
    let bytes = document.text().as_bytes();
    let head = PlainHead {
        fields: vec![("Content-Type".to_owned(), "application/json".to_owned())],
        ..PlainHead::default()
    };
    let body = Body::held(Format::Json, bytes.to_vec());
    let mut message = Message::new(Direction::Request, Box::new(head), body);
    let _ = message.body.xml(budget);
    let _ = message.body.payload(budget);
    let _ = message.body.json(budget);
    let written = message.finish(budget).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(written.as_deref(), Some(bytes));
    // Nor does one change that was edited as XML, but in nothing.
    if let Ok(Some(_)) = message.body.edit_xml(budget) {
        let written = message.finish(budget).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(written.as_deref(), Some(document.root().raw().as_bytes()));
    }
    // The value that an expression takes out of a body is a part of its text.
    if let Ok(Some(document)) = message.body.json(budget) {
        for value in document.root().descendants() {
            let copy = PropertyValue::from(expression::Value::Json(value));
            if let PropertyValue::Json(copy) = copy {
                assert_eq!(copy.text(), value.raw());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop};
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    /// With others inside them or behind them.
    const STEPS_OF_ALL_KINDS: &[&str] = &[
        "<send><endpoint><address uri=\"http://a/\"/></endpoint></send>",
        "<call><endpoint><address uri=\"http://a/\"/></endpoint></call>",
        "<send receive=\"s\"><endpoint><address uri=\"http://a/\"/></endpoint></send>",
        "<respond/>",
        "<loopback/>",
        "<drop/>",
        "<throwError type=\"T\" errorMessage=\"m\"/>",
        "<sequence key=\"s\"/>",
        "<property name=\"OUT_ONLY\" value=\"true\"/>",
        "<property name=\"FORCE_SC_ACCEPTED\" value=\"true\" scope=\"axis2\"/>",
        "<clone continueParent=\"true\"><target><sequence>INNER</sequence></target><target sequence=\"s\"/></clone>",
        "<clone><target><sequence>INNER</sequence></target></clone>",
        "<iterate expression=\"json-eval($)\"><target><sequence>INNER</sequence></target></iterate>",
        "<iterate expression=\"//*\"><target><sequence>INNER</sequence></target></iterate>",
        "<aggregate><onComplete>INNER</onComplete></aggregate>",
        "<foreach expression=\"//b\"><sequence>INNER</sequence></foreach>",
        "<foreach collection=\"${payload}\"><sequence>INNER</sequence></foreach>",
        "<scatter-gather><aggregation timeout=\"1\"/><sequence>INNER</sequence><sequence key=\"h\"/></scatter-gather>",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::default())]

        #[test]
        fn any_program_ends_with_at_most_one_response(
            steps in prop::collection::vec(0..STEPS_OF_ALL_KINDS.len(), 1..12),
            body in prop::sample::select(vec!["[1,[2,3]]", "<a><b/><b/></a>", "{", ""]),
        ) {
            let steps = steps.iter().rev().filter_map(|at| STEPS_OF_ALL_KINDS.get(*at));
            let inner = steps.fold(String::new(), |inner, step| {
                if step.contains("INNER") { step.replace("INNER", &inner) } else { format!("{step}{inner}") }
            });
            let artefact = format!(
                "<definitions xmlns=\"http://ws.apache.org/ns/synapse\"><sequence name=\"s\" onError=\"h\">{inner}</sequence>\
                 <sequence name=\"h\"><respond/></sequence></definitions>\0{body}"
            );
            prop_assert_eq!(run_all(artefact.as_bytes()), 2);
        }

        #[test]
        fn any_answer_of_a_service_has_a_response(
            status in 0_u16..700,
            name in "[ -~]{0,4}",
            value in any::<String>(),
            body in any::<Vec<u8>>(),
        ) {
            let answer = serde_json::json!({
                "directRespond": status % 2 == 0,
                "responseCode": status,
                "headersToAdd": {&name: &value},
                "headersToReplace": {"Content-Type": &value, "Content-Encoding": "gzip"},
                "body": xpath::encoding::base64_encode(&body),
            });
            interceptor(answer.to_string().as_bytes());
            interceptor(value.as_bytes());
            coding(&body);
        }

        #[test]
        fn any_form_is_what_was_written(
            name in "[ -~\\r\\n\"é]{0,5}",
            media in "[ -~]{0,5}",
            text in "(\\r\\n)?(--B)?[ -~é\\r\\n]{0,9}",
            content in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            form(format!("\0a={text}&{name}={media}").as_bytes());
            let name = name.replace(['"', '\r', '\n'], "%22");
            let head = format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"");
            let text = format!("\u{1}{head}\r\nContent-Type: {media}\r\n\r\n{text}\r\n");
            form(format!("{text}--B--").as_bytes());
            let file = format!("{head}; filename=\"{media}\"\r\n\r\n");
            form(&[text.as_bytes(), file.as_bytes(), &content, b"\r\n--B--\r\n"].concat());
            prop_assert!(true);
        }

        #[test]
        fn any_json_survives_a_second_round(
            names in prop::collection::vec("[@$a-c0-2 é_x-]{0,4}", 1..6),
            text in any::<String>(),
        ) {
            let mut builder = json::Builder::new();
            builder.begin_object();
            for name in &names {
                builder.key(name);
                builder.string(&text);
            }
            builder.key("list").begin_array();
            for name in &names {
                builder.string(name);
            }
            builder.end().end();
            let document = builder.finish();
            mapping(document.text().as_bytes());
            prop_assert!(true);
        }
    }
}
