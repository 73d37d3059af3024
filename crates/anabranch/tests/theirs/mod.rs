//! A tensor of another library, which is made by hand.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

use anabranch::dlpack::{
    DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPackVersion, DLTensor, DlpackElement, ManagedTensor,
};
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A tensor of another library, with the counter of its deleter.
pub(crate) struct Theirs {
    pub(crate) tensor: DLManagedTensorVersioned,
    pub(crate) memory: Vec<u32>,
    pub(crate) shape: Vec<i64>,
    pub(crate) strides: Vec<i64>,
    deleted: Arc<AtomicUsize>,
}

unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the context is the box that the tensor is in.
    let theirs = unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Theirs>()) };
    theirs.deleted.fetch_add(1, Ordering::SeqCst);
}

impl Theirs {
    pub(crate) fn tensor(
        memory: Vec<u32>,
        shape: &[i64],
        change: impl FnOnce(&mut Theirs),
    ) -> (ManagedTensor, Arc<AtomicUsize>) {
        let (raw, deleted) = Self::raw(memory, shape, change);
        // SAFETY: it is the pointer to a tensor that is there until it is deleted.
        (unsafe { ManagedTensor::from_versioned(raw) }.unwrap(), deleted)
    }

    pub(crate) fn raw(
        memory: Vec<u32>,
        shape: &[i64],
        change: impl FnOnce(&mut Theirs),
    ) -> (NonNull<DLManagedTensorVersioned>, Arc<AtomicUsize>) {
        let deleted = Arc::new(AtomicUsize::new(0));
        let mut theirs = Box::new(Theirs {
            tensor: DLManagedTensorVersioned {
                version: DLPackVersion { major: 1, minor: 3 },
                manager_ctx: null_mut(),
                deleter: Some(delete),
                flags: 0,
                dl_tensor: DLTensor {
                    data: null_mut(),
                    device: DLDevice { device_type: DLDeviceType::CPU, device_id: 0 },
                    ndim: i32::try_from(shape.len()).unwrap(),
                    dtype: u32::TYPE,
                    shape: null_mut(),
                    strides: null_mut(),
                    byte_offset: 0,
                },
            },
            memory,
            shape: shape.to_vec(),
            strides: Vec::new(),
            deleted: deleted.clone(),
        });
        let Theirs { tensor, memory, shape, .. } = &mut *theirs;
        tensor.dl_tensor.data = memory.as_mut_ptr().cast();
        tensor.dl_tensor.shape = shape.as_mut_ptr();
        change(&mut theirs);
        if !theirs.strides.is_empty() {
            theirs.tensor.dl_tensor.strides = theirs.strides.as_mut_ptr();
        }
        let theirs = Box::into_raw(theirs);
        // SAFETY: the box was just leaked.
        let tensor = unsafe {
            (*theirs).tensor.manager_ctx = theirs.cast::<c_void>();
            NonNull::new(&raw mut (*theirs).tensor).unwrap()
        };
        (tensor, deleted)
    }
}
