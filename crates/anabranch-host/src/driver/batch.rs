//! Copies with attributes, alone and in batches.

use super::{Shared, copy};
use crate::capture::Target;
use crate::engine::{Position, Role, StreamState, WaitStrategy, work};
use crate::memory::VolumeCopy;
use anabranch_hal::{
    AttributedCopy, AttributedCopy3d, CopyAttributes, CopyFlags, CopySourceOrder, Failure, MemoryLocation, Result,
    Status,
};
use std::sync::Arc;

/// The stream that a batch is enqueued in.
pub(super) fn queue<'a>(shared: &'a Shared, stream: &'a Arc<StreamState>) -> Result<&'a Arc<StreamState>> {
    if stream.role == Role::Legacy {
        return Err(Failure::argument(
            Status::INVALID_VALUE,
            "the legacy default stream takes no batches and no copies with attributes",
        ));
    }
    match shared.captures.target(stream)? {
        Target::Queue(stream) => Ok(stream),
        // Hardware leaves the capture valid.
        Target::Capture(_) => Err(Failure::new(Status::STREAM_CAPTURE_UNSUPPORTED)),
    }
}

/// Names the copy of a batch that is wrong.
fn numbered<T>(checked: impl Iterator<Item = Result<T>>) -> Result<Vec<T>> {
    let name = |(index, result): (usize, Result<T>)| {
        result.map_err(|failure| match failure.detail {
            None => Failure::argument(failure.status, format!("copy {index} of the batch is invalid")),
            Some(_) => failure,
        })
    };
    let checked: Vec<T> = checked.enumerate().map(name).collect::<Result<_>>()?;
    if checked.is_empty() {
        return Err(Failure::argument(Status::INVALID_VALUE, "the batch has no copies"));
    }
    Ok(checked)
}

/// Hints change nothing, but must be possible.
fn check(shared: &Shared, attributes: &CopyAttributes) -> Result<()> {
    for hint in [attributes.source_hint, attributes.destination_hint].into_iter().flatten() {
        if let MemoryLocation::Device(device) = hint {
            shared.memory.device(device.0)?;
        }
    }
    if CopyFlags::all().contains(attributes.flags) { Ok(()) } else { Err(Failure::new(Status::INVALID_VALUE)) }
}

/// Enqueues copies in the order given, unless one of them is invalid.
///
/// # Safety
/// As for `Memory::copy_batch_async`.
pub(super) unsafe fn copy_all(shared: &Shared, stream: &Arc<StreamState>, copies: &[AttributedCopy]) -> Result<()> {
    let stream = queue(shared, stream)?;
    let manners = numbered(copies.iter().map(|one| {
        check(shared, &one.attributes)?;
        copy::attributed(&shared.memory.table, one)
    }))?;
    for (one, manner) in copies.iter().zip(manners) {
        // SAFETY: the caller keeps the destination valid until the copy has run, and the source until then or for this call.
        unsafe { copy::attributed_copy(shared, stream, manner, one) }?;
    }
    Ok(())
}

/// Enqueues copies of regions in the order given, unless one of them is invalid.
///
/// # Safety
/// As for `Memory::copy_3d_batch_async`.
pub(super) unsafe fn copy_all_regions(
    shared: &Shared,
    stream: &Arc<StreamState>,
    copies: &[AttributedCopy3d],
) -> Result<()> {
    let stream = queue(shared, stream)?;
    let checked = numbered(copies.iter().map(|one| {
        check(shared, &one.attributes)?;
        if one.copy.extent.contains(&0) {
            return Err(Failure::new(Status::INVALID_VALUE));
        }
        VolumeCopy::new(&shared.memory.table, &one.copy)
    }))?;
    let (mut last, mut wait) = (0, false);
    for (one, checked) in copies.iter().zip(checked) {
        last = stream.enqueue(work(checked));
        wait |= one.attributes.source_order == CopySourceOrder::DuringCall;
    }
    if wait {
        shared.engine.wait(&Position { stream: Arc::clone(stream), sequence: last }, WaitStrategy::Auto);
        stream.core.check()?;
    }
    Ok(())
}
