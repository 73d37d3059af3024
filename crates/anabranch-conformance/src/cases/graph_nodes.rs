//! The effects of each kind of node.

use super::graph_tools::{add, chain, digit, graph_of, launch, note, one, run, word};
use super::memory_raw::numbers;
use super::order_tools::Log;
use crate::case::{Case, Need, Verdict, equal};
use crate::environment::Environment;
use anabranch::{
    Capabilities, ConditionalKind, FillNode, FillPattern, GraphNodeKind, InstantiateFlags, LaunchConfig,
    NodeParameters, NodeWork, Region, Volume, VolumeMut,
};

pub(super) const CASES: &[Case] = &[
    Case::new("graph.of_nothing", "G1", of_nothing),
    Case::new("graph.kernel_node", "G1", kernel_node),
    Case::new("graph.kernel_node_with_shared_memory", "G1", kernel_node_with_shared_memory),
    Case::new("graph.kernel_node_with_a_priority", "G1", kernel_node_with_a_priority),
    Case::new("graph.copy_node", "G1", copy_node),
    Case::new("graph.copy_node_of_managed_memory", "G1", copy_node_of_managed_memory)
        .needs(&[Need::Capability(Capabilities::MANAGED_MEMORY)]),
    Case::new("graph.copy_node_of_a_region", "G1", copy_node_of_a_region),
    Case::new("graph.fill_node", "G1", fill_node),
    Case::new("graph.fill_node_of_rows", "G1", fill_node_of_rows),
    Case::new("graph.fill_node_of_a_row_has_no_pitch", "G1", fill_node_of_a_row_has_no_pitch),
    Case::new("graph.host_node", "G1", host_node),
    Case::new("graph.empty_node", "G1", empty_node),
    Case::new("graph.kinds_are_told", "G1", kinds_are_told),
];

fn of_nothing(environment: &Environment) -> Verdict {
    let (stream, graph) = (environment.stream()?, environment.context().create_graph()?);
    equal("nodes", graph.nodes()?.len(), 0)?;
    equal("edges", graph.edges()?.len(), 0)?;
    let executable = graph.instantiate()?;
    launch(&executable, &stream)?;
    Ok(launch(&executable, &stream)?)
}

fn kernel_node(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let executable = graph_of(environment, digit(environment, &mut word, 4)?)?.instantiate()?;
    equal("before a launch", stream.download(&word)?, vec![0])?;
    launch(&executable, &stream)?;
    equal("after one", stream.download(&word)?, vec![4])?;
    launch(&executable, &stream)?;
    equal("after two", stream.download(&word)?, vec![44])
}

fn kernel_node_with_shared_memory(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let mut data = stream.upload(&[1u32, 2, 3, 4, 5, 6, 7, 8])?;
    let (kernel, config) = (environment.kernel("reverse")?, LaunchConfig::new(2, 4).dynamic_shared_bytes(16));
    // SAFETY: two blocks of four threads reverse eight elements, with a shared element for each thread of a block.
    let work = unsafe { NodeWork::kernel(&kernel, &config, (&mut data,)) }?;
    run(&graph_of(environment, work)?, &stream)?;
    equal("the data", stream.download(&data)?, vec![4, 3, 2, 1, 8, 7, 6, 5])
}

fn kernel_node_with_a_priority(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let urgent = environment.device().stream_priority_range().greatest;
    let kernel = environment.kernel("add")?;
    // SAFETY: `add` accesses only the number that its first argument points to.
    let work = unsafe { NodeWork::kernel(&kernel, &one().priority(urgent), (&mut word, 10u32, 3u32)) }?;
    let graph = graph_of(environment, work)?;
    launch(&graph.instantiate_with_flags(InstantiateFlags::USE_NODE_PRIORITY)?, &stream)?;
    run(&graph, &stream)?;
    equal("the number", stream.download(&word)?, vec![33])
}

