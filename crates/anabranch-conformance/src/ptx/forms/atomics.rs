//! Atomic operations, on memory of each thread and on memory of all, where the order makes no difference.

use super::{Forms, of_type};

pub(super) fn add(forms: &mut Forms) {
    let integers: [(&str, &[&str]); 6] = [
        ("u32", &["add", "min", "max", "inc", "dec"]),
        ("s32", &["add", "min", "max"]),
        ("u64", &["add", "min", "max"]),
        ("s64", &["min", "max"]),
        ("b32", &["and", "or", "xor", "exch", "cas"]),
        ("b64", &["and", "or", "xor", "exch", "cas"]),
    ];
    for (of, names) in integers {
        for name in names {
            one(forms, name, of);
        }
    }
    one(forms, "cas", "b16");
    for of in ["f32", "f64"] {
        one(forms, "add", of);
    }
    for of in ["f16", "f16x2", "bf16", "bf16x2"] {
        one(forms, "add.noftz", of);
    }
    shared_by_all(forms);
}

/// An operation on a place of the thread itself: the old value, and the new one.
fn one(forms: &mut Forms, name: &str, of: &str) {
    let letter = of_type(of);
    let bits = match letter {
        "h" | "H" | "B" => "16",
        "l" | "D" => "64",
        _ => "32",
    };
    let swap = name == "cas";
    let operands = if swap { "%b, %c" } else { "%b" };
    let letters = letter.repeat(if swap { 4 } else { 3 });
    for (space, base) in [(".global", "%own"), (".shared", "%mine"), ("", "%v")] {
        let generic = if space.is_empty() { "cvta.shared.u64 %v, %mine; st.shared" } else { "" };
        let (before, after) = if space.is_empty() {
            (format!("{generic}.b{bits} [%mine], %a; "), format!("ld.shared.b{bits} %d, [%mine];"))
        } else {
            (format!("st{space}.b{bits} [{base}], %a; "), format!("ld{space}.b{bits} %d, [{base}];"))
        };
        let scope = match (space, bits) {
            (".global", "32") => ".relaxed.gpu",
            (".global", _) => ".acq_rel.sys",
            (".shared", "64") => ".acquire.cta",
            _ => "",
        };
        // An old value equal to what it is compared with, in every second thread.
        let match_old = if swap && bits != "16" {
            format!("and.b32 %x, %lane, 1; setp.eq.u32 %q, %x, 0; @%q mov.b{bits} %b, %a; ")
        } else {
            String::new()
        };
        let full = format!("{scope}{space}.{name}.{of}").replace(".noftz", "");
        let full = if name.ends_with(".noftz") { full.replace("add.", "add.noftz.") } else { full };
        forms.add(&letters, format!("{match_old}{before}atom{full} %d, [{base}], {operands};"));
        if !swap && name != "exch" {
            let reduction = full.replace(".acq_rel.sys", ".relaxed.sys").replace(".acquire.cta", ".release.cta");
            forms.add(&letters, format!("{before}red{reduction} [{base}], {operands}; {after}"));
        } else {
            forms.add(&letters, format!("{match_old}{before}atom{full} %d, [{base}], {operands}; {after}"));
        }
    }
}

/// All threads of a block at one place.
fn shared_by_all(forms: &mut Forms) {
    for (operation, letter) in [
        ("add.u32", "w"),
        ("min.s32", "w"),
        ("max.u32", "w"),
        ("or.b32", "w"),
        ("xor.b32", "w"),
        ("and.b32", "w"),
        ("add.u64", "l"),
        ("max.s64", "l"),
        ("min.u64", "l"),
        ("xor.b64", "l"),
    ] {
        let bits = if letter == "l" { "64" } else { "32" };
        forms.add(
            &letter.repeat(2),
            format!(
                "{{ .shared .align 8 .b64 place; setp.eq.u32 %q, %lane, 0; @%q st.shared.b{bits} [place], %a; \
                 bar.sync 0; red.shared.{operation} [place], %a; bar.sync 0; ld.shared.b{bits} %d, [place]; \
                 bar.sync 0; }}"
            ),
        );
    }
}
