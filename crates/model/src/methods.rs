//! Sets of methods.

use std::fmt;

use base::Method;

/// A set of methods, for `Allow` and CORS preflights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MethodSet(u16);

const _: () = assert!(Method::COUNT <= 16, "one bit for each method");

impl MethodSet {
    pub const EMPTY: Self = Self(0);

    #[must_use]
    pub fn of(method: Method) -> Self {
        Self(1 << method.index())
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub fn contains(self, method: Method) -> bool {
        self.0 & (1 << method.index()) != 0
    }

    #[must_use]
    pub fn with(self, method: Method) -> Self {
        Self(self.0 | 1 << method.index())
    }

    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The number of members before `method` in table order: its index in a table of the members.
    #[must_use]
    pub fn rank(self, method: Method) -> usize {
        (self.0 & ((1 << method.index()) - 1)).count_ones() as usize
    }

    /// The number of members.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The named members, in the order of `Allow`.
    pub fn iter(self) -> impl Iterator<Item = Method> {
        Method::NAMED.into_iter().filter(move |method| self.contains(*method))
    }
}

impl FromIterator<Method> for MethodSet {
    fn from_iter<I: IntoIterator<Item = Method>>(methods: I) -> Self {
        methods.into_iter().fold(Self::EMPTY, Self::with)
    }
}

/// Prints the set as in `Allow`: `GET, POST`.
impl fmt::Display for MethodSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, method) in self.iter().enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            f.write_str(method.as_str())?;
        }
        Ok(())
    }
}
