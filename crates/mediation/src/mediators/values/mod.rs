//! Readers of attributes and of parts of messages that several mediators share.

pub(crate) mod inline;
pub(crate) mod items;
pub(crate) mod pattern;
pub(crate) mod text;
