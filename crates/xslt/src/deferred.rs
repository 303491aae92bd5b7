//! The default output method, which depends on the first element: section 16.

use std::sync::Arc;

use xml::Writer;

use crate::html::HtmlWriter;
use crate::output::Output;
use crate::program::{Method, OutputSpec};
use crate::run::RunResult;

#[derive(Debug, Default)]
pub(crate) struct Deferred {
    spec: Arc<OutputSpec>,
    /// Nodes before the first element, each with the operation that wrote it, for errors.
    pieces: Vec<(Piece, Option<usize>)>,
}

#[derive(Debug)]
enum Piece {
    Space(String),
    Comment(String),
    Instruction(String, String),
}

/// The output of a run. `spare` is the writer of a run that has finished.
pub(crate) fn output(spec: &Arc<OutputSpec>, spare: Option<Box<Writer>>) -> RunResult<Output> {
    match spec.method {
        Method::Text => Ok(Output::Plain(String::new(), spec.writer.encoding)),
        Method::Html => Ok(html(spec)),
        Method::Xml => match spare.filter(|spare| *spare.options() == spec.writer) {
            Some(spare) => Ok(Output::Writer(spare.again())),
            None => xml(spec),
        },
        Method::Unspecified => {
            let spec = Arc::clone(spec);
            Ok(Output::Deferred(Box::new(Deferred { spec, pieces: Vec::new() })))
        }
    }
}

fn html(spec: &OutputSpec) -> Output {
    Output::Html(Box::new(HtmlWriter::new(Arc::clone(&spec.html))))
}

fn xml(spec: &OutputSpec) -> RunResult<Output> {
    let writer = Writer::new(spec.writer.clone())?;
    Ok(Output::Writer(Box::new(writer)))
}

impl Deferred {
    /// Adds text. Returns false if it isn't whitespace, so that the method is XML.
    pub(crate) fn accepts_text(&mut self, text: &str) -> bool {
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

    /// The operation that wrote the last pieces.
    pub(crate) fn set_cause(&mut self, op: usize) {
        for (_, by) in self.pieces.iter_mut().rev().take_while(|(_, by)| by.is_none()) {
            *by = Some(op);
        }
    }

    /// Writes the pieces with the chosen method.
    pub(crate) fn into_output(self, is_html: bool) -> RunResult<Output> {
        let mut output = if is_html { html(&self.spec) } else { xml(&self.spec)? };
        for (piece, op) in self.pieces {
            let done = match piece {
                Piece::Space(text) => output.text(&text),
                Piece::Comment(text) => output.comment(&text),
                Piece::Instruction(target, data) => output.instruction(&target, &data),
            };
            done.map_err(|error| error.caused_by(op))?;
        }
        Ok(output)
    }
}