fn copy_node(environment: &Environment) -> Verdict {
    const LENGTH: usize = 100_003;
    let (stream, context) = (environment.stream()?, environment.context());
    let source = stream.upload(&numbers(LENGTH))?;
    let (mut device, mut back) = (stream.allocate_zeroed::<u8>(LENGTH)?, stream.allocate_zeroed::<u8>(LENGTH)?);
    let (mut first, mut second) = (context.allocate_pinned::<u8>(LENGTH)?, context.allocate_pinned::<u8>(LENGTH)?);
    let mut graph = context.create_graph()?;
    let works = [
        NodeWork::copy(&mut device, &source)?,
        NodeWork::copy(&mut first, &device)?,
        NodeWork::copy(&mut second, &first)?,
        NodeWork::copy(&mut back, &second)?,
    ];
    chain(&mut graph, works)?;
    run(&graph, &stream)?;
    equal("what went round", stream.download(&back)? == numbers(LENGTH), true)
}

fn copy_node_of_managed_memory(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context());
    let source = stream.upload(&numbers(4097))?;
    let (mut managed, mut back) = (context.allocate_managed::<u8>(4097)?, stream.allocate_zeroed::<u8>(4097)?);
    let mut graph = context.create_graph()?;
    chain(&mut graph, [NodeWork::copy(&mut managed, &source)?, NodeWork::copy(&mut back, &managed)?])?;
    run(&graph, &stream)?;
    equal("what went round", stream.download(&back)?, numbers(4097))
}

fn copy_node_of_a_region(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let source = stream.upload(&numbers(12))?;
    let mut destination = stream.allocate_zeroed::<u8>(12)?;
    let region = Region { extent: [2, 2, 1], source_origin: [1, 1, 0], destination_origin: [0, 0, 0] };
    let work = NodeWork::copy_region(VolumeMut::new(&mut destination, 4, 3), Volume::new(&source, 4, 3), &region)?;
    run(&graph_of(environment, work)?, &stream)?;
    let n = numbers(12);
    equal("the region", stream.download(&destination)?, vec![n[5], n[6], 0, 0, n[9], n[10], 0, 0, 0, 0, 0, 0])
}

fn fill_node(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let (mut bytes, mut shorts) = (stream.allocate_zeroed::<u8>(5)?, stream.allocate_zeroed::<u16>(5)?);
    let (mut words, mut longs) = (stream.allocate_zeroed::<u32>(5)?, stream.allocate_zeroed::<u64>(5)?);
    let mut zeros = stream.upload(&[7u32; 3])?;
    let mut graph = environment.context().create_graph()?;
    graph.add((), NodeWork::fill(bytes.slice_mut(1..4)?, 0x7eu8)?)?;
    graph.add((), NodeWork::fill(&mut shorts, 0x5678u16)?)?;
    graph.add((), NodeWork::fill(words.slice_mut(..2)?, 0x1234_5678u32)?)?;
    graph.add((), NodeWork::fill(&mut longs, 0x0102_0304_0102_0304u64)?)?;
    graph.add((), NodeWork::fill_zero(zeros.slice_mut(1..)?)?)?;
    run(&graph, &stream)?;
    equal("bytes", stream.download(&bytes)?, vec![0, 0x7e, 0x7e, 0x7e, 0])?;
    equal("16 bits", stream.download(&shorts)?, vec![0x5678; 5])?;
    equal("32 bits", stream.download(&words)?, vec![0x1234_5678, 0x1234_5678, 0, 0, 0])?;
    equal("64 bits", stream.download(&longs)?, vec![0x0102_0304_0102_0304; 5])?;
    equal("zeros", stream.download(&zeros)?, vec![7, 0, 0])
}

