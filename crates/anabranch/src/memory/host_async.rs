//! Host access to pinned and managed memory for tasks, which must not wait as threads do.

use super::{Allocation, ManagedBuffer, PinnedBuffer};
use crate::completion::Completion;
use crate::error::{Error, Result};
use crate::host_work;
use anabranch_hal::{Access, Status};
use bytemuck::Pod;

impl Allocation {
    /// Is ready when the host may use the memory as `access` says, and asking for a reference does not wait any more. The
    /// caller borrows the memory so that no conflicting use is added meanwhile.
    async fn host_may(&self, access: Access) -> Result<()> {
        if host_work::is_inside() {
            return Err(Error::driver("awaiting work that uses memory", Status::NOT_PERMITTED.into())
                .at(self.context().place()));
        }
        self.host_access().require_no_graph(access)?;
        for checkpoint in self.uses().checkpoints(access)? {
            Completion::of_checkpoint(checkpoint).await?;
        }
        self.uses().forget(access);
        Ok(())
    }
}

macro_rules! asynchronous_access {
    ($buffer:ident, $allocate:ident $(, $more:literal)?) => {
        impl<T: Pod> $buffer<T> {
            /// [`as_slice`](Self::as_slice) for tasks: the future gives the elements, to read, when the last queued work
            /// that writes them is complete.
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
                self.allocation().host_may(Access::Read).await?;
                self.as_slice()
            }

            /// [`as_mut_slice`](Self::as_mut_slice) for tasks: the future gives the elements, to write, when all queued work
            /// that uses them is complete.
            $(#[doc = $more])?
            ///
            /// # Errors
            /// As [`as_mut_slice`](Self::as_mut_slice).
            pub async fn as_mut_slice_async(&mut self) -> Result<&mut [T]> {
                self.allocation().host_may(Access::Write).await?;
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
