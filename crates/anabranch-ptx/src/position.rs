//! Places in the text, and errors that name them.

/// A line and a column of PTX text, both counted from 1. Columns count bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The column, in bytes.
    pub column: u32,
}

/// Text that is no PTX, or that exceeds a limit of this crate.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {}, column {}: {message}", position.line, position.column)]
pub struct ParseError {
    /// Where.
    pub position: Position,
    /// What is wrong, and where it helps what was expected.
    pub message: String,
}

impl ParseError {
    pub(crate) fn new(position: Position, message: impl Into<String>) -> ParseError {
        ParseError { position, message: message.into() }
    }
}

/// A result whose error names a place in the text.
pub(crate) type Parsed<T> = Result<T, ParseError>;
