//! Conditional nodes.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the fixture keeps its handles alive, and the tests their memory"
)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use anabranch_hal::*;
use support::graphs::{fill, kernel};
use support::{Fixture, live, status};

/// Writes the kernel's first argument, less 1, into the value, and stores it.
fn count_down() -> HostFunction {
    HostFunction::new("count_down", &[8, 8], |_, arguments| {
        let counter = arguments.slice::<u32>(0);
        counter.set(0, counter.get(0) - 1);
        arguments.set_conditional(1, counter.get(0));
    })
}

fn set() -> HostFunction {
    HostFunction::new("set", &[8, 4], |_, arguments| arguments.set_conditional(0, arguments.scalar(1)))
}

fn increment() -> HostFunction {
    HostFunction::new("increment", &[8], |_, arguments| {
        let counter = arguments.slice::<u32>(0);
        counter.set(0, counter.get(0) + 1);
    })
}

impl Fixture {
    fn value(&self, graph: Live<'_, GraphHandle>, default: Option<u32>) -> ConditionalHandle {
        self.driver.graph_conditional_create(&self.context.into(), graph, default).unwrap()
    }

    fn conditional(
        &self,
        graph: Live<'_, GraphHandle>,
        before: &[GraphNodeHandle],
        handle: ConditionalHandle,
        kind: ConditionalKind,
        body_count: u32,
    ) -> Result<AddedNode> {
        let node = ConditionalNode { handle, kind, body_count, bodies: Vec::new() };
        self.try_add(graph, before, NodeParameters::Conditional(node))
    }
}

#[test]
fn a_loop_counts_down_at_every_launch() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(8));
    let (down, up) = (fixture.function(count_down()), fixture.function(increment()));
    let runs = memory.byte_add(4);
    let graph = fixture.graph();
    let handle = fixture.value(graph, Some(1));
    let cleared = fixture.add(graph, &[], fill(runs, 0, 1));
    let filled = fixture.add(graph, &[cleared], fill(memory, 10, 1));
    let added = fixture.conditional(graph, &[filled], handle, ConditionalKind::While, 1).unwrap();
    let body = added.bodies[0];
    let counted = fixture.add(live(body), &[], kernel(up, &[&runs.0.to_ne_bytes()], &[(0, runs, 4)]));
    let arguments = [memory.0.to_ne_bytes(), handle.0.to_ne_bytes()];
    fixture.add(live(body), &[counted], kernel(down, &[&arguments[0], &arguments[1]], &[(0, memory, 4)]));
    let executable = fixture.instantiate(graph);
    for _ in 0..3 {
        fixture.run_graph(executable, stream);
        assert_eq!(fixture.read(memory, 2), [0, 10]);
    }
    let NodeParameters::Conditional(node) =
        fixture.driver.graph_node_parameters(&fixture.context.into(), live(added.node)).unwrap()
    else {
        panic!("a conditional node is one")
    };
    assert_eq!((node.handle, node.kind, node.body_count, node.bodies), (handle, ConditionalKind::While, 1, vec![body]));
}

#[test]
fn a_kernel_decides_which_graph_runs() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(4));
    let set = fixture.function(set());
    for (kind, bodies, values) in [
        (ConditionalKind::If, 1, &[(0, 9), (1, 0), (7, 0)][..]),
        (ConditionalKind::If, 2, &[(0, 1), (1, 0)]),
        (ConditionalKind::Switch, 3, &[(0, 0), (1, 1), (2, 2), (3, 9), (u32::MAX, 9)]),
    ] {
        let graph = fixture.graph();
        let handle = fixture.value(graph, None);
        let cleared = fixture.add(graph, &[], fill(memory, 9, 1));
        let with = |value: u32| kernel(set, &[&handle.0.to_ne_bytes(), &value.to_ne_bytes()], &[]);
        let decided = fixture.add(graph, &[cleared], with(0));
        let added = fixture.conditional(graph, &[decided], handle, kind, bodies).unwrap();
        for (number, &body) in added.bodies.iter().enumerate() {
            fixture.add(live(body), &[], fill(memory, number as u32, 1));
        }
        let executable = fixture.instantiate(graph);
        for &(value, expected) in values {
            let parameters = with(value);
            unsafe {
                fixture
                    .driver
                    .executable_set_node_parameters(&fixture.context.into(), executable, live(decided), &parameters)
                    .unwrap();
            }
            fixture.run_graph(executable, stream);
            assert_eq!(fixture.read(memory, 1), [expected], "{kind:?} of {bodies}: {value}");
        }
    }
}

