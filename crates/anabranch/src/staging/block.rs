//! A block of staging memory in use.

use super::RawBlock;
use crate::capture::unprohibited;
use crate::completion::Outstanding;
use crate::context::ContextCore;
use crate::error::{Error, Result, ResultExt};
use crate::memory::BlockKind;
use crate::reaper;
use crate::trace;
use anabranch_hal::{PinnedFlags, Status};
use bytemuck::Pod;
use std::sync::Arc;

const FLAGS: PinnedFlags = PinnedFlags::PORTABLE.union(PinnedFlags::DEVICE_MAP);

/// Pinned memory of which the holder is the only user. Dropping it frees it, behind whatever the context still does, which
/// is right at any time; whoever knows that no work uses it any more, or when, gives it back for others.
pub(crate) struct StagingBlock {
    context: Arc<ContextCore>,
    raw: Option<RawBlock>,
}

impl StagingBlock {
    /// A block for at least so many bytes, which are initialised: one that is idle, or a new one.
    pub(crate) fn take(context: &Arc<ContextCore>, bytes: usize) -> Result<Self> {
        let cache = context.staging();
        let capacity = cache.capacity(bytes);
        let raw = match cache.take(capacity) {
            Some(raw) => raw,
            None => match allocate(context, capacity) {
                Ok(raw) => raw,
                Err(error) => cache.take_any(bytes).ok_or(error)?,
            },
        };
        Ok(Self { context: context.clone(), raw: Some(raw) })
    }

    /// The address of `length` elements.
    pub(crate) fn pointer<T: Pod>(&self, length: usize) -> Result<*mut T> {
        let operation = "staging a transfer";
        let fitting =
            self.raw.as_ref().filter(|raw| length.checked_mul(size_of::<T>()).is_some_and(|n| n <= raw.capacity));
        let pointer = fitting.map(|raw| raw.pointer().cast::<T>());
        pointer.filter(|pointer| pointer.is_aligned()).ok_or_else(|| {
            let message = format!("memory for transfers is not aligned to {} bytes", align_of::<T>());
            Error::argument(Status::INVALID_VALUE, operation, message)
                .with_hint("transfer elements of a type that is less aligned")
                .at(self.context.place())
        })
    }

    /// Lets others have the block. No work uses it any more.
    pub(crate) fn give_back(mut self) {
        if let Some(raw) = self.raw.take() {
            self.context.keep_staging(raw);
        }
    }

    /// Lets others have the block when work that may use it is over.
    pub(crate) fn give_back_after(self, work: Outstanding) {
        let work = Arc::new(work);
        reaper::after_work(work.clone(), move || {
            // In a context that is lost something may still be running.
            if work.is_complete() {
                self.give_back();
            }
        });
    }
}

impl Drop for StagingBlock {
    fn drop(&mut self) {
        free(&self.context, self.raw.take());
    }
}

fn allocate(context: &Arc<ContextCore>, capacity: usize) -> Result<RawBlock> {
    let pointer = match context.idle_memory().take(BlockKind::pinned(FLAGS), capacity) {
        Some(address) => address as usize as *mut u8,
        None => {
            trace::span!("allocating staging memory", capacity, device = %context.device());
            // No capture can depend on memory that nobody has yet.
            unprohibited(context.driver(), || {
                // SAFETY: the context's handle is live as long as its core.
                unsafe { context.driver().allocate_pinned(context.handle(), capacity, FLAGS) }
            })
            .during("allocating staging memory", || context.place())
            .map_err(|error| {
                error.with_hint("transfer less at a time, or use a PinnedBuffer of your own again and again")
            })?
        }
    };
    // SAFETY: the memory has that many bytes, and nobody else uses it.
    unsafe { pointer.write_bytes(0, capacity) };
    Ok(RawBlock { address: pointer as usize, capacity })
}

/// Frees blocks behind whatever the context still does, which may use them.
pub(super) fn free(context: &Arc<ContextCore>, blocks: impl IntoIterator<Item = RawBlock>) {
    for block in blocks {
        let shared = context.clone();
        // When the context is idle no work uses the block any more.
        reaper::when_idle(context, move || {
            shared.free_when_idle(BlockKind::pinned(FLAGS), block.capacity, block.address as u64, Vec::new());
        });
    }
}
