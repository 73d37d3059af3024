//! Operands: registers of the type of an instruction, addresses in the state space of a name, and special registers where an
//! instruction takes them. The answers are those of `ptxas` 12.9.

#![allow(clippy::unwrap_used)]

#[path = "common/assembler.rs"]
mod assembler;

use assembler::{body, verdict};

/// Registers of many types, and names in all state spaces.
fn text(statements: &str) -> String {
    let globals = ".global .u32 a[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n.shared .u32 s[8];\n.const .u32 c[4] = {1, 2, 3, 4};\n\
        .global .u32 one;\n";
    let registers = ".reg .b32 %r<5>; .reg .b64 %d<5>; .reg .f32 %f<5>; .reg .f64 %e<5>; .reg .pred %p<5>; .reg .b16 %h<5>;\
        .reg .u32 %u<5>; .reg .s32 %s<5>; .reg .u16 %c<5>; .reg .s64 %l<5>; .reg .f16 %x<5>; .reg .f16x2 %y<5>;\
        .reg .b128 %q<3>; .local .u32 l[4];";
    format!("{globals}{}", body(&format!("{registers} {statements}")))
}

#[track_caller]
fn taken(statements: &[&str]) {
    for statement in statements {
        assert_eq!(verdict(&text(statement)), None, "{statement}");
    }
}

#[track_caller]
fn refused(reason: &str, statements: &[&str]) {
    for statement in statements {
        let message = verdict(&text(statement)).unwrap_or_else(|| panic!("this was taken: {statement}"));
        assert!(message.contains(reason), "{message}: {statement}");
    }
}

