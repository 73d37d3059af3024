//! Conversions.

use super::{Forms, of_type};

const INTEGERS: [&str; 8] = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];
const MODES: [&str; 4] = ["rn", "rz", "rm", "rp"];

pub(super) fn add(forms: &mut Forms) {
    integers(forms);
    to_and_from_integers(forms);
    floats(forms);
    packed(forms);
    moves(forms);
}

fn integers(forms: &mut Forms) {
    for to in INTEGERS {
        for from in INTEGERS {
            let letters = format!("{}{}", of_type(to), of_type(from));
            forms.add(&letters, format!("cvt.{to}.{from} %d, %a"));
            if can_saturate(to, from) {
                forms.add(&letters, format!("cvt.sat.{to}.{from} %d, %a"));
            }
        }
        // Registers that are larger than the types.
        forms.add("ll", format!("cvt.{to}.u8 %d, %a"));
        forms.add("ll", format!("cvt.{to}.s16 %d, %a"));
        forms.add("lw", format!("cvt.{to}.s8 %d, %a"));
    }
}

/// Whether there are values of the one type that the other has not.
fn can_saturate(to: &str, from: &str) -> bool {
    let bits = |name: &str| name[1..].parse::<u32>().unwrap_or_default();
    let signed = |name: &str| name.starts_with('s');
    match (signed(to), signed(from)) {
        (true, false) => bits(to) <= bits(from),
        (false, true) => true,
        _ => bits(to) < bits(from),
    }
}

fn to_and_from_integers(forms: &mut Forms) {
    for float in ["f16", "f32", "f64", "bf16"] {
        for (index, integer) in INTEGERS.into_iter().enumerate() {
            let letter = of_type(integer);
            // There are no conversions between these.
            if float == "bf16" && matches!(integer, "u8" | "s8") {
                continue;
            }
            let (to, from) = (format!("{}{letter}", of_type(float)), format!("{letter}{}", of_type(float)));
            for (other, mode) in MODES.into_iter().enumerate() {
                forms.add(&to, format!("cvt.{mode}.{float}.{integer} %d, %a"));
                forms.add(&from, format!("cvt.{mode}i.{integer}.{float} %d, %a"));
                if float != "bf16" && other == index % 4 {
                    forms.add(&from, format!("cvt.{mode}i.sat.{integer}.{float} %d, %a"));
                    forms.add(&to, format!("cvt.{mode}.sat.{float}.{integer} %d, %a"));
                }
                if float == "f32" && other == (index + 1) % 4 {
                    forms.add(&from, format!("cvt.{mode}i.ftz.{integer}.{float} %d, %a"));
                }
            }
        }
    }
}

fn floats(forms: &mut Forms) {
    for mode in MODES {
        for (to, from) in [("f32", "f64"), ("f16", "f64"), ("f16", "f32")] {
            let letters = format!("{}{}", of_type(to), of_type(from));
            forms.add(&letters, format!("cvt.{mode}.{to}.{from} %d, %a"));
            forms.add(&letters, format!("cvt.{mode}.sat.{to}.{from} %d, %a"));
        }
        forms.add("FD", format!("cvt.{mode}.ftz.f32.f64 %d, %a"));
        forms.add("HF", format!("cvt.{mode}.ftz.f16.f32 %d, %a"));
        forms.add("FF", format!("cvt.{mode}i.f32.f32 %d, %a"));
        forms.add("FF", format!("cvt.{mode}i.ftz.f32.f32 %d, %a"));
        forms.add("FF", format!("cvt.{mode}i.sat.f32.f32 %d, %a"));
        forms.add("DD", format!("cvt.{mode}i.f64.f64 %d, %a"));
        forms.add("eH", format!("cvt.{mode}i.f16.f16 %d, %a"));
        forms.add("gB", format!("cvt.{mode}i.bf16.bf16 %d, %a"));
        forms.add("BD", format!("cvt.{mode}.bf16.f64 %d, %a"));
        forms.add("BH", format!("cvt.{mode}.bf16.f16 %d, %a"));
        forms.add("HB", format!("cvt.{mode}.f16.bf16 %d, %a"));
    }
    for (to, from) in [("f32", "f16"), ("f64", "f16"), ("f64", "f32"), ("f32", "bf16"), ("f64", "bf16")] {
        forms.add(&format!("{}{}", of_type(to), of_type(from)), format!("cvt.{to}.{from} %d, %a"));
    }
    for text in ["cvt.sat.f32.f16", "cvt.ftz.f32.f16", "cvt.ftz.sat.f32.f16"] {
        forms.add("FH", format!("{text} %d, %a"));
    }
    forms.add("DF", "cvt.ftz.f64.f32 %d, %a");
    forms.add("DF", "cvt.sat.f64.f32 %d, %a");
    forms.add("FF", "cvt.ftz.f32.f32 %d, %a");
    forms.add("FF", "cvt.sat.f32.f32 %d, %a");
    forms.add("FF", "cvt.ftz.sat.f32.f32 %d, %a");
    forms.add("DD", "cvt.sat.f64.f64 %d, %a");
    for mode in ["rn", "rz"] {
        for relu in ["", ".relu"] {
            forms.add("BF", format!("cvt.{mode}{relu}.bf16.f32 %d, %a"));
            forms.add("HF", format!("cvt.{mode}{relu}.f16.f32 %d, %a"));
            forms.add("VFF", format!("cvt.{mode}{relu}.f16x2.f32 %d, %a, %b"));
            forms.add("XFF", format!("cvt.{mode}{relu}.bf16x2.f32 %d, %a, %b"));
        }
        forms.add("fF", format!("cvt.{mode}.tf32.f32 %d, %a"));
    }
    forms.add("fF", "cvt.rna.tf32.f32 %d, %a");
}

fn packed(forms: &mut Forms) {
    for to in ["u16", "s16"] {
        forms.add("www", format!("cvt.pack.sat.{to}.s32 %d, %a, %b"));
    }
    for to in ["u8", "s8", "u4", "s4", "u2", "s2"] {
        forms.add("wwww", format!("cvt.pack.sat.{to}.s32.b32 %d, %a, %b, %c"));
    }
}

fn moves(forms: &mut Forms) {
    forms.add("lww", "mov.b64 %d, {%a, %b}");
    forms.add("whh", "mov.b32 %d, {%a, %b}");
    forms.add("lhhh", "mov.b64 %d, {%a, %b, %c, %a}");
    forms.add("wl", "mov.b64 {%x, %y}, %a; sub.u32 %d, %y, %x");
    forms.add("hw", "mov.b32 {%i, %j}, %a; sub.u16 %d, %j, %i");
    forms.add("hl", "mov.b64 {%i, _, _, %j}, %a; sub.u16 %d, %j, %i");
}
