//! printf, assert, variables of modules, function pointers, local arrays and faults.

#![allow(clippy::unwrap_used)]

mod common;

use anabranch_ptx::{Detail, FaultCode};
use common::{Arguments, Device};

const TEXT: &str = include_str!("kernels/device.ptx");

fn line_of(what: &str, after: &str) -> u32 {
    let start = TEXT.find(after).unwrap();
    let at = start + TEXT[start..].find(what).unwrap();
    TEXT[..at].lines().count() as u32 + 1 - u32::from(!TEXT[..at].ends_with('\n'))
}

#[test]
fn printf_formats_as_c_does() {
    let device = Device::new(TEXT);
    device.launch("print", 1, 2, &Arguments::new().with(3)).unwrap();
    let expected =
        |thread: u32| format!("thread {thread} of 2:  4.50|ab    |z|00000003|1099511627776|1.234568e+04|%\n");
    assert_eq!(*device.record.printed.lock().unwrap(), (expected(0) + &expected(1)).as_bytes());
}

#[test]
fn variables_have_initial_values() {
    let mut device = Device::new(TEXT);
    let out = device.memory.upload(&[0f32; 4]);
    device.launch("variables", 1, 1, &Arguments::new().with(out).with(2)).unwrap();
    assert_eq!(device.memory.download::<f32>(out), [3.0, 5.0, 7.0, 5.0]);
}

#[test]
fn arrays_are_as_long_as_their_initial_values() {
    let cases: [(&str, u64, &[i32]); 4] = [
        ("x[] = {1, 2, 3}", 12, &[1, 2, 3]),
        ("x[][2] = {{-1, 0}, {0, -1}, {1, 0}}", 24, &[-1, 0, 0, -1, 1, 0]),
        ("x[][2][2] = {{{1, 2}, {3}}, {{4}}}", 32, &[1, 2, 3, 0, 4, 0, 0, 0]),
        ("x[4] = {1}", 16, &[1, 0, 0, 0]),
    ];
    for (declaration, bytes, values) in cases {
        let text = format!(
            ".version 8.0\n.target sm_70\n.address_size 64\n.global .s32 {declaration};\n.visible .entry k(.param .u64 to, .param \
             .u32 count) {{\n.reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<4>;\nld.param.u64 %d1, [to]; ld.param.u32 %r1, \
             [count]; mov.u64 %d2, x;\nL: setp.eq.u32 %p1, %r1, 0; @%p1 ret;\nld.global.u32 %r2, [%d2]; st.global.u32 [%d1], \
             %r2;\nadd.u64 %d1, %d1, 4; add.u64 %d2, %d2, 4; sub.u32 %r1, %r1, 1; bra L;\n}}"
        );
        let mut device = Device::new(&text);
        assert_eq!(device.program.module().variables()[0].bytes, bytes, "{declaration}");
        let out = device.memory.upload(&vec![9i32; values.len() + 1]);
        device.launch("k", 1, 1, &Arguments::new().with(out).with(values.len() as u32)).unwrap();
        assert_eq!(device.memory.download::<i32>(out)[..values.len()], *values, "{declaration}");
    }
}

#[test]
fn functions_are_called_by_their_addresses() {
    let mut device = Device::new(TEXT);
    let out = device.memory.upload(&[0i32; 40]);
    device.launch("indirect", 1, 40, &Arguments::new().with(out)).unwrap();
    let expected: Vec<i32> = (0..40).map(|i| [i + 1, i * 2, i * i][i as usize % 3]).collect();
    assert_eq!(device.memory.download::<i32>(out), expected);
}

