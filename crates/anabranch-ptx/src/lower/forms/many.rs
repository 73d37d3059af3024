//! The forms of instructions that have many.

/// Forms that are made from others by what is put before and behind each.
macro_rules! each {
    ($first:literal $(, $form:literal)* => $after:literal) => {
        concat!($first, $after $(, ", ", $form, $after)*)
    };
}

/// Barriers of a block, with the modifier that only `barrier` has.
macro_rules! barriers {
    ($aligned:literal) => {
        concat!(
            each!(".sync", "cta .sync", "arrive ", "cta.arrive " => $aligned),
            ", red ", $aligned, ".popc.u32, cta.red ", $aligned, ".popc.u32, red ", $aligned, ".and_or.pred, cta.red ",
            $aligned, ".and_or.pred"
        )
    };
}

pub(crate) const BAR: &str = concat!(barriers!(""), ", warp.sync ");
pub(crate) const BARRIER: &str = barriers!("{.aligned}");

/// What an atomic operation may do, behind how it is ordered and where it is done.
macro_rules! atomics {
    ($before:literal) => {
        concat!(
            $before,
            ".add.add_type, ",
            $before,
            ".add.noftz.half, ",
            $before,
            ".add.noftz.brain, ",
            $before,
            ".extreme.long_word, ",
            $before,
            ".count.u32, ",
            $before,
            ".boolean.b32, ",
            $before,
            ".boolean.b64"
        )
    };
}

/// What an atomic operation that returns a value may do beside these.
macro_rules! exchanges {
    ($before:literal) => {
        concat!(atomics!($before), ", ", $before, ".exch.exchanged")
    };
}

pub(crate) const ATOM: &str = concat!(
    exchanges!("{.atomic_sem}{.scope}{.global}{.L2::cache_hint}"),
    ", ",
    exchanges!("{.atomic_sem}{.scope}.shared_space"),
    ", {.atomic_sem}{.scope}{.atomic_space}.cas.compared"
);
pub(crate) const RED: &str = concat!(
    atomics!("{.store_sem}{.scope}{.global}{.L2::cache_hint}"),
    ", ",
    atomics!("{.store_sem}{.scope}.shared_space")
);

/// Loads from global memory, before their vectors and types.
macro_rules! global_loads {
    ($after:literal) => {
        each!(
            "{.weak}{.global}{.load_cop}{.L2::cache_hint}{.prefetch_size}",
            "{.weak}{.global}.l1_eviction{.L2::cache_hint}{.prefetch_size}",
            ".volatile{.global}{.prefetch_size}",
            ".load_sem.scope{.global}{.l1_eviction}{.L2::cache_hint}{.prefetch_size}",
            ".global{.texture_cop}.nc{.L2::cache_hint}{.prefetch_size}",
            ".global.nc.l1_eviction{.L2::cache_hint}{.prefetch_size}"
            => $after
        )
    };
}

pub(crate) const LD: &str = concat!(
    global_loads!("{.vec}.memory"),
    ", ",
    global_loads!(".l2_eviction.v8.of_32_bits"),
    ", ",
    global_loads!(".l2_eviction.v4.of_64_bits"),
    ", {.weak}.own_space{.load_cop}{.vec}.memory, .volatile.block_space{.vec}.memory",
    ", .load_sem.scope.shared_space{.vec}.memory, .mmio.relaxed.sys{.global}.memory"
);

/// Stores to global memory, before their vectors and types.
macro_rules! global_stores {
    ($after:literal) => {
        each!(
            "{.weak}{.global}{.store_cop}{.L2::cache_hint}",
            "{.weak}{.global}.l1_eviction{.L2::cache_hint}",
            ".volatile{.global}",
            ".store_sem.scope{.global}{.l1_eviction}{.L2::cache_hint}"
            => $after
        )
    };
}

pub(crate) const ST: &str = concat!(
    global_stores!("{.vec}.memory"),
    ", ",
    global_stores!(".l2_eviction.v8.of_32_bits"),
    ", ",
    global_stores!(".l2_eviction.v4.of_64_bits"),
    ", {.weak}.store_space{.store_cop}{.vec}.memory, .volatile.block_space{.vec}.memory",
    ", .store_sem.scope.shared_space{.vec}.memory, .mmio.relaxed.sys{.global}.memory"
);

