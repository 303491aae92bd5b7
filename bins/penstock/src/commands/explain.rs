//! `penstock explain`: what a sequence does, as text and as a picture.

mod svg;
mod text;

use std::path::PathBuf;

use clap::Args;
use formats::openapi::Defaults;
use mediation::outline::{self, Branch, Node, Outline};
use mediation::{BodyUse, Compiler};
use model::Severity;

use super::{stderr, stdout};
use crate::failure::Failure;

/// Show what proxies, APIs and sequences do: steps, branches, body use and estimated cost
///
/// A step that neither reads nor rewrites the body lets it stream. The cost is the CPU time that the steps on the most
/// expensive way add to passing a body of that size through, estimated from the mediators' cost per byte.
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
    /// The proxy, API, sequence or template to show [default: all proxies and APIs, else all sequences]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Draw it to this file; an existing one is replaced
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let paths = std::slice::from_ref(&arguments.path);
    let checked = follow::check(&[], paths, &Defaults::default());
    let (program, compiled) = Compiler::compile_set(&checked.artefacts);
    let diagnostics = checked.diagnostics.iter().chain(&compiled);
    let errors: Vec<_> = diagnostics.filter(|found| found.severity == Severity::Error).collect();
    for error in &errors {
        stderr(&format!("{error}\n"));
    }
    if !errors.is_empty() {
        return Err(Failure::Reported);
    }
    let outlines = outline::of(&checked.artefacts, &program, arguments.name.as_deref());
    if outlines.is_empty() {
        let what = match &arguments.name {
            Some(name) => format!("no proxy, API, sequence or template `{name}`"),
            None => "no proxy, API, sequence or template".to_owned(),
        };
        return Err(Failure::Error(format!("{}: {what}", arguments.path.display())));
    }
    if let Some(file) = &arguments.svg {
        follow::write_public(file, svg::document(&outlines).as_bytes())
            .map_err(|error| Failure::file("write", file, &error))?;
    }
    stdout(&text::of(&outlines))
}

/// Sizes of bodies for which the cost is shown, in bytes.
const SIZES: [(&str, u64); 3] = [("1 KB", 1_000), ("10 KB", 10_000), ("100 KB", 100_000)];

/// `3 µs`, `1.2 ms`.
fn cost(ns_per_byte: u64, bytes: u64) -> String {
    let ns = ns_per_byte.saturating_mul(bytes);
    match ns {
        0 => "0".to_owned(),
        1..=999_999 => format!("{} µs", ns.div_ceil(1_000)),
        _ => format!("{}.{} ms", ns / 1_000_000, ns / 100_000 % 10),
    }
}

/// What a step does to the body; empty if it streams.
fn body_word(node: &Node) -> &'static str {
    match node.body_use {
        BodyUse::Untouched => "",
        BodyUse::Read => "reads the body",
        BodyUse::Rewritten | _ => "rewrites the body",
    }
}

/// Whether bodies stream through a flow, or from which step on they are held.
fn body_lines(flow: &Branch) -> Vec<String> {
    let of = |(name, first): (String, Option<&Node>)| match first {
        Some(node) => {
            format!("{name} is held from `{}` in line {} on", node.element, node.place.line)
        }
        None => format!("{name} streams through"),
    };
    flow.bodies().into_iter().map(of).collect()
}

/// The cost of the most expensive way through a flow.
fn cost_line(flow: &Branch) -> String {
    let of = |(name, bytes): (&str, u64)| format!("{} for {name}", cost(flow.ns_per_byte(), bytes));
    SIZES.map(of).join(", ")
}

/// `proxy Orders at /services/Orders`
fn heading(outline: &Outline) -> String {
    let at = if outline.address.is_empty() { "" } else { " at " };
    format!("{} {}{at}{}", outline.kind, outline.name, outline.address)
}