#[test]
fn structures_are_results_and_arguments() {
    #[derive(Clone, Copy)]
    #[repr(C)]
    struct Big {
        values: [i32; 20],
        last: f64,
    }
    let mut device = Device::new(TEXT);
    let out = device.memory.upload(&[0i32; 32]);
    let given = Big { values: std::array::from_fn(|i| i as i32 * 100), last: 7.0 };
    device.launch("structures", 1, 32, &Arguments::new().with(out).with(3).with(given)).unwrap();
    let expected: Vec<i32> = (0..32).map(|i| i * 3 + i % 20 * 100 + 7).collect();
    assert_eq!(device.memory.download::<i32>(out), expected);
}

#[test]
fn each_thread_has_local_memory() {
    let mut device = Device::new(TEXT);
    for checked in [false, true] {
        device.options.checked = checked;
        let out = device.memory.upload(&[0i32; 40]);
        device.launch("local", 1, 40, &Arguments::new().with(out).with(37)).unwrap();
        let expected: Vec<i32> = (0..40)
            .map(|thread| {
                let mut values: [i32; 16] = std::array::from_fn(|i| i as i32 * thread);
                for i in 0..37 {
                    values[(i * 7 + thread as usize) & 15] += values[i & 15];
                }
                values[37 & 15]
            })
            .collect();
        assert_eq!(device.memory.download::<i32>(out), expected);
    }
}

#[test]
fn a_warp_that_waits_in_a_function_lends_its_local_memory_to_no_other() {
    let text = ".version 8.0\n.target sm_70\n.address_size 64\n\
                .func waits(.param .u32 given) {\n\
                .local .align 4 .b8 own[16]; .reg .b32 %r; .reg .b64 %d;\n\
                ld.param.u32 %r, [given]; mov.u64 %d, own; st.local.u32 [%d], %r; bar.sync 0; ret;\n}\n\
                .visible .entry k(.param .u64 to) {\n\
                .local .align 4 .b8 own[16]; .reg .b32 %r<3>; .reg .b64 %d<4>;\n\
                mov.u32 %r0, %tid.x; add.u32 %r1, %r0, 1000; mov.u64 %d0, own; st.local.u32 [%d0], %r1;\n\
                {\n.param .b32 given;\nst.param.b32 [given], %r0; call waits, (given);\n}\n\
                ld.local.u32 %r2, [%d0]; ld.param.u64 %d1, [to]; mul.wide.u32 %d2, %r0, 4; add.u64 %d3, %d1, %d2;\n\
                st.global.u32 [%d3], %r2; ret;\n}\n";
    let mut device = Device::new(text);
    for checked in [false, true] {
        device.options.checked = checked;
        let out = device.memory.upload(&[0i32; 96]);
        device.launch("k", 1, 96, &Arguments::new().with(out)).unwrap();
        assert_eq!(device.memory.download::<i32>(out), (1000..1096).collect::<Vec<i32>>());
    }
}

#[test]
fn targets_of_switches_are_found() {
    let mut device = Device::new(TEXT);
    for k in 0..9 {
        let start: Vec<i32> = (0..40).map(|i| i + 3).collect();
        let out = device.memory.upload(&start);
        device.launch("choose", 1, 1, &Arguments::new().with(out).with(k)).unwrap();
        let v = match k % 8 {
            0 => start[1] * 5,
            1 => 7 + k,
            2 => 9 - k,
            3 => 12 ^ k,
            4 => 19 % (k + 1),
            5 => 1 << k,
            6 => k / 3,
            _ => -k,
        };
        assert_eq!(device.memory.download::<i32>(out)[0], v, "{k}");
    }
}

