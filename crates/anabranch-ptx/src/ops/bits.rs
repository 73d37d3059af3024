//! Logic, bit fields, permutations and dot products.

use super::{functions, plain_functions};
use crate::machine::{Body, Form, LANES, Lanes, Op, Step, Vectors, Width};

/// Bits: an unsigned integer of 16, 32 or 64.
pub(crate) trait Bits: Copy + Default {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn not(self) -> Self;
    fn ones(self) -> u32;
    fn leading(self) -> u32;
    fn reversed(self) -> Self;
    fn extract_unsigned(self, position: u32, length: u32) -> Self;
    fn extract_signed(self, position: u32, length: u32) -> Self;
    fn insert(self, into: Self, position: u32, length: u32) -> Self;
    fn find_unsigned(self) -> u32;
    fn find_signed(self) -> u32;
    fn bitmask(position: u32, length: u32) -> Self;
    const BITS: u32;
    /// The bits that count of positions and lengths of fields. The manual allows 0 to 255; for 64 bits, hardware takes all.
    const FIELD: u32 = if Self::BITS == 64 { !0 } else { 255 };
}

macro_rules! bits {
    ($($type:ident $signed:ident)*) => {$(
        impl Bits for $type {
            const BITS: u32 = $type::BITS;
            #[inline(always)]
            fn and(self, other: $type) -> $type { self & other }
            #[inline(always)]
            fn or(self, other: $type) -> $type { self | other }
            #[inline(always)]
            fn xor(self, other: $type) -> $type { self ^ other }
            #[inline(always)]
            fn not(self) -> $type { !self }
            #[inline(always)]
            fn ones(self) -> u32 { self.count_ones() }
            #[inline(always)]
            fn leading(self) -> u32 { self.leading_zeros() }
            #[inline(always)]
            fn reversed(self) -> $type { self.reverse_bits() }
            #[inline(always)]
            fn extract_unsigned(self, position: u32, length: u32) -> $type {
                let (position, length) = (position & Self::FIELD, length & Self::FIELD);
                let shifted = if position < $type::BITS { self >> position } else { 0 };
                if length < $type::BITS { shifted & !(!0 << length) } else { shifted }
            }
            #[inline(always)]
            fn extract_signed(self, position: u32, length: u32) -> $type {
                let (position, length) = (position & Self::FIELD, length & Self::FIELD);
                let last = $type::BITS - 1;
                if length == 0 { return 0; }
                let top = position.saturating_add(length - 1).min(last);
                // The bit that fills what is above the field.
                let fill = (self >> top) & 1;
                let field = self.extract_unsigned(position, length);
                let known = if position > last { 0 } else { top + 1 - position };
                if fill == 0 || known >= $type::BITS { field } else { field | !0 << known }
            }
            #[inline(always)]
            fn insert(self, into: $type, position: u32, length: u32) -> $type {
                let (position, length) = (position & Self::FIELD, length & Self::FIELD);
                let mask = $type::bitmask(position, length);
                let shifted = if position < $type::BITS { self << position } else { 0 };
                (into & !mask) | (shifted & mask)
            }
            #[inline(always)]
            fn find_unsigned(self) -> u32 { if self == 0 { !0 } else { $type::BITS - 1 - self.leading_zeros() } }
            #[inline(always)]
            fn find_signed(self) -> u32 {
                let other = if (self as $signed) < 0 { !self } else { self };
                other.find_unsigned()
            }
            #[inline(always)]
            fn bitmask(position: u32, length: u32) -> $type {
                if position >= $type::BITS || length == 0 { return 0; }
                let ones: $type = if length < $type::BITS { !(!0 << length) } else { !0 };
                ones << position
            }
        }
    )*};
}
bits!(u16 i16 u32 i32 u64 i64);

functions! {
    Not<T: Bits>(a: T) -> T { a.not() }
    /// `cnot`: logical negation.
    Ones<T: Bits>(a: T) -> u32 { a.ones() }
    Leading<T: Bits>(a: T) -> u32 { a.leading() }
    Reverse<T: Bits>(a: T) -> T { a.reversed() }
    FindUnsigned<T: Bits>(a: T) -> u32 { a.find_unsigned() }
    FindSigned<T: Bits>(a: T) -> u32 { a.find_signed() }
    /// `bfind.shiftamt`: how far to shift the bit that is found to the top.
    ShiftUnsigned<T: Bits>(a: T) -> u32 { { let found = a.find_unsigned(); if found == !0 { found } else { T::BITS - 1 - found } } }
    ShiftSigned<T: Bits>(a: T) -> u32 { { let found = a.find_signed(); if found == !0 { found } else { T::BITS - 1 - found } } }
    Copied<T: Bits>(a: T) -> T { a }
}

