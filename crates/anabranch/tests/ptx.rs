//! PTX on the software device.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{
    Buffer, CaptureMode, CompileOptions, Compiler, ConditionalKind, Context, DualModule, HostFunction, Kernel,
    LaunchConfig, Module, NodeWork, Status, Stream, WaitCondition, flush_deferred_drops,
};
use common::{checked_host, host};

const TWICE: &str = include_str!("data/twice.ptx");

/// A module with a head.
fn text(body: &str) -> String {
    format!(".version 8.0\n.target sm_70\n.address_size 64\n{body}\n")
}

fn kernel(context: &Context, body: &str, name: &str) -> Kernel {
    Module::load_ptx(context, &text(body)).unwrap().kernel(name).unwrap()
}

fn kernel_of(context: &Context, ptx: &str, name: &str) -> Kernel {
    Module::load_ptx(context, ptx).unwrap().kernel(name).unwrap()
}

#[test]
fn a_kernel_runs_over_many_blocks_and_in_graphs() {
    let context = checked_host();
    let stream = context.create_stream().unwrap();
    let kernel = Module::load_ptx(&context, TWICE).unwrap().kernel("twice").unwrap();
    let values: Vec<f32> = (0..60_000u16).map(f32::from).collect();
    let mut data = stream.upload(&values).unwrap();
    let count = values.len() as u32;
    // SAFETY: `twice` takes a pointer to `n` numbers and `n`, and uses no other memory.
    unsafe { stream.launch(&kernel, &LaunchConfig::for_elements(count), (&mut data, count)) }.unwrap();
    let mut graph = context.create_graph().unwrap();
    // SAFETY: as above.
    let work = unsafe { NodeWork::kernel(&kernel, &LaunchConfig::for_elements(count), (&mut data, count)) };
    graph.add((), work.unwrap()).unwrap();
    let executable = graph.instantiate().unwrap();
    executable.launch(&stream).unwrap();
    executable.launch(&stream).unwrap();
    let captured = stream.capture_executable(CaptureMode::Global, |scope| {
        // SAFETY: as above.
        unsafe { scope.launch(&kernel, &LaunchConfig::for_elements(count), (&mut data, count)) }
    });
    captured.unwrap().launch(&stream).unwrap();
    let found = stream.download(&data).unwrap();
    assert!(found.iter().zip(&values).all(|(found, value)| *found == 16.0 * value));
}

#[test]
fn closures_come_first_unless_ptx_is_preferred() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let nothing = HostFunction::new("twice", &[8, 4], |_, _| ());
    let both = DualModule::new().ptx(TWICE).host_function(nothing);
    for (program, expected) in [(DualModule::new().ptx(TWICE), 2.0f32), (both.clone(), 1.0), (both.prefer_ptx(), 2.0)] {
        let kernel = program.load(&context).unwrap().kernel("twice").unwrap();
        let mut data = stream.upload(&[1.0f32]).unwrap();
        // SAFETY: `twice` takes a pointer to `n` numbers and `n`, and uses no other memory.
        unsafe { stream.launch(&kernel, &LaunchConfig::for_elements(1), (&mut data, 1u32)) }.unwrap();
        assert_eq!(stream.download(&data).unwrap(), [expected]);
    }
}

