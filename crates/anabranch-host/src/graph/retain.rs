//! What graphs keep alive.

use crate::error::drop_quietly;
use anabranch_hal::Retained;
use parking_lot::Mutex;

/// Objects that a graph, its copies, and the executable graphs made from them keep together.
#[derive(Debug, Default)]
pub(crate) struct Retention {
    objects: Mutex<Vec<Retained>>,
}

impl Retention {
    pub(super) fn add(&self, object: Retained) {
        self.objects.lock().push(object);
    }
}

impl Drop for Retention {
    fn drop(&mut self) {
        // Each by itself, so that the others go all the same when one panics.
        std::mem::take(self.objects.get_mut()).into_iter().for_each(drop_quietly);
    }
}
