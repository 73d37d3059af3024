//! How far captures reach: which launches invalidate them, and what they prohibit.

use super::capture_order_calls::Work;
use super::capture_raw::Place;
use super::capture_tools::{Bench, INVALIDATED, MODES, OK, UNSUPPORTED, answer};
use crate::case::{Case, Need, Verdict, equal, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{Launch, Live, PinnedFlags, StreamHandle};
use anabranch::{
    Capabilities, CaptureMode, CaptureStatus, ContextFlags, DevicePointer, EventFlags, EventRecordFlags,
    MemoryPoolAttribute, MemoryPoolOptions, Status, StreamFlags,
};

pub(super) const CASES: &[Case] = &[
    Case::new("capture.bad_cooperative_grid_invalidates", "C9", bad_cooperative_grid_invalidates).needs(COOPERATIVE),
    Case::new("capture.bad_cluster_invalidates", "C9", bad_cluster_invalidates).needs(CLUSTERS),
    Case::new("capture.cluster_of_nothing", "C9", cluster_of_nothing).needs(CLUSTERS),
    Case::new("capture.launch_without_arguments", "C9", launch_without_arguments),
    Case::new("capture.another_context_is_synchronized", "C7", another_context_is_synchronized),
    Case::new("capture.context_of_a_fork_is_synchronized", "C7", context_of_a_fork_is_synchronized),
    Case::new("capture.context_of_a_destroyed_fork_is_used", "C7", context_of_a_destroyed_fork_is_used),
    Case::new("capture.prohibited_before_arguments", "C13", prohibited_before_arguments),
    Case::new("capture.prohibited_before_arguments_of_pools", "C13", prohibited_before_arguments_of_pools).needs(POOLS),
    Case::new("capture.prohibited_pool_attributes", "C3", prohibited_pool_attributes).needs(POOLS),
    Case::new("capture.prohibited_pool_access", "C3", prohibited_pool_access).needs(POOLS),
];

const COOPERATIVE: &[Need] = &[Need::Capability(Capabilities::COOPERATIVE_LAUNCH)];
const CLUSTERS: &[Need] = &[Need::Capability(Capabilities::CLUSTER_LAUNCH)];
const POOLS: &[Need] = &[Need::Capability(Capabilities::MEMORY_POOLS)];

/// Checks what a launch returns in a capturing stream, and whether it invalidates the capture.
fn launched(environment: &Environment, change: fn(&mut Launch<'_>), status: Status, invalidates: bool) -> Verdict {
    let work = Work::new(environment)?;
    for mode in MODES {
        let stream = Place::primary(environment).free_stream()?;
        stream.begin(mode)?;
        equal("launching", work.launch(stream.live(), change), status)?;
        if invalidates {
            stream.ends("a launch", CaptureStatus::Invalidated, INVALIDATED)?;
        } else {
            stream.ends("a launch", CaptureStatus::Active, OK)?;
        }
    }
    Ok(())
}

fn bad_cooperative_grid_invalidates(environment: &Environment) -> Verdict {
    let change = |launch: &mut Launch<'_>| (launch.grid, launch.cooperative) = ([1 << 20, 1, 1], true);
    launched(environment, change, Status::COOPERATIVE_LAUNCH_TOO_LARGE, true)
}

fn bad_cluster_invalidates(environment: &Environment) -> Verdict {
    launched(environment, |launch| launch.cluster = Some([2, 1, 1]), Status::INVALID_CLUSTER_SIZE, true)?;
    let change = |launch: &mut Launch<'_>| (launch.grid, launch.cluster) = ([17, 1, 1], Some([17, 1, 1]));
    launched(environment, change, Status::INVALID_CLUSTER_SIZE, true)
}

/// Not a configuration that the device cannot run, but none at all.
fn cluster_of_nothing(environment: &Environment) -> Verdict {
    launched(environment, |launch| launch.cluster = Some([0, 1, 1]), Status::INVALID_CLUSTER_SIZE, false)
}

fn launch_without_arguments(environment: &Environment) -> Verdict {
    launched(environment, |launch| launch.arguments = &[], Status::INVALID_VALUE, false)
}

/// The capture is none of that context's, whatever it prohibits otherwise.
fn another_context_is_synchronized(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (driver, context) = (environment.device().driver(), other.live());
    for mode in MODES {
        let stream = Place::primary(environment).free_stream()?;
        stream.begin(mode)?;
        equal("synchronizing", status_of(driver.context_synchronize(&context.into())), OK)?;
        stream.ends("synchronizing another context", CaptureStatus::Active, OK)?;
    }
    Ok(())
}

fn context_of_a_fork_is_synchronized(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (driver, context) = (environment.device().driver(), other.live());
    let place = Place::primary(environment);
    for mode in MODES {
        let (stream, fork) = (place.free_stream()?, Place::new(environment, &other).free_stream()?);
        let event = place.event(EventFlags::DISABLE_TIMING)?;
        stream.begin(mode)?;
        equal("recording", stream.record(&event, EventRecordFlags::empty()), OK)?;
        equal("waiting", fork.wait(&event), OK)?;
        equal("synchronizing", status_of(driver.context_synchronize(&context.into())), UNSUPPORTED)?;
        stream.ends("synchronizing the context of a fork", CaptureStatus::Invalidated, INVALIDATED)?;
    }
    Ok(())
}

/// Its legacy stream can be used then, too.
fn context_of_a_destroyed_fork_is_used(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (driver, context) = (environment.device().driver(), other.live());
    let (place, elsewhere) = (Place::primary(environment), Place::new(environment, &other));
    for mode in MODES {
        let (stream, fork) = (place.free_stream()?, elsewhere.stream(StreamFlags::empty())?);
        let event = place.event(EventFlags::DISABLE_TIMING)?;
        stream.begin(mode)?;
        equal("recording", stream.record(&event, EventRecordFlags::empty()), OK)?;
        equal("waiting", fork.wait(&event), OK)?;
        equal("destroying the fork", fork.destroy(), OK)?;
        equal("synchronizing", status_of(driver.context_synchronize(&context.into())), OK)?;
        let (again, legacy) = (elsewhere.event(EventFlags::DISABLE_TIMING)?, Live::<StreamHandle>::LEGACY);
        let recorded = driver.event_record(&context.into(), again.live(), legacy, EventRecordFlags::empty());
        equal("recording in the legacy stream", status_of(recorded), OK)?;
        stream.ends("destroying a fork", CaptureStatus::Active, OK)?;
    }
    Ok(())
}

/// Calls that a capture prohibits, and that would otherwise do nothing or refuse their arguments.
fn prohibited_before_arguments(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let calls: [(&str, &dyn Fn() -> Status); 4] = [
        ("allocating nothing", &|| status_of(driver.allocate(&context.into(), 0))),
        ("allocating no pinned memory", &|| {
            status_of(driver.allocate_pinned(&context.into(), 0, PinnedFlags::empty()))
        }),
        ("freeing nothing", &|| {
            // SAFETY: the null address is no memory.
            status_of(unsafe { driver.free(&context.into(), DevicePointer::NULL) })
        }),
        ("freeing garbage", &|| {
            // SAFETY: the driver refuses the address.
            status_of(unsafe { driver.free(&context.into(), super::memory_raw::GARBAGE) })
        }),
    ];
    prohibited(environment, &calls)
}

fn prohibited_before_arguments_of_pools(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let other = Place::primary(environment).free_stream()?;
    let calls: [(&str, &dyn Fn() -> Status); 3] = [
        ("allocating nothing in another stream", &|| {
            status_of(driver.allocate_async(&context.into(), 0, None, other.live()))
        }),
        ("freeing nothing in another stream", &|| {
            // SAFETY: the null address is no memory.
            status_of(unsafe { driver.free_async(&context.into(), DevicePointer::NULL, other.live()) })
        }),
        ("freeing garbage in another stream", &|| {
            // SAFETY: the driver refuses the address.
            status_of(unsafe { driver.free_async(&context.into(), super::memory_raw::GARBAGE, other.live()) })
        }),
    ];
    prohibited(environment, &calls)
}

/// Checks that captures that are not relaxed prohibit the calls, and are invalidated by each.
fn prohibited(environment: &Environment, calls: &[(&str, &dyn Fn() -> Status)]) -> Verdict {
    for mode in [CaptureMode::Global, CaptureMode::ThreadLocal] {
        for (what, call) in calls {
            let stream = Place::primary(environment).free_stream()?;
            stream.begin(mode)?;
            equal(what, call(), UNSUPPORTED)?;
            stream.ends(what, CaptureStatus::Invalidated, INVALIDATED)?;
        }
    }
    Ok(())
}

fn prohibited_pool_attributes(environment: &Environment) -> Verdict {
    let (driver, pool) =
        (environment.device().driver(), environment.device().create_memory_pool(&MemoryPoolOptions::default())?);
    let ask = || status_of(driver.memory_pool_attribute(pool.live(), MemoryPoolAttribute::ReleaseThreshold));
    equal("asking", ask(), OK)?;
    prohibited(environment, &[("asking for an attribute", &ask)])?;
    let bench = Bench::capturing(environment, CaptureMode::Relaxed)?;
    equal("asking during a relaxed capture", ask(), OK)?;
    bench.ends_well("asking for an attribute").map(drop)
}

fn prohibited_pool_access(environment: &Environment) -> Verdict {
    let pool = environment.device().create_memory_pool(&MemoryPoolOptions::default())?;
    let (driver, own) = (environment.device().driver(), environment.device().ordinal());
    let allow = || status_of(driver.memory_pool_set_access(pool.live(), own, true));
    equal("allowing", allow(), OK)?;
    prohibited(environment, &[("allowing access", &allow)])?;
    equal("allowing afterwards", allow(), OK)?;
    equal("synchronizing", answer(environment.context().synchronize()), OK)
}
