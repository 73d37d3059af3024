//! Modules and kernels: loaded, described, launched.

use crate::kernels::{PLAIN, PTX, add};
use crate::support::{DEVICE, Gpu, live};
use anabranch_cuda::load_compiler;
use anabranch_hal::{
    Capabilities, CompileRequest, Detail, Devices, FunctionAttribute, Launch, ModuleImage, Modules, OutputKind,
    ParameterInfo, Status,
};

fn numbers(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|chunk| u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]])).collect()
}

#[test]
fn a_kernel_gets_its_arguments_in_every_kind_of_launch() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let capabilities = gpu.device_properties(DEVICE).expect("the device has properties").capabilities;
        let (module, function) = gpu.kernel(PTX, "add");
        let memory = gpu.allocate(4000);
        let mut launches = vec![PLAIN, Launch { priority: Some(-1), ..PLAIN }];
        if capabilities.contains(Capabilities::COOPERATIVE_LAUNCH) {
            launches.push(Launch { cooperative: true, ..PLAIN });
        }
        if capabilities.contains(Capabilities::CLUSTER_LAUNCH) {
            launches.push(Launch { cluster: Some([2, 1, 1]), ..PLAIN });
            launches.push(Launch { cluster: Some([2, 1, 1]), cooperative: true, priority: Some(0), ..PLAIN });
        }
        for launch in launches {
            gpu.upload(memory, &[0; 4000]);
            add(&gpu, function, launch, memory, 40, 999).expect("a launch");
            add(&gpu, function, launch, memory, 2, 999).expect("a launch");
            let values = numbers(&gpu.download(memory, 4000));
            assert!(values[..999].iter().all(|&value| value == 42) && values[999] == 0, "{launch:?}: {values:?}");
        }
        gpu.module_unload(&gpu.context.into(), module.handle()).expect("it is not in use");
    }
}

#[test]
fn a_launch_that_cannot_be_is_refused() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let (module, function) = gpu.kernel(PTX, "add");
        let refused =
            |launch: Launch<'_>| gpu.launch(&gpu.context.into(), gpu.stream, function, &launch).unwrap_err().status;
        assert_eq!(refused(Launch { grid: [0, 1, 1], ..PLAIN }), Status::INVALID_VALUE);
        assert_eq!(refused(Launch { block: [2048, 1, 1], ..PLAIN }), Status::INVALID_VALUE);
        assert_eq!(refused(PLAIN), Status::INVALID_VALUE, "the kernel has parameters");
        gpu.module_unload(&gpu.context.into(), module.handle()).expect("it is not in use");
    }
}

#[test]
fn a_module_tells_what_is_in_it() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let (module, function) = gpu.kernel(PTX, "add");
        let mut names = gpu.module_function_names(&gpu.context.into(), module).expect("the driver can say");
        names.sort();
        assert_eq!(names, ["add", "spin"]);
        let (address, bytes) = gpu.module_global(&gpu.context.into(), module, "counter").expect("it is there");
        assert!(!address.is_null() && bytes == 8);

        let info = gpu.function_info(&gpu.context.into(), function).expect("the driver can say");
        let parameters = [(0, 8), (8, 4), (12, 4)].map(|(offset, size)| ParameterInfo { offset, size });
        assert_eq!(info.parameters.as_deref(), Some(&parameters[..]));
        assert!(info.max_threads_per_block >= 128 && info.registers > 0, "{info:?}");
        let most = FunctionAttribute::MaxDynamicSharedBytes(1024);
        gpu.function_set_attribute(&gpu.context.into(), function, most).expect("it is little");
        let info = gpu.function_info(&gpu.context.into(), function).expect("the driver can say");
        assert_eq!(info.max_dynamic_shared_bytes, 1024);
        assert!(gpu.function_max_active_blocks(&gpu.context.into(), function, 128, 0).expect("the driver can say") > 0);

        for name in ["subtract", "add\0"] {
            let failure = gpu.module_function(&gpu.context.into(), module, name).unwrap_err();
            assert_eq!(failure.status, Status::NOT_FOUND, "{name:?}");
            assert_eq!(gpu.module_global(&gpu.context.into(), module, name).unwrap_err().status, Status::NOT_FOUND);
        }
        gpu.module_unload(&gpu.context.into(), module.handle()).expect("it is not in use");
    }
}

#[test]
fn what_the_assembler_says_is_passed_on() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let load = |ptx: &str| gpu.module_load(&gpu.context.into(), ModuleImage::Ptx(ptx)).unwrap_err();
        let failure = load(&PTX.replace("mad.lo.u32", "mad.up.u32"));
        assert_eq!(failure.status, Status::INVALID_PTX);
        assert!(matches!(failure.detail.as_deref(), Some(Detail::Log(log)) if log.contains("mad")), "{failure}");
        assert_eq!(load("no such thing").status, Status::INVALID_IMAGE);
        assert_eq!(load(&PTX.replace(".version 7.0", ".version 99.0")).status, Status::UNSUPPORTED_PTX_VERSION);
    }
}

#[test]
fn machine_code_runs_and_is_refused_when_cut_off() {
    let Some(gpu) = Gpu::find() else { return };
    // SAFETY: every handle is made here, and destroyed once; the work is waited for before what it uses is freed.
    unsafe {
        let compiler = match load_compiler() {
            Ok(compiler) => compiler,
            Err(absence) => return eprintln!("skipped: {absence}"),
        };
        let (major, minor) = gpu.device_properties(DEVICE).expect("the device has properties").compute_capability;
        let request = CompileRequest {
            source: "extern \"C\" __global__ void add(unsigned *values, unsigned value, unsigned count) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < count) values[i] += value;
        }",
            name: "add.cu",
            options: &[format!("--gpu-architecture=sm_{major}{minor}")],
            name_expressions: &[],
            output: OutputKind::Binary,
        };
        let image = compiler.compile(&request).expect("the source is valid").image;
        let load = |image| gpu.module_load(&gpu.context.into(), ModuleImage::Binary(image));
        let module = load(&image).expect("the image is whole");
        let function =
            live(gpu.module_function(&gpu.context.into(), live(module), "add").expect("the kernel is there"));
        let memory = gpu.allocate(400);
        gpu.upload(memory, &[0; 400]);
        add(&gpu, function, PLAIN, memory, 7, 100).expect("a launch");
        assert_eq!(numbers(&gpu.download(memory, 400)), [7; 100]);
        assert_eq!(load(&image[..image.len() / 2]).unwrap_err().status, Status::INVALID_IMAGE);
        gpu.module_unload(&gpu.context.into(), module).expect("it is not in use");
    }
}
