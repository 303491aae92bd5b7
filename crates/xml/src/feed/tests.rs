use crate::reader::{Event, EventFeed, FeedEvent};
use crate::{Doctype, Limits, Options, Position, properties};

/// Well-formed documents: every kind of markup, and everything that a cut can split.
const GOOD: &[&str] = &[
    "<a/>",
    "  <a />  \n",
    "<a><b/>text</a>",
    "<a>é€𝄞</a>",
    "<é xmlns:ü='u'><ü:ö ä='€𝄞'/></é>",
    "<?xml version='1.0'?><a/>",
    "<?xml  version = \"1.0\"\r\n encoding='UTF-8' standalone='no' ?>\r\n<a>\r\n\r\r\n</a>\r",
    "<a x='1' y=\"&lt;>'\">a<![CDATA[<x>]]]]><![CDATA[>]]>&#13;&#x1D11E;b]]</a><!-- c - --><?p?><?q  d?d?>",
    "<a><![CDATA[]]><b/><![CDATA[]]></a>",
    "<p:a xmlns:p='u' xmlns='v'><b p:x='1' x='2'/><p:b xmlns:p='w'/></p:a >",
    "<?xmlx version='1.0'?><a/>",
    "<!DOCTYPE a><a/>",
    "<!-- > -->\n<?p >?><!DOCTYPE a PUBLIC '-//a' \"b'>[\" [<!-- ]>' --><?p ]>'?> <!ENTITY e ']>\"<b>x</b>y'>\
     <!ENTITY f '&e;z'><!ELEMENT a (b|c)*><!ATTLIST a i ID #IMPLIED d NMTOKENS ' v  &lt; '>\
     <!NOTATION n PUBLIC 'p'><!ENTITY u SYSTEM 's' NDATA n> ] >\n<a i=' k '>t&f;&e;&amp;&f;<c/>&e;</a>",
    "<!DOCTYPE a [<!ENTITY % p '<!ENTITY e \"x\">'>%p;<!ENTITY empty ''>]><a y='&e;\t\n&empty;'>&empty;<b/>&e;</a>",
];

/// Documents that aren't well-formed, with errors that are found early, late, or at another place than a cut.
const BAD: &[&str] = &[
    "",
    " ",
    "<",
    "<a",
    "<a>",
    "<a><b",
    "<a></b>",
    "<a></a",
    "<a></a b>",
    "<a></ a>",
    "</a>",
    "</",
    "text",
    "<a/>text",
    "<a/><b/>",
    "<a/><",
    "<a/><!DOCTYPE a>",
    "<!DOCTYPE a><!DOCTYPE b><a/>",
    "<!DOCTYPE",
    "<!DOCTYPE a",
    "<!DOCTYPE a [",
    "<!DOCTYPE a [<!ENTITY e 'x>]><a/>",
    "<!DOCTYPE a [<!ENTITY e \"x' >]><a>'\"</a>",
    "<!DOCTYPE a 'x>' [<!-- -- -->]><a/>",
    "<!DOCTYPE a [<!ENTITY e '<b>'>]><a>x&e;</b></a>",
    "<!DOCTYPE a [<!ENTITY e '&f;'><!ENTITY f '&e;'>]><a>&e;</a>",
    "<!DOCTYPE a [<!ENTITY e 'x<b/>'>]><a>1&e;2<![CDATA[3]]>&f;</a>",
    "<!DOC a><a/>",
    "<!",
    "<!-",
    "<!-x",
    "<!x><a/>",
    "<![CDATA[x]]><a/>",
    "<a><!",
    "<a><!-x--></a>",
    "<a><!x></a>",
    "<a><!-- -- --></a>",
    "<a><!-- --",
    "<a><![CDAT",
    "<a><![CDATX[x]]></a>",
    "<a>x<![CDATX[x]]></a>",
    "<a><![CDATA[x]]",
    "<a><?p",
    "<a><?p?",
    "<a><?xml version='1.0'?></a>",
    " <?xml version='1.0'?><a/>",
    "<a><?p!x?></a>",
    "<a><??></a>",
    "<a><?p:q x?></a>",
    "<a>]]></a>",
    "<a>x]]>y<b/></a>",
    "<a>&",
    "<a>&l",
    "<a>&lt",
    "<a>&;</a>",
    "<a>&# ;</a>",
    "<a>&#0;</a>",
    "<a>&x y;</a>",
    "<a>&unknown;</a>",
    "<a x></a>",
    "<a x=></a>",
    "<a x=1></a>",
    "<a x='<'></a>",
    "<a x='1'y='2'></a>",
    "<a x='1' x='2'></a>",
    "<a 'x>'></a>",
    "<a x=1 y='></a>",
    "<a / ></a>",
    "<a/",
    "<a x='1",
    "<p:a></p:a>",
    "<1a></1a>",
    "<a:b:c/>",
    "<a>\u{1}</a>",
    "<a>\n\u{FFFE}</a>",
    "<?xml",
    "<?xml ",
    "<?xml version='1.0'",
    "<?xml version='1.0?>' ?><a/>",
    "<?xml version='2.0'?><a/>",
    "<?xml version='1.0' encoding='UTF-16'?><a/>",
    "<?xml version='1.0' encoding='EBCDIC'?><a/>",
    "<?xml version='1.0' \u{1}encoding='UTF-8'?><a/>",
];

