//! File descriptors that a driver imports something by, and takes over or not.

use crate::context::ContextCore;
use crate::error::{Error, Result, ResultExt};
use anabranch_hal::{Result as DriverResult, Status};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;

/// Calls the driver with a copy of a file descriptor, which is the driver's if the call succeeds. Some drivers close it where they
/// refuse it, and others do not.
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
    let file = File::from(descriptor);
    let copy = copy_of(&file, operation, context)?;
    // Before the call: afterwards the number may be that of another file.
    let identity = identity_of(&file);
    import(copy).during(operation, || context.place()).map_err(|error| {
        close_if_open(copy, identity);
        explain(error)
    })
}

/// Calls the driver with a copy of a file descriptor, which does not become the driver's. Some drivers close it all the same where
/// they refuse it.
///
/// # Errors
/// What the driver returns; `CUDA_ERROR_OPERATING_SYSTEM (304)` if there are too many descriptors.
pub(crate) fn lend<R>(
    descriptor: BorrowedFd<'_>,
    operation: &'static str,
    context: &ContextCore,
    import: impl FnOnce(i32) -> DriverResult<R>,
) -> Result<R> {
    let file = File::from(descriptor.try_clone_to_owned().map_err(|error| refuse(&error, operation, context))?);
    let copy = copy_of(&file, operation, context)?;
    let identity = identity_of(&file);
    let imported = import(copy);
    close_if_open(copy, identity);
    imported.during(operation, || context.place())
}

/// A copy, which nobody closes. A driver may take descriptor 0 for none: a copy has a greater number than those of the standard
/// streams.
fn copy_of(file: &File, operation: &'static str, context: &ContextCore) -> Result<RawFd> {
    let copy = file.try_clone().map_err(|error| refuse(&error, operation, context))?;
    Ok(OwnedFd::from(copy).into_raw_fd())
}

#[cold]
fn refuse(error: &std::io::Error, operation: &'static str, context: &ContextCore) -> Error {
    Error::argument(Status::OPERATING_SYSTEM, operation, error.to_string())
        .with_hint("close file descriptors that are not needed")
        .at(context.place())
}

/// The device and the number of a file.
fn identity_of(file: &File) -> Option<(u64, u64)> {
    file.metadata().map(|data| (data.dev(), data.ino())).ok()
}

/// Closes a descriptor if it still names a file of that identity. Otherwise the driver has closed it, and another thread may have
/// opened another file by that number since.
fn close_if_open(descriptor: RawFd, identity: Option<(u64, u64)>) {
    // SAFETY: it is closed only if it is open and names what this crate has opened by that number.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    if identity.is_some() && identity_of(&file) == identity {
        drop(ManuallyDrop::into_inner(file));
    }
}
