//! The functions that composed kernels call.

use crate::programs::Numbers;

/// The names of the functions, after the name of the kernel. All take 32 and 64 bits and return 32.
pub(super) const NAMES: [&str; 3] = ["mix", "down", "walk"];

/// Their text: `mix` reads its parameters again from local memory, `down` calls itself as often as its first parameter says,
/// and `walk` has a loop over an array, whose number of rounds differs between lanes, and returns from several places.
pub(super) fn text(seed: u64, numbers: &mut Numbers) -> String {
    let name = format!("random_{seed}");
    let table: Vec<String> = (0..16).map(|_| (numbers.bits() as u32).to_string()).collect();
    let odd = numbers.bits() | 1;
    format!(
        ".const .align 16 .u32 {name}_table[16] = {{{}}};\n\
         .func (.param .b32 r) {name}_mix(.param .b32 a, .param .b64 b) {{\n.reg .b32 %x, %y;\n.reg .b64 %u, %v;\n\
         .local .align 8 .b8 stack[32];\nld.param.b32 %x, [a];\nld.param.b64 %u, [b];\nst.local.b64 [stack+8], %u;\n\
         st.local.b32 [stack+4], %x;\nand.b32 %y, %x, 15;\nmul.wide.u32 %v, %y, 4;\nmov.u64 %u, {name}_table;\n\
         add.u64 %u, %u, %v;\nld.const.b32 %y, [%u];\nld.local.b32 %x, [stack+12];\nxor.b32 %x, %x, %y;\n\
         ld.local.b64 %v, [stack+8];\nmul.lo.u64 %v, %v, {odd};\ncvt.u32.u64 %y, %v;\nadd.u32 %x, %x, %y;\n\
         st.param.b32 [r], %x;\nret;\n}}\n\
         .func (.param .b32 r) {name}_down(.param .b32 a, .param .b64 b) {{\n.reg .b32 %x, %y;\n.reg .b64 %u;\n\
         .reg .pred %q;\nld.param.b32 %x, [a];\nld.param.b64 %u, [b];\nand.b32 %x, %x, 7;\nsetp.eq.u32 %q, %x, 0;\n\
         @%q bra LAST;\n{{\n.param .b32 first;\n.param .b64 second;\n.param .b32 result;\nsub.u32 %y, %x, 1;\n\
         st.param.b32 [first], %y;\nadd.u64 %u, %u, {odd};\nst.param.b64 [second], %u;\n\
         call (result), {name}_down, (first, second);\nld.param.b32 %y, [result];\n}}\n\
         mad.lo.u32 %y, %y, 31, %x;\nst.param.b32 [r], %y;\nret;\nLAST:\ncvt.u32.u64 %y, %u;\nst.param.b32 [r], %y;\n\
         ret;\n}}\n\
         .func (.param .b32 r) {name}_walk(.param .b32 a, .param .b64 b) {{\n.reg .b32 %x, %y, %n, %k, %d;\n.reg .b64 %u, %v, %w;\n\
         .reg .pred %q, %z;\n.local .align 16 .b8 places[64];\nld.param.b32 %x, [a];\nld.param.b64 %u, [b];\n\
         mov.b64 {{%y, %k}}, %u;\nst.local.v4.b32 [places], {{%x, %y, %k, %x}};\nst.local.v2.b64 [places+16], {{%u, %u}};\n\
         and.b32 %n, %x, 15;\nsetp.gt.u32 %q, %n, 12;\n@%q bra EARLY;\nmov.b32 %d, 0;\nmov.b32 %k, 0;\nmov.u64 %v, places;\n\
         AGAIN:\nsetp.ge.u32 %z, %k, %n;\n@%z bra DONE;\nand.b32 %y, %k, 7;\nmul.wide.u32 %w, %y, 4;\nadd.u64 %w, %v, %w;\n\
         ld.local.b32 %y, [%w];\nmad.lo.u32 %d, %d, 33, %y;\nadd.u32 %k, %k, 1;\nand.b32 %y, %d, 31;\n\
         setp.eq.u32 %q, %y, 5;\n@%q bra EARLY;\nbra AGAIN;\nDONE:\nst.param.b32 [r], %d;\nret;\nEARLY:\n\
         not.b32 %d, %x;\nst.param.b32 [r], %d;\nret;\n}}\n",
        table.join(", ")
    )
}
