//! Walking a document along the steps.

use super::compile::Bound;
use super::{Options, Path, Selection, Step, places};
use crate::budget::Budget;
use crate::json::{Builder, Kind, Ref};
use crate::{EvalError, Value};

pub(super) type Answer<T> = Result<T, EvalError>;

/// One evaluation: where `$` is, and how much may still be looked at.
pub(super) struct Run<'r, 'd> {
    pub(super) root: Ref<'d>,
    slots: &'r [Value<'d>],
    options: Options,
    pub(super) budget: &'r Budget,
}

/// The first function that takes the whole list that an indefinite path finds.
pub(super) fn gathering(steps: &[Step]) -> Option<usize> {
    let mut indefinite = false;
    let mut scanned = false;
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Call(call) if indefinite && (scanned || call.is_aggregate()) => return Some(at),
            Step::Descend => (scanned, indefinite) = (true, true),
            Step::Wildcard | Step::Filter(_) | Step::Slice { .. } | Step::Indices(_) => {
                indefinite = true;
            }
            Step::Members(_) => indefinite |= at + 1 < steps.len(),
            Step::Member(_) | Step::Index(_) | Step::Call(_) => {}
        }
    }
    None
}

pub(super) fn run<'d>(
    path: &Path,
    root: Ref<'d>,
    slots: &[Value<'d>],
    budget: &Budget,
) -> Answer<Selection<'d>> {
    let options = path.options;
    let mut run = Run { root, slots, options, budget };
    let found = run.path(path, root)?;
    Ok(match found {
        _ if options.as_path_list => {
            let values = match found {
                Selection::One(value) => vec![value],
                Selection::Many(values) => values,
            };
            Selection::Many(places::of(&mut run, &values)?)
        }
        Selection::One(value) if options.always_return_list => Selection::Many(vec![value]),
        Selection::One(_) | Selection::Many(_) => found,
    })
}

