//! Generates documents and expressions for the differential tests and the fuzz target. Each element has an
//! `id` of its own, which identifies it when its attributes are printed.

/// A source of choices: the given bytes, then the pseudo-random numbers of a seed, or zeros if there is none.
pub(crate) struct Choices {
    bytes: Vec<u8>,
    at: usize,
    state: u64,
    /// The predicates around the current expression. `position()` is used only within them.
    predicates: usize,
}

impl Choices {
    /// Choices from a seed.
    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            bytes: Vec::new(),
            at: 0,
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            predicates: 0,
        }
    }

    /// Choices from bytes; after their end always the first.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), at: 0, state: 0, predicates: 0 }
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        if let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            return usize::from(*byte) % limit;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap_or(0) % limit
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        let index = self.below(from.len());
        from.get(index).copied().unwrap_or("")
    }
}

const NAMES: &[&str] = &["a", "a", "b", "b", "c", "p:a", "q:b"];
const WORDS: &[&str] = &["x", "y", "12", "-3.5", " 7 ", "IBM", "one two", "0", "5."];

/// A document of a few dozen nodes of all types. `p` and `q` are bound to `urn:p` and `urn:q`.
pub(crate) fn document(choices: &mut Choices) -> String {
    let mut out = String::from("<r xmlns:p=\"urn:p\" xmlns:q=\"urn:q\" id=\"i0\">");
    let mut count = 0;
    content(choices, 0, &mut count, &mut out);
    out.push_str("</r>");
    out
}

fn content(choices: &mut Choices, depth: usize, count: &mut usize, out: &mut String) {
    let mut text_before = false;
    for _ in 0..choices.below(6) + 4 * usize::from(depth == 0) {
        let choice = choices.below(10);
        let is_text = (7..9).contains(&choice);
        match choice {
            0..=6 if depth < 4 && *count < 30 => element(choices, depth, count, out),
            7 | 8 if !text_before => out.push_str(choices.pick(WORDS)),
            9 => out.push_str(choices.pick(&["<!--x-->", "<?t y?>", "<?u?>"])),
            _ => continue,
        }
        text_before = is_text;
    }
}

fn element(choices: &mut Choices, depth: usize, count: &mut usize, out: &mut String) {
    *count += 1;
    let name = choices.pick(NAMES);
    out.push_str(&format!("<{name} id=\"i{count}\""));
    if choices.below(2) == 0 {
        out.push_str(&format!(" n=\"{}\"", choices.below(4)));
    }
    if choices.below(4) == 0 {
        out.push_str(&format!(" p:m=\"{}\"", choices.pick(&["x", "y", "12"])));
    }
    if choices.below(8) == 0 {
        out.push_str(&format!(" xml:lang=\"{}\"", choices.pick(&["en", "en-GB", "de"])));
    }
    out.push('>');
    content(choices, depth + 1, count, out);
    out.push_str(&format!("</{name}>"));
}

/// A valid XPath 1.0 expression for such a document, which uses the prefixes `p` and `q`.
pub(crate) fn expression(choices: &mut Choices) -> String {
    match choices.below(4) {
        0 => scalar(choices, 3),
        _ => path(choices, 3),
    }
}

/// A condition on such a document, which its beginning decides more often than others.
pub(crate) fn condition(choices: &mut Choices) -> String {
    let one = simple_condition(choices);
    match choices.below(3) {
        0 => one,
        1 => format!("{one} and {}", simple_condition(choices)),
        _ => format!("{one} or {}", simple_condition(choices)),
    }
}

fn simple_condition(choices: &mut Choices) -> String {
    let (path, word) = (path(choices, 2), choices.pick(WORDS));
    let comparison = comparison(choices);
    match choices.below(8) {
        0 => format!("boolean({path})"),
        1 => format!("{path} {comparison} {}", choices.below(4)),
        2 => format!("{path} {comparison} '{word}'"),
        3 => format!("'{word}' {comparison} {path}"),
        4 => format!("contains({path}, '{word}')"),
        5 => format!("starts-with({path}, '{word}')"),
        6 => format!("string({path}) {comparison} '{word}'"),
        _ => format!("normalize-space({path}) {comparison} '{word}'"),
    }
}

const AXES: &[&str] = &[
    "ancestor",
    "ancestor-or-self",
    "child",
    "descendant",
    "descendant-or-self",
    "following",
    "following-sibling",
    "parent",
    "preceding",
    "preceding-sibling",
    "self",
    "attribute",
];
const TESTS: &[&str] = &[
    "a",
    "a",
    "b",
    "b",
    "*",
    "*",
    "node()",
    "node()",
    "c",
    "p:a",
    "p:*",
    "text()",
    "comment()",
    "processing-instruction()",
    "processing-instruction('t')",
    "r",
];

