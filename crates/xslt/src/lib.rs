//! The xslt engine.
