//! The items of sequences and hashes, and the built-ins that evaluate an expression for each.

use super::super::Expr;
use super::super::built_ins::{KEY_BYTES, Key, text_len};
use super::super::nodes::Nodes;
use super::{Machine, Model, Step, fail, missing};
use crate::json::{self, Builder, Ref};
use crate::value::Value;

impl<'s> Machine<'s> {
    /// The elements of a sequence. Values of the message are borrowed, values made by the template are copied.
    pub(super) fn items(&self, of: Model<'s>, at: usize, what: &str) -> Step<Vec<Model<'s>>> {
        let value = match of {
            Model::Value(value) => value,
            Model::Nodes(nodes) => {
                self.charge_items(nodes.as_slice().len())?;
                let one = |node: &_| Model::Nodes(Nodes::One(*node));
                return Ok(nodes.as_slice().iter().map(one).collect());
            }
        };
        let Some(array) = value.json().filter(|json| json.kind() == json::Kind::Array) else {
            let message = format!("{what} requires a sequence");
            return fail(
                at,
                message + "; a hash is listed by `as key, value`, `?keys` or `?values`",
            );
        };
        self.charge_items(array.len())?;
        if let Value::Json(array) = value {
            return Ok(array.elements().map(|item| Model::Value(Value::Json(item))).collect());
        }
        self.charge_copy(&value)?;
        Ok(array.elements().map(owned).collect())
    }

    /// The names and values of a hash.
    pub(super) fn members(
        &self,
        of: Model<'s>,
        at: usize,
    ) -> Step<Vec<(Option<Value<'s>>, Model<'s>)>> {
        let hash = match &of {
            Model::Value(value) => value.json().filter(|json| json.kind() == json::Kind::Object),
            Model::Nodes(_) => None,
        };
        let (Model::Value(value), Some(hash)) = (&of, hash) else {
            return fail(at, "`as key, value` requires a hash; a sequence is listed by `as item`");
        };
        self.charge_items(hash.len())?;
        self.budget.charge_reading(hash.raw().len())?;
        if let Value::Json(hash) = value {
            let member =
                |(name, value)| (Some(Value::Text(name)), Model::Value(Value::Json(value)));
            return Ok(hash.members().map(member).collect());
        }
        self.charge_copy(value)?;
        let member = |(name, value)| (Some(Value::Text(name).into_owned()), owned(value));
        Ok(hash.members().map(member).collect())
    }

    fn charge_items(&self, count: usize) -> Step<()> {
        self.budget.charge_steps(count as u64)?;
        let bytes = count.saturating_mul(size_of::<(Option<Value<'_>>, Model<'_>)>());
        Ok(self.budget.charge_memory(bytes)?)
    }

    /// A sequence of the items: of nodes if all are, else of copies.
    fn sequence(&self, items: Vec<Model<'s>>, at: usize) -> Step<Model<'s>> {
        let nodes = |item: &Model<'s>| match item {
            Model::Nodes(Nodes::One(node)) => Some(*node),
            Model::Nodes(_) | Model::Value(_) => None,
        };
        if !items.is_empty() && items.iter().all(|item| nodes(item).is_some()) {
            return Nodes::collect(items.iter().filter_map(nodes), self.budget).map(Model::Nodes);
        }
        let mut builder = Builder::new();
        builder.begin_array();
        for item in items {
            let value = self.text_of(item, at)?;
            self.copy(&value, &mut builder)?;
        }
        Ok(Model::Value(Value::Made(Box::new(builder.finish()))))
    }

    /// `?filter(name -> body)` and `?map(name -> body)`.
    pub(super) fn each(
        &mut self,
        of: &'s Expr,
        is_filter: bool,
        name: &'s str,
        body: &'s Expr,
    ) -> Step<Model<'s>> {
        let all = self.value(of)?;
        let items = self.items(all, of.at, if is_filter { "`?filter`" } else { "`?map`" })?;
        let mut made = Vec::with_capacity(items.len());
        for item in items {
            self.charge_names()?;
            self.names.insert(0, (name, item));
            self.loop_variables += 1;
            let result = if is_filter {
                self.truth(body).map(|keeps| keeps.then_some(None))
            } else {
                self.value(body).map(|value| Some(Some(value)))
            };
            self.loop_variables -= 1;
            let (_, item) = self.names.remove(0);
            // A filter keeps the item itself.
            made.extend(result?.map(|value| value.unwrap_or(item)));
        }
        self.sequence(made, of.at)
    }

    /// `?sort_by(name)`, or with a sequence of names, one below the other.
    pub(super) fn sort_by(
        &mut self,
        of: Model<'s>,
        given: &[Value<'s>],
        at: usize,
    ) -> Step<Model<'s>> {
        let path = match given {
            [Value::Text(name)] => vec![name.clone()],
            [Value::Made(names)] => names.root().elements().filter_map(Ref::string).collect(),
            _ => return fail(at, "`?sort_by` requires a name or a sequence of names"),
        };
        let mut keyed = Vec::new();
        let mut bytes = 0_usize;
        for item in self.items(of, at, "`?sort_by`")? {
            let mut key = item.clone();
            for name in &path {
                let Some(found) = self.member_of(&key, name, at)? else {
                    let message = format!("an item of `?sort_by` has no `{name}`");
                    return missing(at, message + "; leave it out with `?filter`");
                };
                key = found;
            }
            let key = self.text_of(key, at)?.plain_within(self.budget)?;
            let added = text_len(&key).saturating_add(KEY_BYTES);
            bytes = bytes.saturating_add(added);
            self.budget.charge_memory(added)?;
            keyed.push((Key::of(&key), item));
        }
        let rounds = usize::BITS - keyed.len().leading_zeros();
        self.budget.charge_steps(u64::from(rounds) * keyed.len() as u64)?;
        self.budget.charge_scanning(bytes.saturating_mul(rounds as usize))?;
        keyed.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.budget.release_memory(bytes);
        self.sequence(keyed.into_iter().map(|(_, item)| item).collect(), at)
    }
}

fn owned<'s>(value: Ref<'_>) -> Model<'s> {
    Model::Value(Value::Json(value).into_owned())
}
