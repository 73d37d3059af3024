//! Operands: constant expressions, vector registers, special registers, and values of 128 bits.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use anabranch_ptx::{FaultCode, Launch, LaunchError, Level, Module, NoHooks, Options, Program, Size};
use common::{Arguments, Device, Memory};

/// A kernel that gets a pointer, which is in `%d0`.
fn text(globals: &str, body: &str) -> String {
    format!(
        ".version 8.6\n.target sm_100\n.address_size 64\n{globals}\n.visible .entry k(.param .u64 to) {{\n\
         .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .f32 %f<20>; .reg .f64 %e<20>;\n\
         .reg .b128 %q<8>;\nld.param.u64 %d0, [to];\n{body}\nret;\n}}\n"
    )
}

/// What one thread writes, at every level.
fn words(globals: &str, body: &str) -> Vec<u64> {
    let mut all: Vec<Vec<u64>> = Vec::new();
    let levels = if cfg!(miri) { 1 } else { 3 };
    for level in [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().take(levels) {
        let mut device = Device::with_level(&text(globals, body), level);
        device.options.checked = true;
        let to = device.memory.allocate(512);
        device.launch("k", 1, 1, &Arguments::new().with(to)).unwrap_or_else(|fault| panic!("{fault}"));
        all.push(device.memory.download(to));
    }
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "the levels differ");
    all.swap_remove(0)
}

/// The value of a constant expression as an operand of 64 bits.
fn value(expression: &str) -> u64 {
    words("", &format!("mov.b64 %d1, {expression}; st.global.b64 [%d0], %d1;"))[0]
}

#[test]
fn expressions_are_computed_as_in_c() {
    for (expression, expected) in [
        ("(1+2)*3", 9),
        ("7 % 4 * 2", 6),
        ("-7 / 2", -3),
        ("1 + 2 * 3 - 4", 3),
        ("1 << 4 | 1", 17),
        ("6 & 3 ^ 1", 3),
        ("~0", -1),
        ("!5 + !0", 1),
        ("!(1 > 2)", 1),
        ("- -3", 3),
        ("(2)", 2),
        ("((2))", 2),
        ("1 < 2", 1),
        ("2 <= 1", 0),
        ("2 >= 2 && 3 > 2", 1),
        ("0 || 0", 0),
        ("1 == 1 != 0", 1),
        ("1 ? 10 : 20", 10),
        ("0 ? 10 : 1 ? 20 : 30", 20),
        ("WARP_SZ * 2", 64),
        ("(WARP_SZ - 1) % 8", 7),
        ("64% WARP_SZ", 0),
        // Which of two integers is less, how far the sign goes, and what a quotient is depend on whether they have signs.
        ("-1 < 1", 1),
        ("-1 < 1U", 0),
        ("(.u64) -1 > 1", 1),
        ("(.s64) 0xffffffffffffffff < 0", 1),
        ("0xffffffffffffffff > 0", 1),
        ("-16 >> 2", -4),
        ("(.u64)-16 >> 60", 15),
        ("-4 / 2U", i64::MAX - 1),
        ("0xfffffffffffffffe / 2", i64::MAX),
        ("1 << 64", 0),
        ("-1 >> 64", -1),
        ("0b101 + 017 + 0x1f", 5 + 15 + 31),
        ("1.5 < 2.5", 1),
        ("2.0 * 3.0 == 6.0", 1),
    ] {
        assert_eq!(value(expression), expected.cast_unsigned(), "{expression}");
    }
}

#[test]
fn expressions_may_be_wherever_a_number_may_be() {
    let globals = ".global .align 8 .b64 a[4] = {(1+2)*3, 7 % 4, -(1), 1 ? 5 : 6};\n\
                   .global .align 4 .b32 b[1][2];\n.const .f64 c = (1.0 + 2.0) * 0.5;\n\
                   .global .u64 p = a + 2*8;";
    let body = "ld.global.b64 %d1, [a+(1+1)*4]; st.global.b64 [%d0], %d1;\n\
                ld.global.b64 %d1, [p]; ld.global.b64 %d1, [%d1+-(2*8)]; st.global.b64 [%d0 + 4*2], %d1;\n\
                ld.const.b64 %d1, [c]; st.global.b64 [%d0+16], %d1;\n\
                mov.f32 %f1, (1.0 + 0.5) * 2.0; st.global.f32 [%d0+3*8], %f1;\n\
                mov.b32 %r1, 5; add.s32 %r1, %r1, (2+3)*-1; setp.eq.s32 %p1, %r1, 3 - 3; selp.b64 %d1, (1+1), 9, %p1;\n\
                st.global.b64 [%d0+1<<5], %d1; st.global.v2.b32 [%d0+40], {(1+2)*3, 7 % 4};\n\
                mov.b64 %d1, b; st.global.b64 [%d0+48], 0; st.global.b32 [%d0+48], 4|3;";
    let found = words(globals, body);
    assert_eq!(found[..3], [3, 9, 1.5f64.to_bits()]);
    assert_eq!(found[3], 3f32.to_bits().into());
    assert_eq!(found[4..7], [2, 3 << 32 | 9, 7]);
}

