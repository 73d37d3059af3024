//! The CUDA driver as a whole: finding and starting it.

use crate::absence;
use crate::error::check;
use crate::ffi::cuda_types::CUdevice;
use crate::ffi::{CudaFunctions, FunctionTable, Loaded, MissingSymbol, load_cuda};
use anabranch_hal::{Absence, BackendKind, DeviceOrdinal, Driver, DriverVersion, Failure, Objects, Status};
use std::ffi::c_int;
use std::fmt;
use std::sync::Arc;

/// The first driver that is known to find the context of a call in the handles of streams and events. Earlier ones may
/// do so too, but their documentation does not say it.
const FIRST_WITH_HANDLES: DriverVersion = DriverVersion { major: 13, minor: 0 };

/// The CUDA driver of this machine.
///
/// It has no state but the table of functions: contexts, streams and all else belong to NVIDIA's library, which is never
/// unloaded. Loading a second time gives a driver whose handles may be mixed with those of the first.
pub struct CudaDriver {
    pub(crate) functions: Loaded<CudaFunctions>,
    version: DriverVersion,
    /// Whether calls on streams and events work without a current context.
    pub(crate) handles_suffice: bool,
}

impl CudaDriver {
    /// Finds the driver library, checks its version and initialises it.
    ///
    /// # Errors
    ///
    /// What is missing, and what would put it right: the library, a version that is served, a successful start, or a
    /// device.
    pub fn load() -> Result<Arc<Self>, Absence> {
        let functions = load_cuda().map_err(|error| absence::no_library(&error))?;
        let version = version_of(&functions)?;
        if version < absence::OLDEST {
            return Err(absence::too_old(version));
        }
        // SAFETY: the driver may be initialised at any time, from any thread, more than once.
        succeeded(unsafe { functions.cuInit(0) })?;
        let mut count = 0;
        // SAFETY: the result is written to a variable that outlives the call, and the driver is initialised.
        succeeded(unsafe { functions.cuDeviceGetCount(&mut count) })?;
        if count < 1 {
            return Err(absence::no_device());
        }
        let handles_suffice = version >= FIRST_WITH_HANDLES;
        Ok(Arc::new(Self { functions, version, handles_suffice }))
    }

    /// The driver's handle of a device. `CUDA_ERROR_INVALID_DEVICE (101)` where there is none of that number.
    pub(crate) fn raw_device(&self, device: DeviceOrdinal) -> anabranch_hal::Result<CUdevice> {
        let ordinal = c_int::try_from(device.0).map_err(|_| Failure::new(Status::INVALID_DEVICE))?;
        let mut raw = 0;
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuDeviceGet(&mut raw, ordinal) })?;
        Ok(raw)
    }
}

fn version_of(functions: &CudaFunctions) -> Result<DriverVersion, Absence> {
    let mut number = 0;
    // SAFETY: the result is written to a variable that outlives the call; the driver need not be initialised.
    succeeded(unsafe { functions.cuDriverGetVersion(&mut number) })?;
    let number = u32::try_from(number).unwrap_or(0);
    Ok(DriverVersion { major: number / 1000, minor: number % 1000 / 10 })
}

/// The result of a call that every driver has to support.
fn succeeded(answer: Result<u32, MissingSymbol>) -> Result<(), Absence> {
    match answer {
        Err(missing) => Err(absence::no_symbol(missing)),
        code => check(code).map_err(|failure| absence::not_initialized(failure.status)),
    }
}

/// Ids and names are for layers; the defaults ignore them.
impl Objects for CudaDriver {}

// SAFETY: the CUDA driver makes all objects and all memory, and runs all work. It documents what the contract asks for.
unsafe impl Driver for CudaDriver {
    fn kind(&self) -> BackendKind {
        BackendKind::Cuda
    }

    fn version(&self) -> DriverVersion {
        self.version
    }
}

impl fmt::Debug for CudaDriver {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CudaDriver")
            .field("version", &format_args!("{}", self.version))
            .field("file", &self.functions.file())
            .field("missing", &self.functions.missing())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{CudaDriver, succeeded};
    use crate::ffi::MissingSymbol;
    use anabranch_hal::Driver;

    #[test]
    fn loading_answers_with_a_driver_or_with_what_is_missing() {
        match CudaDriver::load() {
            Ok(driver) => assert!(driver.version().major >= 12),
            Err(absence) => assert!(!absence.remedy.is_empty(), "{absence}"),
        }
    }

    #[test]
    fn a_failed_start_is_told_from_a_missing_function() {
        assert_eq!(succeeded(Ok(0)), Ok(()));
        assert!(succeeded(Ok(803)).unwrap_err().reason.contains("803"));
        let missing = MissingSymbol { name: "cuInit", since: 2000 };
        assert!(succeeded(Err(missing)).unwrap_err().reason.contains("cuInit"));
    }
}
