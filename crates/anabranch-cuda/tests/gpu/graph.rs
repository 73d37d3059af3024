//! Graphs: built, read, changed, launched.

use crate::kernels::PTX;
use crate::support::{DEVICE, Gpu, live};
use anabranch_hal::{
    AllocationNode, Copy3d, CopyPlace, Dependency, Detail, DevicePointer, Devices, Edge, EdgeData, EdgeKind,
    ExecutableGraphs, Failure, FillNode, FillPattern, FunctionHandle, GraphMemoryAttribute, GraphNodeKind,
    GraphUpdateResult, Graphs, InstantiateFlags, KernelAttributes, KernelNode, Live, Memory, Modules, NodeParameters,
    RepeatableWork, Status, Value, ValueOperation, WaitValueFlags, WriteValueFlags,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn kernel(function: Live<'_, FunctionHandle>, memory: DevicePointer, value: u32, count: u32) -> KernelNode {
    KernelNode {
        function: function.handle(),
        grid: [count.div_ceil(128).next_multiple_of(2), 1, 1],
        block: [128, 1, 1],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: KernelAttributes::NONE,
        arguments: vec![memory.0.to_le_bytes().to_vec(), value.to_le_bytes().to_vec(), count.to_le_bytes().to_vec()],
        ranges: Vec::new(),
    }
}

pub(crate) fn fill(address: DevicePointer, value: u32, width: usize) -> NodeParameters {
    NodeParameters::Fill(FillNode { address, pitch: 0, pattern: FillPattern::U32(value), width, height: 1 })
}

fn counting() -> (Arc<AtomicUsize>, RepeatableWork) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let work = RepeatableWork::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    (count, work)
}

pub(crate) fn skips(failure: &Failure) -> bool {
    eprintln!("skipped: {failure}");
    failure.status == Status::NOT_SUPPORTED
}

#[test]
fn a_kernel_node_is_read_back_changed_and_switched_off() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let (module, function) = gpu.kernel(PTX, "add");
        assert_eq!(gpu.function_name(&gpu.context.into(), function), Ok("add".to_owned()));
        let memory = gpu.allocate(400);
        let graph = gpu.graph();
        let zero = gpu.node(graph, &[], &fill(memory, 0, 100));
        let wanted = kernel(function, memory, 7, 100);
        let node = gpu.node(graph, &[zero], &NodeParameters::Kernel(wanted.clone()));
        let NodeParameters::Kernel(read) =
            gpu.graph_node_parameters(&gpu.context.into(), live(node)).expect("it is a kernel")
        else {
            panic!("it is a kernel");
        };
        assert_eq!(read, wanted, "a cluster or priority that was never asked for reads as none");

        let executable = gpu.executable(graph);
        let value = |executable| {
            gpu.run(executable);
            gpu.download(memory, 4)[0]
        };
        assert_eq!(value(executable), 7);
        let other = NodeParameters::Kernel(kernel(function, memory, 9, 100));
        gpu.executable_set_node_parameters(&gpu.context.into(), executable, live(node), &other)
            .expect("it may be changed");
        assert_eq!(value(executable), 9);
        let cooperative = NodeParameters::Kernel(KernelNode { cooperative: true, ..wanted.clone() });
        let refused =
            gpu.executable_set_node_parameters(&gpu.context.into(), executable, live(node), &cooperative).unwrap_err();
        assert_eq!(refused.status, Status::GRAPH_EXEC_UPDATE_FAILURE);

        gpu.executable_set_node_enabled(&gpu.context.into(), executable, live(node), false).expect("it is a kernel");
        assert_eq!(gpu.executable_node_enabled(&gpu.context.into(), executable, live(node)), Ok(false));
        assert_eq!(value(executable), 0);

        let special = KernelNode { priority: Some(-1), ..kernel(function, memory, 11, 100) };
        gpu.graph_node_set_parameters(&gpu.context.into(), live(node), &NodeParameters::Kernel(special.clone()))
            .expect("as above");
        let read = gpu.graph_node_parameters(&gpu.context.into(), live(node)).expect("it is a kernel");
        assert!(matches!(&read, NodeParameters::Kernel(read) if *read == special), "{read:?}");
        let prioritized = live(
            gpu.graph_instantiate(&gpu.context.into(), graph, InstantiateFlags::USE_NODE_PRIORITY, None)
                .expect("it is sound"),
        );
        // The driver does not report this flag.
        gpu.executable_flags(&gpu.context.into(), prioritized).expect("the driver can say");
        assert_eq!(value(prioritized), 11);
        gpu.destroy(graph, &[executable, prioritized]);
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
        gpu.module_unload(&gpu.context.into(), module.handle()).expect("it is not in use");
    }
}

