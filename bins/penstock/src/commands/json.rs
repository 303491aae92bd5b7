//! `penstock json`: evaluates JSONPath on files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use expression::json::Document;
use expression::jsonpath::Path;
use expression::{Budget, Error, limits};
use xml::Position;

use super::print;
use super::source::{Source, report_expression};
use crate::failure::Failure;

/// Select from JSON
#[derive(Subcommand)]
pub(crate) enum Command {
    Select(Select),
}

/// Evaluate a JSONPath (Jayway's dialect) on a file
///
/// Prints JSON. A definite path, which can select only one value, prints that value, or fails if there is none. Any
/// other path prints an array.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock json select '$.items[0].price' order.json
  penstock json select '$.items[?(@.price < 10)].sku' order.json
  curl -s https://example.org/order | penstock json select '$..price' -")]
pub(crate) struct Select {
    /// The JSONPath
    path: String,
    /// The JSON file; `-` is stdin
    file: PathBuf,
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    let Command::Select(arguments) = command;
    let text = &arguments.path;
    let report = |error: Error| report_expression(text, position(&error), error.message());
    let path = Path::compile(text).map_err(report)?;
    let source = Source::read(&arguments.file, limits::JSON_BYTES_MAX)?;
    let document = Document::parse(&source.bytes).map_err(|error| source.json_error(&error))?;
    let found = path.evaluate_within(document.root(), &Budget::large()).map_err(report)?;
    print(|out| {
        found.write_json(out)?;
        out.write_all(b"\n")
    })
}

/// The position of an error; the start of the expression if it has none.
pub(super) fn position(error: &Error) -> Position {
    let (line, column) = error.position().unwrap_or((1, 1));
    Position { line, column }
}
