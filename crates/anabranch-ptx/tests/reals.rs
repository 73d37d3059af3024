//! Instructions for floats, each against a model: of the processor where it rounds to the nearest, and elsewhere against
//! what the rounding mode means.

// The models read as the manual does: shifts after products.
#![allow(clippy::precedence)]

#[path = "common/instructions.rs"]
mod instructions;
#[path = "common/mod.rs"]
mod shared;
use shared::*;

use instructions::{check, nan64, never};

/// The NaN of hardware.
fn canonical(value: f32) -> u64 {
    if value.is_nan() { 0x7fff_ffff } else { value.to_bits().into() }
}

fn single(f: impl Fn(f32, f32, f32) -> f32) -> impl Fn(u64, u64, u64) -> u64 {
    move |a, b, c| canonical(f(f32::from_bits(a as u32), f32::from_bits(b as u32), f32::from_bits(c as u32)))
}

fn double(f: impl Fn(f64, f64, f64) -> f64) -> impl Fn(u64, u64, u64) -> u64 {
    move |a, b, c| f(f64::from_bits(a), f64::from_bits(b), f64::from_bits(c)).to_bits()
}

fn flush(value: f32) -> f32 {
    if value.is_subnormal() { 0f32.copysign(value) } else { value }
}

#[test]
fn to_the_nearest() {
    check("add.f32 %d, %a, %b;", "wwww", never, single(|a, b, _| a + b));
    check("sub.rn.f32 %d, %a, %b;", "wwww", never, single(|a, b, _| a - b));
    check("mul.f32 %d, %a, %b;", "wwww", never, single(|a, b, _| a * b));
    check("div.rn.f32 %d, %a, %b;", "wwww", never, single(|a, b, _| a / b));
    check("fma.rn.f32 %d, %a, %b, %c;", "wwww", never, single(f32::mul_add));
    check("sqrt.rn.f32 %d, %a;", "wwww", never, single(|a, _, _| a.sqrt()));
    check("rcp.rn.f32 %d, %a;", "wwww", never, single(|a, _, _| 1.0 / a));
    check("add.f64 %d, %a, %b;", "llll", nan64, double(|a, b, _| a + b));
    check("mul.rn.f64 %d, %a, %b;", "llll", nan64, double(|a, b, _| a * b));
    check("div.rn.f64 %d, %a, %b;", "llll", nan64, double(|a, b, _| a / b));
    check("fma.rn.f64 %d, %a, %b, %c;", "llll", nan64, double(f64::mul_add));
    check("sqrt.rn.f64 %d, %a;", "llll", nan64, double(|a, _, _| a.sqrt()));
}

#[test]
fn flushed_and_saturated() {
    check("add.ftz.f32 %d, %a, %b;", "wwww", never, single(|a, b, _| flush(flush(a) + flush(b))));
    check(
        "mul.ftz.sat.f32 %d, %a, %b;",
        "wwww",
        never,
        single(|a, b, _| {
            let product = flush(flush(a) * flush(b));
            if product > 0.0 { product.min(1.0) } else { 0.0 }
        }),
    );
    check(
        "fma.rn.sat.f32 %d, %a, %b, %c;",
        "wwww",
        never,
        single(|a, b, c| {
            let value = a.mul_add(b, c);
            if value > 0.0 { value.min(1.0) } else { 0.0 }
        }),
    );
}

#[test]
fn least_and_most() {
    check(
        "min.f32 %d, %a, %b;",
        "wwww",
        never,
        single(|a, b, _| match (a.is_nan(), b.is_nan()) {
            (true, _) => b,
            (_, true) => a,
            _ if a == 0.0 && b == 0.0 => {
                if a.is_sign_negative() {
                    a
                } else {
                    b
                }
            }
            _ => a.min(b),
        }),
    );
    check(
        "max.NaN.f32 %d, %a, %b;",
        "wwww",
        never,
        single(|a, b, _| match (a.is_nan(), b.is_nan()) {
            (true, _) | (_, true) => f32::NAN,
            _ if a == 0.0 && b == 0.0 => {
                if a.is_sign_negative() {
                    b
                } else {
                    a
                }
            }
            _ => a.max(b),
        }),
    );
    check("abs.f32 %d, %a;", "wwww", never, |a, _, _| a & 0x7fff_ffff);
    check("neg.f64 %d, %a;", "llll", never, |a, _, _| a ^ 1 << 63);
    check("copysign.f32 %d, %a, %b;", "wwww", never, |a, b, _| a & 1 << 31 | b & 0x7fff_ffff);
}

