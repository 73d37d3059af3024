//! Graphs that run depending on a value.

use crate::graph::{fill, kernel, skips};
use crate::support::{DEVICE, Gpu, live};
use anabranch_cuda::load_compiler;
use anabranch_hal::{
    CompileRequest, ConditionalKind, ConditionalNode, Devices, GraphNodeKind, Graphs, KernelNode, Memory, ModuleImage,
    Modules, NodeParameters, OutputKind, Status,
};

#[test]
fn graphs_run_depending_on_a_default_value() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let memory = gpu.allocate(4);
        for default in [0, 1] {
            gpu.upload(memory, &[9; 4]);
            let graph = gpu.graph();
            let handle = match gpu.graph_conditional_create(&gpu.context.into(), graph, Some(default)) {
                Ok(handle) => handle,
                Err(failure) => return assert!(skips(&failure)),
            };
            let node = ConditionalNode { handle, kind: ConditionalKind::If, body_count: 1, bodies: Vec::new() };
            let added = gpu
                .graph_add_node(&gpu.context.into(), graph, &[], &NodeParameters::Conditional(node))
                .expect("a conditional node");
            assert_eq!(added.bodies.len(), 1);
            assert_eq!(gpu.graph_node_kind(&gpu.context.into(), live(added.node)), Ok(GraphNodeKind::CONDITIONAL));
            gpu.node(live(added.bodies[0]), &[], &fill(memory, 0x0303_0303, 1));
            let executable = gpu.executable(graph);
            gpu.run(executable);
            assert_eq!(gpu.download(memory, 4), if default == 0 { [9; 4] } else { [3; 4] });
            gpu.destroy(graph, &[executable]);
        }
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
    }
}

/// Counts down in a loop that the kernel ends by itself. Needs an NVRTC and the device runtime.
#[test]
fn a_kernel_ends_a_loop() {
    let Some(gpu) = Gpu::find() else { return };
    let compiler = match load_compiler() {
        Ok(compiler) => compiler,
        Err(absence) => return eprintln!("skipped: {absence}"),
    };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let (major, minor) = gpu.device_properties(DEVICE).expect("the device is there").compute_capability;
        let request = CompileRequest {
            source: "extern \"C\" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);
            extern \"C\" __global__ void count_down(unsigned long long handle, unsigned *left) {
                *left -= 1;
                cudaGraphSetConditional(handle, *left != 0);
            }",
            name: "count_down.cu",
            options: &[
                format!("--gpu-architecture=compute_{major}{minor}"),
                "--relocatable-device-code=true".to_owned(),
            ],
            name_expressions: &[],
            output: OutputKind::Ptx,
        };
        let image = compiler.compile(&request).expect("the source is valid").image;
        let ptx = String::from_utf8(image).expect("PTX is text");
        let ptx = ModuleImage::Ptx(ptx.trim_end_matches('\0'));
        let module = match gpu.module_load_with_device_runtime(&gpu.context.into(), ptx) {
            Ok(module) => module,
            Err(failure) if failure.status == Status::FILE_NOT_FOUND => return eprintln!("skipped: {failure}"),
            Err(failure) => panic!("{failure}"),
        };
        let function =
            live(gpu.module_function(&gpu.context.into(), live(module), "count_down").expect("the kernel is there"));
        let memory = gpu.allocate(4);
        gpu.upload(memory, &5_u32.to_le_bytes());
        let graph = gpu.graph();
        let handle = match gpu.graph_conditional_create(&gpu.context.into(), graph, Some(1)) {
            Ok(handle) => handle,
            Err(failure) => return assert!(skips(&failure)),
        };
        let node = ConditionalNode { handle, kind: ConditionalKind::While, body_count: 1, bodies: Vec::new() };
        let node = NodeParameters::Conditional(node);
        let added = gpu.graph_add_node(&gpu.context.into(), graph, &[], &node).expect("a conditional node");
        let arguments = vec![handle.0.to_le_bytes().to_vec(), memory.0.to_le_bytes().to_vec()];
        let body = KernelNode { grid: [1; 3], block: [1; 3], arguments, ..kernel(function, memory, 0, 0) };
        gpu.node(live(added.bodies[0]), &[], &NodeParameters::Kernel(body));
        let executable = gpu.executable(graph);
        gpu.run(executable);
        assert_eq!(gpu.download(memory, 4), [0; 4]);
        gpu.destroy(graph, &[executable]);
        gpu.free(&gpu.context.into(), memory).expect("the memory is free to go");
        gpu.module_unload(&gpu.context.into(), module).expect("it is not in use");
    }
}
