//! Why a sheet is refused, and why a run of one fails.

use std::fmt;

/// Where something stands in a sheet: line and column count from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u32,
    pub(crate) column: u32,
    pub(crate) uri: String,
}

impl Place {
    pub(crate) fn refuse(self, message: impl Into<String>) -> CompileError {
        let Self { line, column, uri } = self;
        CompileError { line, column, uri, message: message.into() }
    }
}

/// The sheet was refused. `uri` names the sheet as its resolver did; it is empty for the main one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct CompileError {
    pub line: u32,
    pub column: u32,
    pub uri: String,
    pub message: String,
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.uri, self.line, self.column)?;
        f.write_str(&self.message)
    }
}

/// The transformation has no result. The place is that of the instruction in the sheet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct TransformError {
    pub line: u32,
    pub column: u32,
    pub uri: String,
    pub message: String,
}

impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_place(f, &self.uri, self.line, self.column)?;
        f.write_str(&self.message)
    }
}

fn write_place(f: &mut fmt::Formatter<'_>, uri: &str, line: u32, column: u32) -> fmt::Result {
    if !uri.is_empty() {
        write!(f, "{uri}: ")?;
    }
    write!(f, "line {line}, column {column}: ")
}
