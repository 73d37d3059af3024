//! Whether somebody submits work that uses a piece of memory.

use crate::ranks;
use anabranch_hal::ObjectId;
use anabranch_sync::RwLock;

/// How many calls let other libraries submit work that uses a piece of memory.
#[derive(Default)]
pub(crate) struct ForeignUses {
    pub(crate) reading: usize,
    pub(crate) writing: usize,
}

/// Who submits work that uses a piece of memory, once graphs retain the memory. [`crate::exclusion`] takes the lock.
pub(crate) struct Exclusion(pub(crate) RwLock<ForeignUses>);

impl Exclusion {
    /// Nobody does. `id`: that of the memory.
    pub(super) fn new(id: ObjectId) -> Self {
        Self(RwLock::with_order(ranks::RETAINED_MEMORY, id.get(), ForeignUses::default()))
    }
}
