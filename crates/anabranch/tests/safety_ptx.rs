//! Classes of defects of PTX on the software device. `docs/safety.md` lists them all by the
//! numbers in the tests' names.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod common;

use anabranch::{Context, Instance, LaunchConfig, Module, Status};
use common::assert_ends;

/// Each block counts itself, and waits until as many have done so. `trap`: block 0 fails instead.
fn waiting_for_all(trap: bool) -> String {
    let first = if trap { "@!%p1 trap;" } else { "" };
    format!(
        "
.version 8.0
.target sm_80
.address_size 64
.visible .entry wait(.param .u64 count, .param .u32 blocks)
{{
    .reg .u64 %rd<3>; .reg .u32 %r<6>; .reg .pred %p<4>;
    ld.param.u64 %rd1, [count];
    ld.param.u32 %r1, [blocks];
    mov.u32 %r2, %ctaid.x;
    setp.ne.u32 %p1, %r2, 0;
    mov.u32 %r5, 0;
work:
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p3, %r5, 2000;
    @%p3 bra work;
    {first}
    mov.u32 %r2, %tid.x;
    setp.ne.u32 %p2, %r2, 0;
    @%p2 bra done;
    atom.global.add.u32 %r3, [%rd1], 1;
again:
    nanosleep.u32 20;
    ld.volatile.global.u32 %r4, [%rd1];
    setp.lt.u32 %p3, %r4, %r1;
    @%p3 bra again;
done:
    bar.sync 0;
    ret;
}}"
    )
}

fn context() -> Context {
    Instance::builder()
        .cuda(false)
        .host_workers(4)
        .isolated()
        .build()
        .unwrap()
        .device("host")
        .unwrap()
        .context()
        .unwrap()
}

#[test]
fn safety_144_all_blocks_of_a_cooperative_launch_run_at_the_same_time() {
    assert_ends(|| {
        let context = context();
        let stream = context.create_stream().unwrap();
        let kernel = Module::load_ptx(&context, &waiting_for_all(false)).unwrap().kernel("wait").unwrap();
        for (blocks, threads) in [(100u32, 32u32), (128, 1), (64, 64)] {
            let mut count = stream.upload(&[0u32]).unwrap();
            let config = LaunchConfig::new(blocks, threads).cooperative();
            // SAFETY: the kernel takes the address of a number, which it counts up by atomic operations, and a number.
            unsafe { stream.launch(&kernel, &config, (&mut count, blocks)) }.unwrap();
            assert_eq!(stream.download(&count).unwrap(), [blocks]);
        }
    });
}

#[test]
fn safety_145_a_fault_of_one_block_ends_those_that_wait_for_it() {
    assert_ends(|| {
        let context = context();
        let stream = context.create_stream().unwrap();
        let kernel = Module::load_ptx(&context, &waiting_for_all(true)).unwrap().kernel("wait").unwrap();
        let mut count = stream.upload(&[0u32]).unwrap();
        let config = LaunchConfig::new(64, 64);
        // SAFETY: the kernel takes the address of a number, which it counts up by atomic operations, and a number.
        unsafe { stream.launch(&kernel, &config, (&mut count, 64u32)) }.unwrap();
        assert_eq!(stream.synchronize().unwrap_err().status(), Status::LAUNCH_FAILED);
    });
}

#[test]
fn safety_147_lanes_that_wait_by_an_indexed_branch_let_the_others_go_on() {
    const KERNEL: &str = "
.version 8.0
.target sm_80
.address_size 64
.visible .entry wait(.param .u64 flag)
{
    .reg .u64 %rd<2>; .reg .u32 %r<5>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [flag];
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 bra set;
targets: .branchtargets again, done;
again:
    ld.volatile.global.u32 %r2, [%rd1];
    setp.ne.u32 %p2, %r2, 0;
    selp.u32 %r3, 1, 0, %p2;
    brx.idx %r3, targets;
set:
    st.volatile.global.u32 [%rd1], 1;
done:
    ret;
}";
    assert_ends(|| {
        let context = context();
        let stream = context.create_stream().unwrap();
        let kernel = Module::load_ptx(&context, KERNEL).unwrap().kernel("wait").unwrap();
        let mut flag = stream.upload(&[0u32]).unwrap();
        // SAFETY: the kernel takes the address of a number, which it reads and writes.
        unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 2), (&mut flag,)) }.unwrap();
        assert_eq!(stream.download(&flag).unwrap(), [1]);
    });
}