#[test]
fn well_formed_documents_parse_the_same_however_they_are_cut() {
    for text in GOOD {
        let read = crate::Document::parse_with(text.as_bytes(), &with_doctypes());
        assert!(read.is_ok(), "{text:?}: {read:?}");
        properties::feed(text.as_bytes());
    }
}

#[test]
fn errors_are_the_same_however_the_document_is_cut() {
    for text in BAD {
        let read = crate::Document::parse(text.as_bytes());
        assert!(read.is_err(), "{text:?}");
        properties::feed(text.as_bytes());
    }
}

#[test]
fn truncated_documents_give_the_same_error_however_they_are_cut() {
    for text in GOOD {
        for end in (0..text.len()).filter(|end| end % 3 == 1) {
            properties::feed(&text.as_bytes()[..end]);
        }
    }
}

#[test]
fn every_encoding_is_decoded_the_same_however_it_is_cut() {
    for encoding in ENCODINGS {
        for text in GOOD.iter().chain(BAD.iter().step_by(5)) {
            properties::feed(&encoded(text, *encoding));
        }
    }
}

#[test]
fn undecodable_bytes_give_the_same_error_however_they_are_cut() {
    const BYTES: &[&[u8]] = &[
        b"<a>\xC3</a>",
        b"<a>\xE2\x82",
        b"<a>\xE2\x82</a>",
        b"<a>\xF0\x9D\x84\x9E\xED\xA0\x80</a>",
        b"<a\xFF",
        b"<?xml version='1.0' encoding='US-ASCII'?><a>\x80</a>",
        b"<?xml version='1.0' encoding='windows-1252'?><a>\x80\x81</a>",
        b"<?xml version='1.0' \xFF?><a/>",
        b"\xEF\xBB",
        b"\xEF\xBB\xBF",
        b"\xEF\xBB\xBF<?xml version='1.0' encoding='UTF-16'?><a/>",
        b"\xEF\xBB\xBF<?xml version='1.0' encoding='UTF-8'?><a>\xEF\xBB\xBF</a>",
        b"\xFE\xFF\0<\0a\0/\0>\xD8\0",
        b"\xFE\xFF\0<\0a\0>\xDC\0\0<\0/\0a\0>",
        b"\xFE\xFF\0<\0a\0>\xD8\0\0<\0/\0a\0>",
        b"\xFF\xFE<\0a\0/\0>\0 ",
        b"\xFF\xFE\0\0<\0\0\0",
        b"\0\0\xFE\xFF\0\0\0<",
        b"\0<\0?",
    ];
    BYTES.iter().for_each(|bytes| properties::feed(bytes));
}