#[test]
fn expressions_that_are_wrong_have_a_place() {
    for expression in ["1 / 0", "1 % 0", "1.5 % 2.0", "1 + 1.5", "0f3f800000 + 1", "(1", "1 ? 2", "(.u64) 1.5", "1 +"] {
        let error = Module::parse(&text("", &format!("\nmov.b64 %d1, {expression};"))).unwrap_err();
        assert_eq!(error.position.line, 10, "{expression}: {error}");
    }
    let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
    assert!(Module::parse(&text("", &format!("mov.b64 %d1, {deep};"))).is_err());
}

#[test]
fn vector_registers_have_parts() {
    let body = ".reg .v4 .b32 %v; .reg .v2 .f32 %w<2>;\n\
                mov.b32 %v.x, 1; mov.b32 %v.y, 2; mov.b32 %v.b, 3; add.u32 %v.w, %v.r, %v.z; st.global.v4.b32 [%d0], %v;\n\
                ld.global.v2.f32 %w1, [%d0+8]; mov.b32 %w0.x, %w1.y; mov.b32 %w0.y, %w1.x; st.global.v2.f32 [%d0+16], %w0;\n\
                mov.b64 %d1, %w1; st.global.b64 [%d0+24], %d1; mov.b64 %w0, %d1; st.global.f32 [%d0+32], %w0.g;";
    let found = words("", body);
    assert_eq!(found[..5], [2 << 32 | 1, 4 << 32 | 3, 3 << 32 | 4, 4 << 32 | 3, 4]);
    for wrong in ["mov.b32 %r1, %v.z;", "mov.b32 %r1, %v;", "mov.b32 %r1.x, 1;", "mov.b32 %v.q, 1;"] {
        let module = Module::parse(&text("", &format!(".reg .v2 .b32 %v;\n{wrong}"))).unwrap();
        let refusals = &module.kernels().next().unwrap().refusals;
        assert_eq!(refusals.len(), 1, "{wrong}");
        assert_eq!(refusals[0].line, 10, "{wrong}: {}", refusals[0].what);
    }
}

#[test]
fn every_special_register_can_be_read() {
    let mut body = String::new();
    let parts = ["tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"];
    for (name, part) in parts.iter().flat_map(|name| ["x", "y", "z"].map(|part| (name, part))) {
        body.push_str(&format!("mov.u32 %r1, %{name}.{part};"));
    }
    let words_of = "laneid warpid nwarpid smid nsmid lanemask_eq lanemask_le lanemask_lt lanemask_ge lanemask_gt clock clock_hi \
                    cluster_ctarank cluster_nctarank globaltimer_lo globaltimer_hi total_smem_size aggr_smem_size \
                    dynamic_smem_size reserved_smem_offset_begin reserved_smem_offset_end reserved_smem_offset_cap \
                    reserved_smem_offset_0 reserved_smem_offset_1 pm0 pm1 pm2 pm3 pm4 pm5 pm6 pm7 envreg0 envreg31";
    words_of.split_whitespace().for_each(|name| body.push_str(&format!("mov.u32 %r1, %{name};")));
    let wide = "gridid clock64 globaltimer current_graph_exec pm0_64 pm1_64 pm2_64 pm3_64 pm4_64 pm5_64 pm6_64 pm7_64";
    wide.split_whitespace().for_each(|name| body.push_str(&format!("mov.u64 %d1, %{name};")));
    body.push_str("mov.pred %p1, %is_explicit_cluster;");
    let module = Module::parse(&text("", &body)).unwrap();
    assert_eq!(module.kernels().next().unwrap().refusals, []);
}

