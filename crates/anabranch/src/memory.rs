//! Memory: on the device, pinned on the host, and managed by both; copies and fills in stream order.

mod allocation;
mod buffer;
mod copy;
mod copy_3d;
mod exclusion;
mod fill;
mod host_access;
mod host_async;
mod idle;
mod managed;
mod pinned;
mod pool;
mod scope;
mod slice;
mod staged;

pub use buffer::Buffer;
pub use copy_3d::{Region, Volume, VolumeMut};
pub use fill::FillElement;
pub use managed::ManagedBuffer;
pub use pinned::PinnedBuffer;
pub use pool::MemoryPool;
pub use scope::{ScopedStream, StreamScope};
pub use slice::{BufferSlice, BufferSliceMut};

pub(crate) use allocation::{Allocation, byte_size};
pub(crate) use copy::{check_both, require_equal_lengths, stamp_both};
pub(crate) use copy_3d::region_copy;
pub(crate) use exclusion::{Exclusion, Sharing};
pub(crate) use idle::{BlockKind, IdleMemory};