#[test]
fn registers_are_of_the_type_of_an_instruction() {
    taken(&[
        "add.u32 %u1, %s1, %r2;",
        "add.f32 %r1, %f1, %f2;",
        "add.f16 %x1, %x1, %h2;",
        "add.u16x2 %r1, %r2, %r3;",
        "and.b32 %f1, %f1, %r2;",
        "xor.b16 %h1, %x1, %h2;",
        "mov.f32 %r1, %f1;",
        "mov.b32 %u1, %f1;",
        "setp.eq.b32 %p1, %f1, %r1;",
        "selp.b32 %f1, %u1, %r2, %p1;",
        "ld.global.f32 %d1, [%d1];",
        "ld.global.b16 %f1, [%d1];",
        "ld.global.u32 %l1, [%d1];",
        "st.global.b32 [%d1], %e1;",
        "cvt.rzi.u32.f32 %r1, %r2;",
        "cvt.u8.u32 %d1, %r1;",
        "cvt.rn.f16.f32 %x1, %f1;",
        "slct.f32.s32 %f1, %r1, %f2, %r3;",
        "atom.global.cas.b32 %f1, [%d1], %r1, %f2;",
        "shfl.sync.idx.b32 %u1, %s2, %f1, 31, -1;",
        "popc.b32 %r1, %f1;",
        "prmt.b32 %f1, %f2, %f3, %f4;",
        "shf.l.wrap.b32 %r1, %f1, %r2, %r3;",
        "mov.b64 %e1, {%r1, %f2};",
        "mov.b32 {%h1, %c2}, %f1;",
        "ld.global.v2.u32 {%u1, %s1}, [%d1];",
        "nanosleep.u32 %s1;",
    ]);
    refused(
        "of type .",
        &[
            "add.u32 %r1, %f1, %r2;",
            "add.u32 %f1, %r1, %r2;",
            "add.f32 %f1, %u1, %f2;",
            "add.u64 %d1, %e1, %l2;",
            "add.f16 %x1, %x1, %c2;",
            "add.u16x2 %u1, %u2, %u3;",
            "addc.u32 %f1, %r1, %r2;",
            "shl.b32 %r1, %r2, %f1;",
            "mov.u32 %f1, %r1;",
            "mov.f32 %f1, %u1;",
            "setp.eq.u32 %p1, %f1, %r1;",
            "selp.f32 %f1, %u1, %f2, %p1;",
            "ld.global.u32 %f1, [%d1];",
            "ld.global.f32 %e1, [%d1];",
            "ld.global.u8 %f1, [%d1];",
            "st.global.f32 [%d1], %u1;",
            "cvt.rzi.u32.f32 %f1, %f2;",
            "cvt.u64.u32 %d1, %f1;",
            "cvt.f32.f16 %f1, %c1;",
            "cvt.rna.tf32.f32 %f1, %f1;",
            "mul.wide.u32 %e1, %u1, %s1;",
            "fma.rn.bf16 %h1, %h1, %h2, %x1;",
            "set.eq.f32.u32 %u1, %r1, %r2;",
            "slct.f32.s32 %f1, %f1, %f2, %f3;",
            "red.global.add.f32 [%d1], %u1;",
            "popc.b32 %f1, %r1;",
            "shf.l.wrap.b32 %f1, %f2, %f3, %f4;",
            "bar.sync %f1;",
            "elect.sync %f1|%p1, -1;",
            "match.any.sync.b32 %f1, %f1, -1;",
            "nanosleep.u32 %f1;",
            "cvta.global.u64 %e1, %d1;",
            "ld.global.b32 %r1, [%e1];",
            "mbarrier.arrive.shared.b64 %e1, [%r1];",
        ],
    );
    refused(
        "a vector of registers of types",
        &[
            "ld.global.v2.b32 {%f1, %u1}, [%d1];",
            "st.global.v2.b32 [%d1], {%f1, %u1};",
            "mov.b64 %d1, {%f1, %u2};",
            "mov.b64 {%f1, %u2}, %d1;",
        ],
    );
    refused("instead of bits", &["mov.u64 %d1, {%r1, %r2};", "mov.f64 {%r1, %r2}, %e1;"]);
    refused("type .f16", &["ld.global.f16 %x1, [%d1];", "st.global.f16x2 [%d1], %y1;"]);
    refused(
        "which takes registers alone",
        &[
            "add.f16 %h1, %h2, 1.0;",
            "fma.rn.f16x2 %r1, %r2, %r2, 0x3c003c00;",
            "setp.lt.f16 %p1, %h1, 1;",
            "cvt.f32.f16 %f1, 0x3c00;",
            "add.u16x2 %r1, %r2, 1;",
            "red.global.add.noftz.f16x2 [%d1], 1;",
        ],
    );
    taken(&["cvt.rn.f16.f32 %h1, 1.0;", "mov.b16 %h1, 0x3c00;"]);
    refused(
        "are loaded, stored and moved",
        &["mov.f16 %h1, %h2;", "mov.f16x2 %r1, %r2;", "selp.f16 %h1, %h2, %h2, %p1;"],
    );
    refused("type .b32", &["cvt.b32.u32 %r1, %r2;", "cvt.u32.b32 %r1, %r2;"]);
}

#[test]
fn names_are_accessed_in_their_state_space() {
    taken(&[
        "ld.u32 %r1, [a];",
        "ld.u32 %r1, [s];",
        "ld.u32 %r1, [l];",
        "st.u32 [l], 1;",
        "ld.const.u32 %r1, [c];",
        "ld.param.u64 %d1, [to];",
        "ld.param::func.u64 %d1, [to];",
        "ld.local.u32 %r1, [16];",
        "ld.shared.u32 %r1, [%d1];",
        "ld.const.u32 %r1, [%r1];",
        "cvta.shared.u64 %d1, s;",
        "mbarrier.init.b64 [s], 1;",
    ]);
    refused("which is in .const", &["ld.global.u32 %r1, [c];", "ld.u32 %r1, [c];", "st.global.u32 [c], %r1;"]);
    refused(
        "which is in .global",
        &[
            "ld.const.u32 %r1, [a];",
            "ld.shared.u32 %r1, [a];",
            "st.local.u32 [a], %r1;",
            "st.param.u32 [a], %r1;",
            "atom.shared.add.u32 %r1, [a], 1;",
            "mbarrier.init.b64 [a], 1;",
        ],
    );
    refused("which is in .shared", &["ld.global.u32 %r1, [s];", "red.global.add.u32 [s], 1;"]);
    refused("which is in .local", &["ld.global.u32 %r1, [l];", "atom.add.u32 %r1, [l], 1;"]);
    refused("which is in .param", &["ld.global.u64 %d1, [to];", "ld.u64 %d1, [to];", "ld.local.u64 %d1, [to];"]);
    refused("a store to constant memory", &["st.const.u32 [c], %r1;", "st.const.u32 [%d1], 1;"]);
    refused("a number as an address", &["ld.global.u32 %r1, [8];", "st.shared.u32 [16], 1;", "ld.u32 %r1, [2*4];"]);
    refused("which has 32", &["ld.global.u32 %r1, [%r1];", "ld.u32 %r1, [%r1];"]);
    refused("the function `k`", &["ld.global.u32 %r1, [k];"]);
    refused("another state space", &["cvta.global.u64 %d1, s;", "cvta.shared.u64 %d1, to;"]);
    refused("which is passed to functions", &[".param .b32 p; mov.u64 %d1, p;"]);
}

