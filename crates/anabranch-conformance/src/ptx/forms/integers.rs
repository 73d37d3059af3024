//! Integers and bits.

use super::{Forms, of_bits, of_type};

const TYPES: [&str; 6] = ["u16", "s16", "u32", "s32", "u64", "s64"];
const SIZES: [&str; 3] = ["16", "32", "64"];

pub(super) fn add(forms: &mut Forms) {
    arithmetic(forms);
    products(forms);
    bits(forms);
    shifts(forms);
    carries(forms);
    packed(forms);
}

fn arithmetic(forms: &mut Forms) {
    for of in TYPES {
        let letter = of_type(of);
        let (two, three) = (letter.repeat(3), letter.repeat(4));
        for name in ["add", "sub", "min", "max"] {
            forms.add(&two, format!("{name}.{of} %d, %a, %b"));
        }
        forms.add(&three, format!("sad.{of} %d, %a, %b, %c"));
        // A quotient by zero may be anything.
        let bits = &of[1..];
        for name in ["div", "rem"] {
            forms.add(&two, format!("setp.eq.b{bits} %q, %b, 0; @%q mov.b{bits} %b, 3; {name}.{of} %d, %a, %b"));
        }
        if of.starts_with('s') {
            for name in ["abs", "neg"] {
                forms.add(&letter.repeat(2), format!("{name}.{of} %d, %a"));
            }
        }
    }
    for text in ["add.sat.s32", "sub.sat.s32", "min.relu.s32", "max.relu.s32"] {
        forms.add("www", format!("{text} %d, %a, %b"));
    }
}

fn products(forms: &mut Forms) {
    for of in TYPES {
        let letter = of_type(of);
        for part in ["lo", "hi"] {
            forms.add(&letter.repeat(3), format!("mul.{part}.{of} %d, %a, %b"));
            forms.add(&letter.repeat(4), format!("mad.{part}.{of} %d, %a, %b, %c"));
        }
    }
    for (of, letters) in [("u16", "whhw"), ("s16", "whhw"), ("u32", "lwwl"), ("s32", "lwwl")] {
        forms.add(&letters[..3], format!("mul.wide.{of} %d, %a, %b"));
        forms.add(letters, format!("mad.wide.{of} %d, %a, %b, %c"));
    }
    forms.add("wwww", "mad.hi.sat.s32 %d, %a, %b, %c");
    forms.add("wwww", "mad24.hi.sat.s32 %d, %a, %b, %c");
    for of in ["u32", "s32"] {
        for part in ["lo", "hi"] {
            forms.add("www", format!("mul24.{part}.{of} %d, %a, %b"));
            forms.add("wwww", format!("mad24.{part}.{of} %d, %a, %b, %c"));
        }
        for other in ["u32", "s32"] {
            forms.add("wwww", format!("dp4a.{of}.{other} %d, %a, %b, %c"));
            forms.add("wwww", format!("dp2a.lo.{of}.{other} %d, %a, %b, %c"));
            forms.add("wwww", format!("dp2a.hi.{of}.{other} %d, %a, %b, %c"));
        }
    }
}

fn bits(forms: &mut Forms) {
    for size in SIZES {
        let letter = of_bits(size);
        for name in ["and", "or", "xor"] {
            forms.add(&letter.repeat(3), format!("{name}.b{size} %d, %a, %b"));
        }
        for name in ["not", "cnot"] {
            forms.add(&letter.repeat(2), format!("{name}.b{size} %d, %a"));
        }
    }
    for name in ["and", "or", "xor"] {
        forms.add("ppp", format!("{name}.pred %d, %a, %b"));
    }
    forms.add("pp", "not.pred %d, %a");
    for table in [0x00, 0x1b, 0x40, 0x78, 0x96, 0xca, 0xe8, 0xff] {
        forms.add("wwww", format!("lop3.b32 %d, %a, %b, %c, {table}"));
    }
    for size in ["32", "64"] {
        let letter = of_bits(size);
        for name in ["popc", "clz"] {
            forms.add(&format!("w{letter}"), format!("{name}.b{size} %d, %a"));
        }
        forms.add(&letter.repeat(2), format!("brev.b{size} %d, %a"));
        for sign in ["u", "s"] {
            forms.add(&format!("w{letter}"), format!("bfind.{sign}{size} %d, %a"));
            forms.add(&format!("w{letter}"), format!("bfind.shiftamt.{sign}{size} %d, %a"));
            forms.add(&format!("{letter}{letter}ss"), format!("bfe.{sign}{size} %d, %a, %b, %c"));
        }
        forms.add(
            &format!("{letter}{letter}{letter}s"),
            format!("shr.u32 %x, %c, 8; and.b32 %y, %c, 127; bfi.b{size} %d, %a, %b, %y, %x"),
        );
        forms.add(&format!("{letter}{letter}{letter}s"), format!("bfi.b{size} %d, %a, %b, %c, 9"));
        forms.add(&format!("{letter}{letter}{letter}s"), format!("bfi.b{size} %d, %a, %b, 5, %c"));
    }
    forms.add("wwww", "and.b32 %x, %b, 31; and.b32 %y, %c, 63; sub.s32 %y, %y, 32; fns.b32 %d, %a, %x, %y");
    for mode in ["clamp", "wrap"] {
        forms.add("wss", format!("bmsk.{mode}.b32 %d, %a, %b"));
        forms.add("wws", format!("szext.{mode}.u32 %d, %a, %b"));
        forms.add("wws", format!("szext.{mode}.s32 %d, %a, %b"));
    }
    for mode in ["", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"] {
        forms.add("wwww", format!("prmt.b32{mode} %d, %a, %b, %c"));
    }
}

