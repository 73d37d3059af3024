//! Barrier objects: `mbarrier`.

#![allow(clippy::unwrap_used)]

mod common;

use anabranch_ptx::{Detail, FaultCode};
use common::{Arguments, Device};

const HEAD: &str = ".version 8.0\n.target sm_90\n.address_size 64\n";

/// Each thread passes its number to the next one, many times, and waits for all between.
#[test]
fn threads_wait_for_the_phases_of_a_barrier_object() {
    let rounds = 20u32;
    for (wait, state) in [("test_wait", true), ("try_wait", true), ("try_wait.parity", false)] {
        let asked = if state { "%s" } else { "%i" };
        let text = format!(
            "{HEAD}.entry ring(.param .u64 out) {{ .reg .u32 %r<8>, %i; .reg .u64 %d<4>, %s; .reg .pred %p, %q;\n\
             .shared .align 8 .b64 object; .shared .u32 values[1024];\n\
             mov.u32 %r0, %tid.x; mov.u32 %r1, %ntid.x; setp.ne.u32 %q, %r0, 0; @%q bra BEGIN;\n\
             mbarrier.init.shared::cta.b64 [object], %r1;\nBEGIN: bar.sync 0; mov.u32 %r2, %r0; mov.u32 %i, 0;\n\
             shl.b32 %r3, %r0, 2; mov.u32 %r4, values; add.u32 %r4, %r4, %r3;\n\
             add.u32 %r5, %r0, 1; rem.u32 %r5, %r5, %r1; shl.b32 %r5, %r5, 2; mov.u32 %r6, values; add.u32 %r6, %r6, %r5;\n\
             ROUND: st.shared.u32 [%r6], %r2; mbarrier.arrive.release.cta.shared::cta.b64 %s, [object];\n\
             WAIT: mbarrier.{wait}.shared::cta.b64 %p, [object], {asked}; @!%p bra WAIT;\n\
             ld.shared.u32 %r2, [%r4]; bar.sync 0; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, {rounds}; @%p bra ROUND;\n\
             ld.param.u64 %d0, [out]; mul.wide.u32 %d1, %r0, 4; add.u64 %d0, %d0, %d1; st.global.u32 [%d0], %r2; ret; }}"
        );
        for threads in [1u32, 7, 32, 100, 256] {
            let mut device = Device::new(&text);
            device.options.operation_limit = Some(50_000_000);
            let out = device.memory.upload(&vec![0u32; threads as usize]);
            device.launch("ring", 1, threads, &Arguments::new().with(out)).unwrap();
            let expected: Vec<u32> = (0..threads).map(|i| (i + threads * rounds - rounds) % threads).collect();
            assert_eq!(device.memory.download::<u32>(out), expected, "{wait}, {threads} threads");
        }
    }
}

