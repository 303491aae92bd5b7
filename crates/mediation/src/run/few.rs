//! Collections of a run that mostly have one entry, which needs no memory of its own.

use std::collections::{BTreeMap, VecDeque};

/// A map.
#[derive(Debug)]
pub(super) struct Few<K, V> {
    one: Option<(K, V)>,
    others: BTreeMap<K, V>,
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self { one: None, others: BTreeMap::new() }
    }
}

impl<K: Ord, V> Few<K, V> {
    pub(super) fn insert(&mut self, key: K, value: V) {
        match &mut self.one {
            Some((known, old)) if *known == key => *old = value,
            None if !self.others.contains_key(&key) => self.one = Some((key, value)),
            Some(_) | None => {
                self.others.insert(key, value);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        match self.one.take_if(|(known, _)| known == key) {
            Some((_, value)) => Some(value),
            None => self.others.remove(key),
        }
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match &self.one {
            Some((known, value)) if known == key => Some(value),
            Some(_) | None => self.others.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.one {
            Some((known, value)) if known == key => Some(value),
            Some(_) | None => self.others.get_mut(key),
        }
    }

    pub(super) fn contains_key(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn len(&self) -> usize {
        usize::from(self.one.is_some()).saturating_add(self.others.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.one.iter().map(|(key, value)| (key, value)).chain(&self.others)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    pub(super) fn clear(&mut self) {
        self.one = None;
        self.others.clear();
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&V) -> bool) {
        self.one.take_if(|(_, value)| !keeps(value));
        self.others.retain(|_, value| keeps(value));
    }

    /// Removes the entries that `takes`, and returns their keys.
    pub(super) fn take_all(&mut self, takes: impl Fn(&V) -> bool) -> Vec<K> {
        let one = self.one.take_if(|(_, value)| takes(value));
        let others = self.others.extract_if(.., |_, value| takes(value));
        one.into_iter().chain(others).map(|(key, _)| key).collect()
    }
}

/// A queue.
#[derive(Debug)]
pub(super) struct Queue<T> {
    first: Option<T>,
    /// Empty without a first.
    others: VecDeque<T>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { first: None, others: VecDeque::new() }
    }
}

impl<T> Queue<T> {
    pub(super) fn push_back(&mut self, item: T) {
        match self.first {
            None => self.first = Some(item),
            Some(_) => self.others.push_back(item),
        }
    }

    pub(super) fn push_front(&mut self, item: T) {
        if let Some(second) = self.first.replace(item) {
            self.others.push_front(second);
        }
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let first = self.first.take()?;
        self.first = self.others.pop_front();
        Some(first)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(super) fn clear(&mut self) {
        self.first = None;
        self.others.clear();
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&T) -> bool) {
        self.others.retain(&keeps);
        if self.first.take_if(|first| !keeps(first)).is_some() {
            self.first = self.others.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_finds_what_was_inserted_until_it_is_removed() {
        let mut few = Few::default();
        for key in [3, 1, 2] {
            few.insert(key, key * 10);
        }
        few.insert(1, 11);
        assert_eq!((few.remove(&3), few.remove(&3), few.len()), (Some(30), None, 2));
        few.insert(2, 22);
        few.insert(4, 40);
        assert_eq!(few.values().sum::<i32>(), 11 + 22 + 40);
        assert_eq!(
            [1, 2, 3, 4].map(|key| few.get(&key).copied()),
            [Some(11), Some(22), None, Some(40)]
        );
        assert_eq!(few.take_all(|value| *value > 20), [4, 2]);
        few.retain(|value| *value != 11);
        assert!(few.is_empty());
    }

    #[test]
    fn a_queue_returns_the_items_in_order() {
        let mut queue = Queue::default();
        for item in [2, 3, 4, 5] {
            queue.push_back(item);
        }
        queue.push_front(1);
        queue.retain(|item| ![1, 4].contains(item));
        let mut out = Vec::new();
        while let Some(item) = queue.pop_front() {
            out.push(item);
        }
        assert_eq!((out, queue.is_empty()), (vec![2, 3, 5], true));
    }
}
