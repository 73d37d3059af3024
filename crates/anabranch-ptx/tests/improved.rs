//! Operations that lowering joins, moves before the first block, or performs for rows of addresses: the results are those of
//! the operations one by one.

#![allow(clippy::unwrap_used)]

mod common;

use anabranch_ptx::Level;
use common::{Arguments, Device};

/// A kernel that gets a pointer, whose thread has its number in the grid in `%r1` and the address of its word in `%d1`.
fn text(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 to, .param .f32 given) {{\n\
         .reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .f32 %f<20>; .shared .align 16 .b8 s[4096];\n\
         ld.param.u64 %d0, [to]; ld.param.f32 %f0, [given];\n\
         mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r1, %r3, %r4, %r5;\n\
         mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d0, %d2;\n{body}\nret;\n}}\n"
    )
}

/// Runs two blocks of 40 threads at every level; what the 80 threads have written.
fn results(body: &str, given: f32) -> Vec<u32> {
    let mut all: Vec<Vec<u32>> = Vec::new();
    // Miri has the baseline only.
    let levels = if cfg!(miri) { 1 } else { 3 };
    for level in [Level::Baseline, Level::Avx2, Level::Avx512].into_iter().take(levels) {
        for checked in [false, true] {
            let mut device = Device::with_level(&text(body), level);
            device.options.checked = checked;
            let to = device.memory.upload(&(0..400u32).collect::<Vec<_>>());
            let arguments = Arguments::new().with(to).with(given);
            device.launch("k", 2, 40, &arguments).unwrap_or_else(|fault| panic!("{fault}"));
            all.push(device.memory.download(to));
        }
    }
    assert!(all.windows(2).all(|pair| pair[0] == pair[1]), "the levels differ");
    all.swap_remove(0)
}

fn expect(body: &str, given: f32, expected: impl Fn(u32) -> u32) {
    let found = results(body, given);
    for thread in 0..80 {
        assert_eq!(found[thread as usize], expected(thread), "thread {thread}");
    }
}

#[test]
fn multiply_adds_are_joined_only_where_nothing_changes_between_them() {
    let fused = |a: f32, b: f32, c: f32| a.mul_add(b, c);
    let start = "cvt.rn.f32.u32 %f1, %r1; mov.f32 %f2, 0f3F99999A; mov.f32 %f3, 0f40100000;";
    let end = "st.global.f32 [%d1], %f9;";
    let [b, c] = [1.2f32, 2.25];
    let both = "fma.rn.f32 %f4, %f1, %f2, %f3; fma.rn.f32 %f9, %f4, %f3, %f0;";
    expect(&format!("{start}{both}{end}"), 0.5, |n| fused(fused(n as f32, b, c), c, 0.5).to_bits());
    let as_sum = "fma.rn.f32 %f4, %f1, %f2, %f3; fma.rn.f32 %f9, %f1, %f1, %f4;";
    expect(&format!("{start}{as_sum}{end}"), 0.5, |n| fused(n as f32, n as f32, fused(n as f32, b, c)).to_bits());
    let changed = "fma.rn.f32 %f4, %f1, %f2, %f3; mov.f32 %f3, %f0; fma.rn.f32 %f9, %f4, %f2, %f3;";
    expect(&format!("{start}{changed}{end}"), 0.5, |n| fused(fused(n as f32, b, c), b, 0.5).to_bits());
    let twice = "fma.rn.f32 %f4, %f1, %f2, %f3; fma.rn.f32 %f9, %f4, %f4, %f0;";
    let squared = |n| {
        let first = fused(n as f32, b, c);
        fused(first, first, 0.5).to_bits()
    };
    expect(&format!("{start}{twice}{end}"), 0.5, squared);
    let guarded = "setp.lt.u32 %p1, %r1, 50; mov.f32 %f9, %f0; fma.rn.f32 %f4, %f1, %f2, %f3;\n\
                   @%p1 fma.rn.f32 %f9, %f4, %f3, %f0;";
    let some = |n| if n < 50 { fused(fused(n as f32, b, c), c, 0.5) } else { 0.5 }.to_bits();
    expect(&format!("{start}{guarded}{end}"), 0.5, some);
    // A NaN within is the canonical one at the end.
    expect(&format!("{start}{both}{end}"), f32::from_bits(0x7fc0_1234), |_| 0x7fff_ffff);
    let around = format!(
        "{start} mov.u32 %r2, 0; mov.f32 %f9, %f0;\nAGAIN: fma.rn.f32 %f4, %f9, %f2, %f3;\nsetp.eq.u32 %p2, %r2, 3;\n\
         @%p2 bra LAST; fma.rn.f32 %f9, %f4, %f2, %f1; add.u32 %r2, %r2, 1; bra AGAIN;\nLAST: {end}"
    );
    let loops = |n| (0..3).fold(0.5, |value, _| fused(fused(value, b, c), b, n as f32)).to_bits();
    expect(&around, 0.5, loops);
}

