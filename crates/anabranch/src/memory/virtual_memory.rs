//! Virtual memory: addresses that are reserved before there is memory, and memory that is mapped there.

use super::Buffer;
use crate::context::Context;
use crate::device::Device;
use crate::error::{Error, Result};
use anabranch_core::keeper::Keeper;
use anabranch_core::memory::{Allocation, byte_size};
use anabranch_core::virtual_memory::{AddressRangeCore, MappingCore, PhysicalMemoryCore, granularity};
use anabranch_hal::Status;
use bytemuck::Pod;
use std::fmt;
use std::sync::Arc;

const OPERATION: &str = "using mapped memory";

/// Memory of a device without an address, which can be [mapped](AddressRange::map) to several. It is freed when this and all
/// its mappings are gone. Its contents are unspecified at first. Follows `cuMemCreate`.
pub struct PhysicalMemory {
    core: Arc<PhysicalMemoryCore>,
}

/// Reserved addresses, to which memory can be mapped piece by piece, so that a buffer can grow where it is.
///
/// Nothing is unmapped that is in use: a mapping is undone when it is [unmapped](Self::unmap) or the range is dropped, every
/// buffer that has some of it, and every graph that uses these, is gone, their last use is complete, and the context is
/// idle. The addresses are given back after that. Follows the Driver API's group *Virtual Memory Management*.
///
/// ```no_run
/// # use anabranch::Buffer;
/// # let context = anabranch::Instance::new()?.device("cuda:0")?.context()?;
/// # let stream = context.create_stream()?;
/// let granularity = context.physical_memory_granularity()?;
/// let mut range = context.reserve_addresses(100 * granularity)?;
/// range.map(0, &context.create_physical_memory(granularity)?)?;
/// range.map(granularity, &context.create_physical_memory(granularity)?)?;
/// // SAFETY: no other buffer has any of it, and it is filled before it is read.
/// let mut buffer: Buffer<u8> = unsafe { range.buffer(0, 2 * granularity)? };
/// stream.fill(&mut buffer, 0)?;
/// # Ok::<(), anabranch::Error>(())
/// ```
pub struct AddressRange {
    core: Arc<AddressRangeCore>,
    context: Context,
    /// In the order of their offsets.
    mappings: Vec<Arc<MappingCore>>,
}

impl Context {
    /// The number of bytes that the sizes of physical memory and of address ranges, and offsets in these, are multiples of.
    /// Follows `cuMemGetAllocationGranularity`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no virtual memory, as the
    /// software device.
    pub fn physical_memory_granularity(&self) -> Result<usize> {
        granularity(self.core())
    }

    /// Allocates memory of the context's device without an address.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no virtual memory;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for a size that is 0 or no multiple of the
    /// [granularity](Self::physical_memory_granularity);
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there is not enough memory.
    pub fn create_physical_memory(&self, bytes: usize) -> Result<PhysicalMemory> {
        Ok(PhysicalMemory { core: PhysicalMemoryCore::create(self.core(), bytes)? })
    }

    /// Reserves addresses, to which nothing is mapped yet. Follows `cuMemAddressReserve`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_SUPPORTED (801)`](crate::Status::NOT_SUPPORTED) if the device has no virtual memory;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) for a size that is 0 or no multiple of the
    /// [granularity](Self::physical_memory_granularity);
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if there are not so many addresses.
    pub fn reserve_addresses(&self, bytes: usize) -> Result<AddressRange> {
        let core = AddressRangeCore::reserve(self.core(), bytes)?;
        Ok(AddressRange { core, context: self.clone(), mappings: Vec::new() })
    }
}

impl AddressRange {
    /// Maps all of the memory at an offset in bytes. The context's device can access it. Follows `cuMemMap` and
    /// `cuMemSetAccess`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_HANDLE (400)`](crate::Status::INVALID_HANDLE) for memory of another context;
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if it extends past the end of the range, if something is
    /// mapped there, or for an offset that is no multiple of the [granularity](Context::physical_memory_granularity).
    pub fn map(&mut self, offset: usize, memory: &PhysicalMemory) -> Result<()> {
        let mapping = MappingCore::map(&self.core, offset, &memory.core)?;
        let at = self.mappings.partition_point(|known| known.offset() < offset);
        self.mappings.insert(at, mapping);
        Ok(())
    }

    /// Unmaps what was mapped at an offset, when no buffer has any of it and the context is idle. Until then nothing else can
    /// be mapped there; [`flush_deferred_drops`](crate::flush_deferred_drops) waits for it. Returns whether something was
    /// mapped at that offset.
    pub fn unmap(&mut self, offset: usize) -> bool {
        let at = self.mappings.iter().position(|known| known.offset() == offset);
        at.map(|at| self.mappings.remove(at)).is_some()
    }

    /// Lets kernels and copies of another device access all that is mapped now.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) for a device of another driver;
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) or
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if it cannot access this device's memory.
    pub fn allow_peer_access(&mut self, peer: &Device) -> Result<()> {
        let device = self.core.context().device();
        if !device.same_driver(peer.core()) {
            return Err(device.refuse_other_driver(peer.core(), "setting the access to mapped memory"));
        }
        self.mappings.iter().try_for_each(|mapping| mapping.set_access(peer.core().ordinal()))
    }

    /// A buffer of `length` elements from an offset in bytes. All of that is mapped, and stays mapped as long as the buffer is
    /// used.
    ///
    /// # Safety
    /// Work that reads an element follows work that has written it. No other buffer has any of the memory, here or where else
    /// the same physical memory is mapped, while work uses it.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if not all of it is mapped, or the offset is not aligned
    /// for the elements; [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) for more elements than the address
    /// space has.
    #[track_caller]
    pub unsafe fn buffer<T: Pod>(&self, offset: usize, length: usize) -> Result<Buffer<T>> {
        let bytes = byte_size::<T>(length, OPERATION)?;
        let refuse = |message: String, hint: &'static str| {
            let error = Error::argument(Status::INVALID_VALUE, OPERATION, message).with_hint(hint);
            Err(error.at(self.context.core().place()))
        };
        let address = self.core.address().byte_add(offset);
        if !address.0.is_multiple_of(align_of::<T>() as u64) {
            let message = format!("{address:?} is not aligned to the {} bytes of the elements", align_of::<T>());
            return refuse(message, "use an offset that is a multiple of the size of the elements");
        }
        let (mut reached, mut kept) = (offset, Vec::new());
        let end = offset.saturating_add(bytes);
        for mapping in &self.mappings {
            if mapping.offset() <= reached && reached < mapping.end() && reached < end {
                reached = mapping.end();
                kept.push(mapping.clone());
            }
        }
        if reached < end {
            let message = format!("the {bytes} bytes at {offset} are not all mapped: none are at {reached}");
            return refuse(message, "map memory there first, or use fewer elements");
        }
        let memory = Allocation::foreign(self.context.core(), address, bytes, Keeper::new(kept));
        Ok(Buffer::of_others(memory, length))
    }
}

impl fmt::Debug for PhysicalMemory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "PhysicalMemory({:?})", self.core)
    }
}

impl fmt::Debug for AddressRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AddressRange({:?}, {} mappings)", self.core, self.mappings.len())
    }
}
