//! A tree in text.

use mediation_tools::outline::{Branch, Entry, Node, Outline, Split};

use super::{SIZES, body_lines, body_word, cost, cost_line, heading, is_free};

/// Columns of a step and its attributes; longer ones are cut.
const STEP_COLUMNS: usize = 60;

pub(super) fn of(outlines: &[Outline]) -> String {
    outlines.iter().map(of_one).collect::<Vec<_>>().join("\n")
}

fn of_one(outline: &Outline) -> String {
    let mut text = heading(outline) + "\n";
    for flow in &outline.flows {
        text += &format!("\n{}: {}\n", flow.label, body_lines(flow).join("; "));
        if flow.steps.is_empty() {
            text += "  no steps\n";
            continue;
        }
        let costs = SIZES.map(|name| format!("{name:>8}")).concat();
        let has_cost = !is_free(flow.costs_ns());
        if has_cost {
            text += &format!("  {:STEP_COLUMNS$}  {:<17}{costs}\n", "", "");
        }
        steps(flow, "  ", &mut text);
        if has_cost {
            text += &format!("  at most {}\n", cost_line(flow));
        }
    }
    text
}

fn steps(branch: &Branch, indent: &str, text: &mut String) {
    let last = branch.steps.len().saturating_sub(1);
    for (at, node) in branch.steps.iter().enumerate() {
        let (mark, below) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        step(node, &format!("{indent}{mark}"), text);
        let below = format!("{indent}{below}");
        branches(node, &below, text);
    }
}

fn step(node: &Node, indent: &str, text: &mut String) {
    let mut words = format!("{indent}{} {}", node.element, node.text).trim_end().to_owned();
    for target in &node.sends_to {
        words += &format!(" → {target}");
    }
    let costs = match is_free(node.costs_ns) {
        true => String::new(),
        false => node.costs_ns.map(|ns| format!("{:>8}", cost(ns))).concat(),
    };
    let words = cut(&words, STEP_COLUMNS + 2);
    let width = STEP_COLUMNS + 2;
    let line = format!("{words:width$}  {:<17}{costs}", body_word(node));
    text.push_str(line.trim_end());
    text.push('\n');
}

fn branches(node: &Node, indent: &str, text: &mut String) {
    let last = node.branches.len().saturating_sub(1);
    for (at, branch) in node.branches.iter().enumerate() {
        let repeated = if branch.is_repeated { " (as above)" } else { "" };
        // The only branch without a name needs no line of its own.
        if branch.label.is_empty() {
            match branch.is_repeated {
                true => *text += &format!("{indent}└─{repeated}\n"),
                false => steps(branch, indent, text),
            }
            continue;
        }
        let (mark, below) = if at == last { ("└ ", "  ") } else { ("├ ", "│ ") };
        let is_copy = node.split == Split::Copies && branch.entry == Entry::Message;
        let copies = if is_copy { " (on a copy)" } else { "" };
        let label = format!("{indent}{mark}{}{copies}{repeated}", branch.label);
        text.push_str(&cut(&label, STEP_COLUMNS + 2));
        text.push('\n');
        if !branch.is_repeated {
            steps(branch, &format!("{indent}{below}"), text);
        }
    }
}

/// At most `columns` characters.
fn cut(text: &str, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        Some(_) => text.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}
