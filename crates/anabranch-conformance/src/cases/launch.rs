//! Kernel launches: arguments, positions of threads, and shared memory.

use super::memory_raw::numbers;
use crate::case::{Case, Need, Verdict, equal, holds, refused};
use crate::environment::Environment;
use crate::gate::Gate;
use crate::kernels::{self, Mixed};
use anabranch::{Capabilities, CaptureMode, FunctionAttribute, LaunchConfig, NodeWork, Scalar, Status};

pub(super) const CASES: &[Case] = &[
    Case::new("launch.arguments_of_all_sizes", "S1", arguments_of_all_sizes),
    Case::new("launch.positions_in_three_dimensions", "S1", positions_in_three_dimensions),
    Case::new("launch.shared_memory_and_barriers", "S1", shared_memory_and_barriers),
    Case::new("launch.atomics_of_many_blocks", "S1", atomics_of_many_blocks),
    Case::new("launch.for_elements", "S1", for_elements),
    Case::new("launch.parts_of_buffers", "S1", parts_of_buffers),
    Case::new("launch.addresses", "S1", addresses),
    Case::new("launch.addresses_in_a_graph", "S1", addresses_in_a_graph),
    Case::new("launch.in_order", "S1", in_order),
    Case::new("launch.returns_at_once", "S1", returns_at_once),
    Case::new("launch.arguments_are_copied", "S1", arguments_are_copied),
    Case::new("launch.much_shared_memory", "X2", much_shared_memory),
    Case::new("launch.priorities", "S4", priorities),
    Case::new("launch.cooperative", "X2", cooperative).needs(&[Need::Capability(Capabilities::COOPERATIVE_LAUNCH)]),
    Case::new("launch.clusters", "X2", clusters).needs(&[Need::Capability(Capabilities::CLUSTER_LAUNCH)]),
    Case::new("launch.occupancy", "X2", occupancy),
    Case::new("launch.occupancy_of_clusters", "X2", occupancy_of_clusters)
        .needs(&[Need::Capability(Capabilities::CLUSTER_LAUNCH)]),
];

fn arguments_of_all_sizes(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut output = stream.allocate_zeroed::<u64>(7)?;
    let g = Mixed { a: 200, padding: [0; 7], b: 1 << 50, c: 1000.0, padding_at_end: [0; 4] };
    let (b, c, d) = (0xfffeu16, 0xffff_fffeu32, u64::MAX - 5);
    let arguments = (&mut output, 0xfdu8, b, c, d, 16_777_216.0f32, 9_007_199_254_740_991.0f64, Scalar(g));
    // SAFETY: these are the types that `mixed` declares, and it writes seven numbers.
    unsafe { stream.launch(&environment.kernel("mixed")?, &LaunchConfig::new(1, 1), arguments)? };
    let sum = 200 + (1 << 50) + 1000;
    let expected = vec![0xfd, 0xfffe, 0xffff_fffe, d, 16_777_216, 9_007_199_254_740_991, sum];
    equal("what arrived", stream.download(&output)?, expected)
}

fn positions_in_three_dimensions(environment: &Environment) -> Verdict {
    let (stream, indices) = (environment.stream()?, environment.kernel("indices")?);
    for (grid, block) in
        [([2, 3, 4], [4, 3, 2]), ([1, 1, 5], [1, 7, 1]), ([9, 1, 1], [1, 1, 33]), ([1, 6, 1], [32, 32, 1])]
    {
        let [blocks, threads] = [grid, block].map(|extents: [u32; 3]| extents.iter().product::<u32>());
        let mut output = stream.allocate_zeroed::<u32>((blocks * threads) as usize)?;
        // SAFETY: `indices` writes one number for each thread.
        unsafe { stream.launch(&indices, &LaunchConfig::new(grid, block), (&mut output,))? };
        let expected = (0..blocks).flat_map(|block| (0..threads).map(move |thread| block * 65_536 + thread)).collect();
        equal(&format!("{grid:?} blocks of {block:?}"), stream.download(&output)?, expected)?;
    }
    Ok(())
}

