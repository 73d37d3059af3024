//! `anabranch devices`.

use crate::arguments::DevicesOptions;
use crate::output::{self, Failure};
use anabranch::{Capabilities, Device, DeviceProperties, Instance};
use serde_json::{Value, json};
use std::process::ExitCode;

pub(crate) fn run(options: &DevicesOptions) -> Result<ExitCode, Failure> {
    let instance = Instance::new()?;
    if options.json {
        output::json(&as_json(&instance))?;
    } else {
        for text in instance.devices().iter().map(as_text) {
            output::line(&text)?;
        }
        for absent in instance.absent_backends() {
            output::line(&format!("{}: not available: {}", absent.backend, one_line(&absent.absence.to_string())))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn as_text(device: &Device) -> String {
    let properties = device.properties();
    let mut text = format!("{device}: {}", properties.name);
    let mut add = |name: &str, value: String| text.push_str(&format!("\n  {name:<20} {value}"));
    add("memory", size(properties.total_memory));
    if properties.compute_capability != (0, 0) {
        let (major, minor) = properties.compute_capability;
        add("compute capability", format!("{major}.{minor}"));
    }
    add("interface", format!("CUDA {}", device.driver_version()));
    add("UUID", uuid(properties));
    if let Some(address) = &properties.pci_bus_id {
        add("PCI address", address.clone());
    }
    add("multiprocessors", properties.multiprocessor_count.to_string());
    add("threads of a warp", properties.warp_size.to_string());
    let extents = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
    add(
        "largest block",
        format!("{} threads within {}", properties.max_threads_per_block, extents(properties.max_block_dimensions)),
    );
    add("largest grid", format!("{} blocks", extents(properties.max_grid_dimensions)));
    let shared = |bytes| size(u64::from(bytes));
    add(
        "shared memory",
        format!(
            "{} for each block, {} on request",
            shared(properties.max_shared_memory_per_block),
            shared(properties.max_shared_memory_per_block_optin)
        ),
    );
    let range = properties.priority_range;
    add("stream priorities", format!("{} (most urgent) to {} (least urgent)", range.greatest, range.least));
    let names: Vec<String> = capabilities(properties.capabilities).map(|name| name.replace('_', " ")).collect();
    add("capabilities", names.join(", "));
    text
}

fn as_json(instance: &Instance) -> Value {
    let devices: Vec<Value> = instance.devices().iter().map(device_as_json).collect();
    let absent = instance.absent_backends().iter().map(|absent| {
        json!({
            "backend": absent.backend.name(),
            "reason": absent.absence.reason,
            "remedy": absent.absence.remedy,
        })
    });
    json!({ "devices": devices, "absent": absent.collect::<Vec<Value>>() })
}

fn device_as_json(device: &Device) -> Value {
    let properties = device.properties();
    let (version, range) = (device.driver_version(), properties.priority_range);
    let (major, minor) = properties.compute_capability;
    json!({
        "device": device.to_string(),
        "backend": device.backend().name(),
        "ordinal": device.ordinal().0,
        "name": properties.name,
        "uuid": uuid(properties),
        "pci_bus_id": properties.pci_bus_id,
        "compute_capability": [major, minor],
        "driver_version": [version.major, version.minor],
        "total_memory": properties.total_memory,
        "multiprocessor_count": properties.multiprocessor_count,
        "warp_size": properties.warp_size,
        "max_threads_per_block": properties.max_threads_per_block,
        "max_block_dimensions": properties.max_block_dimensions,
        "max_grid_dimensions": properties.max_grid_dimensions,
        "max_shared_memory_per_block": properties.max_shared_memory_per_block,
        "max_shared_memory_per_block_optin": properties.max_shared_memory_per_block_optin,
        "priority_range": { "least": range.least, "greatest": range.greatest },
        "capabilities": capabilities(properties.capabilities).collect::<Vec<String>>(),
    })
}

fn capabilities(capabilities: Capabilities) -> impl Iterator<Item = String> {
    capabilities.iter_names().map(|(name, _)| name.to_lowercase())
}

/// In the groups of digits that other tools print.
fn uuid(properties: &DeviceProperties) -> String {
    let mut text = String::new();
    for (index, byte) in properties.uuid.iter().enumerate() {
        if [4, 6, 8, 10].contains(&index) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            let text = format!("{:.1}", bytes as f64 / unit as f64);
            return format!("{} {name}", text.trim_end_matches(".0"));
        }
    }
    format!("{bytes} bytes")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_are_rounded_to_what_one_can_read() {
        for (bytes, expected) in [(0, "0 bytes"), (1023, "1023 bytes"), (48 << 10, "48 KiB"), (3 << 29, "1.5 GiB")] {
            assert_eq!(size(bytes), expected);
        }
    }
}