#[test]
fn a_block_knows_its_place_in_a_cluster() {
    let body = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mad.lo.u32 %r1, %r2, 4, %r1; mul.wide.u32 %d1, %r1, 32;\n\
                add.u64 %d1, %d1, %d0; mov.u32 %r2, %clusterid.x; mov.u32 %r3, %cluster_ctaid.x; mov.u32 %r4, %cluster_ctarank;\n\
                mov.u32 %r5, %nclusterid.y; st.global.v4.u32 [%d1], {%r2, %r3, %r4, %r5};\n\
                mov.u32 %r2, %cluster_nctaid.y; mov.u32 %r3, %cluster_nctarank; st.global.v2.u32 [%d1+16], {%r2, %r3};";
    let mut device = Device::new(&text("", body));
    device.options.cluster = [2, 2, 1];
    let to = device.memory.allocate(16 * 32);
    device.launch("k", (4, 4), 1, &Arguments::new().with(to)).unwrap();
    let found: Vec<[u32; 8]> = device.memory.download(to);
    for (block, found) in found.iter().enumerate() {
        let (x, y) = (block as u32 % 4, block as u32 / 4);
        assert_eq!(found[..6], [x / 2, x % 2, x % 2 + 2 * (y % 2), 2, 2, 4], "block {block}");
    }
}

#[test]
fn a_load_may_overwrite_its_own_address() {
    // Addresses of 32 and of 64 bits, in the place of each register of the vector, for all lanes and with a guard.
    for (name, bits, count) in [("r", 32, 2), ("r", 32, 4), ("r", 32, 8), ("d", 64, 2), ("d", 64, 4), ("d", 64, 8)] {
        // A vector of shared memory has 16 bytes at most.
        let (unit, bytes) = if count == 8 { ("u8", 1) } else { ("u32", 4) };
        let given = |index| format!("st.shared.{unit} [s+{}], {};\n", bytes * index, index + 1);
        let given: String = (0..count).map(given).collect();
        for place in 0..count {
            for guard in ["", "@%p1 "] {
                let register = |index| format!("%{name}{}", if index == place { 19 } else { index + 1 });
                let all = (0..count).map(register).collect::<Vec<_>>().join(", ");
                let store = |index| format!("st.global.u32 [%d0+{}], {};\n", 4 * index, register(index));
                let body = format!(
                    "{given}setp.eq.u32 %p1, 0, 0; mov.b{bits} %{name}19, s;\n\
                     {guard}ld.shared.v{count}.{unit} {{{all}}}, [%{name}19];\n{}",
                    (0..count).map(store).collect::<String>()
                );
                let found = words(".shared .align 32 .b8 s[32];", &body);
                let found = found.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]);
                let expected: Vec<u32> = (1..=count).collect();
                assert_eq!(found.take(count as usize).collect::<Vec<_>>(), expected, "{body}");
            }
        }
    }
}

#[test]
fn clusters_that_a_grid_does_not_consist_of_are_refused() {
    let program = Program::link(Arc::new(Module::parse(&text("", "")).unwrap()), |_| 0);
    let memory = Memory::default();
    let launch = |cluster| {
        let mut options = Options::default();
        options.cluster = cluster;
        let size = Size { grid: [32, 32, 32], block: [1; 3], dynamic_shared: 0 };
        Launch::new(&program, "k", size, &[0; 8], &memory, &NoHooks, options).map(|_| ())
    };
    assert_eq!(launch([0; 3]), Ok(()));
    assert_eq!(launch([4, 2, 2]), Ok(()));
    // Too many blocks, also as numbers of 64 bits, and extents that do not divide those of the grid.
    for cluster in [[32, 1, 1], [4, 4, 2], [1 << 31, 1 << 31, 4], [u32::MAX; 3], [1, 3, 1], [1, 1, 64]] {
        assert_eq!(launch(cluster), Err(LaunchError::BadCluster { grid: [32; 3], cluster }));
    }
}

