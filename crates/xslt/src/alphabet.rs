//! The alphabetical order of a language: `lang` of `xsl:sort`, section 10.
//!
//! The orders are those of Unicode's CLDR, which are compiled in; a language that it doesn't know has the root's, in
//! which all scripts have their places.

use std::cmp::Ordering;

use icu_collator::options::{CollatorOptions, Strength};
use icu_collator::preferences::CollationCaseFirst;
use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

/// Which of two letters that differ in case alone comes first; none: as the language has it.
pub(crate) type CaseFirst = Option<CollationCaseFirst>;

/// The order of one language.
pub(crate) struct Alphabet(CollatorBorrowed<'static>);

impl Alphabet {
    /// Of the language that `tag` names as `xml:lang` does (BCP 47, its `-u-co-` for another order of the same
    /// language included).
    ///
    /// # Errors
    /// A text: what isn't such a tag.
    pub(crate) fn of(tag: &str, case: CaseFirst) -> Result<Self, String> {
        let mut preferences = CollatorPreferences::from(&language(tag)?);
        preferences.case_first = case.or(preferences.case_first);
        let mut options = CollatorOptions::default();
        options.strength = Some(Strength::Tertiary);
        let found = Collator::try_new(preferences, options);
        found.map(Self).map_err(|why| format!("no order is known for `{tag}`: {why}"))
    }

    pub(crate) fn compare(&self, one: &str, other: &str) -> Ordering {
        self.0.compare(one, other)
    }
}

/// The language of a tag.
///
/// # Errors
/// A text: it isn't one.
pub(crate) fn language(tag: &str) -> Result<Locale, String> {
    Locale::try_from_str(tag).map_err(|_| format!("`{tag}` isn't a language (BCP 47)"))
}
