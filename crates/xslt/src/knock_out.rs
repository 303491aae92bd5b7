//! Taking one feature of the recommendations out: see `xpath::knock_out`.
//!
//! Architecture invariant: as there, a release has nothing of this in it.

#[cfg(feature = "knock-out")]
pub(crate) use xpath::knock_out::is_out;

/// Whether the feature of that name, which is given in parts, was taken out.
#[cfg(not(feature = "knock-out"))]
#[inline(always)]
pub(crate) const fn is_out(_: &[&str]) -> bool {
    false
}

/// The names of all elements with their attributes, and of all functions: what the inventory has to have.
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