#[test]
fn values_of_128_bits_are_moved_and_accessed_as_a_whole() {
    let body = "mov.b64 %d1, 0x1111111122222222; mov.b64 %d2, 0x3333333344444444; mov.b128 %q1, {%d1, %d2};\n\
                mov.b128 %q2, %q1; st.global.b128 [%d0], %q2; ld.global.b128 %q3, [%d0]; mov.b128 {%d3, %d4}, %q3;\n\
                st.global.b64 [%d0+16], %d4; mov.b128 {_, %d5}, %q3; st.global.b64 [%d0+24], %d5;\n\
                mov.b128 %q4, {%d2, %d1}; atom.global.cas.b128 %q5, [%d0], %q1, %q4; st.global.b128 [%d0+32], %q5;\n\
                atom.global.cas.b128 %q5, [%d0], %q1, %q1; st.release.gpu.global.b128 [%d0+48], %q5;\n\
                atom.global.exch.b128 %q6, [%d0], %q1; ld.relaxed.sys.global.b128 %q7, [%d0]; st.global.b128 [%d0+64], %q6;\n\
                st.global.b128 [%d0+80], %q7;";
    let (a, b) = (0x1111_1111_2222_2222, 0x3333_3333_4444_4444);
    assert_eq!(words("", body)[..12], [a, b, b, b, a, b, b, a, b, a, a, b]);
    // Lanes side by side, some of them, and in shared and local memory, as parameters of functions and as a variable.
    let globals = ".global .align 16 .b128 g; .func (.param .b128 out) f(.param .b128 in) { .reg .b128 %q; .reg .b64 %d<2>;\n\
                   ld.param.b128 %q, [in]; mov.b128 {%d0, %d1}, %q; mov.b128 %q, {%d1, %d0}; st.param.b128 [out], %q; ret; }";
    let body = ".shared .align 16 .b8 s[1024]; .local .align 16 .b8 l[16]; .param .b128 a; .param .b128 r;\n\
                mov.u32 %r1, %tid.x; cvt.u64.u32 %d1, %r1; mov.b128 %q1, {%d1, 7}; shl.b32 %r2, %r1, 4; mov.u32 %r3, s;\n\
                add.u32 %r3, %r3, %r2; st.shared.b128 [%r3], %q1; bar.sync 0; xor.b32 %r4, %r3, 16;\n\
                ld.shared.b128 %q2, [%r4]; st.local.b128 [l], %q2; setp.lt.u32 %p1, %r1, 20; ld.local.b128 %q3, [l];\n\
                st.param.b128 [a], %q3; call (r), f, (a); ld.param.b128 %q4, [r]; cvt.u64.u32 %d2, %r2; add.u64 %d2, %d2, %d0;\n\
                @%p1 st.global.b128 [%d2], %q4; @!%p1 st.global.b128 [%d2], %q1;";
    let mut device = Device::new(&text(globals, body));
    let to = device.memory.allocate(64 * 16);
    device.launch("k", 1, 40, &Arguments::new().with(to)).unwrap();
    let found: Vec<[u64; 2]> = device.memory.download(to);
    for (thread, found) in found.iter().enumerate().take(40) {
        let thread = thread as u64;
        assert_eq!(*found, if thread < 20 { [7, thread ^ 1] } else { [thread, 7] }, "thread {thread}");
    }
    // Addresses are multiples of 16, and vectors of such values do not exist.
    let device = Device::new(&text("", "ld.global.b128 %q1, [%d0+8];"));
    let from = Arguments::new().with(0x10_0000u64);
    assert_eq!(device.launch("k", 1, 1, &from).unwrap_err().code, FaultCode::MISALIGNED_ADDRESS);
    for wrong in
        ["ld.global.v2.b128 {%q1, %q2}, [%d0];", "add.u64 %q1, %q1, %q1;", "atom.global.add.b128 %q1, [%d0], %q2;"]
    {
        let module = Module::parse(&text("", wrong)).unwrap();
        assert_eq!(module.kernels().next().unwrap().refusals.len(), 1, "{wrong}");
    }
}

#[test]
fn atomic_operations_of_128_bits_are_whole_among_threads() {
    // Each thread adds one to the low half and takes one from the high half, many times.
    let body = "mov.u32 %r1, 0;\nAGAIN: ld.relaxed.gpu.global.b128 %q1, [%d0];\nTRY: mov.b128 {%d1, %d2}, %q1;\n\
                add.u64 %d1, %d1, 1; sub.u64 %d2, %d2, 1; mov.b128 %q2, {%d1, %d2};\n\
                atom.global.cas.b128 %q3, [%d0], %q1, %q2; mov.b128 {%d3, %d4}, %q1; mov.b128 {%d5, %d6}, %q3;\n\
                add.u64 %d7, %d3, %d4; setp.ne.u64 %p2, %d7, 0; @%p2 trap; setp.ne.u64 %p1, %d3, %d5; mov.b128 %q1, %q3;\n\
                @%p1 bra TRY; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 50; @%p1 bra AGAIN;";
    let mut device = Device::new(&text("", body));
    let to = device.memory.allocate(16);
    let device = &device;
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(move || device.launch("k", 2, 64, &Arguments::new().with(to)).unwrap());
        }
    });
    let count = 3 * 2 * 64 * 50u64;
    assert_eq!(device.memory.download::<u64>(to), [count, count.wrapping_neg()]);
}

