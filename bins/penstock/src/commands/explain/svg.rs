//! A flow chart in SVG.
//!
//! Every part is drawn at the origin and moved to its place by the part that contains it: a card for a step, steps
//! below each other, branches beside each other. Colours repeat information in the text.

use mediation::BodyUse;
use mediation_tools::outline::{Branch, Node, Outline, Split};

use super::{body_lines, body_word, cost, cost_line, heading, is_free};

const CARD_WIDTH: i32 = 280;
const CARD_HEIGHT: i32 = 46;
/// Between steps, for an arrow.
const GAP: i32 = 26;
/// Between branches.
const BETWEEN: i32 = 24;
/// Space for the name of a branch.
const LABEL: i32 = 24;
const MARGIN: i32 = 28;
/// Branches that would be wider stand below each other.
const WIDTH_MAX: i32 = 1_240;
/// Left and right of the text in a card.
const PADDING: (i32, i32) = (16, 10);
/// Font sizes, as in [`STYLE`].
const SMALL: i32 = 11;
const MEDIUM: i32 = 12;

/// Light and dark, for screens and paper. Contrast of all text is at least 4.5.
const STYLE: &str = "
  svg { font-family: system-ui, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif; font-size: 12px; }
  .page { fill: #ffffff; } text { fill: #1f2430; } .dim { fill: #566072; }
  .card { fill: #f6f8fb; stroke: #c3cad6; } .line { stroke: #7a8597; fill: none; stroke-width: 1.5; }
  .copy { stroke-dasharray: 5 4; } .tip { fill: #7a8597; } .pill { fill: #e6eaf1; }
  .streams { fill: #2f8f5b; } .reads { fill: #c58a00; } .rewrites { fill: #c2452d; }
  .h1 { font-size: 19px; font-weight: 600; } .h2 { font-size: 14px; font-weight: 600; } .b { font-weight: 600; }
  .small { font-size: 11px; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #161a22; } text { fill: #e8ecf3; } .dim { fill: #a9b4c6; }
    .card { fill: #202632; stroke: #3d4759; } .pill { fill: #2c3442; }
    .streams { fill: #4fb981; } .reads { fill: #e0ad36; } .rewrites { fill: #e8745c; }
  }
";

pub(super) fn document(outlines: &[Outline]) -> String {
    let mut page = Drawing::default();
    for outline in outlines {
        let below = if page.height == 0 { 0 } else { page.height + 2 * MARGIN };
        page.place(of_one(outline), 0, below);
    }
    let legend = legend();
    let below = page.height + MARGIN;
    page.place(legend, 0, below);
    let (width, height) = (page.width + 2 * MARGIN, page.height + 2 * MARGIN);
    let title = outlines.iter().map(heading).collect::<Vec<_>>().join(", ");
    let words: Vec<String> = outlines.iter().flat_map(described).collect();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">{}</title>\n<desc id=\"desc\">{}</desc>\n<style>{STYLE}</style>\n\
         <rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n",
        escaped(&title),
        escaped(&words.join(". ")),
    );
    page.write(MARGIN, MARGIN, &mut svg);
    svg + "</svg>\n"
}

/// The picture in words, for readers who cannot see it.
fn described(outline: &Outline) -> Vec<String> {
    let of = |flow: &Branch| {
        format!("{}: {}; at most {}", flow.label, body_lines(flow).join("; "), cost_line(flow))
    };
    outline.flows.iter().map(of).collect()
}

fn of_one(outline: &Outline) -> Drawing {
    let mut drawing = Drawing::default();
    drawing.text("h1", 0, 16, &heading(outline));
    let flows: Vec<Drawing> = outline.flows.iter().map(of_flow).collect();
    let below = drawing.height + MARGIN;
    drawing.place(arranged(flows, 2 * BETWEEN), 0, below);
    drawing
}

/// A flow with its heading.
fn of_flow(flow: &Branch) -> Drawing {
    let mut drawing = Drawing::default();
    drawing.text("h2", 0, 12, &flow.label);
    let mut lines = body_lines(flow);
    if !is_free(flow.costs_ns()) {
        lines.push(format!("at most {}", cost_line(flow)));
    }
    for line in lines {
        let below = drawing.height + 15;
        drawing.text("dim small", 0, below, &line);
    }
    let below = drawing.height + 16;
    drawing.place(of_steps(&flow.steps).drawing, 0, below);
    drawing
}

/// Beside each other, or below each other if that is too wide.
fn arranged(drawings: Vec<Drawing>, between: i32) -> Drawing {
    let mut row = Drawing::default();
    let width: i32 = drawings.iter().map(|drawing| drawing.width + between).sum();
    let is_row = width - between <= WIDTH_MAX;
    for drawing in drawings {
        let (x, y) = match (is_row, row.width) {
            (_, 0) => (0, 0),
            (true, width) => (width + between, 0),
            (false, _) => (0, row.height + between),
        };
        row.place(drawing, x, y);
    }
    row
}

/// Steps below each other.
struct Steps {
    drawing: Drawing,
    /// Where arrows come in and go out.
    axis: i32,
    /// Whether a message leaves at the end.
    continues: bool,
}

/// The steps of a branch, unless they are drawn above.
fn of_branch(branch: &Branch) -> Steps {
    if branch.is_repeated {
        return of_words("as above");
    }
    of_steps(&branch.steps)
}

fn of_words(words: &str) -> Steps {
    let mut drawing = Drawing { width: CARD_WIDTH / 2, ..Drawing::default() };
    let axis = drawing.width / 2;
    drawing.text("dim small", axis - width(words, SMALL) / 2, 12, words);
    Steps { drawing, axis, continues: true }
}

fn of_steps(nodes: &[Node]) -> Steps {
    if nodes.is_empty() {
        return of_words("no steps");
    }
    let last = nodes.len() - 1;
    let parts = nodes.iter().enumerate();
    let parts: Vec<_> = parts.map(|(at, node)| (of_node(node, at == last), node.ends())).collect();
    let axis = parts.iter().map(|(part, _)| part.axis).max().unwrap_or_default();
    let mut drawing = Drawing::default();
    let mut continues = true;
    for (number, (part, ends)) in parts.into_iter().enumerate() {
        let mut y = drawing.height;
        if number > 0 {
            y += GAP;
            let class = if continues { "line" } else { "line copy" };
            drawing.arrow(class, &[(axis, y - GAP), (axis, y)]);
        }
        drawing.place(part.drawing, axis - part.axis, y);
        continues = !ends && part.continues;
    }
    Steps { drawing, axis, continues }
}

/// A step with its branches, which meet again unless it is the last one.
fn of_node(node: &Node, is_last: bool) -> Steps {
    let card = card(node);
    let mut drawing = Drawing::default();
    let branches: Vec<_> = node.branches.iter().map(|branch| (branch, of_branch(branch))).collect();
    if branches.is_empty() {
        drawing.place(card, 0, 0);
        return Steps { drawing, axis: CARD_WIDTH / 2, continues: true };
    }
    let width: i32 = branches.iter().map(|(_, part)| part.drawing.width + BETWEEN).sum();
    if width - BETWEEN > WIDTH_MAX {
        return below_each_other(node, card, branches);
    }
    let row_width = (width - BETWEEN).max(CARD_WIDTH);
    let axis = row_width / 2;
    let height = card.height;
    drawing.place(card, axis - CARD_WIDTH / 2, 0);
    let class = if node.split == Split::Copies { "line copy" } else { "line" };
    let mut x = (row_width - (width - BETWEEN)) / 2;
    let top = height + GAP + LABEL;
    let (middle, mut ends) = (height + GAP / 2, Vec::new());
    for (branch, part) in branches {
        let into = x + part.axis;
        let (part_width, part_height) = (part.drawing.width, part.drawing.height);
        drawing.arrow(class, &[(axis, height), (axis, middle), (into, middle), (into, top)]);
        drawing.pill(into, height + GAP, &branch.label);
        drawing.place(part.drawing, x, top);
        // Copies go their own way; the others meet again.
        if part.continues && node.split != Split::Copies && branch.entry.comes_back() {
            ends.push((into, top + part_height));
        }
        x += part_width + BETWEEN;
    }
    let continues = !ends.is_empty() || node.split == Split::Copies;
    if !ends.is_empty() && !is_last {
        let meeting = drawing.height + GAP / 2;
        for (x, y) in ends {
            drawing.line("line", &[(x, y), (x, meeting), (axis, meeting)]);
        }
        drawing.height = meeting;
    }
    Steps { drawing, axis, continues }
}

/// Many branches: as a list, with a line at the left.
fn below_each_other(node: &Node, card: Drawing, branches: Vec<(&Branch, Steps)>) -> Steps {
    let mut drawing = Drawing::default();
    drawing.place(card, 0, 0);
    let class = if node.split == Split::Copies { "line copy" } else { "line" };
    let indent = 3 * BETWEEN;
    for (branch, part) in branches {
        let top = drawing.height + GAP;
        drawing.line(class, &[(BETWEEN, CARD_HEIGHT), (BETWEEN, top + 9), (indent, top + 9)]);
        drawing.label(indent + 6, top, &branch.label);
        drawing.place(part.drawing, indent, top + LABEL);
    }
    Steps { drawing, axis: CARD_WIDTH / 2, continues: true }
}

fn card(node: &Node) -> Drawing {
    let mut drawing = Drawing::default();
    let targets = node.sends_to.iter().map(|target| format!("→ {target}"));
    let text = std::iter::once(node.text.clone()).filter(|text| !text.is_empty()).chain(targets);
    let text = text.collect::<Vec<_>>().join("  ");
    let class = match node.body_use {
        BodyUse::Untouched => "streams",
        BodyUse::Read => "reads",
        BodyUse::Rewritten | _ => "rewrites",
    };
    let word = body_word(node);
    let [_, ns, _] = node.costs_ns;
    let costs = if ns == 0 { String::new() } else { format!(", {} for 10 KB", cost(ns)) };
    let hint = format!(
        "{} in {}:{}:{} {text}{}{word}{costs}",
        node.element,
        node.file,
        node.place.line,
        node.place.column,
        if word.is_empty() { "" } else { "; " },
    );
    let mut svg = format!(
        "<g><title>{}</title><rect class=\"card\" width=\"{CARD_WIDTH}\" height=\"{CARD_HEIGHT}\" rx=\"6\"/>\
         <rect class=\"{class}\" width=\"5\" height=\"{CARD_HEIGHT}\" rx=\"2.5\"/>\
         <text class=\"b\" x=\"16\" y=\"19\">{}</text>",
        escaped(&hint),
        escaped(&cut(&node.element, MEDIUM, CARD_WIDTH / 2)),
    );
    if !word.is_empty() {
        let x = CARD_WIDTH - PADDING.1;
        svg += &format!(
            "<text class=\"dim small\" x=\"{x}\" y=\"19\" text-anchor=\"end\">{}</text>",
            escaped(&format!("{word}{}", costs.replace(" for 10 KB", "")))
        );
    }
    svg += &format!(
        "<text class=\"dim small\" x=\"{}\" y=\"36\">{}</text></g>",
        PADDING.0,
        escaped(&cut(&text, SMALL, CARD_WIDTH - PADDING.0 - PADDING.1))
    );
    drawing.items.push((0, 0, svg));
    (drawing.width, drawing.height) = (CARD_WIDTH, CARD_HEIGHT);
    drawing
}

fn legend() -> Drawing {
    let mut drawing = Drawing::default();
    let words = [
        ("streams", "the body streams"),
        ("reads", "reads the body, which is held"),
        ("rewrites", "rewrites the body"),
    ];
    let mut x = 0;
    for (class, word) in words {
        let square = format!("<rect class=\"{class}\" width=\"11\" height=\"11\" rx=\"2.5\"/>");
        drawing.items.push((x, 1, square));
        drawing.text("dim small", x + 17, 11, word);
        x = drawing.width + BETWEEN;
    }
    drawing.text("dim small", x, 11, "times: estimated for a body of 10 KB");
    drawing
}

/// SVG with its size.
#[derive(Default)]
struct Drawing {
    width: i32,
    height: i32,
    /// Each at its place.
    items: Vec<(i32, i32, String)>,
}

impl Drawing {
    fn place(&mut self, other: Self, x: i32, y: i32) {
        self.width = self.width.max(x + other.width);
        self.height = self.height.max(y + other.height);
        self.items.extend(other.items.into_iter().map(|(dx, dy, svg)| (x + dx, y + dy, svg)));
    }

    /// `y` is the base line.
    fn text(&mut self, class: &str, x: i32, y: i32, text: &str) {
        let svg = format!("<text class=\"{class}\">{}</text>", escaped(text));
        self.items.push((x, y, svg));
        // Bold letters are wider.
        let size = match class {
            "h1" => 21,
            "h2" => 16,
            _ => SMALL,
        };
        self.width = self.width.max(x + width(text, size));
        self.height = self.height.max(y + 4);
    }

    fn line(&mut self, class: &str, points: &[(i32, i32)]) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
        let svg = format!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
        self.items.push((0, 0, svg));
    }

    /// A line with a tip that points down.
    fn arrow(&mut self, class: &str, points: &[(i32, i32)]) {
        self.line(class, points);
        if let Some((x, y)) = points.last() {
            self.items.push((*x, *y, "<path class=\"tip\" d=\"M-4,-7 L4,-7 L0,0 Z\"/>".to_owned()));
        }
    }

    /// The name of a branch, around `x`.
    fn pill(&mut self, x: i32, y: i32, label: &str) {
        if label.is_empty() {
            return;
        }
        let label = cut(label, SMALL, CARD_WIDTH - PILL_PADDING);
        let half = pill_width(&label) / 2;
        self.label(x - half, y - 4, &label);
    }

    fn label(&mut self, x: i32, y: i32, label: &str) {
        let label = cut(label, SMALL, CARD_WIDTH - PILL_PADDING);
        let width = pill_width(&label);
        let svg = format!(
            "<rect class=\"pill\" width=\"{width}\" height=\"18\" rx=\"9\"/>\
             <text class=\"small\" x=\"{}\" y=\"13\" text-anchor=\"middle\">{}</text>",
            width / 2,
            escaped(&label)
        );
        self.items.push((x, y, svg));
        self.width = self.width.max(x + width);
        self.height = self.height.max(y + 18);
    }

    fn write(&self, x: i32, y: i32, svg: &mut String) {
        for (dx, dy, item) in &self.items {
            *svg += &format!("<g transform=\"translate({} {})\">{item}</g>\n", x + dx, y + dy);
        }
    }
}

const PILL_PADDING: i32 = 18;

fn pill_width(label: &str) -> i32 {
    width(label, SMALL) + PILL_PADDING
}

/// Pixels of a line in the widest of the fonts in [`STYLE`] and their usual replacements.
fn width(text: &str, size: i32) -> i32 {
    text.chars().map(|c| thousandths(c) * size).sum::<i32>() / 1_000 + 1
}

/// The width of a character, of its font's size. Source: DejaVu Sans.
fn thousandths(c: char) -> i32 {
    match c {
        'i' | 'j' | 'l' | '\'' | '|' | 'I' => 300,
        ' ' | '.' | ',' | ':' | ';' | '/' | '\\' | '-' => 362,
        'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '!' | '"' => 460,
        'm' | 'w' | 'M' | 'W' | 'O' | 'Q' | '=' | '+' | '<' | '>' | '#' | '%' | '~' | '@' => 1_000,
        'A'..='Z' => 780,
        c if c.is_ascii() => 640,
        _ => 1_000,
    }
}

/// The beginning, if it would be wider than `most` pixels.
fn cut(text: &str, size: i32, most: i32) -> String {
    if width(text, size) <= most {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if width(&short, size) + width("…", size) > most {
            short.pop();
            break;
        }
    }
    short + "…"
}

fn escaped(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect();
    clean.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::{SMALL, cut, width};

    #[test]
    fn what_is_too_wide_is_cut() {
        assert_eq!(cut("iiiii", SMALL, 20), "iiiii");
        assert_eq!(cut("WWWWW", SMALL, 40), "WW…");
        for text in [
            "source=/soapenv:Envelope/soapenv:Header/t:routing",
            "MMMMMMMM",
            "ä".repeat(90).as_str(),
        ] {
            assert!(width(&cut(text, SMALL, 60), SMALL) <= 60, "{text}");
        }
    }
}
