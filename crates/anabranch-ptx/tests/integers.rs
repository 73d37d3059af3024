//! Instructions for integers and bits, each against a model.

// The models read as the manual does: shifts after products.
#![allow(clippy::precedence)]

#[path = "common/instructions.rs"]
mod instructions;
#[path = "common/mod.rs"]
mod shared;
use shared::*;

use instructions::{check, never};

fn w(f: impl Fn(u32, u32, u32) -> u32) -> impl Fn(u64, u64, u64) -> u64 {
    move |a, b, c| f(a as u32, b as u32, c as u32).into()
}

fn s(f: impl Fn(i32, i32, i32) -> i32) -> impl Fn(u64, u64, u64) -> u64 {
    move |a, b, c| f(a as i32, b as i32, c as i32).cast_unsigned().into()
}

fn h(f: impl Fn(i16, i16, i16) -> i16) -> impl Fn(u64, u64, u64) -> u64 {
    move |a, b, c| f(a as i16, b as i16, c as i16).cast_unsigned().into()
}

#[test]
fn sums_and_products() {
    check("add.s32 %d, %a, %b;", "wwww", never, w(|a, b, _| a.wrapping_add(b)));
    check("add.sat.s32 %d, %a, %b;", "wwww", never, s(|a, b, _| a.saturating_add(b)));
    check("sub.sat.s32 %d, %a, %b;", "wwww", never, s(|a, b, _| a.saturating_sub(b)));
    check("sub.u16 %d, %a, %b;", "hhhh", never, h(|a, b, _| a.wrapping_sub(b)));
    check("add.u64 %d, %a, %b;", "llll", never, |a, b, _| a.wrapping_add(b));
    check("mul.lo.s32 %d, %a, %b;", "wwww", never, w(|a, b, _| a.wrapping_mul(b)));
    check("mul.hi.s32 %d, %a, %b;", "wwww", never, s(|a, b, _| (i64::from(a) * i64::from(b) >> 32) as i32));
    check("mul.hi.u64 %d, %a, %b;", "llll", never, |a, b, _| (u128::from(a) * u128::from(b) >> 64) as u64);
    check("mul.hi.s64 %d, %a, %b;", "llll", never, |a, b, _| {
        (i128::from(a as i64) * i128::from(b as i64) >> 64) as u64
    });
    check("mul.wide.s32 %d, %a, %b;", "lwww", never, |a, b, _| (i64::from(a as i32) * i64::from(b as i32)) as u64);
    check("mul.wide.u16 %d, %a, %b;", "whhh", never, |a, b, _| a * b);
    check("mad.lo.u16 %d, %a, %b, %c;", "hhhh", never, h(|a, b, c| a.wrapping_mul(b).wrapping_add(c)));
    check("mad.wide.u32 %d, %a, %b, %c;", "lwwl", never, |a, b, c| (a * b).wrapping_add(c));
    let high = |a: i32, b: i32| (i64::from(a) * i64::from(b) >> 32) as i32;
    check("mad.hi.sat.s32 %d, %a, %b, %c;", "wwww", never, s(move |a, b, c| high(a, b).saturating_add(c)));
    check("mul24.lo.s32 %d, %a, %b;", "wwww", never, s(|a, b, _| (a << 8 >> 8).wrapping_mul(b << 8 >> 8)));
    let high24 = |a: u32, b: u32| (u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff) >> 16) as u32;
    check("mad24.hi.u32 %d, %a, %b, %c;", "wwww", never, w(move |a, b, c| high24(a, b).wrapping_add(c)));
    check("sad.s32 %d, %a, %b, %c;", "wwww", never, s(|a, b, c| c.wrapping_add(a.abs_diff(b) as i32)));
    check("abs.s32 %d, %a;", "wwww", never, s(|a, _, _| a.wrapping_abs()));
    check("neg.s64 %d, %a;", "llll", never, |a, _, _| a.wrapping_neg());
    check("min.s16 %d, %a, %b;", "hhhh", never, h(|a, b, _| a.min(b)));
    check("max.u32 %d, %a, %b;", "wwww", never, w(|a, b, _| a.max(b)));
    check("max.relu.s32 %d, %a, %b;", "wwww", never, s(|a, b, _| a.max(b).max(0)));
    let both = |f: fn(i16, i16) -> i16| {
        move |a: u32, b: u32| {
            let half = |shift: u32| u32::from(f((a >> shift) as i16, (b >> shift) as i16).cast_unsigned()) << shift;
            half(0) | half(16)
        }
    };
    let least = both(i16::min);
    check("min.s16x2 %d, %a, %b;", "wwww", never, w(move |a, b, _| least(a, b)));
    let sum = both(i16::wrapping_add);
    check("add.u16x2 %d, %a, %b;", "wwww", never, w(move |a, b, _| sum(a, b)));
}

