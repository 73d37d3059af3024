//! Objects of two instances, whose handles are those of different drivers, on host devices. The numbers are those of
//! docs/safety.md.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::hal::{Driver, Forward, Layered};
use anabranch::{
    BatchCopy, BatchRegion, Buffer, CaptureMode, ConditionalKind, Context, CopyHints, Event, Graph, Instance,
    InstantiateFlags, MemoryAttachment, MemoryLocation, MemoryPool, MemoryPoolOptions, NodeWork, PinnedBuffer,
    Prefetch, Region, Result, Signal, Status, Stream, Volume, VolumeMut, WaitCondition,
};
use common::host;
use futures::executor::block_on;
use std::sync::Arc;

/// One object of each kind.
struct Objects {
    context: Context,
    stream: Stream,
    buffer: Buffer<u32>,
    pinned: PinnedBuffer<u32>,
    event: Event,
    recorded: Event,
    pool: MemoryPool,
    graph: Graph,
    signal: Signal,
}

impl Objects {
    fn new() -> Self {
        let context = host();
        let stream = context.create_stream().unwrap();
        let recorded = context.create_event().unwrap();
        stream.record(&recorded).unwrap();
        let mut buffer = stream.upload(&[1u32; 4]).unwrap();
        let mut graph = context.create_graph().unwrap();
        graph.add((), NodeWork::fill(&mut buffer, 2u32).unwrap()).unwrap();
        Self {
            pinned: context.allocate_pinned(4).unwrap(),
            event: context.create_event().unwrap(),
            pool: context.device().create_memory_pool(&MemoryPoolOptions::default()).unwrap(),
            signal: context.create_signal().unwrap(),
            recorded,
            buffer,
            graph,
            stream,
            context,
        }
    }
}

fn refused<T>(what: &str, result: Result<T>) {
    match result {
        Ok(_) => panic!("{what} is accepted"),
        Err(error) => {
            let status = error.status();
            let wanted = [Status::INVALID_DEVICE, Status::INVALID_HANDLE, Status::INVALID_VALUE];
            assert!(wanted.contains(&status), "{what}: {error}");
        }
    }
}

/// A layer that changes nothing.
#[derive(Debug)]
struct Transparent(Arc<dyn Driver>);

// SAFETY: all calls are forwarded as they are.
unsafe impl Forward for Transparent {
    fn inner(&self) -> &dyn Driver {
        &*self.0
    }
}

#[test]
fn safety_85_work_is_refused_that_another_instance_captures() {
    let first = Instance::builder().cuda(false).isolated().host_check_memory(true).build().unwrap();
    let first = first.device("host").unwrap();
    let wrap = |inner| Arc::new(Layered(Transparent(inner))) as Arc<dyn Driver>;
    let second = Instance::builder().cuda(false).host(false).driver(first.driver().clone()).wrap(wrap).build().unwrap();
    let second = second.device("host").unwrap();
    let (here, there) = (first.context().unwrap(), second.context().unwrap());
    let (capturing, same) = (here.per_thread_stream().unwrap(), there.per_thread_stream().unwrap());
    let other = there.create_stream().unwrap();
    let mut buffer = other.upload(&[1u32; 1000]).unwrap();
    other.synchronize().unwrap();
    capturing.begin_capture(CaptureMode::Relaxed).unwrap();
    for refused in [same.fill(&mut buffer, 3u32).unwrap_err(), same.allocate_zeroed::<u32>(1000).map(drop).unwrap_err()]
    {
        assert_eq!(refused.status(), Status::STREAM_CAPTURE_UNSUPPORTED, "{refused}");
    }
    let graph = capturing.end_capture().unwrap();
    assert_eq!(graph.nodes().unwrap(), []);
    same.fill(&mut buffer, 4u32).unwrap();
    assert_eq!(other.download(&buffer).unwrap(), [4; 1000]);
    assert_eq!(first.memory_report().unwrap().findings, []);
}

