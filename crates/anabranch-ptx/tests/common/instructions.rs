//! One instruction at a time, against a model in plain Rust.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use anabranch_ptx::Level;

use super::{Arguments, Device, Random};

/// Numbers at which results change, of every size and type.
const EDGES: [u64; 26] = [
    0,
    1,
    2,
    31,
    32,
    33,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0x3c00,
    0x7c00,
    0x7e00,
    0x0001_8001,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x3f80_0000,
    0x7f80_0000,
    0x0000_0001_0000_0000,
    0x3ff0_0000_0000_0000,
    0x7ff0_0000_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX,
];

/// How many values are tried.
const COUNT: usize = 128;

fn values(random: &mut Random, floats: bool) -> Vec<u64> {
    (0..COUNT)
        .map(|_| {
            let bits = random.next();
            match random.next() % 4 {
                0 => EDGES[(bits % EDGES.len() as u64) as usize],
                1 if floats => {
                    let value = (bits % 4096) as f64 / 16.0 - 100.0;
                    if bits >> 60 & 1 == 0 { u64::from((value as f32).to_bits()) } else { value.to_bits() }
                }
                2 => bits % 80,
                _ => bits,
            }
        })
        .collect()
}

/// The name of a type of bits.
fn width(letter: u8) -> (&'static str, u64) {
    match letter {
        b'h' => ("b16", 0xffff),
        b'w' => ("b32", 0xffff_ffff),
        _ => ("b64", u64::MAX),
    }
}

/// Runs an instruction for many values, and compares each result.
///
/// `sizes` has a letter for `%d`, `%a`, `%b` and `%c`: `h`, `w`, `l` for 16, 32 and 64 bits, and `p` for a predicate.
/// Results that are NaN in the model need only be NaN: `nan` tells which are.
pub fn check(text: &str, sizes: &str, nan: fn(u64) -> bool, model: impl Fn(u64, u64, u64) -> u64) {
    let letters = sizes.as_bytes();
    let mut random = Random(text.len() as u64 * 77 + 1);
    let floats = text.contains(".f") || text.contains("f16");
    let inputs: [Vec<u64>; 3] = std::array::from_fn(|_| values(&mut random, floats));
    let mut body = String::new();
    for (index, name) in ["d", "a", "b", "c"].into_iter().enumerate() {
        match letters[index] {
            b'p' => body += &format!(".reg .pred %{name};\n"),
            letter => body += &format!(".reg .{} %{name};\n", width(letter).0),
        }
    }
    for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
        let base = format!("add.u64 %at, %base{index}, %offset;\n");
        match letters[index + 1] {
            b'p' => body += &format!("{base} ld.global.u32 %v, [%at];\nsetp.gt.s32 %{name}, %v, 40;\n"),
            letter => body += &format!("{base} ld.global.{} %{name}, [%at];\n", width(letter).0),
        }
    }
    let (store, wide) = match letters[0] {
        b'p' => ("selp.b64 %r, 1, 0, %d;\n", "setp.eq.u32 %d, 1, 2;\n"),
        b'h' => ("cvt.u64.u16 %r, %d;\n", "mov.b16 %d, 0;\n"),
        b'w' => ("cvt.u64.u32 %r, %d;\n", "mov.b32 %d, 0;\n"),
        _ => ("mov.b64 %r, %d;\n", "mov.b64 %d, 0;\n"),
    };
    let kernel = format!(
        ".version 8.6\n.target sm_100\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, \
         .param .u64 pd, .param .u32 odd) {{\n.reg .b64 %base<3>, %out, %offset, %at, %r;\n.reg .b32 %t, %o, %v;\n.reg .pred \
         %on;\nld.param.u64 %base0, [p0];\nld.param.u64 %base1, [p1];\nld.param.u64 %base2, [p2];\nld.param.u64 %out, \
         [pd];\nmov.u32 %t, %ctaid.x;\nshl.b32 %t, %t, 5;\nmov.u32 %o, %tid.x;\nadd.u32 %t, %t, %o;\nmul.wide.u32 \
         %offset, %t, 8;\n{body}{wide}ld.param.u32 %o, [odd];\nand.b32 %t, %t, 1;\nsetp.ge.u32 %on, %t, %o;\n@%on bra \
         DO;\nbra END;\nDO: {text}\nEND: {store}add.u64 %at, %out, %offset;\nst.global.u64 [%at], %r;\nret;\n}}\n"
    );
    let mask = |letter: u8| if letter == b'p' { 1 } else { width(letter).1 };
    for level in [Level::Baseline, Level::Avx2, Level::Avx512] {
        let mut device = Device::with_level(&kernel, level);
        for odd in [0u32, 1] {
            let mut arguments = Arguments::new();
            for input in &inputs {
                arguments = arguments.with(device.memory.upload(input));
            }
            let out = device.memory.upload(&[0u64; COUNT]);
            device.launch("k", COUNT as u32 / 32, 32, &arguments.with(out).with(odd)).unwrap();
            for (index, found) in device.memory.download::<u64>(out).into_iter().enumerate() {
                let [a, b, c] = std::array::from_fn(|input| {
                    let value = inputs[input][index];
                    match letters[input + 1] {
                        b'p' => u64::from((value as u32).cast_signed() > 40),
                        letter => value & width(letter).1,
                    }
                });
                if odd == 1 && index % 2 == 0 {
                    assert_eq!(found, 0, "{text}: a lane that does not run");
                    continue;
                }
                let expected = model(a, b, c) & mask(letters[0]);
                let same = found == expected || nan(expected) && nan(found);
                assert!(
                    same,
                    "{text} at {level:?}: a {a:#x}, b {b:#x}, c {c:#x}: {found:#x}, and {expected:#x} is right"
                );
            }
        }
    }
}

/// For integers.
pub fn never(_: u64) -> bool {
    false
}

pub fn nan64(bits: u64) -> bool {
    f64::from_bits(bits).is_nan()
}
