//! Properties that hold for every input; called by the fuzz targets.

use crate::input::BYTES_OF_A_DOCUMENT;
use crate::reader::{Event, EventFeed, FeedEvent, Reader};
use crate::{
    Builder, Doctype, Document, DocumentFeed, Error, ErrorKind, Input, Limits, Node, Options,
    QNameRef, Sink, WriterOptions,
};

fn options() -> Options {
    let limits = Limits { depth: 256, entity_bytes: 10_000, ..Limits::default() };
    Options { limits, doctype: Doctype::Read, base_uri: None }
}

/// Events and tree have the same content, or the same error. The source of an element is that element.
///
/// # Panics
/// If the property is violated.
pub fn read(data: &[u8]) {
    let tree = Document::parse_with(data, &options());
    if let Some(root) = tree.as_ref().ok().and_then(Document::element) {
        let below = root.elements().take(4);
        std::iter::once(root).chain(below).for_each(is_its_source);
    }
    match (tree, by_events(data)) {
        (Ok(tree), Ok(events)) => assert_eq!(write(&tree), write(&events), "tree and events"),
        (tree, events) => assert_eq!(tree.map(drop), events.map(drop), "tree and events"),
    }
}

/// The source of an element parses to that element if the namespaces around it are declared.
fn is_its_source(element: Node<'_>) {
    let Some(source) = element.source() else { return };
    let in_scope = || element.namespaces_in_scope().filter(|(prefix, _)| *prefix != "xml");
    let default = in_scope().find(|(prefix, _)| prefix.is_empty()).map_or("", |(_, uri)| uri);
    let around = || {
        let mut around = crate::Writer::new(WriterOptions::default())?;
        around.start_element(QNameRef::new("", default, "around"))?;
        for (prefix, uri) in in_scope() {
            around.namespace(prefix, uri)?;
        }
        around.raw(source)?;
        around.finish()
    };
    let deeper = Limits { depth: 257, ..options().limits };
    let around = around().expect("it was read");
    let read = Document::parse_with(&around, &Options { limits: deeper, ..options() });
    let read = read.unwrap_or_else(|error| panic!("{error} in {source}"));
    let again = read.element().and_then(Node::first_child).expect("it was written");
    assert_eq!(write(&again.to_document()), write(&element.to_document()), "{source}");
}

/// A serialised document parses to the same tree, in every encoding that can be written.
///
/// # Panics
/// If the property is violated.
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

/// Feeding pieces gives the tree, the events and the error of the whole, wherever the input is cut: after
/// every byte, once at each place if it is short, and at pseudo-random places.
///
/// # Panics
/// If the property is violated.
pub fn feed(data: &[u8]) {
    feed_with(data, &options());
    if memchr::memmem::find(data, b"DOCTYPE").is_some() {
        feed_with(data, &Options { doctype: Doctype::Reject, ..options() });
    }
}

/// As [`feed`], with the options given.
///
/// # Panics
/// As [`feed`].
pub fn feed_with(data: &[u8], options: &Options) {
    // For fuzzing, many inputs are worth more than many cuts.
    const FEW: usize = if cfg!(test) { 128 } else { 16 };
    let whole = Whole::of(data, options);
    let every: Vec<usize> = (1..data.len()).collect();
    whole.check(data, options, &every);
    whole.check(data, options, &[]);
    if data.len() <= FEW {
        every.iter().for_each(|&cut| whole.check(data, options, &[cut]));
    }
    let mut random = Random::of(data);
    for most in [3, 16, 1_024] {
        let cuts = random.cuts(data.len(), most);
        whole.check(data, options, &cuts);
    }
}

/// The result of parsing the whole input.
struct Whole {
    tree: Result<Vec<String>, Error>,
    /// Events before the end or the error.
    events: Vec<String>,
    end: Result<(), Error>,
}

impl Whole {
    fn of(data: &[u8], options: &Options) -> Self {
        let tree = Document::parse_with(data, options).map(|tree| described(&tree));
        let mut events = Vec::new();
        let end = Input::new(data, options).and_then(|input| {
            let mut reader = Reader::new(&input);
            while let Some(event) = reader.next_event()? {
                events.push(event_text(&event));
            }
            Ok(())
        });
        Self { tree, events, end }
    }

