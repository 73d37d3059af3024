//! Attributes of devices by their numbers.

use anabranch::hal::{Capabilities, DeviceProperties};

/// The value of an attribute of `CUdevice_attribute`, or `None` if the driver contract does not say it.
pub(super) fn of(properties: &DeviceProperties, attribute: u32) -> Option<i64> {
    let has = |capability| i64::from(properties.capabilities.contains(capability));
    Some(match attribute {
        1 => properties.max_threads_per_block.into(),
        2..=4 => properties.max_block_dimensions[attribute as usize - 2].into(),
        5..=7 => properties.max_grid_dimensions[attribute as usize - 5].into(),
        8 => properties.max_shared_memory_per_block.into(),
        10 => properties.warp_size.into(),
        16 => properties.multiprocessor_count.into(),
        33 => address_part(properties, 1)?,
        34 => address_part(properties, 2)?,
        50 => address_part(properties, 0)?,
        41 => has(Capabilities::UNIFIED_ADDRESSING),
        75 => properties.compute_capability.0.into(),
        76 => properties.compute_capability.1.into(),
        78 => i64::from(properties.priority_range.least != properties.priority_range.greatest),
        83 => has(Capabilities::MANAGED_MEMORY),
        89 => has(Capabilities::CONCURRENT_MANAGED_ACCESS),
        91 => has(Capabilities::REGISTERED_HOST_ADDRESS),
        95 => has(Capabilities::COOPERATIVE_LAUNCH),
        97 => properties.max_shared_memory_per_block_optin.into(),
        98 => has(Capabilities::FLUSH_REMOTE_WRITES),
        115 => has(Capabilities::MEMORY_POOLS),
        119 => has(Capabilities::INTERPROCESS_POOLS),
        _ => return None,
    })
}

/// A number of the address of a device, such as `0000:01:00.0`.
fn address_part(properties: &DeviceProperties, index: usize) -> Option<i64> {
    let address = properties.pci_bus_id.as_deref()?;
    i64::from_str_radix(address.split([':', '.']).nth(index)?, 16).ok()
}
