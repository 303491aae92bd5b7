//! The cells of the comparison: transport, body size, connections.

use std::fmt;

/// A cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) tls: bool,
    pub(crate) body_bytes: u32,
    pub(crate) connections: u32,
}

const BODIES_BYTES: [u32; 4] = [50, 1024, 10 * 1024, 100 * 1024];
const CONNECTIONS: [u32; 2] = [100, 1000];

impl Cell {
    /// Budgets 1 to 3: the maximum CPU time per request of Penstock, relative to nginx (docs/performance.md).
    pub(crate) fn budget(&self) -> f64 {
        if self.body_bytes >= 100 * 1024 { 0.85 } else { 0.75 }
    }

    pub(crate) fn transport(&self) -> &'static str {
        if self.tls { "tls" } else { "clear" }
    }

    pub(crate) fn body(&self) -> String {
        match self.body_bytes {
            bytes if bytes % 1024 == 0 => format!("{}KiB", bytes / 1024),
            bytes => format!("{bytes}B"),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}-{}-{}", self.transport(), self.body(), self.connections)
    }
}

/// The cells whose name, such as `tls-1KiB-100`, matches `wanted_texts` (see [`wanted`]).
///
/// # Errors
/// No cell matches.
pub(crate) fn chosen(wanted_texts: Option<&str>) -> Result<Vec<Cell>, String> {
    let all = [false, true].into_iter().flat_map(|tls| {
        BODIES_BYTES.into_iter().flat_map(move |body_bytes| {
            CONNECTIONS.into_iter().map(move |connections| Cell { tls, body_bytes, connections })
        })
    });
    let chosen: Vec<Cell> = all.filter(|cell| wanted(wanted_texts, &cell.to_string())).collect();
    if chosen.is_empty() {
        return Err(
            "--cells matches no cell; cells have names such as clear-50B-100 and tls-1KiB-1000"
                .to_owned(),
        );
    }
    Ok(chosen)
}

/// Whether `name` contains one of the comma-separated `texts`; `None` matches every name. A text that ends in `$`
/// matches at the end of the name only.
pub(crate) fn wanted(texts: Option<&str>, name: &str) -> bool {
    let fits = |text: &str| match text.strip_suffix('$') {
        Some(end) => name.ends_with(end),
        None => name.contains(text),
    };
    texts.is_none_or(|texts| texts.split(',').any(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_selected_by_parts_of_their_names() {
        let names = |texts: Option<&str>| -> Vec<String> {
            chosen(texts).unwrap().iter().map(ToString::to_string).collect()
        };
        assert_eq!(names(None).len(), 16);
        assert_eq!(names(Some("clear-50B")), ["clear-50B-100", "clear-50B-1000"]);
        assert_eq!(
            names(Some("clear-1KiB-100$,tls-1KiB-100$")),
            ["clear-1KiB-100", "tls-1KiB-100"]
        );
        assert!(chosen(Some("quic")).is_err());
    }
}
