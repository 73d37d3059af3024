//! Calls of the driver with plain numbers, as in C.
//!
//! A method makes one call of the driver contract, without the interpreter, and checks nothing that the driver does not check.

mod attributes;
mod events;
mod graphs;
mod memory;
mod owned;
mod pools;
mod streams;

pub(crate) use events::RawEvents;
pub(crate) use graphs::RawGraphs;
pub(crate) use memory::RawMemory;
pub(crate) use owned::{OwnedMemory, free_later};
pub(crate) use pools::RawPools;
pub(crate) use streams::RawStreams;

use crate::classes::context::Context;
use crate::wait;
use anabranch::hal::{Call, Driver, Failure, Live, Result};
use anabranch::{ContextHandle, DeviceOrdinal, Error, Status, StreamHandle};
use pyo3::prelude::*;

/// What calls are made in.
#[derive(Clone)]
struct Calls(anabranch::Context);

impl Calls {
    fn live(&self) -> Live<'_, ContextHandle> {
        // SAFETY: the context is kept for as long as the result, which is given to its driver only.
        unsafe { Live::new(self.0.as_raw()) }
    }

    fn device(&self) -> DeviceOrdinal {
        self.0.device().ordinal()
    }

    /// Makes a call without the interpreter.
    fn make<T: Send>(
        &self,
        py: Python<'_>,
        operation: &'static str,
        body: impl FnOnce(&dyn Driver, &Call<'_>) -> Result<T> + Send,
    ) -> PyResult<T> {
        wait::call(py, || {
            let call = Call::new(self.live(), operation);
            body(&**self.0.device().driver(), &call).map_err(|failure| Error::driver(operation, failure))
        })
    }
}

/// Refuses a number that cannot be a handle: those are addresses, and nothing is in the first page. Drivers trust all others, and
/// refuse the null handle.
fn possible(handle: usize) -> Result<usize> {
    match handle {
        1..4096 => Err(Failure::argument(Status::INVALID_HANDLE, format!("{handle} is no handle"))),
        _ => Ok(handle),
    }
}

/// A stream of the caller, who promises that it exists.
fn stream_of(stream: usize) -> Result<Live<'static, StreamHandle>> {
    if let Some(stream) = Live::default_stream(StreamHandle::from_raw(stream)) {
        return Ok(stream);
    }
    let handle = StreamHandle::from_raw(possible(stream)?);
    // SAFETY: whoever calls a method of this module promises that the stream exists during the call, as the classes say.
    Ok(unsafe { Live::new(handle) })
}

/// The status of a call that only asks.
fn status_of(result: Result<()>) -> Result<i32> {
    Ok(result.map_or_else(|failure| failure.status.0, |()| Status::SUCCESS.0))
}

/// Calls of the driver with handles and addresses that are plain numbers, in one context. As in C, nothing is checked that the
/// driver does not check: the caller makes sure that what a number stands for exists as long as a call or queued work uses
/// it, and what is made here is destroyed by the caller only. Work in a stream is ordered by the stream only. Handles of
/// other objects of this package can be used as long as those exist. What the driver refuses is an AnabranchError with
/// its status. Waits are not ended by Ctrl-C.
#[pyclass(frozen, weakref, module = "anabranch.raw")]
pub(crate) struct Raw {
    calls: Calls,
}

impl Raw {
    pub(crate) fn new(context: anabranch::Context) -> Self {
        Self { calls: Calls(context) }
    }
}

#[pymethods]
impl Raw {
    /// Calls for streams.
    #[getter]
    fn streams(&self) -> RawStreams {
        RawStreams(self.calls.clone())
    }

    /// Calls for events.
    #[getter]
    fn events(&self) -> RawEvents {
        RawEvents(self.calls.clone())
    }

    /// Calls for graphs.
    #[getter]
    fn graphs(&self) -> RawGraphs {
        RawGraphs(self.calls.clone())
    }

    /// Calls for memory.
    #[getter]
    fn memory(&self) -> RawMemory {
        RawMemory(self.calls.clone())
    }

    /// Calls for memory pools.
    #[getter]
    fn pools(&self) -> RawPools {
        RawPools(self.calls.clone())
    }

    /// Waits until all work of the context is complete.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        self.calls.make(py, "synchronizing a context", |driver, call| driver.context_synchronize(call))
    }

    /// The version of the driver: a thousand times the major one, and ten times the minor one.
    fn driver_version(&self) -> u32 {
        let version = self.calls.0.device().driver_version();
        1000 * version.major + 10 * version.minor
    }

    /// An attribute of the device, by its number in CUdevice_attribute. None if the driver contract does not say it.
    fn device_attribute(&self, attribute: u32) -> Option<i64> {
        attributes::of(self.calls.0.device().properties(), attribute)
    }

    /// Whether the device can access the memory of another one of its driver, by that one's number.
    fn can_access_peer(&self, py: Python<'_>, peer: u32) -> PyResult<bool> {
        let device = self.calls.device();
        self.calls
            .make(py, "asking for peer access", |driver, _| driver.device_can_access_peer(device, DeviceOrdinal(peer)))
    }

    /// Lets work of this context access the memory of another context.
    fn enable_peer_access(&self, py: Python<'_>, peer: &Bound<'_, Context>) -> PyResult<()> {
        let peer = Calls(peer.get().library().clone());
        self.calls.make(py, "enabling peer access", |driver, call| driver.context_enable_peer_access(call, peer.live()))
    }

    /// Lets work of this context access the memory of another context no more.
    fn disable_peer_access(&self, py: Python<'_>, peer: &Bound<'_, Context>) -> PyResult<()> {
        let peer = Calls(peer.get().library().clone());
        self.calls.make(py, "disabling peer access", |driver, call| {
            // SAFETY: the caller promises that no queued work uses memory of the peer, as the class says.
            unsafe { driver.context_disable_peer_access(call, peer.live()) }
        })
    }
}