#[test]
fn limits_apply_the_same_however_the_document_is_cut() {
    let text = "<a x='1' y='2'><b>&lt;é</b><b/><longer>t</longer></a>";
    let limited = |change: fn(&mut Limits)| {
        let mut options = with_doctypes();
        change(&mut options.limits);
        assert!(crate::Document::parse_with(text.as_bytes(), &options).is_err());
        properties::feed_with(text.as_bytes(), &options);
    };
    limited(|limits| limits.depth = 1);
    limited(|limits| limits.attributes = 1);
    limited(|limits| limits.name_bytes = 3);
    limited(|limits| limits.nodes = 5);
    limited(|limits| limits.bytes = 40);
}

#[test]
fn the_limit_of_bytes_applies_to_input_and_to_decoded_text() {
    let options =
        |bytes| Options { limits: Limits { bytes, ..Limits::default() }, ..Options::default() };
    let check = |data: &[u8], bytes: u32, expect: &str| {
        let mut feed = crate::DocumentFeed::new(&options(bytes));
        let fed = data.iter().try_for_each(|&byte| feed.feed(&[byte]));
        let read = fed.and_then(|()| feed.finish());
        let shown = read.map_or_else(|error| error.to_string(), |_| "ok".to_owned());
        assert_eq!(shown, expect, "{:?}", data.escape_ascii().to_string());
    };
    let large =
        |limit| format!("line 1, column 1: the limit of {limit} bytes per document is exceeded");
    check(b"<a>\n12345</a>", 13, "ok");
    check(b"<a>\n12345</a>", 12, &large(12));
    // Six bytes become eight.
    let latin = b"<?xml version='1.0' encoding='ISO-8859-1'?><a>\xE9\xE9</a>";
    let bytes = u32::try_from(latin.len()).unwrap();
    check(latin, bytes + 2, "ok");
    check(latin, bytes + 1, &large(bytes + 1));
    check(b"<a></b>12345", 9, "line 1, column 4: `</b>` doesn't close `<a>`; write `</a>`");
}

#[test]
fn a_long_piece_in_single_bytes_is_scanned_a_few_times_at_most() {
    const BYTES: usize = 100_000;
    // Each decision needs at most the bytes of `<!DOCTYPE` or `<![CDATA[`.
    const SCANS: usize = 10;
    for (start, unit, end) in [
        ("<a x='", "y", "'/>"),
        ("<a x='", "y>&amp;\" ", "'/>"),
        ("<a x='1'", " ", "/>"),
        ("<a><!--", "- ->", "--></a>"),
        ("<a><?p ", "?x", "?></a>"),
        ("<a>", "text", "</a>"),
        ("<a>", "]]é", "</a>"),
        ("<a>", "&lt;", "</a>"),
        ("<a>", "<![CDATA[]]]]>", "</a>"),
        ("<a>", "&e;", "</a>"),
        ("<a", " ", "/>"),
        ("<a></a", " ", ">"),
        (" ", " ", "<a/>"),
        ("<?xml version='1.0'", " ", "?><a/>"),
        ("\u{FEFF}<?xml version='1.0'", " ", "?><a/>"),
        ("<!DOCTYPE a [", "<!---->", "]><a/>"),
        ("<!DOCTYPE a [<!ENTITY f '", "x", "'>]><a/>"),
        ("<!DOCTYPE a [", "<?p ?>", "]><a/>"),
    ] {
        let declared = if end == "</a>" { "<!DOCTYPE a [<!ENTITY e '<b/>'>]>" } else { "" };
        let text = [declared, start, &unit.repeat(BYTES / unit.len()), end].concat();
        let limits = Limits { entity_bytes: 8_000_000, ..Limits::default() };
        let mut feed = crate::DocumentFeed::new(&Options { limits, ..with_doctypes() });
        for &byte in text.as_bytes() {
            drop(feed.feed(&[byte]));
        }
        let scanned = feed.scanned();
        assert!(scanned <= text.len() * SCANS, "{start}{unit}{end}: {scanned} of {}", text.len());
    }
}

