//! Comparisons and selections.

use super::{Forms, of_bits, of_type};

const ORDERED: [&str; 6] = ["eq", "ne", "lt", "le", "gt", "ge"];
const UNORDERED: [&str; 8] = ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"];
const BOTH: &str = "selp.b32 %x, 1, 0, %q; selp.b32 %d, 2, 0, %z; or.b32 %d, %d, %x";

pub(super) fn add(forms: &mut Forms) {
    for of in ["u16", "s16", "u32", "s32", "u64", "s64"] {
        for operator in ORDERED {
            forms.add(&format!("p{}", of_type(of).repeat(2)), format!("setp.{operator}.{of} %d, %a, %b"));
        }
    }
    for operator in ["lo", "ls", "hi", "hs"] {
        for of in ["u16", "u32", "u64"] {
            forms.add(&format!("p{}", of_type(of).repeat(2)), format!("setp.{operator}.{of} %d, %a, %b"));
        }
    }
    for size in ["16", "32", "64"] {
        for operator in ["eq", "ne"] {
            forms.add(&format!("p{}", of_bits(size).repeat(2)), format!("setp.{operator}.b{size} %d, %a, %b"));
        }
        forms.add(&format!("{}p", of_bits(size).repeat(3)), format!("selp.b{size} %d, %a, %b, %c"));
        forms.add(&format!("{}w", of_bits(size).repeat(3)), format!("slct.b{size}.s32 %d, %a, %b, %c"));
        forms.add(&format!("{}F", of_bits(size).repeat(3)), format!("slct.b{size}.f32 %d, %a, %b, %c"));
        forms.add(&format!("{}F", of_bits(size).repeat(3)), format!("slct.ftz.b{size}.f32 %d, %a, %b, %c"));
    }
    for of in ["f16", "bf16", "f32", "f64"] {
        for operator in ORDERED.into_iter().chain(UNORDERED) {
            let letters = format!("p{}", of_type(of).repeat(2));
            forms.add(&letters, format!("setp.{operator}.{of} %d, %a, %b"));
            if matches!(of, "f16" | "f32") {
                forms.add(&letters, format!("setp.{operator}.ftz.{of} %d, %a, %b"));
            }
        }
    }
    for of in ["f16x2", "bf16x2"] {
        for operator in ["lt", "ne", "geu", "nan", "num", "equ"] {
            forms.add(&format!("w{}", of_type(of).repeat(2)), format!("setp.{operator}.{of} %q|%z, %a, %b; {BOTH}"));
        }
    }
    for combination in ["and", "or", "xor"] {
        for (of, operator) in [("s32", "lt"), ("u64", "ge"), ("f32", "leu"), ("f64", "eq"), ("f16", "gt")] {
            let operands = of_type(of).repeat(2);
            if of == "f16" {
                forms.add(&format!("p{operands}p"), format!("setp.{operator}.{combination}.{of} %d, %a, %b, !%c"));
                continue;
            }
            let letters = format!("w{operands}p");
            forms.add(&letters, format!("setp.{operator}.{combination}.{of} %q|%z, %a, %b, %c; {BOTH}"));
            forms.add(&letters, format!("setp.{operator}.{combination}.{of} %q|%z, %a, %b, !%c; {BOTH}"));
        }
    }
    sets(forms);
    for of in ["f32", "f64"] {
        for test in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"] {
            forms.add(&format!("p{}", of_type(of)), format!("testp.{test}.{of} %d, %a"));
        }
    }
    forms.add("fFF", "copysign.f32 %d, %a, %b");
    forms.add("DDD", "copysign.f64 %d, %a, %b");
}

fn sets(forms: &mut Forms) {
    for (of, operator) in [
        ("s32", "gt"),
        ("u32", "lo"),
        ("s16", "le"),
        ("u64", "hs"),
        ("b32", "eq"),
        ("f32", "ltu"),
        ("f32", "ge"),
        ("f64", "ne"),
        ("f64", "num"),
    ] {
        for to in ["u32", "s32", "f32"] {
            let operands = of_type(of).repeat(2);
            forms.add(&format!("w{operands}"), format!("set.{operator}.{to}.{of} %d, %a, %b"));
            forms.add(&format!("w{operands}p"), format!("set.{operator}.xor.{to}.{of} %d, %a, %b, %c"));
            if of == "f32" {
                forms.add(&format!("w{operands}"), format!("set.{operator}.ftz.{to}.{of} %d, %a, %b"));
            }
        }
    }
    for (of, result) in [("f16", "H"), ("bf16", "B")] {
        for operator in ["lt", "geu", "nan"] {
            let operands = of_type(of).repeat(2);
            forms.add(&format!("{result}{operands}"), format!("set.{operator}.{of}.{of} %d, %a, %b"));
            for to in ["u32", "s32"] {
                forms.add(&format!("w{operands}"), format!("set.{operator}.{to}.{of} %d, %a, %b"));
            }
            for to in ["u16", "s16"] {
                forms.add(&format!("h{operands}"), format!("set.{operator}.{to}.{of} %d, %a, %b"));
            }
            let pair = format!("{of}x2");
            let operands = of_type(&pair).repeat(2);
            forms.add(&format!("w{operands}"), format!("set.{operator}.{pair}.{pair} %d, %a, %b"));
            forms.add(&format!("w{operands}"), format!("set.{operator}.u32.{pair} %d, %a, %b"));
        }
    }
}
