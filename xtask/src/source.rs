//! Rust source as tidy's rules read it: every path (`a::b::c`) outside test code, with its line, and `use` groups
//! expanded. Parsed by syn; the arguments of macros, which syn leaves unparsed, are read as tokens.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ImplItem, Item, Macro, Meta, Stmt, TraitItem, UseTree, Visibility};

/// One path as written, with the line (from 1) that it begins on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
    /// Part of a `use` item.
    pub(crate) imported: bool,
}

impl Mention {
    /// The path starts with `pattern`; a pattern `*::TAIL` matches paths that end with `TAIL`.
    pub(crate) fn matches(&self, pattern: &str) -> bool {
        if let Some(tail) = pattern.strip_prefix("*::") {
            let tail: Vec<&str> = tail.split("::").collect();
            return self.segments.len() >= tail.len()
                && self
                    .segments
                    .iter()
                    .rev()
                    .zip(tail.iter().rev())
                    .all(|(ours, want)| ours == want);
        }
        let head: Vec<&str> = pattern.split("::").collect();
        self.segments.len() >= head.len()
            && self.segments.iter().zip(&head).all(|(ours, want)| ours == want)
    }

    pub(crate) fn text(&self) -> String {
        self.segments.join("::")
    }
}

/// Every path in `source` outside `#[cfg(test)]`.
///
/// # Errors
/// `source` is not Rust.
pub(crate) fn mentions(source: &str) -> syn::Result<Vec<Mention>> {
    let file = syn::parse_file(source)?;
    let mut found = Paths(Vec::new());
    if !is_test(&file.attrs) {
        found.visit_file(&file);
    }
    Ok(found.0)
}

/// The lines of `source` with the keyword `unsafe`, tests and macro arguments included.
///
/// # Errors
/// `source` is not Rust.
pub(crate) fn unsafe_lines(source: &str) -> syn::Result<Vec<usize>> {
    fn collect(tokens: TokenStream, lines: &mut Vec<usize>) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => collect(group.stream(), lines),
                TokenTree::Ident(name) if name == "unsafe" => lines.push(line(&name)),
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    let mut lines = Vec::new();
    collect(syn::parse_str(source)?, &mut lines);
    Ok(lines)
}

