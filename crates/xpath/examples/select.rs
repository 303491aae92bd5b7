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
    let document = xml::Document::parse(&bytes)?;
    for text in expressions {
        let expression = Expression::compile(&text, &NoBindings)?;
        match expression.evaluate(
            Context::new(document.root()),
            &mut NoBindings,
            &Budget::large(),
        )? {
            Value::NodeSet(nodes) => {
                println!("{} nodes", nodes.len());
                nodes.iter().for_each(|item| println!("{item:?} {}", item.string_value()));
            }
            scalar @ (Value::String(_) | Value::Number(_) | Value::Boolean(_)) => {
                println!("{scalar:?}");
            }
        }
    }
    Ok(())
}
