//! The direction rules of ARCHITECTURE.md as tables: the crates, modules and functions that each crate may use.

use std::path::Path;

use super::{Finding, Tree};
use crate::source::{self, Mention};

/// Each package and the workspace packages that it may depend on. The data plane (stages, gateway) and the formats
/// never depend on each other: they share `model::Snapshot`.
#[rustfmt::skip]
const MAY_DEPEND: &[(&str, &[&str])] = &[
    ("base",     &[]),
    ("jose",     &["base"]),
    ("xml",      &[]),
    ("xpath",    &["xml"]),
    ("xslt",     &["xml", "xpath"]),
    ("expression", &["xml", "xpath"]),
    ("wire",     &["base"]),
    ("model",    &["base", "jose"]),
    ("stages",   &["base", "jose", "model"]),
    ("mediation", &["base", "model", "xml", "xpath", "xslt", "expression"]),
    ("mediation-tools", &["base", "model", "xml", "xpath", "expression", "mediation"]),
    ("gateway",  &["base", "jose", "model", "wire", "stages", "mediation", "expression", "xml"]),
    ("formats",  &["base", "expression", "jose", "model", "xml", "mediation"]),
    ("follow",   &["base", "jose", "model", "wire", "formats"]),
    ("store",    &[]),
    ("manager",  &["base", "jose", "model", "wire", "store"]),
    ("reconcile", &["base", "model", "stages"]),
    ("files",    &[]),
    ("echo",     &["base", "wire"]),
    ("lab",      &["base", "echo", "expression", "files", "wire"]),
    ("penstock", &["base", "jose", "model", "wire", "stages", "gateway", "formats", "follow", "manager", "reconcile", "echo", "files", "lab", "xml", "xpath", "xslt", "expression", "mediation", "mediation-tools"]),
    ("tests",    &["base", "jose", "model", "wire", "stages", "gateway", "formats", "follow", "echo", "lab", "xml", "xpath", "xslt", "expression"]),
    ("benches",  &["base", "jose", "model", "wire", "stages", "gateway", "lab", "xml", "xpath", "xslt", "expression", "mediation", "mediation-tools"]),
    ("engines",  &["base", "xml", "xpath", "xslt", "expression", "mediation", "mediation-tools"]),
    ("xtask",    &[]),
];

/// Paths that some crates must not use.
struct Ban {
    /// Folders, relative to the root.
    within: &'static [&'static str],
    /// Folders and files below them that are exempt.
    except: &'static [&'static str],
    what: &'static [&'static str],
    instead: &'static str,
}

const PURE: &[&str] = &[
    "crates/base/",
    "crates/xml/",
    "crates/xpath/",
    "crates/xslt/",
    "crates/expression/",
    "crates/jose/",
    "crates/model/",
    "crates/stages/",
    "crates/mediation/",
    "crates/mediation-tools/",
    "crates/formats/",
];
const OURS: &[&str] = &["crates/", "bins/", "echo/", "lab/"];

const BANS: &[Ban] = &[
    Ban {
        within: PURE,
        except: &[],
        what: &["tokio"],
        instead: "this crate is pure: return a value that describes what to do, and let gateway or follow await it",
    },
    Ban {
        within: PURE,
        except: &[],
        what: &[
            "std::net::TcpStream",
            "std::net::TcpListener",
            "std::net::UdpSocket",
            "std::net::ToSocketAddrs",
            "std::os::unix::net",
            "socket2",
        ],
        instead: "this crate is pure: sockets belong to wire, gateway, follow and lab",
    },
    Ban {
        within: PURE,
        except: &[],
        what: &["std::fs", "std::process", "std::env", "std::thread"],
        instead: "this crate is pure: take bytes as an argument; follow and bins read files and the environment",
    },
    Ban {
        within: &["crates/wire/"],
        except: &["crates/wire/src/stream", "crates/wire/src/splice", "crates/wire/src/tls"],
        what: &["tokio", "tokio_rustls", "std::net::TcpStream", "std::net::TcpListener"],
        instead: "the codecs map bytes to bytes; only wire's stream, splice and tls await",
    },
    Ban {
        within: &["crates/wire/", "crates/gateway/"],
        except: &[
            "crates/wire/src/tls",
            "crates/gateway/src/threads/runner.rs",
            "crates/gateway/src/account/access_log.rs",
        ],
        what: &["std::fs"],
        instead: "reading a file blocks a worker: let follow read it and pass the contents on",
    },
    Ban {
        within: OURS,
        except: &["crates/base/src/clock.rs"],
        what: &["SystemTime::now", "*::SystemTime::now", "Instant::now", "*::Instant::now"],
        instead: "take a `base::Clock` or a `base::Now`, so that a test can set the time",
    },
    Ban {
        within: OURS,
        except: &["crates/base/src/entropy.rs"],
        what: &["getrandom", "rand", "fastrand"],
        instead: "take a `base::Entropy`, so that a test can fix the bytes",
    },
];

