//! `penstock json`: JSONPath, on files.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use expression::json::Document;
use expression::jsonpath::Path;
use expression::limits;
use xml::Position;

use super::source::{Source, print, report_expression};
use crate::failure::Failure;

/// Select from JSON
#[derive(Subcommand)]
pub(crate) enum Command {
    Select(Select),
}

/// Evaluate a JSONPath (Jayway's dialect) on a file
///
/// Prints JSON. A definite path, which can name one value only, prints that value; any other an array
/// of all that it finds. A definite path that leads nowhere is an error, which says where it ends.
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
    let path = Path::compile(text).map_err(|error| {
        let place = Position { line: error.line, column: error.column };
        report_expression(text, place, error.message)
    })?;
    let source = Source::read(&arguments.file, limits::JSON_BYTES_MAX)?;
    let document = Document::parse(&source.bytes).map_err(|error| source.json_error(&error))?;
    let found = path
        .evaluate(document.root())
        .map_err(|error| report_expression(text, Position { line: 1, column: 1 }, error))?;
    print(|out| {
        found.write_json(out)?;
        out.write_all(b"\n")
    })
}