#[test]
fn a_comparison_and_its_branch_leave_the_predicate() {
    for (negate, holds) in [("", true), ("!", false)] {
        for (name, kind, compare) in [
            ("lt", "s32", (|n| n < 33) as fn(u32) -> bool),
            ("ge", "u32", |n| n >= 33),
            ("eq", "b32", |n| n == 33),
            ("hi", "u32", |n| n > 33),
        ] {
            let body = format!(
                "mov.u32 %r2, 1; setp.{name}.{kind} %p1, %r1, 33;\n@{negate}%p1 bra OVER;\nadd.u32 %r2, %r2, 10;\nOVER:\n\
                 selp.u32 %r6, 100, 200, %p1; add.u32 %r2, %r2, %r6; st.global.u32 [%d1], %r2;"
            );
            let value = |n| {
                let jumps = compare(n) == holds;
                1 + if jumps { 0 } else { 10 } + if compare(n) { 100 } else { 200 }
            };
            expect(&body, 0.0, value);
        }
    }
}

#[test]
fn what_is_the_same_in_all_blocks_is_computed_once() {
    // Of the place of the block, of clocks and of carries nothing is moved.
    let body = "mov.b32 %r2, %f0; add.cc.u32 %r6, %r2, -1; addc.u32 %r7, %r2, %r2; mul.lo.u32 %r8, %r4, %r7;\n\
                xor.b32 %r9, %r3, %r8; mov.u64 %d3, %clock64; mov.u64 %d4, %clock64; setp.gt.u64 %p1, %d3, %d4;\n\
                @%p1 mov.u32 %r9, 0; st.global.u32 [%d1], %r9;";
    expect(body, f32::from_bits(7), |n| (n / 40) ^ (40 * 15));
    // A register that is written at one place, in a branch that some lanes do not take.
    let body = "mov.b32 %r2, %f0; mov.u32 %r9, 5; setp.lt.u32 %p1, %r1, 20; @%p1 bra OVER;\n\
                add.u32 %r6, %r2, %r4; mov.u32 %r9, %r6;\nOVER: st.global.u32 [%d1], %r9;";
    expect(body, f32::from_bits(7), |n| if n < 20 { 5 } else { 47 });
}

#[test]
fn vectors_and_rows_are_read_and_written_in_their_order() {
    // Each thread writes four words to shared memory, and reads those of another one as two pairs.
    let body = "shl.b32 %r2, %r5, 4; mov.u32 %r6, s; add.u32 %r7, %r6, %r2;\n\
                add.u32 %r8, %r1, 1000; add.u32 %r9, %r1, 2000; add.u32 %r10, %r1, 3000;\n\
                st.shared.v4.u32 [%r7], {%r1, %r8, %r9, %r10}; bar.sync 0;\n\
                sub.u32 %r11, 39, %r5; shl.b32 %r11, %r11, 4; add.u32 %r12, %r6, %r11;\n\
                ld.shared.v2.u32 {%r13, %r14}, [%r12+8]; ld.shared.v2.u32 {%r15, %r16}, [%r7];\n\
                add.u32 %r17, %r13, %r16; sub.u32 %r17, %r17, %r15; sub.u32 %r17, %r17, %r14; st.global.u32 [%d1], %r17;";
    expect(body, 0.0, |n| (n + 1000).wrapping_sub(n).wrapping_sub(1000));
    // The first word of all, and words that are read upwards with gaps and downwards.
    let body = "ld.global.u32 %r2, [%d0+1596]; mul.wide.u32 %d3, %r1, 8; add.s64 %d3, %d3, %d0;\n\
                ld.global.v2.u32 {%r6, %r7}, [%d3+800]; sub.u32 %r8, 399, %r1; mul.wide.u32 %d4, %r8, 4;\n\
                add.s64 %d4, %d4, %d0; ld.global.u32 %r9, [%d4]; mad.lo.u32 %r10, %r6, 1000, %r7;\n\
                xor.b32 %r10, %r10, %r9; add.u32 %r10, %r10, %r2; bar.sync 0; st.global.u32 [%d1], %r10;";
    expect(body, 0.0, |n| (((200 + 2 * n) * 1000 + 201 + 2 * n) ^ (399 - n)) + 399);
    // Bytes and halves, extended by their signs.
    let body = "cvt.u64.u32 %d3, %r1; add.s64 %d3, %d3, %d0; ld.global.s8 %r2, [%d3+796];\n\
                mul.wide.u32 %d4, %r1, 2; add.s64 %d4, %d4, %d0; ld.global.u16 %r6, [%d4+400];\n\
                sub.u32 %r6, %r6, %r2; bar.sync 0; st.global.u32 [%d1], %r6;";
    let expected = |n: u32| {
        let bytes: Vec<u8> = (0..400u32).flat_map(u32::to_le_bytes).collect();
        let half = u16::from_le_bytes([bytes[400 + 2 * n as usize], bytes[401 + 2 * n as usize]]);
        u32::from(half).wrapping_sub(i32::from(bytes[796 + n as usize].cast_signed()).cast_unsigned())
    };
    expect(body, 0.0, expected);
}

