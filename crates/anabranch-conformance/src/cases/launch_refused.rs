//! Launches that must be refused, without lasting effect.

use super::memory_raw::Raw;
use crate::case::{Case, Failed, Need, Verdict, equal, holds, refused, status_of};
use crate::environment::Environment;
use crate::live::Owner;
use anabranch::hal::{FunctionHandle, Launch, Live};
use anabranch::{Capabilities, ContextFlags, FunctionAttribute, LaunchConfig, Status};

const PARAMETERS: &[Need] = &[Need::Capability(Capabilities::PARAMETER_INFO)];

pub(super) const CASES: &[Case] = &[
    Case::new("launch.wrong_number_of_arguments", "X2", wrong_number_of_arguments).needs(PARAMETERS),
    Case::new("launch.wrong_size_of_an_argument", "X2", wrong_size_of_an_argument).needs(PARAMETERS),
    Case::new("launch.no_arguments_for_the_driver", "X2", no_arguments_for_the_driver),
    Case::new("launch.grids", "X2", grids),
    Case::new("launch.blocks", "X2", blocks),
    Case::new("launch.far_too_much_shared_memory", "X2", far_too_much_shared_memory),
    Case::new("launch.kernel_of_another_context", "E4", kernel_of_another_context),
    Case::new("launch.buffer_of_another_context", "E4", buffer_of_another_context),
    Case::new("launch.null_function", "X2", null_function),
    Case::new("launch.attributes", "X2", attributes),
];

fn message(what: &str, result: anabranch::Result<()>) -> Result<String, Failed> {
    match result {
        Ok(()) => Err(Failed(format!("{what}: succeeded"))),
        Err(error) => equal(what, error.status(), Status::INVALID_VALUE).map(|()| error.to_string()),
    }
}

fn wrong_number_of_arguments(environment: &Environment) -> Verdict {
    let (stream, store) = (environment.stream()?, environment.kernel("store")?);
    let mut output = stream.upload(&[1u32])?;
    let config = LaunchConfig::new(1, 1);
    // SAFETY: all of these are refused.
    let (none, one, three) = unsafe {
        (
            stream.launch(&store, &config, ()),
            stream.launch(&store, &config, (&mut output,)),
            stream.launch(&store, &config, (&mut output, 1u32, 2u32)),
        )
    };
    for (what, result, given) in [("none", none, "[]"), ("one", one, "[8]"), ("three", three, "[8, 4, 4]")] {
        let message = message(what, result)?;
        holds("the message names the kernel and both lists", {
            message.contains("`store`") && message.contains("[8, 4]") && message.contains(given)
        })?;
    }
    equal("contents", stream.download(&output)?, vec![1])
}

fn wrong_size_of_an_argument(environment: &Environment) -> Verdict {
    let (stream, store) = (environment.stream()?, environment.kernel("store")?);
    let mut output = stream.upload(&[1u32])?;
    let config = LaunchConfig::new(1, 1);
    // SAFETY: both calls are refused.
    let (large, small) = unsafe {
        (stream.launch(&store, &config, (&mut output, 1u64)), stream.launch(&store, &config, (&mut output, 1u8)))
    };
    for (what, result, given) in [("8 bytes", large, "[8, 8]"), ("1 byte", small, "[8, 1]")] {
        let message = message(what, result)?;
        holds("the message names both lists", message.contains("[8, 4]") && message.contains(given))?;
    }
    equal("contents", stream.download(&output)?, vec![1])
}

const PLAIN: Launch<'static> = Launch {
    grid: [1; 3],
    block: [1; 3],
    cluster: None,
    dynamic_shared_bytes: 0,
    cooperative: false,
    priority: None,
    attributes: None,
    overlap: None,
    arguments: &[],
    ranges: &[],
};

fn launch_raw(raw: &Raw, function: Live<'_, FunctionHandle>) -> Status {
    // SAFETY: a kernel with parameters is refused without arguments.
    status_of(unsafe { raw.driver().launch(&raw.context().into(), raw.stream().live(), function, &PLAIN) })
}

fn no_arguments_for_the_driver(environment: &Environment) -> Verdict {
    let (raw, store) = (Raw::new(environment)?, environment.kernel("store")?);
    equal("launch", launch_raw(&raw, store.live()), Status::INVALID_VALUE)?;
    raw.synchronize()
}

