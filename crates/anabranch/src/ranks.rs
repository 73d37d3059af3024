//! The locks of this crate, in the order in which a thread may take them. All have lower ranks than those of the core.

use anabranch_sync::ranks;

ranks! { from 10;
    /// The drivers that all instances share, while one is loaded.
    DRIVERS,
    /// The memory of the host that tensors were imported with, while a driver is told of more.
    IMPORTED_MEMORY,
    /// The streams entered in a scope. No other lock is taken while it is held.
    ENTERED_STREAMS,
    /// The staging memory of a scope's uploads. No other lock is taken while it is held.
    WRITTEN_BLOCKS,
    /// The operations of a pool's stream. No other lock is taken while it is held.
    POOL_PENDING,
    /// A value between two steps of an operation. No other lock is taken while it is held.
    OPERATION_VALUE,
}
