//! `penstock xml`: check and query XML files. XSLT is in [`transform`].

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use xml::limits;
use xml::{Doctype, Document, Kind, Options, Position, Writer, WriterOptions, is_ncname};
use xpath::{
    Budget, Context, Environment, ExpandedName, Expression, Item, StaticContext, Value, VariableId,
};

use super::source::{Source, report_expression, stdin_once};
use super::transform::{self, Transform};
use super::{counted, print, stdout};
use crate::failure::Failure;

/// Check, query and transform XML
#[derive(Subcommand)]
pub(crate) enum Command {
    Check(Check),
    Select(Select),
    Transform(Transform),
}

/// Check that files are well-formed XML
///
/// Prints the first error of each file as file:line:column, with the line and a caret below the column. The internal
/// DTD subset is read; external entities are not.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock xml check order.xml invoice.xml
  curl -s https://example.org/feed.xml | penstock xml check -")]
pub(crate) struct Check {
    /// XML files; `-` reads stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Evaluate an XPath 1.0 expression
///
/// Prints one node per line: elements, comments and processing instructions as XML; attributes, text and namespaces as
/// their values. Strings, numbers and booleans are printed as text. An empty node-set prints nothing and is not an
/// error.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock xml select '//order[1]/symbol' orders.xml
  penstock xml select 'count(//s:order)' orders.xml --ns s=http://services.samples
  penstock xml select '//order[symbol = $wanted]' orders.xml --var wanted=IBM
  penstock xml select -- '-1 + count(//order)' orders.xml     (`--` before an expression that begins with `-`)")]
pub(crate) struct Select {
    /// The XPath expression
    #[arg(value_name = "EXPR")]
    expression: String,
    /// XML file; `-` reads stdin
    file: PathBuf,
    /// Bind a namespace prefix (repeatable)
    #[arg(long, value_name = "P=URI", value_parser = binding)]
    ns: Vec<(String, String)>,
    /// Set a string variable (repeatable)
    #[arg(long, value_name = "K=V", value_parser = assignment)]
    var: Vec<(String, String)>,
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Check(arguments) => check(&arguments.files),
        Command::Select(arguments) => select(&arguments),
        Command::Transform(arguments) => transform::run(&arguments),
    }
}

fn check(files: &[PathBuf]) -> Result<(), Failure> {
    stdin_once(files.iter().map(PathBuf::as_path))?;
    let mut errors = 0;
    for file in files {
        if let Err(failure) = check_one(file) {
            failure.report();
            errors += 1;
        }
    }
    stdout(&format!("{}, {}\n", counted(files.len(), "file"), counted(errors, "error")))?;
    if errors > 0 { Err(Failure::Reported) } else { Ok(()) }
}

fn check_one(file: &Path) -> Result<(), Failure> {
    read(&Source::read(file, limits::XML_BYTES_MAX)?).map(drop)
}

pub(super) fn read(source: &Source) -> Result<Document, Failure> {
    let options = Options { doctype: Doctype::Read, ..Options::default() };
    Document::parse_with(&source.bytes, &options).map_err(|error| source.xml_error(&error))
}

fn select(arguments: &Select) -> Result<(), Failure> {
    let mut bindings = Bindings::new(&arguments.ns, &arguments.var)?;
    let text = &arguments.expression;
    let expression = Expression::compile(text, &bindings).map_err(|error| {
        report_expression(
            text,
            Position::of(text, error.offset().unwrap_or_default()),
            error.message(),
        )
    })?;
    let document = read(&Source::read(&arguments.file, limits::XML_BYTES_MAX)?)?;
    let value = expression
        .evaluate(Context::new(document.root()), &mut bindings, &Budget::large())
        .map_err(|error| report_expression(text, Position { line: 1, column: 1 }, error))?;
    print(|out| write_value(&value, out))
}

fn write_value(value: &Value<'_>, out: &mut dyn Write) -> io::Result<()> {
    match value {
        Value::NodeSet(nodes) => nodes.iter().try_for_each(|item| write_item(item, out)),
        Value::String(_) | Value::Number(_) | Value::Boolean(_) => {
            writeln!(out, "{}", value.string())
        }
    }
}

fn write_item(item: Item<'_>, out: &mut dyn Write) -> io::Result<()> {
    match (item.kind(), item.node()) {
        (Kind::Root | Kind::Element | Kind::Comment | Kind::ProcessingInstruction, Some(node)) => {
            let options = WriterOptions { declaration: false, ..WriterOptions::default() };
            let mut writer = Writer::new(options).map_err(io::Error::other)?;
            writer.tree(node).map_err(io::Error::other)?;
            out.write_all(&writer.finish().map_err(io::Error::other)?)?;
        }
        (Kind::Text | Kind::Attribute | Kind::Namespace, _) | (_, None) => {
            out.write_all(item.string_value().as_bytes())?;
        }
    }
    out.write_all(b"\n")
}

