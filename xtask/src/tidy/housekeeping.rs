//! Files that must exist, and text that must not.

use std::path::{Path, PathBuf};

use super::{Finding, Tree};

/// Documents that must exist.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "STYLE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE",
];

/// Longest line of a Markdown page, in characters.
const MARKDOWN_COLUMNS: usize = 120;

/// Prefixes of machine-specific paths, split so that this file passes its own rule.
const MACHINE_PATHS: &[&str] = &[
    concat!("/wo", "rk/main"),
    concat!("/wo", "rk/shared"),
    concat!("/ro", "ot/"),
    concat!("/tmp/", "target"),
    concat!("/home/", "user"),
];

/// Extensions of files written by hand; test data from elsewhere may contain anything.
const WRITTEN: &[&str] = &["rs", "toml", "md", "sh", "yaml", "yml", "conf", "cfg", "lua", ""];

/// Every file in fuzz/fuzz_targets is a `[[bin]]` of fuzz/Cargo.toml with seeds, and every `[[bin]]` has a file.
pub(super) fn fuzz_targets(tree: &Tree) -> Vec<Finding> {
    let manifest = PathBuf::from("fuzz/Cargo.toml");
    let registered = registered_targets(&tree.text(&manifest));
    let folder = Path::new("fuzz/fuzz_targets");
    let written: Vec<String> = tree
        .sources(folder)
        .filter_map(|file| file.file_stem()?.to_str().map(str::to_owned))
        .collect();
    let mut found = Vec::new();
    for name in written.iter().filter(|name| !registered.contains(name)) {
        found.push(Finding {
            file: folder.join(format!("{name}.rs")),
            line: 1,
            what: format!("fuzz target {name} is not registered"),
            instead: format!("add a `[[bin]]` with `name = \"{name}\"` to fuzz/Cargo.toml"),
        });
    }
    for name in &registered {
        let seeds = Path::new("fuzz/seeds").join(name);
        if !written.contains(name) {
            found.push(Finding {
                file: manifest.clone(),
                line: 1,
                what: format!("fuzz target {name} has no source file"),
                instead: format!("write fuzz/fuzz_targets/{name}.rs"),
            });
        } else if !tree.files.iter().any(|file| file.starts_with(&seeds)) {
            found.push(Finding {
                file: manifest.clone(),
                line: 1,
                what: format!("fuzz target {name} has no seeds"),
                instead: format!("add small valid inputs to {}", seeds.display()),
            });
        }
    }
    found
}

/// Names of the `[[bin]]`s in fuzz/Cargo.toml, given its text.
pub(crate) fn registered_targets(manifest: &str) -> Vec<String> {
    let table: toml::Table = manifest.parse().unwrap_or_default();
    let bins = table.get("bin").and_then(toml::Value::as_array);
    bins.into_iter()
        .flatten()
        .filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned))
        .collect()
}

/// Markdown wraps at [`MARKDOWN_COLUMNS`]; code, tables and lines with a link that cannot wrap are exempt.
pub(super) fn markdown_width(tree: &Tree) -> Vec<Finding> {
    let pages = tree.files.iter().filter(|file| file.extension().is_some_and(|it| it == "md"));
    pages.flat_map(|file| too_wide(file, &tree.text(file))).collect()
}

fn too_wide(file: &Path, text: &str) -> Vec<Finding> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let wraps = !in_code && !line.starts_with('|') && !line.contains("](http");
        if wraps && line.chars().count() > MARKDOWN_COLUMNS {
            found.push(Finding {
                file: file.to_owned(),
                line: index + 1,
                what: format!("is longer than {MARKDOWN_COLUMNS} columns"),
                instead: "wrap it".to_owned(),
            });
        }
    }
    found
}

/// Every file in a `tests` folder beside a Cargo.toml with `autotests = false` is a module of its `main.rs`: another
/// one would never be compiled.
pub(super) fn test_modules(tree: &Tree) -> Vec<Finding> {
    let packages = tree.packages.iter().map(|package| package.folder.join("tests"));
    packages.flat_map(|folder| unnamed_modules(tree, &folder)).collect()
}

