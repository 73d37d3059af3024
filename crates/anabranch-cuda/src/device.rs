//! Devices and what they can do (Driver API, group DEVICE).

use crate::driver::CudaDriver;
use crate::error::check;
use crate::ffi::Zeroed;
use crate::ffi::cuda_types::*;
use crate::handles::unsigned;
use anabranch_hal::{
    Capabilities, Contexts, DeviceOrdinal, DeviceProperties, Devices, Live, PriorityRange, Result, Status,
};
use std::ffi::{CStr, c_char, c_int};

/// The range of devices that have stream priorities.
const USUAL_PRIORITIES: PriorityRange = PriorityRange { least: 0, greatest: -5 };

impl CudaDriver {
    fn device_attribute(&self, device: CUdevice, attribute: CUdevice_attribute) -> Result<u32> {
        let mut value = 0;
        // SAFETY: the device is one of this driver.
        check(unsafe { self.functions.cuDeviceGetAttribute(&mut value, attribute, device) })?;
        // No attribute that is asked for here is ever negative.
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Whether an attribute is not zero. One that an older driver does not know counts as zero.
    fn device_can(&self, device: CUdevice, attribute: CUdevice_attribute) -> Result<bool> {
        Ok(self.device_mask(device, attribute)? != 0)
    }

    /// An attribute, or 0 if it is one that an older driver does not know.
    fn device_mask(&self, device: CUdevice, attribute: CUdevice_attribute) -> Result<u32> {
        match self.device_attribute(device, attribute) {
            Err(failure) if failure.status == Status::INVALID_VALUE => Ok(0),
            value => value,
        }
    }

    fn device_name(&self, device: CUdevice) -> Result<String> {
        let mut name = [0; 256];
        let length = name.len() as c_int;
        // SAFETY: the buffer is as long as stated; the driver writes a text with a terminator into it.
        check(unsafe { self.functions.cuDeviceGetName(name.as_mut_ptr(), length, device) })?;
        Ok(text(&name))
    }

    fn device_uuid(&self, device: CUdevice) -> Result<[u8; 16]> {
        let mut uuid = CUuuid::zeroed();
        // SAFETY: the device is one of this driver.
        check(unsafe { self.functions.cuDeviceGetUuid(&mut uuid, device) })?;
        Ok(uuid.bytes.map(unsigned))
    }

    /// None where the device is not on a PCI bus.
    fn device_pci_bus_id(&self, device: CUdevice) -> Option<String> {
        let mut address = [0; 64];
        let length = address.len() as c_int;
        // SAFETY: the buffer is as long as stated; the driver writes a text with a terminator into it.
        check(unsafe { self.functions.cuDeviceGetPCIBusId(address.as_mut_ptr(), length, device) }).ok()?;
        Some(text(&address))
    }

    fn device_total_memory(&self, device: CUdevice) -> Result<u64> {
        let mut bytes = 0;
        // SAFETY: the device is one of this driver.
        check(unsafe { self.functions.cuDeviceTotalMem(&mut bytes, device) })?;
        Ok(bytes as u64)
    }

    fn device_capabilities(&self, device: CUdevice) -> Result<Capabilities> {
        let by_attribute = [
            (Capabilities::MEMORY_POOLS, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED),
            (Capabilities::MANAGED_MEMORY, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY),
            (Capabilities::CONCURRENT_MANAGED_ACCESS, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
            (Capabilities::COOPERATIVE_LAUNCH, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH),
            (Capabilities::CLUSTER_LAUNCH, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH),
            (
                Capabilities::STREAM_VALUE_64.union(Capabilities::FAST_VALUE_WRITES),
                CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS,
            ),
            (Capabilities::STREAM_WAIT_VALUE_NOR, CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR),
            (
                Capabilities::INTERPROCESS_EVENTS.union(Capabilities::INTERPROCESS_MEMORY),
                CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED,
            ),
            (Capabilities::VIRTUAL_MEMORY, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
            (Capabilities::ACCESS_POLICY_WINDOW, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE),
            (Capabilities::UNIFIED_ADDRESSING, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING),
            (Capabilities::ATOMIC_REDUCTION, CU_DEVICE_ATTRIBUTE_ATOMIC_REDUCTION_SUPPORTED),
            (Capabilities::TENSOR_MAPS, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED),
            (Capabilities::FLUSH_REMOTE_WRITES, CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES),
            (Capabilities::REGISTERED_HOST_ADDRESS, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
        ];
        let mut capabilities =
            Capabilities::CUDA_MODULES | Capabilities::PTX_MODULES | Capabilities::BACKGROUND_PROGRESS;
        for (capability, attribute) in by_attribute {
            capabilities.set(capability, self.device_can(device, attribute)?);
        }
        capabilities.set(Capabilities::PARAMETER_INFO, self.functions.cuFuncGetParamInfo.is_some());
        let kinds = CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
        let by_descriptor = self.device_mask(device, kinds)? & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR != 0;
        capabilities.set(Capabilities::INTERPROCESS_POOLS, by_descriptor);
        // What is imported is imported by file descriptors.
        capabilities.set(Capabilities::EXTERNAL_MEMORY, cfg!(unix));
        let timelines = self.device_can(device, CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED)?;
        capabilities.set(Capabilities::EXTERNAL_SEMAPHORES, cfg!(unix) && timelines);
        capabilities.set(Capabilities::GREEN_CONTEXTS, self.functions.cuGreenCtxStreamCreate.is_some());
        capabilities.set(Capabilities::RECAPTURE, self.functions.cuStreamBeginRecaptureToGraph.is_some());
        Ok(capabilities)
    }

    /// The range can only be asked of a context. See the crate's documentation on portability.
    fn device_priority_range(&self, device: DeviceOrdinal, raw: CUdevice) -> Result<PriorityRange> {
        if !self.device_can(raw, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED)? {
            return Ok(PriorityRange { least: 0, greatest: 0 });
        }
        if !self.primary_context_is_active(device)? {
            return Ok(USUAL_PRIORITIES);
        }
        // A context that is lost cannot be asked.
        Ok(self.ask_for_priority_range(device).unwrap_or(USUAL_PRIORITIES))
    }

    fn ask_for_priority_range(&self, device: DeviceOrdinal) -> Result<PriorityRange> {
        let context = self.primary_context_retain(device)?;
        // SAFETY: the context is retained until it is released below.
        let context = unsafe { Live::new(context) };
        let range = self.bind(context).and_then(|_bound| {
            let (mut least, mut greatest) = (0, 0);
            // SAFETY: the context is current.
            check(unsafe { self.functions.cuCtxGetStreamPriorityRange(&mut least, &mut greatest) })?;
            Ok(PriorityRange { least, greatest })
        });
        // SAFETY: this releases what was retained above, and nothing was made in the context.
        unsafe { self.primary_context_release(device) }?;
        range
    }
}

/// The text in a buffer that the driver has written, up to its terminator.
fn text(buffer: &[c_char]) -> String {
    let bytes: Vec<u8> = buffer.iter().copied().map(unsigned).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Devices for CudaDriver {
    fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: the result is written to a variable that outlives the call.
        check(unsafe { self.functions.cuDeviceGetCount(&mut count) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn device_properties(&self, device: DeviceOrdinal) -> Result<DeviceProperties> {
        let raw = self.raw_device(device)?;
        let attribute = |attribute| self.device_attribute(raw, attribute);
        let capabilities = self.device_capabilities(raw)?;
        Ok(DeviceProperties {
            name: self.device_name(raw)?,
            uuid: self.device_uuid(raw)?,
            pci_bus_id: self.device_pci_bus_id(raw),
            compute_capability: (
                attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            total_memory: self.device_total_memory(raw)?,
            multiprocessor_count: attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            warp_size: attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
            max_threads_per_block: attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            max_block_dimensions: [
                attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
                attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
                attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
            ],
            max_grid_dimensions: [
                attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
                attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
                attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
            ],
            max_shared_memory_per_block: attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
            max_shared_memory_per_block_optin: attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            priority_range: self.device_priority_range(device, raw)?,
            capabilities,
        })
    }

    fn device_can_access_peer(&self, device: DeviceOrdinal, peer: DeviceOrdinal) -> Result<bool> {
        let (device, peer) = (self.raw_device(device)?, self.raw_device(peer)?);
        let mut can_access = 0;
        // SAFETY: both are devices of this driver.
        check(unsafe { self.functions.cuDeviceCanAccessPeer(&mut can_access, device, peer) })?;
        Ok(can_access != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::handles::signed;

    #[test]
    fn a_text_ends_at_its_terminator() {
        let buffer = [b'H', b'1', b'0', b'0', 0, b'?'].map(signed);
        assert_eq!(text(&buffer), "H100");
        assert_eq!(text(&[]), "");
    }
}