fn path(choices: &mut Choices, depth: usize) -> String {
    let mut out = match choices.below(12) {
        0 | 1 => "/".to_owned(),
        2..=6 => "//".to_owned(),
        7 if depth > 0 => {
            format!("({})", path(choices, depth - 1)) + &predicates(choices, depth) + "/"
        }
        8 if depth > 0 => format!("({} | {})/", path(choices, depth - 1), path(choices, depth - 1)),
        _ => String::new(),
    };
    let steps = 1 + choices.below(3);
    for index in 0..steps {
        if index > 0 {
            out.push_str(if choices.below(3) == 0 { "//" } else { "/" });
        }
        out.push_str(&step(choices, depth));
    }
    out
}

fn step(choices: &mut Choices, depth: usize) -> String {
    let head = match choices.below(10) {
        0 => return ".".to_owned(),
        1 => return "..".to_owned(),
        2 => format!("@{}", choices.pick(&["id", "n", "*", "p:m"])),
        3..=6 => choices.pick(TESTS).to_owned(),
        _ => format!("{}::{}", choices.pick(AXES), choices.pick(TESTS)),
    };
    head + &predicates(choices, depth)
}

fn predicates(choices: &mut Choices, depth: usize) -> String {
    let mut out = String::new();
    if depth == 0 {
        return out;
    }
    while choices.below(4) == 0 && out.len() < 40 {
        choices.predicates += 1;
        let inner = match choices.below(8) {
            0 | 1 => (1 + choices.below(3)).to_string(),
            2 => "last()".to_owned(),
            3 => format!("position() {} {}", comparison(choices), 1 + choices.below(3)),
            4 => format!("position() {} last()", comparison(choices)),
            5 => path(choices, depth - 1),
            _ => scalar(choices, depth - 1),
        };
        choices.predicates -= 1;
        out.push_str(&format!("[{inner}]"));
    }
    out
}

fn comparison(choices: &mut Choices) -> &'static str {
    choices.pick(&["=", "!=", "<", "<=", ">", ">="])
}

fn scalar(choices: &mut Choices, depth: usize) -> String {
    if depth == 0 {
        return match choices.below(3) {
            0 => choices.below(5).to_string(),
            1 => format!("'{}'", choices.pick(WORDS)),
            _ if choices.predicates > 0 => {
                choices.pick(&["position()", "last()", "@n", "."]).to_owned()
            }
            _ => choices.pick(&["true()", "false()", "@n", "."]).to_owned(),
        };
    }
    let below = depth - 1;
    match choices.below(16) {
        0 => format!("count({})", path(choices, below)),
        1 => format!("sum({})", path(choices, below)),
        2 => format!("string({})", path(choices, below)),
        3 => format!("{} {} {}", path(choices, below), comparison(choices), scalar(choices, 0)),
        4 => format!("{} {} {}", path(choices, below), comparison(choices), path(choices, below)),
        5 => format!(
            "({} {} {})",
            scalar(choices, below),
            comparison(choices),
            scalar(choices, below)
        ),
        6 => format!("({} or {})", scalar(choices, below), scalar(choices, below)),
        7 => format!("({} and {})", scalar(choices, below), scalar(choices, below)),
        8 => {
            let operator = choices.pick(&["+", "-", "*", "div", "mod"]);
            format!("({} {operator} {})", scalar(choices, below), scalar(choices, below))
        }
        9 => one_argument(choices, below),
        10 => format!("(-{})", scalar(choices, below)),
        11 => {
            let (from, to) = (choices.pick(&["12", "xyz", "- "]), choices.pick(&["AB", "", "ayx"]));
            format!("translate({}, '{from}', '{to}')", scalar(choices, below))
        }
        12 => {
            let (from, len) = (choices.below(4), choices.pick(&["1", "2.5", "-1", "1 div 0"]));
            format!("substring({}, {from}, {len})", scalar(choices, below))
        }
        13 => format!("count({}/namespace::*)", path(choices, below)),
        14 => {
            let name = choices.pick(&[
                "concat",
                "starts-with",
                "contains",
                "substring-before",
                "substring-after",
                "substring",
            ]);
            format!("{name}({}, {})", scalar(choices, below), scalar(choices, below))
        }
        _ => {
            let name = choices.pick(&["name", "local-name", "namespace-uri", "boolean", "not"]);
            format!("{name}({})", path(choices, below))
        }
    }
}

fn one_argument(choices: &mut Choices, below: usize) -> String {
    let name = choices.pick(&[
        "string-length",
        "normalize-space",
        "not",
        "number",
        "floor",
        "ceiling",
        "round",
        "boolean",
        "string",
        "lang",
    ]);
    if name == "lang" {
        return format!("lang('{}')", choices.pick(&["en", "EN", "de", "en-gb"]));
    }
    format!("{name}({})", scalar(choices, below))
}