/// The neighbours of the exact result of `f64` arithmetic, where that is exact enough: products of singles are.
fn directed(value: f64, up: bool) -> f32 {
    let near = value as f32;
    let off = if up { f64::from(near) < value } else { f64::from(near) > value };
    if !off || value.is_nan() {
        return near;
    }
    if up { near.next_up() } else { near.next_down() }
}

#[test]
fn rounded_in_each_direction() {
    let product = |a: f32, b: f32| f64::from(a) * f64::from(b);
    check("mul.rp.f32 %d, %a, %b;", "wwww", never, single(move |a, b, _| directed(product(a, b), true)));
    check("mul.rm.f32 %d, %a, %b;", "wwww", never, single(move |a, b, _| directed(product(a, b), false)));
    check(
        "mul.rz.f32 %d, %a, %b;",
        "wwww",
        never,
        single(move |a, b, _| {
            let exact = product(a, b);
            directed(exact, exact < 0.0)
        }),
    );
}

#[test]
fn comparisons_know_nan() {
    let f = |a: u64| f32::from_bits(a as u32);
    check("setp.lt.f32 %d, %a, %b;", "pwww", never, move |a, b, _| u64::from(f(a) < f(b)));
    check("setp.ne.f32 %d, %a, %b;", "pwww", never, move |a, b, _| u64::from(f(a) < f(b) || f(a) > f(b)));
    check("setp.neu.f32 %d, %a, %b;", "pwww", never, move |a, b, _| u64::from(f(a) != f(b)));
    check("setp.geu.f32 %d, %a, %b;", "pwww", never, move |a, b, _| {
        u64::from(f(a) >= f(b) || f(a).is_nan() || f(b).is_nan())
    });
    check("setp.num.f64 %d, %a, %b;", "plll", never, |a, b, _| u64::from(!nan64(a) && !nan64(b)));
    check("setp.nan.f32 %d, %a, %a;", "pwww", never, move |a, _, _| u64::from(f(a).is_nan()));
    check("testp.subnormal.f32 %d, %a;", "pwww", never, move |a, _, _| u64::from(f(a).is_subnormal()));
    // Zero is a normal number to hardware.
    check("testp.normal.f64 %d, %a;", "plll", never, |a, _, _| {
        let value = f64::from_bits(a);
        u64::from(value.is_normal() || value == 0.0)
    });
    check("testp.infinite.f32 %d, %a;", "pwww", never, move |a, _, _| u64::from(f(a).is_infinite()));
}

/// The NaN of fewer bits that hardware makes of one of 64 bits: what there is room for, and quiet.
fn short_nan(bits: u64, exponent: u32, fraction: u32) -> u64 {
    let sign = bits >> 63 << (exponent + fraction);
    sign | ((1 << exponent) - 1) << fraction | 1 << (fraction - 1) | (bits & ((1 << 52) - 1)) >> (52 - fraction)
}