fn shared_memory_and_barriers(environment: &Environment) -> Verdict {
    let (stream, reverse) = (environment.stream()?, environment.kernel("reverse")?);
    for (blocks, threads) in [(1u32, 1u32), (3, 64), (50, 1024), (7, 100)] {
        let count = blocks * threads;
        let mut data = stream.upload(&(0..count).collect::<Vec<u32>>())?;
        let config = LaunchConfig::new(blocks, threads).dynamic_shared_bytes(4 * threads);
        // SAFETY: `reverse` uses one number for each thread, and as many in shared memory as a block has threads.
        unsafe { stream.launch(&reverse, &config, (&mut data,))? };
        let expected =
            (0..blocks).flat_map(|block| (0..threads).rev().map(move |thread| block * threads + thread)).collect();
        equal(&format!("{blocks} blocks of {threads}"), stream.download(&data)?, expected)?;
    }
    Ok(())
}

fn atomics_of_many_blocks(environment: &Environment) -> Verdict {
    let (stream, count_up) = (environment.stream()?, environment.kernel("count_up")?);
    let mut count = stream.allocate_zeroed::<u32>(1)?;
    for (blocks, threads) in [(2000, 64), (70_000, 1), (3, 1024)] {
        // SAFETY: `count_up` updates one number atomically.
        unsafe { stream.launch(&count_up, &LaunchConfig::new(blocks, threads), (&mut count,))? };
    }
    equal("threads that have run", stream.download(&count)?, vec![2000 * 64 + 70_000 + 3 * 1024])
}

fn for_elements(environment: &Environment) -> Verdict {
    let (stream, scale) = (environment.stream()?, environment.kernel("scale")?);
    for count in [1u32, 255, 256, 257, 100_001] {
        let values: Vec<f32> = (0..count).map(|index| (index % 1000) as f32).collect();
        let source = stream.upload(&values)?;
        let mut destination = stream.allocate_zeroed::<f32>(count as usize)?;
        let config = LaunchConfig::for_elements(count);
        // SAFETY: `scale` reads and writes as many numbers as its last argument says.
        unsafe { stream.launch(&scale, &config, (&mut destination, &source, 3.0f32, count))? };
        let expected: Vec<f32> = values.iter().map(|value| value * 3.0).collect();
        holds(&format!("each of {count} is scaled"), stream.download(&destination)? == expected)?;
    }
    Ok(())
}

fn parts_of_buffers(environment: &Environment) -> Verdict {
    let (stream, scale) = (environment.stream()?, environment.kernel("scale")?);
    let source = stream.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0])?;
    let mut destination = stream.upload(&[9.0f32; 5])?;
    let arguments = (destination.slice_mut(1..3)?, source.slice(3..)?, 2.0f32, 2u32);
    // SAFETY: `scale` reads and writes as many numbers as its last argument says.
    unsafe { stream.launch(&scale, &LaunchConfig::for_elements(2), arguments)? };
    equal("contents", stream.download(&destination)?, vec![9.0, 8.0, 10.0, 9.0, 9.0])
}

/// Of device memory and of pinned memory, also inside of it.
fn addresses(environment: &Environment) -> Verdict {
    let (stream, scale) = (environment.stream()?, environment.kernel("scale")?);
    let mut source = environment.context().allocate_pinned::<f32>(5)?;
    source.as_mut_slice()?.copy_from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    let destination = stream.upload(&[9.0f32; 5])?;
    stream.synchronize()?;
    let arguments = (destination.device_pointer().byte_add(4), source.device_pointer().byte_add(12), 2.0f32, 2u32);
    // SAFETY: `scale` reads and writes as many numbers as its last argument says. Both buffers stay until that is done.
    unsafe { stream.launch(&scale, &LaunchConfig::for_elements(2), arguments)? };
    equal("contents", stream.download(&destination)?, vec![9.0, 8.0, 10.0, 9.0, 9.0])?;
    let arguments = (destination.device_pointer(), &source, 3.0f32, 5u32);
    // SAFETY: `scale` reads and writes all five numbers of both buffers, which stay until that is done.
    unsafe { stream.launch(&scale, &LaunchConfig::for_elements(5), arguments)? };
    equal("contents", stream.download(&destination)?, vec![3.0, 6.0, 9.0, 12.0, 15.0])
}