/// Modules of `stages` that are stages. They share results as `model` types only.
const STAGES: &[&str] = &["route", "authenticate", "authorise", "throttle"];

/// Checks dependencies between workspace packages against [`MAY_DEPEND`].
pub(super) fn dependencies(tree: &Tree) -> Vec<Finding> {
    let ours: Vec<&str> = tree.packages.iter().map(|package| package.name.as_str()).collect();
    let mut found = Vec::new();
    for package in &tree.packages {
        let manifest = package.folder.join("Cargo.toml");
        let Some((_, allowed)) = MAY_DEPEND.iter().find(|(name, _)| *name == package.name) else {
            found.push(Finding {
                file: manifest,
                line: 1,
                what: format!("package {} has no row in the direction rules", package.name),
                instead: "add one to MAY_DEPEND in xtask/src/tidy/direction.rs".to_owned(),
            });
            continue;
        };
        for (name, line) in &package.dependencies {
            let name = name.strip_prefix("penstock-").unwrap_or(name);
            // A crate may be its own dev-dependency, to enable a feature for its tests.
            let is_itself = name == package.name;
            if ours.contains(&name) && !allowed.contains(&name) && !is_itself {
                found.push(Finding {
                    file: manifest.clone(),
                    line: *line,
                    what: format!("{} must not depend on {name}", package.name),
                    instead: format!("it may depend on {}", list(allowed)),
                });
            }
        }
    }
    found
}

fn list(allowed: &[&str]) -> String {
    if allowed.is_empty() { "no workspace crate".to_owned() } else { allowed.join(", ") }
}

/// Checks every path in the crates' code against [`BANS`].
pub(super) fn bans(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.sources(Path::new("")).filter(|file| !is_test(file)) {
        let name = file.to_string_lossy();
        let bans: Vec<&Ban> = BANS.iter().filter(|ban| ban.covers(&name)).collect();
        if bans.is_empty() {
            continue;
        }
        let Some(mentions) = parsed(source::mentions(&tree.text(file)), file, &mut found) else {
            continue;
        };
        let tokio_time = mentions.iter().any(|mention| mention.matches("tokio::time::Instant"));
        for (ban, mention) in bans.iter().flat_map(|ban| mentions.iter().map(move |m| (ban, m))) {
            let tokios = tokio_time && mention.matches("Instant::now")
                || mention.matches("tokio::time::Instant::now");
            if !tokios && ban.what.iter().any(|pattern| touches(mention, pattern)) {
                found.push(Finding {
                    file: file.clone(),
                    line: mention.line,
                    what: format!("`{}` is not allowed here", mention.text()),
                    instead: ban.instead.to_owned(),
                });
            }
        }
    }
    found.dedup();
    found
}

/// A pattern of one name is a crate: it matches imports, and paths of two or more segments.
fn touches(mention: &Mention, pattern: &str) -> bool {
    let whole = pattern.contains("::") || mention.imported || mention.segments.len() > 1;
    whole && mention.matches(pattern)
}

/// Unwraps the paths or lines read from `file`. A file that is not Rust becomes a finding.
pub(super) fn parsed<T>(read: syn::Result<T>, file: &Path, found: &mut Vec<Finding>) -> Option<T> {
    read.map_err(|error| {
        found.push(Finding {
            file: file.to_path_buf(),
            line: error.span().start().line,
            what: format!("cannot be parsed as Rust: {error}"),
            instead: "fix the syntax".to_owned(),
        });
    })
    .ok()
}

