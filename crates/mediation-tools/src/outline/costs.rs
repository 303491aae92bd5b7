//! Costs of mediators that need the body. `penstock-engines mediators` writes this file:
//! `cargo run --release -p penstock-engines -- mediators > crates/mediation-tools/src/outline/costs.rs`.
//!
//! CPU time on one core, of SOAP orders or JSON, the larger of both where a mediator works on either. It includes
//! reading the body, which only the first of several steps does, and writing the changed one.

use expression::BodyUse;

/// The mediator, and nanoseconds for bodies of 1, 10 and 100 KB.
#[rustfmt::skip]
const COSTS_NS: &[(&str, [u64; 3])] = &[
    ("aggregate",      [57000, 790000, 7300000]),
    ("clone",          [1400, 1700, 1700]),
    ("enrich",         [17000, 97000, 920000]),
    ("filter",         [7000, 26000, 200000]),
    ("foreach",        [140000, 1800000, 20000000]),
    ("iterate",        [64000, 770000, 8900000]),
    ("jsontransform",  [21000, 130000, 1300000]),
    ("log",            [350, 990, 8100]),
    ("makefault",      [7900, 19000, 120000]),
    ("payloadFactory", [20000, 160000, 1800000]),
    ("property",       [6200, 22000, 230000]),
    ("scatter-gather", [7600, 44000, 400000]),
    ("script",         [1200000, 2000000, 8100000]),
    ("switch",         [6200, 21000, 180000]),
    ("validate",       [8900, 75000, 910000]),
    ("xslt",           [35000, 140000, 1800000]),
];

/// Cost of a step of this element. The others evaluate an expression, as `property` does.
pub(super) fn of(element: &str, body_use: BodyUse) -> [u64; 3] {
    if body_use == BodyUse::Untouched {
        return [0; 3];
    }
    let known = match element {
        "fastXSLT" | "datamapper" => "xslt",
        // Cost of the format that an endpoint expects.
        "send" | "call" | "endpoint" if body_use == BodyUse::Read => "clone",
        "send" | "call" | "endpoint" => "enrich",
        known if COSTS_NS.iter().any(|(element, _)| *element == known) => known,
        _ => "property",
    };
    let found = COSTS_NS.iter().find(|(element, _)| *element == known);
    found.map(|(_, costs)| *costs).unwrap_or_default()
}
