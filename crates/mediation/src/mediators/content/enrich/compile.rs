//! Reads `enrich`.

use expression::Expression;

use super::{Action, Enrich, Source, Target};
use crate::mediators::content::json_target;
use crate::mediators::content::piece::Piece;
use crate::mediators::values::inline::Inline;
use crate::message::PropertyScope;
use crate::program::Mediator;
use crate::syntax::{Compiler, Element};

pub(crate) fn compile(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<dyn Mediator>> {
    let (Some(from), Some(to)) = (element.child("source"), element.child("target")) else {
        return compiler.reject(element, "`enrich` needs a `source` and a `target`", None);
    };
    let moves = !from.flag(compiler, "clone", true)?;
    from.ignore(&["type"]);
    let actions = [
        ("replace", Action::Replace),
        ("child", Action::Child),
        ("sibling", Action::Sibling),
        ("remove", Action::Remove),
    ];
    let action = to.choice(compiler, "action", &actions)?;
    let is_removed_there = action == Action::Remove
        && matches!(to.optional("type"), Some("body" | "property"))
        && from.optional("xpath").is_some();
    let target = if is_removed_there {
        removed(compiler, &from, &to)?
    } else {
        target(compiler, &to, action)?
    };
    let source = if is_removed_there { Source::Body } else { source(compiler, &from)? };
    from.finish(compiler);
    to.finish(compiler);
    let is_json = match &source {
        Source::Custom(expression) => expression.is_json_path(),
        Source::Inline(piece) => matches!(piece, Piece::Json(_)),
        Source::Envelope | Source::Body | Source::Property(..) | Source::Computed(_) => false,
    };
    if is_json && action == Action::Sibling && matches!(target, Target::Body(_)) {
        let help = "write `child`, or `replace`";
        let message = "a JSON body has no siblings";
        return compiler.reject(&to, message, Some(help));
    }
    Some(Box::new(Enrich { source, moves, target, action }))
}

fn source(compiler: &mut Compiler, from: &Element<'_>) -> Option<Source> {
    match from.optional("type").unwrap_or("custom") {
        "custom" => {
            let path = from.required(compiler, "xpath")?;
            Some(Source::Custom(from.compiled(compiler, path)?))
        }
        "envelope" => Some(Source::Envelope),
        "body" => Some(Source::Body),
        "property" => {
            let name = from.required(compiler, "property")?.into();
            Some(Source::Property(PropertyScope::Synapse, name))
        }
        "variable" => Some(Source::Property(PropertyScope::Variable, variable(compiler, from)?)),
        "inline" => {
            if let Some(key) = from.optional("key") {
                return Some(Source::Inline(Piece::of(&compiler.entry(from, key)?.text())));
            }
            Some(match Inline::compile(compiler, from)? {
                Inline::Fixed(text) => Source::Inline(Piece::of(&text)),
                computed @ (Inline::Whole(_) | Inline::Template(_)) => Source::Computed(computed),
            })
        }
        other => {
            let help = "write `custom`, `envelope`, `body`, `property`, `variable` or `inline`";
            compiler.error(from, format!("unknown value `{other}` of `type`"), Some(help));
            None
        }
    }
}

/// The name of a variable: an attribute, or the text of the element.
fn variable(compiler: &mut Compiler, element: &Element<'_>) -> Option<Box<str>> {
    let text = element.node().string_value();
    let name = element.optional("variable").unwrap_or(text.trim());
    if name.is_empty() {
        let help = format!("write <{} type=\"variable\">name</{0}>", element.name());
        return compiler.reject(element, "the variable has no name", Some(&help));
    }
    Some(name.into())
}

/// What `source` selects, removed from the body or a property. Source: Synapse's `Target.removeJsonFromBody`.
fn removed(compiler: &mut Compiler, from: &Element<'_>, to: &Element<'_>) -> Option<Target> {
    let path = from.required(compiler, "xpath")?;
    let paths = json_target::paths(compiler, from, path, true)?;
    let is_property = to.optional("type") == Some("property");
    match (is_property, paths.is_empty()) {
        (true, false) => Some(Target::InProperty(to.required(compiler, "property")?.into(), paths)),
        (false, false) => Some(Target::Json(paths)),
        (false, true) => nodes(compiler, from, path).map(Target::Custom),
        (true, true) => {
            let help = "write `json-eval(...)`, or the type `custom` and `$ctx:name//...`";
            compiler.reject(from, format!("`{path}` selects nothing in a property"), Some(help))
        }
    }
}

/// A path that selects nodes.
fn nodes(compiler: &mut Compiler, at: &Element<'_>, path: &str) -> Option<Expression> {
    let path = at.compiled(compiler, path)?;
    if !path.selects_nodes() {
        let help = "write a path, such as `//name`, or `json-eval($.name)`; for a property, the type `property`";
        return compiler.reject(at, format!("`{path}` selects no part of the body"), Some(help));
    }
    Some(path)
}

/// Whether `source` is a part of the envelope, or a property, whose XML is the target.
fn is_whole(source: &str) -> bool {
    let source = source.trim();
    matches!(source, "$body" | "$header" | "$env") || is_property_variable(source)
}

fn is_property_variable(source: &str) -> bool {
    let name = source.strip_prefix("$ctx:").unwrap_or_default();
    let is_part = |next: char| next.is_alphanumeric() || matches!(next, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_part)
}

/// Whether `source` is a call of `get-property`, without a path behind it.
fn is_property(source: &str) -> bool {
    let Some(arguments) = source.trim().strip_prefix("get-property(") else { return false };
    let mut quote = None;
    let end = arguments.find(|next| {
        match quote {
            None if matches!(next, '\'' | '"') => quote = Some(next),
            Some(of) if next == of => quote = None,
            None | Some(_) => {}
        }
        quote.is_none() && next == ')'
    });
    end.is_some_and(|end| end + 1 == arguments.len())
}

/// The property of `get-property('name')` or `get-property('scope', 'name')`.
fn property_named(compiler: &mut Compiler, to: &Element<'_>, source: &str) -> Option<Target> {
    let literals: Vec<_> = source.split(['\'', '"']).skip(1).step_by(2).collect();
    let (scope, name) = match *literals {
        [name] | ["default" | "synapse", name] => (PropertyScope::Synapse, name),
        ["axis2", name] => (PropertyScope::Axis2, name),
        ["operation", name] => (PropertyScope::Operation, name),
        _ => {
            let help =
                "write `get-property('name')`, or with a scope, `get-property('axis2', 'name')`";
            return compiler.reject(to, format!("`{source}` names no property"), Some(help));
        }
    };
    Some(Target::Property(scope, name.into()))
}

fn target(compiler: &mut Compiler, to: &Element<'_>, action: Action) -> Option<Target> {
    let of = to.optional("type").unwrap_or("custom");
    let target = match of {
        "custom" => {
            let source = to.required(compiler, "xpath")?;
            match json_target::paths(compiler, to, source, action == Action::Remove)? {
                _ if is_property(source) => property_named(compiler, to, source)?,
                paths if paths.is_empty() && action != Action::Remove && is_whole(source) => {
                    Target::Custom(to.compiled(compiler, source)?)
                }
                paths if paths.is_empty() => Target::Custom(nodes(compiler, to, source)?),
                paths => Target::Json(paths),
            }
        }
        "envelope" => Target::Envelope,
        "body" => Target::Body(to.compiled(compiler, "json-eval($)")?),
        "property" => {
            Target::Property(PropertyScope::Synapse, to.required(compiler, "property")?.into())
        }
        "variable" => Target::Property(PropertyScope::Variable, variable(compiler, to)?),
        "key" => {
            let source = to.required(compiler, "xpath")?;
            let paths = json_target::paths(compiler, to, source, false)?;
            let Some(path) = paths.into_iter().next() else {
                let message = format!("`{source}` names no member of an object");
                return compiler.reject(to, message, Some("write `json-eval($.name)`"));
            };
            Target::Key(path)
        }
        other => {
            let help = "write `custom`, `envelope`, `body`, `property`, `variable` or `key`";
            return compiler.reject(to, format!("unknown value `{other}` of `type`"), Some(help));
        }
    };
    let fits = match target {
        Target::Custom(_) | Target::InProperty(..) => true,
        Target::Json(_) => action != Action::Sibling,
        Target::Body(_) => action != Action::Remove,
        Target::Property(..) => matches!(action, Action::Replace | Action::Child),
        Target::Envelope | Target::Key(_) => action == Action::Replace,
    };
    if !fits {
        let help = "replace it, or name a part of the body by `xpath`";
        let message = format!("this `action` cannot be applied to the target `{of}`");
        compiler.error(to, message, Some(help));
    }
    fits.then_some(target)
}
