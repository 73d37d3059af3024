//! The instructions of PTX: what is supported of each. What selects an instruction's meaning, and the list of
//! `docs/ptx.md`, come from here.

use super::{Lower, Lowered};
use crate::syntax::Instruction;

/// Lowers an instruction.
type Handler = for<'m, 'a, 'i> fn(&mut Lower<'m, 'a>, &'i Instruction<'a>) -> Lowered<()>;

/// An instruction.
pub(crate) struct Entry {
    /// Its name, before the first dot.
    pub(crate) name: &'static str,
    /// The forms of it that are supported.
    pub(crate) forms: &'static str,
    /// What lowers it, or what it belongs to that is not supported.
    pub(crate) lower: Result<Handler, &'static str>,
}

const fn yes(name: &'static str, lower: Handler, forms: &'static str) -> Entry {
    Entry { name, forms, lower: Ok(lower) }
}

const fn no(name: &'static str, reason: &'static str) -> Entry {
    Entry { name, forms: "", lower: Err(reason) }
}

/// The instruction of a name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    TABLE.binary_search_by(|entry| entry.name.cmp(name)).ok().map(|index| &TABLE[index])
}

/// All instructions, in the order of their names.
pub(crate) static TABLE: &[Entry] = &[
    yes(
        "abs",
        |lower, instruction| lower.integer_unary(instruction),
        "`.s16 .s32 .s64`; `.f32{.ftz}`, `.f64`, `.f16 .f16x2 .bf16 .bf16x2`",
    ),
    yes("activemask", |lower, instruction| lower.activemask(instruction), "`.b32`"),
    yes(
        "add",
        |lower, instruction| lower.add_or_sub(instruction),
        "`{.sat}.s32`, integers of 16, 32 and 64 bits, `.u16x2 .s16x2`, `.cc` of 32 and 64 bits; floats in every rounding mode with `{.ftz}{.sat}`, short floats `.rn`; `.f32.f16`, `.f32.bf16`; `.f32x2` in every rounding mode with `{.ftz}`",
    ),
    yes("addc", |lower, instruction| lower.add_or_sub(instruction), "`{.cc}`, of 32 and 64 bits"),
    no("alloca", "stack that grows while a function runs"),
    yes("and", |lower, instruction| lower.logic(instruction), "`.pred .b16 .b32 .b64`"),
    yes("applypriority", |lower, instruction| lower.hint(instruction), "does nothing"),
    yes(
        "atom",
        |lower, instruction| lower.atomic(instruction),
        "`.add .min .max .inc .dec .and .or .xor .exch .cas`, integers of 32 and 64 bits, `.cas .exch` of 16 and 128 bits, `.add` of `.f32 .f64 .f16 .f16x2 .bf16 .bf16x2`; every scope, all as strong as `.acq_rel.sys`",
    ),
    yes("bar", |lower, instruction| lower.bar(instruction), "`.sync .arrive .red`, named, with counts; `.warp.sync`"),
    yes("barrier", |lower, instruction| lower.bar(instruction), "as `bar`, with and without `.aligned`"),
    yes("bfe", |lower, instruction| lower.bit_field(instruction), "`.u32 .u64 .s32 .s64`"),
    yes("bfi", |lower, instruction| lower.bit_field(instruction), "`.b32 .b64`"),
    yes("bfind", |lower, instruction| lower.count_bits(instruction), "`{.shiftamt}`, integers of 32 and 64 bits"),
    yes("bmsk", |lower, instruction| lower.bit_mask(instruction), "`.clamp .wrap`"),
    yes("bra", |lower, instruction| lower.bra(instruction), "`{.uni}`, divergent"),
    yes("brev", |lower, instruction| lower.count_bits(instruction), "`.b32 .b64`"),
    yes("brkpt", |lower, instruction| lower.leave(instruction), "as `trap`: no debugger is there"),
    yes("brx", |lower, instruction| lower.brx(instruction), "`.idx{.uni}`"),
    yes(
        "call",
        |lower, instruction| lower.call(instruction),
        "direct and indirect, `{.uni}`; with parameters, registers and numbers; `vprintf`, `__assertfail`, `malloc`, `free` and `cudaGraphSetConditional` are provided",
    ),
    no("clusterlaunchcontrol", "clusters of blocks"),
    yes("clz", |lower, instruction| lower.count_bits(instruction), "`.b32 .b64`"),
    yes("cnot", |lower, instruction| lower.logic(instruction), "`.b16 .b32 .b64`"),
    yes("copysign", |lower, instruction| lower.copysign(instruction), "`.f32 .f64`"),
    yes(
        "cos",
        |lower, instruction| lower.real_arithmetic(instruction),
        "`.approx{.ftz}.f32`: rounded from a result of 64 bits",
    ),
    no("cp", "asynchronous copies"),
    no("createpolicy", "policies of caches"),
    yes(
        "cvt",
        |lower, instruction| lower.cvt(instruction),
        "between all integers of 8 to 64 bits and floats of 16 to 64, in every rounding mode, `{.ftz}{.sat}{.relu}`; `.f16x2.f32 .bf16x2.f32`, `.rna.tf32 .rn.tf32 .rz.tf32`; `.pack`",
    ),
    yes("cvta", |lower, instruction| lower.cvta(instruction), "`{.to}` of all state spaces, 64 bits"),
    yes("discard", |lower, instruction| lower.hint(instruction), "does nothing"),
    yes(
        "div",
        |lower, instruction| lower.integer_binary(instruction),
        "integers of 16, 32 and 64 bits; `.f32 .f64` in every rounding mode; `.approx` and `.full` are exact",
    ),
    yes("dp2a", |lower, instruction| lower.dot(instruction), "`.lo .hi`, signed and unsigned"),
    yes("dp4a", |lower, instruction| lower.dot(instruction), "signed and unsigned"),
    yes("elect", |lower, instruction| lower.elect(instruction), "`.sync`"),
    yes("ex2", |lower, instruction| lower.real_arithmetic(instruction), "`.approx{.ftz}.f32`, short floats"),
    yes("exit", |lower, instruction| lower.leave(instruction), ""),
    yes(
        "fence",
        |lower, instruction| lower.fences(instruction),
        "all but `.proxy::tensormap`: each is the strongest one",
    ),
    yes(
        "fma",
        |lower, instruction| lower.real_arithmetic(instruction),
        "floats of 32 and 64 bits in every rounding mode with `{.ftz}{.sat}`; short floats `.rn{.ftz}{.sat}{.relu}`; `.f32.f16`, `.f32.bf16`; `.f32x2` as `add`",
    ),
    yes("fns", |lower, instruction| lower.find_nth(instruction), "`.b32`"),
    no("getctarank", "clusters of blocks"),
    yes("griddepcontrol", |lower, instruction| lower.hint(instruction), "does nothing: earlier grids have ended"),
    yes(
        "isspacep",
        |lower, instruction| lower.isspacep(instruction),
        "`.global .shared .shared::cluster .local .param .const`",
    ),
    no("istypep", "textures and surfaces"),
    yes(
        "ld",
        |lower, instruction| lower.ld(instruction),
        "every type of 8 to 128 bits, vectors, all state spaces and generic; every cache operator and hint; `.relaxed .acquire .volatile` at every scope",
    ),
    no("ldmatrix", "tensor-core matrices"),
    yes("ldu", |lower, instruction| lower.ld(instruction), "as `ld`"),
    yes("lg2", |lower, instruction| lower.real_arithmetic(instruction), "`.approx{.ftz}.f32`"),
    yes("lop3", |lower, instruction| lower.lookup(instruction), "`.b32`"),
    yes(
        "mad",
        |lower, instruction| lower.multiply_add(instruction),
        "`.lo .hi .wide`, `.hi.sat.s32`, `.cc`; floats as `fma`",
    ),
    yes("mad24", |lower, instruction| lower.multiply_24(instruction), "`.lo .hi`, `.hi.sat.s32`"),
    yes("madc", |lower, instruction| lower.multiply_add(instruction), "`.lo .hi {.cc}`"),
    no("mapa", "clusters of blocks"),
    yes("match", |lower, instruction| lower.matches(instruction), "`.any.sync .all.sync`, `.b32 .b64`"),
    yes(
        "max",
        |lower, instruction| lower.integer_binary(instruction),
        "integers, `{.relu}`, `.u16x2 .s16x2`; floats `{.ftz}{.NaN}`, `.xorsign.abs.f32`",
    ),
    yes(
        "mbarrier",
        |lower, instruction| lower.mbarrier(instruction),
        "`.init .inval .arrive .arrive_drop .test_wait .try_wait .pending_count` in shared memory, without transactions",
    ),
    yes("membar", |lower, instruction| lower.fences(instruction), "each is the strongest one"),
    yes("min", |lower, instruction| lower.integer_binary(instruction), "as `max`"),
    no("mma", "tensor-core matrices"),
    yes(
        "mov",
        |lower, instruction| lower.mov(instruction),
        "registers, special registers, numbers, addresses of variables and functions; packing and unpacking of vectors; `.b128`",
    ),
    no("movmatrix", "tensor-core matrices"),
    yes(
        "mul",
        |lower, instruction| lower.multiply(instruction),
        "`.lo .hi .wide`; floats in every rounding mode with `{.ftz}{.sat}`; short floats `.rn`; `.f32x2` as `add`",
    ),
    yes("mul24", |lower, instruction| lower.multiply_24(instruction), "`.lo .hi`"),
    no("multimem", "multicast memory"),
    yes("nanosleep", |lower, instruction| lower.sleep(instruction), "lets others run"),
    yes("neg", |lower, instruction| lower.integer_unary(instruction), "as `abs`"),
    yes("not", |lower, instruction| lower.logic(instruction), "`.pred .b16 .b32 .b64`"),
    yes("or", |lower, instruction| lower.logic(instruction), "`.pred .b16 .b32 .b64`"),
    yes("pmevent", |lower, instruction| lower.hint(instruction), "does nothing"),
    yes("popc", |lower, instruction| lower.count_bits(instruction), "`.b32 .b64`"),
    yes("prefetch", |lower, instruction| lower.hint(instruction), "does nothing"),
    yes("prefetchu", |lower, instruction| lower.hint(instruction), "does nothing"),
    yes("prmt", |lower, instruction| lower.permute(instruction), "`{.f4e .b4e .rc8 .ecl .ecr .rc16}`"),
    yes(
        "rcp",
        |lower, instruction| lower.real_arithmetic(instruction),
        "`.f32 .f64` in every rounding mode; `.approx` is exact but for `.ftz.f64`, which has the upper 32 bits",
    ),
    yes("red", |lower, instruction| lower.atomic(instruction), "as `atom`"),
    yes("redux", |lower, instruction| lower.redux(instruction), "`.sync`, integers, and `.min .max` of `.f32`"),
    yes("rem", |lower, instruction| lower.integer_binary(instruction), "integers of 16, 32 and 64 bits"),
    yes("ret", |lower, instruction| lower.leave(instruction), ""),
    yes("rsqrt", |lower, instruction| lower.real_arithmetic(instruction), "`.approx{.ftz}` of `.f32` and `.f64`"),
    yes("sad", |lower, instruction| lower.sad(instruction), "integers of 16, 32 and 64 bits"),
    yes("selp", |lower, instruction| lower.selp(instruction), "all types of 16, 32 and 64 bits"),
    yes(
        "set",
        |lower, instruction| lower.set(instruction),
        "integers and floats to integers and floats, with `.and .or .xor`",
    ),
    no("setmaxnreg", "registers that move between warps"),
    yes(
        "setp",
        |lower, instruction| lower.setp(instruction),
        "integers, floats, packed short floats; two results; `.and .or .xor`",
    ),
    yes("shf", |lower, instruction| lower.funnel(instruction), "`.l .r`, `.clamp .wrap`"),
    yes(
        "shfl",
        |lower, instruction| lower.shfl(instruction),
        "`.sync`, and the form without it; `.up .down .bfly .idx`, with and without a predicate",
    ),
    yes("shl", |lower, instruction| lower.shift(instruction), "`.b16 .b32 .b64`"),
    yes("shr", |lower, instruction| lower.shift(instruction), "bits and integers of 16, 32 and 64 bits"),
    yes("sin", |lower, instruction| lower.real_arithmetic(instruction), "as `cos`"),
    yes("slct", |lower, instruction| lower.slct(instruction), "by `.s32` and `.f32`"),
    yes(
        "sqrt",
        |lower, instruction| lower.real_arithmetic(instruction),
        "`.f32 .f64` in every rounding mode; `.approx` is exact",
    ),
    yes("st", |lower, instruction| lower.st(instruction), "as `ld`, with `.release`"),
    no("stackrestore", "stack that grows while a function runs"),
    no("stacksave", "stack that grows while a function runs"),
    no("stmatrix", "tensor-core matrices"),
    yes("sub", |lower, instruction| lower.add_or_sub(instruction), "as `add`"),
    yes("subc", |lower, instruction| lower.add_or_sub(instruction), "`{.cc}`, of 32 and 64 bits"),
    no("suld", "textures and surfaces"),
    no("suq", "textures and surfaces"),
    no("sured", "textures and surfaces"),
    no("sust", "textures and surfaces"),
    yes("szext", |lower, instruction| lower.bit_mask(instruction), "`.clamp .wrap`"),
    yes("tanh", |lower, instruction| lower.real_arithmetic(instruction), "`.approx.f32`, short floats"),
    no("tcgen05", "tensor-core matrices"),
    no("tensormap", "tensor maps"),
    yes("testp", |lower, instruction| lower.testp(instruction), "`.f32 .f64`"),
    no("tex", "textures and surfaces"),
    no("tld4", "textures and surfaces"),
    yes("trap", |lower, instruction| lower.leave(instruction), "ends the kernel with `CUDA_ERROR_LAUNCH_FAILED (719)`"),
    no("txq", "textures and surfaces"),
    no("vabsdiff", "video instructions"),
    yes("vabsdiff2", |lower, instruction| lower.differences(instruction), "`{.sat}` or `.add`, of whole words"),
    yes("vabsdiff4", |lower, instruction| lower.differences(instruction), "as `vabsdiff2`"),
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
    yes(
        "vote",
        |lower, instruction| lower.vote(instruction),
        "`.sync`, and the form without it; `.all .any .uni .ballot`",
    ),
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
    yes("xor", |lower, instruction| lower.logic(instruction), "`.pred .b16 .b32 .b64`"),
];

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn the_names_are_in_order() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
    }
}
