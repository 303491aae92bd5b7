//! `select FILE EXPRESSION...` evaluates expressions on an XML file and prints their values.

use std::process::ExitCode;

use xpath::{Budget, Context, Expression, NoBindings, Value};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().map(|file| select(&file, arguments)) {
        Some(Ok(())) => ExitCode::SUCCESS,
        Some(Err(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!("usage: select FILE EXPRESSION...");
            ExitCode::from(2)
        }
    }
}

fn select(
    file: &str,
    expressions: impl Iterator<Item = String>,
) -> Result<(), Box<dyn std::error::Error>> {
    let bytes = std::fs::read(file)?;
    for text in expressions {
        print!("{}", evaluate(&bytes, &text)?);
    }
    Ok(())
}

/// The value of an expression; of a node-set one node per line.
fn evaluate(xml: &[u8], text: &str) -> Result<String, Box<dyn std::error::Error>> {
    let document = xml::Document::parse(xml)?;
    let expression = Expression::compile(text, &NoBindings)?;
    let context = Context::new(document.root());
    match expression.evaluate(context, &mut NoBindings, &Budget::large())? {
        Value::NodeSet(nodes) => {
            let lines = nodes
                .iter()
                .map(|item| format!("{} {}\n", item.qualified_name(), item.string_value()));
            Ok(lines.collect())
        }
        scalar @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
            Ok(format!("{}\n", scalar.string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_sets_and_other_values_are_printed() {
        let xml = b"<orders><order>IBM</order><order>SUN</order></orders>";
        assert_eq!(evaluate(xml, "//order").unwrap(), "order IBM\norder SUN\n");
        assert_eq!(evaluate(xml, "count(//order) + 1").unwrap(), "3\n");
        assert!(evaluate(xml, "//").is_err());
    }
}