functions! {
    And<T: Bits>(a: T, b: T) -> T { a.and(b) }
    Or<T: Bits>(a: T, b: T) -> T { a.or(b) }
    Xor<T: Bits>(a: T, b: T) -> T { a.xor(b) }
}

functions! {
    ExtractUnsigned<T: Bits>(a: T, b: u32, c: u32) -> T { a.extract_unsigned(b, c) }
    ExtractSigned<T: Bits>(a: T, b: u32, c: u32) -> T { a.extract_signed(b, c) }
}

/// `cnot`: one for zero, and else zero.
pub(crate) struct LogicalNot<T>(std::marker::PhantomData<T>);
macro_rules! logical_not {
    ($($type:ident)*) => {$(
        impl super::Fn1 for LogicalNot<$type> {
            type A = $type;
            type D = $type;
            #[inline(always)]
            fn apply(a: $type) -> $type { $type::from(a == 0) }
        }
    )*};
}
logical_not!(u16 u32 u64);

plain_functions! {
    FunnelLeftWrap(a: u32, b: u32, c: u32) -> u32 { (((u64::from(b) << 32 | u64::from(a)) << (c & 31)) >> 32) as u32 }
    FunnelLeftClamp(a: u32, b: u32, c: u32) -> u32 { (((u64::from(b) << 32 | u64::from(a)) << (if c < 32 { c } else { 32 })) >> 32) as u32 }
    FunnelRightWrap(a: u32, b: u32, c: u32) -> u32 { ((u64::from(b) << 32 | u64::from(a)) >> (c & 31)) as u32 }
    FunnelRightClamp(a: u32, b: u32, c: u32) -> u32 { ((u64::from(b) << 32 | u64::from(a)) >> (if c < 32 { c } else { 32 })) as u32 }
    DotUnsigned(a: u32, b: u32, c: u32) -> u32 { dot4(a, b, c, false, false) }
    DotSigned(a: u32, b: u32, c: u32) -> u32 { dot4(a, b, c, true, true) }
    DotUnsignedSigned(a: u32, b: u32, c: u32) -> u32 { dot4(a, b, c, false, true) }
    DotSignedUnsigned(a: u32, b: u32, c: u32) -> u32 { dot4(a, b, c, true, false) }
    /// `fns`: the position of the `c`th set bit of `a`, from `b`.
    FindNth(a: u32, b: u32, c: u32) -> u32 { find_nth(a, b, c.cast_signed()) }
    Permute(a: u32, b: u32, c: u32) -> u32 { permute(a, b, c) }
    PermuteForward4(a: u32, b: u32, c: u32) -> u32 { ((u64::from(b) << 32 | u64::from(a)) >> (8 * (c & 3))) as u32 }
    PermuteBackward4(a: u32, b: u32, c: u32) -> u32 { permute(a, b, [0x5670, 0x6701, 0x7012, 0x0123][(c & 3) as usize]) }
    PermuteReplicate8(a: u32, _b: u32, c: u32) -> u32 { (a >> (8 * (c & 3)) & 255) * 0x0101_0101 }
    PermuteEdgeLeft(a: u32, b: u32, c: u32) -> u32 { permute(a, b, [0x3210, 0x3211, 0x3222, 0x3333][(c & 3) as usize]) }
    PermuteEdgeRight(a: u32, b: u32, c: u32) -> u32 { permute(a, b, [0x0000, 0x1110, 0x2210, 0x3210][(c & 3) as usize]) }
    PermuteReplicate16(a: u32, _b: u32, c: u32) -> u32 { (a >> (16 * (c & 1)) & 0xffff) * 0x0001_0001 }
}

plain_functions! {
    MaskClamp(a: u32, b: u32) -> u32 { u32::bitmask(a, b) }
    MaskWrap(a: u32, b: u32) -> u32 { u32::bitmask(a & 31, b & 31) }
    ExtendSignedClamp(a: u32, b: u32) -> u32 { if b >= 32 { a } else { a.extract_signed(0, b) } }
    ExtendSignedWrap(a: u32, b: u32) -> u32 { a.extract_signed(0, b & 31) }
    ExtendUnsignedClamp(a: u32, b: u32) -> u32 { if b >= 32 { a } else { a.extract_unsigned(0, b) } }
    ExtendUnsignedWrap(a: u32, b: u32) -> u32 { a.extract_unsigned(0, b & 31) }
}

#[inline(always)]
fn part(value: u32, shift: u32, bits: u32, signed: bool) -> i32 {
    let up = value << (32 - bits - shift);
    if signed { up.cast_signed() >> (32 - bits) } else { (up >> (32 - bits)).cast_signed() }
}

#[inline(always)]
fn dot4(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    let mut sum = c;
    for byte in 0..4 {
        let product = part(a, 8 * byte, 8, a_signed) * part(b, 8 * byte, 8, b_signed);
        sum = sum.wrapping_add(product.cast_unsigned());
    }
    sum
}