pub(crate) const CVT: &str = concat!(
    ".any_integer.any_integer, .sat.u8.beyond_u8, .sat.u16.beyond_u16, .sat.u32.beyond_u32, .sat.u64.any_signed, ",
    ".sat.s8.beyond_s8, .sat.s16.beyond_s16, .sat.s32.beyond_s32, .sat.s64.u64, ",
    // To integers.
    ".irnd.integer.bf16, .irnd{.sat}.any_integer.f16, .irnd{.ftz}{.sat}.any_integer.f32, .irnd{.sat}.any_integer.f64, ",
    // From integers.
    ".rnd{.sat}.f16.any_integer, .rnd.bf16.integer, .rnd{.ftz}{.sat}.f32.any_integer, .rnd{.sat}.f64.any_integer, ",
    // To integral floats.
    ".irnd{.sat}.f16.f16, .irnd.bf16.bf16, .irnd{.ftz}{.sat}.f32.f32, .irnd{.sat}.f64.f64, ",
    // To floats of as many bits or more.
    ".short.short, .sat.f16.f16, {.ftz}{.sat}.f32.f16, {.ftz}.f32.bf16, {.ftz}{.sat}.f32.f32, {.sat}.f64.f16, ",
    ".f64.bf16, {.ftz}{.sat}.f64.f32, {.sat}.f64.f64, .rnd{.ftz}.f32.bf16, .rnd.f64.bf16, ",
    // To floats of fewer bits.
    ".rnd.f16.bf16, .rnd.bf16.f16, .rnd{.ftz}{.sat}.f16.f32, .rnd{.sat}.f16.f64, .rnd{.ftz}.bf16.f32, .rnd.bf16.f64, ",
    ".rnd{.ftz}{.sat}.f32.f64, .nearest_or_zero.relu.short.f32, .nearest_or_zero{.relu}.short_pair.f32, ",
    ".tensor_rnd.tf32.f32, pack .sat.short_integer.s32, pack .sat.small.s32.b32"
);

pub(crate) const FENCE: &str = concat!(
    "{.fence_sem}.scope, .acquire.sync_restrict::shared::cluster.cluster, .release.sync_restrict::shared::cta.cluster, ",
    ".mbarrier_init.release.cluster{.sync_restriction}, proxy .alias{.sync_restriction}, ",
    "proxy .async{.async_space}{.sync_restriction}, ",
    "proxy .async::generic.acquire.sync_restrict::shared::cluster.cluster{.any_space}, ",
    "proxy .async::generic.release.sync_restrict::shared::cta.cluster{.any_space}"
);

/// Instructions of barrier objects, before the space that these are in.
pub(crate) const MBARRIER: &str = concat!(
    each!(
        "init ", "inval ", "arrive ", "arrive .arrive_sem.near_scope", "arrive .noComplete", "arrive .noComplete.release.cta",
        "arrive_drop ", "arrive_drop .arrive_sem.near_scope", "arrive_drop .noComplete",
        "arrive_drop .noComplete.release.cta", "test_wait ", "test_wait .wait_sem.near_scope", "try_wait ",
        "try_wait .wait_sem.near_scope", "test_wait.parity ", "test_wait.parity .wait_sem.near_scope", "try_wait.parity ",
        "try_wait.parity .wait_sem.near_scope" => "{.shared_space}.b64"
    ),
    ", pending_count .b64"
);

pub(crate) const SET: &str = concat!(
    ".equality{.boolean}.set_result.bits, .order{.boolean}.set_result.integer, ",
    ".unsigned_order{.boolean}.set_result.unsigned, .comparison{.boolean}{.ftz}.flushing_result.f32, ",
    ".comparison{.boolean}.bf16.f32, .comparison{.boolean}.set_result.f64, ",
    ".comparison{.boolean}{.ftz}.half_result.f16, .comparison{.boolean}.bf16.f16, .comparison{.boolean}.brain_result.bf16, ",
    ".comparison{.boolean}{.ftz}.word.f16x2, .comparison{.boolean}{.ftz}.f16x2.f16x2, .comparison{.boolean}.word.bf16x2, ",
    ".comparison{.boolean}.bf16x2.bf16x2"
);