#[test]
fn arrivals_are_counted() {
    let text = format!(
        "{HEAD}.entry k(.param .u64 out) {{ .reg .u32 %r<9>; .reg .u64 %d, %s<9>, %g; .reg .pred %p<9>;\n\
         .shared .align 8 .b64 object[2]; ld.param.u64 %d, [out]; mov.u32 %r0, object; add.u32 %r0, %r0, 8;\n\
         mbarrier.init.shared.b64 [object+8], 5;\n\
         mbarrier.arrive.shared.b64 %s0, [%r0]; mbarrier.arrive.noComplete.shared.b64 %s1, [%r0], 3;\n\
         mbarrier.pending_count.b64 %r1, %s0; mbarrier.pending_count.b64 %r2, %s1;\n\
         mbarrier.test_wait.shared.b64 %p0, [%r0], %s0; mbarrier.test_wait.parity.shared.b64 %p1, [%r0], 0;\n\
         mbarrier.test_wait.parity.shared.b64 %p2, [%r0], 1;\n\
         cvt.u64.u32 %g, %r0; cvta.shared.u64 %g, %g; mbarrier.arrive_drop.b64 %s2, [%g];\n\
         mbarrier.test_wait.shared.b64 %p3, [%r0], %s2; mbarrier.try_wait.parity.b64 %p4, [%g], 0, 1000;\n\
         mbarrier.arrive.shared.b64 %s3, [%r0], 3; mbarrier.pending_count.b64 %r3, %s3;\n\
         mbarrier.test_wait.shared.b64 %p5, [%r0], %s3; mbarrier.arrive.shared.b64 _, [%r0];\n\
         mbarrier.try_wait.shared.b64 %p6, [%r0], %s3, 10;\n\
         st.global.u32 [%d], %r1; st.global.u32 [%d+4], %r2; st.global.u32 [%d+8], %r3;\n\
         selp.u32 %r4, 1, 0, %p0; st.global.u32 [%d+12], %r4; selp.u32 %r4, 1, 0, %p1; st.global.u32 [%d+16], %r4;\n\
         selp.u32 %r4, 1, 0, %p2; st.global.u32 [%d+20], %r4; selp.u32 %r4, 1, 0, %p3; st.global.u32 [%d+24], %r4;\n\
         selp.u32 %r4, 1, 0, %p4; st.global.u32 [%d+28], %r4; selp.u32 %r4, 1, 0, %p5; st.global.u32 [%d+32], %r4;\n\
         selp.u32 %r4, 1, 0, %p6; st.global.u32 [%d+36], %r4; mbarrier.inval.shared.b64 [%r0]; ret; }}"
    );
    for checked in [false, true] {
        let mut device = Device::new(&text);
        device.options.checked = checked;
        let out = device.memory.upload(&[9u32; 10]);
        device.launch("k", 1, 1, &Arguments::new().with(out)).unwrap();
        // The first phase expects five arrivals, and later ones four.
        assert_eq!(device.memory.download::<u32>(out), [5, 4, 4, 0, 0, 1, 1, 1, 0, 1]);
    }
}

#[test]
fn barrier_objects_are_checked_as_other_memory() {
    let text = format!(
        "{HEAD}.entry beyond() {{ .reg .u32 %r; mov.u32 %r, 8; mbarrier.init.shared.b64 [%r], 1; ret; }}\n\
         .entry askew() {{ .shared .align 8 .b64 x[2]; .reg .u32 %r; mov.u32 %r, x; mbarrier.init.shared.b64 [%r+4], 1; ret; }}\n\
         .entry unwritten() {{ .shared .align 8 .b64 x; .reg .u64 %s; mbarrier.arrive.shared.b64 %s, [x]; ret; }}\n\
         .entry waits() {{ .shared .align 8 .b64 x; .reg .pred %p; mbarrier.init.shared.b64 [x], 2;\n\
             AGAIN: mbarrier.try_wait.parity.shared.b64 %p, [x], 0; @!%p bra AGAIN; ret; }}"
    );
    let mut device = Device::new(&text);
    device.options.checked = true;
    device.options.operation_limit = Some(10_000);
    let fault = |name| {
        let fault = device.launch(name, 1, 1, &Arguments::new()).unwrap_err();
        (fault.code, fault.detail, fault.address)
    };
    assert_eq!(fault("beyond"), (FaultCode::ILLEGAL_ADDRESS, Detail::OutOfBounds, Some(8)));
    assert_eq!(fault("askew"), (FaultCode::MISALIGNED_ADDRESS, Detail::Misaligned, Some(4)));
    assert_eq!(fault("unwritten"), (FaultCode::ILLEGAL_ADDRESS, Detail::NeverWritten, Some(0)));
    assert_eq!(fault("waits"), (FaultCode::LAUNCH_TIMEOUT, Detail::Watchdog, None));
}

#[test]
fn transactions_and_other_blocks_are_refused_by_name() {
    let text = format!(
        "{HEAD}.entry a() {{ .shared .b64 x; .reg .u64 %s; mbarrier.arrive.expect_tx.shared.b64 %s, [x], 8; ret; }}\n\
         .entry b() {{ .reg .u32 %r; mov.u32 %r, 0; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r]; ret; }}\n\
         .entry c() {{ .local .align 8 .b64 x; mbarrier.init.b64 [x], 1; ret; }}"
    );
    let device = Device::new(&text);
    let kernels: Vec<_> = device.program.module().kernels().collect();
    assert!(kernels.iter().all(|kernel| kernel.refusals.len() == 1), "{kernels:?}");
    assert!(kernels[0].refusals[0].what.contains("transactions"));
}
