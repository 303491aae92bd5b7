//! Modules of a crate that import each other in one direction only.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::direction::{is_test, parsed};
use super::{Finding, Tree};
use crate::source::{self, Mention};

/// A folder whose modules import each other in one direction only.
struct Layers {
    /// Relative to the root: the `src` of a crate, or the folder of one of its modules.
    folder: &'static str,
    /// The modules of the folder, lowest first: each imports only those before it. A row without an order forbids
    /// circles alone.
    order: &'static [&'static str],
}

/// Items that two modules need are in a third, below both. No module imports a re-export of the folder's first page:
/// that page imports every module.
#[rustfmt::skip]
const LAYERS: &[Layers] = &[
    Layers {
        folder: "crates/expression/src",
        order: &[
            "limits", "error", "cursor", "pattern", "inline", "json", "value", "markup",
            "mapping", "context", "jsonpath", "xpath_bridge", "synapse", "expression", "template",
            "properties",
        ],
    },
    Layers {
        folder: "crates/gateway/src",
        order: &[
            "tasks", "body", "shares", "message", "forward", "artefacts", "quota", "cache",
            "account", "worker", "own_requests", "exchange", "identity", "upstream_auth",
            "integration", "pipeline", "listen", "threads", "bench", "simulation",
        ],
    },
    Layers { folder: "crates/gateway/src/tasks", order: &[] },
    Layers { folder: "crates/gateway/src/shares", order: &[] },
    Layers { folder: "crates/gateway/src/artefacts", order: &[] },
    Layers { folder: "crates/gateway/src/quota", order: &[] },
    Layers { folder: "crates/gateway/src/cache", order: &[] },
    Layers { folder: "crates/gateway/src/worker", order: &[] },
    Layers { folder: "crates/gateway/src/own_requests", order: &[] },
    Layers { folder: "crates/gateway/src/exchange", order: &[] },
    Layers { folder: "crates/gateway/src/identity", order: &[] },
    Layers { folder: "crates/gateway/src/upstream_auth", order: &[] },
    Layers { folder: "crates/gateway/src/pipeline", order: &[] },
    Layers { folder: "crates/gateway/src/threads", order: &[] },
    Layers {
        folder: "crates/mediation/src",
        order: &[
            "limits", "error", "message", "program", "run", "syntax", "mediators", "policies",
            "compile", "properties",
        ],
    },
    Layers {
        folder: "crates/mediation/src/mediators",
        order: &["values", "content", "flow", "send", "split", "state", "unserved"],
    },
];

/// The first import of one module by another.
type Imports = BTreeMap<(String, String), (PathBuf, usize)>;

/// No two modules import each other, directly or by way of others, and none imports a module above it.
pub(super) fn one_way(tree: &Tree) -> Vec<Finding> {
    LAYERS.iter().flat_map(|layers| layers.check(tree)).collect()
}

impl Layers {
    fn check(&self, tree: &Tree) -> Vec<Finding> {
        let mut found = Vec::new();
        let folder = Path::new(self.folder);
        let files: Vec<&PathBuf> = tree.sources(folder).filter(|file| !is_test(file)).collect();
        let modules: BTreeSet<String> = files
            .iter()
            .filter_map(|file| module(file.strip_prefix(folder).ok()?).into_iter().next())
            .filter(|module| module != "lib")
            .collect();
        found.extend(self.unlisted(&modules));
        let imports = self.imports(tree, &files, &modules, &mut found);
        for ((from, to), (file, line)) in self.upward(&imports) {
            found.push(Finding {
                file,
                line,
                what: format!("`{from}` imports `{to}`, which is above it"),
                instead: format!("the order is {}: move the item down", self.order.join(", ")),
            });
        }
        // An order excludes circles.
        let circular = if self.order.is_empty() { circular(imports) } else { Imports::new() };
        for ((from, to), (file, line)) in circular {
            found.push(Finding {
                file,
                line,
                what: format!(
                    "`{from}` imports `{to}`, which imports it, directly or by way of others"
                ),
                instead: "move what both need to a module below".to_owned(),
            });
        }
        found
    }

    /// Modules without a place in the order, and places without a module.
    fn unlisted(&self, modules: &BTreeSet<String>) -> Vec<Finding> {
        let finding = |what: String, instead: &str| Finding {
            file: PathBuf::from(self.folder),
            line: 1,
            what,
            instead: format!("{instead} in xtask/src/tidy/modules.rs"),
        };
        // A tree without the folder is that of another test.
        if self.order.is_empty() || modules.is_empty() {
            return Vec::new();
        }
        let unlisted =
            modules.iter().filter(|module| !self.order.contains(&module.as_str())).map(|module| {
                finding(format!("module `{module}` has no place in the order"), "add it to LAYERS")
            });
        let stale = self.order.iter().filter(|place| !modules.contains(**place)).map(|place| {
            finding(format!("the order names `{place}`, which does not exist"), "remove it")
        });
        unlisted.chain(stale).collect()
    }

