//! What lanes of a warp do together.

use super::Forms;

pub(super) fn add(forms: &mut Forms) {
    let mut add = |letters: &str, text: String| forms.add(letters, text);
    for mode in ["up", "down", "bfly", "idx"] {
        add("wwww", format!("and.b32 %x, %c, 0x1f1f; shfl.sync.{mode}.b32 %d, %a, %b, %x, -1"));
        add(
            "lww",
            format!(
                "and.b32 %x, %b, 31; shfl.sync.{mode}.b32 %y|%q, %a, %x, {}, -1; selp.b32 %x, 1, 0, %q; mov.b64 %d, {{%y, %x}}",
                if mode == "up" { 0 } else { 31 }
            ),
        );
        add(
            "lwww",
            format!(
                "and.b32 %x, %b, 31; and.b32 %w, %c, 0x1f1f; shfl.sync.{mode}.b32 %y|%q, %a, %x, %w, 0xffffffff; selp.b32 %x, 1, 0, %q; mov.b64 %d, {{%y, %x}}"
            ),
        );
    }
    for mode in ["all", "any", "uni"] {
        add("pp", format!("vote.sync.{mode}.pred %d, %a, 0xffffffff"));
        add("pz", format!("setp.eq.u32 %q, %a, 1; vote.sync.{mode}.pred %d, !%q, 0xffffffff"));
    }
    add("wp", "vote.sync.ballot.b32 %d, %a, 0xffffffff".to_owned());
    add("wp", "vote.sync.ballot.b32 %d, !%a, -1".to_owned());
    add("wz", "match.any.sync.b32 %d, %a, 0xffffffff".to_owned());
    add("wt", "match.any.sync.b64 %d, %a, 0xffffffff".to_owned());
    add("wz", "match.all.sync.b32 %d|%q, %a, 0xffffffff; @%q not.b32 %d, %d".to_owned());
    add("wt", "and.b64 %u, %a, 0; match.all.sync.b64 %d|%q, %u, 0xffffffff; @%q sub.u32 %d, %d, 5".to_owned());
    for (operation, types) in [
        ("add", &["u32", "s32"][..]),
        ("min", &["u32", "s32"]),
        ("max", &["u32", "s32"]),
        ("and", &["b32"]),
        ("or", &["b32"]),
        ("xor", &["b32"]),
    ] {
        for of in types {
            add("ww", format!("redux.sync.{operation}.{of} %d, %a, 0xffffffff"));
        }
    }
    // Parts of a warp: each has a mask of its own lanes.
    let apart = "vote.sync.ballot.b32 %m, %b, 0xffffffff; @!%b not.b32 %m, %m; mov.b32 %d, 0;";
    for inside in [
        "redux.sync.add.u32 %d, %a, %m;",
        "match.any.sync.b32 %d, %a, %m;",
        "setp.lt.s32 %z, %a, 40; vote.sync.ballot.b32 %d, %z, %m;",
        "shfl.sync.idx.b32 %d, %a, %lane, 31, %m;",
        "bar.warp.sync %m; bfind.u32 %x, %m; shfl.sync.idx.b32 %d, %a, %x, 31, %m;",
    ] {
        forms.add("wwp", format!("{{ {apart} @!%b bra NO; {inside} bra DONE; NO: {inside} DONE: }}"));
    }
}
