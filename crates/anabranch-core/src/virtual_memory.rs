//! Virtual memory: reserved addresses, and physical memory that is mapped there.
//!
//! A mapping is undone when nobody holds it any more and the context is idle. It holds its addresses and its memory, which
//! therefore remain longer.

use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::host_work::refuse_inside;
use crate::idle_memory::attempt_when_idle;
use crate::reaper;
use anabranch_hal::{DeviceOrdinal, DevicePointer, PhysicalMemoryHandle, Status};
use std::fmt;
use std::sync::Arc;

/// Memory of a device without an address.
pub struct PhysicalMemoryCore {
    context: Arc<ContextCore>,
    handle: PhysicalMemoryHandle,
    bytes: usize,
}

/// Reserved addresses.
pub struct AddressRangeCore {
    context: Arc<ContextCore>,
    address: DevicePointer,
    bytes: usize,
}

/// Physical memory that is mapped to reserved addresses.
pub struct MappingCore {
    range: Arc<AddressRangeCore>,
    memory: Arc<PhysicalMemoryCore>,
    offset: usize,
}

/// The granularity of the physical memory of a context's device, in bytes.
///
/// # Errors
/// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver does not support virtual memory.
pub fn granularity(context: &ContextCore) -> Result<usize> {
    let operation = "reading the granularity of physical memory";
    let granularity = context.driver().physical_memory_granularity(context.device().ordinal());
    granularity.during(operation, || context.place())
}

fn of_multiples(error: Error) -> Error {
    match error.status() {
        Status::INVALID_VALUE => error.with_hint("use multiples of Context::physical_memory_granularity, and not 0"),
        _ => error.of_another_capture(),
    }
}

impl PhysicalMemoryCore {
    /// Allocates memory of the context's device.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver does not support virtual memory; `CUDA_ERROR_INVALID_VALUE (1)` for a
    /// size that is no multiple of the granularity; `CUDA_ERROR_OUT_OF_MEMORY (2)` if there is not enough memory.
    pub fn create(context: &Arc<ContextCore>, bytes: usize) -> Result<Arc<Self>> {
        let operation = "allocating physical memory";
        refuse_inside(operation).map_err(|error| error.at(context.place()))?;
        let created = context.driver().physical_memory_create(context.device().ordinal(), bytes);
        let handle = created.during(operation, || context.place()).map_err(of_multiples)?;
        Ok(Arc::new(Self { context: context.clone(), handle, bytes }))
    }
}

impl AddressRangeCore {
    /// Reserves addresses.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver does not support virtual memory; `CUDA_ERROR_INVALID_VALUE (1)` for a
    /// size that is no multiple of the granularity; `CUDA_ERROR_OUT_OF_MEMORY (2)` if there are not so many addresses.
    pub fn reserve(context: &Arc<ContextCore>, bytes: usize) -> Result<Arc<Self>> {
        let operation = "reserving addresses";
        refuse_inside(operation).map_err(|error| error.at(context.place()))?;
        let reserved = context.driver().address_reserve(bytes, 0);
        let address = reserved.during(operation, || context.place()).map_err(of_multiples)?;
        Ok(Arc::new(Self { context: context.clone(), address, bytes }))
    }

    /// The context.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The first address.
    pub fn address(&self) -> DevicePointer {
        self.address
    }
}

impl MappingCore {
    /// Maps all of the memory at an offset of the range, and lets the device of the context access it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` for memory of another context; `CUDA_ERROR_INVALID_VALUE (1)` if it extends past the
    /// end, if something is mapped there already, or for an offset that is no multiple of the granularity.
    pub fn map(range: &Arc<AddressRangeCore>, offset: usize, memory: &Arc<PhysicalMemoryCore>) -> Result<Arc<Self>> {
        let (operation, context) = ("mapping memory", &range.context);
        let refuse = |status, message: String, hint| {
            Err(Error::argument(status, operation, message).with_hint(hint).at(context.place()))
        };
        refuse_inside(operation).map_err(|error| error.at(context.place()))?;
        if !memory.context.is_same(context) {
            let message = "the physical memory belongs to another context".to_owned();
            return refuse(Status::INVALID_HANDLE, message, "allocate it in the context of the addresses");
        }
        if offset.checked_add(memory.bytes).is_none_or(|end| end > range.bytes) {
            let message = format!("{} bytes at {offset} do not fit into {}", memory.bytes, range.bytes);
            return refuse(Status::INVALID_VALUE, message, "map less, or reserve more addresses");
        }
        let address = range.address.byte_add(offset);
        // SAFETY: the addresses are reserved, and the memory exists and has that size.
        let mapped = unsafe { context.driver().memory_map(address, memory.bytes, memory.handle) };
        mapped.during(operation, || context.place()).map_err(|error| match error.status() {
            Status::INVALID_VALUE | Status::ALREADY_MAPPED => error.with_hint(
                "use multiples of Context::physical_memory_granularity, and addresses where nothing is mapped; what was \
                 mapped before is gone after flush_deferred_drops",
            ),
            _ => error.of_another_capture(),
        })?;
        let mapping = Arc::new(Self { range: range.clone(), memory: memory.clone(), offset });
        // If this fails, the mapping is undone.
        mapping.set_access(context.device().ordinal())?;
        Ok(mapping)
    }

    /// Allows a device to access the memory.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE (101)` or `CUDA_ERROR_INVALID_VALUE (1)` if it cannot.
    pub fn set_access(&self, device: DeviceOrdinal) -> Result<()> {
        let (operation, context) = ("setting the access to mapped memory", &self.range.context);
        // SAFETY: all of it is mapped.
        let set = unsafe { context.driver().memory_set_access(self.address(), self.memory.bytes, device, true) };
        set.during(operation, || context.place()).map_err(Error::of_another_capture)
    }

    /// Where it begins in the range.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Where it ends in the range.
    pub fn end(&self) -> usize {
        self.offset + self.memory.bytes
    }

    fn address(&self) -> DevicePointer {
        self.range.address.byte_add(self.offset)
    }
}

impl Drop for MappingCore {
    fn drop(&mut self) {
        let (range, memory, address) = (self.range.clone(), self.memory.clone(), self.address());
        attempt_when_idle(&self.range.context, move || {
            let context = &range.context;
            // SAFETY: the context is idle, and whoever used the memory has dropped it.
            let unmapped = unsafe { context.driver().memory_unmap(address, memory.bytes) };
            drop_error::report(unmapped.during("unmapping memory", || context.place()));
        });
    }
}

impl Drop for PhysicalMemoryCore {
    fn drop(&mut self) {
        let (context, handle) = (self.context.clone(), self.handle);
        reaper::now_or_later(move || {
            // SAFETY: no mapping holds it any more.
            let released = unsafe { context.driver().physical_memory_release(handle) };
            drop_error::report(released.during("freeing physical memory", || context.place()));
        });
    }
}

impl Drop for AddressRangeCore {
    fn drop(&mut self) {
        let (context, address, bytes) = (self.context.clone(), self.address, self.bytes);
        reaper::now_or_later(move || {
            // SAFETY: no mapping holds it any more.
            let freed = unsafe { context.driver().address_free(address, bytes) };
            drop_error::report(freed.during("giving addresses back", || context.place()));
        });
    }
}

impl fmt::Debug for PhysicalMemoryCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes of {}", self.bytes, self.context.place())
    }
}

impl fmt::Debug for AddressRangeCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes at {:?} of {}", self.bytes, self.address, self.context.place())
    }
}
