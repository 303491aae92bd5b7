//! Names that people wrote, and what they may have meant: for the help line of a refusal.

/// The name among `valid` that `written` most likely means: at most a third of it differs.
#[must_use]
pub fn nearest<'n>(written: &str, valid: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let allowed = (written.chars().count() / 3).max(1);
    valid
        .into_iter()
        .map(|name| (distance(written, name, allowed), name))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `a`, `b` or `c`: for "write one of".
#[must_use]
pub fn one_of<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}

/// Levenshtein's distance in characters; anything above `enough` when the lengths alone exceed it.
fn distance(a: &str, b: &str, enough: usize) -> usize {
    let b: Vec<char> = b.chars().collect();
    let length = a.chars().count();
    if length.abs_diff(b.len()) > enough {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut left = i.saturating_add(1);
        let mut diagonal = i;
        let mut next = Vec::with_capacity(row.len());
        next.push(left);
        for (to, above) in b.iter().zip(row.iter().skip(1)) {
            let changed = diagonal.saturating_add(usize::from(from != *to));
            left = changed.min(above.saturating_add(1)).min(left.saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        check("x-wso2-basepath", Some("x-wso2-basePath"));
        check("x-wso2-cros", Some("x-wso2-cors"));
        check("x-wso2-auth-headers", Some("x-wso2-auth-header"));
        check("entirely-different", None);
        check("", None);
    }

    #[track_caller]
    fn check(written: &str, expect: Option<&str>) {
        let valid = ["x-wso2-basePath", "x-wso2-cors", "x-wso2-auth-header", "x-wso2-owner"];
        assert_eq!(nearest(written, valid), expect);
    }
}
