//! Descriptors of sets of resources. The driver keeps each as long as the process, so that one is made for each set, and used for
//! all green contexts with that set.

use crate::ffi::cuda_types::{CUdevResourceDesc, CUdevice};
use crate::ranks::RESOURCE_DESCRIPTORS;
use anabranch_hal::{RESOURCE_BYTES, Result};
use anabranch_sync::Mutex;
use std::collections::BTreeMap;

/// Those of this process.
pub(super) static DESCRIPTORS: Descriptors =
    Descriptors(Mutex::new(RESOURCE_DESCRIPTORS, BTreeMap::<Key, Descriptor>::new()));

/// The device, and the resources in ascending order of their bytes.
type Key = (CUdevice, Vec<[u8; RESOURCE_BYTES]>);

#[derive(Clone, Copy)]
struct Descriptor(CUdevResourceDesc);

// SAFETY: a descriptor belongs to no thread, and nothing is done through the pointer here.
unsafe impl Send for Descriptor {}

pub(super) struct Descriptors(Mutex<BTreeMap<Key, Descriptor>>);

impl Descriptors {
    /// The descriptor of a set of resources, which `generate` makes if there is none yet.
    pub(super) fn of(
        &self,
        device: CUdevice,
        mut resources: Vec<[u8; RESOURCE_BYTES]>,
        generate: impl FnOnce() -> Result<CUdevResourceDesc>,
    ) -> Result<CUdevResourceDesc> {
        resources.sort_unstable();
        let key = (device, resources);
        if let Some(known) = self.0.lock().get(&key) {
            return Ok(known.0);
        }
        // With no lock held: another thread may make one at the same time.
        let made = Descriptor(generate()?);
        Ok(self.0.lock().entry(key).or_insert(made).0)
    }
}

#[cfg(test)]
mod tests {
    use super::Descriptors;
    use crate::ranks::RESOURCE_DESCRIPTORS;
    use anabranch_hal::{Failure, RESOURCE_BYTES, Status};
    use anabranch_sync::Mutex;
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::ptr::without_provenance_mut;

    #[test]
    fn one_descriptor_is_made_for_each_set_of_resources() {
        let descriptors = Descriptors(Mutex::new(RESOURCE_DESCRIPTORS, BTreeMap::new()));
        let made = Cell::new(0);
        let of = |device, resources: &[u8]| {
            let resources = resources.iter().map(|&first| [first; RESOURCE_BYTES]).collect();
            let generate = || {
                made.set(made.get() + 1);
                Ok(without_provenance_mut(made.get()))
            };
            descriptors.of(device, resources, generate).unwrap().addr()
        };
        assert_eq!([of(0, &[1]), of(0, &[1]), of(0, &[1, 2]), of(0, &[2, 1]), of(1, &[1])], [1, 1, 2, 2, 3]);
        let refused = descriptors.of(2, Vec::new(), || Err(Failure::new(Status::OUT_OF_MEMORY)));
        assert_eq!(refused.unwrap_err().status, Status::OUT_OF_MEMORY);
        assert_eq!((of(2, &[]), made.get()), (4, 4));
    }
}
