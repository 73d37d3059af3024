//! Closures that the driver runs: what it is given in their place, and what it calls.
//!
//! The driver is never given a pointer to a closure, but a number in place of one:
//!
//! * Host functions and callbacks, which run once, are owned by a [registry](QueuedHostWork) until then. So nothing is
//!   leaked by a call that fails or by a host function that the driver skips, and nothing runs twice or after it was
//!   dropped, whatever the driver does.
//! * Work of graphs, which runs at every launch, is owned by the library above. The number is its [`HostWorkKey`];
//!   running a key whose work no longer exists does nothing.
//!
//! Host work does not unwind: that is the contract. Should it do so all the same, the unwinding ends here, because the
//! driver's frames are above, and it cannot be reported.

mod registry;

pub(crate) use registry::{QueuedHostWork, QueuedWork};

use crate::error::status;
use crate::ffi::cuda_types::{CUDA_HOST_NODE_PARAMS, CUresult, CUstream};
use anabranch_hal::{ContextHandle, Failure, HostWorkKey, Result, Status, contain};
use registry::WorkKey;
use std::ffi::c_void;
use std::ptr;

/// The closures queued in this process. There is one of these, as there is one driver library, because work that was
/// queued outlives the [`CudaDriver`](crate::CudaDriver) that queued it.
pub(crate) static QUEUED: QueuedHostWork = QueuedHostWork::new();

/// Passes a result of a call that waits or asks for work. One that says that the context is lost also says that its host
/// functions will not be run, so they are dropped.
#[inline]
pub(crate) fn observe(context: ContextHandle, result: Result<()>) -> Result<()> {
    // Not a look at the result by reference: then it would be written to memory and copied from there, by every query.
    match result {
        Ok(()) => Ok(()),
        Err(failure) => Err(observed(context, failure)),
    }
}

#[cold]
fn observed(context: ContextHandle, failure: Failure) -> Failure {
    if failure.status.is_sticky() {
        QUEUED.context_in_error(context);
    }
    failure
}

/// What the driver calls for a host function.
pub(crate) unsafe extern "C" fn run_host_function(data: *mut c_void) {
    run(WorkKey::from_user_data(data), Status::SUCCESS);
}

/// What the driver calls for a callback.
pub(crate) unsafe extern "C" fn run_callback(_stream: CUstream, code: CUresult, data: *mut c_void) {
    run(WorkKey::from_user_data(data), status(code));
}

fn run(key: WorkKey, status: Status) {
    if let Some(work) = QUEUED.take(key) {
        let _ = contain(|| match work {
            QueuedWork::HostFunction(function) => function.run(),
            QueuedWork::Callback(callback) => callback(status),
        });
    }
}

/// What the driver calls for a host node of a graph. Never inlined, so that its address is the same everywhere: nodes are
/// recognised by it.
#[inline(never)]
unsafe extern "C" fn run_repeatable(data: *mut c_void) {
    let _ = contain(|| HostWorkKey::from_raw(data.addr() as u64).run());
}

/// The driver's description of a host node that runs the work of a key.
pub(crate) fn describe(key: HostWorkKey) -> CUDA_HOST_NODE_PARAMS {
    // The driver serves 64-bit systems only, on which nothing is lost.
    CUDA_HOST_NODE_PARAMS { fn_: Some(run_repeatable), userData: ptr::without_provenance_mut(key.as_raw() as usize) }
}

/// The key that a description is of. None if the host function is another library's.
pub(crate) fn read(description: &CUDA_HOST_NODE_PARAMS) -> Option<HostWorkKey> {
    let ours = run_repeatable as unsafe extern "C" fn(*mut c_void);
    let function = description.fn_.filter(|&function| ptr::fn_addr_eq(function, ours));
    function.map(|_| HostWorkKey::from_raw(description.userData.addr() as u64))
}

#[cfg(test)]
mod tests;
