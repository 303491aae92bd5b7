//! Whether two texts are the same message: written in one way, without white space, as Micro Integrator does.

use expression::json::{self, Kind};

/// The text in lines: XML and JSON indented, with attributes and members in the order of the alphabet, so that lines
/// compare; other text as it is.
#[must_use]
pub fn layout(text: &str) -> Vec<String> {
    let text = text.trim();
    let text = match text.strip_prefix("<![CDATA[").and_then(|rest| rest.split_once("]]>")) {
        Some((inner, _)) => inner.trim(),
        None => text,
    };
    if text.starts_with('<')
        && let Ok(document) = xml::Document::parse(text.as_bytes())
    {
        return xml_lines(&document);
    }
    if text.starts_with(['{', '['])
        && let Ok(document) = json::Document::parse(text.as_bytes())
    {
        let mut lines = Lines::default();
        lines.json(document.root(), 0);
        return lines.finish();
    }
    text.lines().map(|line| line.trim_end().to_owned()).collect()
}

/// Whether both are the same message. As in Micro Integrator, white space never counts.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        let all = layout(text).concat();
        all.chars().filter(|c| !c.is_whitespace()).collect::<String>()
    };
    plain(one) == plain(other)
}

#[derive(Default)]
struct Lines {
    done: Vec<String>,
    current: String,
}

impl Lines {
    fn push(&mut self, text: &str) {
        self.current.push_str(text);
    }

    /// Ends the line, and indents the next one.
    fn next(&mut self, depth: usize) {
        self.done.push(std::mem::take(&mut self.current));
        self.current = "  ".repeat(depth);
    }

    fn finish(mut self) -> Vec<String> {
        self.done.push(self.current);
        self.done
    }

    /// The parser limits the depth of its result.
    fn json(&mut self, value: json::Ref<'_>, depth: usize) {
        let is_object = value.kind() == Kind::Object;
        let children: Vec<_> = match value.kind() {
            Kind::Object => {
                let mut members: Vec<_> =
                    value.members().map(|(name, value)| (Some(name), value)).collect();
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
                members
            }
            Kind::Array => value.elements().map(|value| (None, value)).collect(),
            Kind::Number => return self.push(&number(value.raw())),
            Kind::String => return self.push(&quoted(&value.string().unwrap_or_default())),
            Kind::Boolean | Kind::Null => return self.push(value.raw()),
        };
        let (open, close) = if is_object { ("{", "}") } else { ("[", "]") };
        self.push(open);
        let last = children.len();
        for (at, (name, value)) in children.into_iter().enumerate() {
            self.next(depth + 1);
            if let Some(name) = name {
                self.push(&format!("{}: ", quoted(&name)));
            }
            self.json(value, depth + 1);
            self.push(if at + 1 < last { "," } else { "" });
        }
        if last > 0 {
            self.next(depth);
        }
        self.push(close);
    }
}

fn quoted(text: &str) -> String {
    let mut quoted = Vec::new();
    json::push_quoted(&mut quoted, text);
    String::from_utf8_lossy(&quoted).into_owned()
}

/// One way to write a number: `1.50`, `1.5` and `15e-1` are the same.
fn number(raw: &str) -> String {
    match (raw.parse::<i128>(), raw.parse::<f64>()) {
        (Ok(whole), _) => whole.to_string(),
        (Err(_), Ok(number)) if number.is_finite() => number.to_string(),
        (Err(_), _) => raw.to_owned(),
    }
}

fn xml_lines(document: &xml::Document) -> Vec<String> {
    let (mut lines, mut depth) = (Lines::default(), 0_usize);
    let mut next = document.element();
    while let Some(node) = next {
        write_start(node, &mut lines);
        if let Some(child) = node.first_child() {
            depth += 1;
            if node.sole_text().is_none() {
                lines.next(depth);
            }
            next = Some(child);
            continue;
        }
        // Up to the first that has a sibling.
        let mut at = Some(node);
        next = loop {
            let Some(node) = at else { break None };
            if let Some(sibling) = node.next_sibling().filter(|_| depth > 0) {
                if !is_blank(node) {
                    lines.next(depth);
                }
                break Some(sibling);
            }
            at = node.parent().filter(|parent| depth > 0 && parent.is_element());
            let Some(parent) = at else { break None };
            depth = depth.saturating_sub(1);
            if parent.sole_text().is_none() {
                lines.next(depth);
            }
            lines.push(&format!("</{}>", name(parent)));
        };
    }
    let mut done = lines.finish();
    done.retain(|line| !line.trim().is_empty());
    done
}

