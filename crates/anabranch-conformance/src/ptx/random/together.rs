//! What threads do together.

/// An operation of all threads on a place that they share. Their order makes no difference.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sum {
    /// The operation with its type.
    pub(super) operation: &'static str,
    /// What the place has before.
    pub(super) start: u64,
}

/// The operations, with the letter of their operand, and what the place has before.
pub(super) const SUMS: [(&str, char, u64); 14] = [
    ("add.u32", 'w', 5),
    ("add.u64", 'l', 0xffff_fff0),
    ("min.s32", 'w', 1000),
    ("min.u32", 'w', 0xffff_ffff),
    ("max.s32", 'w', 0),
    ("max.u32", 'w', 0),
    ("min.s64", 'l', 0),
    ("max.u64", 'l', 1),
    ("and.b32", 'w', 0xffff_ffff),
    ("or.b64", 'l', 0),
    ("xor.b32", 'w', 0),
    ("xor.b64", 'l', 1),
    ("inc.u32", 'c', 3),
    ("dec.u32", 'c', 3),
];

/// The lanes of a warp that go one way, and those that go the other, as masks, with the bits of a lane's number by which the
/// lanes of a part differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) mask: u32,
    pub(super) inside: u32,
}

/// Both parts: of low and high lanes, or of even and odd ones.
pub(super) const PARTS: [[Part; 2]; 3] = [
    [Part { mask: 0x0000_ffff, inside: 15 }, Part { mask: 0xffff_0000, inside: 15 }],
    [Part { mask: 0x5555_5555, inside: 30 }, Part { mask: 0xaaaa_aaaa, inside: 30 }],
    [Part { mask: 0x0f0f_0f0f, inside: 27 }, Part { mask: 0xf0f0_f0f0, inside: 27 }],
];

/// Forms for the lanes of a mask, which all run them: letters and texts with `MASK`, and `INSIDE` for the bits by which they
/// differ.
pub(super) const MASKED: [(&str, &str); 20] = [
    ("pp", "vote.sync.all.pred %d, %a, MASK;"),
    ("pp", "vote.sync.any.pred %d, !%a, MASK;"),
    ("pp", "vote.sync.uni.pred %d, %a, MASK;"),
    ("wp", "vote.sync.ballot.b32 %d, %a, MASK;"),
    ("wz", "match.any.sync.b32 %d, %a, MASK;"),
    ("wt", "match.any.sync.b64 %d, %a, MASK;"),
    ("wz", "match.all.sync.b32 %d|%q, %a, MASK; @%q not.b32 %d, %d;"),
    ("ww", "redux.sync.add.u32 %d, %a, MASK;"),
    ("ww", "redux.sync.min.s32 %d, %a, MASK;"),
    ("ww", "redux.sync.max.u32 %d, %a, MASK;"),
    ("ww", "redux.sync.xor.b32 %d, %a, MASK;"),
    ("ww", "redux.sync.and.b32 %d, %a, MASK;"),
    ("www", "and.b32 %x, %b, INSIDE; shfl.sync.bfly.b32 %d, %a, %x, 31, MASK;"),
    (
        "www",
        "and.b32 %x, %b, INSIDE; not.b32 %y, INSIDE; and.b32 %y, %y, %lane; or.b32 %x, %x, %y; \
         shfl.sync.idx.b32 %d|%q, %a, %x, 31, MASK; @%q add.u32 %d, %d, 3;",
    ),
    (
        "lll",
        "mov.b64 {%x, %y}, %a; shfl.sync.bfly.b32 %x|%q, %x, INSIDE, 31, MASK; mov.b64 %u, {%x, %y}; xor.b64 %d, %u, %b;",
    ),
    ("ww", "bar.warp.sync MASK; redux.sync.or.b32 %d, %a, MASK;"),
    // Which lane is elected is not said, but it is one of the mask.
    (
        "ww",
        "elect.sync %x|%q, MASK; vote.sync.ballot.b32 %y, %q, MASK; shl.b32 %x, 1, %x; sub.u32 %x, %x, %y; popc.b32 %y, %y; \
         mad.lo.u32 %d, %x, 77, %y; xor.b32 %d, %d, %a;",
    ),
    // Of the lanes that are active, only the own one is known to be.
    ("ww", "activemask.b32 %x; and.b32 %y, %lane, 31; shr.u32 %x, %x, %y; and.b32 %x, %x, 1; add.u32 %d, %x, %a;"),
    ("wp", "vote.sync.ballot.b32 %x, %a, MASK; mov.u32 %y, %lanemask_lt; and.b32 %x, %x, %y; popc.b32 %d, %x;"),
    ("ww", "redux.sync.max.s32 %x, %a, MASK; setp.eq.s32 %q, %x, %a; vote.sync.ballot.b32 %d, %q, MASK;"),
];

/// Forms of one thread that are no forms of the sweeps: special registers, the table of constants, and inputs, which are only
/// read.
pub(super) const OTHERS: [(&str, &str); 14] = [
    ("ww", "mov.u32 %x, %laneid; add.u32 %d, %x, %a;"),
    ("ww", "mov.u32 %x, %lanemask_le; mov.u32 %y, %lanemask_gt; mad.lo.u32 %d, %x, 3, %y; xor.b32 %d, %d, %a;"),
    ("ww", "mov.u32 %x, %ntid.x; mov.u32 %y, %nctaid.x; mad.lo.u32 %d, %x, %y, %a;"),
    (
        "lw",
        "and.b32 %x, %a, 14; mul.wide.u32 %u, %x, 4; mov.u64 %v, NAME_table; add.u64 %u, %u, %v; ld.const.b64 %d, [%u];",
    ),
    (
        "ww",
        "and.b32 %x, %a, 60; cvt.u64.u32 %u, %x; mov.u64 %v, NAME_table; cvta.const.u64 %v, %v; add.u64 %v, %v, %u; \
         ld.s8 %d, [%v+1];",
    ),
    (
        "w",
        "ld.const.v4.b32 {%x, %y, %w, %m}, [NAME_table+16]; add.u32 %x, %x, %w; xor.b32 %y, %y, %m; sub.u32 %d, %y, %x;",
    ),
    ("l", "ldu.global.b64 %d, [%in+64];"),
    ("l", "ld.global.nc.b64 %d, [%in+32];"),
    ("w", "ld.global.nc.u8 %d, [%in+9];"),
    ("w", "ld.volatile.global.s16 %d, [%in+2];"),
    (
        "ll",
        "st.global.b64 [%own], %a; fence.acq_rel.gpu; ld.relaxed.sys.global.b32 %x, [%own+4]; membar.gl; cvt.s64.s32 %d, %x;",
    ),
    (
        "ll",
        "st.shared.b64 [%mine+8], %a; membar.cta; atom.shared.exch.b64 %u, [%mine+8], 7; fence.sc.cta; add.u64 %d, %u, 1;",
    ),
    ("pp", "mov.pred %d, %a;"),
    ("ppw", "setp.gt.and.s32 %d|%q, %b, 0, %a; xor.pred %d, %d, %q;"),
];
