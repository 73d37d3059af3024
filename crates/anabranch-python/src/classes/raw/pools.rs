//! Memory pools.

use super::{Calls, possible};
use anabranch::hal::{Live, Result};
use anabranch::{DeviceOrdinal, MemoryPoolAttribute, MemoryPoolHandle, MemoryPoolOptions, Status};
use pyo3::prelude::*;

/// Calls for memory pools; see Raw. Attributes have the numbers of CUmemPool_attribute.
#[pyclass(frozen, weakref, module = "anabranch.raw")]
pub(crate) struct RawPools(pub(super) Calls);

/// A pool of the caller, who promises that it exists.
pub(super) fn pool_of(pool: usize) -> Result<Live<'static, MemoryPoolHandle>> {
    let handle = MemoryPoolHandle::from_raw(possible(pool)?);
    // SAFETY: whoever calls a method of this module promises that the pool exists, as the classes say.
    Ok(unsafe { Live::new(handle) })
}

fn attribute_of(py: Python<'_>, attribute: u32) -> PyResult<MemoryPoolAttribute> {
    Ok(match attribute {
        4 => MemoryPoolAttribute::ReleaseThreshold,
        5 => MemoryPoolAttribute::ReservedCurrent,
        6 => MemoryPoolAttribute::ReservedHigh,
        7 => MemoryPoolAttribute::UsedCurrent,
        8 => MemoryPoolAttribute::UsedHigh,
        _ => {
            let message = format!("the attribute {attribute} of memory pools is not there");
            let hint = "there are 4 to 8: the release threshold, and how much is reserved and used";
            let operation = "using an attribute of a memory pool";
            return Err(crate::error::refused(py, Status::NOT_SUPPORTED, operation, message, hint));
        }
    })
}

#[pymethods]
impl RawPools {
    /// The default pool of the device (cuDeviceGetDefaultMemPool).
    fn default(&self, py: Python<'_>) -> PyResult<usize> {
        let device = self.0.device();
        let pool =
            self.0.make(py, "asking for the default memory pool", |driver, _| driver.default_memory_pool(device))?;
        Ok(pool.as_raw())
    }

    /// Creates a pool of the device (cuMemPoolCreate).
    #[pyo3(signature = (*, max_bytes = 0, interprocess = false))]
    fn create(&self, py: Python<'_>, max_bytes: u64, interprocess: bool) -> PyResult<usize> {
        let (device, options) = (self.0.device(), MemoryPoolOptions { max_bytes, interprocess });
        let pool =
            self.0.make(py, "creating a memory pool", |driver, _| driver.memory_pool_create(device, &options))?;
        Ok(pool.as_raw())
    }

    /// Destroys a pool (cuMemPoolDestroy). What was allocated from it remains.
    fn destroy(&self, py: Python<'_>, pool: usize) -> PyResult<()> {
        self.0.make(py, "destroying a memory pool", |driver, _| {
            // SAFETY: the caller promises that it exists and that nobody uses it any more, as the class says.
            unsafe { driver.memory_pool_destroy(MemoryPoolHandle::from_raw(possible(pool)?)) }
        })
    }

    /// Returns memory to the device, of which the pool keeps so much (cuMemPoolTrimTo).
    fn trim(&self, py: Python<'_>, pool: usize, keep: usize) -> PyResult<()> {
        self.0.make(py, "trimming a memory pool", |driver, _| driver.memory_pool_trim(pool_of(pool)?, keep))
    }

    /// An attribute of a pool (cuMemPoolGetAttribute).
    fn attribute(&self, py: Python<'_>, pool: usize, attribute: u32) -> PyResult<u64> {
        let attribute = attribute_of(py, attribute)?;
        self.0.make(py, "reading an attribute of a memory pool", |driver, _| {
            driver.memory_pool_attribute(pool_of(pool)?, attribute)
        })
    }

    /// Sets an attribute of a pool (cuMemPoolSetAttribute).
    fn set_attribute(&self, py: Python<'_>, pool: usize, attribute: u32, value: u64) -> PyResult<()> {
        let attribute = attribute_of(py, attribute)?;
        self.0.make(py, "setting an attribute of a memory pool", |driver, _| {
            driver.memory_pool_set_attribute(pool_of(pool)?, attribute, value)
        })
    }

    /// Lets another device of the driver access the memory of a pool, or not (cuMemPoolSetAccess).
    fn set_access(&self, py: Python<'_>, pool: usize, peer: u32, allowed: bool) -> PyResult<()> {
        self.0.make(py, "setting the access to a memory pool", |driver, _| {
            driver.memory_pool_set_access(pool_of(pool)?, DeviceOrdinal(peer), allowed)
        })
    }
}
