//! What must hold for every input; the fuzz targets call these.

use crate::reader::{Event, Reader};
use crate::{
    Builder, Doctype, Document, Input, Limits, Options, QNameRef, Sink, WriterOptions, XmlError,
};

fn options() -> Options {
    let limits = Limits { depth: 256, entity_bytes: 10_000, ..Limits::default() };
    Options { limits, doctype: Doctype::ReadInternal, base_uri: None }
}

/// Events and tree tell the same document or the same error.
///
/// # Panics
/// They don't.
pub fn read(data: &[u8]) {
    let tree = Document::parse_with(data, &options());
    match (tree, by_events(data)) {
        (Ok(tree), Ok(events)) => assert_eq!(write(&tree), write(&events), "tree and events"),
        (tree, events) => assert_eq!(tree.map(drop), events.map(drop), "tree and events"),
    }
}

/// What is written reads as what was written, in every encoding that can be written.
///
/// # Panics
/// It doesn't.
pub fn roundtrip(data: &[u8]) {
    let Ok(tree) = Document::parse_with(data, &options()) else { return };
    let once = write(&tree);
    for encoding in [
        crate::Encoding::Utf8,
        crate::Encoding::Utf16,
        crate::Encoding::UsAscii,
        crate::Encoding::Iso8859_1,
    ] {
        let chosen = WriterOptions { encoding, ..WriterOptions::default() };
        let Ok(bytes) = tree.write(chosen) else { continue };
        let again = Document::parse(&bytes).map(|again| write(&again));
        assert_eq!(again.as_ref(), Ok(&once), "{encoding:?}");
    }
}

fn write(document: &Document) -> Vec<u8> {
    document.write(WriterOptions::default()).unwrap_or_default()
}

fn by_events(data: &[u8]) -> Result<Document, XmlError> {
    let options = options();
    let input = Input::new(data, &options)?;
    let mut reader = Reader::new(&input);
    let mut builder = Builder::new();
    while let Some(event) = reader.next_event()? {
        let pushed = match event {
            Event::Start(start) => {
                let name = QNameRef::new(start.prefix(), start.namespace(), start.local_name());
                let mut pushed = builder.start_element(name);
                for (prefix, uri) in start.declarations().filter(|(prefix, _)| *prefix != "xml") {
                    pushed = pushed.and_then(|()| builder.namespace(prefix, uri));
                }
                for found in start.attributes() {
                    let name = QNameRef::new(found.prefix, found.namespace, found.local);
                    pushed = pushed.and_then(|()| builder.attribute(name, found.value));
                }
                pushed
            }
            Event::End => builder.end_element(),
            Event::Text(text) => builder.text(text),
            Event::Comment(text) => builder.comment(text),
            Event::ProcessingInstruction { target, data } => {
                builder.processing_instruction(target, data)
            }
        };
        assert_eq!(pushed, Ok(()), "what was read can be built");
    }
    Ok(builder.finish())
}