fn fill_node_of_rows(environment: &Environment) -> Verdict {
    let (stream, graph) = (environment.stream()?, environment.context().create_graph()?);
    let buffer = stream.allocate_zeroed::<u32>(8)?;
    stream.synchronize()?;
    let mut graph = graph;
    let address = buffer.device_pointer();
    let fill = FillNode { address, pitch: 16, pattern: FillPattern::U32(9), width: 2, height: 2 };
    // SAFETY: both rows lie in the buffer, which outlives the launch.
    graph.add((), unsafe { NodeWork::from_parameters(NodeParameters::Fill(fill)) })?;
    run(&graph, &stream)?;
    equal("the rows", stream.download(&buffer)?, vec![9, 9, 0, 0, 9, 9, 0, 0])
}

fn fill_node_of_a_row_has_no_pitch(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let buffer = stream.allocate_zeroed::<u32>(4)?;
    stream.synchronize()?;
    for (pitch, value) in [(0, 1), (4, 2), (16, 3), (64, 4)] {
        let fill =
            FillNode { address: buffer.device_pointer(), pitch, pattern: FillPattern::U32(value), width: 4, height: 1 };
        // SAFETY: the row lies in the buffer, which outlives the launch.
        let graph = graph_of(environment, unsafe { NodeWork::from_parameters(NodeParameters::Fill(fill)) })?;
        run(&graph, &stream)?;
        equal(&format!("with a pitch of {pitch}"), stream.download(&buffer)?, vec![value; 4])?;
    }
    Ok(())
}

fn host_node(environment: &Environment) -> Verdict {
    let (stream, log) = (environment.stream()?, Log::default());
    let executable = graph_of(environment, note(&log, 5))?.instantiate()?;
    equal("before a launch", log.numbers(), vec![])?;
    launch(&executable, &stream)?;
    equal("after one", log.numbers(), vec![5])
}

fn empty_node(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let mut graph = environment.context().create_graph()?;
    let works = [digit(environment, &mut word, 1)?, NodeWork::empty(), digit(environment, &mut word, 2)?];
    chain(&mut graph, works)?;
    run(&graph, &stream)?;
    equal("the order across it", stream.download(&word)?, vec![12])
}

fn kinds_are_told(environment: &Environment) -> Verdict {
    let (stream, mut word) = word(environment)?;
    let (context, other) = (environment.context(), stream.upload(&[0u32])?);
    let (event, signal) = (context.create_event()?, context.create_signal()?);
    let child = context.create_graph()?;
    let mut graph = context.create_graph()?;
    let works = [
        (GraphNodeKind::KERNEL, add(environment, &mut word, 1, 1)?),
        (GraphNodeKind::COPY, NodeWork::copy(&mut word, &other)?),
        (GraphNodeKind::FILL, NodeWork::fill(&mut word, 1u32)?),
        (GraphNodeKind::HOST, NodeWork::host_func(|| ())),
        (GraphNodeKind::CHILD, NodeWork::child(&child)),
        (GraphNodeKind::EMPTY, NodeWork::empty()),
        (GraphNodeKind::EVENT_WAIT, NodeWork::event_wait(&event)),
        (GraphNodeKind::EVENT_RECORD, NodeWork::event_record(&event)),
        (GraphNodeKind::VALUE_OPERATIONS, NodeWork::write_signal(&signal, 1)),
    ];
    for (kind, work) in works {
        let node = graph.add((), work)?;
        equal("the kind", graph.node_kind(node)?, kind)?;
    }
    // SAFETY: nothing reads the memory.
    let (allocation, memory) = unsafe { graph.add_allocation::<u32>((), 1) }?;
    equal("the kind", graph.node_kind(allocation)?, GraphNodeKind::ALLOCATE)?;
    // SAFETY: nothing uses the memory.
    let free = unsafe { graph.add_free(allocation, memory) }?;
    equal("the kind", graph.node_kind(free)?, GraphNodeKind::FREE)?;
    let conditional = graph.create_conditional(Some(0))?;
    let node = graph.add_conditional((), conditional, ConditionalKind::If, 1)?;
    equal("the kind", graph.node_kind(node)?, GraphNodeKind::CONDITIONAL)
}
