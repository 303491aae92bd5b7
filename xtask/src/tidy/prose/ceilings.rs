//! The table of ceilings: one line per crate or page with its name, the markers and the long lines that it may have.
//! A crate or page without a line may have none.

use std::collections::BTreeMap;

use super::Counts;

/// The table, as parsed.
pub(super) struct Ceilings(BTreeMap<String, Counts>);

impl Ceilings {
    /// Parses the table; lines that begin with `#` are comments.
    ///
    /// # Errors
    /// The number of the first line (from 1) that is not a name and two numbers, or repeats a name; and the problem.
    pub(super) fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut rows = BTreeMap::new();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| is_row(line)) {
            let (name, counts) =
                row(line).ok_or_else(|| (index + 1, format!("cannot parse `{line}`")))?;
            if rows.insert(name.clone(), counts).is_some() {
                return Err((index + 1, format!("`{name}` has two lines")));
            }
        }
        Ok(Self(rows))
    }

    /// The ceiling of a crate or page.
    pub(super) fn of(&self, name: &str) -> Counts {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Names of the crates and pages that have fewer markers or long lines than they may have.
    pub(super) fn above(&self, found: &BTreeMap<String, Counts>) -> Vec<&str> {
        self.0
            .iter()
            .filter(|(name, allowed)| lowest(**allowed, found.get(*name)) != **allowed)
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// The table's comments, and its rows lowered to `found`, without those that reach zero.
    pub(super) fn lowered(&self, text: &str, found: &BTreeMap<String, Counts>) -> String {
        let comments: String =
            text.lines().filter(|line| !is_row(line)).flat_map(|line| [line, "\n"]).collect();
        let rows = self.0.iter().map(|(name, allowed)| (name, lowest(*allowed, found.get(name))));
        let rows: String = rows
            .filter(|(_, counts)| *counts != Counts::default())
            .map(|(name, counts)| format!("{name:<34}{:>9}{:>12}\n", counts.markers, counts.long))
            .collect();
        comments + &rows
    }
}

fn is_row(line: &str) -> bool {
    !line.starts_with('#') && !line.trim().is_empty()
}

fn row(line: &str) -> Option<(String, Counts)> {
    let mut columns = line.split_whitespace();
    let name = columns.next()?.to_owned();
    let counts =
        Counts { markers: columns.next()?.parse().ok()?, long: columns.next()?.parse().ok()? };
    columns.next().is_none().then_some((name, counts))
}

fn lowest(allowed: Counts, found: Option<&Counts>) -> Counts {
    let found = found.copied().unwrap_or_default();
    Counts { markers: allowed.markers.min(found.markers), long: allowed.long.min(found.long) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# crate  markers  long lines\na 5 2\nb 1 0\nc 3 3\n";

    fn found() -> BTreeMap<String, Counts> {
        let rows = [("a", 4, 9), ("c", 3, 3), ("d", 1, 1)];
        rows.map(|(name, markers, long)| (name.to_owned(), Counts { markers, long })).into()
    }

    #[test]
    fn ceilings_fall_and_never_rise() {
        let ceilings = Ceilings::parse(TABLE).unwrap();
        assert_eq!(ceilings.above(&found()), ["a", "b"]);
        let lowered = ceilings.lowered(TABLE, &found());
        let lowered: Vec<_> = lowered
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lowered, ["# crate markers long lines", "a 4 2", "c 3 3"]);
    }

    #[test]
    fn a_set_without_a_line_may_have_no_markers() {
        let ceilings = Ceilings::parse(TABLE).unwrap();
        assert_eq!(ceilings.of("a"), Counts { markers: 5, long: 2 });
        assert_eq!(ceilings.of("d"), Counts::default());
    }

    #[test]
    fn a_broken_line_is_reported_with_its_number() {
        for (text, line) in [("a 1", 1), ("# b\na 1 x", 2), ("a 1 1 1", 1), ("a 1 1\na 2 2", 2)] {
            assert_eq!(Ceilings::parse(text).err().map(|(line, _)| line), Some(line), "{text}");
        }
    }
}
