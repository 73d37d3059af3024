//! Arithmetic of floats that is exact to the bit.

use super::{Forms, of_type};

const MODES: [&str; 4] = ["rn", "rz", "rm", "rp"];

pub(super) fn add(forms: &mut Forms) {
    singles(forms);
    doubles(forms);
    shorts(forms);
}

fn singles(forms: &mut Forms) {
    for mode in MODES {
        for flush in ["", ".ftz"] {
            for saturate in ["", ".sat"] {
                for name in ["add", "sub", "mul"] {
                    forms.add("FFF", format!("{name}.{mode}{flush}{saturate}.f32 %d, %a, %b"));
                }
                forms.add("FFFF", format!("fma.{mode}{flush}{saturate}.f32 %d, %a, %b, %c"));
            }
            forms.add("FFF", format!("div.{mode}{flush}.f32 %d, %a, %b"));
            forms.add("FF", format!("sqrt.{mode}{flush}.f32 %d, %a"));
            forms.add("FF", format!("rcp.{mode}{flush}.f32 %d, %a"));
        }
        forms.add("FFFF", format!("mad.{mode}.f32 %d, %a, %b, %c"));
    }
    for flush in ["", ".ftz"] {
        for nan in ["", ".NaN"] {
            for name in ["min", "max"] {
                forms.add("FFF", format!("{name}{flush}{nan}.f32 %d, %a, %b"));
            }
        }
        for name in ["abs", "neg"] {
            forms.add("fF", format!("{name}{flush}.f32 %d, %a"));
        }
    }
}

fn doubles(forms: &mut Forms) {
    for mode in MODES {
        for name in ["add", "sub", "mul", "div"] {
            forms.add("DDD", format!("{name}.{mode}.f64 %d, %a, %b"));
        }
        for name in ["fma", "mad"] {
            forms.add("DDDD", format!("{name}.{mode}.f64 %d, %a, %b, %c"));
        }
        for name in ["sqrt", "rcp"] {
            forms.add("DD", format!("{name}.{mode}.f64 %d, %a"));
        }
    }
    for name in ["min", "max"] {
        forms.add("DDD", format!("{name}.f64 %d, %a, %b"));
    }
    for name in ["abs", "neg"] {
        forms.add("DD", format!("{name}.f64 %d, %a"));
    }
}

fn shorts(forms: &mut Forms) {
    for of in ["f16", "f16x2", "bf16", "bf16x2"] {
        let letter = of_type(of);
        let (two, three) = (letter.repeat(3), letter.repeat(4));
        let has_flush = of.starts_with('f');
        let modes: &[&str] = if has_flush { &["", ".ftz", ".sat", ".ftz.sat"] } else { &[""] };
        for mode in modes {
            for name in ["add", "sub", "mul"] {
                forms.add(&two, format!("{name}.rn{mode}.{of} %d, %a, %b"));
            }
            forms.add(&three, format!("fma.rn{mode}.{of} %d, %a, %b, %c"));
        }
        forms.add(&three, format!("fma.rn.relu.{of} %d, %a, %b, %c"));
        let flushes: &[&str] = if has_flush { &["", ".ftz"] } else { &[""] };
        // The manual says of these that NaN of any kind may come of NaN.
        let any = match of {
            "f16" => "e",
            "bf16" => "g",
            "f16x2" => "v",
            _ => "x",
        };
        for flush in flushes {
            for nan in ["", ".NaN"] {
                for name in ["min", "max"] {
                    forms.add(&two, format!("{name}{flush}{nan}.{of} %d, %a, %b"));
                }
            }
            for name in ["abs", "neg"] {
                forms.add(&format!("{any}{letter}"), format!("{name}{flush}.{of} %d, %a"));
            }
        }
    }
}
