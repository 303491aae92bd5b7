//! Modules of a crate that import each other in one direction only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::direction::{is_test, parsed};
use super::{Finding, Tree};
use crate::source::{self, Mention};

/// Crates whose top-level modules import one way. Code that two modules need belongs in a third module below both.
const ONE_WAY: &[&str] = &["crates/gateway/src"];

/// The first import of one module by another.
type Imports = BTreeMap<(String, String), (PathBuf, usize)>;

/// No two modules import each other, directly or by way of others.
pub(super) fn one_way(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for folder in ONE_WAY.iter().map(Path::new) {
        let imports = imports(tree, folder, &mut found);
        for ((from, to), (file, line)) in circular(imports) {
            found.push(Finding {
                file,
                line,
                what: format!(
                    "`{from}` imports `{to}`, which imports it, directly or by way of others"
                ),
                instead: "move what both need to a module below".to_owned(),
            });
        }
    }
    found
}

fn imports(tree: &Tree, folder: &Path, found: &mut Vec<Finding>) -> Imports {
    let mut imports = Imports::new();
    let files = || tree.sources(folder).filter(|file| !is_test(file));
    let path = |file: &Path| -> Vec<String> {
        let inner = file.strip_prefix(folder).unwrap_or(file).with_extension("");
        let parts = inner.components().map(|part| part.as_os_str().to_string_lossy().into_owned());
        parts.filter(|part| part != "mod").collect()
    };
    let modules: BTreeSet<String> =
        files().filter_map(|file| path(file).into_iter().next()).collect();
    for file in files() {
        let own = path(file);
        let Some(from) = own.first().filter(|first| *first != "lib") else { continue };
        let mentions = parsed(source::mentions(&tree.text(file)), file, found);
        for mention in mentions.unwrap_or_default() {
            let Some(to) = top_level(&mention, own.len()) else { continue };
            let at = (file.clone(), mention.line);
            if !modules.contains(to) {
                let (file, line) = at;
                let what = format!("`{from}` imports `{to}` of the crate's root, which imports it");
                let instead = "move it to a module below".to_owned();
                found.push(Finding { file, line, what, instead });
            } else if to != from {
                imports.entry((from.clone(), to.clone())).or_insert(at);
            }
        }
    }
    imports
}

/// The module below the crate's root that a path names, in a module of this `depth`.
fn top_level(mention: &Mention, depth: usize) -> Option<&String> {
    let supers = mention.segments.iter().take_while(|segment| *segment == "super").count();
    match mention.segments.first()?.as_str() {
        "crate" => mention.segments.get(1),
        "super" if supers == depth => mention.segments.get(supers),
        _ => None,
    }
}

/// The imports that are part of a circle.
fn circular(imports: Imports) -> Imports {
    let leads = |from: &str, to: &str| {
        let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            if reached.insert(module) {
                let of_module = imports.keys().filter(|(importing, _)| importing == module);
                next.extend(of_module.map(|(_, imported)| imported.as_str()));
            }
        }
        reached.contains(to)
    };
    imports.clone().into_iter().filter(|((from, to), _)| leads(to, from)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::direction::tests::tree;
    use super::*;

    #[test]
    fn modules_that_import_each_other_are_found() {
        let files = [
            ("crates/gateway/src/lib.rs", "mod a; mod b; mod c; mod d;\nuse c::C;"),
            ("crates/gateway/src/a.rs", "use crate::b::B;"),
            ("crates/gateway/src/b/mod.rs", "mod inner;\nuse super::d;"),
            ("crates/gateway/src/b/inner.rs", "use super::B;\nfn f() { super::super::c::g() }"),
            ("crates/gateway/src/c.rs", "use crate::{d::D,\na::A};\n#[cfg(test)] use crate::b;"),
            ("crates/gateway/src/d.rs", "use std::fmt;\nuse crate::Item;"),
        ];
        let found: Vec<_> = one_way(&tree("modules", &files))
            .into_iter()
            .map(|one| format!("{}:{}", one.file.display(), one.line))
            .collect();
        let expect = [
            "crates/gateway/src/d.rs:2",
            "crates/gateway/src/a.rs:1",
            "crates/gateway/src/b/inner.rs:2",
            "crates/gateway/src/c.rs:2",
        ];
        assert_eq!(found, expect);
    }
}