#[test]
fn the_labels_of_a_table_are_those_where_it_is_declared() {
    let text = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 to, .param .u32 which) {\n\
                .reg .b32 %r<4>; .reg .b64 %d<2>;\nld.param.u64 %d1, [to]; ld.param.u32 %r1, [which]; mov.u32 %r2, 0;\n\
                T: .branchtargets A, B;\n{\nA:\nadd.u32 %r2, %r2, 100; setp.gt.u32 %p1, %r2, 100;\nbrx.idx %r1, T;\n}\n\
                A: add.u32 %r2, %r2, 1; brx.idx 1, T;\nB: add.u32 %r2, %r2, 10; st.global.u32 [%d1], %r2; ret;\n}";
    let text = text
        .replace(".reg .b32 %r<4>;", ".reg .b32 %r<4>; .reg .pred %p<2>;")
        .replace("brx.idx 1, T", "mov.u32 %r1, 1; brx.idx %r1, T");
    let mut device = Device::new(&text);
    for (which, expected) in [(0u32, 111), (1, 110)] {
        let out = device.memory.upload(&[0i32]);
        device.launch("k", 1, 1, &Arguments::new().with(out).with(which)).unwrap();
        assert_eq!(device.memory.download::<i32>(out), [expected]);
    }
    let out = device.memory.upload(&[0i32]);
    let fault = device.launch("k", 1, 1, &Arguments::new().with(out).with(2u32)).unwrap_err();
    assert_eq!(fault.detail, Detail::BadBranch { number: 2, targets: 2 });
}

#[test]
fn an_assertion_that_fails_is_a_fault() {
    let device = Device::new(TEXT);
    device.launch("check", 1, 32, &Arguments::new().with(32)).unwrap();
    let fault = device.launch("check", 2, 32, &Arguments::new().with(20)).unwrap_err();
    assert_eq!(fault.code, FaultCode::ASSERT);
    assert_eq!((fault.block, fault.thread), ([0, 0, 0], [20, 0, 0]));
    let Detail::Assert(text) = &fault.detail else { panic!("{fault}") };
    assert!(text.starts_with("threadIdx.x < limit ("), "{text}");
}

#[test]
fn faults_name_the_place() {
    let mut device = Device::new(TEXT);
    let data = device.memory.upload(&[0i32; 4]);
    let fault = device.launch("out_of_bounds", 1, 32, &Arguments::new().with(data).with(4)).unwrap_err();
    assert_eq!((fault.code, &fault.detail), (FaultCode::ILLEGAL_ADDRESS, &Detail::OutOfBounds));
    assert_eq!((fault.thread, fault.address, fault.bytes), ([3, 0, 0], Some(data + 16), 4));
    assert_eq!(fault.line, line_of("st.global.u32", ".entry out_of_bounds"));
    let fault = device.launch("misaligned", 1, 32, &Arguments::new().with(data)).unwrap_err();
    assert_eq!((fault.code, fault.thread), (FaultCode::MISALIGNED_ADDRESS, [1, 0, 0]));
    let fault = device.launch("trapped", 1, 32, &Arguments::new()).unwrap_err();
    assert_eq!((fault.code, fault.thread), (FaultCode::LAUNCH_FAILED, [5, 0, 0]));
    let fault = device.launch("shared_bounds", 1, 32, &Arguments::new().with(data).with(8)).unwrap_err();
    assert_eq!((fault.code, fault.address), (FaultCode::ILLEGAL_ADDRESS, Some(32)));
}

#[test]
fn constant_memory_is_not_written() {
    let device = Device::new(TEXT);
    let table = device.program.address("table").unwrap();
    let fault = device.launch("out_of_bounds", 1, 32, &Arguments::new().with(table).with(0)).unwrap_err();
    assert_eq!(fault.code, FaultCode::ILLEGAL_ADDRESS);
}

#[test]
fn a_barrier_that_no_block_has_is_a_fault() {
    let text = ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r;\nmov.b32 %r, 999;\nbar.sync %r;\nret;\n}";
    let fault = Device::new(text).launch("k", 1, 1, &Arguments::new()).unwrap_err();
    assert_eq!((fault.code, &fault.detail), (FaultCode::ILLEGAL_INSTRUCTION, &Detail::BadBarrier(999)));
}

