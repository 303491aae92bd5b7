//! Evaluates a path: each step selects from the values that the step before it selected.

use xpath::Budget;

use super::compile::Bound;
use super::filter::Test;
use super::{Options, Path, Selection, Step, normalized_path};
use crate::error::Error;
use crate::json::{Builder, Kind, Ref};
use crate::pattern::Computed;
use crate::value::Value;

pub(super) type Outcome<T> = Result<T, Error>;

/// One evaluation: the root, the host's values, and the budget.
pub(super) struct Run<'r, 'd> {
    pub(super) root: Ref<'d>,
    slots: &'r [Value<'d>],
    options: Options,
    pub(super) budget: &'r Budget,
    pub(super) patterns: &'r Computed,
}

/// The first function that takes the whole list that the steps before it select: any function if the path begins
/// with `..`, and aggregates after any indefinite step.
pub(super) fn list_function(steps: &[Step]) -> Option<usize> {
    let mut indefinite = false;
    let scans = matches!(steps.first(), Some(Step::Descend));
    for (at, step) in steps.iter().enumerate() {
        match step {
            Step::Call(call) if indefinite && (scans || call.is_aggregate()) => return Some(at),
            Step::Descend
            | Step::Wildcard
            | Step::Filter(_)
            | Step::Slice { .. }
            | Step::Indices(_) => {
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
) -> Outcome<Selection<'d>> {
    let options = path.options;
    let mut run = Run { root, slots, options, budget, patterns: &Computed::default() };
    let found = run.path(path, root)?;
    Ok(match found {
        _ if options.as_path_list => {
            let values = match found {
                Selection::One(value) => vec![value],
                Selection::Many(values) => values,
            };
            Selection::Many(normalized_path::of(&mut run, &values)?)
        }
        Selection::One(value) if options.always_return_list => Selection::Many(vec![value]),
        Selection::One(_) | Selection::Many(_) => found,
    })
}

impl<'d> Run<'_, 'd> {
    /// The value of the host's n-th expression.
    pub(super) fn slot(&self, slot: usize) -> Outcome<Option<Value<'d>>> {
        let Some(value) = self.slots.get(slot) else { return Ok(None) };
        if let Value::Made(_) | Value::Text(_) = value {
            value.charge_copy(self.budget)?;
        }
        Ok(Some(value.clone().plain_within(self.budget)?))
    }

    /// Evaluates a path from `from`.
    pub(super) fn path(&mut self, path: &Path, from: Ref<'d>) -> Outcome<Selection<'d>> {
        let Some(function) = path.list_function else {
            if path.definite {
                return self.definite(&path.steps, Value::Json(from)).map(Selection::One);
            }
            let mut found = Vec::new();
            self.indefinite(&path.steps, from, true, &mut found)?;
            return Ok(Selection::Many(found));
        };
        let (before, after) = path.steps.split_at_checked(function).unwrap_or_default();
        let mut list = Vec::new();
        self.indefinite(before, from, true, &mut list)?;
        let Some((Step::Call(call), after)) = after.split_first() else {
            return Ok(Selection::Many(list));
        };
        let value = call.over_list(self, &list, from)?;
        self.definite(after, value).map(Selection::One)
    }

    /// Evaluates steps that each select at most one value.
    fn definite(&mut self, steps: &[Step], from: Value<'d>) -> Outcome<Value<'d>> {
        let mut current = from;
        for (at, step) in steps.iter().enumerate() {
            self.budget.charge_steps(1)?;
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
                        patterns: self.patterns,
                    };
                    let found = inner.path(&path, document.root())?;
                    return Ok(found.into_value_within(self.budget)?.into_owned());
                }
                Value::Text(_)
                | Value::Integer(_)
                | Value::Double(_)
                | Value::Boolean(_)
                | Value::Null => {
                    return Err(Error::Missing("the path continues below a scalar".to_owned()));
                }
            }
        }
        Ok(current)
    }

    /// The value that one definite step selects, if any.
    fn one(&mut self, step: &Step, from: Ref<'d>, last: bool) -> Outcome<Option<Value<'d>>> {
        Ok(match step {
            Step::Member(name) => self.member(from, name, last)?,
            Step::Index(Bound::Slot(slot)) => match self.slot(*slot)? {
                Some(Value::Text(name)) => self.member(from, &name, last)?,
                Some(Value::Integer(place)) => self.element(from, place)?.map(Value::Json),
                Some(_) | None => {
                    return Err(Error::Type("an index must be an integer or a name".to_owned()));
                }
            },
            Step::Index(Bound::Fixed(place)) => self.element(from, *place)?.map(Value::Json),
            Step::Members(names) => self.merged(from, names)?,
            Step::Indices(_) | Step::Slice { .. } | Step::Wildcard | Step::Descend => None,
            Step::Filter(_) | Step::Call(_) => None,
        })
    }

    fn member(&mut self, from: Ref<'d>, name: &str, last: bool) -> Outcome<Option<Value<'d>>> {
        self.budget.charge_steps(from.len() as u64 / 8)?;
        if let Some(found) = from.get(name) {
            return Ok(Some(Value::Json(found)));
        }
        let to_null = last && self.options.default_path_leaf_to_null;
        Ok((to_null && from.kind() == Kind::Object).then_some(Value::Null))
    }

    /// `['a','b']` at the end of a path: an object of those members.
    fn merged(&mut self, from: Ref<'d>, names: &[Box<str>]) -> Outcome<Option<Value<'d>>> {
        if from.kind() != Kind::Object {
            return Ok(None);
        }
        let mut builder = Builder::new();
        builder.begin_object();
        for name in names {
            match self.member(from, name, true)? {
                Some(value) => {
                    value.charge_copy(self.budget)?;
                    builder.key(name);
                    value.build(&mut builder);
                }
                None if self.options.require_properties => {
                    return Err(Error::Missing(format!("no member `{name}`")));
                }
                None => {}
            }
        }
        Ok(Some(Value::Made(Box::new(builder.finish()))))
    }

    /// Appends what `steps` select. `definite`: all steps so far were definite, so that selecting nothing is an error.
    fn indefinite(
        &mut self,
        steps: &[Step],
        from: Ref<'d>,
        definite: bool,
        found: &mut Vec<Value<'d>>,
    ) -> Outcome<()> {
        self.budget.charge_steps(1)?;
        let Some((step, rest)) = steps.split_first() else {
            self.budget.charge_memory(size_of::<Value<'_>>())?;
            found.push(Value::Json(from));
            return Ok(());
        };
        let last = rest.is_empty();
        match step {
            Step::Member(_) | Step::Index(_) => self.one_of_many(step, from, rest, definite, found),
            Step::Members(_) if last => self.one_of_many(step, from, rest, definite, found),
            Step::Members(_) if definite && from.kind() != Kind::Object => Err(missing(step, from)),
            Step::Members(names) => {
                for name in names {
                    self.budget.charge_steps(from.len() as u64 / 8)?;
                    if let Some(value) = from.get(name) {
                        self.indefinite(rest, value, false, found)?;
                    } else if self.options.require_properties {
                        return Err(Error::Missing(format!("no member `{name}`")));
                    }
                }
                Ok(())
            }
            Step::Indices(places) => {
                self.expect_array(from, definite)?;
                for place in places {
                    let Some(place) = self.place(*place)? else { continue };
                    if let Some(value) = self.element(from, place)? {
                        self.indefinite(rest, value, false, found)?;
                    }
                }
                Ok(())
            }
            Step::Slice { from: first, to, step } => {
                self.expect_array(from, definite)?;
                let bounds = [self.bound(*first)?, self.bound(*to)?, self.bound(*step)?];
                self.slice(from, bounds, rest, found)
            }
            Step::Wildcard => {
                from.children().try_for_each(|child| self.indefinite(rest, child, false, found))
            }
            Step::Descend => {
                from.descendants().try_for_each(|value| self.descendant(rest, value, found))
            }
            Step::Filter(test) => self.filter(test, from, rest, definite, found),
            Step::Call(call) => {
                let value = call.over_value(self, &Value::Json(from))?;
                found.push(self.definite(rest, value)?);
                Ok(())
            }
        }
    }

    /// `[?(...)]`: an object is tested itself, of an array each element is.
    fn filter(
        &mut self,
        test: &Test,
        from: Ref<'d>,
        rest: &[Step],
        definite: bool,
        found: &mut Vec<Value<'d>>,
    ) -> Outcome<()> {
        match from.kind() {
            Kind::Object if test.holds(self, from)? => self.indefinite(rest, from, false, found),
            Kind::Object => Ok(()),
            Kind::Array => {
                for element in from.elements() {
                    if test.holds(self, element)? {
                        self.indefinite(rest, element, false, found)?;
                    }
                }
                Ok(())
            }
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String if definite => {
                Err(Error::Missing(format!(
                    "a filter applies to arrays and objects, not to {}",
                    kind(from)
                )))
            }
            Kind::Null | Kind::Boolean | Kind::Number | Kind::String => Ok(()),
        }
    }

    /// One definite step inside an indefinite path.
    fn one_of_many(
        &mut self,
        step: &Step,
        from: Ref<'d>,
        rest: &[Step],
        definite: bool,
        found: &mut Vec<Value<'d>>,
    ) -> Outcome<()> {
        match self.one(step, from, rest.is_empty())? {
            Some(Value::Json(value)) => self.indefinite(rest, value, definite, found),
            Some(made) => {
                found.push(self.definite(rest, made)?);
                Ok(())
            }
            // As in Jayway: an index past the end is an error of definite paths only.
            None if matches!(step, Step::Index(_)) && from.kind() == Kind::Array => Ok(()),
            None if definite || self.options.require_properties => Err(missing(step, from)),
            None => Ok(()),
        }
    }

    /// The step after `..` at one of the descendants.
    fn descendant(
        &mut self,
        rest: &[Step],
        at: Ref<'d>,
        found: &mut Vec<Value<'d>>,
    ) -> Outcome<()> {
        if let Some((Step::Member(name), after)) = rest.split_first() {
            self.budget.charge_steps(1 + at.len() as u64 / 8)?;
            let to_null = self.options.default_path_leaf_to_null && after.is_empty();
            return match at.get(name) {
                Some(value) => self.indefinite(after, value, false, found),
                None if to_null && at.kind() == Kind::Object => {
                    self.indefinite(rest, at, false, found)
                }
                None => Ok(()),
            };
        }
        if let Some(Step::Members(names)) = rest.first() {
            self.budget.charge_steps((at.len() * names.len()) as u64 / 8)?;
        }
        let applies = match rest.first() {
            Some(Step::Members(names)) => {
                at.kind() == Kind::Object && names.iter().all(|name| at.get(name).is_some())
            }
            Some(Step::Index(_) | Step::Indices(_) | Step::Slice { .. }) => {
                at.kind() == Kind::Array
            }
            // As in Jayway: objects that match; elements of arrays only where the array itself matches.
            Some(Step::Filter(test)) => match at.kind() {
                Kind::Object => true,
                Kind::Array => test.holds(self, at)?,
                Kind::Null | Kind::Boolean | Kind::Number | Kind::String => false,
            },
            Some(Step::Wildcard) => true,
            Some(Step::Member(_) | Step::Descend | Step::Call(_)) | None => true,
        };
        if applies {
            self.indefinite(rest, at, false, found)
        } else {
            Ok(self.budget.charge_steps(1)?)
        }
    }

    fn slice(
        &mut self,
        from: Ref<'d>,
        bounds: [Option<i64>; 3],
        rest: &[Step],
        found: &mut Vec<Value<'d>>,
    ) -> Outcome<()> {
        let size = i64::try_from(from.len()).unwrap_or(i64::MAX);
        let [first, to, step] = bounds;
        let step = step.unwrap_or(1);
        let at = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
        let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let mut place =
            first.map_or(if step > 0 { low } else { high }, |first| at(first).clamp(low, high));
        let end = to.map_or(if step > 0 { high } else { low }, |to| at(to).clamp(low, high));
        if step == 0 {
            return Err(Error::Type("the step of a slice must not be 0".to_owned()));
        }
        // Elements are found by walking the array, once.
        self.budget.charge_steps(from.len() as u64 / 8)?;
        self.budget.charge_memory(from.len() * size_of::<Ref<'_>>())?;
        let elements: Vec<_> = from.elements().collect();
        while if step > 0 { place < end } else { place > end } {
            let value = usize::try_from(place).ok().and_then(|place| elements.get(place));
            if let Some(value) = value {
                self.indefinite(rest, *value, false, found)?;
            }
            place = place.saturating_add(step);
        }
        Ok(())
    }

    /// The element at `place`, from the end if negative.
    fn element(&self, from: Ref<'d>, place: i64) -> Outcome<Option<Ref<'d>>> {
        let size = i64::try_from(from.len()).unwrap_or(i64::MAX);
        let place = if place < 0 { place.saturating_add(size) } else { place };
        let Some(place) = usize::try_from(place).ok().filter(|place| *place < from.len()) else {
            return Ok(None);
        };
        self.budget.charge_steps(place as u64 / 8)?;
        Ok(from.at(place))
    }

    fn bound(&self, bound: Option<Bound>) -> Outcome<Option<i64>> {
        bound.map_or(Ok(None), |bound| self.place(bound))
    }

    fn place(&self, bound: Bound) -> Outcome<Option<i64>> {
        match bound {
            Bound::Fixed(place) => Ok(Some(place)),
            Bound::Slot(slot) => match self.slot(slot)? {
                Some(Value::Integer(place)) => Ok(Some(place)),
                Some(_) | None => Err(Error::Type("an index must be an integer".to_owned())),
            },
        }
    }

    fn expect_array(&self, from: Ref<'d>, definite: bool) -> Outcome<()> {
        if definite && from.kind() != Kind::Array {
            return Err(Error::Missing(format!("array expected, found {}", kind(from))));
        }
        Ok(())
    }
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

fn missing(step: &Step, from: Ref<'_>) -> Error {
    Error::Missing(match step {
        Step::Member(name) if from.kind() == Kind::Object => format!("no member `{name}`"),
        Step::Member(name) => format!("no member `{name}` in {}", kind(from)),
        Step::Index(Bound::Fixed(place)) if from.kind() == Kind::Array => {
            format!("no element {place} in an array of {}", from.len())
        }
        Step::Index(_) | Step::Members(_) | Step::Indices(_) | Step::Slice { .. } => {
            format!("no such element or member in {}", kind(from))
        }
        Step::Wildcard | Step::Descend | Step::Filter(_) | Step::Call(_) => {
            "the path selects nothing".to_owned()
        }
    })
}
