//! Semaphores of other APIs and processes (Driver API, group EXTRES_INTEROP).

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::{
    CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD,
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS, CUDA_EXT_SEM_WAIT_NODE_PARAMS, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC,
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, CUexternalSemaphore,
};
use crate::handles::{external_semaphore_handle, raw_external_semaphore, raw_stream};
use anabranch_hal::{
    Call, ExternalSemaphoreHandle, ExternalSemaphoreKind, ExternalSemaphoreOperation, ExternalSemaphores, Failure,
    Live, Result, Status, StreamHandle,
};
use std::ffi::c_uint;
use std::ptr;

/// The semaphores of a call and what is done with each, as the driver takes them: `P` is its type for signals or for waits.
pub(crate) struct Operations<P> {
    semaphores: Vec<CUexternalSemaphore>,
    parameters: Vec<P>,
    count: c_uint,
}

impl<P> Operations<P> {
    fn new(operations: &[ExternalSemaphoreOperation], describe: impl Fn(u64) -> P) -> Result<Self> {
        Ok(Self {
            semaphores: operations.iter().map(|operation| raw_external_semaphore(operation.semaphore)).collect(),
            parameters: operations.iter().map(|operation| describe(operation.value)).collect(),
            count: c_uint::try_from(operations.len()).map_err(|_| Failure::new(Status::INVALID_VALUE))?,
        })
    }
}

impl Operations<CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS> {
    /// Signals of semaphores.
    pub(crate) fn signals(operations: &[ExternalSemaphoreOperation]) -> Result<Self> {
        Self::new(operations, |value| {
            let mut signal = CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS::zeroed();
            signal.params.fence.value = value;
            signal
        })
    }

    /// A description that points to the operations.
    pub(crate) fn describe(&mut self) -> CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
        CUDA_EXT_SEM_SIGNAL_NODE_PARAMS {
            extSemArray: self.semaphores.as_mut_ptr(),
            paramsArray: self.parameters.as_ptr(),
            numExtSems: self.count,
        }
    }
}

impl Operations<CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS> {
    /// Waits for semaphores.
    pub(crate) fn waits(operations: &[ExternalSemaphoreOperation]) -> Result<Self> {
        Self::new(operations, |value| {
            let mut wait = CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS::zeroed();
            wait.params.fence.value = value;
            wait
        })
    }

    /// A description that points to the operations.
    pub(crate) fn describe(&mut self) -> CUDA_EXT_SEM_WAIT_NODE_PARAMS {
        CUDA_EXT_SEM_WAIT_NODE_PARAMS {
            extSemArray: self.semaphores.as_mut_ptr(),
            paramsArray: self.parameters.as_ptr(),
            numExtSems: self.count,
        }
    }
}

/// The signals of a description.
///
/// # Safety
///
/// The description has arrays of as many semaphores and parameters as it states.
pub(crate) unsafe fn read_signals(raw: &CUDA_EXT_SEM_SIGNAL_NODE_PARAMS) -> Vec<ExternalSemaphoreOperation> {
    // SAFETY: the caller promises that there are as many of both.
    unsafe { read(raw.extSemArray, raw.paramsArray, raw.numExtSems, |signal| signal.params.fence.value) }
}

/// The waits of a description.
///
/// # Safety
///
/// The description has arrays of as many semaphores and parameters as it states.
pub(crate) unsafe fn read_waits(raw: &CUDA_EXT_SEM_WAIT_NODE_PARAMS) -> Vec<ExternalSemaphoreOperation> {
    // SAFETY: the caller promises that there are as many of both.
    unsafe { read(raw.extSemArray, raw.paramsArray, raw.numExtSems, |wait| wait.params.fence.value) }
}

/// # Safety
///
/// Both arrays have as many elements as stated, or are null.
unsafe fn read<P>(
    semaphores: *const CUexternalSemaphore,
    parameters: *const P,
    count: c_uint,
    value: impl Fn(&P) -> u64,
) -> Vec<ExternalSemaphoreOperation> {
    if semaphores.is_null() || parameters.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller promises that there are as many, and neither array is null.
    let (semaphores, parameters) = unsafe {
        let count = count as usize;
        (std::slice::from_raw_parts(semaphores, count), std::slice::from_raw_parts(parameters, count))
    };
    let pairs = semaphores.iter().zip(parameters);
    let operations = pairs.map(|(&semaphore, parameters)| ExternalSemaphoreOperation {
        semaphore: external_semaphore_handle(semaphore),
        value: value(parameters),
    });
    operations.collect()
}

