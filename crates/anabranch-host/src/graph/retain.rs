//! What graphs keep alive.

use crate::error::panic_message;
use anabranch_hal::Retained;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
        // They are the caller's, and may panic. There is nobody to tell, and the others go all the same.
        for object in std::mem::take(self.objects.get_mut()) {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(object))) {
                panic_message(payload);
            }
        }
    }
}
