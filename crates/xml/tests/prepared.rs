//! Prepared markup has the same output as its pieces written one by one, or is not written at all.

use std::borrow::Cow;

use penstock_xml::{
    Encoding, Error, ErrorKind, PreparedMarkup, PreparedMarkupBuilder, QNameRef, Sink, Writer,
    WriterOptions,
};

/// A piece of markup; names are `prefix:local=namespace`, placeholders are filled in order.
enum Piece {
    Start(&'static str),
    Attribute(&'static str, Option<&'static str>),
    Text(&'static str),
    Placeholder,
    End,
}

use Piece::{Attribute, End, Placeholder, Start, Text};

fn name(text: &str) -> QNameRef<'_> {
    let (name, namespace) = text.split_once('=').unwrap_or((text, ""));
    let (prefix, local) = name.split_once(':').unwrap_or(("", name));
    QNameRef::new(prefix, namespace, local)
}

fn prepare(pieces: &[Piece], encoding: Encoding) -> Option<PreparedMarkup> {
    let mut builder = PreparedMarkupBuilder::new(encoding);
    for piece in pieces {
        match piece {
            Start(text) => builder.start_element(name(text)),
            Attribute(text, value) => builder.attribute(name(text), *value),
            Text(text) => builder.text(text),
            Placeholder => builder.text_placeholder(),
            End => builder.end_element(),
        }
    }
    builder.finish()
}

fn one_by_one(writer: &mut Writer, pieces: &[Piece], fill: &[&str]) -> Result<(), Error> {
    let mut fill = fill.iter();
    for piece in pieces {
        match piece {
            Start(text) => writer.start_element(name(text))?,
            Attribute(text, Some(value)) => writer.attribute(name(text), value)?,
            Attribute(text, None) => writer.attribute(name(text), fill.next().unwrap())?,
            Text(text) => writer.text(text)?,
            Placeholder => writer.text(fill.next().unwrap())?,
            End => writer.end_element()?,
        }
    }
    Ok(())
}

const AROUND: &str = "p:around=urn:p";

/// Writes the pieces both ways in an element named `around`; `written`: the prepared markup is accepted there.
#[track_caller]
fn check(around: &str, options: &WriterOptions, pieces: &[Piece], fill: &[&str], written: bool) {
    let prepared = prepare(pieces, options.encoding).unwrap();
    let writer = || {
        let mut writer = Writer::new(options.clone()).unwrap();
        writer.start_element(name(around)).unwrap();
        writer
    };
    let (mut output, mut plain) = (writer(), writer());
    let values: Vec<_> = fill.iter().map(|value| Cow::Borrowed(*value)).collect();
    assert_eq!(output.takes_prepared(&prepared), Ok(written));
    if written {
        output.write_prepared(&prepared, &values).unwrap();
        one_by_one(&mut plain, pieces, fill).unwrap();
    }
    output.text(".").unwrap();
    plain.text(".").unwrap();
    let (output, plain) = (output.finish().unwrap(), plain.finish().unwrap());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(text(&output), text(&plain));
}

const ROW: &[Piece] = &[
    Start("p:r=urn:p"),
    Attribute("p:a=urn:p", Some("<\"\n")),
    Attribute("b", None),
    Start("v"),
    Placeholder,
    Placeholder,
    End,
    Start("w"),
    End,
    Start("x"),
    Text("é]]>"),
    Placeholder,
    End,
    Text("<"),
    End,
    Start("y"),
    Attribute("xml:lang=http://www.w3.org/XML/1998/namespace", None),
    Placeholder,
    End,
];

#[test]
fn prepared_markup_writes_what_its_pieces_write_one_by_one() {
    for fill in [
        ["", "", "", "", "", ""],
        ["1", "2", "3", "4", "5", "6"],
        ["\"", "", "<&>", "]]>", "", "\n"],
    ] {
        for encoding in [Encoding::Utf8, Encoding::Utf16, Encoding::UsAscii, Encoding::Iso8859_1] {
            let options = WriterOptions { encoding, ..WriterOptions::default() };
            check(AROUND, &options, ROW, &fill, true);
        }
    }
}

#[test]
fn prepared_markup_that_would_have_to_differ_is_not_written() {
    let fill = ["1", "2", "3", "4", "5", "6"];
    let plain = WriterOptions::default();
    check("around", &plain, ROW, &fill, false);
    check("p:around=urn:q", &plain, ROW, &fill, false);
    check("around=urn:default", &plain, &[Start("r"), End], &[], false);
    check(AROUND, &WriterOptions { indent: Some(1), ..plain.clone() }, ROW, &fill, false);
    let cdata_elements = vec![(String::new(), "v".to_owned())];
    check(AROUND, &WriterOptions { cdata_elements, ..plain }, ROW, &fill, false);
    let prepared = prepare(&[Start("r"), End], Encoding::Utf8).unwrap();
    let mut outside = Writer::new(WriterOptions::default()).unwrap();
    assert_eq!(outside.takes_prepared(&prepared), Ok(false));
    let options = WriterOptions { encoding: Encoding::UsAscii, ..WriterOptions::default() };
    let mut other = Writer::new(options).unwrap();
    other.start_element(name("around")).unwrap();
    assert_eq!(other.takes_prepared(&prepared), Ok(false));
}

#[test]
fn invalid_or_context_dependent_markup_can_not_be_prepared() {
    let rows: &[(&[Piece], Encoding)] = &[
        (&[Start("a b"), End], Encoding::Utf8),
        (&[Start("a")], Encoding::Utf8),
        (&[Start("a"), End, End], Encoding::Utf8),
        (&[Start("a"), Text("\u{1}"), End], Encoding::Utf8),
        (&[Start("é"), End], Encoding::UsAscii),
        (&[Start("a"), Attribute("b", None), Attribute("b", None), End], Encoding::Utf8),
        (&[Start("a"), Placeholder, Attribute("b", None), End], Encoding::Utf8),
        (&[Start("a"), Attribute("xmlns", None), End], Encoding::Utf8),
        (&[Start("p:a=urn:p"), Start("p:a=urn:q"), End, End], Encoding::Utf8),
    ];
    for (at, (pieces, encoding)) in rows.iter().enumerate() {
        assert!(prepare(pieces, *encoding).is_none(), "row {at}");
    }
}

#[test]
fn a_placeholder_rejects_characters_that_xml_does_not_allow() {
    let prepared = prepare(&[Start("a"), Placeholder, End], Encoding::Utf8).unwrap();
    let mut writer = Writer::new(WriterOptions::default()).unwrap();
    writer.start_element(name("around")).unwrap();
    assert_eq!(writer.takes_prepared(&prepared), Ok(true));
    let bad = [Cow::Borrowed("\u{1}")];
    assert_eq!(writer.write_prepared(&prepared, &bad), Err(Error::from(ErrorKind::BadText)));
}
