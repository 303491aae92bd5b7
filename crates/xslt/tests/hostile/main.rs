//! Invalid and hostile stylesheets and documents, on a stack of 2 MiB.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "shared with the sections, which read all of it")]
#[path = "../cases/mod.rs"]
mod cases;

mod budget;
mod depth;
mod load;
mod results;

use xslt::{Budget, Error, ErrorKind, NoResolver, Options, Stylesheet};

use cases::{sheet, transform};

const STACK_BYTES: usize = 2 << 20;

fn on_a_small_stack<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run).unwrap().join().unwrap()
}

/// The error of a stylesheet with the source `<a><b/></a>`.
fn error_of(text: &str) -> Error {
    let text = sheet(text);
    on_a_small_stack(move || transform(&text, "<a><b/></a>").unwrap_err())
}

/// Stylesheets with the kind of their error and a phrase of its message.
#[track_caller]
fn check(rows: &[(&str, ErrorKind, &str)]) {
    for (text, kind, phrase) in rows {
        let error = error_of(text);
        assert_eq!(error.kind, *kind, "{text}\n  {error}");
        assert!(error.to_string().contains(phrase), "{text}\n  wanted {phrase}\n  got {error}");
    }
}

/// Runs a stylesheet with a budget.
fn run(inside: &str, source: &str, budget: &Budget) -> Result<String, Error> {
    let compiled = Stylesheet::compile(sheet(inside).as_bytes(), &NoResolver).unwrap();
    let source = xml::Document::parse(source.as_bytes()).unwrap();
    let mut out = Vec::new();
    compiled.transform_with(&source, &Options::new(), budget, &mut out)?;
    Ok(cases::bare(&String::from_utf8(out).unwrap()))
}

const STEPS: u64 = 2_000_000;

const BYTES: u64 = 64 << 20;

#[test]
fn a_sheet_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Stylesheet>();
}

/// A template with a value-of, in which the initials of the modules are their prefixes.
fn value_of(expression: &str) -> String {
    let select = format!("<xsl:value-of select=\"{expression}\"/>");
    let modules = ["strings", "dates-and-times", "regular-expressions", "math"].map(|module| {
        let prefix = &module[..1];
        format!(" xmlns:{prefix}='http://exslt.org/{module}'")
    });
    format!("<xsl:template match='/'{}>{select}</xsl:template>", modules.concat())
}
