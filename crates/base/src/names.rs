//! Suggestions for misspelt names in error messages.

/// Longest name that is compared with others, in characters. Longer: no suggestion. The comparison takes a step for
/// each pair of characters, and names may come from hostile archives.
const COMPARED_CHARS_MAX: usize = 64;

/// Maximum number of diagnostics of a file that suggest a name from other files, of which there may be many thousands.
/// More: without a suggestion.
pub const SUGGESTIONS_MAX: usize = 20;

/// The name among `valid` that is closest to `written`, if at most a third of it differs.
#[must_use]
pub fn nearest<'n>(written: &str, valid: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if written.chars().nth(COMPARED_CHARS_MAX).is_some() {
        return None;
    }
    let allowed = (written.chars().count() / 3).max(1);
    valid
        .into_iter()
        .map(|name| (distance(written, name, allowed), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Formats the names as: `a`, `b` or `c`.
#[must_use]
pub fn one_of<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// The optimal string alignment distance in characters: Levenshtein's, with a swap of two neighbours
/// counted once. Any value above `enough` if the lengths alone differ by more.
fn distance(a: &str, b: &str, enough: usize) -> usize {
    let (a_len, b_len) = (a.chars().count(), b.chars().count());
    if a_len.abs_diff(b_len) > enough {
        return usize::MAX;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX);
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i.saturating_add(1));
        for (j, to) in b.iter().enumerate() {
            let changed = at(&row, j).saturating_add(usize::from(from != to));
            let longer = at(&row, j.saturating_add(1)).min(at(&next, j)).saturating_add(1);
            let mut least = changed.min(longer);
            // The previous characters, if any.
            let (i_before, j_before) = (i.wrapping_sub(1), j.wrapping_sub(1));
            if a.get(i_before) == Some(to) && b.get(j_before) == Some(from) {
                least = least.min(at(&before, j_before).saturating_add(1));
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        check("x-wso2-basepath", Some("x-wso2-basePath"));
        check("x-wso2-cros", Some("x-wso2-cors"));
        check("x-wso2-wonre", Some("x-wso2-owner"));
        check("x-wso2-auth-headers", Some("x-wso2-auth-header"));
        check("entirely-different", None);
        check("", None);
    }

    #[test]
    fn names_too_long_to_compare_have_no_suggestion() {
        let long = |last: char| "x".repeat(COMPARED_CHARS_MAX - 1) + &last.to_string();
        assert_eq!(nearest(&long('a'), [&*long('b')]), Some(&*long('b')));
        assert_eq!(nearest(&(long('a') + "a"), [&*(long('a') + "b")]), None);
    }

    #[test]
    fn a_swap_of_two_neighbours_counts_once() {
        let targets = ["penstock", "nginx", "haproxy", "envoy"];
        assert_eq!(nearest("ngnix", targets), Some("nginx"));
        assert_eq!(nearest("evnoy", targets), Some("envoy"));
        assert_eq!(nearest("nignx", targets), Some("nginx"));
        assert_eq!(nearest("xgnin", targets), None);
    }

    #[track_caller]
    fn check(written: &str, expect: Option<&str>) {
        let valid = ["x-wso2-basePath", "x-wso2-cors", "x-wso2-auth-header", "x-wso2-owner"];
        assert_eq!(nearest(written, valid), expect);
    }
}