#[test]
fn safety_45_no_call_takes_objects_of_two_drivers() {
    let (mut here, mut there) = (Objects::new(), Objects::new());
    refused("a pool", here.stream.allocate_zeroed_from::<u32>(&there.pool, 4));
    refused("a fill", here.stream.fill(&mut there.buffer, 1u32));
    refused("a copy to", here.stream.copy(&mut there.buffer, &here.buffer));
    refused("a copy from", here.stream.copy(&mut here.buffer, &there.buffer));
    refused("a copy from pinned memory", here.stream.copy(&mut here.buffer, &there.pinned));
    refused("a copy to pinned memory", here.stream.copy(&mut there.pinned, &here.buffer));
    refused("a download", here.stream.download(&there.buffer));
    refused("a record", here.stream.record(&there.event));
    refused("a wait", here.stream.wait_event(&there.recorded));
    refused("a wait for a stream", here.stream.wait_stream(&there.stream));
    refused("a signal", here.stream.wait_signal(&there.signal, WaitCondition::Equal, 0));
    refused("writing a signal", here.stream.write_signal(&there.signal, 0));
    refused("a time", here.recorded.elapsed_since(&there.recorded));
    refused("peer access", here.context.enable_peer_access(&there.context));
    refused("access to a pool", here.pool.set_peer_access(there.context.device(), true));
    refused("a capture into a graph", here.stream.capture_into(&mut there.graph, (), CaptureMode::Relaxed, |_| Ok(())));
    let given_back = here.stream.begin_capture_to_graph(there.graph, (), CaptureMode::Relaxed);
    let (error, graph) = given_back.unwrap_err();
    refused::<()>("beginning a capture into a graph", Err(error));
    there.graph = graph;
    refused("a child", here.graph.add((), NodeWork::child(&there.graph)));
    refused("a node's memory", here.graph.add((), NodeWork::fill(&mut there.buffer, 1u32).unwrap()));
    refused("a node's pinned memory", here.graph.add((), NodeWork::copy(&mut here.buffer, &there.pinned).unwrap()));
    refused("a node's event", here.graph.add((), NodeWork::event_record(&there.event)));
    refused("a node that waits", here.graph.add((), NodeWork::event_wait(&there.event)));
    refused("a node's signal", here.graph.add((), NodeWork::write_signal(&there.signal, 1)));
    let (mine, theirs) = (here.graph.nodes().unwrap()[0], there.graph.nodes().unwrap()[0]);
    refused("changing a node", here.graph.set_node(mine, NodeWork::fill(&mut there.buffer, 1u32).unwrap()));
    refused("a node of the other", here.graph.set_node(theirs, NodeWork::fill(&mut here.buffer, 1u32).unwrap()));
    refused("a dependency", here.graph.add(theirs, NodeWork::empty()));
    refused("a clone", here.graph.find_in_clone(mine, &there.graph));
    let executable = here.graph.instantiate().unwrap();
    refused("a launch", executable.launch(&there.stream));
    refused("an upload", executable.upload(&there.stream));
    refused("an instantiation", here.graph.instantiate_and_upload(InstantiateFlags::empty(), &there.stream));
    refused("an update", executable.update(&there.graph).map_err(|refused| refused.error().clone()));
    refused("an executable's node", executable.set_node(mine, NodeWork::fill(&mut there.buffer, 1u32).unwrap()));
    let value = there.graph.create_conditional(Some(1)).unwrap();
    refused("a conditional value", here.graph.add_conditional((), value, ConditionalKind::If, 1));
    let region = Region { extent: [2, 1, 1], ..Region::default() };
    let (to, from) = (VolumeMut::new(&mut there.buffer, 2, 2), Volume::new(&here.buffer, 2, 2));
    refused("copying a region", here.stream.copy_region(to, from, &region));
    let (to, from) = (VolumeMut::new(&mut there.buffer, 2, 2), Volume::new(&here.buffer, 2, 2));
    refused(
        "a node that copies a region",
        NodeWork::copy_region(to, from, &region).and_then(|work| here.graph.add((), work)),
    );
    refused("a copy between contexts", here.stream.copy_peer(&mut there.buffer, &here.buffer));
    let copies = [BatchCopy::new(&mut there.buffer, &here.buffer).unwrap()];
    refused("a batch of copies", here.stream.copy_batch(copies));
    refused("a batch from plain memory", {
        let copies = [BatchCopy::from_host(&mut there.buffer, &[1, 2, 3, 4]).unwrap()];
        here.stream.copy_batch(copies)
    });
    let hints = CopyHints::default();
    refused("a copy with hints", here.stream.copy_with_hints(&mut there.buffer, &here.buffer, hints));
    let (to, from) = (VolumeMut::new(&mut there.buffer, 2, 2), Volume::new(&here.buffer, 2, 2));
    let copies = [BatchRegion::new(to, from, &region).unwrap()];
    refused("a batch of regions", here.stream.copy_region_batch(copies));
    let (to, from) = (VolumeMut::new(&mut there.buffer, 2, 2), Volume::new(&here.buffer, 2, 2));
    refused("a region between contexts", here.stream.copy_region_peer(to, from, &region));
    let mut managed = there.context.allocate_managed::<u32>(4).unwrap();
    refused("attaching", here.stream.attach(&mut managed, MemoryAttachment::Host));
    let ranges = [Prefetch::new(&managed, MemoryLocation::Host).unwrap()];
    refused("a batch of prefetches", here.stream.prefetch_batch(ranges));
    refused("an awaited download", block_on(here.stream.download_async(&there.buffer)));
    refused("a scope", here.stream.sync_scope(|scope| scope.copy_from_host(&mut there.buffer, &[1, 2, 3, 4])));
    refused(
        "a condition",
        here.stream.capture(CaptureMode::Relaxed, |scope| scope.capture_if(&there.buffer, |_| Ok(()))),
    );
    for objects in [&mut here, &mut there] {
        objects.stream.fill(&mut objects.buffer, 5u32).unwrap();
        assert_eq!(objects.stream.download(&objects.buffer).unwrap(), [5; 4]);
        assert_eq!(objects.context.device().memory_report().map(|report| report.findings.len()).unwrap_or(0), 0);
    }
}
