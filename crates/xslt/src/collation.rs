//! Locale-aware collation: `lang` of `xsl:sort` (XSLT 1.0, section 10).
//!
//! The collation rules are those of Unicode CLDR, compiled in. A language without its own rules uses CLDR's root
//! collation, which covers every script. Without the cargo feature `collation` a stylesheet that sets `lang` is
//! rejected: at load if the value is known then, otherwise when the sort runs.

use std::cmp::Ordering;

/// Which of two letters that differ only in case sorts first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaseFirst {
    Upper,
    Lower,
}

#[cfg(feature = "collation")]
mod icu {
    use super::{CaseFirst, Ordering};
    use icu_collator::options::{CollatorOptions, Strength};
    use icu_collator::preferences::CollationCaseFirst;
    use icu_collator::{CollatorBorrowed, CollatorPreferences};
    use icu_locale_core::Locale;

    /// The collation of one language.
    pub(crate) struct Collator(CollatorBorrowed<'static>);

    impl Collator {
        /// `tag` is a BCP 47 language tag as in `xml:lang`; its `-u-co-` extension selects another of the language's
        /// collations. `case` overrides the language's own case order.
        ///
        /// # Errors
        /// A message: `tag` is not a language tag, or has no collation.
        pub(crate) fn new(tag: &str, case: Option<CaseFirst>) -> Result<Self, String> {
            let mut preferences = CollatorPreferences::from(&locale(tag)?);
            let case = case.map(|case| match case {
                CaseFirst::Upper => CollationCaseFirst::Upper,
                CaseFirst::Lower => CollationCaseFirst::Lower,
            });
            preferences.case_first = case.or(preferences.case_first);
            let mut options = CollatorOptions::default();
            options.strength = Some(Strength::Tertiary);
            icu_collator::Collator::try_new(preferences, options)
                .map(Self)
                .map_err(|error| format!("no collation for lang=`{tag}`: {error}"))
        }

        pub(crate) fn compare(&self, one: &str, other: &str) -> Ordering {
            self.0.compare(one, other)
        }
    }

    /// # Errors
    /// A message: `tag` is not a language tag.
    pub(crate) fn check_tag(tag: &str) -> Result<(), String> {
        locale(tag).map(|_| ())
    }

    fn locale(tag: &str) -> Result<Locale, String> {
        Locale::try_from_str(tag)
            .map_err(|_| format!("`{tag}` is not a language tag (BCP 47), such as `de` or `pt-BR`"))
    }
}

#[cfg(not(feature = "collation"))]
mod icu {
    use super::{CaseFirst, Ordering};

    /// Never constructed: this build has no collation.
    pub(crate) enum Collator {}

    impl Collator {
        /// # Errors
        /// Always.
        pub(crate) fn new(tag: &str, _case: Option<CaseFirst>) -> Result<Self, String> {
            Err(missing(tag))
        }

        pub(crate) fn compare(&self, _one: &str, _other: &str) -> Ordering {
            match *self {}
        }
    }

    /// # Errors
    /// Always.
    pub(crate) fn check_tag(tag: &str) -> Result<(), String> {
        Err(missing(tag))
    }

    fn missing(tag: &str) -> String {
        format!(
            "xsl:sort with lang=`{tag}` requires locale-aware collation, which this build leaves out; \
             build with the cargo feature `collation` (`make release` includes it)"
        )
    }
}

pub(crate) use icu::{Collator, check_tag};

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "collation")]
    #[test]
    fn case_order_overrides_the_language() {
        let compare = |case| Collator::new("en", case).unwrap().compare("a", "A");
        assert_eq!(compare(None), Ordering::Less);
        assert_eq!(compare(Some(CaseFirst::Lower)), Ordering::Less);
        assert_eq!(compare(Some(CaseFirst::Upper)), Ordering::Greater);
        assert!(check_tag("not a tag").is_err());
    }

    #[cfg(not(feature = "collation"))]
    #[test]
    fn without_collation_the_message_names_the_feature() {
        assert!(check_tag("en").unwrap_err().contains("feature `collation`"));
        assert!(Collator::new("en", Some(CaseFirst::Upper)).is_err());
    }
}
