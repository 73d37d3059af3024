//! What graphs keep alive, as the driver counts it.

use crate::driver::CudaDriver;
use crate::dropping::DROPS;
use crate::error::check;
use crate::ffi::CudaFunctions;
use crate::ffi::cuda_types::*;
use anabranch_hal::{Result, Retained};
use std::ffi::c_void;
use std::ptr;

/// One reference to something that the driver counts references to.
pub(super) struct UserObject<'a> {
    functions: &'a CudaFunctions,
    raw: CUuserObject,
}

impl<'a> UserObject<'a> {
    pub(super) fn new(driver: &'a CudaDriver, object: Retained) -> Result<Self> {
        let functions: &CudaFunctions = &driver.functions;
        let exchange = functions.cuThreadExchangeStreamCaptureMode;
        DROPS.attend(move || relax(exchange));
        let data = Box::into_raw(Box::new(object));
        let mut raw = ptr::null_mut();
        let flags = CU_USER_OBJECT_NO_DESTRUCTOR_SYNC;
        // SAFETY: the result is written to a variable that outlives the call; the destructor takes what is passed with it.
        let created = check(unsafe { functions.cuUserObjectCreate(&mut raw, data.cast(), Some(let_go), 1, flags) });
        if let Err(failure) = created {
            // SAFETY: this is the box that was taken apart above, and the driver has not taken it.
            drop(unsafe { Box::from_raw(data) });
            return Err(failure);
        }
        Ok(Self { functions, raw })
    }

    pub(super) fn raw(&self) -> CUuserObject {
        self.raw
    }

    /// Gives the graph a reference.
    ///
    /// # Safety
    ///
    /// The graph is live.
    pub(super) unsafe fn give(&self, graph: CUgraph) -> Result<()> {
        // SAFETY: the caller vouches for the graph, and this holds a reference to the object.
        check(unsafe { self.functions.cuGraphRetainUserObject(graph, self.raw, 1, 0) })
    }

    /// Takes the reference back that the graph was given.
    ///
    /// # Safety
    ///
    /// The graph is live, and has a reference of this object's.
    pub(super) unsafe fn take_back(&self, graph: CUgraph) {
        // SAFETY: the caller vouches for the graph. A failure would leave the object alive as long as the graph, no more.
        let _ = unsafe { self.functions.cuGraphReleaseUserObject(graph, self.raw, 1) };
    }
}

impl Drop for UserObject<'_> {
    fn drop(&mut self) {
        // SAFETY: this holds a reference, and gives it back once. A failure would leave the object alive, no more.
        let _ = unsafe { self.functions.cuUserObjectRelease(self.raw, 1) };
    }
}

/// What the driver calls when the last reference is gone, on a thread of its own.
unsafe extern "C" fn let_go(data: *mut c_void) {
    // SAFETY: this is what `UserObject::new` made of a box and passed with this function, which the driver calls once.
    let object = unsafe { Box::from_raw(data.cast::<Retained>()) };
    DROPS.hand_over(*object);
}

/// Lets the thread ignore what captures elsewhere prohibit: it drops what graphs have kept, which no capture knows of, and
/// what is dropped may free memory.
fn relax(exchange: Option<unsafe extern "C" fn(*mut CUstreamCaptureMode) -> CUresult>) {
    let mut mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if let Some(exchange) = exchange {
        // SAFETY: the mode is read from, and the one before written to, a variable that outlives the call; the library
        // stays loaded. Without success, the thread keeps the mode that it has.
        let _ = unsafe { exchange(&mut mode) };
    }
}

impl CudaDriver {
    /// Keeps an object alive as long as the graph, and all that is made from it.
    ///
    /// # Safety
    ///
    /// The graph is live.
    pub(crate) unsafe fn retain(&self, graph: CUgraph, object: Retained) -> Result<()> {
        let object = UserObject::new(self, object)?;
        // SAFETY: the caller vouches for the graph.
        unsafe { object.give(graph) }
    }
}
