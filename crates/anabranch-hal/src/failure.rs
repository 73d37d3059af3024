//! What a driver's call returns when it does not succeed.

use crate::{GraphInstantiateResult, GraphNodeHandle, GraphUpdateResult, Status};
use std::fmt;

/// The result of a driver's call.
pub type Result<T> = std::result::Result<T, Failure>;

/// A status that is not success, with what else the driver can say of it.
///
/// It is cheap to make without a detail, because "not ready" is one, and is asked for in loops.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    /// The driver's code. Never [`Status::SUCCESS`].
    pub status: Status,
    /// What the code alone does not say.
    pub detail: Option<Box<Detail>>,
}

/// What a status alone does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// The installed driver has no such entry point.
    MissingSymbol {
        /// The entry point's name.
        symbol: &'static str,
        /// The first driver that has it, as `1000 * major + 10 * minor`.
        since: u32,
    },
    /// The log of an assembler, linker or compiler.
    Log(String),
    /// The message of a panic in a closure that was given to the driver.
    Panic(String),
    /// One sentence on what is wrong with which argument.
    Argument(String),
    /// One sentence on how the device came to be in error.
    Fault(String),
    /// Why a graph could not be made ready.
    Instantiate {
        /// The reason.
        result: GraphInstantiateResult,
        /// The node that it is about, where there is one.
        node: Option<GraphNodeHandle>,
    },
    /// Why an executable graph could not be updated.
    Update {
        /// The reason.
        result: GraphUpdateResult,
        /// The node, of the graph that the update came from, that it is about, where there is one.
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
    /// A failure with no more to say than its code.
    #[inline]
    pub const fn new(status: Status) -> Self {
        Self { status, detail: None }
    }

    /// A failure with a detail.
    #[cold]
    pub fn with_detail(status: Status, detail: Detail) -> Self {
        Self { status, detail: Some(Box::new(detail)) }
    }

    /// A failure caused by an argument, with one sentence on what is wrong with it.
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
