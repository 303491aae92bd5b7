//! The xml engine.
