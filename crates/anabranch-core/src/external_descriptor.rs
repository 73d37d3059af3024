//! File descriptors that a driver takes over when it imports what they name.

use crate::context::ContextCore;
use crate::error::{Error, Result, ResultExt};
use anabranch_hal::{Result as DriverResult, Status};
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

/// Calls the driver with a file descriptor, which is the driver's if the call succeeds, and is closed otherwise.
///
/// # Errors
/// What the driver returns, as `explain` has it; `CUDA_ERROR_OPERATING_SYSTEM (304)` if there are too many descriptors.
pub(crate) fn hand_over<R>(
    descriptor: OwnedFd,
    operation: &'static str,
    context: &ContextCore,
    import: impl FnOnce(i32) -> DriverResult<R>,
    explain: impl FnOnce(Error) -> Error,
) -> Result<R> {
    // A driver may take descriptor 0 for none. A copy has a greater number than those of the standard streams.
    let descriptor = match descriptor.as_raw_fd() {
        0 => descriptor.try_clone().map_err(|error| {
            Error::argument(Status::OPERATING_SYSTEM, operation, error.to_string())
                .with_hint("close file descriptors that are not needed")
                .at(context.place())
        })?,
        _ => descriptor,
    };
    let imported = import(descriptor.as_raw_fd()).during(operation, || context.place()).map_err(explain)?;
    // It is the driver's now.
    let _ = descriptor.into_raw_fd();
    Ok(imported)
}
