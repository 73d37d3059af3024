//! Instructions with modifiers, types and operands that do not fit each other: each is refused or runs, and nothing is read
//! or written outside of registers and memory.

#![allow(clippy::unwrap_used)]

mod common;

use std::fmt::Write;

use anabranch_ptx::{Launch, Module, NoHooks, Options, Size, instructions};
use common::{Arguments, Device, Random};

const TYPES: [&str; 20] = [
    "b8", "b16", "b32", "b64", "u8", "u16", "u32", "u64", "s16", "s32", "s64", "f16", "f16x2", "bf16", "f32", "f64",
    "pred", "u16x2", "s16x2", "tf32",
];

const WORDS: [&str; 44] = [
    "lo", "hi", "wide", "rn", "rz", "rni", "rzi", "ftz", "sat", "cc", "approx", "full", "relu", "NaN", "eq", "lt",
    "geu", "and", "or", "xor", "global", "shared", "local", "param", "const", "v2", "v4", "v8", "sync", "up", "idx",
    "all", "any", "ballot", "uni", "add", "cas", "exch", "wrap", "clamp", "l", "r", "to", "volatile",
];

/// Registers, numbers, addresses and vectors. Those of one size come often together.
fn operand(random: &mut Random, favourite: usize) -> String {
    let register = |random: &mut Random| {
        let kind = if random.next().is_multiple_of(4) { random.next() as usize % 4 } else { favourite };
        format!("%{}{}", ["p", "h", "r", "d"][kind], random.next() % 4)
    };
    match random.next() % 24 {
        0 => "7".to_owned(),
        1 => "0f3F800000".to_owned(),
        2 => format!("[{}+{}]", register(random), random.next() % 3 * 8),
        3 => format!("[{}+-9223372036854775808]", register(random)),
        4 => "[s+4]".to_owned(),
        5 => "[l+9223372036854775807]".to_owned(),
        6 => "[k_param+2147483647]".to_owned(),
        7 => format!("{{{}, {}}}", register(random), register(random)),
        8 => format!("{{{0}, {1}, {0}, {1}}}", register(random), register(random)),
        9 => format!("{}|{}", register(random), register(random)),
        10 => "%tid.x".to_owned(),
        11 => "END".to_owned(),
        12 => "s".to_owned(),
        13 => "(l), k, (l)".to_owned(),
        14 => format!("!{}", register(random)),
        15 => "_".to_owned(),
        _ => register(random),
    }
}

/// Kernels of a few instructions each, so that what is refused in one does not keep others from running.
fn text(random: &mut Random, kernels: u32) -> String {
    let names: Vec<&str> = instructions().filter(|one| one.support.is_ok()).map(|one| one.name).collect();
    let mut text = String::from(".version 8.0\n.target sm_90\n.address_size 64\n");
    for kernel in 0..kernels {
        let _ = write!(
            text,
            ".visible .entry k{kernel}(.param .u64 k_param) {{\n.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<4>;\n\
             .reg .b64 %d<4>; .shared .align 8 .b8 s[64]; .local .b8 l[16];\nld.param.u64 %d1, [k_param];\n"
        );
        for _ in 0..1 + random.next() % 2 {
            if random.next().is_multiple_of(6) {
                let _ = write!(text, "@%p{} ", random.next() % 4);
            }
            text.push_str(names[random.next() as usize % names.len()]);
            for _ in 0..random.next() % 3 {
                let _ = write!(text, ".{}", WORDS[random.next() as usize % WORDS.len()]);
            }
            let of_type = random.next() as usize % TYPES.len();
            for _ in 0..[1, 1, 1, 0, 2][random.next() as usize % 5] {
                let which = if random.next().is_multiple_of(5) { random.next() as usize } else { of_type };
                let _ = write!(text, ".{}", TYPES[which % TYPES.len()]);
            }
            let favourite = match TYPES[of_type] {
                "pred" => 0,
                "b8" | "b16" | "u8" | "u16" | "s16" | "f16" | "bf16" => 1,
                "b64" | "u64" | "s64" | "f64" => 3,
                _ => 2,
            };
            for number in 0..random.next() % 6 {
                let comma = if number == 0 { " " } else { ", " };
                let operand = operand(random, favourite);
                let _ = write!(text, "{comma}{operand}");
            }
            text.push_str(";\n");
        }
        text.push_str("END: ret;\n}\n");
    }
    text
}

#[test]
fn instructions_of_random_operands() {
    let mut random = Random(1);
    let (mut ran, mut refused) = (0, 0);
    for round in 0..if cfg!(miri) { 1 } else { 400 } {
        let text = text(&mut random, if cfg!(miri) { 4 } else { 20 });
        if Module::parse(&text).is_err() {
            continue;
        }
        let mut device = Device::new(&text);
        let buffer = device.memory.allocate(4096);
        for kernel in device.program.module().kernels() {
            let size = Size { grid: [1; 3], block: [40, 1, 1], dynamic_shared: 0 };
            let mut options = Options::default();
            options.operation_limit = Some(1000);
            options.checked = round % 2 == 0;
            let parameters = Arguments::new().with(buffer).0;
            let launch =
                Launch::new(&device.program, &kernel.name, size, &parameters, &device.memory, &NoHooks, options);
            match launch {
                Ok(launch) => {
                    let _ = launch.run();
                    ran += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(cfg!(miri) || ran > 0 && refused > 0, "{ran} ran, {refused} were refused");
}

/// Whether a kernel of one instruction is refused.
fn is_refused(instruction: &str) -> bool {
    let text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.entry k() {{ .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<4>;\n\
         .reg .b64 %d<4>; {instruction}; ret; }}"
    );
    let module = Module::parse(&text).unwrap();
    !module.kernel("k").unwrap().refusals.is_empty()
}

#[test]
fn types_that_an_instruction_does_not_have_are_refused() {
    for instruction in [
        "lop3.b16 %h0, %h1, %h2, %h3, 5",
        "lop3.b64 %r0, %d1, %d2, %d3, 5",
        "shf.l.wrap.b16 %h0, %h1, %h2, %h3",
        "shf.r.clamp.b64 %d0, %d1, %d2, %d3",
        "atom.shared.add.u32 %r0, [%h1], %r2",
        "ld.shared.v2.u32 {%r0, %d1}, [%r1]",
        "ld.shared.v4.u32 {%r0, %r1}, [%r1]",
        "ld.shared.u64 %r0, [%r1]",
        "mov.b64 %r0, %d1",
        "bar.red.popc.u32 %d0, 0, %p1",
        "setp.lt.f16x2 %p1, %r1, %r2",
    ] {
        assert!(is_refused(instruction), "{instruction}");
    }
    assert!(!is_refused("lop3.b32 %r0, %r1, %r2, %r3, 5"));
    assert!(!is_refused("shf.l.wrap.b32 %r0, %r1, %r2, %r3"));
}

#[test]
fn a_function_that_cannot_be_executed_is_not_called_by_its_address() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n\
                .func bad() { .reg .b16 %h<4>; shf.l.wrap.b16 %h0, %h1, %h2, %h3; ret; }\n\
                .global .u64 table = bad;\n.entry k() { .reg .b64 %d<2>;\n\
                ld.global.u64 %d0, [table]; prototype: .callprototype _ (); call %d0, prototype; ret; }";
    let device = Device::new(text);
    let error = device.launch("k", 1, 1, &Arguments::new()).unwrap_err();
    assert_eq!(error.code, anabranch_ptx::FaultCode::INVALID_PC, "{error}");
}
