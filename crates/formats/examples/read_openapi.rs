//! Prints how long it takes to read a description, and its diagnostics: `read_openapi FILE`.
//! Figures in docs/performance.md come from here, with `/usr/bin/time -v` for the memory.

use std::time::Instant;

use penstock_formats::openapi::{Defaults, read};

fn main() -> std::io::Result<()> {
    for name in std::env::args().skip(1) {
        let text = std::fs::read(&name)?;
        let defaults = Defaults::default();
        let no_refs = |name: &str| Err(format!("{name}: not read by this example"));
        let start = Instant::now();
        let outcome = read(name.as_ref(), &text, &no_refs, &defaults);
        let took = start.elapsed();
        let operations = outcome.api.map_or(0, |api| api.operations.len());
        println!("{name}: {} bytes, {operations} operations, {took:?}", text.len());
        for diagnostic in outcome.diagnostics {
            println!("{diagnostic}");
        }
    }
    Ok(())
}
