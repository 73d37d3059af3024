//! Texts of PTX that compilers do not write, and functions that CUDA gives to kernels.

use crate::case::{Case, Failed, Need, Verdict, equal, holds};
use crate::environment::Environment;
use anabranch::{Capabilities, LaunchConfig, Module};

const PTX: &[Need] = &[Need::Capability(Capabilities::PTX_MODULES)];

pub(super) const CASES: &[Case] = &[
    Case::new("ptx.constant_expressions", "X5", constant_expressions).needs(PTX),
    Case::new("ptx.vector_registers", "X5", vector_registers).needs(PTX),
    Case::new("ptx.values_of_128_bits", "X5", values_of_128_bits).needs(PTX),
    Case::new("ptx.registers_of_clusters", "X5", registers_of_clusters).needs(PTX),
    Case::new("ptx.warps_count_at_barriers", "X5", warps_count_at_barriers).needs(PTX),
    Case::new("ptx.warps_arrive_at_barriers", "X5", warps_arrive_at_barriers).needs(PTX),
    Case::new("ptx.malloc_lasts", "X5", malloc_lasts).needs(PTX),
    Case::new("ptx.malloc_is_limited", "X5", malloc_is_limited).needs(PTX),
];

/// A module with the kernel `k`, which has a pointer in `%d0`.
fn text(target: &str, globals: &str, body: &str) -> String {
    format!(
        ".version 8.4\n.target {target}\n.address_size 64\n{globals}\n.visible .entry k(.param .u64 to) {{\n\
         .reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .f32 %f<8>; .reg .b128 %q<8>;\n\
         ld.param.u64 %d0, [to]; cvta.to.global.u64 %d0, %d0;\n{body}\nret;\n}}\n"
    )
}

/// What `k` writes, run by as many blocks of one thread.
fn words(environment: &Environment, text: &str, blocks: u32) -> anabranch::Result<Vec<u64>> {
    words_of(environment, text, LaunchConfig::new(blocks, 1))
}

/// What `k` writes.
fn words_of(environment: &Environment, text: &str, launch: LaunchConfig) -> anabranch::Result<Vec<u64>> {
    let (module, stream) = (Module::load_ptx(environment.context(), text)?, environment.stream()?);
    let kernel = module.kernel("k")?;
    let mut to = stream.allocate_zeroed::<u64>(64)?;
    // SAFETY: the kernels of this file write to 64 words at most.
    unsafe { stream.launch(&kernel, &launch, (&mut to,))? };
    stream.download(&to)
}

const EXPRESSIONS: &[(&str, i64)] = &[
    ("(1+2)*3", 9),
    ("7 % 4 * 2", 6),
    ("-7 / 2", -3),
    ("-7 % 4", 1),
    ("1 + 2 * 3 - 4", 3),
    ("1 << 4 | 1", 17),
    ("6 & 3 ^ 1", 3),
    ("~0", -1),
    ("!5 + !0", 1),
    ("- -3", 3),
    ("((2))", 2),
    ("2 >= 2 && 3 > 2", 1),
    ("0 || 0", 0),
    ("1 == 1 != 0", 1),
    ("1 ? 10 : 20", 10),
    ("0 ? 10 : 1 ? 20 : 30", 20),
    ("WARP_SZ * 2", 64),
    ("-1 < 1", 1),
    ("-1 < 1U", 0),
    ("(.u64) -1 > 1", 1),
    ("(.s64) 0xffffffffffffffff < 0", 1),
    ("-16 >> 2", -4),
    ("(.u64)-16 >> 60", 15),
    ("-4 / 2U", i64::MAX - 1),
    ("0xfffffffffffffffe / 2", i64::MAX),
    ("0b101 + 017 + 0x1f", 51),
];

fn constant_expressions(environment: &Environment) -> Verdict {
    let mut wrong = Vec::new();
    for (expression, expected) in EXPRESSIONS {
        let body = format!("mov.b64 %d1, {expression}; st.global.b64 [%d0], %d1;");
        match words(environment, &text("sm_70", "", &body), 1) {
            Ok(found) if found.first() == Some(&expected.cast_unsigned()) => {}
            Ok(found) => wrong.push(format!("`{expression}` is {:?}, not {expected}", found.first())),
            Err(error) => wrong.push(format!("`{expression}`: {error}: {:?}", error.log())),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failed(wrong.join("; "))) }
}

fn vector_registers(environment: &Environment) -> Verdict {
    let body = ".reg .v4 .b32 %v; .reg .v2 .f32 %w;\n\
                mov.b32 %v.x, 1; mov.b32 %v.y, 2; mov.b32 %v.b, 3; add.u32 %v.w, %v.r, %v.z; st.global.v4.b32 [%d0], %v;\n\
                ld.global.v2.f32 %w, [%d0+8]; st.global.f32 [%d0+16], %w.y; st.global.f32 [%d0+20], %w.x;";
    let found = words(environment, &text("sm_70", "", body), 1)?;
    equal("what was written", found.get(..3), Some(&[2 << 32 | 1, 4 << 32 | 3, 3 << 32 | 4][..]))
}