#[test]
fn variables_are_initialised_and_can_be_read_and_set() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let body = ".visible .global .align 4 .u32 numbers[3] = {1, 2, 3};
        .const .align 8 .u64 where = numbers;
        .visible .entry sum(.param .u64 to) {
            .reg .u64 %rd<4>; .reg .u32 %r<5>;
            ld.param.u64 %rd1, [to];
            ld.const.u64 %rd2, [where];
            ld.global.u32 %r1, [%rd2]; ld.global.u32 %r2, [%rd2+4]; ld.global.u32 %r3, [%rd2+8];
            add.u32 %r1, %r1, %r2; add.u32 %r1, %r1, %r3;
            st.global.u32 [%rd1], %r1;
            ret;
        }";
    let module = Module::load_ptx(&context, &text(body)).unwrap();
    let (kernel, mut sum) = (module.kernel("sum").unwrap(), stream.allocate_zeroed::<u32>(1).unwrap());
    // SAFETY: the kernel writes one number.
    unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (&mut sum,)) }.unwrap();
    assert_eq!(stream.download(&sum).unwrap(), [6]);
    module.set_global(&stream, "numbers", &[10u32, 20, 30]).unwrap();
    // SAFETY: as above.
    unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (&mut sum,)) }.unwrap();
    assert_eq!(stream.download(&sum).unwrap(), [60]);
    assert_eq!(module.kernel_names().unwrap(), ["sum"]);
    assert_eq!(kernel.info().unwrap().constant_bytes, 8);
}

#[test]
fn text_that_is_wrong_is_refused_with_its_line() {
    let context = host();
    let refused = |body: &str| Module::load_ptx(&context, body).unwrap_err();
    assert_eq!(refused("this is no PTX").status(), Status::INVALID_IMAGE);
    let truncated = refused(&text(".visible .entry k() { add.u32"));
    assert_eq!(truncated.status(), Status::INVALID_PTX);
    assert!(truncated.to_string().contains("line "), "{truncated}");
    let unknown = refused(&text(".visible .entry k() { bogus.u32 1; ret; }"));
    assert_eq!(unknown.status(), Status::INVALID_PTX);
    assert!(unknown.log().is_some_and(|log| log.contains("bogus")), "{unknown}");
    let too_much = ".visible .entry k() { .shared .b8 s[49153]; .reg .b32 %r; mov.u32 %r, s; ret; }";
    let shared = refused(&text(too_much));
    assert_eq!(shared.status(), Status::INVALID_PTX);
    assert!(shared.log().is_some_and(|log| log.contains("49153 bytes of shared variables")), "{shared}");
}

#[test]
fn what_cannot_be_executed_is_refused_by_name_when_it_is_launched() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let body = ".visible .entry good() { ret; }
        .visible .entry bad() { setmaxnreg.inc.sync.aligned.u32 64; ret; }";
    let module = Module::load_ptx(&context, &text(body)).unwrap();
    // SAFETY: neither kernel uses memory.
    let launch = |name| unsafe { stream.launch(&module.kernel(name).unwrap(), &LaunchConfig::new(1, 1), ()) };
    launch("good").unwrap();
    let refused = launch("bad").unwrap_err();
    assert_eq!(refused.status(), Status::NOT_SUPPORTED);
    assert!(refused.to_string().contains("setmaxnreg") && refused.to_string().contains("line 5"), "{refused}");
    stream.synchronize().unwrap();
}

#[test]
fn a_fault_names_the_kernel_the_line_the_block_and_the_thread() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let body = ".visible .entry stray(.param .u64 to) {
            .reg .u64 %rd<4>; .reg .u32 %r<4>;
            ld.param.u64 %rd1, [to];
            mov.u32 %r1, %ctaid.x;
            mul.wide.u32 %rd2, %r1, 4096;
            add.u64 %rd1, %rd1, %rd2;
            st.global.u32 [%rd1], %r1;
            ret;
        }";
    let kernel = kernel(&context, body, "stray");
    let mut memory = stream.allocate_zeroed::<u32>(16).unwrap();
    // SAFETY: the kernel writes outside of its memory, which the software device refuses.
    unsafe { stream.launch(&kernel, &LaunchConfig::new(2, 1), (&mut memory,)) }.unwrap();
    let fault = stream.synchronize().unwrap_err();
    assert_eq!(fault.status(), Status::ILLEGAL_ADDRESS);
    let told = fault.to_string();
    assert!(
        ["stray", "line 10", "block (1, 0, 0)", "thread (0, 0, 0)"].iter().all(|part| told.contains(part)),
        "{told}"
    );
    flush_deferred_drops();
}