fn null_function(environment: &Environment) -> Verdict {
    let raw = Raw::new(environment)?;
    equal("launch", launch_raw(&raw, Live::<FunctionHandle>::NULL), Status::INVALID_HANDLE)?;
    raw.synchronize()
}

/// Checks which configurations run. Each launch counts its threads.
fn check(environment: &Environment, good: &[([u32; 3], [u32; 3])], bad: &[([u32; 3], [u32; 3])]) -> Verdict {
    let (stream, count_up) = (environment.stream()?, environment.kernel("count_up")?);
    let mut count = stream.allocate_zeroed::<u32>(1)?;
    let mut launch = |grid: [u32; 3], block: [u32; 3]| {
        // SAFETY: `count_up` updates one number atomically.
        unsafe { stream.launch(&count_up, &LaunchConfig::new(grid, block), (&mut count,)) }
    };
    for &(grid, block) in bad {
        let what = format!("{grid:?} blocks of {block:?}");
        holds("the message names what is wrong", {
            let message = message(&what, launch(grid, block))?;
            message.contains("grid") || message.contains("block")
        })?;
    }
    let mut expected = 0;
    for &(grid, block) in good {
        launch(grid, block)?;
        expected += grid.iter().chain(&block).product::<u32>();
    }
    equal("threads that have run", stream.download(&count)?, vec![expected])
}

fn grids(environment: &Environment) -> Verdict {
    let one = [1; 3];
    let bad = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [1, 70_000, 1], [1, 1, 70_000], [1 << 31, 1, 1]];
    check(environment, &[([1, 65_535, 1], one), ([70_000, 1, 1], one)], &bad.map(|grid| (grid, one)))
}

fn blocks(environment: &Environment) -> Verdict {
    let one = [1; 3];
    let bad = [[0, 1, 1], [1, 0, 1], [1, 1, 0], [1025, 1, 1], [2048, 1, 1], [32, 32, 2], [1, 1, 65]];
    let good = [[1024, 1, 1], [1, 1024, 1], [16, 1, 64], [8, 8, 16]];
    check(environment, &good.map(|block| (one, block)), &bad.map(|block| (one, block)))
}

fn far_too_much_shared_memory(environment: &Environment) -> Verdict {
    let (stream, reverse) = (environment.stream()?, environment.kernel("reverse")?);
    let mut data = stream.upload(&[1u32])?;
    let config = LaunchConfig::new(1, 1).dynamic_shared_bytes(1 << 20);
    // SAFETY: the driver or the library refuses the call.
    let message = message("1 MiB", unsafe { stream.launch(&reverse, &config, (&mut data,)) })?;
    holds("the message speaks of shared memory", message.contains("shared memory"))?;
    equal("contents", stream.download(&data)?, vec![1])
}

fn kernel_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let (stream, store) = (other.create_stream()?, environment.kernel("store")?);
    let mut output = stream.allocate_zeroed::<u32>(1)?;
    // SAFETY: the driver or the library refuses the call.
    let result = unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (&mut output, 1u32)) };
    refused("the library", result, Status::INVALID_HANDLE)?;
    equal("contents", stream.download(&output)?, vec![0])
}

fn buffer_of_another_context(environment: &Environment) -> Verdict {
    let other = environment.device().create_context(ContextFlags::empty())?;
    let foreign = other.create_stream()?;
    let mut output = foreign.upload(&[7u32])?;
    let (stream, store) = (environment.stream()?, environment.kernel("store")?);
    // SAFETY: the driver or the library refuses the call.
    let result = unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (&mut output, 1u32)) };
    refused("launch", result, Status::INVALID_HANDLE)?;
    equal("contents", foreign.download(&output)?, vec![7])
}

fn attributes(environment: &Environment) -> Verdict {
    let kernel = environment.kernel("add")?;
    let set = |percent| kernel.set_attribute(FunctionAttribute::PreferredSharedMemoryCarveout(percent));
    refused("a carveout of 101 percent", set(101), Status::INVALID_VALUE)?;
    set(100)?;
    set(-1)?;
    let info = kernel.info()?;
    holds("a kernel can have blocks", info.max_threads_per_block >= 1)?;
    equal("static shared memory", info.static_shared_bytes, 0)
}