    fn check(&self, data: &[u8], options: &Options, cuts: &[usize]) {
        let pieces = pieces(data, cuts);
        let tree = fed_tree(&pieces, options).map(|tree| described(&tree));
        let (events, end) = fed_events(&pieces, options);
        let what = || format!("{:?} cut at {cuts:?}", data.escape_ascii().to_string());
        if self.is_too_large() {
            // The whole is rejected unparsed; a feed may report an earlier error.
            assert!(tree.is_err() && end.is_err(), "{}", what());
            return;
        }
        assert_eq!(tree, self.tree, "the tree of {}", what());
        assert_eq!(end, self.end, "the end of {}", what());
        assert_eq!(events, self.events, "the events of {}", what());
    }

    fn is_too_large(&self) -> bool {
        let kind = self.end.as_ref().err().map(Error::kind);
        matches!(kind, Some(ErrorKind::Limit { what: BYTES_OF_A_DOCUMENT, .. }))
    }
}

fn pieces<'d>(data: &'d [u8], cuts: &[usize]) -> Vec<&'d [u8]> {
    let ends = cuts.iter().copied().chain([data.len()]);
    let mut start = 0;
    ends.map(|end| {
        let piece = data.get(start..end).unwrap_or(&[]);
        start = end;
        piece
    })
    .collect()
}

fn fed_tree(pieces: &[&[u8]], options: &Options) -> Result<Document, Error> {
    let mut feed = DocumentFeed::new(options);
    for piece in pieces {
        if let Err(error) = feed.feed(piece) {
            assert_eq!(feed.feed(b"<a/>"), Err(error), "the error is repeated");
            break;
        }
    }
    feed.finish()
}

fn fed_events(pieces: &[&[u8]], options: &Options) -> (Vec<String>, Result<(), Error>) {
    let mut feed = EventFeed::new(options);
    let mut events = Vec::new();
    for piece in pieces.iter().copied().map(Some).chain([None]) {
        match piece {
            Some(piece) => feed.feed(piece),
            None => feed.end(),
        }
        loop {
            match feed.next_event() {
                Ok(FeedEvent::Event(event)) => events.push(event_text(&event)),
                Ok(FeedEvent::NeedInput) => break,
                Ok(FeedEvent::End) => return (events, Ok(())),
                Err(error) => return (events, Err(error)),
            }
        }
    }
    panic!("input needed after the end of {pieces:?}");
}

/// All properties of each node.
fn described(document: &Document) -> Vec<String> {
    let line = |node: Node<'_>| {
        let declarations: Vec<_> = node.declarations().collect();
        let name = (node.prefix(), node.namespace(), node.local_name());
        let (kind, place) = (node.kind(), node.position());
        let id = document.element_by_id(node.text()).map(Node::position);
        format!("{kind:?} {name:?} {:?} {declarations:?} {place} {id:?}", node.text())
    };
    let nodes = document.root().descendants();
    nodes.flat_map(|node| std::iter::once(line(node)).chain(node.attributes().map(line))).collect()
}

fn event_text(event: &Event<'_>) -> String {
    match event {
        Event::Start(start) => {
            let name = (start.prefix(), start.namespace(), start.local_name());
            let declarations: Vec<_> = start.declarations().collect();
            let attributes: Vec<_> = start.attributes().collect();
            format!("start {name:?} {declarations:?} {attributes:?}")
        }
        Event::End => "end".to_owned(),
        Event::Text(text) => format!("text {text:?}"),
        Event::Comment(text) => format!("comment {text:?}"),
        Event::ProcessingInstruction { target, data } => format!("pi {target:?} {data:?}"),
    }
}

/// Pseudo-random numbers (xorshift), seeded by the input.
struct Random(u64);

impl Random {
    fn of(data: &[u8]) -> Self {
        let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        Self(data.iter().fold(0xCBF2_9CE4_8422_2325, mix) | 1)
    }

    /// Cuts of `len` bytes into pieces of at most `most`.
    fn cuts(&mut self, len: usize, most: u64) -> Vec<usize> {
        let mut at = 0;
        let onward = std::iter::from_fn(|| {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            at += usize::try_from(self.0 % most + 1).unwrap_or(1);
            Some(at)
        });
        onward.take_while(|&at| at < len).collect()
    }
}

fn write(document: &Document) -> Vec<u8> {
    document.write(WriterOptions::default()).unwrap_or_default()
}

fn by_events(data: &[u8]) -> Result<Document, Error> {
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
        assert_eq!(pushed, Ok(()), "the builder accepts parsed content");
    }
    Ok(builder.finish())
}
