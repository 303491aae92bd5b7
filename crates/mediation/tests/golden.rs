//! Mediators on messages: `golden/<element>/<case>.golden` has artefacts, messages, and the result of each.
//! `PENSTOCK_BLESS=1` writes the results anew.
//!
//! A file begins with `== artefacts`: the sequence `main`, or a proxy, and the artefacts that they use. `== message
//! CONTENT-TYPE` or `== message METHOD TARGET CONTENT-TYPE` is a request and its body, whose lines end as MIME's if it
//! is multipart; `== time MS` advances the clock. Endpoints return their requests, except `http://refused/`, which
//! refuses connections.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::host::{Outcome, Ran, World, compile, drive_in, refuse, response};
use penstock_mediation::{
    Answer, Body, Direction, Flow, Format, MEDIATORS, Message, PlainHead, Program, PropertyScope,
    Run,
};
use xpath::Budget;

/// The sections of a file: title and text.
fn sections(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("\n== ").map(|part| part.trim_start_matches("== "));
    parts.map(|part| part.split_once('\n').unwrap_or((part, ""))).collect()
}

/// The file with the results that its artefacts and messages have.
fn blessed(text: &str) -> String {
    let mut all = sections(text).into_iter();
    let Some(("artefacts", artefacts)) = all.next() else { panic!("no artefacts: {text}") };
    let artefacts = artefacts.trim_end();
    let mut made = format!("== artefacts\n{artefacts}\n");
    // The resulting message is the response.
    let responds = "<sequence name=\"run\"><sequence key=\"main\"/><respond/></sequence>";
    let has_main = artefacts.contains("name=\"main\"");
    let whole = format!("{artefacts}{}", if has_main { responds } else { "" });
    let (program, diagnostics) = compile(&whole);
    if !diagnostics.is_empty() {
        let _ = writeln!(made, "== diagnostics\n{}", diagnostics.join("\n"));
    }
    if diagnostics.iter().any(|diagnostic| diagnostic.contains(": error: ")) {
        return made;
    }
    let world = World::of(&program);
    let program = Arc::new(program);
    for (title, text) in all {
        let text = text.trim_end_matches('\n');
        if let Some(ms) = title.strip_prefix("time ") {
            world.advance(ms.parse().unwrap());
            let _ = writeln!(made, "\n== {title}");
        } else if let Some(of) = title.strip_prefix("message ") {
            let run = Run::new(
                Arc::clone(&program),
                flow(&program),
                message(of, text),
                Budget::default(),
            );
            let ran = drive_in(&world, run, &echo);
            let _ = write!(made, "\n== {title}\n{text}\n{}", shown(&ran));
        }
    }
    made
}

fn flow(program: &Program) -> Flow {
    match program.proxies() {
        [proxy] => proxy.flow,
        _ => Flow {
            request: program.sequence("run"),
            response: program.sequence("out"),
            fault: program.sequence("fault"),
            ..Flow::default()
        },
    }
}

fn message(title: &str, body: &str) -> Box<Message> {
    let words: Vec<_> = title.splitn(3, ' ').collect();
    let (method, target, content_type) = match *words {
        [method, target, content_type] if target.starts_with('/') => (method, target, content_type),
        _ => ("POST", "/orders", title),
    };
    let head = PlainHead {
        method: method.to_owned(),
        target: target.to_owned(),
        fields: vec![("Content-Type".to_owned(), content_type.to_owned())],
    };
    let is_multipart = content_type.starts_with("multipart/");
    let body = if is_multipart { body.replace('\n', "\r\n") } else { body.to_owned() };
    let body = Body::held(Format::of(content_type), body.into_bytes());
    Message::new(Direction::Request, Box::new(head), body)
}

fn echo(url: &str, body: &str) -> Option<Answer> {
    if url.starts_with("http://refused/") {
        return refuse(url, body);
    }
    let body = match body {
        "" => format!("{{\"from\":\"{url}\"}}"),
        body if body.starts_with('<') => format!("<from url=\"{url}\">{body}</from>"),
        body => format!("{{\"from\":\"{url}\",\"got\":{body}}}"),
    };
    Some(Answer::Response(response(&body)))
}

fn shown(ran: &Ran) -> String {
    let mut text = String::new();
    for sent in &ran.sent {
        let _ = writeln!(text, "== sent\n{sent}");
    }
    match &ran.outcome {
        Outcome::Nothing => text.push_str("== no response\n"),
        Outcome::Accepted => text.push_str("== accepted\n"),
        Outcome::Failed(failure) => {
            let place = failure.place.as_deref().unwrap_or_default();
            let _ = writeln!(text, "== failure {} in {place}\n{failure}", failure.code.0);
        }
        Outcome::Responded(message) => {
            let status = message.properties.get(PropertyScope::Axis2, "HTTP_SC");
            let status = status.map(|status| format!(" {}", status.text())).unwrap_or_default();
            let _ = writeln!(text, "== response{status}");
            message.head.fields(&mut |name, value| {
                let _ = writeln!(text, "{name}: {value}");
            });
            let body = message.body.bytes(&Budget::default()).unwrap().unwrap_or_default();
            if !body.is_empty() {
                let body = String::from_utf8_lossy(&body).replace("\r\n", "\n");
                let _ = writeln!(text, "\n{body}");
            }
        }
    }
    if !ran.log.is_empty() {
        let _ = writeln!(text, "== log\n{}", ran.log.join("\n"));
    }
    text
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    all.sort();
    all
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn mediators_do_what_their_files_say() {
    let mut differences = String::new();
    for path in files(&golden()).iter().flat_map(|folder| files(folder)) {
        let folder = path.parent().unwrap();
        let is_of = |names: &[&str]| names.iter().any(|name| folder.ends_with(name));
        let is_absent = is_of(&["script"]) && !cfg!(feature = "script")
            || is_of(&["validate", "jsontransform"]) && !cfg!(feature = "validate");
        if is_absent {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let made = blessed(&text);
        if std::env::var_os("PENSTOCK_BLESS").is_some() {
            std::fs::write(&path, &made).unwrap();
        } else if made != text {
            let _ = writeln!(differences, "{}:\n{made}", path.display());
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn every_mediator_has_files_that_work_and_files_that_fail() {
    for row in MEDIATORS {
        let cases = files(&golden().join(row.element));
        let texts: Vec<_> =
            cases.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
        let has = |titles: &[&str]| {
            texts.iter().any(|text| titles.iter().any(|title| text.contains(title)))
        };
        let element = row.element;
        assert!(has(&["\n== response", "\n== no response"]), "`{element}` has no file that works");
        assert!(has(&["\n== diagnostics", "\n== failure"]), "`{element}` has no file that fails");
    }
}