#[test]
fn loops_can_be_nested_and_children_be_in_them() {
    let fixture = Fixture::new();
    let (stream, memory) = (fixture.stream(), fixture.allocate(12));
    let (down, up) = (fixture.function(count_down()), fixture.function(increment()));
    let [outer, inner, runs] = [0, 4, 8].map(|offset| memory.byte_add(offset));
    let counter = |address: DevicePointer, handle: ConditionalHandle| {
        let arguments = [address.0.to_ne_bytes(), handle.0.to_ne_bytes()];
        kernel(down, &[&arguments[0], &arguments[1]], &[(0, address, 4)])
    };
    let graph = fixture.graph();
    let handle = fixture.value(graph, Some(1));
    let cleared = fixture.add(graph, &[], fill(runs, 0, 1));
    let filled = fixture.add(graph, &[cleared], fill(outer, 4, 1));
    let body = fixture.conditional(graph, &[filled], handle, ConditionalKind::While, 1).unwrap().bodies[0];
    let inner_handle = fixture.value(live(body), Some(1));
    let refilled = fixture.add(live(body), &[], fill(inner, 5, 1));
    let set = fixture.function(set());
    let again = kernel(set, &[&inner_handle.0.to_ne_bytes(), &1u32.to_ne_bytes()], &[]);
    let again = fixture.add(live(body), &[refilled], again);
    let added = fixture.conditional(live(body), &[again], inner_handle, ConditionalKind::While, 1).unwrap();
    fixture.add(live(body), &[added.node], counter(outer, handle));
    let child = fixture.graph();
    fixture.add(child, &[], kernel(up, &[&runs.0.to_ne_bytes()], &[(0, runs, 4)]));
    let called = fixture.add(live(added.bodies[0]), &[], NodeParameters::Child(child.handle()));
    fixture.add(live(added.bodies[0]), &[called], counter(inner, inner_handle));
    let executable = fixture.instantiate(graph);
    for _ in 0..2 {
        fixture.run_graph(executable, stream);
        assert_eq!(fixture.read(memory, 3), [0, 0, 20]);
    }
    assert_eq!(status(fixture.driver.graph_clone(&fixture.context.into(), graph)), 801);
    fixture.destroy_graph(graph);
    fixture.run_graph(executable, stream);
    assert_eq!(fixture.read(memory, 3), [0, 0, 20]);
}

#[test]
fn a_loop_ends_when_its_kernel_fails() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let panics = fixture.function(HostFunction::new("panics", &[], |_, _| panic!("in a loop")));
    let graph = fixture.graph();
    let handle = fixture.value(graph, Some(1));
    let body = fixture.conditional(graph, &[], handle, ConditionalKind::While, 1).unwrap().bodies[0];
    fixture.add(live(body), &[], kernel(panics, &[], &[]));
    let executable = fixture.instantiate(graph);
    fixture.launch_graph(executable, stream).unwrap();
    let failure = fixture.synchronize(stream).unwrap_err();
    assert_eq!(failure.detail.as_deref(), Some(&Detail::Panic("in a loop".to_owned())));
    fixture.synchronize(stream).unwrap();
}

