//! What is reported first when several things are wrong with a launch or with another call on kernels.

use super::capture_order_calls::Work;
use super::capture_raw::Place;
use crate::case::{Case, Need, Verdict, equal, status_of};
use crate::environment::Environment;
use crate::kernels;
use crate::live::Owner;
use anabranch::hal::{FunctionHandle, Launch, Live, ModuleHandle};
use anabranch::{Capabilities, FunctionAttribute, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("launch.cluster_of_nothing_comes_before_the_grid", "X2", cluster_of_nothing).needs(CLUSTERS),
    Case::new("launch.grid_comes_before_the_cluster", "X2", grid_and_cluster).needs(CLUSTERS),
    Case::new("launch.cluster_comes_before_shared_memory", "X2", cluster_and_shared_memory).needs(CLUSTERS),
    Case::new("launch.cluster_comes_before_a_cooperative_grid", "X2", cluster_and_cooperation).needs(BOTH),
    Case::new("launch.block_comes_before_the_cluster", "X2", block_and_cluster).needs(CLUSTERS),
    Case::new("launch.arguments_come_before_the_cluster", "X2", arguments_and_cluster).needs(CLUSTERS),
    Case::new("launch.cooperative_grid_comes_before_shared_memory", "X2", cooperation_and_memory).needs(COOPERATIVE),
    Case::new("launch.cooperative_blocks_that_fit_nowhere", "X2", cooperation_of_large_blocks).needs(COOPERATIVE),
    Case::new("launch.cooperative_with_shared_memory_beyond_numbers", "X2", far_too_much_memory).needs(COOPERATIVE),
    Case::new("launch.name_of_no_kernel", "X2", name_of_no_kernel),
    Case::new("launch.occupancy_of_far_too_many_threads", "X2", occupancy_of_far_too_many_threads),
    Case::new("launch.occupancy_of_no_kernel", "X2", occupancy_of_no_kernel),
    Case::new("launch.occupancy_of_a_kernel_set_to_have_less", "X2", occupancy_of_a_kernel_set_to_have_less),
    Case::new("launch.attribute_that_is_far_too_large", "X2", attribute_that_is_far_too_large),
    Case::new("module.names_with_a_zero_byte", "X2", names_with_a_zero_byte),
];

const CLUSTERS: &[Need] = &[Need::Capability(Capabilities::CLUSTER_LAUNCH)];
const COOPERATIVE: &[Need] = &[Need::Capability(Capabilities::COOPERATIVE_LAUNCH)];
const BOTH: &[Need] =
    &[Need::Capability(Capabilities::CLUSTER_LAUNCH), Need::Capability(Capabilities::COOPERATIVE_LAUNCH)];

const INVALID: Status = Status::INVALID_VALUE;
const CLUSTER: Status = Status::INVALID_CLUSTER_SIZE;
const TOO_LARGE: Status = Status::COOPERATIVE_LAUNCH_TOO_LARGE;

fn launched(environment: &Environment, change: fn(&mut Launch<'_>), status: Status) -> Verdict {
    let (work, stream) = (Work::new(environment)?, Place::primary(environment).free_stream()?);
    equal("launching", work.launch(stream.live(), change), status)
}

fn cluster_of_nothing(environment: &Environment) -> Verdict {
    launched(environment, |launch| (launch.grid, launch.cluster) = ([1, 0, 1], Some([0, 1, 1])), CLUSTER)
}

fn grid_and_cluster(environment: &Environment) -> Verdict {
    launched(environment, |launch| (launch.grid, launch.cluster) = ([1, 0, 1], Some([3, 1, 1])), INVALID)
}

fn cluster_and_shared_memory(environment: &Environment) -> Verdict {
    let change = |launch: &mut Launch<'_>| (launch.cluster, launch.dynamic_shared_bytes) = (Some([3, 1, 1]), 1 << 20);
    launched(environment, change, CLUSTER)
}

fn cluster_and_cooperation(environment: &Environment) -> Verdict {
    let change = |launch: &mut Launch<'_>| {
        (launch.grid, launch.cluster, launch.cooperative) = ([1 << 20, 1, 1], Some([1, 2, 1]), true);
    };
    launched(environment, change, CLUSTER)
}

