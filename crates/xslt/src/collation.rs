//! Locale-aware collation: `lang` of `xsl:sort`, section 10.
//!
//! The collations are those of Unicode's CLDR, which are compiled in. Languages that CLDR does not know use its root
//! collation.

use std::cmp::Ordering;

use icu_collator::options::{CollatorOptions, Strength};
use icu_collator::preferences::CollationCaseFirst;
use icu_collator::{Collator, CollatorBorrowed, CollatorPreferences};
use icu_locale_core::Locale;

/// Whether upper or lower case comes first; none: as in the language.
pub(crate) type CaseFirst = Option<CollationCaseFirst>;

/// The collation of a language.
pub(crate) struct Collation(CollatorBorrowed<'static>);

impl Collation {
    /// `tag` is a BCP 47 language tag; `-u-co-` selects another collation of the language.
    ///
    /// # Errors
    /// The message: `tag` is not a language tag.
    pub(crate) fn new(tag: &str, case: CaseFirst) -> Result<Self, String> {
        let mut preferences = CollatorPreferences::from(&language(tag)?);
        preferences.case_first = case.or(preferences.case_first);
        let mut options = CollatorOptions::default();
        options.strength = Some(Strength::Tertiary);
        let found = Collator::try_new(preferences, options);
        found.map(Self).map_err(|why| format!("no collation for `{tag}`: {why}"))
    }

    pub(crate) fn compare(&self, one: &str, other: &str) -> Ordering {
        self.0.compare(one, other)
    }
}

/// Parses a language tag.
///
/// # Errors
/// The message: it is not a language tag.
pub(crate) fn language(tag: &str) -> Result<Locale, String> {
    Locale::try_from_str(tag).map_err(|_| format!("`{tag}` is not a language tag (BCP 47)"))
}
