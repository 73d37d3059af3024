//! The error type.

use anabranch_hal::{Absence, Detail, Failure, Status};
use std::fmt;
use std::panic::Location;

/// The result of a call of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The operation that failed, its place, the cause, and the usual remedy.
///
/// Every error has a [`Status`], the code that the hardware returns, or would return, for the same mistake.
pub struct Error {
    inner: Box<Inner>,
}

#[derive(Clone)]
struct Inner {
    operation: &'static str,
    place: Option<String>,
    kind: ErrorKind,
    status: Status,
    message: Option<String>,
    log: Option<String>,
    hint: Option<&'static str>,
    location: Option<&'static Location<'static>>,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The driver refused the call.
    Driver,
    /// Work that was queued earlier failed. This call only reports it.
    Asynchronous,
    /// A closure that was passed to the library panicked. The message is that of the panic.
    Panicked,
    /// The library refused an argument without calling the driver.
    Argument,
    /// A device, a back end, a compiler or a thread is not available.
    Absent,
    /// The installed driver lacks an entry point.
    MissingSymbol,
    /// A compiler or assembler rejected its input. The log contains the reason.
    Compile,
    /// A file could not be read or written.
    Io,
}

impl Error {
    /// An error of a kind, with a status, during an operation.
    #[doc(hidden)]
    #[cold]
    pub fn new(kind: ErrorKind, status: Status, operation: &'static str) -> Self {
        let inner =
            Inner { operation, place: None, kind, status, message: None, log: None, hint: None, location: None };
        Self { inner: Box::new(inner) }
    }

