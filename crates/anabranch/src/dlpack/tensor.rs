//! A tensor that is passed between libraries.

use super::abi::{DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor, READ_ONLY};
use crate::error::{Error, Result};
use anabranch_core::access::LastUse;
use anabranch_hal::Status;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// A tensor with its owner, which is this library or another one. Dropping it calls the deleter of the owner.
pub struct ManagedTensor {
    raw: Raw,
    /// Work of this library that uses the memory. Whoever takes the pointer knows of the stream that the tensor was exported for.
    /// Who makes a buffer of it need not.
    pending: SmallVec<[LastUse; 3]>,
}

#[derive(Clone, Copy)]
enum Raw {
    Versioned(NonNull<DLManagedTensorVersioned>),
    Unversioned(NonNull<DLManagedTensor>),
}

// SAFETY: whoever made it promised that the deleter can be called on any thread, and nothing else is done with the tensor but
// reading what does not change.
unsafe impl Send for ManagedTensor {}
// SAFETY: through a shared reference, it is only read, and nobody changes it.
unsafe impl Sync for ManagedTensor {}

impl ManagedTensor {
    /// Takes a tensor of another library. In Python, it is in a capsule named `dltensor_versioned`; rename the capsule to
    /// `used_dltensor_versioned`.
    ///
    /// # Safety
    /// * The pointer is that of a tensor as DLPack describes it, and nobody else uses the structure or calls its deleter. The deleter
    ///   can be called on any thread.
    /// * The elements are initialised, and stay allocated until the deleter is called.
    /// * Until then, others use the elements only in work that is complete, or that precedes what is in the stream which
    ///   [`into_buffer`](Self::into_buffer) receives. If the tensor is read-only, others may read them.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) for another major version than 1. The deleter
    /// is called then.
    pub unsafe fn from_versioned(tensor: NonNull<DLManagedTensorVersioned>) -> Result<Self> {
        let owned = Self { raw: Raw::Versioned(tensor), pending: SmallVec::new() };
        // SAFETY: the caller promises that the structure is there, which begins with the version in every version.
        let version = unsafe { (&raw const (*tensor.as_ptr()).version).read() };
        if version.major == DLPackVersion::WRITTEN.major {
            return Ok(owned);
        }
        let DLPackVersion { major, minor } = version;
        let message = format!("the tensor is of DLPack {major}.{minor}, and only 1.x is supported");
        Err(Error::argument(Status::NOT_SUPPORTED, "importing a tensor", message)
            .with_hint("ask the other library for a tensor of version 1, such as by __dlpack__(max_version=(1, 0))"))
    }

    /// Takes a tensor of another library that has no version. In Python, it is in a capsule named `dltensor`; rename the capsule to
    /// `used_dltensor`.
    ///
    /// # Safety
    /// Same as for [`from_versioned`](Self::from_versioned).
    pub unsafe fn from_unversioned(tensor: NonNull<DLManagedTensor>) -> Self {
        Self { raw: Raw::Unversioned(tensor), pending: SmallVec::new() }
    }

    /// A tensor of this library, whose memory that work uses.
    ///
    /// # Safety
    /// Same as for [`from_versioned`](Self::from_versioned), and it is of version 1. Others use the elements only in that work, or in
    /// work that is complete.
    pub(super) unsafe fn of_versioned(
        tensor: NonNull<DLManagedTensorVersioned>,
        pending: SmallVec<[LastUse; 3]>,
    ) -> Self {
        Self { raw: Raw::Versioned(tensor), pending }
    }

    /// The work of this library that uses the memory.
    pub(super) fn take_pending(&mut self) -> SmallVec<[LastUse; 3]> {
        std::mem::take(&mut self.pending)
    }

    /// The structure, whose deleter is not called.
    fn into_raw(mut self) -> Raw {
        self.take_pending();
        ManuallyDrop::new(self).raw
    }

    /// The pointer that another library takes over. Until it calls the deleter, the memory is its own, and is not freed. It honours
    /// [`READ_ONLY`].
    ///
    /// It calls the deleter when its work that uses the memory is complete, or is in the stream that the tensor was
    /// [exported](Self::export) for; not if that is the default stream of a thread.
    pub fn into_versioned(self) -> NonNull<DLManagedTensorVersioned> {
        if let Raw::Versioned(tensor) = self.raw {
            self.into_raw();
            return tensor;
        }
        let (dl_tensor, flags) = (*self.tensor(), self.flags());
        let tensor = Box::new(DLManagedTensorVersioned {
            version: DLPackVersion::WRITTEN,
            manager_ctx: Box::into_raw(Box::new(self)).cast(),
            deleter: Some(delete_versioned),
            flags,
            dl_tensor,
        });
        NonNull::from(Box::leak(tensor))
    }

