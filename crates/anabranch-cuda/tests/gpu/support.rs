//! What every test needs: the driver, the primary context of the first device, a stream.

use anabranch_cuda::CudaDriver;
use anabranch_hal::{
    ContextHandle, Contexts, CopyKind, Dependency, DeviceOrdinal, DevicePointer, ExecutableGraphHandle,
    ExecutableGraphs, FunctionHandle, GraphHandle, GraphNodeHandle, Graphs, Handle, InstantiateFlags, Live, Memory,
    ModuleHandle, ModuleImage, Modules, NodeParameters, StreamFlags, StreamHandle, Streams,
};
use std::ops::Deref;
use std::sync::Arc;

pub(crate) const DEVICE: DeviceOrdinal = DeviceOrdinal(0);

/// A handle of an object that a test has made. It is not used after the object was destroyed, and graphs on one thread.
pub(crate) fn live<H: Handle>(handle: H) -> Live<'static, H> {
    // SAFETY: the tests keep to that.
    unsafe { Live::new(handle) }
}

/// A share in the primary context of the first device, and a stream that is waited for at the end.
pub(crate) struct Gpu {
    driver: Arc<CudaDriver>,
    pub(crate) context: Live<'static, ContextHandle>,
    pub(crate) stream: Live<'static, StreamHandle>,
}

impl Gpu {
    /// None, and a line that says so, where there is no GPU.
    pub(crate) fn find() -> Option<Self> {
        let driver = match CudaDriver::load() {
            Ok(driver) => driver,
            Err(absence) => {
                eprintln!("skipped: {absence}");
                return None;
            }
        };
        let context = live(driver.primary_context_retain(DEVICE).expect("the device has a primary context"));
        let stream = live(driver.stream_create(&context.into(), StreamFlags::NON_BLOCKING, 0).expect("a stream"));
        Some(Self { driver, context, stream })
    }

    pub(crate) fn synchronize(&self) {
        self.stream_synchronize(&self.context.into(), self.stream).expect("the work succeeds");
    }

    pub(crate) fn allocate(&self, bytes: usize) -> DevicePointer {
        Memory::allocate(&**self, &self.context.into(), bytes).expect("device memory")
    }

    /// Copies host memory to the device, and waits.
    pub(crate) fn upload(&self, to: DevicePointer, from: &[u8]) {
        let (source, bytes) = (from.as_ptr().expose_provenance() as u64, from.len());
        // SAFETY: the tests give memory that is as long as the data, and the copy is waited for.
        unsafe { self.copy_async(&self.context.into(), CopyKind::HostToDevice, to.0, source, bytes, self.stream) }
            .expect("an upload");
        self.synchronize();
    }

    /// Copies device memory to the host, and waits.
    pub(crate) fn download(&self, from: DevicePointer, bytes: usize) -> Vec<u8> {
        let mut to = vec![0; bytes];
        let destination = to.as_mut_ptr().expose_provenance() as u64;
        // SAFETY: the tests give memory that is as long as they say, and the copy is waited for.
        unsafe {
            self.copy_async(&self.context.into(), CopyKind::DeviceToHost, destination, from.0, bytes, self.stream)
        }
        .expect("a download");
        self.synchronize();
        to
    }

    /// Loads PTX and finds a kernel of it.
    pub(crate) fn kernel(&self, ptx: &str, name: &str) -> (Live<'static, ModuleHandle>, Live<'static, FunctionHandle>) {
        // SAFETY: the context lives as long as this.
        let module =
            live(unsafe { self.module_load(&self.context.into(), ModuleImage::Ptx(ptx)) }.expect("the PTX is valid"));
        let function = live(self.module_function(&self.context.into(), module, name).expect("the kernel is there"));
        (module, function)
    }

    pub(crate) fn graph(&self) -> Live<'static, GraphHandle> {
        live(self.graph_create(&self.context.into()).expect("a graph"))
    }

    pub(crate) fn node(
        &self,
        graph: Live<'_, GraphHandle>,
        after: &[GraphNodeHandle],
        parameters: &NodeParameters,
    ) -> GraphNodeHandle {
        let dependencies: Vec<Dependency> = after.iter().map(|&node| node.into()).collect();
        // SAFETY: the tests give graphs, nodes and parameters that are live, and nodes that do what is sound.
        unsafe { self.graph_add_node(&self.context.into(), graph, &dependencies, parameters) }.expect("a node").node
    }

    pub(crate) fn executable(&self, graph: Live<'_, GraphHandle>) -> Live<'static, ExecutableGraphHandle> {
        live(self.graph_instantiate(&self.context.into(), graph, InstantiateFlags::empty(), None).expect("it is sound"))
    }

    pub(crate) fn run(&self, executable: Live<'_, ExecutableGraphHandle>) {
        // SAFETY: the tests give executable graphs that are live and do what is sound.
        unsafe { self.executable_launch(&self.context.into(), executable, self.stream) }.expect("a launch");
        self.synchronize();
    }

    pub(crate) fn destroy(&self, graph: Live<'_, GraphHandle>, executables: &[Live<'_, ExecutableGraphHandle>]) {
        // SAFETY: the tests give their own, and use them no more.
        unsafe {
            for &executable in executables {
                self.executable_destroy(&self.context.into(), executable.handle()).expect("it is ours");
            }
            self.graph_destroy(&self.context.into(), graph.handle()).expect("it is ours");
        }
    }
}

impl Deref for Gpu {
    type Target = CudaDriver;

    fn deref(&self) -> &CudaDriver {
        &self.driver
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the stream is ours, and so is the share in the context; the tests use neither after this.
        unsafe {
            let _ = self.stream_synchronize(&self.context.into(), self.stream);
            let _ = self.stream_destroy(&self.context.into(), self.stream.handle());
            let _ = self.primary_context_release(DEVICE);
        }
    }
}
