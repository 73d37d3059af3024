//! The instructions of PTX: the [forms](super::forms) of each that are executed. What selects an instruction's meaning, and
//! the list of `docs/ptx.md`, come from here.

use super::forms::many as forms;
use super::{Lower, Lowered};
use crate::syntax::Instruction;

/// Lowers an instruction.
type Handler = for<'m, 'a, 'i> fn(&mut Lower<'m, 'a>, &'i Instruction<'a>) -> Lowered<()>;

/// An instruction.
pub(crate) struct Entry {
    /// Its name, before the first dot.
    pub(crate) name: &'static str,
    /// The forms of it that are executed, separated by commas.
    pub(crate) forms: &'static str,
    /// What the forms do not say, as Markdown.
    pub(crate) note: &'static str,
    /// What lowers it, or what it belongs to that is not supported.
    pub(crate) lower: Result<Handler, &'static str>,
}

const fn yes(name: &'static str, lower: Handler, forms: &'static str, note: &'static str) -> Entry {
    Entry { name, forms, note, lower: Ok(lower) }
}

const fn no(name: &'static str, reason: &'static str) -> Entry {
    Entry { name, forms: "", note: "", lower: Err(reason) }
}

/// The place of an instruction in the table.
pub(crate) fn find(name: &str) -> Option<usize> {
    TABLE.binary_search_by(|entry| entry.name.cmp(name)).ok()
}

