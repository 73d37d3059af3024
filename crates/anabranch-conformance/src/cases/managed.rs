//! Managed memory.

use super::memory_gate::opened_during;
use super::memory_raw::{Raw, address};
use crate::case::{Case, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use anabranch::{Capabilities, LaunchConfig, Status};

const MANAGED: &[Need] = &[Need::Capability(Capabilities::MANAGED_MEMORY)];
const CONCURRENT: &[Need] = &[Need::Capability(Capabilities::CONCURRENT_MANAGED_ACCESS)];

pub(super) const CASES: &[Case] = &[
    Case::new("managed.begins_with_zeros", "M1", begins_with_zeros).needs(MANAGED),
    Case::new("managed.host_and_kernel", "M1", host_and_kernel).needs(MANAGED),
    Case::new("managed.host_waits_for_the_kernel", "M1", host_waits_for_the_kernel).needs(CONCURRENT),
    Case::new("managed.prefetch_changes_nothing", "M1", prefetch_changes_nothing).needs(CONCURRENT),
    Case::new("managed.of_no_bytes", "X2", of_no_bytes).needs(MANAGED),
    Case::new("managed.freed_in_stream_order", "X2", freed_in_stream_order).needs(MANAGED),
    Case::new("managed.none_to_be_had", "X2", none_to_be_had).needs(&[Need::Without(Capabilities::MANAGED_MEMORY)]),
];

fn begins_with_zeros(environment: &Environment) -> Verdict {
    let buffer = environment.context().allocate_managed::<u64>(5001)?;
    holds("on the host", buffer.as_slice()?.iter().all(|&word| word == 0))?;
    equal("on the device", environment.stream()?.download(&buffer)?, vec![0; 5001])
}

fn host_and_kernel(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let (mut source, mut destination) =
        (context.allocate_managed::<f32>(1000)?, context.allocate_managed::<f32>(1000)?);
    let (scale, config) = (environment.kernel("scale")?, LaunchConfig::for_elements(1000));
    for round in 1..4u16 {
        source.as_mut_slice()?.fill(f32::from(round));
        // SAFETY: `scale` reads and writes as many numbers as its last argument says.
        unsafe { stream.launch(&scale, &config, (&mut destination, &source, 0.5f32, 1000u32))? };
        equal("result", destination.as_slice()?.to_vec(), vec![f32::from(round) * 0.5; 1000])?;
    }
    Ok(stream.synchronize()?)
}

fn host_waits_for_the_kernel(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = environment.context().allocate_managed::<u32>(1)?;
    let (store, gate) = (environment.kernel("store")?, Gate::shut(environment, &stream)?);
    // SAFETY: `store` writes only the number that its first argument points to.
    unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (&mut buffer, 8u32))? };
    let found = opened_during(&gate, || buffer.as_slice().map(<[u32]>::to_vec))?;
    equal("what was read", found, vec![8])?;
    Ok(stream.synchronize()?)
}

fn prefetch_changes_nothing(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut buffer = environment.context().allocate_managed::<u32>(10_001)?;
    buffer.as_mut_slice()?.fill(0xdead_beef);
    for to_host in [false, true, false] {
        stream.prefetch(&buffer, to_host)?;
        equal("contents", stream.download(&buffer)?, vec![0xdead_beef; 10_001])?;
    }
    equal("on the host", buffer.as_slice()?.to_vec(), vec![0xdead_beef; 10_001])
}

fn of_no_bytes(environment: &Environment) -> Verdict {
    equal("allocating 0 bytes", Raw::new(environment)?.allocate_managed(0), Err(Status::INVALID_VALUE))
}

fn freed_in_stream_order(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    let memory = address("allocating", raw.allocate_managed(4096))?;
    // SAFETY: nothing uses the memory; the first call is refused.
    let (ordered, plain) = unsafe { (raw.free_async(memory), raw.free(memory)) };
    equal("in stream order", ordered, Status::NOT_SUPPORTED)?;
    equal("then a plain free", plain, Status::SUCCESS)
}

fn none_to_be_had(environment: &Environment) -> Verdict {
    refused("allocating", environment.context().allocate_managed::<u8>(64), Status::NOT_SUPPORTED)
}