    fn imports(
        &self,
        tree: &Tree,
        files: &[&PathBuf],
        modules: &BTreeSet<String>,
        found: &mut Vec<Finding>,
    ) -> Imports {
        let mut imports = Imports::new();
        let root = inside_crate(Path::new(self.folder));
        for file in files {
            let own = inside_crate(file);
            let Some(from) = own.get(root.len()).filter(|first| *first != "lib") else { continue };
            let mentions = parsed(source::mentions(&tree.text(file)), file, found);
            for mention in mentions.unwrap_or_default() {
                let Some(to) = target(&mention, &own, &root) else { continue };
                let at = (file.to_path_buf(), mention.line);
                if !modules.contains(&to) {
                    let (file, line) = at;
                    let first = if root.is_empty() { "crate's root" } else { "folder's mod.rs" };
                    let what = format!("`{from}` imports `{to}` of the {first}, which imports it");
                    let instead = "import it from the module that defines it, or move it to a \
                                   module below"
                        .to_owned();
                    found.push(Finding { file, line, what, instead });
                } else if to != *from {
                    imports.entry((from.clone(), to)).or_insert(at);
                }
            }
        }
        imports
    }

    /// The imports of a module by one that precedes it in the order.
    fn upward(&self, imports: &Imports) -> Imports {
        let place = |module: &str| self.order.iter().position(|one| *one == module);
        let above =
            |from: &str, to: &str| place(from).zip(place(to)).is_some_and(|(from, to)| from < to);
        imports.clone().into_iter().filter(|((from, to), _)| above(from, to)).collect()
    }
}

/// The path of the module in a file, from the crate's root: `a::b` for `crates/x/src/a/b.rs` and `.../a/b/mod.rs`.
fn inside_crate(file: &Path) -> Vec<String> {
    let inner = file.iter().skip_while(|part| *part != "src").skip(1).collect::<PathBuf>();
    module(&inner)
}

fn module(file: &Path) -> Vec<String> {
    let file = file.with_extension("");
    let parts = file.iter().map(|part| part.to_string_lossy().into_owned());
    parts.filter(|part| part != "mod").collect()
}

/// The name below the module `root` that a path in the module `own` begins with: a module, or an item of `root`
/// itself.
fn target(mention: &Mention, own: &[String], root: &[String]) -> Option<String> {
    let supers = mention.segments.iter().take_while(|segment| *segment == "super").count();
    let path: Vec<&String> = match mention.segments.first()?.as_str() {
        "crate" => mention.segments.iter().skip(1).collect(),
        "super" => {
            let base = own.get(..own.len().checked_sub(supers)?)?;
            base.iter().chain(mention.segments.iter().skip(supers)).collect()
        }
        _ => return None,
    };
    let (above, below) = path.split_at_checked(root.len())?;
    let within = above.iter().zip(root).all(|(one, other)| *one == other);
    // A path that ends there is the import of all its items.
    let everything = mention.imported.then(|| "*".to_owned());
    if within { below.first().map(|name| (*name).clone()).or(everything) } else { None }
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
        let layers = Layers { folder: "crates/one/src", order: &[] };
        let files = [
            ("crates/one/src/lib.rs", "mod a; mod b; mod c; mod d;\nuse c::C;"),
            ("crates/one/src/a.rs", "use crate::b::B;"),
            ("crates/one/src/b/mod.rs", "mod inner;\nuse super::d;"),
            ("crates/one/src/b/inner.rs", "use super::B;\nfn f() { super::super::c::g() }"),
            ("crates/one/src/c.rs", "use crate::{d::D,\na::A};\n#[cfg(test)] use crate::b;"),
            ("crates/one/src/d.rs", "use std::fmt;\nuse crate::Item;\nuse crate::*;"),
        ];
        let expect = ["d.rs:2", "d.rs:3", "a.rs:1", "b/inner.rs:2", "c.rs:2"];
        check("modules", &layers, &files, &expect);
    }

    #[test]
    fn a_module_imports_none_above_it() {
        let layers = Layers { folder: "crates/one/src", order: &["low", "middle", "high", "gone"] };
        let files = [
            ("crates/one/src/lib.rs", "mod low; mod middle; mod high; mod new;"),
            ("crates/one/src/low/mod.rs", "use crate::low::inner;\nuse crate::middle::M;"),
            ("crates/one/src/low/inner.rs", "use super::super::high::H;"),
            ("crates/one/src/middle.rs", "use crate::low::L;"),
            ("crates/one/src/high.rs", "use crate::{low::L, middle::M};"),
            ("crates/one/src/new.rs", ""),
        ];
        // The first two: the module without a place, the place without a module.
        let expect = [":1", ":1", "low/inner.rs:1", "low/mod.rs:2"];
        check("order", &layers, &files, &expect);
    }

    #[test]
    fn the_modules_of_a_folder_have_an_order_of_their_own() {
        let layers = Layers { folder: "crates/one/src/parts", order: &["low", "high"] };
        let files = [
            ("crates/one/src/other.rs", "use crate::parts::high::H;"),
            ("crates/one/src/parts/mod.rs", "mod low; mod high;\nuse high::H;"),
            ("crates/one/src/parts/low.rs", "use crate::other::O;\nuse crate::parts::high::H;"),
            ("crates/one/src/parts/high.rs", "use super::low::L;\nuse super::Item;"),
        ];
        let expect = ["high.rs:2", "low.rs:2"];
        check("folder", &layers, &files, &expect);
    }

    /// Compares the findings in `files`: each as its path below the folder, and its line.
    #[track_caller]
    fn check(name: &str, layers: &Layers, files: &[(&str, &str)], expect: &[&str]) {
        let found = layers.check(&tree(name, files)).into_iter().map(|one| {
            let file = one.file.strip_prefix(layers.folder).unwrap().display().to_string();
            format!("{file}:{}", one.line)
        });
        assert_eq!(found.collect::<Vec<_>>(), expect);
    }
}