/// All instructions, in the order of their names.
pub(crate) static TABLE: &[Entry] = &[
    yes(
        "abs",
        |lower, instruction| lower.integer_unary(instruction),
        ".signed, {.ftz}.f32, .f64, {.ftz}.half, .brain",
        "",
    ),
    yes("activemask", |lower, instruction| lower.activemask(instruction), ".b32", ""),
    yes(
        "add",
        |lower, instruction| lower.add_or_sub(instruction),
        ".integer, .packed, .sat.s32, .cc.long_word, {.rnd}{.ftz}{.sat}.f32, {.rnd}.f64, {.rnd}{.ftz}.f32x2, {.rn}{.ftz}{.sat}.half, {.rn}.brain, {.rnd}{.sat}.f32.short",
        "",
    ),
    yes("addc", |lower, instruction| lower.add_or_sub(instruction), "{.cc}.long_word", ""),
    no("alloca", "stack that grows while a function runs"),
    yes("and", |lower, instruction| lower.logic(instruction), ".pred, .bits", ""),
    yes("applypriority", |lower, instruction| lower.hint(instruction), "{.global}.L2::evict_normal", "does nothing"),
    yes(
        "atom",
        |lower, instruction| lower.atomic(instruction),
        forms::ATOM,
        "every scope is as strong as `.acq_rel.sys`",
    ),
    yes("bar", |lower, instruction| lower.bar(instruction), forms::BAR, ""),
    yes("barrier", |lower, instruction| lower.bar(instruction), forms::BARRIER, ""),
    yes("bfe", |lower, instruction| lower.bit_field(instruction), ".long_word", ""),
    yes("bfi", |lower, instruction| lower.bit_field(instruction), ".b32, .b64", ""),
    yes("bfind", |lower, instruction| lower.count_bits(instruction), "{.shiftamt}.long_word", ""),
    yes("bmsk", |lower, instruction| lower.bit_mask(instruction), ".clamping.b32", ""),
    yes("bra", |lower, instruction| lower.bra(instruction), "{.uni}", "may diverge"),
    yes("brev", |lower, instruction| lower.count_bits(instruction), ".b32, .b64", ""),
    yes("brkpt", |lower, instruction| lower.leave(instruction), "", "as `trap`: no debugger is there"),
    yes("brx", |lower, instruction| lower.brx(instruction), "idx {.uni}", ""),
    yes(
        "call",
        |lower, instruction| lower.call(instruction),
        "{.uni}",
        "direct and indirect, with parameters, registers and numbers; `vprintf`, `__assertfail`, `malloc`, `free` and `cudaGraphSetConditional` are provided",
    ),
    no("clusterlaunchcontrol", "clusters of blocks"),
    yes("clz", |lower, instruction| lower.count_bits(instruction), ".b32, .b64", ""),
    yes("cnot", |lower, instruction| lower.logic(instruction), ".bits", ""),
    yes("copysign", |lower, instruction| lower.copysign(instruction), ".real", ""),
    yes(
        "cos",
        |lower, instruction| lower.real_arithmetic(instruction),
        ".approx{.ftz}.f32",
        "rounded from a result of 64 bits",
    ),
    no("cp", "asynchronous copies"),
    no("createpolicy", "policies of caches"),
    yes("cvt", |lower, instruction| lower.cvt(instruction), forms::CVT, ""),
    yes("cvta", |lower, instruction| lower.cvta(instruction), ".space.u64, to .space.u64", ""),
    yes("discard", |lower, instruction| lower.hint(instruction), "{.global}.L2", "does nothing"),
    yes(
        "div",
        |lower, instruction| lower.integer_binary(instruction),
        ".integer, .rnd{.ftz}.f32, .approx{.ftz}.f32, full {.ftz}.f32, .rnd.f64",
        "`.approx` and `.full` are exact",
    ),
    yes("dp2a", |lower, instruction| lower.dot(instruction), "lo .word.word, hi .word.word", ""),
    yes("dp4a", |lower, instruction| lower.dot(instruction), ".word.word", ""),
    yes("elect", |lower, instruction| lower.elect(instruction), ".sync", ""),
    yes(
        "ex2",
        |lower, instruction| lower.real_arithmetic(instruction),
        ".approx{.ftz}.f32, .approx.half, .approx.ftz.brain",
        "",
    ),
    yes("exit", |lower, instruction| lower.leave(instruction), "", ""),
    yes("fence", |lower, instruction| lower.fences(instruction), forms::FENCE, "each is the strongest one"),
    yes(
        "fma",
        |lower, instruction| lower.real_arithmetic(instruction),
        ".rnd{.ftz}{.sat}.f32, .rnd.f64, .rnd{.ftz}.f32x2, .rn{.ftz}{.sat}.half, .rn{.ftz}.relu.half, .rn{.relu}.brain, .rnd{.sat}.f32.short",
        "",
    ),
    yes("fns", |lower, instruction| lower.find_nth(instruction), ".b32", ""),
    no("getctarank", "clusters of blocks"),
    yes(
        "griddepcontrol",
        |lower, instruction| lower.grid_control(instruction),
        ".grid_control",
        "does nothing: earlier grids have ended",
    ),
    yes("isspacep", |lower, instruction| lower.isspacep(instruction), ".space, .shared::cluster", ""),
    no("istypep", "textures and surfaces"),
    yes(
        "ld",
        |lower, instruction| lower.ld(instruction),
        forms::LD,
        "loads go to memory at once, whatever their cache operator is",
    ),
    no("ldmatrix", "tensor-core matrices"),
    yes("ldu", |lower, instruction| lower.ld(instruction), "{.global}.memory, {.global}.ldu_vec.memory", ""),
    yes("lg2", |lower, instruction| lower.real_arithmetic(instruction), ".approx{.ftz}.f32", ""),
    yes("lop3", |lower, instruction| lower.lookup(instruction), ".b32", "without a predicate"),
    yes(
        "mad",
        |lower, instruction| lower.multiply_add(instruction),
        "lo .integer, hi .integer, wide .narrow, hi .sat.s32, lo .cc.long_word, hi .cc.long_word, .rnd{.ftz}{.sat}.f32, .rnd.f64",
        "",
    ),
    yes("mad24", |lower, instruction| lower.multiply_24(instruction), "lo .word, hi .word, hi .sat.s32", ""),
    yes("madc", |lower, instruction| lower.multiply_add(instruction), "lo {.cc}.long_word, hi {.cc}.long_word", ""),
    no("mapa", "clusters of blocks"),
    yes("match", |lower, instruction| lower.matches(instruction), ".match_mode.sync.b32, .match_mode.sync.b64", ""),
    yes(
        "max",
        |lower, instruction| lower.integer_binary(instruction),
        ".integer, .packed, .relu.s32, .relu.s16x2, {.ftz}{.NaN}.f32, {.ftz}{.NaN}.xorsign.abs.f32, .f64, {.ftz}{.NaN}.half, {.NaN}.brain",
        "",
    ),
    yes(
        "mbarrier",
        |lower, instruction| lower.mbarrier(instruction),
        forms::MBARRIER,
        "in shared memory, without transactions",
    ),
    yes(
        "membar",
        |lower, instruction| lower.fences(instruction),
        ".membar_level, proxy .alias",
        "each is the strongest one",
    ),
    yes(
        "min",
        |lower, instruction| lower.integer_binary(instruction),
        ".integer, .packed, .relu.s32, .relu.s16x2, {.ftz}{.NaN}.f32, {.ftz}{.NaN}.xorsign.abs.f32, .f64, {.ftz}{.NaN}.half, {.NaN}.brain",
        "",
    ),
    no("mma", "tensor-core matrices"),
    yes(
        "mov",
        |lower, instruction| lower.mov(instruction),
        ".pred, .b128, .value",
        "registers, special registers, numbers, addresses of variables and functions; packing and unpacking of vectors",
    ),
    no("movmatrix", "tensor-core matrices"),
    yes(
        "mul",
        |lower, instruction| lower.multiply(instruction),
        "lo .integer, hi .integer, wide .narrow, {.rnd}{.ftz}{.sat}.f32, {.rnd}.f64, {.rnd}{.ftz}.f32x2, {.rn}{.ftz}{.sat}.half, {.rn}.brain",
        "",
    ),
    yes("mul24", |lower, instruction| lower.multiply_24(instruction), "lo .word, hi .word", ""),
    no("multimem", "multicast memory"),
    yes("nanosleep", |lower, instruction| lower.sleep(instruction), ".u32", "lets others run"),
    yes(
        "neg",
        |lower, instruction| lower.integer_unary(instruction),
        ".signed, {.ftz}.f32, .f64, {.ftz}.half, .brain",
        "",
    ),
    yes("not", |lower, instruction| lower.logic(instruction), ".pred, .bits", ""),
    yes("or", |lower, instruction| lower.logic(instruction), ".pred, .bits", ""),
    yes("pmevent", |lower, instruction| lower.performance_event(instruction), ", mask ", "does nothing"),
    yes("popc", |lower, instruction| lower.count_bits(instruction), ".b32, .b64", ""),
    yes(
        "prefetch",
        |lower, instruction| lower.hint(instruction),
        ".prefetch_level{.prefetch_space}, {.global}.prefetch_eviction, {.tensor_space}.tensormap",
        "does nothing",
    ),
    yes("prefetchu", |lower, instruction| lower.hint(instruction), ".L1", "does nothing"),
    yes("prmt", |lower, instruction| lower.permute(instruction), ".b32{.permutation}", ""),
    yes(
        "rcp",
        |lower, instruction| lower.real_arithmetic(instruction),
        ".rnd{.ftz}.real, .approx{.ftz}.f32, .approx.ftz.f64",
        "`.approx` is exact but for `.ftz.f64`, which has the upper 32 bits",
    ),
    yes("red", |lower, instruction| lower.atomic(instruction), forms::RED, "as `atom`"),
    yes(
        "redux",
        |lower, instruction| lower.redux(instruction),
        ".sync.add.word, .sync.extreme.word, .sync.boolean.b32, .sync.extreme{.NaN}.f32",
        "",
    ),
    yes("rem", |lower, instruction| lower.integer_binary(instruction), ".integer", ""),
    yes("ret", |lower, instruction| lower.leave(instruction), "{.uni}", ""),
    yes("rsqrt", |lower, instruction| lower.real_arithmetic(instruction), ".approx{.ftz}.real", ""),
    yes("sad", |lower, instruction| lower.sad(instruction), ".integer", ""),
    yes("selp", |lower, instruction| lower.selp(instruction), ".value", ""),
    yes("set", |lower, instruction| lower.set(instruction), forms::SET, ""),
    no("setmaxnreg", "registers that move between warps"),
    yes(
        "setp",
        |lower, instruction| lower.setp(instruction),
        ".equality{.boolean}.bits, .order{.boolean}.integer, .unsigned_order{.boolean}.unsigned, .comparison{.boolean}{.ftz}.f32, .comparison{.boolean}.f64, .comparison{.boolean}{.ftz}.half, .comparison{.boolean}.brain",
        "one or two results",
    ),
    yes("shf", |lower, instruction| lower.funnel(instruction), "l .clamping.b32, r .clamping.b32", ""),
    yes("shfl", |lower, instruction| lower.shfl(instruction), "{.sync}.shuffle.b32", "with and without a predicate"),
    yes("shl", |lower, instruction| lower.shift(instruction), ".bits", ""),
    yes("shr", |lower, instruction| lower.shift(instruction), ".bits, .integer", ""),
    yes(
        "sin",
        |lower, instruction| lower.real_arithmetic(instruction),
        ".approx{.ftz}.f32",
        "rounded from a result of 64 bits",
    ),
    yes("slct", |lower, instruction| lower.slct(instruction), ".value.s32, {.ftz}.value.f32", ""),
    yes(
        "sqrt",
        |lower, instruction| lower.real_arithmetic(instruction),
        ".rnd{.ftz}.f32, .approx{.ftz}.f32, .rnd.f64",
        "`.approx` is exact",
    ),
    yes(
        "st",
        |lower, instruction| lower.st(instruction),
        forms::ST,
        "stores go to memory at once, whatever their cache operator is",
    ),
    no("stackrestore", "stack that grows while a function runs"),
    no("stacksave", "stack that grows while a function runs"),
    no("stmatrix", "tensor-core matrices"),
    yes(
        "sub",
        |lower, instruction| lower.add_or_sub(instruction),
        ".integer, .packed, .sat.s32, .cc.long_word, {.rnd}{.ftz}{.sat}.f32, {.rnd}.f64, {.rnd}{.ftz}.f32x2, {.rn}{.ftz}{.sat}.half, {.rn}.brain, {.rnd}{.sat}.f32.short",
        "",
    ),
    yes("subc", |lower, instruction| lower.add_or_sub(instruction), "{.cc}.long_word", ""),
    no("suld", "textures and surfaces"),
    no("suq", "textures and surfaces"),
    no("sured", "textures and surfaces"),
    no("sust", "textures and surfaces"),
    yes("szext", |lower, instruction| lower.bit_mask(instruction), ".clamping.word", ""),
    yes(
        "tanh",
        |lower, instruction| lower.real_arithmetic(instruction),
        ".approx.f32, .approx.half, .approx.brain",
        "",
    ),
    no("tcgen05", "tensor-core matrices"),
    no("tensormap", "tensor maps"),
    yes("testp", |lower, instruction| lower.testp(instruction), ".test.real", ""),
    no("tex", "textures and surfaces"),
    no("tld4", "textures and surfaces"),
    yes(
        "trap",
        |lower, instruction| lower.leave(instruction),
        "",
        "ends the kernel with `CUDA_ERROR_LAUNCH_FAILED (719)`",
    ),
    no("txq", "textures and surfaces"),
    no("vabsdiff", "video instructions"),
    yes(
        "vabsdiff2",
        |lower, instruction| lower.differences(instruction),
        ".word.word.word{.sat}, .word.word.word.add",
        "of whole words",
    ),
    yes(
        "vabsdiff4",
        |lower, instruction| lower.differences(instruction),
        ".word.word.word{.sat}, .word.word.word.add",
        "of whole words",
    ),
    no("vadd", "video instructions"),
    no("vadd2", "video instructions"),
    no("vadd4", "video instructions"),
    no("vavrg2", "video instructions"),
    no("vavrg4", "video instructions"),
    no("vmad", "video instructions"),
    no("vmax", "video instructions"),
    no("vmax2", "video instructions"),
    no("vmax4", "video instructions"),
    no("vmin", "video instructions"),
    no("vmin2", "video instructions"),
    no("vmin4", "video instructions"),
    yes("vote", |lower, instruction| lower.vote(instruction), "{.sync}.vote_mode.pred, {.sync}.ballot.b32", ""),
    no("vset", "video instructions"),
    no("vset2", "video instructions"),
    no("vset4", "video instructions"),
    no("vshl", "video instructions"),
    no("vshr", "video instructions"),
    no("vsub", "video instructions"),
    no("vsub2", "video instructions"),
    no("vsub4", "video instructions"),
    no("wgmma", "tensor-core matrices"),
    no("wmma", "tensor-core matrices"),
    yes("xor", |lower, instruction| lower.logic(instruction), ".pred, .bits", ""),
];

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn the_names_are_in_order() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
