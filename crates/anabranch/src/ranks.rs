//! The locks of this crate, in the order in which a thread may take them. All come before those of the core.

use anabranch_sync::ranks;

ranks! { from 10;
    /// The drivers that all instances share, while one is loaded.
    DRIVERS,
    /// The streams entered in a scope. Nothing is locked meanwhile.
    ENTERED_STREAMS,
}
