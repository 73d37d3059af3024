//! Memory: device memory, pinned memory and managed memory; copies and fills in stream order.

mod batch;
mod buffer;
mod copy;
mod copy_3d;
mod external;
mod fill;
mod foreign;
mod host_async;
mod interprocess;
mod managed;
mod managed_batch;
mod on_host;
mod owned_buffer;
mod pinned;
mod plain_copy;
mod pool;
mod registered;
mod scope;
mod slice;
mod staged;
mod virtual_memory;

pub use batch::{BatchCopy, BatchRegion, CopyHints};
pub use buffer::Buffer;
pub use copy_3d::{Region, Volume, VolumeMut};
pub use external::ExternalMemory;
pub use fill::FillElement;
pub use interprocess::ImportedMemoryPool;
pub use managed::ManagedBuffer;
pub use managed_batch::{Discard, Prefetch};
pub use owned_buffer::{OwnedBuffer, Reads};
pub use pinned::PinnedBuffer;
pub use pool::MemoryPool;
pub use scope::{ScopedStream, StreamScope};
pub use slice::{BufferSlice, BufferSliceMut};
pub use virtual_memory::{AddressRange, PhysicalMemory};

pub(crate) use buffer::zeroed_vector;
pub(crate) use copy::require_equal_lengths;
pub(crate) use copy_3d::{region_copy, region_from_host, region_to_host};
#[cfg(feature = "dlpack")]
pub(crate) use foreign::check as check_foreign;
pub(crate) use on_host::{copy as copy_on_host, copy_from as copy_from_on_host};
pub(crate) use plain_copy::PlainCopy;
pub(crate) use scope::uncaptured;