#[test]
fn the_watchdog_ends_endless_loops() {
    let mut device = Device::new(TEXT);
    device.options.operation_limit = Some(100_000);
    let flag = device.memory.upload(&[0i32]);
    let fault = device.launch("forever", 1, 64, &Arguments::new().with(flag)).unwrap_err();
    assert_eq!((fault.code, fault.detail), (FaultCode::LAUNCH_TIMEOUT, Detail::Watchdog));
}

#[test]
fn checked_mode_finds_memory_that_was_never_written() {
    let mut device = Device::new(TEXT);
    let out = device.memory.upload(&[0i32; 64]);
    device.launch("uninitialized", 1, 64, &Arguments::new().with(out)).unwrap();
    device.options.checked = true;
    let fault = device.launch("uninitialized", 1, 64, &Arguments::new().with(out)).unwrap_err();
    assert_eq!((&fault.detail, fault.bytes), (&Detail::NeverWritten, 4));
    assert_eq!(fault.address, Some(u64::from(fault.thread[0] / 16 * 4)));
}

#[test]
fn checked_mode_lets_structures_with_padding_be_copied() {
    let text = ".version 7.0\n.target sm_70\n.address_size 64\n.entry copy(.param .u64 out) {\n\
        .reg .b32 %r<3>; .reg .b64 %d; .local .align 8 .b8 from[16], to[8]; ld.param.u64 %d, [out];\n\
        st.local.u8 [from], 7; st.local.u16 [from+2], 9;\n\
        ld.local.v2.u32 {%r0, %r1}, [from]; st.local.v2.u32 [to], {%r0, %r1};\n\
        ld.local.u16 %r0, [to+2]; st.global.u32 [%d], %r0; ld.local.u64 %d, [from+8]; ret; }";
    let mut device = Device::new(text);
    device.options.checked = true;
    let out = device.memory.upload(&[0i32; 1]);
    let fault = device.launch("copy", 1, 1, &Arguments::new().with(out)).unwrap_err();
    // Nothing of the last eight bytes was written.
    assert_eq!((&fault.detail, fault.address), (&Detail::NeverWritten, Some(8)));
    assert_eq!(device.memory.download::<i32>(out), [9]);
    // For debuggers, compilers read anything.
    let mut device = Device::new(&text.replace("sm_70", "sm_70, debug"));
    device.options.checked = true;
    let out = device.memory.upload(&[0i32; 1]);
    device.launch("copy", 1, 1, &Arguments::new().with(out)).unwrap();
}

#[test]
fn checked_mode_knows_that_results_of_functions_are_written() {
    let mut device = Device::new(TEXT);
    device.options.checked = true;
    let out = device.memory.upload(&[0i32; 32]);
    device.launch("indirect", 1, 32, &Arguments::new().with(out)).unwrap();
    let found = device.memory.download::<i32>(out);
    assert_eq!(found[3..6], [4, 8, 25]);
}

#[test]
fn checked_mode_shows_each_access() {
    let mut device = Device::new(TEXT);
    device.options.checked = true;
    let data = device.memory.upload(&[0i32; 40]);
    device.launch("out_of_bounds", 1, 32, &Arguments::new().with(data).with(2)).unwrap();
    let line = line_of("st.global.u32", ".entry out_of_bounds");
    {
        let accesses = device.record.accesses.lock().unwrap();
        let [(found, thread, access)] = &**accesses else { panic!("{accesses:?}") };
        assert_eq!((*found, *thread, access.address, access.bytes), (line, [3, 0, 0], data + 8, 4));
    }
    device.record.refuse = Some(data + 8);
    let fault = device.launch("out_of_bounds", 1, 32, &Arguments::new().with(data).with(2)).unwrap_err();
    assert_eq!(fault.detail, Detail::Refused("refused".to_owned()));
}

#[test]
fn checked_mode_finds_lanes_at_different_barriers() {
    let mut device = Device::new(TEXT);
    let out = device.memory.upload(&[0i32; 4]);
    device.options.checked = true;
    let fault = device.launch("barrier_divergence", 1, 32, &Arguments::new().with(out)).unwrap_err();
    assert_eq!(fault.detail, Detail::BarrierDivergence);
}

