//! Memory of other processes: what this process can tell alone.

use crate::case::{Case, Need, Verdict, holds, refused};
use crate::environment::Environment;
use anabranch::hal::InterprocessMemoryHandle;
use anabranch::{Buffer, Capabilities, MemoryPoolOptions, Status};

const PLAIN: &[Need] = &[Need::Capability(Capabilities::INTERPROCESS_MEMORY)];
const WITHOUT: &[Need] = &[Need::Without(Capabilities::INTERPROCESS_MEMORY)];
const POOLS: &[Need] = &[Need::Capability(Capabilities::INTERPROCESS_POOLS)];
const WITHOUT_POOLS: &[Need] =
    &[Need::Capability(Capabilities::MEMORY_POOLS), Need::Without(Capabilities::INTERPROCESS_POOLS)];

pub(super) const CASES: &[Case] = &[
    Case::new("interprocess.which_memory_is_exported", "M8", which_memory_is_exported)
        .needs(&[Need::Capability(Capabilities::MEMORY_POOLS)]),
    Case::new("interprocess.one_handle_for_one_memory", "M8", one_handle_for_one_memory).needs(PLAIN),
    Case::new("interprocess.opened_where_it_was_exported", "M8", opened_where_it_was_exported).needs(PLAIN),
    Case::new("interprocess.bytes_of_nobody", "M8", bytes_of_nobody).needs(PLAIN),
    Case::new("interprocess.memory_of_a_pool", "M8", memory_of_a_pool).needs(POOLS),
    Case::new("interprocess.without", "M8", without).needs(WITHOUT),
    Case::new("interprocess.without_pools", "M8", without_pools).needs(WITHOUT_POOLS),
];

fn which_memory_is_exported(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let buffer = stream.allocate_zeroed::<u32>(4)?;
    refused("of the default pool", buffer.export(), Status::INVALID_VALUE)?;
    refused("of the default pool, as such", buffer.export_from_pool(), Status::INVALID_VALUE)?;
    let pool = environment.device().create_memory_pool(&MemoryPoolOptions::default())?;
    let of_pool = stream.allocate_zeroed_from::<u32>(&pool, 4)?;
    refused("of a pool of this process", of_pool.export_from_pool(), Status::INVALID_VALUE)?;
    let plain = context.allocate_zeroed::<u32>(&stream, 4)?;
    refused("plain memory as that of a pool", plain.export_from_pool(), Status::INVALID_VALUE)?;
    let empty = context.allocate_zeroed::<u32>(&stream, 0)?;
    refused("no bytes", empty.export(), Status::INVALID_VALUE)?;
    // SAFETY: the keeper has so many numbers there, and uses them no more.
    let foreign = unsafe { Buffer::<u32>::from_raw_parts(context, plain.device_pointer(), 4, plain)? };
    refused("of another library", foreign.export(), Status::INVALID_VALUE)
}

fn one_handle_for_one_memory(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let [one, other] = [context.allocate_zeroed::<u8>(&stream, 5 << 20)?, context.allocate_zeroed(&stream, 5 << 20)?];
    holds("other memory", one.export()? != other.export()?)
}

fn opened_where_it_was_exported(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let exported = context.allocate_zeroed::<u32>(&stream, 4)?;
    let handle = exported.export()?;
    // SAFETY: it is refused.
    refused("opening it here", unsafe { Buffer::<u32>::open(context, &handle, 4) }, Status::INVALID_CONTEXT)
}

fn bytes_of_nobody(environment: &Environment) -> Verdict {
    // SAFETY: it is refused.
    let opened = unsafe { Buffer::<u32>::open(environment.context(), &InterprocessMemoryHandle([0x5a; 64]), 4) };
    holds("refused", opened.is_err())
}

fn memory_of_a_pool(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let pool = environment
        .device()
        .create_memory_pool(&MemoryPoolOptions { interprocess: true, ..MemoryPoolOptions::default() })?;
    let buffer = stream.allocate_zeroed_from::<u32>(&pool, 4)?;
    stream.synchronize()?;
    buffer.export_from_pool()?;
    refused("by a handle of its own", buffer.export(), Status::INVALID_VALUE)
}

fn without(environment: &Environment) -> Verdict {
    let (context, stream) = (environment.context(), environment.stream()?);
    let plain = context.allocate_zeroed::<u32>(&stream, 4)?;
    refused("exporting", plain.export(), Status::NOT_SUPPORTED)?;
    // SAFETY: it is refused.
    let opened = unsafe { Buffer::<u32>::open(context, &InterprocessMemoryHandle([0; 64]), 4) };
    refused("opening", opened, Status::NOT_SUPPORTED)
}

fn without_pools(environment: &Environment) -> Verdict {
    let options = MemoryPoolOptions { interprocess: true, ..MemoryPoolOptions::default() };
    refused("creating one", environment.device().create_memory_pool(&options), Status::NOT_SUPPORTED)
}