#[test]
fn addresses_of_elements_are_computed_by_loads_and_stores() {
    // A base that all lanes have, and an index times the size of an element, below and above the middle of the array.
    let body = "sub.s32 %r2, 40, %r1; mul.wide.s32 %d3, %r2, 4; add.s64 %d4, %d3, %d0; ld.global.u32 %r6, [%d4+800];\n\
                st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| 240 - n);
    let body = "sub.s32 %r2, %r1, 40; mul.wide.s32 %d3, %r2, 4; add.s64 %d4, %d0, %d3; ld.global.u32 %r6, [%d4+960];\n\
                bar.sync 0; st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| 200 + n);
    // Indexes that wrap around within a row, as numbers without signs and with them.
    let body = "add.u32 %r2, %r1, -5; mul.wide.u32 %d3, %r2, 4; and.b64 %d3, %d3, 0x3ff; add.s64 %d4, %d3, %d0;\n\
                ld.global.u32 %r6, [%d4+400]; bar.sync 0; st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| if n >= 5 { 95 + n } else { 351 + n });
    let body = "sub.u64 %d5, %d0, 8; add.u32 %r2, %r5, 0x7ffffff6; sub.u32 %r2, %r2, 0x7ffffff6; mul.wide.s32 %d3, %r2, 4;\n\
                add.s64 %d4, %d5, %d3; ld.global.u32 %r6, [%d4+408]; bar.sync 0; st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| 100 + n % 40);
    // Pairs, one element of each, and elements that are larger than the step of the index.
    let body = "mul.wide.u32 %d3, %r1, 8; add.s64 %d4, %d0, %d3; ld.global.v2.u32 {%r6, %r7}, [%d4+800];\n\
                ld.global.u32 %r8, [%d4+804]; sub.u32 %r7, %r7, %r8; add.u32 %r6, %r6, %r7; bar.sync 0;\n\
                st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| 200 + 2 * n);
    let body = "shr.u32 %r2, %r1, 1; shl.b32 %r2, %r2, 1; mul.wide.u32 %d3, %r2, 4; add.s64 %d4, %d0, %d3;\n\
                ld.global.v2.u32 {%r6, %r7}, [%d4+800]; add.u32 %r6, %r6, %r7; bar.sync 0; st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| 2 * (200 + n / 2 * 2) + 1);
    // What changes between the sum and its use, what is used elsewhere too, and what only some lanes do.
    let body = "mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d0, %d3; mov.u64 %d3, 0; ld.global.u32 %r6, [%d4+800];\n\
                cvt.u32.u64 %r7, %d3; add.u32 %r6, %r6, %r7; bar.sync 0; st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| 200 + n);
    let body = "mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d0, %d3; ld.global.u32 %r6, [%d4+800]; sub.s64 %d6, %d4, %d1;\n\
                cvt.u32.u64 %r7, %d6; add.u32 %r6, %r6, %r7; bar.sync 0; st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| 200 + n);
    let body = "mov.u32 %r2, %r1; mul.wide.u32 %d3, %r2, 4; add.s64 %d4, %d0, %d3; mov.u32 %r2, 0; mov.u32 %r6, 7;\n\
                setp.lt.u32 %p1, %r1, 50; @%p1 ld.global.u32 %r6, [%d4+800]; add.u32 %r6, %r6, %r2; bar.sync 0;\n\
                st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| if n < 50 { 200 + n } else { 7 });
    // An address of one turn of a loop that the next one uses.
    let body = "mov.u32 %r2, %r1; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u64 %d4, %d1;\n\
                AGAIN: ld.global.u32 %r8, [%d4+400]; add.u32 %r6, %r6, %r8; add.u32 %r2, %r2, 80; mul.wide.u32 %d3, %r2, 4;\n\
                add.s64 %d4, %d0, %d3; add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 3; @%p1 bra AGAIN; bar.sync 0;\n\
                st.global.u32 [%d1], %r6;";
    expect(body, 0.0, |n| 3 * n + 540);
}