fn is_blank(node: xml::Node<'_>) -> bool {
    node.kind() == xml::Kind::Text && node.text().trim().is_empty()
}

fn write_start(node: xml::Node<'_>, lines: &mut Lines) {
    match node.kind() {
        xml::Kind::Element => {
            let declared = node.declarations().filter(|(_, uri)| !uri.is_empty());
            let mut attributes: Vec<(String, String)> = declared
                .map(|(prefix, uri)| match prefix {
                    "" => ("xmlns".to_owned(), uri.to_owned()),
                    prefix => (format!("xmlns:{prefix}"), uri.to_owned()),
                })
                .collect();
            let own = node.attributes().map(|attribute| (name(attribute), attribute.text().into()));
            attributes.extend(own);
            attributes.sort_unstable();
            lines.push(&format!("<{}", name(node)));
            for (name, value) in attributes {
                lines.push(&format!(" {name}=\"{}\"", escaped(&value)));
            }
            lines.push(if node.first_child().is_none() { "/>" } else { ">" });
        }
        xml::Kind::Text => lines.push(&escaped(node.text().trim())),
        xml::Kind::Root
        | xml::Kind::Comment
        | xml::Kind::ProcessingInstruction
        | xml::Kind::Attribute
        | xml::Kind::Namespace => {}
    }
}

fn name(node: xml::Node<'_>) -> String {
    match node.prefix() {
        "" => node.local_name().to_owned(),
        prefix => format!("{prefix}:{}", node.local_name()),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(layout(text).join("\n"), expect);
    }

    #[test]
    fn xml_and_json_are_laid_out_in_lines_that_compare() {
        check(
            "<a y='1' x='2'><b/>\n<c>t &lt; u</c></a>",
            "<a x=\"2\" y=\"1\">\n  <b/>\n  <c>t &lt; u</c>\n</a>",
        );
        check(
            "<m:a xmlns:m='urn:m'><b xmlns=''>1</b>t</m:a>",
            "<m:a xmlns:m=\"urn:m\">\n  <b>1</b>\n  t\n</m:a>",
        );
        check(
            "{\"b\":[1.50,{}],\"a\":\"x y\"}",
            "{\n  \"a\": \"x y\",\n  \"b\": [\n    1.5,\n    {}\n  ]\n}",
        );
        check("<![CDATA[ {} ]]>", "{}");
        check(" one \n two", "one\n two");
        check("<a>", "<a>");
        check("<a><b><c/></b><b/></a>", "<a>\n  <b>\n    <c/>\n  </b>\n  <b/>\n</a>");
    }

    #[test]
    fn white_space_order_and_notation_do_not_count() {
        for (one, other) in [
            ("{\"a\":1,\"b\":\"x y\"}", "{ \"b\": \"xy\", \"a\": 1.0 }"),
            ("<a b='1' c='2'/>", "<a c=\"2\"\n b=\"1\"></a>"),
            ("<a>\n <b>1</b>\n</a>", "<?xml version='1.0'?><a><b>1</b></a>"),
            ("one two", " onetwo\n"),
        ] {
            assert!(is_same(one, other), "{one} and {other}");
        }
        for (one, other) in [
            ("{\"a\":1}", "{\"a\":\"1\"}"),
            ("[1,2]", "[2,1]"),
            ("<a><b/></a>", "<a>&lt;b/></a>"),
            ("<a/>", "<m:a xmlns:m='urn:m'/>"),
            ("90071992547409931", "90071992547409932"),
            ("[90071992547409931]", "[90071992547409932]"),
        ] {
            assert!(!is_same(one, other), "{one} and {other}");
        }
    }
}