#[test]
fn floats_are_converted() {
    let f = |a: u64| f32::from_bits(a as u32);
    check("cvt.rn.f32.s32 %d, %a;", "wwww", never, |a, _, _| (a as i32 as f32).to_bits().into());
    check("cvt.rn.f32.u64 %d, %a;", "wlww", never, |a, _, _| (a as f32).to_bits().into());
    check("cvt.rn.f64.s64 %d, %a;", "llll", never, |a, _, _| (a as i64 as f64).to_bits());
    check("cvt.rn.f32.s16 %d, %a;", "whhh", never, |a, _, _| f32::from(a as i16).to_bits().into());
    check("cvt.rz.f32.u32 %d, %a;", "wwww", never, |a, _, _| {
        let near = a as u32 as f32;
        let over = f64::from(near) > a as u32 as f64;
        u64::from(if over { near.next_down() } else { near }.to_bits())
    });
    check("cvt.rzi.s32.f32 %d, %a;", "wwww", never, move |a, _, _| u64::from((f(a) as i32).cast_unsigned()));
    check("cvt.rni.u32.f32 %d, %a;", "wwww", never, move |a, _, _| u64::from(f(a).round_ties_even() as u32));
    check("cvt.rmi.s64.f64 %d, %a;", "llll", never, |a, _, _| {
        let value = f64::from_bits(a);
        if value.is_nan() { 1 << 63 } else { (value.floor() as i64).cast_unsigned() }
    });
    check("cvt.rpi.s8.f32 %d, %a;", "wwww", never, move |a, _, _| i64::from(f(a).ceil() as i8).cast_unsigned());
    check("cvt.f64.f32 %d, %a;", "lwww", nan64, move |a, _, _| f64::from(f(a)).to_bits());
    let nan_or =
        |a: u64, rounded: f32| if f64::from_bits(a).is_nan() { short_nan(a, 8, 23) } else { rounded.to_bits().into() };
    check("cvt.rn.f32.f64 %d, %a;", "wlww", never, move |a, _, _| nan_or(a, f64::from_bits(a) as f32));
    check("cvt.rm.f32.f64 %d, %a;", "wlww", never, move |a, _, _| nan_or(a, directed(f64::from_bits(a), false)));
    check(
        "cvt.rpi.f32.f32 %d, %a;",
        "wwww",
        |bits| f32::from_bits(bits as u32).is_nan(),
        move |a, _, _| f(a).ceil().to_bits().into(),
    );
    check("cvt.sat.f32.f32 %d, %a;", "wwww", never, move |a, _, _| {
        u64::from(if f(a) > 0.0 { f(a).min(1.0) } else { 0.0 }.to_bits())
    });
}

/// `f16` to `f32`, as the format is defined.
fn wide(bits: u64) -> f64 {
    let (sign, exponent, fraction) = (bits >> 15 & 1, bits >> 10 & 31, (bits & 1023) as f64);
    let magnitude = match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent as i32 - 25),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

/// The nearest number of 16 bits, by trying the candidates around it; of two, the even one.
fn narrow(value: f64) -> u64 {
    if value.is_nan() {
        return 0x7fff;
    }
    let sign = u64::from(value.is_sign_negative()) << 15;
    let magnitude = value.abs();
    // What is 65520 or more is nearer to what would come after the largest number.
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    let (mut low, mut high) = (0u64, 0x7bff);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if wide(middle) <= magnitude { low = middle } else { high = middle - 1 }
    }
    let above = if low == 0x7bff { 65536.0 } else { wide(low + 1) };
    let (below, above) = (magnitude - wide(low), above - magnitude);
    sign | if below < above || below == above && low % 2 == 0 { low } else { low + 1 }
}

#[test]
fn packed_comparisons_read_the_predicate_that_they_write() {
    let half = |bits: u64, high: bool| wide(if high { bits >> 16 } else { bits } & 0xffff);
    let expected = move |a, b, high, p: u64| u64::from(half(a, high) < half(b, high)) & p;
    // The predicate that the results are combined with is the first one, the second one, or neither.
    let kernel = |low: &str, high: &str, result: &str| {
        format!(
            "{{ .reg .pred %q, %z; mov.pred %q, %c; mov.pred %z, %c; setp.lt.and.f16x2 {low}|{high}, %a, %b, %q; mov.pred %d, {result}; }}"
        )
    };
    for (low, high, result, of_high) in
        [("%q", "%z", "%q", false), ("%q", "%z", "%z", true), ("%z", "%q", "%z", false), ("%z", "%q", "%q", true)]
    {
        check(&kernel(low, high, result), "pwwp", never, move |a, b, p| expected(a, b, of_high, p));
    }
    for (low, high, result, of_high) in [("%z", "_", "%z", false), ("_", "%z", "%z", true)] {
        check(&kernel(low, high, result), "pwwp", never, move |a, b, p| expected(a, b, of_high, p));
    }
    // The same with `!%q`, where it is a result.
    let text = "{ .reg .pred %q, %z; mov.pred %q, %c; setp.lt.xor.f16x2 %q|%z, %a, %b, !%q; mov.pred %d, %z; }";
    check(text, "pwwp", never, move |a, b, p| u64::from(half(a, true) < half(b, true)) ^ p ^ 1);
    let text = "{ .reg .pred %q, %z; mov.pred %z, %c; setp.lt.or.s32 %z|%q, %a, %b, %z; mov.pred %d, %q; }";
    check(text, "pwwp", never, |a, b, p| u64::from((a as i32) >= (b as i32)) | p);
}

