//! The error type of driver calls.

use crate::{GraphInstantiateResult, GraphNodeHandle, GraphUpdateResult, Status};
use std::fmt;

/// The result of a driver call.
pub type Result<T> = std::result::Result<T, Failure>;

/// A status other than success, and any further information from the driver.
///
/// A failure without a detail is cheap to construct. This matters because [`Status::NOT_READY`] is a failure that
/// callers poll for in loops.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// The driver's code. It is never [`Status::SUCCESS`].
    pub status: Status,
    /// Information that the code alone does not convey.
    pub detail: Option<Box<Detail>>,
}

/// Information that a status alone does not convey.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// The installed driver does not have this entry point.
    MissingSymbol {
        /// The name of the entry point.
        symbol: &'static str,
        /// The first CUDA version that has the entry point, as `1000 * major + 10 * minor`.
        since: u32,
    },
    /// The log of an assembler, linker or compiler.
    Log(String),
    /// The message of a panic in a kernel that is a Rust closure, or in a layer.
    Panic(String),
    /// One sentence that names an argument and says what is wrong with it.
    Argument(String),
    /// One sentence that describes the fault of the device.
    Fault(String),
    /// A graph could not be instantiated.
    Instantiate {
        /// The reason.
        result: GraphInstantiateResult,
        /// The node that caused the failure, if it is known.
        node: Option<GraphNodeHandle>,
    },
    /// An executable graph could not be updated.
    Update {
        /// The reason.
        result: GraphUpdateResult,
        /// The node that caused the failure, if it is known. It is a node of the graph that the update came from.
        node: Option<GraphNodeHandle>,
    },
}

impl fmt::Display for Detail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingSymbol { symbol, since } => {
                write!(
                    formatter,
                    "the installed driver has no {symbol}, which came with CUDA {}.{}",
                    since / 1000,
                    since % 1000 / 10
                )
            }
            Self::Instantiate { result, .. } => formatter.write_str(result.reason()),
            Self::Update { result, .. } => formatter.write_str(result.reason()),
            Self::Panic(message) => write!(formatter, "panicked: {message}"),
            Self::Log(text) | Self::Argument(text) | Self::Fault(text) => formatter.write_str(text),
        }
    }
}

impl Failure {
    /// Creates a failure without a detail.
    #[inline]
    pub const fn new(status: Status) -> Self {
        Self { status, detail: None }
    }

    /// Creates a failure with a detail.
    #[cold]
    pub fn with_detail(status: Status, detail: Detail) -> Self {
        Self { status, detail: Some(Box::new(detail)) }
    }

    /// Whether the installed driver does not have the entry point.
    pub fn is_missing_symbol(&self) -> bool {
        matches!(self.detail.as_deref(), Some(Detail::MissingSymbol { .. }))
    }

    /// Creates a failure that is due to an argument. `message` is one sentence that says what is wrong with it.
    #[cold]
    pub fn argument(status: Status, message: impl Into<String>) -> Self {
        Self::with_detail(status, Detail::Argument(message.into()))
    }
}

impl From<Status> for Failure {
    #[inline]
    fn from(status: Status) -> Self {
        Self::new(status)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.status)?;
        match &self.detail {
            Some(detail) => write!(formatter, ": {detail}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
