//! Parsers that must agree: this one with libxml2's `xmllint`, events with tree, and a document with its
//! serialised copy. The documents are generated from a fixed seed.

use std::process::Command;

use penstock_xml::reader::{Event, Reader};
use penstock_xml::{
    Builder, Doctype, Document, Error, ErrorKind, Input, Options, QNameRef, Sink, WriterOptions,
};

/// Pseudo-random numbers (xorshift).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}

const PIECES: [&str; 44] = [
    "<a>",
    "</a>",
    "<b/>",
    "<p:c xmlns:p='u'>",
    "</p:c>",
    "<p:d/>",
    "<a x='1'",
    " y=\"2\"",
    " x='3'",
    ">",
    "/>",
    "text",
    "&amp;",
    "&lt;",
    "&#65;",
    "&#0;",
    "&e;",
    "&",
    ";",
    "<![CDATA[",
    "]]>",
    "x<y",
    "<!--",
    "-->",
    "--",
    "<?pi data?>",
    "<?xml",
    "?>",
    "\n",
    "\t",
    " ",
    "'",
    "\"",
    "=",
    "é",
    "\u{1}",
    "\u{FFFE}",
    "xmlns='v'",
    "xmlns:q=''",
    " q:z=''",
    "<",
    "]]",
    "<e xml:space='preserve'/>",
    "<!DOCTYPE a>",
];

const SEEDS: [&str; 6] = [
    "<a><b/>text</a>",
    "<?xml version='1.0' encoding='UTF-8'?>\n<a x='1' y=\"&lt;\"><![CDATA[<x>]]>y</a>\n<!-- c -->",
    "<p:a xmlns:p='u' xmlns='v'><b p:x='1' x='2'>é&#233;</b><?t d?></p:a>",
    "<!DOCTYPE a [<!ENTITY e 'x<b/>y'><!ATTLIST a d CDATA 'z'>]><a>&e;&e;</a>",
    "<a>\r\n <b>&gt;]]</b>\r</a>",
    "<s:E xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'><s:B><o xmlns='w'>1</o></s:B></s:E>",
];

/// A seed document with some pieces inserted, removed or duplicated.
fn mutated(chance: &mut Chance) -> String {
    let mut chars: Vec<char> = SEEDS[chance.below(SEEDS.len())].chars().collect();
    for _ in 0..chance.below(4) {
        let at = chance.below(chars.len() + 1);
        match chance.below(4) {
            0 | 1 => drop(chars.splice(at..at, PIECES[chance.below(PIECES.len())].chars())),
            2 => drop(chars.splice(at..(at + 1 + chance.below(3)).min(chars.len()), [])),
            _ => {
                let end = (at + chance.below(12)).min(chars.len());
                let copy = chars[at..end].to_vec();
                chars.splice(end..end, copy);
            }
        }
    }
    chars.into_iter().collect()
}

fn options() -> Options {
    Options { doctype: Doctype::Read, ..Options::default() }
}

/// Errors that xmllint doesn't report, and why.
fn excused(ours: &Result<Document, Error>) -> Option<&'static str> {
    let Err(error) = ours else { return None };
    let kind = error.kind();
    if matches!(kind, ErrorKind::UnknownEntity(_)) {
        return Some("entities that an unread external subset might declare are rejected here");
    }
    let is_about_namespaces = matches!(
        kind,
        ErrorKind::UnboundPrefix(_)
            | ErrorKind::PrefixUnbound(_)
            | ErrorKind::ReservedPrefix(_)
            | ErrorKind::DuplicateAttribute(_)
            | ErrorKind::BadName(_)
            | ErrorKind::ReservedTarget(_)
    );
    is_about_namespaces.then_some("a namespace error; xmllint reports it and exits with 0")
}

#[test]
fn xmllint_accepts_and_rejects_the_same_documents() {
    let folder = tempfile::tempdir().unwrap();
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let documents: Vec<String> = (0..1_500).map(|_| mutated(&mut chance)).collect();
    let paths: Vec<_> =
        (0..documents.len()).map(|n| folder.path().join(format!("{n}.xml"))).collect();
    for (path, document) in paths.iter().zip(&documents) {
        std::fs::write(path, document).unwrap();
    }
    let output = Command::new("xmllint").arg("--noout").arg("--nonet").args(&paths).output();
    let output = output.expect("xmllint is missing: apt-get install libxml2-utils");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut differences = Vec::new();
    for (number, document) in documents.iter().enumerate() {
        let marker = format!("/{number}.xml:");
        // A namespace that isn't a URI is not an error (Namespaces in XML, section 2).
        let complains = |line: &str| {
            let is_error = line.contains("parser error") || line.contains("namespace error");
            line.contains(&marker) && is_error && !line.contains("is not a valid URI")
        };
        let theirs = !printed.lines().any(complains);
        let ours = Document::parse_with(document.as_bytes(), &options());
        if ours.is_ok() != theirs && !(theirs && excused(&ours).is_some()) {
            differences.push(format!(
                "{document:?}\n  ours: {:?}",
                ours.map(drop).map_err(|e| e.to_string())
            ));
        }
    }
    assert!(differences.is_empty(), "{}\n{}", differences.len(), differences.join("\n"));
}

/// The tree built from the reader's events.
fn by_events(document: &str) -> Result<Document, Error> {
    let options = options();
    let input = Input::new(document.as_bytes(), &options)?;
    let mut reader = Reader::new(&input);
    let mut builder = Builder::new();
    while let Some(event) = reader.next_event()? {
        match event {
            Event::Start(start) => {
                builder
                    .start_element(QNameRef::new(
                        start.prefix(),
                        start.namespace(),
                        start.local_name(),
                    ))
                    .unwrap();
                for (prefix, uri) in start.declarations().filter(|(prefix, _)| *prefix != "xml") {
                    builder.namespace(prefix, uri).unwrap();
                }
                for found in start.attributes() {
                    let name = QNameRef::new(found.prefix, found.namespace, found.local);
                    builder.attribute(name, found.value).unwrap();
                }
            }
            Event::End => builder.end_element().unwrap(),
            Event::Text(text) => builder.text(text).unwrap(),
            Event::Comment(text) => builder.comment(text).unwrap(),
            Event::ProcessingInstruction { target, data } => {
                builder.processing_instruction(target, data).unwrap();
            }
        }
    }
    Ok(builder.finish())
}

fn written(document: &Document) -> String {
    String::from_utf8(document.write(WriterOptions::default()).unwrap()).unwrap()
}

#[test]
fn events_tree_and_serialised_copies_agree() {
    let mut chance = Chance(0x0123_4567_89AB_CDEF);
    let mut accepted = 0;
    for _ in 0..4_000 {
        let document = mutated(&mut chance);
        let tree = Document::parse_with(document.as_bytes(), &options());
        let events = by_events(&document);
        let (tree, events) = match (tree, events) {
            (Ok(tree), Ok(events)) => (tree, events),
            (tree, events) => {
                assert_eq!(tree.map(drop), events.map(drop), "{document:?}");
                continue;
            }
        };
        accepted += 1;
        let once = written(&tree);
        assert_eq!(once, written(&events), "{document:?}");
        let again = Document::parse(once.as_bytes())
            .unwrap_or_else(|e| panic!("{document:?}\n{once}\n{e}"));
        assert_eq!(once, written(&again), "{document:?}");
        let mut copy = Document::new();
        for child in tree.root().children() {
            let child = copy.import(child).unwrap();
            copy.append(copy.root().id(), child).unwrap();
        }
        assert_eq!(once, written(&copy), "{document:?}");
    }
    assert!(accepted > 500, "{accepted}");
}
