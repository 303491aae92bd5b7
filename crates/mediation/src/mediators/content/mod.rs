//! Mediators that change or check the message itself: its payload, properties, header fields and addresses.

#[cfg(not(all(feature = "script", feature = "validate")))]
pub(crate) mod absent;
pub(crate) mod condition;
pub(crate) mod datamapper;
pub(crate) mod enrich;
pub(crate) mod header;
pub(crate) mod json_target;
#[cfg(feature = "validate")]
pub(crate) mod json_transform;
pub(crate) mod keyed;
pub(crate) mod log;
pub(crate) mod make_fault;
pub(crate) mod payload_factory;
pub(crate) mod piece;
pub(crate) mod property;
pub(crate) mod rewrite;
#[cfg(feature = "script")]
pub(crate) mod script;
#[cfg(feature = "validate")]
pub(crate) mod validate;
pub(crate) mod xslt;
