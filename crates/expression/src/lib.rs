//! The expression engine.
