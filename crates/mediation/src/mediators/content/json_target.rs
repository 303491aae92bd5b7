//! Targets of `enrich` inside JSON: the values that a path selects are replaced, extended, or removed. The rest of the
//! text stays as it is, byte for byte.

use std::ops::Range;
use std::sync::Arc;

use expression::{BodyUse, EvalContext, Expression, json};

use crate::error::Failure;
use crate::mediators::values::items::{fail, place};
use crate::message::{Format, Message, PropertyValue};
use crate::program::{LogLevel, Scene};
use crate::syntax::{Compiler, Element};

/// Change of each value that the path selects.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Edit<'e> {
    Replace(&'e str),
    /// It is added to an array, or its members are put into an object.
    Child(&'e str),
    /// The member gets another name, which is a JSON string.
    Rename(&'e str),
    Remove,
}

/// Edits what `target` selects in a JSON body. A value inside one that is edited is not edited again.
///
/// # Errors
/// The body is not JSON; the path selects nothing, unless that would be removed, or is missing where it could be.
pub(crate) fn edit(
    target: &Expression,
    edit: Edit<'_>,
    scene: &Scene<'_>,
    message: &mut Message,
) -> Result<(), Failure> {
    if message.body.format() != Format::Json {
        return Err(fail(format!("the body is not JSON, so there is no `{target}`")));
    }
    let Some(document) = message.body.json(scene.budget)? else {
        return Err(fail(format!("the body is empty, so there is no `{target}`")));
    };
    let view = scene.view(message);
    match edited_at(target, &view, document.root(), edit, scene)? {
        Some(text) => message.body.replace(Format::Json, text, scene.budget),
        None => Ok(()),
    }
}

/// A document without what `targets` select in it.
pub(crate) fn without(
    targets: &[Expression],
    mut document: Arc<json::Document<'static>>,
    scene: &Scene<'_>,
) -> Result<PropertyValue, Failure> {
    for target in targets {
        let context = Alone(document.root(), scene.environment.unix_ms());
        let text = edited_at(target, &context, document.root(), Edit::Remove, scene)?;
        match text {
            Some(text) if text.trim().is_empty() => return Ok(PropertyValue::new("")),
            Some(text) => {
                let parsed = json::Document::parse_within(text.as_bytes(), scene.budget)?;
                document = Arc::new(parsed.into_owned());
            }
            None => {}
        }
    }
    Ok(PropertyValue::Json(document))
}

/// A document that expressions see as the body.
struct Alone<'d>(json::Ref<'d>, i64);

impl EvalContext for Alone<'_> {
    fn json(&self) -> Result<Option<json::Ref<'_>>, expression::Error> {
        Ok(Some(self.0))
    }

    fn unix_ms(&self) -> i64 {
        self.1
    }
}

/// The text of `root` with the edit of what `target` selects in it; `None`: there is nothing to remove, or to replace.
fn edited_at(
    target: &Expression,
    context: &dyn EvalContext,
    root: json::Ref<'_>,
    edit: Edit<'_>,
    scene: &Scene<'_>,
) -> Result<Option<String>, Failure> {
    let (mut matches, is_definite) = match target.json_matches(context, scene.budget) {
        Err(expression::Error::Missing(_)) => (Vec::new(), true),
        matches => (matches?, false),
    };
    // A value that the path made is not a part of the body.
    matches.retain(|value| place(root, *value).is_some());
    matches.sort_by_key(|value| value.offset());
    if matches.is_empty() {
        return match edit {
            Edit::Remove => Ok(None),
            Edit::Replace(_) if !is_definite || could_be(target, context, scene)? => {
                let line = format!("enrich: `{target}` selects nothing, so nothing is replaced");
                scene.environment.log(LogLevel::Warn, &line);
                Ok(None)
            }
            Edit::Replace(_) | Edit::Child(_) | Edit::Rename(_) => {
                Err(fail(format!("`{target}` selects nothing")))
            }
        };
    }
    edited(root, &matches, edit, scene).map(Some)
}

/// Whether the target of a path is only missing: the object exists that would have the member, or the array that would
/// have the item. Source: Jayway JsonPath's `PathToken.handleObjectProperty` and `handleArrayIndex`.
fn could_be(
    target: &Expression,
    context: &dyn EvalContext,
    scene: &Scene<'_>,
) -> Result<bool, Failure> {
    let source = target.to_string();
    let Some((parent, kind)) = parent(&source) else { return Ok(false) };
    scene.budget.charge_steps(20 * parent.len() as u64)?;
    let Ok(parent) = Expression::compile(&parent) else { return Ok(false) };
    match parent.json_matches(context, scene.budget) {
        Err(expression::Error::Missing(_)) => Ok(false),
        found => Ok(found?.first().is_some_and(|value| value.kind() == kind)),
    }
}

/// The path without its last step, and the kind of that step. `None`: a part of it is computed.
fn parent(source: &str) -> Option<(String, json::Kind)> {
    let (open, inner, close) =
        [("json-eval(", ")"), ("${", "}")].into_iter().find_map(|(open, close)| {
            Some((open, source.strip_prefix(open)?.strip_suffix(close)?.trim(), close))
        })?;
    if inner.contains('{') {
        return None;
    }
    let inner = inner.strip_suffix('.').unwrap_or(inner);
    let (at, kind) = match inner.strip_suffix(']') {
        Some(item) if item.trim_end().ends_with(['"', '\'']) => {
            (item.rfind('[')?, json::Kind::Object)
        }
        Some(item) => (item.rfind('[')?, json::Kind::Array),
        None => (inner.rfind('.')?, json::Kind::Object),
    };
    Some((format!("{open}{}{close}", inner.get(..at)?), kind))
}