#[test]
fn quotients() {
    check("div.s32 %d, %a, %b;", "wwww", never, s(|a, b, _| if b == 0 { -1 } else { a.wrapping_div(b) }));
    check("div.u64 %d, %a, %b;", "llll", never, |a, b, _| a.checked_div(b).unwrap_or(u64::MAX));
    check("rem.u32 %d, %a, %b;", "wwww", never, w(|a, b, _| a.checked_rem(b).unwrap_or(a)));
    check("rem.s16 %d, %a, %b;", "hhhh", never, h(|a, b, _| if b == 0 { a } else { a.wrapping_rem(b) }));
}

#[test]
fn logic_and_shifts() {
    check("and.b32 %d, %a, %b;", "wwww", never, w(|a, b, _| a & b));
    check("or.b64 %d, %a, %b;", "llll", never, |a, b, _| a | b);
    check("xor.b16 %d, %a, %b;", "hhhh", never, |a, b, _| a ^ b);
    check("not.b32 %d, %a;", "wwww", never, w(|a, _, _| !a));
    check("cnot.b32 %d, %a;", "wwww", never, w(|a, _, _| u32::from(a == 0)));
    check("and.pred %d, %a, %b;", "pppp", never, |a, b, _| a & b);
    check("xor.pred %d, %a, !%b;", "pppp", never, |a, b, _| a ^ b ^ 1);
    check("or.pred %d, !%a, %b;", "pppp", never, |a, b, _| a ^ 1 | b);
    check("not.pred %d, %a;", "pppp", never, |a, _, _| a ^ 1);
    check("shl.b32 %d, %a, %b;", "wwww", never, w(|a, b, _| a.checked_shl(b).unwrap_or(0)));
    check("shr.u64 %d, %a, %b;", "llww", never, |a, b, _| a.checked_shr(b as u32).unwrap_or(0));
    check("shr.s32 %d, %a, %b;", "wwww", never, w(|a, b, _| (a as i32 >> b.min(31)) as u32));
    check("shr.s16 %d, %a, %b;", "hhww", never, |a, b, _| (a as i16 >> (b as u32).min(15)) as u64);
    let join = |a: u32, b: u32| u64::from(b) << 32 | u64::from(a);
    check("shf.l.wrap.b32 %d, %a, %b, %c;", "wwww", never, w(move |a, b, c| (join(a, b) << (c & 31) >> 32) as u32));
    check("shf.r.wrap.b32 %d, %a, %b, %c;", "wwww", never, w(move |a, b, c| (join(a, b) >> (c & 31)) as u32));
    check("shf.l.clamp.b32 %d, %a, %b, %c;", "wwww", never, w(move |a, b, c| (join(a, b) << c.min(32) >> 32) as u32));
    check("shf.r.clamp.b32 %d, %a, %b, %c;", "wwww", never, w(move |a, b, c| (join(a, b) >> c.min(32)) as u32));
    let table = |entry: u32| {
        move |a: u32, b: u32, c: u32| {
            (0..32).fold(0, |d, bit| {
                let index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | c >> bit & 1;
                d | (entry >> index & 1) << bit
            })
        }
    };
    check("lop3.b32 %d, %a, %b, %c, 0x96;", "wwww", never, w(table(0x96)));
    check("lop3.b32 %d, %a, %b, %c, 0x1b;", "wwww", never, w(table(0x1b)));
}

