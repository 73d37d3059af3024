//! Loads and stores in every state space.

use super::Forms;

pub(super) fn add(forms: &mut Forms) {
    // Parts of a word, extended as their types say.
    for (space, base) in [("global", "%own"), ("shared", "%mine"), ("local", "stack")] {
        let declaration = if space == "local" { ".local .align 16 .b8 stack[32]; " } else { "" };
        for (of, letter) in
            [("u8", "w"), ("s8", "w"), ("u16", "w"), ("s16", "w"), ("u8", "l"), ("s16", "l"), ("s32", "l")]
        {
            let text = format!("{{ {declaration}st.{space}.b64 [{base}+8], %a; ld.{space}.{of} %d, [{base}+10]; }}");
            let at = if of.ends_with("32") { text.replace("+10]", "+12]") } else { text };
            forms.add(&format!("{letter}l"), at);
        }
        for (of, letter) in [("b8", "w"), ("b16", "w"), ("b32", "w"), ("b8", "l"), ("b16", "h")] {
            let text = format!(
                "{{ {declaration}st.{space}.b64 [{base}], %a; st.{space}.{of} [{base}+4], %b; \
                 ld.{space}.b64 %d, [{base}]; }}"
            );
            forms.add(&format!("ll{letter}"), text);
        }
        let vectors = [
            format!("st.{space}.v2.b32 [{base}+8], {{%a, %b}}; ld.{space}.b64 %d, [{base}+8];"),
            format!(
                "st.{space}.v4.b32 [{base}], {{%a, %b, %c, %a}}; ld.{space}.v2.b64 {{%u, %v}}, [{base}]; sub.u64 %d, %v, %u;"
            ),
            format!(
                "st.{space}.v2.b32 [{base}], {{%b, %c}}; ld.{space}.v4.s8 {{%x, %y, %w, %m}}, [{base}+4]; mad.lo.s32 %x, %y, 257, %x; mad.lo.s32 %w, %m, 65599, %w; mov.b64 %d, {{%x, %w}};"
            ),
            format!("st.{space}.v4.b8 [{base}], {{%a, %b, %c, %b}}; ld.{space}.b32 %x, [{base}]; cvt.u64.u32 %d, %x;"),
            format!(
                "cvt.u16.u32 %i, %a; cvt.u16.u32 %j, %b; st.{space}.v2.b16 [{base}], {{%i, %j}}; ld.{space}.s32 %d, [{base}];"
            ),
        ];
        for vector in vectors {
            forms.add("lwww", format!("{{ {declaration}{vector} }}"));
        }
    }
    // Generic addresses.
    for (space, base) in [("global", "%own"), ("shared", "%mine"), ("local", "stack")] {
        let (declaration, address) = match space {
            "local" => (".local .align 16 .b8 stack[32]; ", "mov.u64 %v, stack; "),
            "shared" => ("", "mov.u64 %v, %mine; "),
            _ => ("", "mov.u64 %v, %own; "),
        };
        let at = if space == "local" { "stack" } else { base };
        forms.add(
            "wl",
            format!(
                "{{ {declaration}{address}cvta.{space}.u64 %v, %v; st.b64 [%v+16], %a; ld.{space}.s16 %d, [{at}+22]; }}"
            ),
        );
        forms.add("ll",
            format!(
                "{{ {declaration}{address}cvta.{space}.u64 %v, %v; st.{space}.b64 [{at}], %a; ld.v2.b32 {{%x, %y}}, [%v]; \
                 cvta.to.{space}.u64 %v, %v; ld.{space}.u8 %u, [%v+3]; mov.b64 %d, {{%y, %x}}; xor.b64 %d, %d, %u; }}"
            ),
        );
        forms.add(
            "w",
            format!(
                "{{ {declaration}{address}cvta.{space}.u64 %v, %v; isspacep.global %q, %v; selp.b32 %d, 1, 0, %q; \
                 isspacep.shared %q, %v; selp.b32 %x, 2, 0, %q; or.b32 %d, %d, %x; isspacep.local %q, %v; \
                 selp.b32 %x, 4, 0, %q; or.b32 %d, %d, %x; }}"
            ),
        );
    }
    // An index that differs between the lanes.
    forms.add("www",
        "{ .local .align 4 .b8 stack[64]; mov.u64 %u, stack; st.local.v4.b32 [stack], {%a, %b, 3, 4}; and.b32 %x, %b, 3; \
         mul.wide.u32 %v, %x, 4; add.u64 %v, %u, %v; ld.local.b32 %d, [%v]; }",
    );
    // Another thread's word.
    for (of, letter) in [("b32", "w"), ("b64", "l")] {
        forms.add(
            &letter.repeat(2),
            format!("st.shared.{of} [%mine], %a; bar.sync 0; ld.shared.{of} %d, [%other]; bar.sync 0;"),
        );
        forms.add(
            &letter.repeat(2),
            format!(
                "st.volatile.shared.{of} [%mine], %a; barrier.sync 1; ld.volatile.shared.{of} %d, [%other]; \
                 barrier.sync 1, 128;"
            ),
        );
    }
    for cache in ["ca", "cg", "cs", "cv"] {
        forms.add("ll", format!("st.global.b64 [%own], %a; ld.global.{cache}.b64 %d, [%own];"));
    }
    for (store, load) in [("relaxed.gpu", "relaxed.gpu"), ("release.cta", "acquire.sys"), ("volatile", "volatile")] {
        forms.add("ll", format!("st.{store}.global.b64 [%own], %a; ld.{load}.global.b64 %d, [%own];"));
    }
    for cache in ["wb", "cg", "cs", "wt"] {
        forms.add("ll", format!("st.global.{cache}.b64 [%own], %a; ld.global.b64 %d, [%own];"));
    }
    for reduction in ["popc.u32 %d", "and.pred %q", "or.pred %q"] {
        let (kind, result) = reduction.split_once(' ').unwrap_or((reduction, "%d"));
        let rest = if result == "%q" { " selp.b32 %d, 1, 0, %q;" } else { "" };
        forms.add("wp", format!("bar.red.{kind} {result}, 0, %a;{rest}"));
        forms.add("wp", format!("barrier.red.{kind} {result}, 2, 128, !%a;{rest}"));
    }
}