fn addresses_in_a_graph(environment: &Environment) -> Verdict {
    let (stream, add) = (environment.stream()?, environment.kernel("add")?);
    let words = stream.upload(&[1u32, 2])?;
    stream.synchronize()?;
    let (second, one) = (words.device_pointer().byte_add(4), LaunchConfig::new(1, 1));
    let mut graph = stream.capture(CaptureMode::Relaxed, |scope| {
        // SAFETY: `add` updates the number that its first argument points to, and the buffer stays until that is done.
        unsafe { scope.launch(&add, &one, (second, 10u32, 3u32)) }
    })?;
    // SAFETY: `add` updates one number of the buffer, which stays until that is done, behind the captured node.
    let node = unsafe { NodeWork::kernel(&add, &one, (second, 10u32, 4u32))? };
    let before = graph.nodes()?;
    graph.add(&before, node)?;
    let executable = graph.instantiate()?;
    executable.launch(&stream)?;
    equal("contents", stream.download(&words)?, vec![1, 234])
}

fn in_order(environment: &Environment) -> Verdict {
    let (stream, add) = (environment.stream()?, environment.kernel("add")?);
    let mut output = stream.upload(&[1u32])?;
    let mut expected = 1u32;
    for step in 0..2000u32 {
        // SAFETY: `add` accesses only the number that its first argument points to.
        unsafe { stream.launch(&add, &LaunchConfig::new(1, 1), (&mut output, 5u32, step))? };
        expected = expected.wrapping_mul(5).wrapping_add(step);
    }
    equal("result", stream.download(&output)?, vec![expected])
}

fn returns_at_once(environment: &Environment) -> Verdict {
    let (stream, store) = (environment.stream()?, environment.kernel("store")?);
    let mut output = stream.allocate_zeroed::<u32>(1)?;
    let gate = Gate::shut(environment, &stream)?;
    // SAFETY: `store` writes only the number that its first argument points to.
    unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (&mut output, 6u32))? };
    equal("complete while blocked", stream.query()?, false)?;
    gate.open();
    equal("result", stream.download(&output)?, vec![6])
}

/// The kernel receives the values at the time of the call. Later changes of the variables have no effect.
fn arguments_are_copied(environment: &Environment) -> Verdict {
    let (stream, store) = (environment.stream()?, environment.kernel("store")?);
    let mut outputs = stream.allocate_zeroed::<u32>(50)?;
    let gate = Gate::shut(environment, &stream)?;
    for (index, value) in numbers(50).into_iter().enumerate() {
        let output = outputs.slice_mut(index..=index)?;
        // SAFETY: `store` writes only the number that its first argument points to.
        unsafe { stream.launch(&store, &LaunchConfig::new(1, 1), (output, u32::from(value)))? };
    }
    gate.open();
    equal("results", stream.download(&outputs)?, numbers(50).into_iter().map(u32::from).collect())
}

fn much_shared_memory(environment: &Environment) -> Verdict {
    let properties = environment.device().properties();
    let (plain, most) = (properties.max_shared_memory_per_block, properties.max_shared_memory_per_block_optin);
    let stream = environment.stream()?;
    // A separate module, because the attribute remains set.
    let reverse = kernels::program().load(environment.context())?.kernel("reverse")?;
    let mut data = stream.upload(&[1u32, 2, 3])?;
    let mut launch = |bytes: u32| {
        let config = LaunchConfig::new(1, 3).dynamic_shared_bytes(bytes);
        // SAFETY: `reverse` uses one number for each thread, and as many in shared memory as a block has threads.
        unsafe { stream.launch(&reverse, &config, (&mut data,)) }
    };
    let allow = |bytes: u32| reverse.set_attribute(FunctionAttribute::MaxDynamicSharedBytes(bytes));
    launch(plain)?;
    refused("a byte more than the default", launch(plain + 1), Status::INVALID_VALUE)?;
    refused("requesting more than there is", allow(most + 1), Status::INVALID_VALUE)?;
    if most >= 64 << 10 {
        allow(64 << 10)?;
        launch(64 << 10)?;
        refused("a byte more than was requested", launch((64 << 10) + 1), Status::INVALID_VALUE)?;
    }
    allow(most)?;
    launch(most)?;
    allow(1 << 10)?;
    equal("the attribute", reverse.info()?.max_dynamic_shared_bytes, 1 << 10)?;
    refused("more than was requested last", launch(2 << 10), Status::INVALID_VALUE)?;
    launch(1 << 10)?;
    let launches = if most >= 64 << 10 { 4 } else { 3 };
    let expected = if launches % 2 == 0 { vec![1, 2, 3] } else { vec![3, 2, 1] };
    equal("reversed by each launch that was not refused", stream.download(&data)?, expected)
}