impl<'d> Run<'_, 'd> {
    /// The value of the host language's n-th expression.
    pub(super) fn slot(&self, slot: usize) -> Option<Value<'d>> {
        self.slots.get(slot).cloned().map(Value::plain)
    }

    /// Evaluates a path from `from`.
    pub(super) fn path(&mut self, path: &Path, from: Ref<'d>) -> Answer<Selection<'d>> {
        let Some(gather) = path.gather else {
            if path.definite {
                return self.definite(&path.steps, Value::Json(from)).map(Selection::One);
            }
            let mut found = Vec::new();
            self.indefinite(&path.steps, from, true, &mut found)?;
            return Ok(Selection::Many(found));
        };
        let (before, after) = path.steps.split_at_checked(gather).unwrap_or_default();
        let mut list = Vec::new();
        self.indefinite(before, from, true, &mut list)?;
        let Some((Step::Call(call), after)) = after.split_first() else {
            return Ok(Selection::Many(list));
        };
        let value = call.over_list(self, &list, from)?;
        self.definite(after, value).map(Selection::One)
    }

    /// Each step leads from one value to one value.
    fn definite(&mut self, steps: &[Step], from: Value<'d>) -> Answer<Value<'d>> {
        let mut current = from;
        for (at, step) in steps.iter().enumerate() {
            self.budget.visit(1)?;
            if let Step::Call(call) = step {
                current = call.over_value(self, &current)?;
                continue;
            }
            let rest = steps.get(at..).unwrap_or_default();
            match current {
                Value::Json(json) => match self.one(step, json, rest.len() == 1)? {
                    Some(found) => current = found,
                    None => return Err(missing(step, json)),
                },
                Value::Made(document) => {
                    let path = Path::of("", rest.to_vec(), self.options);
                    let mut inner = Run {
                        root: document.root(),
                        slots: &[],
                        options: self.options,
                        budget: self.budget,
                    };
                    let found = inner.path(&path, document.root())?;
                    return Ok(found.paid(self.budget)?.into_owned());
                }
                Value::Text(_)
                | Value::Integer(_)
                | Value::Double(_)
                | Value::Boolean(_)
                | Value::Null => {
                    return Err(EvalError::Missing(
                        "a path goes on where nothing holds anything".to_owned(),
                    ));
                }
            }
        }
        Ok(current)
    }

    /// Where one definite step leads; `None`: nowhere.
    fn one(&mut self, step: &Step, from: Ref<'d>, last: bool) -> Answer<Option<Value<'d>>> {
        Ok(match step {
            Step::Member(name) => self.member(from, name, last)?,
            Step::Index(Bound::Slot(slot)) => match self.slot(*slot) {
                Some(Value::Text(name)) => self.member(from, &name, last)?,
                Some(Value::Integer(place)) => element(from, place).map(Value::Json),
                Some(_) | None => {
                    return Err(EvalError::Type("an index must be a number or a name".to_owned()));
                }
            },
            Step::Index(Bound::Fixed(place)) => element(from, *place).map(Value::Json),
            Step::Members(names) => self.merged(from, names)?,
            Step::Indices(_) | Step::Slice { .. } | Step::Wildcard | Step::Descend => None,
            Step::Filter(_) | Step::Call(_) => None,
        })
    }

    fn member(&mut self, from: Ref<'d>, name: &str, last: bool) -> Answer<Option<Value<'d>>> {
        self.budget.visit(from.len() as u64 / 8)?;
        if let Some(found) = from.get(name) {
            return Ok(Some(Value::Json(found)));
        }
        let to_null = last && self.options.default_path_leaf_to_null;
        Ok((to_null && from.kind() == Kind::Object).then_some(Value::Null))
    }

    /// `['a','b']` at a path's end: an object of those members.
    fn merged(&mut self, from: Ref<'d>, names: &[Box<str>]) -> Answer<Option<Value<'d>>> {
        if from.kind() != Kind::Object {
            return Ok(None);
        }
        let mut builder = Builder::new();
        builder.begin_object();
        for name in names {
            match self.member(from, name, true)? {
                Some(value) => {
                    self.budget.visit(copied(&value))?;
                    builder.key(name);
                    value.build(&mut builder);
                }
                None if self.options.require_properties => {
                    return Err(EvalError::Missing(format!("no member `{name}`")));
                }
                None => {}
            }
        }
        Ok(Some(Value::Made(Box::new(builder.finish()))))
    }

    /// All that `steps` lead to. `sure`: every step so far was definite, so that a gap is an error.
    fn indefinite(
        &mut self,
        steps: &[Step],
        from: Ref<'d>,
        sure: bool,
        found: &mut Vec<Value<'d>>,
    ) -> Answer<()> {
        self.budget.visit(1)?;
        let Some((step, rest)) = steps.split_first() else {
            found.push(Value::Json(from));
            return Ok(());
        };
        let last = rest.is_empty();
        match step {
            Step::Member(_) | Step::Index(_) => self.onward(step, from, rest, sure, found),
            Step::Members(_) if last => self.onward(step, from, rest, sure, found),
            Step::Members(names) => {
                for name in names {
                    if let Some(value) = from.get(name) {
                        self.indefinite(rest, value, false, found)?;
                    } else if self.options.require_properties {
                        return Err(EvalError::Missing(format!("no member `{name}`")));
                    }
                }
                Ok(())
            }
            Step::Indices(places) => {
                self.expect_array(from, sure)?;
                for place in places {
                    if let Some(value) = self.place(*place)?.and_then(|place| element(from, place))
                    {
                        self.indefinite(rest, value, false, found)?;
                    }
                }
                Ok(())
            }
            Step::Slice { from: first, to, step } => {
                self.expect_array(from, sure)?;
                let bounds = [self.bound(*first)?, self.bound(*to)?, self.bound(*step)?];
                self.slice(from, bounds, rest, found)
            }
            Step::Wildcard => {
                from.children().try_for_each(|child| self.indefinite(rest, child, false, found))
            }
            Step::Descend => {
                from.descendants().try_for_each(|value| self.scanned(rest, value, found))
            }
            Step::Filter(test) => {
                if from.kind() == Kind::Object {
                    return if test.holds(self, from)? {
                        self.indefinite(rest, from, false, found)
                    } else {
                        Ok(())
                    };
                }
                for element in from.elements() {
                    if test.holds(self, element)? {
                        self.indefinite(rest, element, false, found)?;
                    }
                }
                Ok(())
            }
            Step::Call(call) => {
                let value = call.over_value(self, &Value::Json(from))?;
                found.push(self.definite(rest, value)?);
                Ok(())
            }
        }
    }

    /// One definite step inside an indefinite path: a gap is skipped unless all before it was sure.
    fn onward(
        &mut self,
        step: &Step,
        from: Ref<'d>,
        rest: &[Step],
        sure: bool,
        found: &mut Vec<Value<'d>>,
    ) -> Answer<()> {
        match self.one(step, from, rest.is_empty())? {
            Some(Value::Json(value)) => self.indefinite(rest, value, sure, found),
            Some(made) => {
                found.push(self.definite(rest, made)?);
                Ok(())
            }
            None if sure || self.options.require_properties => Err(missing(step, from)),
            None => Ok(()),
        }
    }

    /// The step after `..`, at one of the values below: where it doesn't apply there is nothing.
    fn scanned(&mut self, rest: &[Step], at: Ref<'d>, found: &mut Vec<Value<'d>>) -> Answer<()> {
        let applies = match rest.first() {
            Some(Step::Member(name)) => {
                let there = self.options.default_path_leaf_to_null && rest.len() == 1;
                at.kind() == Kind::Object && (there || at.get(name).is_some())
            }
            Some(Step::Members(names)) => {
                at.kind() == Kind::Object && names.iter().all(|name| at.get(name).is_some())
            }
            Some(Step::Index(_) | Step::Indices(_) | Step::Slice { .. }) => {
                at.kind() == Kind::Array
            }
            Some(Step::Wildcard | Step::Filter(_)) => true,
            Some(Step::Descend | Step::Call(_)) | None => true,
        };
        if applies { self.indefinite(rest, at, false, found) } else { self.budget.visit(1) }
    }

    fn slice(
        &mut self,
        from: Ref<'d>,
        bounds: [Option<i64>; 3],
        rest: &[Step],
        found: &mut Vec<Value<'d>>,
    ) -> Answer<()> {
        let size = i64::try_from(from.len()).unwrap_or(i64::MAX);
        let [first, to, step] = bounds;
        let step = step.unwrap_or(1);
        let at = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
        let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let mut place =
            first.map_or(if step > 0 { low } else { high }, |first| at(first).clamp(low, high));
        let end = to.map_or(if step > 0 { high } else { low }, |to| at(to).clamp(low, high));
        if step == 0 {
            return Err(EvalError::Type("a slice can't go on by 0".to_owned()));
        }
        while if step > 0 { place < end } else { place > end } {
            if let Some(value) = element(from, place) {
                self.indefinite(rest, value, false, found)?;
            }
            place = place.saturating_add(step);
        }
        Ok(())
    }

    fn bound(&self, bound: Option<Bound>) -> Answer<Option<i64>> {
        bound.map_or(Ok(None), |bound| self.place(bound))
    }

    fn place(&self, bound: Bound) -> Answer<Option<i64>> {
        match bound {
            Bound::Fixed(place) => Ok(Some(place)),
            Bound::Slot(slot) => match self.slot(slot) {
                Some(Value::Integer(place)) => Ok(Some(place)),
                Some(_) | None => {
                    Err(EvalError::Type("an index must be a whole number".to_owned()))
                }
            },
        }
    }

    fn expect_array(&self, from: Ref<'d>, sure: bool) -> Answer<()> {
        if sure && from.kind() != Kind::Array {
            return Err(EvalError::Missing(format!("an array expected, {} found", kind(from))));
        }
        Ok(())
    }
}

/// The element at `place`, from the end when negative.
fn element(from: Ref<'_>, place: i64) -> Option<Ref<'_>> {
    let size = i64::try_from(from.len()).ok()?;
    let place = if place < 0 { place.checked_add(size)? } else { place };
    from.at(usize::try_from(place).ok()?)
}

/// What copying the value costs, in visits.
pub(super) fn copied(value: &Value<'_>) -> u64 {
    value.json().map_or(1, |json| json.raw().len() as u64 / 8 + 1)
}

fn kind(value: Ref<'_>) -> &'static str {
    match value.kind() {
        Kind::Null => "null",
        Kind::Boolean => "a boolean",
        Kind::Number => "a number",
        Kind::String => "a string",
        Kind::Array => "an array",
        Kind::Object => "an object",
    }
}

fn missing(step: &Step, from: Ref<'_>) -> EvalError {
    EvalError::Missing(match step {
        Step::Member(name) if from.kind() == Kind::Object => format!("no member `{name}`"),
        Step::Member(name) => format!("member `{name}` wanted of {}", kind(from)),
        Step::Index(Bound::Fixed(place)) if from.kind() == Kind::Array => {
            format!("no element {place} among {}", from.len())
        }
        Step::Index(_) | Step::Members(_) | Step::Indices(_) | Step::Slice { .. } => {
            format!("an element or member wanted of {}", kind(from))
        }
        Step::Wildcard | Step::Descend | Step::Filter(_) | Step::Call(_) => {
            "nothing found".to_owned()
        }
    })
}
