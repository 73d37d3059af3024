//! Memory that an operation owns.

use super::{Buffer, BufferSlice, BufferSliceMut, ManagedBuffer, PinnedBuffer};
use bytemuck::Pod;

mod sealed {
    pub trait Sealed {}
}

/// Any kind of buffer, for operations that own their buffers until they are complete: a [`Buffer`], a [`PinnedBuffer`]
/// or a [`ManagedBuffer`].
pub trait OwnedBuffer: sealed::Sealed {
    /// The type of the elements.
    type Element: Pod;

    /// The whole buffer, for work that reads.
    fn whole(&self) -> BufferSlice<'_, Self::Element>;

    /// The whole buffer, for work that writes.
    fn whole_mut(&mut self) -> BufferSliceMut<'_, Self::Element>;
}

macro_rules! owned_buffers {
    ($($buffer:ident)*) => { $(
        impl<T: Pod> sealed::Sealed for $buffer<T> {}

        impl<T: Pod> OwnedBuffer for $buffer<T> {
            type Element = T;

            fn whole(&self) -> BufferSlice<'_, T> {
                self.into()
            }

            fn whole_mut(&mut self) -> BufferSliceMut<'_, T> {
                self.into()
            }
        }
    )* };
}

owned_buffers! { Buffer PinnedBuffer ManagedBuffer }

/// A buffer passed to a kernel by value that the kernel only reads, so that launches in other streams may read it at
/// the same time. Without this, a buffer by value is memory that the kernel writes.
#[derive(Debug)]
pub struct Reads<B>(pub B);