/// Adds 1 to a number through an address that is itself in memory.
const THROUGH: &str = ".visible .entry through(.param .u64 at) {
        .reg .u64 %rd<3>; .reg .u32 %r<2>;
        ld.param.u64 %rd1, [at];
        ld.global.u64 %rd2, [%rd1];
        ld.global.u32 %r1, [%rd2];
        add.u32 %r1, %r1, 1;
        st.global.u32 [%rd2], %r1;
        ret;
    }";

#[test]
fn memory_that_is_freed_behind_a_kernel_is_there_while_it_runs() {
    for context in [host(), checked_host()] {
        let (stream, gate) = (context.create_stream().unwrap(), context.create_signal().unwrap());
        let (twice, through) = (kernel_of(&context, TWICE, "twice"), kernel(&context, THROUGH, "through"));
        let mut copy = stream.allocate_zeroed::<f32>(1000).unwrap();
        let mut numbers = stream.allocate_zeroed::<u32>(8).unwrap();
        let mut data = stream.upload(&[3.0f32; 1000]).unwrap();
        let plain = context.allocate_zeroed::<u32>(&stream, 4).unwrap();
        let pooled = stream.upload(&[7u32; 4]).unwrap();
        let pointers = stream.upload(&[plain.device_pointer().0, pooled.device_pointer().0]).unwrap();
        stream.synchronize().unwrap();
        stream.wait_signal(&gate, WaitCondition::Equal, 1).unwrap();
        // SAFETY: `twice` takes a pointer to `n` numbers and `n`; `through` takes the address of an address of a number,
        // whose memory is freed behind it.
        unsafe {
            stream.launch(&twice, &LaunchConfig::for_elements(1000), (&mut data, 1000u32)).unwrap();
            for at in [0..1, 1..2] {
                stream.launch(&through, &LaunchConfig::new(1, 1), (pointers.slice(at).unwrap(),)).unwrap();
            }
        }
        stream.copy(&mut copy, &data).unwrap();
        stream.copy(numbers.slice_mut(..4).unwrap(), &plain).unwrap();
        stream.copy(numbers.slice_mut(4..).unwrap(), &pooled).unwrap();
        drop((data, plain, pooled, pointers));
        gate.set(1);
        assert_eq!(stream.download(&copy).unwrap(), [6.0; 1000]);
        assert_eq!(stream.download(&numbers).unwrap(), [1, 0, 0, 0, 8, 7, 7, 7]);
        flush_deferred_drops();
    }
}

#[test]
fn blocks_that_wait_for_each_other_all_run() {
    let context = host();
    let stream = context.create_stream().unwrap();
    // Each block waits until all have come.
    let body = ".visible .entry meet(.param .u64 count, .param .u32 blocks) {
            .reg .u64 %rd<3>; .reg .u32 %r<4>; .reg .pred %p<2>;
            ld.param.u64 %rd1, [count];
            ld.param.u32 %r1, [blocks];
            atom.global.add.u32 %r2, [%rd1], 1;
        again:
            ld.volatile.global.u32 %r3, [%rd1];
            setp.lt.u32 %p1, %r3, %r1;
            @%p1 bra again;
            ret;
        }";
    let kernel = kernel(&context, body, "meet");
    let mut count = stream.allocate_zeroed::<u32>(1).unwrap();
    // SAFETY: the kernel counts in one number, atomically.
    unsafe { stream.launch(&kernel, &LaunchConfig::new(8, 1), (&mut count, 8u32)) }.unwrap();
    assert_eq!(stream.download(&count).unwrap(), [8]);
}