fn block_and_cluster(environment: &Environment) -> Verdict {
    launched(environment, |launch| (launch.block, launch.cluster) = ([1025, 1, 1], Some([3, 1, 1])), INVALID)?;
    launched(environment, |launch| (launch.block, launch.cluster) = ([1, 0, 1], Some([0, 1, 1])), INVALID)
}

fn arguments_and_cluster(environment: &Environment) -> Verdict {
    launched(environment, |launch| (launch.arguments, launch.cluster) = (&[], Some([3, 1, 1])), INVALID)?;
    launched(environment, |launch| (launch.arguments, launch.cluster) = (&[], Some([0, 1, 1])), INVALID)
}

fn cooperation_and_memory(environment: &Environment) -> Verdict {
    let change = |launch: &mut Launch<'_>| {
        (launch.grid, launch.cooperative, launch.dynamic_shared_bytes) = ([1 << 20, 1, 1], true, 1 << 20);
    };
    launched(environment, change, TOO_LARGE)
}

/// No multiprocessor has room for a block, so that no grid is small enough.
fn cooperation_of_large_blocks(environment: &Environment) -> Verdict {
    launched(environment, |launch| (launch.cooperative, launch.dynamic_shared_bytes) = (true, 1 << 20), TOO_LARGE)
}

/// Not even a number of bytes that the driver could compare.
fn far_too_much_memory(environment: &Environment) -> Verdict {
    launched(environment, |launch| (launch.cooperative, launch.dynamic_shared_bytes) = (true, u32::MAX), INVALID)
}

fn name_of_no_kernel(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let named = driver.function_name(&context.into(), Live::<FunctionHandle>::NULL);
    equal("asking for the name", status_of(named), INVALID)
}

fn occupancy_of_far_too_many_threads(environment: &Environment) -> Verdict {
    let kernel = environment.kernel("count_up")?;
    let (driver, context) = (environment.device().driver(), environment.context().live());
    for threads in [1 << 31, u32::MAX] {
        let blocks = driver.function_max_active_blocks(&context.into(), kernel.live(), threads, 0);
        equal("asking for the occupancy", status_of(blocks), INVALID)?;
    }
    Ok(())
}

fn occupancy_of_no_kernel(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    for (threads, status) in [(0, Status::INVALID_HANDLE), (1, Status::INVALID_HANDLE), (u32::MAX, INVALID)] {
        let blocks = driver.function_max_active_blocks(&context.into(), Live::<FunctionHandle>::NULL, threads, 0);
        equal("asking for the occupancy", status_of(blocks), status)?;
    }
    Ok(())
}

/// The attribute matters only beyond what every kernel may have.
fn occupancy_of_a_kernel_set_to_have_less(environment: &Environment) -> Verdict {
    let kernel = kernels::program().load(environment.context())?.kernel("count_up")?;
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let attribute = FunctionAttribute::MaxDynamicSharedBytes(0);
    equal(
        "setting",
        status_of(driver.function_set_attribute(&context.into(), kernel.live(), attribute)),
        Status::SUCCESS,
    )?;
    for (bytes, fits) in [(49152, true), (49153, false)] {
        let blocks = driver.function_max_active_blocks(&context.into(), kernel.live(), 32, bytes);
        equal("whether a block fits", blocks.ok().map(|blocks| blocks > 0), Some(fits))?;
    }
    Ok(())
}

fn attribute_that_is_far_too_large(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    let set = |bytes| {
        let attribute = FunctionAttribute::MaxDynamicSharedBytes(bytes);
        status_of(driver.function_set_attribute(&context.into(), Live::<FunctionHandle>::NULL, attribute))
    };
    equal("setting what no kernel can have", set(1 << 31), INVALID)?;
    equal("setting what a kernel can have", set(49152), Status::INVALID_HANDLE)
}

fn names_with_a_zero_byte(environment: &Environment) -> Verdict {
    let (driver, context) = (environment.device().driver(), environment.context().live());
    for module in [environment.module().live(), Live::<ModuleHandle>::NULL] {
        let found = driver.module_function(&context.into(), module, "st\0ore");
        equal("looking for a kernel", status_of(found), Status::NOT_FOUND)?;
        let found = driver.module_global(&context.into(), module, "ta\0ble");
        equal("looking for a variable", status_of(found), Status::NOT_FOUND)?;
    }
    Ok(())
}