    /// The error for an argument that the library refuses, with the code that the hardware returns for it.
    #[doc(hidden)]
    #[cold]
    pub fn argument(status: Status, operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Argument, status, operation).with_message(message)
    }

    #[doc(hidden)]
    #[cold]
    pub fn absent(operation: &'static str, absence: &Absence) -> Self {
        Self::new(ErrorKind::Absent, Status::NO_DEVICE, operation).with_message(absence.to_string())
    }

    #[doc(hidden)]
    #[cold]
    pub fn io(operation: &'static str, path: &std::path::Path, error: &std::io::Error) -> Self {
        let status = match error.kind() {
            std::io::ErrorKind::NotFound => Status::FILE_NOT_FOUND,
            _ => Status::OPERATING_SYSTEM,
        };
        Self::new(ErrorKind::Io, status, operation).with_message(format!("{}: {error}", path.display()))
    }

    #[doc(hidden)]
    #[cold]
    pub fn driver(operation: &'static str, failure: Failure) -> Self {
        let Failure { status, detail } = failure;
        let mut error = Self::new(kind_of(status, detail.as_deref()), status, operation);
        error.inner.hint = match error.inner.kind {
            // The context is not lost, and nothing has to be started anew.
            ErrorKind::Panicked => Some("the panic was printed where it happened; later work of the stream runs"),
            _ => hint_for(status),
        };
        match detail.map(|detail| *detail) {
            None => error,
            Some(Detail::Log(log)) => {
                let first = log.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned();
                error.inner.log = Some(log);
                if first.is_empty() { error } else { error.with_message(first) }
            }
            Some(detail @ Detail::MissingSymbol { .. }) => {
                error.inner.hint = Some("install a newer driver, or do without this operation");
                error.with_message(detail.to_string())
            }
            Some(detail) => error.with_message(detail.to_string()),
        }
    }

    #[doc(hidden)]
    #[cold]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.inner.place = Some(place.into());
        self
    }

    #[doc(hidden)]
    #[cold]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.inner.message = Some(message.into());
        self
    }

    #[doc(hidden)]
    #[cold]
    pub fn with_hint(mut self, hint: &'static str) -> Self {
        self.inner.hint = Some(hint);
        self
    }

    /// Whether the call was refused, and is known to have changed nothing.
    pub(crate) fn is_without_effect(&self) -> bool {
        match self.inner.kind {
            ErrorKind::Argument | ErrorKind::MissingSymbol => true,
            // A layer that unwinds has the status 999, and may have made the call; a call that was made in part has it, too.
            ErrorKind::Driver => self.inner.status != Status::UNKNOWN && !self.inner.status.is_sticky(),
            _ => false,
        }
    }

    /// For a call whose object does not capture: if it was refused because of a capture, that is another stream's.
    #[doc(hidden)]
    #[cold]
    pub fn of_another_capture(self) -> Self {
        if self.inner.status != Status::STREAM_CAPTURE_UNSUPPORTED || self.inner.kind != ErrorKind::Driver {
            return self;
        }
        self.with_message("another stream captures, in a mode that prohibits this call on this thread").with_hint(
            "capture in CaptureMode::ThreadLocal or CaptureMode::Relaxed there, or make this call while \
                 Context::exchange_capture_mode(CaptureMode::Relaxed) holds on this thread",
        )
    }

    /// For a wait for an event, or a question about it, with arguments that are valid: another one recorded it in a capture.
    #[doc(hidden)]
    #[cold]
    pub fn of_an_ended_capture(self) -> Self {
        if self.inner.status != Status::INVALID_VALUE || self.inner.kind != ErrorKind::Driver {
            return self;
        }
        self.with_message("the event was last recorded in a capture, which has ended or was invalidated")
            .with_hint("record it again, outside of a capture; work that was captured runs when its graph is launched")
    }

    /// Adds the source location where the program requested the operation.
    #[doc(hidden)]
    #[cold]
    pub fn called_at(mut self, location: &'static Location<'static>) -> Self {
        self.inner.location = Some(location);
        self
    }

    /// The source location where the program requested the operation, if known.
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.inner.location
    }

    /// The operation, such as `launching a kernel`.
    pub fn operation(&self) -> &'static str {
        self.inner.operation
    }

    /// The place, such as `stream 7 of host:0`.
    pub fn place(&self) -> Option<&str> {
        self.inner.place.as_deref()
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The driver's code, or the code that it returns for the same mistake.
    pub fn status(&self) -> Status {
        self.inner.status
    }

    /// Details beyond the meaning of the code.
    pub fn message(&self) -> Option<&str> {
        self.inner.message.as_deref()
    }

    /// The complete log of a compiler or assembler.
    pub fn log(&self) -> Option<&str> {
        self.inner.log.as_deref()
    }

    /// The usual remedy.
    pub fn hint(&self) -> Option<&str> {
        self.inner.hint
    }

    /// Whether work that was queued earlier failed, instead of this call.
    pub fn is_asynchronous(&self) -> bool {
        matches!(self.inner.kind, ErrorKind::Asynchronous | ErrorKind::Panicked)
    }

    /// Whether the context is lost: every later call on it returns this error.
    pub fn is_sticky(&self) -> bool {
        self.inner.kind == ErrorKind::Asynchronous && self.inner.status.is_sticky()
    }
}

fn kind_of(status: Status, detail: Option<&Detail>) -> ErrorKind {
    match detail {
        Some(Detail::MissingSymbol { .. }) => ErrorKind::MissingSymbol,
        Some(Detail::Panic(_)) => ErrorKind::Panicked,
        Some(Detail::Log(_)) => ErrorKind::Compile,
        _ if status.is_sticky() => ErrorKind::Asynchronous,
        _ => ErrorKind::Driver,
    }
}