#[test]
fn shapes_of_registers_are_those_of_when_they_are_read() {
    // Two words at each place: %r6 and %r7 become those 100 and 200 words further.
    let both = "ld.global.u32 %r6, [%d4+400]; ld.global.u32 %r7, [%d4+800]; sub.u32 %r6, %r7, %r6; sub.u32 %r6, %r6, 100;\n\
                add.u32 %r8, %r8, %r6; ld.global.u32 %r6, [%d4+400]; add.u32 %r8, %r8, %r6;";
    let end = "bar.sync 0; st.global.u32 [%d1], %r8;";
    let start = "mov.u32 %r8, 0; mov.u64 %d4, %d1;";
    expect(&format!("{start} {both} {end}"), 0.0, |n| n + 100);
    // Some lanes change it, by a guard and in a branch, and the others see what they had.
    let guarded = "setp.lt.u32 %p1, %r5, 7; @%p1 add.s64 %d4, %d4, 8;";
    expect(&format!("{start} {both} {guarded} {both} {end}"), 0.0, |n| 200 + 2 * n + if n % 40 < 7 { 2 } else { 0 });
    let branch = "setp.lt.u32 %p1, %r5, 7; @%p1 bra OVER; add.s64 %d4, %d4, 8;\nOVER:";
    expect(&format!("{start} {both} {branch} {both} {end}"), 0.0, |n| 200 + 2 * n + if n % 40 < 7 { 0 } else { 2 });
    let inside = format!("setp.lt.u32 %p1, %r5, 7; @%p1 bra OVER; add.s64 %d4, %d4, 8; {both}\nOVER:");
    expect(&format!("{start} {inside} {both} {end}"), 0.0, |n| if n % 40 < 7 { 100 + n } else { 204 + 2 * n });
    // A loop moves it.
    let turns = format!("mov.u32 %r9, 0;\nAGAIN: {both} add.s64 %d4, %d4, 12; add.u32 %r9, %r9, 1;");
    let turns = format!("{turns} setp.lt.u32 %p1, %r9, 3; @%p1 bra AGAIN;");
    expect(&format!("{start} {turns} {end}"), 0.0, |n| 3 * n + 309);
    // It is read from memory, and goes down, or up in rows.
    let start = "mov.u32 %r8, 0; cvt.u64.u32 %d5, %r1; st.shared.u64 [s+8], %d5; sub.u32 %r2, 39, %r5; shl.b32 %r2, %r2, 2;\n\
                 cvt.u64.u32 %d4, %r2; add.s64 %d4, %d4, %d0;";
    expect(&format!("{start} {both} {end}"), 0.0, |n| 139 - n % 40);
    let start =
        "mov.u32 %r8, 0; and.b32 %r2, %r5, 15; shl.b32 %r2, %r2, 2; cvt.u64.u32 %d4, %r2; add.s64 %d4, %d4, %d0;";
    expect(&format!("{start} {both} {end}"), 0.0, |n| 100 + n % 40 % 16);
    let start =
        "mov.u32 %r8, 0; shr.b32 %r2, %r5, 4; shl.b32 %r2, %r2, 2; cvt.u64.u32 %d4, %r2; add.s64 %d4, %d4, %d0;";
    expect(&format!("{start} {both} {end}"), 0.0, |n| 100 + n % 40 / 16);
    // One index has a shape for each way to extend it: it wraps around as one without signs, or as one with them.
    let both = "mul.wide.s32 %d3, %r2, 4; add.s64 %d4, %d0, %d3; ld.global.u32 %r6, [%d4+400];\n\
                ld.global.u32 %r7, [%d4+404]; mul.wide.u32 %d5, %r9, 4; add.s64 %d6, %d0, %d5;\n\
                ld.global.u32 %r10, [%d6+400]; ld.global.u32 %r11, [%d6+404]; sub.u32 %r7, %r7, %r6;\n\
                sub.u32 %r11, %r11, %r10; add.u32 %r8, %r6, %r10; add.u32 %r8, %r8, %r7; add.u32 %r8, %r8, %r11;";
    let start = "add.u32 %r2, %r5, -5; and.b32 %r9, %r2, 63;";
    let expected = |n: u32| 2 + (95 + n % 40) + (100 + ((n % 40).wrapping_sub(5) & 63));
    expect(&format!("{start} {both} {end}"), 0.0, expected);
    // Addresses of 32 bits, with what is added below zero and beyond the end.
    let body = "shl.b32 %r2, %r5, 2; mov.u32 %r6, s; add.u32 %r7, %r6, %r2; st.shared.u32 [%r7], %r1; bar.sync 0;\n\
                add.u32 %r9, %r7, 160; ld.shared.u32 %r10, [%r9+-160]; add.u32 %r11, %r10, 1; bar.sync 0;\n\
                st.shared.u32 [%r9], %r11; bar.sync 0; ld.shared.u32 %r8, [%r7+160];";
    expect(&format!("{body} {end}"), 0.0, |n| n + 1);
}