#[test]
fn an_event_is_returned_as_soon_as_its_markup_is_complete() {
    let mut feed = EventFeed::new(&Options::default());
    let mut events = |piece: &str| {
        feed.feed(piece.as_bytes());
        let mut returned = Vec::new();
        while let FeedEvent::Event(event) = feed.next_event().unwrap() {
            returned.push(match event {
                Event::Start(start) => format!("<{}>", start.local_name()),
                Event::End => "end".to_owned(),
                Event::Text(text) => text.to_owned(),
                Event::Comment(text) => format!("!{text}"),
                Event::ProcessingInstruction { target, .. } => format!("?{target}"),
            });
        }
        returned.join(" ")
    };
    let steps = [
        ("<a><b", "<a>"),
        (" x='>'", ""),
        ("/>", "<b> end"),
        ("text &lt;", ""),
        ("<", ""),
        ("!", ""),
        ("-", "text <"),
        ("- c --", ""),
        (">", "! c "),
        ("<![CDATA[x]]>", ""),
        ("</", "x"),
        ("a>", "end"),
        ("<?p", ""),
        ("?>", "?p"),
    ];
    for (piece, expect) in steps {
        assert_eq!(events(piece), expect, "at {piece:?}");
    }
}

#[test]
fn parsed_text_is_dropped_and_positions_continue() {
    let line = "<row n='é'>some text &amp; more</row>\n";
    let mut feed = EventFeed::new(&Options::default());
    feed.feed(b"<rows>");
    for _ in 0..10_000 {
        feed.feed(line.as_bytes());
        while let FeedEvent::Event(_) = feed.next_event().unwrap() {}
    }
    let held = feed.held();
    assert!(held <= 16_384, "{held} bytes are held");
    feed.feed("é<&".as_bytes());
    feed.end();
    let error = loop {
        match feed.next_event() {
            Ok(FeedEvent::Event(_)) => {}
            Ok(FeedEvent::NeedInput | FeedEvent::End) => panic!("an error is missing"),
            Err(error) => break error,
        }
    };
    let offset = "<rows>".len() + 10_000 * line.len() + "é<".len();
    assert_eq!(error.position(), Some(Position { line: 10_001, column: 3 }));
    assert_eq!(error.offset(), Some(offset));
}

#[derive(Debug, Clone, Copy)]
enum Encoded {
    Utf8,
    Wide { big: bool },
    Narrow,
}

/// The declared name, if any, and whether there is a byte order mark.
const ENCODINGS: &[(Encoded, &str, bool)] = &[
    (Encoded::Utf8, "", true),
    (Encoded::Utf8, "UTF-8", false),
    (Encoded::Utf8, "utf-8", true),
    (Encoded::Wide { big: true }, "", true),
    (Encoded::Wide { big: false }, "", true),
    (Encoded::Wide { big: true }, "UTF-16", true),
    (Encoded::Wide { big: false }, "UTF-16LE", false),
    (Encoded::Wide { big: true }, "UTF-16", false),
    (Encoded::Wide { big: false }, "UTF-16BE", true),
    (Encoded::Narrow, "ISO-8859-1", false),
    (Encoded::Narrow, "windows-1252", false),
    (Encoded::Narrow, "US-ASCII", false),
];

/// `text` in an encoding; characters that it lacks are replaced.
fn encoded(text: &str, (encoding, name, mark): (Encoded, &str, bool)) -> Vec<u8> {
    let declaration = match name {
        "" => String::new(),
        _ => format!("<?xml version=\"1.0\" encoding=\"{name}\"?>"),
    };
    let mark = if mark { "\u{FEFF}" } else { "" };
    let text = [mark, &declaration, text].concat();
    match encoding {
        Encoded::Utf8 => text.into_bytes(),
        Encoded::Wide { big } => {
            let bytes = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
            text.encode_utf16().flat_map(bytes).collect()
        }
        Encoded::Narrow => text.chars().map(|c| u8::try_from(c).unwrap_or(b'\xE4')).collect(),
    }
}

fn with_doctypes() -> Options {
    Options { doctype: Doctype::Read, ..Options::default() }
}