#[test]
fn functions_read_their_parameters_and_write_their_results() {
    let function = |statements: &str| {
        format!(
            ".visible .func (.param .b32 r) foo(.param .b32 p) {{ .reg .b32 %z; {statements} st.param.b32 [r], 1; ret; }}\n"
        )
    };
    for statements in ["ld.param.b32 %z, [p];", "st.param.b32 [r], 3;", "ld.param.v2.b16 {%h, %i}, [p];"] {
        assert_eq!(verdict(&function(&format!(".reg .b16 %h, %i; {statements}"))), None, "{statements}");
    }
    for (statements, reason) in [
        ("ld.param.b32 %z, [r];", "a load of the result `r`"),
        ("st.param.b32 [p], 3;", "a store to the parameter `p`"),
        ("ld.b32 %z, [p];", "`p`, which is in .param"),
        ("ld.local.b32 %z, [p];", "`p`, which is in .param"),
        ("st.local.b32 [r], 1;", "`r`, which is in .param"),
    ] {
        let message = verdict(&function(statements)).unwrap_or_else(|| panic!("{statements}"));
        assert!(message.contains(reason), "{message}");
    }
}

#[test]
fn few_instructions_take_addresses_and_special_registers() {
    taken(&[
        "mov.u64 %d1, a+8;",
        "mov.u32 %r1, s;",
        "mov.u64 %d1, k;",
        "mov.u16 %h1, %tid.x;",
        "mov.u32 %r1, %gridid;",
        "cvt.u64.u32 %d1, %tid.x;",
        "cvt.u32.u16 %r1, %ctaid.y;",
        "mov.b64 %d1, {%tid.x, %r1};",
    ]);
    refused(
        "which `mov` reads",
        &[
            "add.u32 %r1, %r1, %tid.x;",
            "setp.eq.u32 %p1, %tid.x, 0;",
            "st.global.u32 [%d1], %tid.x;",
            "cvt.rn.f32.u32 %f1, %tid.x;",
            "mov.f32 %f1, %tid.x;",
            "add.u64 %d1, %d1, a;",
            "selp.u64 %d1, a, a, %p1;",
            "isspacep.global %p1, a;",
        ],
    );
    refused("as a value of another size", &["mov.u64 %d1, %tid.x;", "mov.u32 %r1, %clock64;", "mov.u16 %h1, %laneid;"]);
    refused("as a value of 32", &["mov.u32 %r1, a;"]);
    refused("as a value of type .f64", &["mov.f64 %e1, a;"]);
}

#[test]
fn addresses_are_in_brackets_and_elements_behind_their_array() {
    taken(&["ld.global.u32 %r1, a[3];", "st.shared.u32 s[2], %r1;", "mov.u64 %d1, a[1+2];", "ld.local.u32 %r1, l[2];"]);
    refused(
        "an address is in brackets",
        &["ld.global.u32 %r1, a;", "ld.global.u32 %r1, %d1;", "st.global.u32 a+4, %r1;"],
    );
    refused("an address is in brackets", &["atom.global.add.u32 %r1, a[3], 1;"]);
    refused("which is no array", &["ld.global.u32 %r1, one[0];", "ld.param.b32 %r1, to[1];"]);
    refused("was expected", &["ld.global.u32 %r1, a[1][2];", "ld.global.u32 %r1, [%d1-4];", "mov.u64 %d1, a-8;"]);
}