#[test]
fn fields_of_bits() {
    check("popc.b64 %d, %a;", "wlww", never, |a, _, _| a.count_ones().into());
    check("clz.b32 %d, %a;", "wwww", never, w(|a, _, _| a.leading_zeros()));
    check("brev.b64 %d, %a;", "llll", never, |a, _, _| a.reverse_bits());
    check("bfind.u32 %d, %a;", "wwww", never, w(|a, _, _| 31u32.wrapping_sub(a.leading_zeros())));
    check(
        "bfind.s32 %d, %a;",
        "wwww",
        never,
        w(|a, _, _| 31u32.wrapping_sub((if (a as i32) < 0 { !a } else { a }).leading_zeros())),
    );
    check("bfind.shiftamt.u64 %d, %a;", "wlww", never, |a, _, _| if a == 0 { !0 } else { a.leading_zeros().into() });
    // As the manual defines it, bit by bit; but of 64 bits, hardware takes all of the position and the length.
    let extract = |bits: u32, signed: bool| {
        move |a: u64, b: u64, c: u64| {
            let (position, length) = if bits == 64 { (b, c) } else { (b & 255, c & 255) };
            let last = u64::from(bits) - 1;
            let sign = if !signed || length == 0 { 0 } else { a >> (position + length - 1).min(last) & 1 };
            (0..u64::from(bits)).fold(0, |d, i| {
                let bit = if i < length && position + i <= last { a >> (position + i) & 1 } else { sign };
                d | bit << i
            })
        }
    };
    check("bfe.u32 %d, %a, %b, %c;", "wwww", never, extract(32, false));
    check("bfe.s32 %d, %a, %b, %c;", "wwww", never, extract(32, true));
    check("bfe.u64 %d, %a, %b, %c;", "llww", never, extract(64, false));
    check("bfe.s64 %d, %a, %b, %c;", "llww", never, extract(64, true));
    check("bfi.b32 %d, %a, %b, %c, 7;", "wwww", never, |a, b, c| {
        let position = c & 255;
        (0..7).filter(|i| position + i < 32).fold(b, |f, i| f & !(1 << (position + i)) | (a >> i & 1) << (position + i))
    });
    check("bfi.b64 %d, %a, %a, 5, %c;", "llww", never, |a, _, c| {
        (0..c.min(64)).filter(|i| 5 + i < 64).fold(a, |f, i| f & !(1 << (5 + i)) | (a >> i & 1) << (5 + i))
    });
    check("bmsk.clamp.b32 %d, %a, %b;", "wwww", never, |a, b, _| {
        (0..32u64).fold(0, |mask, i| mask | u64::from(i >= a && i - a < b) << i)
    });
    check(
        "szext.clamp.s32 %d, %a, %b;",
        "wwww",
        never,
        w(|a, b, _| match b {
            0 => 0,
            32.. => a,
            _ => ((a << (32 - b)) as i32 >> (32 - b)) as u32,
        }),
    );
    check(
        "fns.b32 %d, %a, 3, 2;",
        "wwww",
        never,
        w(|a, _, _| (3..32).filter(|bit| a >> bit & 1 != 0).nth(1).unwrap_or(!0)),
    );
    let permute = |a: u32, b: u32, control: u32| {
        let bytes: Vec<u32> = (0..8).map(|i| ((u64::from(b) << 32 | u64::from(a)) >> (8 * i)) as u32 & 255).collect();
        (0..4).fold(0, |d, i| {
            let selector = control >> (4 * i) & 15;
            let byte = bytes[(selector & 7) as usize];
            d | (if selector & 8 == 0 {
                byte
            } else if byte & 128 != 0 {
                255
            } else {
                0
            }) << (8 * i)
        })
    };
    check("prmt.b32 %d, %a, %b, %c;", "wwww", never, w(permute));
    check(
        "prmt.b32.f4e %d, %a, %b, %c;",
        "wwww",
        never,
        w(move |a, b, c| permute(a, b, [0x3210, 0x4321, 0x5432, 0x6543][(c & 3) as usize])),
    );
    check(
        "prmt.b32.b4e %d, %a, %b, %c;",
        "wwww",
        never,
        w(move |a, b, c| permute(a, b, [0x5670, 0x6701, 0x7012, 0x0123][(c & 3) as usize])),
    );
    check(
        "prmt.b32.rc16 %d, %a, %b, %c;",
        "wwww",
        never,
        w(move |a, b, c| permute(a, b, [0x1010, 0x3232][(c & 1) as usize])),
    );
}