/// Namespaces and variables from the command line. A `VariableId` is an index into `variables`.
struct Bindings<'a> {
    namespaces: &'a [(String, String)],
    variables: Vec<(ExpandedName, &'a str)>,
}

impl<'a> Bindings<'a> {
    fn new(
        namespaces: &'a [(String, String)],
        variables: &'a [(String, String)],
    ) -> Result<Self, Failure> {
        bound_once(namespaces)?;
        let mut bindings = Self { namespaces, variables: Vec::new() };
        for (name, value) in variables {
            let expanded = bindings.expanded(name)?;
            if bindings.variables.iter().any(|(known, _)| *known == expanded) {
                return Err(twice("--var", name));
            }
            bindings.variables.push((expanded, value));
        }
        Ok(bindings)
    }

    fn expanded(&self, name: &str) -> Result<ExpandedName, Failure> {
        let Some((prefix, local)) = name.split_once(':') else {
            return Ok(ExpandedName::new("", name));
        };
        match self.namespace(prefix) {
            Some(namespace) => Ok(ExpandedName::new(namespace, local)),
            None => Err(Failure::Usage(format!(
                "--var {name}: the prefix `{prefix}` is not bound; add --ns {prefix}=URI"
            ))),
        }
    }
}

impl StaticContext for Bindings<'_> {
    fn namespace(&self, prefix: &str) -> Option<String> {
        let bound = self.namespaces.iter().find(|(known, _)| known == prefix);
        bound.map(|(_, uri)| uri.clone())
    }

    fn variable(&self, name: &ExpandedName) -> Option<VariableId> {
        let place = self.variables.iter().position(|(known, _)| known == name)?;
        u32::try_from(place).ok().map(VariableId)
    }
}

impl<'d> Environment<'d> for Bindings<'_> {
    fn variable(&mut self, id: VariableId, _: &Budget) -> Result<Value<'d>, xpath::Error> {
        let (_, value) = self.variables.get(id.0 as usize).ok_or(xpath::Error::NoVariable(id.0))?;
        Ok(Value::String((*value).to_owned()))
    }
}

/// Rejects a prefix that is bound twice.
pub(super) fn bound_once(namespaces: &[(String, String)]) -> Result<(), Failure> {
    for (place, (prefix, _)) in namespaces.iter().enumerate() {
        if namespaces.iter().take(place).any(|(known, _)| known == prefix) {
            return Err(twice("--ns", prefix));
        }
    }
    Ok(())
}

fn twice(option: &str, name: &str) -> Failure {
    Failure::Usage(format!("{option} {name} is given twice"))
}

/// Parses `prefix=uri`.
pub(super) fn binding(argument: &str) -> Result<(String, String), String> {
    let (prefix, uri) = argument.split_once('=').ok_or("write prefix=URI")?;
    if !is_ncname(prefix) {
        return Err(format!("`{prefix}` is not a valid prefix"));
    }
    if matches!(prefix, "xml" | "xmlns") {
        return Err(format!("`{prefix}` is reserved and always bound"));
    }
    if uri.is_empty() {
        return Err("the namespace URI is empty".to_owned());
    }
    Ok((prefix.to_owned(), uri.to_owned()))
}

/// Parses `name=value`.
fn assignment(argument: &str) -> Result<(String, String), String> {
    let (name, value) = argument.split_once('=').ok_or("write name=value")?;
    let (prefix, local) = name.split_once(':').unwrap_or(("p", name));
    if !is_ncname(prefix) || !is_ncname(local) {
        return Err(format!("`{name}` is not a valid variable name"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_and_assignments_split_at_the_first_equals_sign() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(binding("p=urn:a=b"), pair("p", "urn:a=b"));
        assert_eq!(assignment("k="), pair("k", ""));
        assert_eq!(assignment("p:k=a=b"), pair("p:k", "a=b"));
        for wrong in ["p", "=u", "p=", "1=u", "xml=u", "a:b=u"] {
            assert!(binding(wrong).is_err(), "{wrong}");
        }
        for wrong in ["k", "=v", "1=v", "a:b:c=v", ":k=v"] {
            assert!(assignment(wrong).is_err(), "{wrong}");
        }
    }
}