fn priorities(environment: &Environment) -> Verdict {
    let (stream, count_up) = (environment.stream()?, environment.kernel("count_up")?);
    let mut count = stream.allocate_zeroed::<u32>(1)?;
    for priority in [-100, 100, -5, 0] {
        // SAFETY: `count_up` updates one number atomically.
        unsafe { stream.launch(&count_up, &LaunchConfig::new(1, 1).priority(priority), (&mut count,))? };
    }
    equal("launches that have run", stream.download(&count)?, vec![4])
}

fn cooperative(environment: &Environment) -> Verdict {
    let (stream, count_up) = (environment.stream()?, environment.kernel("count_up")?);
    let mut count = stream.allocate_zeroed::<u32>(1)?;
    let limit = count_up.max_active_blocks(1024, 0)? * environment.device().properties().multiprocessor_count;
    let mut launch = |blocks: u32| {
        let config = LaunchConfig::new(blocks, 1024).cooperative();
        // SAFETY: `count_up` updates one number atomically.
        unsafe { stream.launch(&count_up, &config, (&mut count,)) }
    };
    launch(1)?;
    launch(limit)?;
    refused("one block more than fit", launch(limit + 1), Status::COOPERATIVE_LAUNCH_TOO_LARGE)?;
    equal("threads that have run", stream.download(&count)?, vec![(limit + 1) * 1024])
}

fn clusters(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    // A separate module, because the attribute remains set.
    let count_up = kernels::program().load(environment.context())?.kernel("count_up")?;
    let mut count = stream.allocate_zeroed::<u32>(1)?;
    let mut launch = |grid: u32, cluster: u32| {
        let config = LaunchConfig::new(grid, 32).cluster(cluster);
        // SAFETY: `count_up` updates one number atomically.
        unsafe { stream.launch(&count_up, &config, (&mut count,)) }
    };
    for (grid, cluster) in [(16, 8), (6, 3), (5, 1)] {
        launch(grid, cluster)?;
    }
    for (grid, cluster) in [(3, 2), (18, 9), (32, 16), (64, 32), (4, 0)] {
        refused(&format!("{cluster} of {grid}"), launch(grid, cluster), Status::INVALID_CLUSTER_SIZE)?;
    }
    count_up.set_attribute(FunctionAttribute::NonPortableClusterSize(true))?;
    for (grid, cluster) in [(32, 16), (18, 9)] {
        launch(grid, cluster)?;
    }
    refused("17 of 34", launch(34, 17), Status::INVALID_CLUSTER_SIZE)?;
    equal("threads that have run", stream.download(&count)?, vec![(16 + 6 + 5 + 32 + 18) * 32])
}

fn occupancy(environment: &Environment) -> Verdict {
    let count_up = environment.kernel("count_up")?;
    holds("a block of 1024 fits", count_up.max_active_blocks(1024, 0)? >= 1)?;
    holds("as many small ones fit", count_up.max_active_blocks(32, 0)? >= count_up.max_active_blocks(1024, 0)?)?;
    refused("a block of no threads", count_up.max_active_blocks(0, 0), Status::INVALID_VALUE)?;
    equal("a block that is too large", count_up.max_active_blocks(1025, 0)?, 0)?;
    equal("too much shared memory", count_up.max_active_blocks(32, 1 << 20)?, 0)
}

fn occupancy_of_clusters(environment: &Environment) -> Verdict {
    // A separate module, because the attribute remains set.
    let count_up = kernels::program().load(environment.context())?.kernel("count_up")?;
    let config = |cluster: u32| LaunchConfig::new(32, 32).cluster(cluster);
    let [two, eight] = [count_up.max_active_clusters(&config(2))?, count_up.max_active_clusters(&config(8))?];
    holds("clusters of two blocks fit", two >= 1)?;
    holds("no more large ones fit", eight <= two)?;
    equal("the largest cluster", count_up.max_cluster_size(&config(1))?, 8)?;
    refused("16 blocks", count_up.max_active_clusters(&config(16)), Status::INVALID_CLUSTER_SIZE)?;
    count_up.set_attribute(FunctionAttribute::NonPortableClusterSize(true))?;
    holds("more after asking", count_up.max_cluster_size(&config(1))? >= 8)
}