#[test]
fn dot_products() {
    let bytes = |value: u32, signed: bool| -> [i32; 4] {
        std::array::from_fn(|i| if signed { (value >> (8 * i)) as i8 as i32 } else { (value >> (8 * i)) as u8 as i32 })
    };
    let dot = move |a: u32, b: u32, c: u32, sa: bool, sb: bool| {
        bytes(a, sa).iter().zip(bytes(b, sb)).fold(c, |sum, (a, b)| sum.wrapping_add((a * b) as u32))
    };
    check("dp4a.u32.u32 %d, %a, %b, %c;", "wwww", never, w(move |a, b, c| dot(a, b, c, false, false)));
    check("dp4a.s32.u32 %d, %a, %b, %c;", "wwww", never, w(move |a, b, c| dot(a, b, c, true, false)));
    check(
        "dp2a.hi.s32.s32 %d, %a, %b, %c;",
        "wwww",
        never,
        w(move |a, b, c| {
            let b = bytes(b, true);
            let low = (a as i16 as i32).wrapping_mul(b[2]);
            c.wrapping_add(low as u32).wrapping_add(((a >> 16) as i16 as i32).wrapping_mul(b[3]) as u32)
        }),
    );
}

#[test]
fn differences_of_parts() {
    let bytes = |a: u32, b: u32| a.to_le_bytes().into_iter().zip(b.to_le_bytes());
    let each = move |a, b| {
        u32::from_le_bytes(std::array::from_fn(|i| {
            let (a, b) = bytes(a, b).nth(i).unwrap();
            a.abs_diff(b)
        }))
    };
    check("vabsdiff4.u32.u32.u32 %d, %a, %b, %c;", "wwww", never, w(move |a, b, _| each(a, b)));
    let sum = move |a, b| bytes(a, b).map(|(a, b)| u32::from(a.abs_diff(b))).sum::<u32>();
    check("vabsdiff4.u32.u32.u32.add %d, %a, %b, %c;", "wwww", never, w(move |a, b, c| c.wrapping_add(sum(a, b))));
    let signed = move |a, b| bytes(a, b).map(|(a, b)| u32::from((a as i8).abs_diff(b as i8))).sum::<u32>();
    check("vabsdiff4.u32.s32.s32.add %d, %a, %b, %c;", "wwww", never, w(move |a, b, c| c.wrapping_add(signed(a, b))));
    let half = |a: u32, b: u32| u32::from((a as i16).abs_diff(b as i16).min(32767));
    check(
        "vabsdiff2.s32.s32.s32.sat %d, %a, %b, %c;",
        "wwww",
        never,
        w(move |a, b, _| half(a, b) | half(a >> 16, b >> 16) << 16),
    );
}

#[test]
fn sums_of_many_words_carry() {
    let text = "{ .reg .b32 %x<6>; mov.b64 {%x0, %x1}, %a; mov.b64 {%x2, %x3}, %b; add.cc.u32 %x4, %x0, %x2; \
                addc.u32 %x5, %x1, %x3; mov.b64 %d, {%x4, %x5}; }";
    check(text, "llll", never, |a, b, _| a.wrapping_add(b));
    let text = "{ .reg .b32 %x<6>; mov.b64 {%x0, %x1}, %a; mov.b64 {%x2, %x3}, %b; sub.cc.u32 %x4, %x0, %x2; \
                subc.u32 %x5, %x1, %x3; mov.b64 %d, {%x4, %x5}; }";
    check(text, "llll", never, |a, b, _| a.wrapping_sub(b));
    // As NVIDIA's compilers use it: 1 after a difference that borrowed nothing.
    check("{ .reg .b32 %x; sub.cc.u32 %x, %a, %b; addc.u32 %d, 0, 0; }", "wwww", never, |a, b, _| (a >= b).into());
    let text = "{ .reg .b32 %x; add.cc.u32 %x, %a, %b; subc.u32 %d, %c, 0; }";
    check(text, "wwww", never, w(|a, b, c| c.wrapping_sub(a.checked_add(b).is_some().into())));
    let text = "{ .reg .b32 %x<3>; mov.b64 {%x0, %x1}, %c; mad.lo.cc.u32 %x2, %a, %b, %x0; \
                madc.hi.u32 %x1, %a, %b, %x1; mov.b64 %d, {%x2, %x1}; }";
    check(text, "lwwl", never, |a, b, c| (a * b).wrapping_add(c));
}