#[test]
fn a_handle_that_the_launch_does_not_have_is_a_fault() {
    let fixture = Fixture::new();
    let stream = fixture.stream();
    let set = fixture.function(set());
    let graph = fixture.graph();
    fixture.add(graph, &[], kernel(set, &[&5u64.to_ne_bytes(), &1u32.to_ne_bytes()], &[]));
    fixture.launch_graph(fixture.instantiate(graph), stream).unwrap();
    assert_eq!(status(fixture.synchronize(stream)), 700);
}

#[test]
fn conditional_nodes_are_refused_where_hardware_refuses_them() {
    let fixture = Fixture::new();
    let (graph, other) = (fixture.graph(), fixture.graph());
    let handle = fixture.value(graph, None);
    assert_ne!(handle, fixture.value(other, None));
    for (kind, bodies) in
        [(ConditionalKind::If, 0), (ConditionalKind::If, 3), (ConditionalKind::While, 2), (ConditionalKind::Switch, 0)]
    {
        assert_eq!(status(fixture.conditional(graph, &[], handle, kind, bodies)), 1);
    }
    assert_eq!(status(fixture.conditional(other, &[], handle, ConditionalKind::If, 1)), 1);
    let unused = fixture.try_instantiate(graph, InstantiateFlags::empty()).unwrap_err();
    assert!(matches!(
        unused.detail.as_deref(),
        Some(Detail::Instantiate { result: GraphInstantiateResult::CONDITIONAL_HANDLE_UNUSED, .. })
    ));
    let added = fixture.conditional(graph, &[], handle, ConditionalKind::If, 1).unwrap();
    assert_eq!(status(fixture.conditional(graph, &[], handle, ConditionalKind::If, 1)), 1);
    assert_eq!(status(fixture.try_instantiate(live(added.bodies[0]), InstantiateFlags::empty())), 801);
    let child = fixture.graph();
    let host = fixture.add_host(child, &[], || {});
    fixture.add(live(added.bodies[0]), &[], NodeParameters::Child(child.handle()));
    let refused = fixture.try_instantiate(graph, InstantiateFlags::empty()).unwrap_err();
    let Some(&Detail::Instantiate { result, node }) = refused.detail.as_deref() else { panic!("{refused}") };
    assert_eq!(result, GraphInstantiateResult::NODE_OPERATION_NOT_SUPPORTED);
    assert!(node.is_some_and(|node| node != added.node && node != host), "the node is the copy in the body");
    assert_eq!(status(unsafe { fixture.driver.graph_destroy_node(&fixture.context.into(), added.node) }), 0);
}

/// The device runtime defines what kernels of PTX call.
#[test]
fn ptx_that_sets_values_is_linked_with_the_device_runtime() {
    let fixture = Fixture::new();
    let (driver, call) = (&fixture.driver, fixture.context.into());
    let text = ".version 8.0
        .target sm_70
        .address_size 64
        .extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
        .visible .entry set(.param .u64 handle, .param .u32 value) {
            .reg .u64 %rd<2>; .reg .u32 %r<2>;
            ld.param.u64 %rd1, [handle];
            ld.param.u32 %r1, [value];
            {
                .param .b64 param0; st.param.b64 [param0], %rd1;
                .param .b32 param1; st.param.b32 [param1], %r1;
                call.uni cudaGraphSetConditional, (param0, param1);
            }
            ret;
        }";
    let alone = unsafe { driver.module_load(&call, ModuleImage::Ptx(text)) };
    assert_eq!(status(alone), Status::INVALID_PTX.0);
    let module = unsafe { driver.module_load_with_device_runtime(&call, ModuleImage::Ptx(text)) }.unwrap();
    let function = driver.module_function(&call, live(module), "set");
    assert!(function.is_ok());
    let unknown = text.replace("cudaGraphSetConditional", "cudaGraphLaunch");
    let unknown = unsafe { driver.module_load_with_device_runtime(&call, ModuleImage::Ptx(&unknown)) };
    assert_eq!(status(unknown), Status::INVALID_PTX.0);
    unsafe { driver.module_unload(&call, module) }.unwrap();
}
