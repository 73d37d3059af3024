//! Memory that is freed in the order of a stream, until the stream comes to that. No call knows it any more, and kernels that
//! are queued before the free use it.

use crate::ranks;
use anabranch_sync::RwLock;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// Memory whose free is in a stream: addresses and sizes in bytes.
#[derive(Clone, Debug)]
pub(crate) struct Leaving(Arc<RwLock<BTreeMap<u64, u64>>>);

impl Default for Leaving {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(ranks::LEAVING, BTreeMap::new())))
    }
}

impl Leaving {
    /// Notes memory, until what is returned is dropped.
    pub(crate) fn note(&self, address: u64, bytes: u64) -> Noted {
        self.0.write().insert(address, bytes);
        Noted { leaving: self.clone(), address }
    }

    /// The memory that an address is in.
    pub(super) fn range_of(&self, address: u64) -> Option<Range<u64>> {
        let noted = self.0.read();
        let (&begin, &bytes) = noted.range((Bound::Unbounded, Bound::Included(address))).next_back()?;
        (address - begin < bytes).then(|| begin..begin + bytes)
    }
}

/// Memory that is about to be freed. It is forgotten when this is dropped, before the memory is.
#[derive(Debug)]
pub(crate) struct Noted {
    leaving: Leaving,
    address: u64,
}

impl Drop for Noted {
    fn drop(&mut self) {
        self.leaving.0.write().remove(&self.address);
    }
}

#[cfg(test)]
mod tests {
    use super::Leaving;

    #[test]
    fn memory_is_known_until_it_is_forgotten() {
        let leaving = Leaving::default();
        let (first, second) = (leaving.note(1000, 24), leaving.note(2000, 8));
        assert_eq!(leaving.range_of(1023), Some(1000..1024));
        for outside in [0, 999, 1024, 2008, u64::MAX] {
            assert_eq!(leaving.range_of(outside), None);
        }
        drop(first);
        assert_eq!((leaving.range_of(1000), leaving.range_of(2007)), (None, Some(2000..2008)));
        drop(second);
        assert_eq!(leaving.range_of(2000), None);
    }
}