/// The lines of each item or statement below `#[rustfmt::skip]`, that attribute included.
///
/// # Errors
/// `source` is not Rust.
pub(crate) fn unformatted(source: &str) -> syn::Result<Vec<RangeInclusive<usize>>> {
    fn collect(tokens: TokenStream, found: &mut Vec<RangeInclusive<usize>>) {
        let mut begin = None;
        for token in tokens {
            match token {
                TokenTree::Group(group) if is_skip(&group) => {
                    begin = begin.or(Some(group.span().start().line));
                }
                TokenTree::Group(group) => {
                    let end = group.span().end().line;
                    if let Some(begin) = begin.take_if(|_| group.delimiter() == Delimiter::Brace) {
                        found.push(begin..=end);
                    }
                    collect(group.stream(), found);
                }
                TokenTree::Punct(mark) if mark.as_char() == ';' => {
                    found.extend(begin.take().map(|begin| begin..=mark.span().end().line));
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
    let mut found = Vec::new();
    collect(syn::parse_str(source)?, &mut found);
    Ok(found)
}

/// `group` is the `[rustfmt::skip]` of an attribute.
fn is_skip(group: &Group) -> bool {
    group.delimiter() == Delimiter::Bracket
        && group.stream().to_string().replace(' ', "") == "rustfmt::skip"
}

/// The types of `source` that are exported to its crate or beyond it (`pub(crate)`, `pub`), outside tests: line, name,
/// and whether other crates can import them.
///
/// # Errors
/// `source` is not Rust.
pub(crate) fn exported_types(source: &str) -> syn::Result<Vec<(usize, String, bool)>> {
    let file = syn::parse_file(source)?;
    let mut found = Vec::new();
    if !is_test(&file.attrs) {
        collect_types(&file.items, &mut found);
    }
    Ok(found)
}

#[expect(clippy::wildcard_enum_match_arm, reason = "syn may add kinds of items")]
fn collect_types(items: &[Item], found: &mut Vec<(usize, String, bool)>) {
    for item in items.iter().filter(|item| !is_test(attributes(item))) {
        let (visibility, name) = match item {
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Trait(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            Item::Union(item) => (&item.vis, &item.ident),
            Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    collect_types(items, found);
                }
                continue;
            }
            _ => continue,
        };
        let public = match visibility {
            Visibility::Public(_) => true,
            Visibility::Restricted(to) if to.path.is_ident("crate") => false,
            Visibility::Restricted(_) | Visibility::Inherited => continue,
        };
        found.push((line(name), name.to_string(), public));
    }
}

struct Paths(Vec<Mention>);

impl Paths {
    fn add(&mut self, path: &[&Ident], imported: bool) {
        if let Some(first) = path.last().filter(|_| imported).or(path.first()) {
            let segments = path.iter().map(ToString::to_string).collect();
            self.0.push(Mention { line: line(first), segments, imported });
        }
    }

    fn import<'a>(&mut self, tree: &'a UseTree, path: &mut Vec<&'a Ident>) {
        let depth = path.len();
        match tree {
            UseTree::Path(branch) => {
                path.push(&branch.ident);
                self.import(&branch.tree, path);
            }
            UseTree::Name(name) => path.push(&name.ident),
            UseTree::Rename(rename) => path.push(&rename.ident),
            UseTree::Group(group) => group.items.iter().for_each(|item| self.import(item, path)),
            _ => {}
        }
        if matches!(tree, UseTree::Name(_) | UseTree::Rename(_) | UseTree::Glob(_)) {
            self.add(path, true);
        }
        path.truncate(depth);
    }

    /// Paths among the arguments of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let colon =
            |at: usize| matches!(tokens.get(at), Some(TokenTree::Punct(p)) if p.as_char() == ':');
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut path = vec![first];
                    while let (true, true, Some(TokenTree::Ident(next))) =
                        (colon(at), colon(at + 1), tokens.get(at + 2))
                    {
                        path.push(next);
                        at += 3;
                    }
                    self.add(&path, false);
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
    }
}

impl<'a> Visit<'a> for Paths {
    fn visit_item(&mut self, item: &'a Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'a ImplItem) {
        let tested = matches!(item, ImplItem::Fn(function) if is_test(&function.attrs));
        if !tested {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_trait_item(&mut self, item: &'a TraitItem) {
        let tested = matches!(item, TraitItem::Fn(function) if is_test(&function.attrs));
        if !tested {
            visit::visit_trait_item(self, item);
        }
    }

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        let tested = match statement {
            Stmt::Local(local) => is_test(&local.attrs),
            Stmt::Macro(call) => is_test(&call.attrs),
            Stmt::Expr(Expr::If(branch), _) => is_test(&branch.attrs),
            Stmt::Item(_) | Stmt::Expr(..) => false,
        };
        if !tested {
            visit::visit_stmt(self, statement);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.import(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        let segments: Vec<&Ident> = path.segments.iter().map(|segment| &segment.ident).collect();
        self.add(&segments, false);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'a Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}

fn line(name: &Ident) -> usize {
    name.span().start().line
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        matches!(&attribute.meta, Meta::List(list)
            if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
    })
}

#[expect(clippy::wildcard_enum_match_arm, reason = "syn may add kinds of items")]
fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[(usize, &str)]) {
        let found: Vec<(usize, String)> = mentions(source)
            .unwrap()
            .iter()
            .map(|mention| (mention.line, mention.text()))
            .collect();
        let found: Vec<(usize, &str)> =
            found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(found, expected, "{source}");
    }

    #[test]
    fn use_groups_are_expanded() {
        check(
            "use std::{fs,\n net::{TcpStream, self as n}};",
            &[(1, "std::fs"), (2, "std::net::TcpStream"), (2, "std::net::self")],
        );
        check("use a::b as c;\nuse d::*;", &[(1, "a::b"), (2, "d")]);
    }

    #[test]
    fn comments_and_literals_are_not_code() {
        check(
            "// std::fs\n/* a /* b */ c::d */ fn f<'a>() { ('x', \"e::f\", b\"g\", r#\"h\"i\"#, b'\\'', j::k) }",
            &[(2, "j::k")],
        );
    }

    #[test]
    fn arguments_of_macros_are_read() {
        check(
            "fn f() { select! { x = a::b(c) => vec![d::e] } }",
            &[(1, "select"), (1, "x"), (1, "a::b"), (1, "c"), (1, "vec"), (1, "d::e")],
        );
    }

    #[test]
    fn test_code_is_left_out() {
        check("#[cfg(test)]\nmod t { fn f() { std::fs::read(x) } }\nuse last;", &[(3, "last")]);
        check("#[cfg(test)]\nmod t;\nuse last;", &[(3, "last")]);
        check("struct A;\nimpl A { #[cfg(test)] fn f() { b::c() } }", &[(2, "A")]);
        check("fn f() { #[cfg(test)] let a = b::c(); }", &[]);
        check("#![cfg(test)]\nuse a::b;", &[]);
        check("#[cfg(not(test))]\nuse a::b;", &[(2, "a::b")]);
    }

    #[test]
    fn types_are_exported_to_the_crate_or_beyond_it() {
        let source = "pub struct A;\npub(crate) enum B {}\npub(super) type C = u8;\nstruct D;\n\
                      mod inner {\n pub trait E {}\n}\n#[cfg(test)]\npub union F { a: u8 }\npub fn g() {}";
        let found = exported_types(source).unwrap();
        let found: Vec<(usize, &str, bool)> =
            found.iter().map(|(line, name, public)| (*line, name.as_str(), *public)).collect();
        assert_eq!(found, [(1, "A", true), (2, "B", false), (6, "E", true)]);
    }

    #[test]
    fn unsafe_is_found_only_in_code() {
        let source = "// unsafe\nfn f() {\n unsafe { g(\"unsafe\") }\n}\nm!(unsafe {});\n#![deny(unsafe_code)]";
        assert_eq!(unsafe_lines(source).unwrap(), [3, 5]);
    }

    #[test]
    fn unformatted_items_end_with_their_brace_or_semicolon() {
        let source = "#[rustfmt::skip]\nfn f() {\n}\nconst A: u8 = 1;\nfn g() {\n    #[rustfmt::skip]\n    let b = [\n        1,\n    ];\n}";
        assert_eq!(unformatted(source).unwrap(), [1..=3, 6..=9]);
    }

    #[test]
    fn a_pattern_matches_the_start_or_after_a_star_the_end() {
        let now = mentions("fn f() { std::time::Instant::now() }").unwrap().remove(0);
        assert!(now.matches("std::time"));
        assert!(now.matches("*::Instant::now"));
        assert!(!now.matches("std::net"));
        assert!(!now.matches("*::SystemTime::now"));
    }

    #[test]
    fn text_that_is_not_rust_is_an_error() {
        assert!(mentions("fn f( {").is_err());
    }
}
