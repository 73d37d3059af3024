//! Graphs, behind calls that are short to write.

use super::{Fixture, live};
use anabranch_hal::*;

impl Fixture {
    /// Keeps host work for graphs as long as the fixture, as its owner must while a launch can run it.
    pub fn keep_work(&self, work: impl Fn() + Send + Sync + 'static) -> HostWorkKey {
        let work = RepeatableWork::new(work);
        let key = work.key();
        self.work.lock().unwrap().push(work);
        key
    }

    pub fn graph(&self) -> Live<'static, GraphHandle> {
        live(self.driver.graph_create(&self.context.into()).unwrap())
    }

    pub fn try_add(
        &self,
        graph: Live<'_, GraphHandle>,
        before: &[GraphNodeHandle],
        parameters: NodeParameters,
    ) -> Result<AddedNode> {
        let before: Vec<Dependency> = before.iter().map(|&node| node.into()).collect();
        unsafe { self.driver.graph_add_node(&self.context.into(), graph, &before, &parameters) }
    }

    pub fn add(
        &self,
        graph: Live<'_, GraphHandle>,
        before: &[GraphNodeHandle],
        parameters: NodeParameters,
    ) -> GraphNodeHandle {
        self.try_add(graph, before, parameters).unwrap().node
    }

    pub fn add_host(
        &self,
        graph: Live<'_, GraphHandle>,
        before: &[GraphNodeHandle],
        work: impl Fn() + Send + Sync + 'static,
    ) -> GraphNodeHandle {
        let node = NodeParameters::Host(self.keep_work(work));
        self.add(graph, before, node)
    }

    pub fn instantiate(&self, graph: Live<'_, GraphHandle>) -> Live<'static, ExecutableGraphHandle> {
        live(self.try_instantiate(graph, InstantiateFlags::empty()).unwrap())
    }

    pub fn try_instantiate(
        &self,
        graph: Live<'_, GraphHandle>,
        flags: InstantiateFlags,
    ) -> Result<ExecutableGraphHandle> {
        self.driver.graph_instantiate(&self.context.into(), graph, flags, None)
    }

    pub fn launch_graph(
        &self,
        executable: Live<'_, ExecutableGraphHandle>,
        stream: Live<'_, StreamHandle>,
    ) -> Result<()> {
        unsafe { self.driver.executable_launch(&self.context.into(), executable, stream) }
    }

    pub fn destroy_graph(&self, graph: Live<'_, GraphHandle>) {
        unsafe { self.driver.graph_destroy(&self.context.into(), graph.handle()) }.unwrap();
    }

    pub fn destroy_executable(&self, executable: Live<'_, ExecutableGraphHandle>) {
        unsafe { self.driver.executable_destroy(&self.context.into(), executable.handle()) }.unwrap();
    }

    /// Launches once, and waits.
    pub fn run_graph(&self, executable: Live<'_, ExecutableGraphHandle>, stream: Live<'_, StreamHandle>) {
        self.launch_graph(executable, stream).unwrap();
        self.synchronize(stream).unwrap();
    }

    pub fn graph_memory(&self, attribute: GraphMemoryAttribute) -> u64 {
        self.driver.graph_memory_attribute(DeviceOrdinal(0), attribute).unwrap()
    }
}

/// A kernel node without arguments.
pub fn kernel(
    function: Live<'_, FunctionHandle>,
    arguments: &[&[u8]],
    memory: &[(u32, DevicePointer, u64)],
) -> NodeParameters {
    NodeParameters::Kernel(KernelNode {
        function: function.handle(),
        grid: [1; 3],
        block: [1; 3],
        cluster: None,
        dynamic_shared_bytes: 0,
        cooperative: false,
        priority: None,
        attributes: KernelAttributes::NONE,
        arguments: arguments.iter().map(|value| value.to_vec()).collect(),
        ranges: memory
            .iter()
            .map(|&(argument, address, bytes)| DeclaredRange {
                argument,
                address: address.0,
                bytes,
                access: Access::Write,
            })
            .collect(),
    })
}

pub fn fill(address: DevicePointer, value: u32, count: usize) -> NodeParameters {
    NodeParameters::Fill(FillNode { address, pitch: 0, pattern: FillPattern::U32(value), width: count, height: 1 })
}

/// A copy of one row; each end is an address, and whether it is one of the host.
pub fn copy(destination: (u64, bool), source: (u64, bool), bytes: usize) -> NodeParameters {
    let place = |(address, host)| CopyPlace { address, host, pitch: bytes, height: 1, origin: [0; 3] };
    NodeParameters::Copy(Copy3d { source: place(source), destination: place(destination), extent: [bytes, 1, 1] })
}

pub fn allocation(bytes: usize) -> NodeParameters {
    NodeParameters::Allocate(AllocationNode {
        device: DeviceOrdinal(0),
        bytes,
        access: Vec::new(),
        address: DevicePointer::NULL,
    })
}
