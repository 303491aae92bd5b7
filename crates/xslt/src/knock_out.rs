//! Disables single features of the recommendations in tests: see `xpath::knock_out`.
//!
//! Architecture invariant: a release build contains none of this.

#[cfg(feature = "knock-out")]
pub(crate) use xpath::knock_out::is_out;

/// Whether a feature, whose name is given in parts, is disabled.
#[cfg(not(feature = "knock-out"))]
#[inline(always)]
pub(crate) const fn is_out(_: &[&str]) -> bool {
    false
}

/// The names of all elements, attributes and functions, which the inventory must list.
#[cfg(feature = "knock-out")]
pub fn recognised() -> Vec<String> {
    let mut all = crate::compile::element_features();
    all.extend(crate::functions::names().map(|(namespace, name)| {
        let module = namespace.rsplit_once(['/', ':']);
        let (module, colon) = module.map_or(("", ""), |(_, module)| (module, ":"));
        format!("function {module}{colon}{name}")
    }));
    all
}
