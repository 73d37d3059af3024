//! Host access to pinned and managed memory for tasks, which must not block.

use super::{ManagedBuffer, PinnedBuffer};
use crate::error::{Error, Result};
use anabranch_core::completion::Completion;
use anabranch_core::host_work;
use anabranch_core::memory::Allocation;
use anabranch_hal::{Access, Status};
use bytemuck::Pod;

/// Completes when the host may access the memory, so that requesting a reference does not block. The caller borrows the
/// memory, so that no conflicting use is added in the meantime.
async fn host_may(memory: &Allocation, access: Access) -> Result<()> {
    if host_work::is_inside() {
        return Err(
            Error::driver("awaiting work that uses memory", Status::NOT_PERMITTED.into()).at(memory.context().place())
        );
    }
    memory.host_access().require_no_graph(access)?;
    for event in memory.history().sync_events(access)? {
        Completion::of_sync_event(event).await?;
    }
    memory.history().forget(access);
    Ok(())
}

macro_rules! asynchronous_access {
    ($buffer:ident, $allocate:ident $(, $more:literal)?) => {
        impl<T: Pod> $buffer<T> {
            /// [`as_slice`](Self::as_slice) for tasks: the future returns the elements, for reading, when the last
            /// queued work that writes them is complete.
            $(#[doc = $more])?
            ///
            /// ```
            /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
            /// # let stream = context.create_stream()?;
            /// # futures::executor::block_on(async {
            #[doc = concat!("let mut result = context.", stringify!($allocate), "::<u8>(4)?;")]
            /// stream.fill(&mut result, 7)?;
            /// assert_eq!(result.as_slice_async().await?, [7; 4]);
            /// # Ok::<(), anabranch::Error>(())
            /// # })?;
            /// # Ok::<(), anabranch::Error>(())
            /// ```
            ///
            /// # Errors
            /// As [`as_slice`](Self::as_slice).
            pub async fn as_slice_async(&self) -> Result<&[T]> {
                host_may(self.allocation(), Access::Read).await?;
                self.as_slice()
            }

            /// [`as_mut_slice`](Self::as_mut_slice) for tasks: the future returns the elements, for writing, when all
            /// queued work that uses them is complete.
            $(#[doc = $more])?
            ///
            /// # Errors
            /// Same as [`as_mut_slice`](Self::as_mut_slice).
            pub async fn as_mut_slice_async(&mut self) -> Result<&mut [T]> {
                host_may(self.allocation(), Access::Write).await?;
                self.as_mut_slice()
            }
        }
    };
}

asynchronous_access!(PinnedBuffer, allocate_pinned);
asynchronous_access!(
    ManagedBuffer,
    allocate_managed,
    "On a device without `Capabilities::CONCURRENT_MANAGED_ACCESS` it blocks then, until all work of the context is complete."
);
