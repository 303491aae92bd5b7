//! Documents and expressions by dice, for the differential test and the fuzz target. Every element has
//! an `id` of its own, so that whoever prints its attributes says which it is.

/// Where choices come from: bytes first, then a sequence that a seed begins, or nothing but zeros.
pub(crate) struct Dice {
    bytes: Vec<u8>,
    at: usize,
    state: u64,
    /// Predicates around what is being made: only there is a position.
    predicates: usize,
}

impl Dice {
    /// The same choices for the same seed.
    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            bytes: Vec::new(),
            at: 0,
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            predicates: 0,
        }
    }

    /// The bytes' choices, then always the first.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), at: 0, state: 0, predicates: 0 }
    }

    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        if let Some(byte) = self.bytes.get(self.at) {
            self.at += 1;
            return usize::from(*byte) % sides;
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap_or(0) % sides
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        let index = self.roll(from.len());
        from.get(index).copied().unwrap_or("")
    }
}

const NAMES: &[&str] = &["a", "a", "b", "b", "c", "p:a", "q:b"];
const WORDS: &[&str] = &["x", "y", "12", "-3.5", " 7 ", "IBM", "one two", "0", "5."];

/// A document of a few dozen nodes of all kinds. `p` and `q` are bound to `urn:p` and `urn:q`.
pub(crate) fn document(dice: &mut Dice) -> String {
    let mut out = String::from("<r xmlns:p=\"urn:p\" xmlns:q=\"urn:q\" id=\"i0\">");
    let mut count = 0;
    content(dice, 0, &mut count, &mut out);
    out.push_str("</r>");
    out
}

fn content(dice: &mut Dice, depth: usize, count: &mut usize, out: &mut String) {
    let mut text_before = false;
    for _ in 0..dice.roll(6) + 4 * usize::from(depth == 0) {
        let choice = dice.roll(10);
        let is_text = (7..9).contains(&choice);
        match choice {
            0..=6 if depth < 4 && *count < 30 => element(dice, depth, count, out),
            7 | 8 if !text_before => out.push_str(dice.pick(WORDS)),
            9 => out.push_str(dice.pick(&["<!--x-->", "<?t y?>", "<?u?>"])),
            _ => continue,
        }
        text_before = is_text;
    }
}

fn element(dice: &mut Dice, depth: usize, count: &mut usize, out: &mut String) {
    *count += 1;
    let name = dice.pick(NAMES);
    out.push_str(&format!("<{name} id=\"i{count}\""));
    if dice.roll(2) == 0 {
        out.push_str(&format!(" n=\"{}\"", dice.roll(4)));
    }
    if dice.roll(4) == 0 {
        out.push_str(&format!(" p:m=\"{}\"", dice.pick(&["x", "y", "12"])));
    }
    if dice.roll(8) == 0 {
        out.push_str(&format!(" xml:lang=\"{}\"", dice.pick(&["en", "en-GB", "de"])));
    }
    out.push('>');
    content(dice, depth + 1, count, out);
    out.push_str(&format!("</{name}>"));
}