const DECIDES: &str = ".extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);
    .visible .entry decide(.param .u64 handle, .param .u32 value) {
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

#[test]
fn a_kernel_sets_a_conditional_value() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let decide = kernel(&context, DECIDES, "decide");
    let mut graph = context.create_graph().unwrap();
    let value = graph.create_conditional(Some(0)).unwrap();
    // SAFETY: `decide` uses no memory.
    let first = unsafe { graph.add_kernel((), &decide, &LaunchConfig::new(1, 1), (value.argument(), 1u32)) }.unwrap();
    let node = graph.add_conditional(first, value, ConditionalKind::If, 1).unwrap();
    let mut ran = stream.allocate_zeroed::<u32>(1).unwrap();
    graph.body(node, 0).unwrap().add((), NodeWork::fill(&mut ran, 7u32).unwrap()).unwrap();
    graph.instantiate().unwrap().launch(&stream).unwrap();
    assert_eq!(stream.download(&ran).unwrap(), [7]);
}

#[test]
fn a_conditional_value_of_no_graph_or_another_one_is_a_fault() {
    for in_a_graph in [false, true] {
        let context = host();
        let stream = context.create_stream().unwrap();
        let decide = kernel(&context, DECIDES, "decide");
        let mut graph = context.create_graph().unwrap();
        let value = graph.create_conditional(Some(0)).unwrap();
        graph.add_conditional((), value, ConditionalKind::If, 1).unwrap();
        let (config, wrong) = (LaunchConfig::new(1, 1), 0x1234_5678u64);
        if in_a_graph {
            // SAFETY: `decide` uses no memory.
            unsafe { graph.add_kernel((), &decide, &config, (wrong, 1u32)) }.unwrap();
            graph.instantiate().unwrap().launch(&stream).unwrap();
        } else {
            // SAFETY: as above.
            unsafe { stream.launch(&decide, &config, (value.argument(), 1u32)) }.unwrap();
        }
        let fault = stream.synchronize().unwrap_err();
        assert_eq!(fault.status(), Status::ILLEGAL_ADDRESS);
        let told = fault.to_string();
        assert!(["decide", "conditional value", "line "].iter().all(|part| told.contains(part)), "{told}");
        flush_deferred_drops();
    }
}

/// Where NVRTC is found, as in continuous integration.
#[test]
fn cuda_in_c_plus_plus_is_compiled_and_runs() {
    let Ok(compiler) = Compiler::find() else {
        eprintln!("not checked: NVRTC was not found");
        return;
    };
    let source = r#"extern "C" __global__ void triple(float* x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] *= 3.0f;
    }"#;
    let context = host();
    let stream = context.create_stream().unwrap();
    let compiled = compiler.compile(source, &CompileOptions::new()).unwrap();
    let kernel = Module::load_compiled(&context, &compiled).unwrap().kernel("triple").unwrap();
    let mut data = stream.upload(&[1.0f32, 2.0, 5.0]).unwrap();
    // SAFETY: `triple` takes a pointer to `n` numbers and `n`, and uses no other memory.
    unsafe { stream.launch(&kernel, &LaunchConfig::for_elements(3), (&mut data, 3i32)) }.unwrap();
    assert_eq!(stream.download(&data).unwrap(), [3.0, 6.0, 15.0]);
}

/// Kernels that allocate: `make` stores what it gets for as many bytes, `touch` reads a word there, `give` frees it.
const HEAP: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
    .extern .func (.param .b64 result) malloc (.param .b64 bytes);\n.extern .func free (.param .b64 address);\n\
    .visible .entry make(.param .u64 to, .param .u64 bytes) {\n\
    .reg .b64 %d<4>; .param .b64 b; .param .b64 a; ld.param.u64 %d0, [to]; ld.param.u64 %d1, [bytes];\n\
    st.param.b64 [b], %d1; call (a), malloc, (b); ld.param.b64 %d2, [a]; st.global.u64 [%d0], %d2; ret; }\n\
    .visible .entry touch(.param .u64 at) {\n\
    .reg .b64 %d<4>; ld.param.u64 %d0, [at]; ld.u64 %d1, [%d0]; st.u64 [%d0], %d1; ret; }\n\
    .visible .entry give(.param .u64 at) {\n\
    .reg .b64 %d<2>; .param .b64 a; ld.param.u64 %d0, [at]; st.param.b64 [a], %d0; call free, (a); ret; }\n";