fn unnamed_modules(tree: &Tree, folder: &Path) -> Vec<Finding> {
    let main = folder.join("main.rs");
    if !tree.files.contains(&main) {
        return Vec::new();
    }
    let text = tree.text(&main);
    let unnamed = tree.sources(folder).filter(|file| {
        let name = file.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let is_module = file.parent() == Some(folder) && name != "main";
        is_module && !declares(&text, name)
    });
    unnamed
        .map(|file| Finding {
            file: file.clone(),
            line: 1,
            what: "is never compiled".to_owned(),
            instead: format!("add its `mod` to {}", main.display()),
        })
        .collect()
}

/// Whether `main` has the module `name`.
fn declares(main: &str, name: &str) -> bool {
    main.lines().any(|line| line.strip_prefix("mod ") == Some(&format!("{name};")))
}

/// A package whose Cargo.toml has `doctest = false` has no examples that look as if they were tested.
pub(super) fn untested_examples(tree: &Tree) -> Vec<Finding> {
    let untested = tree.packages.iter().filter(|package| {
        let manifest = tree.text(&package.folder.join("Cargo.toml"));
        manifest.lines().any(|line| line == "doctest = false")
    });
    untested
        .flat_map(|package| tree.sources(&package.folder))
        .flat_map(|file| {
            untested_lines(&tree.text(file)).into_iter().map(|line| Finding {
                file: file.clone(),
                line,
                what: "an example that no test compiles".to_owned(),
                instead: "write ```text or ```ignore, or remove `doctest = false` in Cargo.toml"
                    .to_owned(),
            })
        })
        .collect()
}

/// Lines, from 1, on which a code block of a doc comment begins that rustdoc would compile.
fn untested_lines(text: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(fence) = comment.and_then(|comment| comment.trim_start().strip_prefix("```"))
        else {
            continue;
        };
        in_code = !in_code;
        let is_compiled = fence.is_empty() || ["no_run", "rust"].contains(&fence);
        if in_code && is_compiled {
            found.push(index + 1);
        }
    }
    found
}

/// All of [`DOCUMENTS`] exist.
pub(super) fn documents(tree: &Tree) -> Vec<Finding> {
    DOCUMENTS
        .iter()
        .filter(|name| !tree.files.iter().any(|file| file == Path::new(name)))
        .map(|name| Finding {
            file: PathBuf::from(name),
            line: 1,
            what: "is missing".to_owned(),
            instead: "write it".to_owned(),
        })
        .collect()
}

/// No file written by hand contains a machine-specific path.
pub(super) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let written = tree.files.iter().filter(|file| {
        let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or("");
        WRITTEN.contains(&extension) && !file.starts_with("tests/data")
    });
    for file in written {
        for (index, line) in tree.text(file).lines().enumerate() {
            if let Some(path) = MACHINE_PATHS.iter().find(|path| line.contains(**path)) {
                found.push(Finding {
                    file: file.clone(),
                    line: index + 1,
                    what: format!("`{path}` is a machine-specific path"),
                    instead: "make it relative to the project".to_owned(),
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_of_prose_are_found_outside_code_and_tables() {
        let long = "word ".repeat(30);
        let text =
            format!("{long}\n```text\n{long}\n```\n| {long} |\n[a](https://b) {long}\n{long}");
        let lines: Vec<_> = too_wide(Path::new("a.md"), &text).iter().map(|it| it.line).collect();
        assert_eq!(lines, [1, 7]);
    }

    #[test]
    fn a_module_is_declared_by_its_whole_name() {
        assert!(declares("//! Tests.\n\nmod a;\nmod bc;\n", "bc"));
        assert!(!declares("//! mod c;\n\nmod a;\nmod bc;\n", "c"));
    }

    #[test]
    fn only_examples_that_rustdoc_would_compile_are_found() {
        let text = "/// ```\n/// a();\n/// ```\nfn f() {}\n//! ```text\n//! b\n//! ```\n    /// ```no_run\n    /// ```\n";
        assert_eq!(untested_lines(text), [1, 8]);
    }

    #[test]
    fn registered_targets_are_the_bins() {
        let manifest = "[[bin]]\nname = \"jwt\"\npath = \"x.rs\"\n[[bin]]\nname = \"route\"\n";
        assert_eq!(registered_targets(manifest), ["jwt", "route"]);
    }
}