#[test]
fn copies_and_fills_are_read_back() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let (from, to) = (gpu.allocate(64), gpu.allocate(64));
        let mut back = [0_u8; 64];
        let place = |address, host| CopyPlace { address, host, pitch: 64, height: 1, origin: [0; 3] };
        let copy = |source, destination| Copy3d { source, destination, extent: [64, 1, 1] };
        let host = place(back.as_mut_ptr().expose_provenance() as u64, true);
        let graph = gpu.graph();
        let filled = gpu.node(graph, &[], &fill(from, 0x0101_0101, 16));
        let within = copy(place(from.0, false), place(to.0, false));
        let moved = gpu.node(graph, &[filled], &NodeParameters::Copy(within));
        let out = copy(place(to.0, false), host);
        gpu.node(graph, &[moved], &NodeParameters::Copy(out));

        let read = gpu.graph_node_parameters(&gpu.context.into(), live(moved)).expect("it is a copy");
        let NodeParameters::Copy(read) = read else { panic!("it is a copy: {read:?}") };
        assert_eq!((read.source.address, read.source.host, read.extent), (from.0, false, [64, 1, 1]));
        let read = gpu.graph_node_parameters(&gpu.context.into(), live(filled)).expect("it is a fill");
        let NodeParameters::Fill(read) = read else { panic!("it is a fill: {read:?}") };
        assert_eq!((read.address, read.pattern, read.width), (from, FillPattern::U32(0x0101_0101), 16));
        let wide = FillNode { pattern: FillPattern::U64(1), width: 8, ..read };
        let refused = gpu.graph_add_node(&gpu.context.into(), graph, &[], &NodeParameters::Fill(wide)).unwrap_err();
        assert_eq!(refused.status, Status::INVALID_VALUE);

        let executable = gpu.executable(graph);
        gpu.run(executable);
        assert_eq!(back, [1; 64]);
        gpu.destroy(graph, &[executable]);
        for memory in [from, to] {
            gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
        }
    }
}

#[test]
fn host_work_runs_at_every_launch_and_can_be_replaced() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let (first_count, first) = counting();
        let (second_count, second) = counting();
        let (third_count, third) = counting();
        let counts = || [&first_count, &second_count, &third_count].map(|count| count.load(Ordering::SeqCst));
        let host = |work: &RepeatableWork| NodeParameters::Host(work.key());
        let graph = gpu.graph();
        let node = gpu.node(graph, &[], &host(&first));
        let executable = gpu.executable(graph);
        gpu.run(executable);
        gpu.run(executable);
        assert_eq!(counts(), [2, 0, 0]);

        gpu.graph_node_set_parameters(&gpu.context.into(), live(node), &host(&second)).expect("it is a host node");
        let read = gpu.graph_node_parameters(&gpu.context.into(), live(node)).expect("it is ours");
        assert!(matches!(read, NodeParameters::Host(key) if key == second.key()));
        gpu.run(executable);
        assert_eq!(counts(), [3, 0, 0], "executable graphs made before are untouched");
        let later = gpu.executable(graph);
        gpu.run(later);
        assert_eq!(counts(), [3, 1, 0]);

        gpu.executable_set_node_parameters(&gpu.context.into(), later, live(node), &host(&third))
            .expect("it is a host node");
        gpu.executable_update(&gpu.context.into(), executable, graph).expect("nothing else has changed");
        gpu.destroy(graph, &[]);
        gpu.run(executable);
        gpu.run(later);
        assert_eq!(counts(), [3, 2, 1]);

        drop((first, second, third));
        assert!(
            [&first_count, &second_count, &third_count].iter().all(|count| Arc::strong_count(count) == 1),
            "the driver retains nothing"
        );
        gpu.run(executable);
        gpu.run(later);
        assert_eq!(counts(), [3, 2, 1], "work whose owner was dropped does not run");
        for executable in [executable, later] {
            gpu.executable_destroy(&gpu.context.into(), executable.handle()).expect("it is ours");
        }
    }
}

