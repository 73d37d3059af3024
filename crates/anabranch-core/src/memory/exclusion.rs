//! Whether somebody submits work that uses a piece of memory.

use crate::ranks;
use anabranch_hal::ObjectId;
use anabranch_sync::RwLock;

/// Who submits work that uses a piece of memory, once graphs retain the memory. [`crate::exclusion`] takes the lock.
pub(crate) struct Exclusion(pub(crate) RwLock<()>);

impl Exclusion {
    /// Nobody does. `id`: that of the memory.
    pub(super) fn new(id: ObjectId) -> Self {
        Self(RwLock::with_order(ranks::RETAINED_MEMORY, id.get(), ()))
    }
}