fn hint_for(status: Status) -> Option<&'static str> {
    Some(match status {
        Status::OUT_OF_MEMORY => {
            "free buffers, synchronize the streams that they were used in, trim the memory pool, or allocate less"
        }
        Status::HOST_MEMORY_ALREADY_REGISTERED => "end the earlier registration first, or share its buffer",
        Status::INVALID_IMAGE => "pass PTX text, or a whole cubin or fatbin made by NVIDIA's tools",
        Status::NO_BINARY_FOR_GPU => "ship PTX, or a binary for this device's architecture",
        Status::UNSUPPORTED_PTX_VERSION => "install a newer driver, or make the PTX with an older compiler",
        Status::NOT_PERMITTED => "do not call the library inside of a host function; signal another thread instead",
        Status::INVALID_CLUSTER_SIZE => "use at most 8 blocks a cluster, or allow non-portable cluster sizes",
        Status::COOPERATIVE_LAUNCH_TOO_LARGE => "launch no more blocks than fit on the device at once",
        Status::LAUNCH_OUT_OF_RESOURCES => "use fewer threads a block, or less shared memory",
        Status::STREAM_CAPTURE_UNSUPPORTED => {
            "make this call before the capture begins or after it has ended; see Stream::capture for what can be captured"
        }
        Status::STREAM_CAPTURE_INVALIDATED => "an earlier call has invalidated the capture; end it, and capture again",
        Status::STREAM_CAPTURE_MERGE => "two captures cannot be joined; capture both parts in one",
        Status::STREAM_CAPTURE_UNMATCHED => "end the capture on the stream that it began on",
        Status::STREAM_CAPTURE_UNJOINED => {
            "before the capture ends, let its origin stream wait for every stream that has joined the capture, and again if memory that \
             was allocated in that stream is dropped later"
        }
        Status::STREAM_CAPTURE_ISOLATION => {
            "wait for it before the capture begins, or with EventWaitFlags::EXTERNAL at every launch"
        }
        Status::STREAM_CAPTURE_IMPLICIT => {
            "use a non-blocking stream, or leave the legacy default stream alone while a blocking stream captures"
        }
        Status::CAPTURED_EVENT => "an event recorded in a capture has no state of its own; launch the graph first",
        Status::STREAM_CAPTURE_WRONG_THREAD => "end a capture on its own thread, or capture in the relaxed mode",
        Status::INVALID_HANDLE => "use objects of one context, and none that was destroyed through its raw handle",
        Status::ILLEGAL_STATE => {
            "bring the object into the state that the call needs first, such as a stream that captures"
        }
        Status::GRAPH_EXEC_UPDATE_FAILURE => "instantiate the new graph instead",
        Status::LOSSY_QUERY => "ask for the data of the edges too",
        Status::PEER_ACCESS_NOT_ENABLED => "call Context::enable_peer_access first",
        Status::SYSTEM_DRIVER_MISMATCH => "reboot after a driver update, or reinstall the driver",
        status if status.is_sticky() => {
            "an earlier kernel failed and the context is lost; on CUDA the process has to be restarted"
        }
        _ => return None,
    })
}

impl Clone for Error {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { operation, place, kind, status, message, hint, .. } = &*self.inner;
        formatter.write_str(operation)?;
        if let Some(place) = place {
            write!(formatter, " on {place}")?;
        }
        match kind {
            ErrorKind::Asynchronous => formatter.write_str(": work queued earlier failed")?,
            ErrorKind::Panicked => formatter.write_str(": a closure queued earlier")?,
            _ => {}
        }
        let describes =
            matches!(kind, ErrorKind::Asynchronous | ErrorKind::Driver | ErrorKind::MissingSymbol | ErrorKind::Compile);
        if let Some(description) = status.description().filter(|_| describes) {
            write!(formatter, ": {description}")?;
        }
        if let Some(message) = message {
            let separator = if *kind == ErrorKind::Panicked { " " } else { ": " };
            write!(formatter, "{separator}{message}")?;
        }
        match status.name() {
            Some(name) => write!(formatter, " [{name} ({})]", status.0)?,
            None => write!(formatter, " [code {} of the driver, which this version does not know]", status.0)?,
        }
        if let Some(hint) = hint {
            write!(formatter, "; {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, log, location, .. } = &*self.inner;
        write!(formatter, "{self} [{kind:?}]")?;
        if let Some(location) = location {
            write!(formatter, " at {location}")?;
        }
        match log {
            Some(log) => write!(formatter, "\n{log}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Joins names as in a sentence: `a, b and c`.
#[doc(hidden)]
pub fn list(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// Adds the operation and the place of a driver's call that failed.
#[doc(hidden)]
pub trait ResultExt<T> {
    fn during(self, operation: &'static str, place: impl FnOnce() -> String) -> Result<T>;
}

impl<T> ResultExt<T> for anabranch_hal::Result<T> {
    #[inline(always)]
    fn during(self, operation: &'static str, place: impl FnOnce() -> String) -> Result<T> {
        match self {
            Ok(value) => Ok(value),
            Err(failure) => Err(failed(operation, failure, place)),
        }
    }
}

#[cold]
#[inline(never)]
fn failed(operation: &'static str, failure: Failure, place: impl FnOnce() -> String) -> Error {
    Error::driver(operation, failure).at(place())
}