#[test]
fn a_graph_allocates_and_frees() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let graph = gpu.graph();
        let wanted =
            AllocationNode { device: DEVICE, bytes: 1 << 20, access: Vec::new(), address: DevicePointer::NULL };
        let added = gpu
            .graph_add_node(&gpu.context.into(), graph, &[], &NodeParameters::Allocate(wanted.clone()))
            .expect("the device has pools");
        let address = added.address.expect("the driver chose one");
        let filled = gpu.node(graph, &[added.node], &fill(address, 3, 16));
        let back = gpu.allocate(64);
        let place = |address| CopyPlace { address, host: false, pitch: 64, height: 1, origin: [0; 3] };
        let copy = Copy3d { source: place(address.0), destination: place(back.0), extent: [64, 1, 1] };
        let copied = gpu.node(graph, &[filled], &NodeParameters::Copy(copy));
        let freed = gpu.node(graph, &[copied], &NodeParameters::Free(address));

        let read = gpu.graph_node_parameters(&gpu.context.into(), live(added.node)).expect("the driver can say");
        let NodeParameters::Allocate(read) = read else { panic!("it is an allocation: {read:?}") };
        assert_eq!((read.device, read.address), (DEVICE, address));
        assert!(read.bytes >= wanted.bytes && read.access.is_empty(), "{read:?}");
        let read = gpu.graph_node_parameters(&gpu.context.into(), live(freed)).expect("the driver can say");
        assert!(matches!(read, NodeParameters::Free(read) if read == address), "{read:?}");
        assert_eq!(gpu.graph_clone(&gpu.context.into(), graph).unwrap_err().status, Status::NOT_SUPPORTED);

        let executable = gpu.executable(graph);
        gpu.run(executable);
        gpu.run(executable);
        assert!(gpu.download(back, 64).chunks(4).all(|value| value == 3_u32.to_le_bytes()));
        let high = gpu.graph_memory_attribute(DEVICE, GraphMemoryAttribute::UsedHigh).expect("a number");
        assert!(high >= 1 << 20, "{high}");
        gpu.graph_memory_reset(DEVICE, GraphMemoryAttribute::UsedHigh).expect("it can start anew");
        gpu.destroy(graph, &[executable]);
        gpu.graph_memory_trim(DEVICE).expect("nothing is in use");
        gpu.free(&gpu.context.into(), back).expect("the memory is free to go");
    }
}

#[test]
fn a_failed_update_names_the_reason_and_the_node() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let memory = gpu.allocate(64);
        let (graph, longer, other) = (gpu.graph(), gpu.graph(), gpu.graph());
        gpu.node(graph, &[], &fill(memory, 1, 16));
        let first = gpu.node(longer, &[], &fill(memory, 1, 16));
        gpu.node(longer, &[first], &NodeParameters::Empty);
        let (_, work) = counting();
        let host = gpu.node(other, &[], &NodeParameters::Host(work.key()));
        let executable = gpu.executable(graph);
        let result = |graph| {
            let failure = gpu.executable_update(&gpu.context.into(), executable, graph).unwrap_err();
            assert_eq!(failure.status, Status::GRAPH_EXEC_UPDATE_FAILURE);
            match failure.detail.as_deref() {
                Some(&Detail::Update { result, node }) => (result, node),
                _ => panic!("{failure}"),
            }
        };
        assert_eq!(result(longer).0, GraphUpdateResult::TOPOLOGY_CHANGED);
        assert_eq!(result(other), (GraphUpdateResult::NODE_KIND_CHANGED, Some(host)));
        gpu.destroy(graph, &[executable]);
        gpu.destroy(longer, &[]);
        gpu.destroy(other, &[]);
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
    }
}

#[test]
fn a_circle_cannot_be_made_ready() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once.
    unsafe {
        let graph = gpu.graph();
        let first = gpu.node(graph, &[], &NodeParameters::Empty);
        let second = gpu.node(graph, &[first], &NodeParameters::Empty);
        let third = gpu.node(graph, &[second], &NodeParameters::Empty);
        let edge = |from, to| Edge { from, to, data: EdgeData::default() };
        gpu.graph_add_edges(&gpu.context.into(), graph, &[edge(third, first)]).expect("it is not looked at yet");
        let failure = gpu.graph_instantiate(&gpu.context.into(), graph, InstantiateFlags::empty(), None).unwrap_err();
        assert!(matches!(failure.detail.as_deref(), Some(Detail::Instantiate { .. })), "{failure:?}");
        gpu.graph_remove_edges(&gpu.context.into(), graph, &[edge(third, first)]).expect("it is there");
        let executable = gpu.executable(graph);
        gpu.destroy(graph, &[executable]);
    }
}