impl ExternalSemaphores for CudaDriver {
    unsafe fn external_semaphore_import(
        &self,
        call: &Call<'_>,
        descriptor: i32,
        kind: ExternalSemaphoreKind,
    ) -> Result<ExternalSemaphoreHandle> {
        let _bound = self.bind(call.context)?;
        let mut description = CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC::zeroed();
        description.type_ = match kind {
            ExternalSemaphoreKind::Binary => CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD,
            ExternalSemaphoreKind::Timeline => CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD,
            _ => return Err(Failure::argument(Status::NOT_SUPPORTED, "the CUDA back end knows no such semaphores")),
        };
        description.handle.fd = descriptor;
        let mut semaphore = ptr::null_mut();
        // SAFETY: the description is complete. The caller promises that the file descriptor is open, and one of that kind if it
        // is that of a semaphore; the driver refuses others.
        check(unsafe { self.functions.cuImportExternalSemaphore(&mut semaphore, &description) })?;
        Ok(external_semaphore_handle(semaphore))
    }

    unsafe fn external_semaphore_destroy(&self, call: &Call<'_>, semaphore: ExternalSemaphoreHandle) -> Result<()> {
        let _bound = self.bind(call.context)?;
        // SAFETY: the caller promises that the semaphore exists, that its signals and waits are complete, and that this is the
        // last use.
        check(unsafe { self.functions.cuDestroyExternalSemaphore(raw_external_semaphore(semaphore)) })
    }

    unsafe fn stream_signal_external_semaphores(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        operations: &[ExternalSemaphoreOperation],
    ) -> Result<()> {
        let raw = Operations::signals(operations)?;
        self.call_on_stream(call.context, stream, || {
            let (semaphores, signals) = (raw.semaphores.as_ptr(), raw.parameters.as_ptr());
            // SAFETY: the stream is live, as its type says. There are as many semaphores and signals as stated, which the driver
            // copies, and the caller keeps the semaphores until they are signalled.
            check(unsafe {
                self.functions.cuSignalExternalSemaphoresAsync(semaphores, signals, raw.count, raw_stream(stream))
            })
        })
    }

    unsafe fn stream_wait_external_semaphores(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        operations: &[ExternalSemaphoreOperation],
    ) -> Result<()> {
        let raw = Operations::waits(operations)?;
        self.call_on_stream(call.context, stream, || {
            let (semaphores, waits) = (raw.semaphores.as_ptr(), raw.parameters.as_ptr());
            // SAFETY: the stream is live, as its type says. There are as many semaphores and waits as stated, which the driver
            // copies, and the caller keeps the semaphores until the wait is over.
            check(unsafe {
                self.functions.cuWaitExternalSemaphoresAsync(semaphores, waits, raw.count, raw_stream(stream))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Operations, read_signals, read_waits};
    use crate::ffi::cuda_types::CUDA_EXT_SEM_WAIT_NODE_PARAMS;
    use anabranch_hal::{ExternalSemaphoreHandle, ExternalSemaphoreOperation};
    use std::ptr;

    #[test]
    fn operations_come_back_as_they_were() {
        let operation = |number: usize| ExternalSemaphoreOperation {
            semaphore: ExternalSemaphoreHandle::from_raw(0x1000 * number),
            value: (number as u64) << 40,
        };
        let operations = [operation(1), operation(2), operation(3)];
        let mut signals = Operations::signals(&operations).unwrap();
        // SAFETY: the description was made of arrays that are still there.
        assert_eq!(unsafe { read_signals(&signals.describe()) }, operations);
        let mut waits = Operations::waits(&operations).unwrap();
        // SAFETY: the description was made of arrays that are still there.
        assert_eq!(unsafe { read_waits(&waits.describe()) }, operations);
    }

    #[test]
    fn no_arrays_are_no_operations() {
        let none =
            CUDA_EXT_SEM_WAIT_NODE_PARAMS { extSemArray: ptr::null_mut(), paramsArray: ptr::null(), numExtSems: 3 };
        // SAFETY: the arrays are null.
        assert_eq!(unsafe { read_waits(&none) }, []);
    }
}