/// A kernel of one pointer, with the thread's number in `%t` and the address of its word in `%at`.
fn barriers(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 out) {{\n.reg .b32 %t, %n, %v;\n\
         .reg .b64 %at, %s;\n.reg .pred %p;\nld.param.u64 %at, [out];\nmov.u32 %t, %tid.x;\nmul.wide.u32 %s, %t, 4;\n\
         add.u64 %at, %at, %s;\nmov.u32 %v, 0;\n{body}\nst.global.u32 [%at], %v;\nret;\n}}\n"
    )
}

#[test]
fn lanes_that_leave_a_loop_one_by_one_meet_before_the_next_barrier() {
    for body in [
        // They go back in the text, where they run before those in the loop.
        "mov.u32 %n, %t; bra LOOP;\nEXIT: bar.sync 0; bra END;\nLOOP: setp.eq.u32 %p, %n, 0; @%p bra EXIT; sub.u32 %n, %n, 1; \
         add.u32 %v, %v, 1; bra LOOP;\nEND:",
        // They leave a loop so long that its other lanes let them go first.
        "mul.lo.u32 %n, %t, 1000;\nLOOP: setp.eq.u32 %p, %n, 0; @%p bra EXIT; sub.u32 %n, %n, 1; bra LOOP;\nEXIT: \
         bar.red.popc.u32 %v, 0, %p; sub.u32 %v, %v, 64; add.u32 %v, %v, %t;",
        // Some end, and the others meet.
        "mov.u32 %n, 40; st.global.u32 [%at], %t; setp.gt.u32 %p, %t, 39; @%p exit;\nmov.u32 %v, %t; bra LOOP;\nEXIT: \
         barrier.sync.aligned 0; bra END;\nLOOP: add.u32 %n, %n, 1; setp.gt.u32 %p, %n, %t; @%p bra EXIT; bra LOOP;\nEND:",
    ] {
        let mut device = Device::new(&barriers(body));
        device.options.checked = true;
        let out = device.memory.upload(&[0u32; 64]);
        device.launch("k", 1, 64, &Arguments::new().with(out)).unwrap();
        assert_eq!(device.memory.download::<u32>(out), (0..64).collect::<Vec<u32>>(), "{body}");
    }
}

#[test]
fn lanes_that_do_not_meet_before_a_barrier_are_reported() {
    for body in [
        // Two barriers.
        "setp.lt.u32 %p, %t, 40; @%p bra OTHER;\nbar.sync 0; bra END;\nOTHER: bar.sync 0;\nEND:",
        // Not all come.
        "setp.lt.u32 %p, %t, 40; @%p bar.sync 0;",
        // Barriers of other numbers.
        "and.b32 %n, %t, 1; bar.sync %n;",
        // The others wait at one that need not be reached together.
        "setp.lt.u32 %p, %t, 40; @%p bra OTHER;\nbar.sync 0; bra END;\nOTHER: barrier.sync 0;\nEND:",
        // The others wait for them.
        "setp.lt.u32 %p, %t, 40; @%p bra OTHER;\nbar.sync 0; bra END;\nOTHER: vote.sync.any.pred %p, %p, -1;\nEND:",
        // One round less.
        "setp.lt.u32 %p, %t, 40; selp.u32 %n, 1, 2, %p;\nLOOP: bar.sync 0; sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; \
         @%p bra LOOP; bar.sync 0;",
    ] {
        let mut device = Device::new(&barriers(body));
        device.options.checked = true;
        let out = device.memory.upload(&[0u32; 64]);
        let fault = device.launch("k", 1, 64, &Arguments::new().with(out)).unwrap_err();
        assert_eq!(fault.detail, Detail::BarrierDivergence, "{body}");
        assert!(fault.line > 10, "{fault}");
    }
}