impl Ban {
    fn covers(&self, file: &str) -> bool {
        self.within.iter().any(|folder| file.starts_with(folder))
            && !self.except.iter().any(|prefix| file.starts_with(prefix))
    }
}

/// Test code is exempt: integration tests, benches, examples, and modules named after tests.
pub(super) fn is_test(file: &Path) -> bool {
    let folders = file.components().any(|part| {
        matches!(part.as_os_str().to_str(), Some("tests" | "benches" | "examples" | "testing"))
    });
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    folders || stem == "tests" || stem.ends_with("_tests") || stem == "build"
}

/// No stage imports another.
pub(super) fn stages(tree: &Tree) -> Vec<Finding> {
    let folder = Path::new("crates/stages/src");
    let mut found = Vec::new();
    for file in tree.sources(folder).filter(|file| !is_test(file)) {
        let Some(own) = stage_of(file.strip_prefix(folder).unwrap_or(file)) else {
            continue;
        };
        let mentions = parsed(source::mentions(&tree.text(file)), file, &mut found);
        for mention in mentions.unwrap_or_default() {
            let other = STAGES.iter().find(|stage| **stage != own && names_stage(&mention, stage));
            if let Some(other) = other {
                found.push(Finding {
                    file: file.clone(),
                    line: mention.line,
                    what: format!("stage {own} imports stage {other}"),
                    instead: "pass the result on as a `model` type".to_owned(),
                });
            }
        }
    }
    found
}

fn stage_of(file: &Path) -> Option<&'static str> {
    let first = file.components().next()?.as_os_str().to_str()?;
    let module = first.strip_suffix(".rs").unwrap_or(first);
    STAGES.iter().find(|stage| **stage == module).copied()
}

fn names_stage(mention: &Mention, stage: &str) -> bool {
    let mut segments = mention.segments.iter().skip_while(|segment| *segment == "super");
    match segments.next().map(String::as_str) {
        Some("crate") => segments.next().is_some_and(|segment| segment == stage),
        Some(first) => mention.segments.first().is_some_and(|s| s == "super") && first == stage,
        None => false,
    }
}