#[test]
fn pairs_of_floats_are_computed_one_by_one() {
    let pair = |low: f32, high: f32| u64::from(high.to_bits()) << 32 | u64::from(low.to_bits());
    let numbers = format!(
        "mov.b64 %d1, {}; mov.b64 %d2, {}; mov.b64 %d3, {};",
        pair(1.5, 1e-40),
        pair(0.1, 3.0),
        pair(-2.0, 0.7)
    );
    let run = |instruction: &str| words("", &format!("{numbers} {instruction}; st.global.b64 [%d0], %d4;"))[0];
    assert_eq!(run("add.rn.f32x2 %d4, %d1, %d2"), pair(1.5 + 0.1, 1e-40 + 3.0));
    assert_eq!(run("sub.f32x2 %d4, %d1, %d2"), pair(1.5 - 0.1, 1e-40 - 3.0));
    assert_eq!(run("mul.rn.f32x2 %d4, %d1, %d2"), pair(1.5 * 0.1, 1e-40 * 3.0));
    assert_eq!(run("mul.rn.ftz.f32x2 %d4, %d1, %d2"), pair(1.5 * 0.1, 0.0));
    assert_eq!(run("fma.rn.f32x2 %d4, %d1, %d2, %d3"), pair(1.5f32.mul_add(0.1, -2.0), 1e-40f32.mul_add(3.0, 0.7)));
    let up = |value: f32, exact: f64| if f64::from(value) < exact { value.next_up() } else { value };
    assert_eq!(
        run("add.rp.f32x2 %d4, %d2, %d3"),
        pair(up(0.1 - 2.0, f64::from(0.1f32) - 2.0), up(3.7, 3.0 + f64::from(0.7f32)))
    );
}

#[test]
fn magnitudes_are_compared_with_the_sign_of_a_product() {
    let run = |opcode: &str, a: f32, b: f32| {
        let body = format!(
            "mov.b32 %f1, {}; mov.b32 %f2, {}; {opcode}.f32 %f3, %f1, %f2; st.global.f32 [%d0], %f3;",
            a.to_bits(),
            b.to_bits()
        );
        words("", &body)[0] as u32
    };
    assert_eq!(run("min.xorsign.abs", -2.0, 3.0), (-2f32).to_bits());
    assert_eq!(run("max.xorsign.abs", -2.0, -3.0), 3f32.to_bits());
    assert_eq!(run("max.NaN.xorsign.abs", f32::NAN, -3.0), 0x7fff_ffff);
    assert_eq!(run("min.ftz.xorsign.abs", -1e-40, 1.0), (-0f32).to_bits());
}

#[test]
fn the_guard_of_an_instruction_is_that_of_before_also_where_it_writes_that_register() {
    // 1.0 and 2.0 as the low and the high half, or the other way around.
    let (rising, falling) = ("0x40003c00", "0x3c004000");
    for (before, guard, packed, expected) in [
        ([1, 0], "@%p1", "setp.lt.f16x2 %p1|%p2, %r1, %r2", [0, 1]),
        ([1, 1], "@%p1", "setp.gt.f16x2 %p1|%p2, %r1, %r2", [1, 0]),
        ([1, 1], "@%p2", "setp.lt.f16x2 %p1|%p2, %r1, %r2", [0, 1]),
        ([1, 0], "@%p1", "setp.lt.and.f16x2 %p1|%p2, %r1, %r2, %p1", [0, 1]),
        ([1, 1], "@%p2", "setp.lt.and.f16x2 %p1|%p2, %r1, %r2, %p1", [0, 1]),
        ([1, 1], "@%p2", "setp.eq.and.f16x2 %p1|%p2, %r1, %r2, %p1", [0, 0]),
        ([0, 1], "@!%p1", "setp.gt.f16x2 %p1|%p2, %r1, %r2", [1, 0]),
        ([0, 1], "@%p1", "setp.lt.f16x2 %p1|%p2, %r1, %r2", [0, 1]),
        ([1, 0], "@%p1", "setp.lt.bf16x2 %p1|%p2, %r1, %r2", [0, 1]),
        ([1, 0], "@%p1", "setp.ne.u32 %p1|%p2, %r1, %r1", [0, 1]),
    ] {
        let [p1, p2] = before;
        let body = format!(
            "mov.b32 %r1, {falling}; mov.b32 %r2, {rising}; setp.eq.u32 %p1, {p1}, 1; setp.eq.u32 %p2, {p2}, 1;
             {guard} {packed};
             selp.u64 %d1, 1, 0, %p1; selp.u64 %d2, 1, 0, %p2; st.global.v2.u64 [%d0], {{%d1, %d2}};"
        );
        assert_eq!(words("", &body)[..2], expected, "{before:?} {guard} {packed}");
    }
}