#[test]
fn short_floats() {
    check(
        "cvt.f32.f16 %d, %a;",
        "whhh",
        |bits| f32::from_bits(bits as u32).is_nan(),
        |a, _, _| u64::from((wide(a) as f32).to_bits()),
    );
    check("cvt.rn.f16.f32 %d, %a;", "hwww", never, |a, _, _| narrow(f32::from_bits(a as u32).into()));
    check("cvt.rn.f16.f64 %d, %a;", "hlll", never, |a, _, _| {
        if f64::from_bits(a).is_nan() { short_nan(a, 5, 10) } else { narrow(f64::from_bits(a)) }
    });
    check("add.f16 %d, %a, %b;", "hhhh", never, |a, b, _| narrow(wide(a) + wide(b)));
    check("mul.rn.f16 %d, %a, %b;", "hhhh", never, |a, b, _| narrow(wide(a) * wide(b)));
    check("neg.f16 %d, %a;", "hhhh", never, |a, _, _| a ^ 0x8000);
    check("setp.gtu.f16 %d, %a, %b;", "phhh", never, |a, b, _| {
        u64::from(wide(a) > wide(b) || wide(a).is_nan() || wide(b).is_nan())
    });
    let halves = |f: fn(f64, f64) -> f64| {
        move |a: u64, b: u64, _: u64| {
            let half = |shift: u64| narrow(f(wide(a >> shift & 0xffff), wide(b >> shift & 0xffff))) << shift;
            half(0) | half(16)
        }
    };
    check("add.rn.f16x2 %d, %a, %b;", "wwww", never, halves(|a, b| a + b));
    check("sub.f16x2 %d, %a, %b;", "wwww", never, halves(|a, b| a - b));
    check("set.lt.u32.f16x2 %d, %a, %b;", "wwww", never, |a, b, _| {
        let half = |shift: u64| if wide(a >> shift & 0xffff) < wide(b >> shift & 0xffff) { 0xffff << shift } else { 0 };
        half(0) | half(16)
    });
    check("cvt.rn.f16x2.f32 %d, %a, %b;", "wwww", never, |a, b, _| {
        narrow(f32::from_bits(a as u32).into()) << 16 | narrow(f32::from_bits(b as u32).into())
    });
    check("cvt.rzi.s32.f16 %d, %a;", "whhh", never, |a, _, _| u64::from((wide(a) as i32).cast_unsigned()));
    let brain = |a: u64| f32::from_bits((a as u32) << 16);
    check("fma.rn.bf16 %d, %a, %b, %c;", "hhhh", never, move |a, b, c| {
        // Exact in `f64` unless the addends are far apart, and then the small one only decides ties.
        let exact = f64::from(brain(a)).mul_add(brain(b).into(), brain(c).into());
        let near = exact as f32;
        if near.is_nan() {
            return 0x7fff;
        }
        let bits = u64::from(near.to_bits());
        let tie = bits & 0xffff == 0x8000;
        let up = if tie && f64::from(near) != exact {
            f64::from(near).abs() < exact.abs()
        } else {
            bits & 0xffff > 0x8000 || tie && bits >> 16 & 1 == 1
        };
        (bits >> 16) + u64::from(up)
    });
}