/// `unsafe` is allowed only in a crate that a line of ARCHITECTURE.md names together with that word. All others must
/// inherit the workspace's lints, which forbid it.
pub(super) fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let architecture = tree.text(Path::new("ARCHITECTURE.md"));
    let named = |name: &str| {
        architecture
            .lines()
            .any(|line| line.contains("unsafe") && line.contains(&format!("`{name}`")))
    };
    let mut found = Vec::new();
    for package in tree.packages.iter().filter(|package| !named(&package.name)) {
        if !package.shared_lints {
            found.push(Finding {
                file: package.folder.join("Cargo.toml"),
                line: 1,
                what: format!("package {} does not inherit the workspace's lints", package.name),
                instead: "add `[lints]` with `workspace = true`".to_owned(),
            });
        }
        for file in tree.sources(&package.folder) {
            let lines = parsed(source::unsafe_lines(&tree.text(file)), file, &mut found);
            found.extend(lines.unwrap_or_default().into_iter().map(|line| {
                Finding {
                    file: file.clone(),
                    line,
                    what: "unsafe code".to_owned(),
                    instead:
                        "use a safe crate, or name this one with its reason in ARCHITECTURE.md"
                            .to_owned(),
                }
            }));
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::workspace;

    /// A work tree of `files` alone, in a folder of its own below cargo's target folder.
    pub(in crate::tidy) fn tree(name: &str, files: &[(&str, &str)]) -> Tree {
        let root = workspace::target_dir(&workspace::root()).join("xtask-tests").join(name);
        for (file, text) in files {
            let path = root.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let files: Vec<PathBuf> = files.iter().map(|(file, _)| PathBuf::from(file)).collect();
        let packages = workspace::packages(&root, &files).unwrap();
        Tree::new(root, files, packages)
    }

    fn check(rule: fn(&Tree) -> Vec<Finding>, file: &str, text: &str, lines: &[usize]) {
        let name = format!("direction-{}", file.replace('/', "-"));
        let found = rule(&tree(&name, &[(file, text)]));
        let found: Vec<usize> = found.iter().map(|finding| finding.line).collect();
        assert_eq!(found, lines, "{file}: {text}");
    }

    #[test]
    fn io_in_a_pure_crate_is_found() {
        check(
            bans,
            "crates/jose/src/a.rs",
            "use tokio::net;\nfn f() { std::fs::read(p) }",
            &[1, 2],
        );
        check(bans, "crates/model/src/a.rs", "use std::net::SocketAddr;", &[]);
        check(bans, "crates/stages/src/a.rs", "use std::net::{IpAddr,\nTcpStream};", &[2]);
    }

    #[test]
    fn wire_awaits_only_in_its_drivers() {
        check(bans, "crates/wire/src/http1/parse.rs", "use tokio::io::AsyncRead;", &[1]);
        check(bans, "crates/wire/src/h2/serve.rs", "use tokio::io::AsyncRead;", &[1]);
        check(bans, "crates/wire/src/tls/mod.rs", "use tokio::io::AsyncRead;", &[]);
    }

    #[test]
    fn only_the_clock_module_reads_clocks_and_tokio_instants_are_exempt() {
        check(bans, "crates/gateway/src/a.rs", "fn f() { std::time::Instant::now(); }", &[1]);
        check(
            bans,
            "crates/gateway/src/b.rs",
            "use tokio::time::Instant;\nfn f() { Instant::now() }",
            &[],
        );
        check(
            bans,
            "crates/gateway/src/c.rs",
            "use std::time::SystemTime;\nfn f() { SystemTime::now() }",
            &[2],
        );
        check(bans, "crates/base/src/clock.rs", "fn f() { SystemTime::now() }", &[]);
        check(bans, "crates/gateway/tests/d.rs", "fn f() { Instant::now() }", &[]);
    }

    #[test]
    fn only_the_entropy_module_draws_random_numbers() {
        check(bans, "lab/src/a.rs", "fn f() { let rand = 3;\nrand::random() }", &[2]);
        check(bans, "crates/jose/src/b.rs", "use aws_lc_rs::rand::SystemRandom;", &[]);
    }

    #[test]
    fn a_stage_that_imports_a_stage_is_found() {
        check(stages, "crates/stages/src/route.rs", "use crate::authorise::Grant;", &[1]);
        check(stages, "crates/stages/src/route/tree.rs", "use super::super::authenticate;", &[1]);
        check(
            stages,
            "crates/stages/src/authorise.rs",
            "use model::route;\nuse crate::authorise;",
            &[],
        );
    }

    #[test]
    fn unsafe_code_and_missing_shared_lints_are_found() {
        let manifest = ("crates/wire/Cargo.toml", "[package]\nname = \"penstock-wire\"\n");
        let code = ("crates/wire/src/lib.rs", "// unsafe\nfn f() { unsafe { g() } }");
        let found = unsafe_code(&tree("unsafe", &[manifest, code]));
        let places: Vec<(&str, usize)> =
            found.iter().map(|finding| (finding.file.to_str().unwrap(), finding.line)).collect();
        assert_eq!(places, [("crates/wire/Cargo.toml", 1), ("crates/wire/src/lib.rs", 2)]);
        let page = ("ARCHITECTURE.md", "`wire` has unsafe code, because.");
        assert_eq!(unsafe_code(&tree("unsafe-named", &[manifest, code, page])), []);
    }

    #[test]
    fn a_forbidden_dependency_is_found_at_its_line() {
        let manifest = |name: &str, rest: &str| {
            format!("[package]\nname = \"penstock-{name}\"\n[dependencies]\n{rest}")
        };
        let wrong = manifest("gateway", "base.workspace = true\nformats.workspace = true\n");
        let files = [
            ("crates/gateway/Cargo.toml", wrong.as_str()),
            ("crates/formats/Cargo.toml", &manifest("formats", "")),
            ("crates/base/Cargo.toml", &manifest("base", "")),
            ("crates/newcomer/Cargo.toml", &manifest("newcomer", "")),
        ];
        let found = dependencies(&tree("dependencies", &files));
        let places: Vec<(&str, usize)> =
            found.iter().map(|finding| (finding.file.to_str().unwrap(), finding.line)).collect();
        assert_eq!(places, [("crates/gateway/Cargo.toml", 5), ("crates/newcomer/Cargo.toml", 1)]);
        assert!(found[0].what.contains("formats"));
    }
}