fn shifts(forms: &mut Forms) {
    for size in SIZES {
        let letter = of_bits(size);
        forms.add(&format!("{letter}{letter}s"), format!("shl.b{size} %d, %a, %b"));
        for of in ["b", "u", "s"] {
            forms.add(&format!("{letter}{letter}s"), format!("shr.{of}{size} %d, %a, %b"));
        }
    }
    for direction in ["l", "r"] {
        for mode in ["clamp", "wrap"] {
            forms.add("wwws", format!("shf.{direction}.{mode}.b32 %d, %a, %b, %c"));
        }
    }
}

fn carries(forms: &mut Forms) {
    for of in ["u32", "s32"] {
        forms.add("lwww", format!("add.cc.{of} %x, %a, %b; addc.{of} %y, %c, %a; mov.b64 %d, {{%x, %y}}"));
        forms.add("lwww", format!("sub.cc.{of} %x, %a, %b; subc.{of} %y, %c, %a; mov.b64 %d, {{%x, %y}}"));
        forms.add(
            "lwww",
            format!("add.cc.{of} %x, %a, %b; addc.cc.{of} %y, %b, %c; addc.{of} %w, %x, %y; mov.b64 %d, {{%w, %y}}"),
        );
        forms.add(
            "lwww",
            format!("sub.cc.{of} %x, %a, %b; subc.cc.{of} %y, %b, %c; subc.{of} %w, %x, %y; mov.b64 %d, {{%w, %y}}"),
        );
        for part in ["lo", "hi"] {
            forms.add(
                "lwww",
                format!("mad.{part}.cc.{of} %x, %a, %b, %c; madc.{part}.{of} %y, %b, %c, %a; mov.b64 %d, {{%x, %y}}"),
            );
            forms.add(
                "lwww",
                format!(
                    "mad.{part}.cc.{of} %x, %a, %b, %c; madc.{part}.cc.{of} %y, %b, %c, %a; addc.{of} %w, %x, %y; \
                     mov.b64 %d, {{%w, %y}}"
                ),
            );
        }
    }
    for of in ["u64", "s64"] {
        let fold = "mad.lo.u64 %d, %v, 0x9e3779b97f4a7c15, %u";
        forms.add("llll", format!("add.cc.{of} %u, %a, %b; addc.{of} %v, %c, %a; {fold}"));
        forms.add("llll", format!("sub.cc.{of} %u, %a, %b; subc.{of} %v, %c, %a; {fold}"));
        forms.add("llll", format!("add.cc.{of} %u, %a, %b; addc.cc.{of} %v, %c, %a; addc.{of} %v, %v, %b; {fold}"));
        for part in ["lo", "hi"] {
            forms.add("llll", format!("mad.{part}.cc.{of} %u, %a, %b, %c; madc.{part}.{of} %v, %b, %c, %a; {fold}"));
        }
    }
}

fn packed(forms: &mut Forms) {
    for of in ["u16x2", "s16x2"] {
        for name in ["add", "min", "max"] {
            forms.add("www", format!("{name}.{of} %d, %a, %b"));
        }
    }
    for name in ["min", "max"] {
        forms.add("www", format!("{name}.relu.s16x2 %d, %a, %b"));
    }
}