    /// Like [`into_versioned`](Self::into_versioned), for libraries that know no versions.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the tensor is read-only, which cannot be
    /// said without a version. It is returned then.
    pub fn into_unversioned(self) -> Result<NonNull<DLManagedTensor>, (Error, Self)> {
        if let Raw::Unversioned(tensor) = self.raw {
            self.into_raw();
            return Ok(tensor);
        }
        if self.is_read_only() {
            let message = "the tensor is read-only, which a tensor without a version cannot say";
            let error = Error::argument(Status::NOT_SUPPORTED, "exporting a tensor", message)
                .with_hint("export a versioned tensor, or a copy of the memory");
            return Err((error, self));
        }
        let dl_tensor = *self.tensor();
        let manager_ctx = Box::into_raw(Box::new(self)).cast();
        let tensor = Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter: Some(delete_unversioned) });
        Ok(NonNull::from(Box::leak(tensor)))
    }

    /// The tensor itself.
    pub(super) fn tensor(&self) -> &DLTensor {
        match self.raw {
            // SAFETY: whoever made this promised that the structure is there until the deleter is called, and does not change.
            Raw::Versioned(tensor) => unsafe { &(*tensor.as_ptr()).dl_tensor },
            // SAFETY: this structure, too, is there until its deleter is called, and does not change.
            Raw::Unversioned(tensor) => unsafe { &(*tensor.as_ptr()).dl_tensor },
        }
    }

    fn flags(&self) -> u64 {
        match self.raw {
            // SAFETY: whoever made this promised that the structure is there until the deleter is called, and does not change.
            Raw::Versioned(tensor) => unsafe { (*tensor.as_ptr()).flags },
            Raw::Unversioned(_) => 0,
        }
    }

    /// The version of the structure, if it has one.
    pub fn version(&self) -> Option<DLPackVersion> {
        match self.raw {
            // SAFETY: whoever made this promised that the structure is there until the deleter is called, and does not change.
            Raw::Versioned(tensor) => Some(unsafe { (*tensor.as_ptr()).version }),
            Raw::Unversioned(_) => None,
        }
    }

    /// Whether the consumer must not write the elements.
    pub fn is_read_only(&self) -> bool {
        self.flags() & READ_ONLY != 0
    }

    /// Where the elements are.
    pub fn device(&self) -> DLDevice {
        self.tensor().device
    }

    /// The type of the elements.
    pub fn data_type(&self) -> DLDataType {
        self.tensor().dtype
    }

    /// The extent of each dimension. Empty for a tensor of no dimensions, which has one element.
    pub fn shape(&self) -> &[i64] {
        self.extents(self.tensor().shape).unwrap_or_default()
    }

    /// The distance in each dimension, in elements. `None`: the elements are in row-major order without gaps.
    pub fn strides(&self) -> Option<&[i64]> {
        self.extents(self.tensor().strides)
    }

    /// One number for each dimension.
    fn extents(&self, numbers: *const i64) -> Option<&[i64]> {
        let count = usize::try_from(self.tensor().ndim).ok()?;
        if numbers.is_null() || count == 0 {
            return (!numbers.is_null()).then_some(&[]);
        }
        // SAFETY: whoever made this promised a tensor as DLPack describes it, which has as many numbers there.
        Some(unsafe { std::slice::from_raw_parts(numbers, count) })
    }
}

/// Drops the tensor that this library has passed on as one with another structure.
///
/// # Safety
/// `tensor` is from [`ManagedTensor::into_versioned`], and this is called once.
unsafe extern "C" fn delete_versioned(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: the structure and its owner were boxes, and are dropped here only.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: the context is the box of the tensor that was passed on, and the structure, which had it, is gone.
    drop(unsafe { owner(tensor.manager_ctx) });
}

/// Drops the tensor that this library has passed on as one with another structure.
///
/// # Safety
/// `tensor` is from [`ManagedTensor::into_unversioned`], and this is called once.
unsafe extern "C" fn delete_unversioned(tensor: *mut DLManagedTensor) {
    // SAFETY: the structure and its owner were boxes, and are dropped here only.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: the context is the box of the tensor that was passed on, and the structure, which had it, is gone.
    drop(unsafe { owner(tensor.manager_ctx) });
}

/// # Safety
/// It is the box of a tensor, and nobody else has it.
unsafe fn owner(context: *mut c_void) -> Box<ManagedTensor> {
    // SAFETY: the caller promises that.
    unsafe { Box::from_raw(context.cast()) }
}

impl Drop for ManagedTensor {
    fn drop(&mut self) {
        match self.raw {
            Raw::Versioned(tensor) => {
                // SAFETY: whoever made this promised that the structure is there, whose deleter is at its place in every version.
                if let Some(deleter) = unsafe { (*tensor.as_ptr()).deleter } {
                    // SAFETY: nobody else calls the deleter, and the tensor is not used any more.
                    unsafe { deleter(tensor.as_ptr()) }
                }
            }
            Raw::Unversioned(tensor) => {
                // SAFETY: whoever made this promised that the structure is there.
                if let Some(deleter) = unsafe { (*tensor.as_ptr()).deleter } {
                    // SAFETY: nobody else calls the deleter, and the tensor is not used any more.
                    unsafe { deleter(tensor.as_ptr()) }
                }
            }
        }
    }
}

impl fmt::Debug for ManagedTensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (shape, device) = (self.shape(), self.device());
        write!(formatter, "ManagedTensor({shape:?} of {:?} on {device:?})", self.data_type())
    }
}