/// Counts of barriers are of whole warps: one that has fewer threads counts as one, also if its threads come one after another.
fn warps_count_at_barriers(environment: &Environment) -> Verdict {
    let together = "barrier.sync 1, COUNT;";
    let apart = "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra even;\n\
                 barrier.sync 1, COUNT; bra over;\neven: barrier.sync 1, COUNT;\nover:";
    let one_ends = "setp.eq.u32 %p1, %r1, 5; @%p1 exit;";
    let first = "mov.u32 %r1, %tid.x; mov.b64 %d1, 1;";
    let last = "atom.global.add.u64 %d2, [%d0], %d1;";
    for (threads, count) in [(40, "64"), (64, "64"), (8, "32"), (33, "64"), (31, "32")] {
        for (body, ended) in [
            (together.to_owned(), 0),
            (apart.to_owned(), 0),
            (format!("{one_ends} {together}"), 1),
            (format!("{one_ends} {apart}"), 1),
        ] {
            let body = format!("{first} {} {last}", body.replace("COUNT", count));
            let found = words_of(environment, &text("sm_70", "", &body), LaunchConfig::new(1, threads))?;
            let what = format!("the number of threads of {threads} that have met with a count of {count}");
            equal(&what, found.first(), Some(&u64::from(threads - ended)))?;
        }
    }
    Ok(())
}

/// A warp arrives at a barrier once all its lanes have that have not ended.
fn warps_arrive_at_barriers(environment: &Environment) -> Verdict {
    let whole = "barrier.arrive 1, COUNT;";
    let halves = "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra even;\n\
                  barrier.arrive 1, COUNT; bra over;\neven: barrier.arrive 1, COUNT;\nover:";
    let half = "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra all; barrier.arrive 1, COUNT;";
    let guarded = "setp.lt.u32 %p1, %r1, 34; @%p1 barrier.arrive 1, COUNT;";
    let twice = "barrier.arrive 1, COUNT; barrier.arrive 1, COUNT;";
    for (arrive, threads, count) in [
        (whole, 40, "64"),
        (halves, 40, "64"),
        (halves, 64, "64"),
        (half, 64, "64"),
        (guarded, 64, "64"),
        (twice, 64, "96"),
    ] {
        let body = format!(
            "mov.u32 %r1, %tid.x; mov.b64 %d1, 1; setp.lt.u32 %p2, %r1, 32; @%p2 bra first; {arrive} bra all;\n\
             first: barrier.sync 1, COUNT;\nall: atom.global.add.u64 %d2, [%d0], %d1;"
        );
        let text = text("sm_70", "", &body.replace("COUNT", count));
        let found = words_of(environment, &text, LaunchConfig::new(1, threads))?;
        equal(arrive, found.first(), Some(&u64::from(threads)))?;
    }
    Ok(())
}

/// Whether a GPU is older than sm_90, which has what a case is about. The software device is of no generation.
fn is_older(environment: &Environment) -> bool {
    matches!(environment.context().device().properties().compute_capability.0, 1..9)
}

fn values_of_128_bits(environment: &Environment) -> Verdict {
    if is_older(environment) {
        return Ok(());
    }
    let body = "mov.b64 %d1, 0x1111111122222222; mov.b64 %d2, 0x3333333344444444; mov.b128 %q1, {%d1, %d2};\n\
                mov.b128 %q2, %q1; st.global.b128 [%d0], %q2; ld.global.b128 %q3, [%d0]; mov.b128 {%d3, %d4}, %q3;\n\
                st.global.b64 [%d0+16], %d4; mov.b128 {%d6, %d5}, %q3; st.global.b64 [%d0+24], %d5;\n\
                mov.b128 %q4, {%d2, %d1}; atom.global.cas.b128 %q5, [%d0], %q1, %q4; st.global.b128 [%d0+32], %q5;\n\
                atom.global.cas.b128 %q5, [%d0], %q1, %q1; st.release.gpu.global.b128 [%d0+48], %q5;\n\
                atom.global.exch.b128 %q6, [%d0], %q1; ld.relaxed.sys.global.b128 %q7, [%d0]; st.global.b128 [%d0+64], %q6;\n\
                st.global.b128 [%d0+80], %q7;";
    let found = words(environment, &text("sm_90", "", body), 1)?;
    let (a, b) = (0x1111_1111_2222_2222, 0x3333_3333_4444_4444);
    equal("what was written", found.get(..12), Some(&[a, b, b, b, a, b, b, a, b, a, a, b][..]))
}