#[test]
fn comparisons_and_choices() {
    check("setp.lt.s32 %d, %a, %b;", "pwww", never, |a, b, _| u64::from((a as i32) < b as i32));
    check("setp.hs.u64 %d, %a, %b;", "plll", never, |a, b, _| u64::from(a >= b));
    check("setp.ne.b16 %d, %a, %b;", "phhh", never, |a, b, _| u64::from(a != b));
    check("setp.gt.and.u32 %d, %a, %b, !%c;", "pwwp", never, |a, b, c| u64::from(a > b) & (c ^ 1));
    check("{ .reg .pred %q; setp.le.or.s16 %q|%d, %a, %b, %c; }", "phhp", never, |a, b, c| {
        u64::from(a as i16 > b as i16) | c
    });
    check("set.gt.u32.s32 %d, %a, %b;", "wwww", never, |a, b, _| if a as i32 > b as i32 { !0 } else { 0 });
    check("set.eq.f32.u32 %d, %a, %b;", "wwww", never, |a, b, _| if a == b { 1f32.to_bits().into() } else { 0 });
    check("selp.b64 %d, %a, %b, %c;", "lllp", never, |a, b, c| if c == 1 { a } else { b });
    check("selp.u16 %d, %a, 7, !%c;", "hhhp", never, |a, _, c| if c == 0 { a } else { 7 });
    check("slct.u64.s32 %d, %a, %b, %c;", "lllw", never, |a, b, c| if c as i32 >= 0 { a } else { b });
}

#[test]
fn integers_are_converted() {
    check("cvt.s64.s32 %d, %a;", "lwww", never, |a, _, _| a as i32 as u64);
    check("cvt.u64.u32 %d, %a;", "lwww", never, |a, _, _| a);
    check("cvt.u32.u64 %d, %a;", "wlww", never, |a, _, _| a);
    check("cvt.s8.s32 %d, %a;", "wwww", never, |a, _, _| a as i8 as u64);
    check("cvt.u8.s32 %d, %a;", "wwww", never, |a, _, _| a as u8 as u64);
    check("cvt.s32.s8 %d, %a;", "wwww", never, |a, _, _| a as i8 as u64);
    check("cvt.u16.u8 %d, %a;", "hhhh", never, |a, _, _| a as u8 as u64);
    check("cvt.sat.u8.s32 %d, %a;", "wwww", never, |a, _, _| (a as i32).clamp(0, 255) as u64);
    check("cvt.sat.s16.u64 %d, %a;", "hlll", never, |a, _, _| a.min(32767));
    check("cvt.sat.s32.s64 %d, %a;", "wlww", never, |a, _, _| {
        (a as i64).clamp(i32::MIN.into(), i32::MAX.into()) as u64
    });
    check("cvt.pack.sat.s8.s32.b32 %d, %a, %b, %c;", "wwww", never, |a, b, c| {
        let byte = |value: u64| u64::from((value as i32).clamp(-128, 127) as u8);
        c << 16 | byte(a) << 8 | byte(b)
    });
    check("mov.b32 %d, {%a, %b};", "whhh", never, |a, b, _| b << 16 | a);
    check(
        "{ .reg .b16 %x<4>; mov.b64 {%x0, %x1, %x2, %x3}, %a; mov.b64 %d, {%x3, %x2, %x1, %x0}; }",
        "llll",
        never,
        |a, _, _| (a & 0xffff) << 48 | (a >> 16 & 0xffff) << 32 | (a >> 32 & 0xffff) << 16 | a >> 48,
    );
}