/// An expression that XPath 1.0 allows on such a document, with `p` and `q` bound.
pub(crate) fn expression(dice: &mut Dice) -> String {
    match dice.roll(4) {
        0 => scalar(dice, 3),
        _ => path(dice, 3),
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

fn path(dice: &mut Dice, depth: usize) -> String {
    let mut out = match dice.roll(12) {
        0 | 1 => "/".to_owned(),
        2..=6 => "//".to_owned(),
        7 if depth > 0 => format!("({})", path(dice, depth - 1)) + &predicates(dice, depth) + "/",
        8 if depth > 0 => format!("({} | {})/", path(dice, depth - 1), path(dice, depth - 1)),
        _ => String::new(),
    };
    let steps = 1 + dice.roll(3);
    for index in 0..steps {
        if index > 0 {
            out.push_str(if dice.roll(3) == 0 { "//" } else { "/" });
        }
        out.push_str(&step(dice, depth));
    }
    out
}

fn step(dice: &mut Dice, depth: usize) -> String {
    let head = match dice.roll(10) {
        0 => return ".".to_owned(),
        1 => return "..".to_owned(),
        2 => format!("@{}", dice.pick(&["id", "n", "*", "p:m"])),
        3..=6 => dice.pick(TESTS).to_owned(),
        _ => format!("{}::{}", dice.pick(AXES), dice.pick(TESTS)),
    };
    head + &predicates(dice, depth)
}

fn predicates(dice: &mut Dice, depth: usize) -> String {
    let mut out = String::new();
    if depth == 0 {
        return out;
    }
    while dice.roll(4) == 0 && out.len() < 40 {
        dice.predicates += 1;
        let inner = match dice.roll(8) {
            0 | 1 => (1 + dice.roll(3)).to_string(),
            2 => "last()".to_owned(),
            3 => format!("position() {} {}", comparison(dice), 1 + dice.roll(3)),
            4 => format!("position() {} last()", comparison(dice)),
            5 => path(dice, depth - 1),
            _ => scalar(dice, depth - 1),
        };
        dice.predicates -= 1;
        out.push_str(&format!("[{inner}]"));
    }
    out
}

fn comparison(dice: &mut Dice) -> &'static str {
    dice.pick(&["=", "!=", "<", "<=", ">", ">="])
}

fn scalar(dice: &mut Dice, depth: usize) -> String {
    if depth == 0 {
        return match dice.roll(3) {
            0 => dice.roll(5).to_string(),
            1 => format!("'{}'", dice.pick(WORDS)),
            _ if dice.predicates > 0 => dice.pick(&["position()", "last()", "@n", "."]).to_owned(),
            _ => dice.pick(&["true()", "false()", "@n", "."]).to_owned(),
        };
    }
    let below = depth - 1;
    match dice.roll(16) {
        0 => format!("count({})", path(dice, below)),
        1 => format!("sum({})", path(dice, below)),
        2 => format!("string({})", path(dice, below)),
        3 => format!("{} {} {}", path(dice, below), comparison(dice), scalar(dice, 0)),
        4 => format!("{} {} {}", path(dice, below), comparison(dice), path(dice, below)),
        5 => format!("({} {} {})", scalar(dice, below), comparison(dice), scalar(dice, below)),
        6 => format!("({} or {})", scalar(dice, below), scalar(dice, below)),
        7 => format!("({} and {})", scalar(dice, below), scalar(dice, below)),
        8 => {
            let operator = dice.pick(&["+", "-", "*", "div", "mod"]);
            format!("({} {operator} {})", scalar(dice, below), scalar(dice, below))
        }
        9 => one_argument(dice, below),
        10 => format!("(-{})", scalar(dice, below)),
        11 => {
            let (from, to) = (dice.pick(&["12", "xyz", "- "]), dice.pick(&["AB", "", "ayx"]));
            format!("translate({}, '{from}', '{to}')", scalar(dice, below))
        }
        12 => {
            let (from, len) = (dice.roll(4), dice.pick(&["1", "2.5", "-1", "1 div 0"]));
            format!("substring({}, {from}, {len})", scalar(dice, below))
        }
        13 => format!("count({}/namespace::*)", path(dice, below)),
        14 => {
            let name = dice.pick(&[
                "concat",
                "starts-with",
                "contains",
                "substring-before",
                "substring-after",
                "substring",
            ]);
            format!("{name}({}, {})", scalar(dice, below), scalar(dice, below))
        }
        _ => {
            let name = dice.pick(&["name", "local-name", "namespace-uri", "boolean", "not"]);
            format!("{name}({})", path(dice, below))
        }
    }
}

fn one_argument(dice: &mut Dice, below: usize) -> String {
    let name = dice.pick(&[
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
        return format!("lang('{}')", dice.pick(&["en", "EN", "de", "en-gb"]));
    }
    format!("{name}({})", scalar(dice, below))
}