#[test]
fn edges_keep_their_data() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once.
    unsafe {
        let (major, _) = gpu.device_properties(DEVICE).expect("the device is there").compute_capability;
        if major < 9 {
            return eprintln!("skipped: the device has no programmatic launches");
        }
        let (module, function) = gpu.kernel(PTX, "add");
        let memory = gpu.allocate(4);
        let node = NodeParameters::Kernel(kernel(function, memory, 1, 1));
        let graph = gpu.graph();
        let (first, second) = (gpu.node(graph, &[], &node), gpu.node(graph, &[], &node));
        let data = EdgeData { from_port: 1, to_port: 0, kind: EdgeKind::PROGRAMMATIC };
        let dependencies = [second.into(), Dependency { node: first, data }];
        let third = match gpu.graph_add_node(&gpu.context.into(), graph, &dependencies, &node) {
            Ok(added) => added.node,
            Err(failure) => return assert!(skips(&failure)),
        };
        let mut edges = gpu.graph_edges(&gpu.context.into(), graph).expect("the driver can say");
        edges.sort_by_key(|edge| edge.data.from_port);
        let plain = Edge { from: second, to: third, data: EdgeData::default() };
        assert_eq!(edges, [plain, Edge { from: first, to: third, data }]);
        gpu.graph_remove_edges(&gpu.context.into(), graph, &edges[1..]).expect("it is there");
        gpu.destroy(graph, &[]);
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
        gpu.module_unload(&gpu.context.into(), module.handle()).expect("it is not in use");
    }
}

#[test]
fn children_events_and_values_are_read_back() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let memory = gpu.allocate(16);
        let (graph, child) = (gpu.graph(), gpu.graph());
        let original = gpu.node(child, &[], &fill(memory, 1, 1));
        let embedded = gpu.node(graph, &[], &NodeParameters::Child(child.handle()));
        let read = gpu.graph_node_parameters(&gpu.context.into(), live(embedded)).expect("the driver can say");
        let NodeParameters::Child(copy) = read else { panic!("it is a child: {read:?}") };
        assert_ne!(copy, child.handle());
        assert_eq!(gpu.graph_nodes(&gpu.context.into(), live(copy)).expect("the driver can say").len(), 1);
        assert!(gpu.graph_find_in_clone(&gpu.context.into(), live(embedded), child).is_err());

        let clone = live(gpu.graph_clone(&gpu.context.into(), child).expect("a clone"));
        let found = live(gpu.graph_find_in_clone(&gpu.context.into(), live(original), clone).expect("it was copied"));
        assert_eq!(gpu.graph_node_kind(&gpu.context.into(), found), Ok(GraphNodeKind::FILL));

        let operations = vec![
            ValueOperation::Write { address: memory, value: Value::U32(7), flags: WriteValueFlags::empty() },
            ValueOperation::Wait { address: memory, value: Value::U32(7), flags: WaitValueFlags::EQUAL },
        ];
        let values = gpu.node(graph, &[embedded], &NodeParameters::ValueOperations(operations.clone()));
        let read = gpu.graph_node_parameters(&gpu.context.into(), live(values)).expect("the driver can say");
        assert!(matches!(&read, NodeParameters::ValueOperations(read) if *read == operations), "{read:?}");
        let executable = gpu.executable(graph);
        gpu.executable_upload(&gpu.context.into(), executable, gpu.stream).expect("an upload");
        gpu.run(executable);
        assert_eq!(gpu.download(memory, 4), [7, 0, 0, 0]);
        gpu.destroy(graph, &[executable]);
        gpu.destroy(child, &[]);
        gpu.destroy(clone, &[]);
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
    }
}

/// The calls on a graph's structure bind no context.
#[test]
fn graphs_need_no_context_to_be_current() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once.
    unsafe {
        let context = gpu.context;
        std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let graph = live(gpu.graph_create(&context.into()).expect("a graph"));
                let node =
                    gpu.graph_add_node(&context.into(), graph, &[], &NodeParameters::Empty).expect("a node").node;
                let clone = live(gpu.graph_clone(&context.into(), graph).expect("a clone"));
                assert_eq!(gpu.graph_nodes(&context.into(), graph), Ok(vec![node]));
                assert_eq!(gpu.graph_edges(&context.into(), graph), Ok(Vec::new()));
                gpu.graph_destroy_node(&context.into(), node).expect("it is ours");
                let executable = gpu.executable(clone);
                gpu.executable_flags(&context.into(), executable).expect("the driver can say");
                gpu.executable_launch(&context.into(), executable, gpu.stream).expect("a launch");
                gpu.destroy(clone, &[executable]);
                gpu.graph_destroy(&context.into(), graph.handle()).expect("it is ours");
            });
            worker.join().expect("nothing failed");
        });
        gpu.synchronize();
    }
}
