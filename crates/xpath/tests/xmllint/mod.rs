//! Runs `xmllint --shell` (Debian: libxml2-utils), and prints our results in its format.

use std::io::Write;
use std::process::{Command, Stdio};

use xml::{Document, Kind};
use xpath::{Budget, Context, Expression, Item, Value};

use crate::cases::Given;

/// The section of the recommendation from which libxml2 may depart on this expression: `data/differences.cases`.
pub(crate) fn decided_by(expression: &str) -> Option<&'static str> {
    let has = |part: &str| expression.contains(part);
    let attributes = has("@") || has("attribute::");
    let takes_first = has("string(") || has("node()[") || has("name(");
    if has("following::") && attributes {
        Some("2.2")
    } else if has(".//.") {
        Some("2.5")
    } else if has("processing-instruction()") && (has(" = ") || has(" != ")) {
        Some("3.4")
    } else if has(" div ") && (has("translate(") || has("substring")) {
        Some("4.2")
    } else if has("'-3.5'") && has("substring") {
        Some("4.4")
    } else {
        (has("node()") && takes_first).then_some("2.1")
    }
}

pub(crate) fn same(ours: &str, theirs: &str) -> bool {
    let cut = theirs.strip_suffix("...\n");
    if ours == theirs || cut.is_some_and(|cut| ours.starts_with(cut)) {
        return true;
    }
    let number = |text: &str| {
        let figures = text.strip_prefix("Object is a number : ")?;
        figures.trim_end().replace("Infinity", "inf").parse::<f64>().ok()
    };
    match (number(ours), number(theirs)) {
        (Some(ours), Some(theirs)) => {
            (ours - theirs).abs() <= ours.abs() * 1e-5
                || (ours == theirs)
                || (ours.is_nan() && theirs.is_nan())
        }
        _ => false,
    }
}

/// Our result, in the format of xmllint.
pub(crate) fn result(document: &Document, text: &str) -> String {
    let expression = Expression::compile(text, &Given).unwrap();
    match expression.evaluate(Context::new(document.root()), &mut Given, &Budget::large()).unwrap()
    {
        Value::NodeSet(nodes) => {
            let mut shown: Vec<String> = nodes.iter().map(show).collect();
            shown.sort();
            format!(
                "Object is a Node Set :\nSet contains {} nodes:\n{}",
                nodes.len(),
                shown.concat()
            )
        }
        Value::String(text) => format!("Object is a string : {text}\n"),
        Value::Number(number) => format!("Object is a number : {number}\n"),
        Value::Boolean(value) => format!("Object is a Boolean : {value}\n"),
    }
}

fn show(item: Item<'_>) -> String {
    let node = item.node().unwrap();
    let attribute = |name: &str, value: &str| match value {
        "" => format!("ATTRIBUTE {name}\n"),
        value => format!("ATTRIBUTE {name}\nTEXT\ncontent={value}\n"),
    };
    match node.kind() {
        Kind::Root => "/\n".to_owned(),
        Kind::Element => {
            let mut out = format!("ELEMENT {}\n", item.qualified_name());
            for (prefix, uri) in node.declarations() {
                out.push_str(&format!("namespace {prefix} href={uri}\n"));
            }
            for one in node.attributes() {
                let name = Item::from(one).local_name();
                out.push_str(&attribute(name, one.text()));
            }
            out
        }
        Kind::Attribute => attribute(node.local_name(), node.text()),
        Kind::Text => format!("TEXT\ncontent={}\n", node.text()),
        Kind::Comment => format!("COMMENT\ncontent={}\n", node.text()),
        Kind::ProcessingInstruction => match node.text() {
            "" => format!("PI {}\n", node.local_name()),
            text => format!("PI {}\ncontent={text}\n", node.local_name()),
        },
        Kind::Namespace => unreachable!("generated expressions select none"),
    }
}

/// The results of `xmllint --shell`, without indentation and numbering.
pub(crate) fn run(document: &str, expressions: &[String]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document.xml");
    std::fs::write(&file, document).unwrap();
    let mut command = Command::new("xmllint");
    command.arg("--shell").arg(&file).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.stderr(Stdio::null()).spawn() else {
        panic!("xmllint is missing: install the Debian package libxml2-utils");
    };
    let mut script = String::from("setns p=urn:p\nsetns q=urn:q\n");
    for expression in expressions {
        script.push_str(&format!("xpath {expression}\n"));
    }
    script.push_str("bye\n");
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let results = shown.split("/ > ").skip(3).filter(|result| !result.trim().is_empty());
    results.map(tidy).collect()
}

fn tidy(result: &str) -> String {
    // Printed for a path that ended early.
    if result.contains("NodeSet is NULL !") {
        return "Object is a Node Set :\nSet contains 0 nodes:\n".to_owned();
    }
    if !result.starts_with("Object is a Node Set") {
        return result.to_owned();
    }
    let mut head = String::new();
    let mut nodes: Vec<String> = Vec::new();
    for line in result.lines() {
        let line = line.trim_start();
        let numbered = line.split_once(' ').filter(|(number, _)| number.parse::<u32>().is_ok());
        match (numbered, nodes.last_mut()) {
            (Some((_, node)), _) => nodes.push(format!("{}\n", node.trim_start())),
            (None, Some(node)) => node.extend([line, "\n"]),
            (None, None) => head.extend([line, "\n"]),
        }
    }
    nodes.sort();
    head + &nodes.concat()
}