#[test]
fn the_heap_of_kernels_lasts_and_is_checked() {
    let run = |context: &Context, name: &str, at: u64| {
        let stream = context.create_stream().unwrap();
        let kernel = kernel_of(context, HEAP, name);
        // SAFETY: a wrong address is what the test is about, and it is checked.
        unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (at,)) }.unwrap();
        stream.synchronize()
    };
    let make = |context: &Context, bytes: u64| {
        let stream = context.create_stream().unwrap();
        let mut to = stream.allocate_zeroed::<u64>(1).unwrap();
        let kernel = kernel_of(context, HEAP, "make");
        // SAFETY: the kernel writes one word.
        unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (&mut to, bytes)) }.unwrap();
        stream.download(&to).unwrap()[0]
    };
    let context = host();
    let at = make(&context, 16);
    assert_ne!(at, 0);
    run(&context, "touch", at).unwrap();
    run(&context, "give", 0).unwrap();
    run(&context, "give", at).unwrap();
    assert_eq!(make(&context, 16), at);
    assert_eq!(make(&context, 9 << 20), 0);
    // Of each of these, checked mode says what it is.
    type Wrong = (u64, &'static [&'static str], Status, &'static str);
    let all: [Wrong; 4] = [
        (16, &["touch"], Status::ILLEGAL_ADDRESS, "beyond the 20 bytes"),
        (0, &["give", "touch"], Status::ILLEGAL_ADDRESS, "that has been freed"),
        (0, &["give", "give"], Status::LAUNCH_FAILED, "freed already"),
        (8, &["give"], Status::LAUNCH_FAILED, "no address that malloc has returned"),
    ];
    for (offset, kernels, status, says) in all {
        let context = checked_host();
        let at = make(&context, 20);
        run(&context, "touch", at).unwrap();
        let (last, first) = kernels.split_last().unwrap();
        first.iter().for_each(|name| run(&context, name, at).unwrap());
        let error = run(&context, last, at + offset).unwrap_err();
        assert_eq!(error.status(), status, "{error}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.to_string().contains("line "), "{error}");
    }
}

#[test]
fn kernels_have_the_clusters_that_they_were_compiled_for() {
    let context = host();
    let stream = context.create_stream().unwrap();
    let kernel = |directives: &str| {
        let text = format!(
            ".version 8.4\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 to) {directives} {{\n\
             .reg .b32 %r<5>; .reg .b64 %d<3>; ld.param.u64 %d0, [to]; mov.u32 %r0, %ctaid.x; mul.wide.u32 %d1, %r0, 4;\n\
             add.u64 %d0, %d0, %d1; mov.u32 %r1, %cluster_nctarank; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %clusterid.x;\n\
             mad.lo.u32 %r2, %r2, 10, %r3; mad.lo.u32 %r2, %r1, 100, %r2; st.global.u32 [%d0], %r2; ret; }}"
        );
        kernel_of(&context, &text, "k")
    };
    let launch = |kernel: &Kernel, config: LaunchConfig<'_>, captured: bool| {
        let mut to = stream.upload(&[0u32; 6])?;
        // SAFETY: the kernel writes one number for each of up to 6 blocks.
        let put = |stream: &Stream, to: &mut Buffer<u32>| unsafe { stream.launch(kernel, &config, (to,)) };
        if captured {
            stream.capture_executable(CaptureMode::Relaxed, |scope| put(scope.stream(), &mut to))?.launch(&stream)?;
        } else {
            put(&stream, &mut to)?;
        }
        stream.download(&to)
    };
    let required = kernel(".explicitcluster .reqnctapercluster 2, 1, 1");
    for captured in [false, true] {
        for config in [LaunchConfig::new(6, 1), LaunchConfig::new(6, 1).cluster(2)] {
            assert_eq!(launch(&required, config, captured).unwrap(), [200, 210, 201, 211, 202, 212]);
        }
    }
    assert_eq!(launch(&kernel(""), LaunchConfig::new(6, 1).cluster(3), false).unwrap(), [300, 310, 320, 301, 311, 321]);
    let refused = |directives: &str, config| launch(&kernel(directives), config, false).unwrap_err();
    for (directives, config) in [
        (".reqnctapercluster 2", LaunchConfig::new(5, 1)),
        (".reqnctapercluster 2", LaunchConfig::new(6, 1).cluster(3)),
        (".maxclusterrank 2", LaunchConfig::new(6, 1).cluster(3)),
        (".explicitcluster", LaunchConfig::new(6, 1)),
    ] {
        assert_eq!(refused(directives, config).status(), Status::INVALID_CLUSTER_SIZE, "{directives}");
    }
    let counted = refused(".reqnctapercluster 2 .blocksareclusters", LaunchConfig::new(6, 1));
    assert!(counted.to_string().contains(".blocksareclusters"), "{counted}");
}

