//! `penstock explain`: the steps of a sequence, as text and as a picture.

mod svg;
mod text;

use std::path::PathBuf;

use clap::Args;
use formats::openapi::Defaults;
use mediation::{BodyUse, Compiler};
use mediation_tools::outline::{self, Branch, Node, Outline, PassingBody};
use model::Severity;

use super::serving::Fetching;
use super::{stderr, stdout};
use crate::failure::Failure;

/// Explain proxies, APIs and sequences: steps, branches, body use and estimated cost
///
/// A body streams past steps that neither read nor rewrite it. Costs are estimates of CPU time for bodies of that size,
/// measured once per mediator; actual expressions, stylesheets and scripts differ. The total is that of the most
/// expensive branches. Artefacts with errors are reported and left out.
#[derive(Args)]
#[command(after_help = "Examples:
  penstock explain OrdersProxy.xml
  penstock explain artifacts/ --name OrdersProxy --svg orders.svg
  penstock explain orders_1.2.0.car

What an artefact refers to must be in the same file, folder or archive.")]
pub(crate) struct Arguments {
    /// Artefacts (*.xml, *.car), or a folder of them
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// The proxy, API, inbound endpoint, sequence or template to show [default: all proxies, APIs and inbound
    /// endpoints, else all sequences]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Draw a diagram into this file; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    fetching: Fetching,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let paths = std::slice::from_ref(&arguments.path);
    let fetch = arguments.fetching.fetch();
    let checked = follow::check(&[], paths, &[], &Defaults::default(), &fetch);
    let (program, compiled) = Compiler::compile_set(&checked.artefacts);
    let diagnostics = checked.diagnostics.iter().chain(&compiled);
    let errors: Vec<_> = diagnostics.filter(|found| found.severity == Severity::Error).collect();
    for error in &errors {
        stderr(&format!("{error}\n"));
    }
    let outlines = outline::of(&checked.artefacts, &program, arguments.name.as_deref());
    if outlines.is_empty() {
        if !errors.is_empty() {
            return Err(Failure::Reported);
        }
        let what = match &arguments.name {
            Some(name) => format!("no proxy, API, inbound endpoint, sequence or template `{name}`"),
            None => "no proxy, API, inbound endpoint, sequence or template".to_owned(),
        };
        return Err(Failure::Error(format!("{}: {what}", arguments.path.display())));
    }
    if let Some(file) = &arguments.svg {
        follow::write_public(file, svg::document(&outlines).as_bytes())
            .map_err(|error| Failure::file("write", file, &error))?;
    }
    stdout(&text::of(&outlines))?;
    if errors.is_empty() { Ok(()) } else { Err(Failure::Reported) }
}

/// The sizes of [`outline::COST_BYTES`].
const SIZES: [&str; 3] = ["1 KB", "10 KB", "100 KB"];

/// `3 µs`, `1.2 ms`.
fn cost(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..=999_999 => format!("{} µs", ns.div_ceil(1_000)),
        _ => format!("{}.{} ms", ns / 1_000_000, ns / 100_000 % 10),
    }
}

/// Whether it takes time that depends on the body.
fn is_free(costs_ns: [u64; 3]) -> bool {
    costs_ns == [0; 3]
}

/// Effect of a step on the body; empty if it streams.
fn body_word(node: &Node) -> &'static str {
    match node.body_use {
        BodyUse::Untouched => "",
        BodyUse::Read => "reads the body",
        BodyUse::Rewritten | _ => "rewrites the body",
    }
}

/// Whether bodies stream through a flow, or from which step on they are held.
fn body_lines(flow: &Branch) -> Vec<String> {
    flow.bodies().iter().map(body_line).collect()
}

fn body_line(body: &PassingBody<'_>) -> String {
    let step = |node: &&Node| format!("`{}` in line {}", node.element, node.place.line);
    let name = &body.name;
    if body.holders.is_empty() {
        return format!("{name} streams through");
    }
    let mut steps: Vec<_> = body.holders.iter().take(HOLDERS_SHOWN).map(step).collect();
    let others = body.holders.len().saturating_sub(HOLDERS_SHOWN);
    if others > 0 {
        steps.push(format!("{others} others"));
    }
    let otherwise = if body.streams { ", else it streams through" } else { "" };
    format!("{name} is held from {} on{otherwise}", steps.join(" or "))
}

/// Steps named of those that hold a body on one branch or another.
const HOLDERS_SHOWN: usize = 3;

/// The cost of the most expensive way through a flow.
fn cost_line(flow: &Branch) -> String {
    let costs = SIZES.iter().zip(flow.costs_ns());
    costs.map(|(name, ns)| format!("{} for {name}", cost(ns))).collect::<Vec<_>>().join(", ")
}

/// `proxy Orders at /services/Orders`
fn heading(outline: &Outline) -> String {
    let at = if outline.address.is_empty() { "" } else { " at " };
    format!("{} {}{at}{}", outline.kind, outline.name, outline.address)
}