fn find_nth(value: u32, base: u32, offset: i32) -> u32 {
    let base = base & 31;
    if offset == 0 {
        return if value >> base & 1 != 0 { base } else { !0 };
    }
    let mut left = offset.unsigned_abs();
    let mut position = base.cast_signed();
    while (0..32).contains(&position) {
        if value >> position & 1 != 0 {
            left -= 1;
            if left == 0 {
                return position.cast_unsigned();
            }
        }
        position += offset.signum();
    }
    !0
}

#[inline(always)]
fn permute(a: u32, b: u32, control: u32) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let mut value = 0;
    for place in 0..4 {
        let selector = control >> (4 * place);
        let byte = (bytes >> (8 * (selector & 7))) as u32 & 255;
        let filled = if byte & 128 != 0 { 255 } else { 0 };
        value |= (if selector & 8 != 0 { filled } else { byte }) << (8 * place);
    }
    value
}

/// `dp2a`: `flags` has bits for the signs of `a` and `b`, and for the high half of `b`.
pub(crate) struct Dot2;
impl Body for Dot2 {
    const FORM: Form = Form::three(Width::W32, Width::W32, Width::W32, Width::W32);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let (a_signed, b_signed, high) = (op.flags & 1 != 0, op.flags & 2 != 0, op.flags >> 2 & 1);
        // SAFETY: the slots are planes of 32 bits.
        unsafe {
            let [a, b, c] = [op.a, op.b, op.c].map(|slot| *lanes.plane::<u32>(slot));
            let mut values = [0u32; LANES];
            for lane in 0..LANES {
                let mut sum = c[lane];
                for half in 0..2 {
                    let product = part(a[lane], 16 * half, 16, a_signed).wrapping_mul(part(
                        b[lane],
                        8 * half + 16 * high,
                        8,
                        b_signed,
                    ));
                    sum = sum.wrapping_add(product.cast_unsigned());
                }
                values[lane] = sum;
            }
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}

/// `bfi`: `a` into `b`, at the position `c`, of the length `e`.
pub(crate) struct Insert<T>(std::marker::PhantomData<T>);
impl<T: Bits> Body for Insert<T> {
    const FORM: Form =
        Form::three(Width::of_type::<T>(), Width::of_type::<T>(), Width::of_type::<T>(), Width::W32).with(Width::W32);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the slots are planes of these types.
        unsafe {
            let [a, b] = [op.a, op.b].map(|slot| *lanes.plane::<T>(slot));
            let [c, e] = [op.c, op.e].map(|slot| *lanes.plane::<u32>(slot));
            let mut values = [T::default(); LANES];
            for lane in 0..LANES {
                values[lane] = a[lane].insert(b[lane], c[lane], e[lane]);
            }
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}

/// `lop3`: any function of three bits, whose values are those of `imm`.
pub(crate) struct Lookup;
impl Body for Lookup {
    const FORM: Form = Form::three(Width::W32, Width::W32, Width::W32, Width::W32);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        let chosen: [u32; 8] = std::array::from_fn(|bit| if op.imm >> bit & 1 != 0 { !0 } else { 0 });
        // SAFETY: the slots are planes of 32 bits.
        unsafe {
            let [a, b, c] = [op.a, op.b, op.c].map(|slot| *lanes.plane::<u32>(slot));
            let mut values = [0u32; LANES];
            for lane in 0..LANES {
                let (a, b, c) = (a[lane], b[lane], c[lane]);
                values[lane] = chosen[0] & !a & !b & !c
                    | chosen[1] & !a & !b & c
                    | chosen[2] & !a & b & !c
                    | chosen[3] & !a & b & c
                    | chosen[4] & a & !b & !c
                    | chosen[5] & a & !b & c
                    | chosen[6] & a & b & !c
                    | chosen[7] & a & b & c;
            }
            lanes.set_plane(op.d, &values);
        }
        Step::Next
    }
}

/// Logic of predicates: the values for the four cases are bits of `imm`; the case has `a` as its high bit.
pub(crate) struct PredicateLogic;
impl Body for PredicateLogic {
    const FORM: Form = Form::two(Width::Predicate, Width::Predicate, Width::Predicate);

    #[inline(always)]
    unsafe fn run<V: Vectors>(lanes: &mut Lanes<'_>, op: &Op) -> Step {
        // SAFETY: the slots are predicates.
        unsafe {
            let (a, b) = (lanes.predicate(op.a), lanes.predicate(op.b));
            let cases = [!a & !b, !a & b, a & !b, a & b];
            let mut bits = 0;
            for (case, lanes_of_case) in cases.into_iter().enumerate() {
                if op.imm >> case & 1 != 0 {
                    bits |= lanes_of_case;
                }
            }
            lanes.set_predicate(op.d, bits);
        }
        Step::Next
    }
}