/// The answers are those of NVIDIA's assembler. `crates/anabranch-ptx/tests/declarations.rs` has all of them.
#[test]
fn safety_158_ptx_that_contradicts_itself_is_not_loaded() {
    let context = context();
    let load = |functions: &str, body: &str| {
        let kernel = format!(".visible .entry k(.param .u64 to) {{ {body} ret; }}\n");
        Module::load_ptx(&context, &format!(".version 8.4\n.target sm_90\n.address_size 64\n{functions}{kernel}"))
    };
    let foo = ".func foo(.param .b32 p) { ret; }\n";
    let alias = ".alias bar, foo;\n";
    load(&format!("{foo}.func bar(.param .b32 p);\n{alias}"), "call bar, (1);").unwrap();
    for (functions, body) in [
        (format!("{foo}.func bar(.param .b32 p) {{ trap; }}\n{alias}"), ""),
        (format!("{foo}.global .u32 bar = 7;\n{alias}"), ""),
        (format!("{foo}{alias}"), ""),
        (format!(".func foo(.param .b64 p);\n{foo}"), ""),
        (".global .u32 x = 1;\n.global .u32 x = 2;\n".to_owned(), ""),
        (foo.to_owned(), "call foo;"),
        (foo.to_owned(), "call foo, (1, 2);"),
        (foo.to_owned(), ".param .b64 a; call foo, (a);"),
        (".entry other() { ret; }\n".to_owned(), "call other;"),
        (".entry other();\n".to_owned(), ""),
        (String::new(), "L: L:"),
        (String::new(), ".reg .b32 %r<4>; .reg .b64 %r1;"),
        (String::new(), "st.param.u64 [to], 1;"),
    ] {
        let error = load(&functions, body).unwrap_err();
        assert_eq!(error.status(), Status::INVALID_PTX, "{functions}{body}");
        assert!(["line 4", "line 5", "line 6"].iter().any(|line| error.to_string().contains(line)), "{error}");
    }
}

#[test]
fn safety_160_operands_of_another_type_or_state_space_are_not_executed() {
    let context = context();
    let stream = context.create_stream().unwrap();
    let globals = ".global .u32 x[4];\n.const .u32 c[4];\n";
    let launch = |statements: &str| {
        let registers = ".reg .b32 %r<3>; .reg .u32 %u; .reg .f32 %f; .reg .f64 %e; .reg .b64 %d;";
        let kernel = format!(".visible .entry k() {{ {registers} {statements} ret; }}\n");
        let text = format!(".version 8.4\n.target sm_90\n.address_size 64\n{globals}{kernel}");
        let kernel = Module::load_ptx(&context, &text).unwrap().kernel("k").unwrap();
        // SAFETY: the kernels access what they declare themselves, if anything.
        unsafe { stream.launch(&kernel, &LaunchConfig::new(1, 1), ()) }
    };
    launch("ld.global.u32 %r1, x[2]; st.global.b32 x[3], %f; add.f32 %f, %r1, %f; mov.u32 %r2, %tid.x;").unwrap();
    for statements in [
        "add.u32 %r1, %f, %r1;",
        "add.f32 %f, %u, %f;",
        "ld.global.f32 %e, [x];",
        "ld.global.u32 %r1, [c];",
        "st.const.u32 [c], %r1;",
        "ld.global.u32 %r1, x;",
        "ld.global.u32 %r1, [%r1];",
        "st.shared.u32 [64], %r1;",
        "add.u32 %r1, %tid.x, 1;",
        "add.u64 %d, x, 4;",
    ] {
        let error = launch(statements).unwrap_err();
        assert_eq!(error.status(), Status::NOT_SUPPORTED, "{statements}");
        assert!(error.to_string().contains("line 6"), "{error}");
    }
    stream.synchronize().unwrap();
}