#[test]
fn variables_have_their_alignment() {
    let context = host();
    let stream = context.create_stream().unwrap();
    // The caller's local memory ends at no multiple of the called function's alignment.
    let body = ".global .align 1024 .b8 g[8]; .const .align 4096 .b8 c[8] = {1}; .shared .align 512 .b8 s[8];
        .func (.reg .b64 %all) local() { .local .align 128 .b8 l[8]; .reg .b64 %a; mov.u64 %a, l; cvta.local.u64 %all, %a; ret; }
        .visible .entry k(.param .u64 to) { .local .align 16 .b8 own[48]; .reg .b64 %d<6>; ld.param.u64 %d0, [to]; mov.u64 %d1, g;
        mov.u64 %d2, c; cvta.const.u64 %d2, %d2; mov.u64 %d3, s; cvta.shared.u64 %d3, %d3; call (%d4), local, ();
        and.b64 %d1, %d1, 1023; and.b64 %d2, %d2, 4095; and.b64 %d3, %d3, 511; and.b64 %d4, %d4, 127;
        mov.u64 %d5, own; st.local.u32 [%d5], 1; st.global.v2.u64 [%d0], {%d1, %d2}; st.global.v2.u64 [%d0+16], {%d3, %d4}; ret; }";
    for _ in 0..8 {
        let kernel = kernel(&context, body, "k");
        let mut to = stream.upload(&[1u64; 4]).unwrap();
        // SAFETY: the kernel writes four numbers.
        unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (&mut to,)) }.unwrap();
        assert_eq!(stream.download(&to).unwrap(), [0; 4]);
    }
}

#[test]
fn a_module_uses_what_another_one_has_allocated_with_malloc() {
    for context in [host(), checked_host()] {
        let stream = context.create_stream().unwrap();
        let made = ".extern .func (.param .b64 r) malloc(.param .b64 n);
            .visible .entry k(.param .u64 to) { .reg .b64 %d<3>; .param .b64 n; .param .b64 r; ld.param.u64 %d0, [to];
            st.param.b64 [n], 8; call (r), malloc, (n); ld.param.b64 %d1, [r]; st.u64 [%d1], 77; st.global.u64 [%d0], %d1; ret; }";
        let read =
            ".visible .entry k(.param .u64 to) { .reg .b64 %d<3>; ld.param.u64 %d0, [to]; ld.global.u64 %d1, [%d0];
            ld.u64 %d2, [%d1]; st.global.u64 [%d0], %d2; ret; }";
        let mut to = stream.upload(&[0u64]).unwrap();
        for text in [made, read] {
            let kernel = kernel(&context, text, "k");
            // SAFETY: the kernels write one number, and read what the first has allocated.
            unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), (&mut to,)) }.unwrap();
        }
        assert_eq!(stream.download(&to).unwrap(), [77]);
    }
}
