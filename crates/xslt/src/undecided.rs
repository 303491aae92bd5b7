//! The default output method: section 16. What comes in front of the first element waits for it.

use std::sync::Arc;

use xml::Writer;

use crate::html::HtmlWriter;
use crate::output::Output;
use crate::program::{Method, OutputSpec};

#[derive(Debug, Default)]
pub(crate) struct Undecided {
    spec: Arc<OutputSpec>,
    pieces: Vec<Piece>,
}

#[derive(Debug)]
enum Piece {
    Space(String),
    Comment(String),
    Instruction(String, String),
}

/// The output of a run, by what the sheet says of it.
pub(crate) fn output(spec: &Arc<OutputSpec>) -> Result<Output, String> {
    match spec.method {
        Method::Text => Ok(Output::Plain(String::new())),
        Method::Html => Ok(html(spec)),
        Method::Xml => xml(spec),
        Method::Unsaid => {
            let spec = Arc::clone(spec);
            Ok(Output::Undecided(Box::new(Undecided { spec, pieces: Vec::new() })))
        }
    }
}

fn html(spec: &OutputSpec) -> Output {
    Output::Html(Box::new(HtmlWriter::new(Arc::clone(&spec.html))))
}

fn xml(spec: &OutputSpec) -> Result<Output, String> {
    let writer = Writer::new(spec.writer.clone()).map_err(|error| error.to_string())?;
    Ok(Output::Writer(Box::new(writer)))
}

impl Undecided {
    /// False: the text isn't white space, and the method is XML.
    pub(crate) fn takes_text(&mut self, text: &str) -> bool {
        let space = text.bytes().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
        if space && !text.is_empty() {
            self.pieces.push(Piece::Space(text.to_owned()));
        }
        space
    }

    pub(crate) fn comment(&mut self, text: &str) {
        self.pieces.push(Piece::Comment(text.to_owned()));
    }

    pub(crate) fn instruction(&mut self, target: &str, data: &str) {
        self.pieces.push(Piece::Instruction(target.to_owned(), data.to_owned()));
    }

    /// The output of that method, with what waited.
    pub(crate) fn decide(self, is_html: bool) -> Result<Output, String> {
        let mut output = if is_html { html(&self.spec) } else { xml(&self.spec)? };
        for piece in self.pieces {
            match piece {
                Piece::Space(text) => output.text(&text)?,
                Piece::Comment(text) => output.comment(&text)?,
                Piece::Instruction(target, data) => output.instruction(&target, &data)?,
            }
        }
        Ok(output)
    }
}
