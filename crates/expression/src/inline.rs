//! Expressions in braces inside a text: `{$ctx:name}`. Source: Synapse's `InlineExpressionUtil`.

use std::ops::Range;

/// Where expressions in braces are in `text`, braces included: as in Synapse, one has no white space, and none of
/// `" , < >`. It may have `]`, with which Synapse leaves the braces as they are.
pub fn expressions(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let ends = |next: char| next == '}' || next.is_whitespace() || "\",<>".contains(next);
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let start = at + text.get(at..)?.find('{')?;
            let inner = text.get(start + 1..)?;
            let len = inner.find(ends)?;
            at = start + 1;
            if len > 0 && inner.get(len..)?.starts_with('}') {
                at = start + len + 2;
                return Some(start..at);
            }
        }
    })
}