/// Without a cluster, each block is one of its own.
fn registers_of_clusters(environment: &Environment) -> Verdict {
    if is_older(environment) {
        return Ok(());
    }
    let body = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 24; add.u64 %d1, %d1, %d0; mov.u32 %r2, %clusterid.x;\n\
                mov.u32 %r3, %cluster_ctaid.x; mov.u32 %r4, %cluster_ctarank; mov.u32 %r5, %nclusterid.x;\n\
                mov.u32 %r6, %cluster_nctaid.x; mov.u32 %r7, %cluster_nctarank; mov.u32 %r8, %pm0; mov.u64 %d2, %pm1_64;\n\
                st.global.v2.u32 [%d1], {%r2, %r3}; st.global.v2.u32 [%d1+8], {%r4, %r5}; st.global.v2.u32 [%d1+16], {%r6, %r7};";
    let found = words(environment, &text("sm_90", "", body), 3)?;
    let expected: Vec<u64> = (0..3).flat_map(|block| [block, 3 << 32, 1 << 32 | 1]).collect();
    equal("what was written", found.get(..9), Some(&expected[..]))
}

const HEAP: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
    .extern .func (.param .b64 result) malloc (.param .b64 bytes);\n.extern .func free (.param .b64 address);\n\
    .visible .entry make(.param .u64 to, .param .u64 bytes) {\n\
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<8>; .param .b64 b; .param .b64 a;\n\
    ld.param.u64 %d0, [to]; cvta.to.global.u64 %d0, %d0; ld.param.u64 %d1, [bytes];\n\
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;\n\
    st.param.b64 [b], %d1; call (a), malloc, (b); ld.param.b64 %d2, [a];\n\
    setp.ne.u64 %p1, %d2, 0; cvt.u64.u32 %d3, %r1; @%p1 st.u64 [%d2], %d3; @%p1 st.u64 [%d2+56], %d3;\n\
    mul.wide.u32 %d4, %r1, 8; add.u64 %d4, %d0, %d4; st.global.u64 [%d4], %d2; ret; }\n\
    .visible .entry take(.param .u64 to) {\n\
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<8>; .param .b64 a;\n\
    ld.param.u64 %d0, [to]; cvta.to.global.u64 %d0, %d0;\n\
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;\n\
    mul.wide.u32 %d4, %r1, 8; add.u64 %d4, %d0, %d4; ld.global.u64 %d2, [%d4]; mov.u64 %d5, 0;\n\
    setp.ne.u64 %p1, %d2, 0; @%p1 ld.u64 %d5, [%d2]; @%p1 ld.u64 %d6, [%d2+56]; @%p1 add.u64 %d5, %d5, %d6;\n\
    st.param.b64 [a], %d2; call free, (a); st.global.u64 [%d4], %d5; ret; }\n";

/// What a kernel has allocated another one reads and frees, also one of another module of the context.
fn malloc_lasts(environment: &Environment) -> Verdict {
    let (stream, context) = (environment.stream()?, environment.context());
    let (first, second) = (Module::load_ptx(context, HEAP)?, Module::load_ptx(context, HEAP)?);
    let (make, take) = (first.kernel("make")?, second.kernel("take")?);
    let config = LaunchConfig::new(4, 64);
    for round in 0..3 {
        let mut to = stream.allocate_zeroed::<u64>(256)?;
        // SAFETY: the kernel writes as many words as it has threads, to the heap and to `to`.
        unsafe { stream.launch(&make, &config, (&mut to, 64u64))? };
        let mut places = stream.download(&to)?;
        holds(
            "addresses are multiples of 16, and not zero",
            places.iter().all(|place| *place != 0 && place % 16 == 0),
        )?;
        places.sort_unstable();
        holds("no two allocations overlap", places.windows(2).all(|pair| pair[1] - pair[0] >= 64))?;
        // SAFETY: the kernel reads and writes as many words as it has threads.
        unsafe { stream.launch(&take, &config, (&mut to,))? };
        let expected: Vec<u64> = (0..256).map(|thread| 2 * thread).collect();
        equal(&format!("what was there in round {round}"), stream.download(&to)?, expected)?;
    }
    Ok(())
}

/// There is an end to what can be allocated, and what is freed can be allocated again.
fn malloc_is_limited(environment: &Environment) -> Verdict {
    let stream = environment.stream()?;
    let module = Module::load_ptx(environment.context(), HEAP)?;
    let (make, take) = (module.kernel("make")?, module.kernel("take")?);
    let mut to = stream.allocate_zeroed::<u64>(32)?;
    let one = LaunchConfig::new(1, 1);
    // Hardware takes sizes near the end of 64 bits for small ones.
    for bytes in [1u64 << 32, 1 << 62] {
        // SAFETY: the kernel writes one word to `to`.
        unsafe { stream.launch(&make, &one, (&mut to, bytes))? };
        equal(&format!("{bytes} bytes"), stream.download(&to)?.first().copied(), Some(0))?;
    }
    for round in 0..3 {
        let config = LaunchConfig::new(32, 1);
        // SAFETY: the kernel writes as many words as it has blocks, to the heap and to `to`.
        unsafe { stream.launch(&make, &config, (&mut to, 1u64 << 20))? };
        let count = stream.download(&to)?.iter().filter(|place| **place != 0).count();
        holds(&format!("{count} of 32 MiB in round {round}"), (4..=8).contains(&count))?;
        // SAFETY: the kernel reads and writes as many words as it has blocks.
        unsafe { stream.launch(&take, &config, (&mut to,))? };
    }
    stream.synchronize().map_err(Into::into)
}