/// The text of `root` with the edit of each of `matches`, which are in its order.
fn edited(
    root: json::Ref<'_>,
    matches: &[json::Ref<'_>],
    edit: Edit<'_>,
    scene: &Scene<'_>,
) -> Result<String, Failure> {
    let budget = scene.budget;
    let (text, mut out, mut at) = (root.raw(), String::new(), 0);
    budget.charge_memory(text.len())?;
    for value in matches {
        let start = value.offset().saturating_sub(root.offset());
        let Some(before) = text.get(at..start) else { continue };
        out.push_str(before);
        at = start + value.raw().len();
        match edit {
            Edit::Replace(new) => {
                budget.charge_memory(new.len())?;
                out.push_str(new);
            }
            Edit::Child(new) => {
                budget.charge_memory(new.len().saturating_add(value.raw().len()))?;
                out.push_str(&with_child(*value, new, scene)?);
            }
            Edit::Rename(new) => {
                budget.charge_memory(new.len())?;
                let Some(name) = name_at_end(&out) else {
                    return Err(fail("an item of an array has no name"));
                };
                out.replace_range(name, new);
                out.push_str(value.raw());
            }
            Edit::Remove => {
                if let Some(name) = name_at_end(&out) {
                    out.truncate(name.start);
                }
                at += leave_comma(&mut out, text.get(at..).unwrap_or_default());
            }
        }
    }
    out.push_str(text.get(at..).unwrap_or_default());
    Ok(out)
}

/// `value` with another child; one that does not fit is logged and not added, as in Synapse.
pub(crate) fn with_child(
    value: json::Ref<'_>,
    new: &str,
    scene: &Scene<'_>,
) -> Result<String, Failure> {
    let document = json::Document::parse_within(new.as_bytes(), scene.budget)?;
    let mut out = json::Builder::new();
    match (value.kind(), document.root().kind()) {
        (json::Kind::Array, _) => {
            out.begin_array();
            for item in value.elements().chain([document.root()]) {
                out.embed(item);
            }
        }
        (json::Kind::Object, json::Kind::Object) => {
            out.begin_object();
            let added = document.root();
            scene.budget.charge_steps((value.len() as u64).saturating_mul(added.len() as u64))?;
            for (name, old) in value.members() {
                out.key(&name).embed(added.get(&name).unwrap_or(old));
            }
            for (name, item) in added.members().filter(|(name, _)| value.get(name).is_none()) {
                out.key(&name).embed(item);
            }
        }
        _ => {
            let line = "enrich: no child is added, since the target is neither an array nor an object that gets \
                        members";
            scene.environment.log(LogLevel::Error, line);
            return Ok(value.raw().to_owned());
        }
    }
    out.end();
    Ok(out.finish().text().to_owned())
}

/// The name of a member, in quotes, before the value that comes behind `out`; an element of an array has none.
fn name_at_end(out: &str) -> Option<Range<usize>> {
    let rest = out.trim_end().strip_suffix(':')?.trim_end();
    let name = rest.strip_suffix('"')?;
    let is_escaped = |at: usize| {
        let before = name.get(..at).unwrap_or_default();
        (before.len() - before.trim_end_matches('\\').len()) % 2 == 1
    };
    let mut quotes = name.rmatch_indices('"').map(|(at, _)| at);
    Some(quotes.find(|at| !is_escaped(*at))?..rest.len())
}

/// Takes the comma behind the value from `rest`, or the one before it from `out`. Returns the length of the former.
fn leave_comma(out: &mut String, rest: &str) -> usize {
    if let Some(behind) = rest.trim_start().strip_prefix(',') {
        return rest.len() - behind.trim_start().len();
    }
    if let Some(before) = out.trim_end().strip_suffix(',') {
        out.truncate(before.len());
    }
    0
}

/// The paths of a target inside JSON: `json-eval($.a)`, `${payload.a}`, and `json-eval($.a,$.b)`. None: it is
/// of another kind.
pub(crate) fn paths(
    compiler: &mut Compiler,
    to: &Element<'_>,
    source: &str,
    is_list: bool,
) -> Option<Vec<Expression>> {
    let inner = source.strip_prefix("json-eval(").and_then(|inner| inner.strip_suffix(')'));
    match inner {
        Some(inner) if is_list => inner
            .split(",$")
            .enumerate()
            .map(|(at, path)| {
                let root = if at == 0 { "" } else { "$" };
                in_body(compiler, to, &format!("json-eval({root}{path})"))
            })
            .collect(),
        Some(_) => Some(vec![in_body(compiler, to, source)?]),
        None if source.starts_with("${payload") => Some(vec![in_body(compiler, to, source)?]),
        None => Some(Vec::new()),
    }
}

/// A path that is not one of a property.
fn in_body(compiler: &mut Compiler, to: &Element<'_>, source: &str) -> Option<Expression> {
    let path = to.compiled(compiler, source)?;
    if path.body_use() == BodyUse::Untouched {
        let help = "write the type `property`, or `variable`";
        return compiler.reject(to, format!("`{path}` selects no part of the body"), Some(help));
    }
    Some(path)
}
