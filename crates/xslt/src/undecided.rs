//! The default output method: section 16. What comes in front of the first element waits for it.

use std::sync::Arc;

use xml::Writer;

use crate::html::HtmlWriter;
use crate::output::Output;
use crate::program::{Method, OutputSpec};
use crate::run::Ran;

#[derive(Debug, Default)]
pub(crate) struct Undecided {
    spec: Arc<OutputSpec>,
    /// With the operation that made each, once that is done: what is wrong with one is told of its place.
    pieces: Vec<(Piece, Option<usize>)>,
}

#[derive(Debug)]
enum Piece {
    Space(String),
    Comment(String),
    Instruction(String, String),
}

/// The output of a run, by what the sheet says of it.
pub(crate) fn output(spec: &Arc<OutputSpec>) -> Ran<Output> {
    match spec.method {
        Method::Text => Ok(Output::Plain(String::new(), spec.writer.encoding)),
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

fn xml(spec: &OutputSpec) -> Ran<Output> {
    let writer = Writer::new(spec.writer.clone())?;
    Ok(Output::Writer(Box::new(writer)))
}

impl Undecided {
    /// False: the text isn't white space, and the method is XML.
    pub(crate) fn takes_text(&mut self, text: &str) -> bool {
        let space = text.bytes().all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
        if space && !text.is_empty() {
            self.pieces.push((Piece::Space(text.to_owned()), None));
        }
        space
    }

    pub(crate) fn comment(&mut self, text: &str) {
        self.pieces.push((Piece::Comment(text.to_owned()), None));
    }

    pub(crate) fn instruction(&mut self, target: &str, data: &str) {
        self.pieces.push((Piece::Instruction(target.to_owned(), data.to_owned()), None));
    }

    /// What came last was made by the operation `op`.
    pub(crate) fn made_by(&mut self, op: usize) {
        for (_, by) in self.pieces.iter_mut().rev().take_while(|(_, by)| by.is_none()) {
            *by = Some(op);
        }
    }

    /// The output of that method, with what waited.
    pub(crate) fn decide(self, is_html: bool) -> Ran<Output> {
        let mut output = if is_html { html(&self.spec) } else { xml(&self.spec)? };
        for (piece, op) in self.pieces {
            let done = match piece {
                Piece::Space(text) => output.text(&text),
                Piece::Comment(text) => output.comment(&text),
                Piece::Instruction(target, data) => output.instruction(&target, &data),
            };
            done.map_err(|failure| failure.made_by(op))?;
        }
        Ok(output)
    }
}
