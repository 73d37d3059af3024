//! Memory that is freed with its object.
//!
//! Without code of Python, in which a signal handler may raise an exception: where memory is allocated and nobody has it yet, and where it
//! is freed, and nobody gets the exception.

use super::{Calls, RawMemory};
use crate::classes::open_stream::OpenStream;
use crate::classes::stream::Stream;
use crate::slot::release;
use crate::{error, process};
use anabranch::hal::{Call, CaptureMode, CaptureStatus, Driver, Failure, Live, Result};
use anabranch::{DevicePointer, Error, Status, StreamHandle};
use pyo3::prelude::*;
use std::mem::{forget, take};
use std::ptr::with_exposed_provenance_mut;
use std::sync::{Arc, Mutex, PoisonError};

const FREEING: &str = "freeing memory";

/// What could not be freed where it was dropped.
static LATER: Mutex<Vec<Allocation>> = Mutex::new(Vec::new());

fn with_later<R>(body: impl FnOnce(&mut Vec<Allocation>) -> R) -> R {
    body(&mut LATER.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What memory is, and so how it is freed.
enum Kind {
    /// Also managed memory.
    Device,
    Pinned,
    /// In the order of a stream, which is kept.
    InOrder(Arc<OpenStream>),
}

struct Allocation {
    calls: Calls,
    address: u64,
    kind: Kind,
}

impl Allocation {
    /// Frees it. Invalidates no capture of another stream.
    fn try_free(&self) -> Result<()> {
        let driver = &**self.calls.0.device().driver();
        let call = Call::new(self.calls.live(), FREEING);
        let former = driver.thread_exchange_capture_mode(CaptureMode::Relaxed)?;
        let freed = self.free_with(driver, &call);
        // Whether this fails says nothing of the memory, which is freed once.
        let _ = driver.thread_exchange_capture_mode(former);
        freed
    }

    fn free_with(&self, driver: &dyn Driver, call: &Call<'_>) -> Result<()> {
        match &self.kind {
            // SAFETY: it was allocated so, nobody else frees it, and the caller promises that nobody uses it any more, as the class says.
            Kind::Device => unsafe { driver.free(call, DevicePointer(self.address)) },
            Kind::Pinned => {
                let address = usize::try_from(self.address).unwrap_or(0);
                // SAFETY: as above.
                unsafe { driver.free_pinned(call, with_exposed_provenance_mut(address)) }
            }
            Kind::InOrder(stream) => {
                // SAFETY: the stream is kept.
                let stream: Live<'_, StreamHandle> = unsafe { Live::new(stream.as_raw()) };
                // For the legacy default stream, this fails if freeing would invalidate the capture of another stream.
                let is_capturing = driver.stream_capture_status(call, stream)? != CaptureStatus::None;
                // SAFETY: as above, behind this.
                unsafe { driver.free_async(call, DevicePointer(self.address), stream) }.map_err(|failure| {
                    // Memory from before a capture of the stream cannot be freed until it ends.
                    if is_capturing && failure.status == Status::INVALID_VALUE {
                        return Failure::from(Status::STREAM_CAPTURE_UNSUPPORTED);
                    }
                    failure
                })
            }
        }
    }

    /// Frees it, or lets [`free_later`] do it: host functions must not call the driver, and captures do not let everything be freed.
    fn free(self, py: Python<'_>) {
        if process::is_exiting() || process::is_forked() {
            return forget(self);
        }
        if !error::is_usable() {
            return with_later(|later| later.push(self));
        }
        match process::detached(py, || self.try_free()) {
            Ok(()) => {}
            Err(failure) if is_transient(failure.status) => return with_later(|later| later.push(self)),
            Err(failure) => {
                let raised = PyErr::take(py);
                error::raise(py, &Error::driver(FREEING, failure)).write_unraisable(py, None);
                raised.into_iter().for_each(|error| error.restore(py));
            }
        }
        if let Kind::InOrder(stream) = self.kind {
            release(stream);
        }
    }
}

/// Whether a later call can succeed.
fn is_transient(status: Status) -> bool {
    let of_captures = Status::STREAM_CAPTURE_UNSUPPORTED.0..=Status::STREAM_CAPTURE_WRONG_THREAD.0;
    status == Status::NOT_PERMITTED || of_captures.contains(&status.0)
}

/// Frees what could not be freed before. Errors are said where those of finalizers are.
#[pyfunction]
#[pyo3(name = "_free_later")]
pub(crate) fn free_later(py: Python<'_>) {
    with_later(take).into_iter().for_each(|allocation| allocation.free(py));
}

/// Memory that is freed with this object, and its address.
#[pyclass(frozen, name = "_OwnedMemory", module = "anabranch._anabranch")]
pub(crate) struct OwnedMemory {
    #[pyo3(get)]
    address: u64,
    allocation: Option<Allocation>,
}

impl OwnedMemory {
    fn new(memory: &RawMemory, address: u64, kind: Kind) -> Self {
        let allocation = Some(Allocation { calls: memory.0.clone(), address, kind });
        Self { address, allocation }
    }
}

impl Drop for OwnedMemory {
    fn drop(&mut self) {
        Python::try_attach(|py| self.allocation.take().into_iter().for_each(|allocation| allocation.free(py)));
        // It is leaked where there is no interpreter any more.
        self.allocation.take().into_iter().for_each(forget);
    }
}

/// Memory by `cuMemAlloc`.
pub(super) fn of_device(memory: &RawMemory, py: Python<'_>, size: usize) -> PyResult<OwnedMemory> {
    Ok(OwnedMemory::new(memory, memory.allocate(py, size)?, Kind::Device))
}

/// Memory by `cuMemAllocManaged`.
pub(super) fn managed(memory: &RawMemory, py: Python<'_>, size: usize) -> PyResult<OwnedMemory> {
    Ok(OwnedMemory::new(memory, memory.allocate_managed(py, size)?, Kind::Device))
}

/// Memory by `cuMemHostAlloc`.
pub(super) fn pinned(memory: &RawMemory, py: Python<'_>, size: usize, flags: u32) -> PyResult<OwnedMemory> {
    Ok(OwnedMemory::new(memory, memory.allocate_pinned(py, size, flags)? as u64, Kind::Pinned))
}

/// Memory by `cuMemAllocFromPoolAsync`.
pub(super) fn in_order(
    memory: &RawMemory,
    py: Python<'_>,
    size: usize,
    stream: &Bound<'_, Stream>,
    pool: Option<usize>,
) -> PyResult<OwnedMemory> {
    let stream = stream.get().get(py)?.share();
    let address = memory.allocate_async(py, size, stream.as_raw().as_raw(), pool);
    Ok(OwnedMemory::new(memory, address?, Kind::InOrder(stream)))
}
