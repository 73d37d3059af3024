//! What is done with blocks and with addresses by the vectors of each level.

/// Lanes that are looked at together: threads of a block often stand in rows of 16.
pub(crate) const ROW: usize = 16;

/// What the vectors of a level do.
///
/// The vectors are as wide as those that other operations read and write, so that these need not wait until what was
/// written in smaller parts has reached memory.
pub(crate) trait Vectors {
    /// Copies `BYTES` bytes, a multiple of 16: as relaxed atomic loads of words of 4 bytes, and as relaxed atomic stores of
    /// such words. Bytes are copied in any order.
    ///
    /// # Safety
    ///
    /// The bytes of `from` may be read and those of `to` may be written with atomic accesses, and the processor has the
    /// vectors.
    unsafe fn copy<const BYTES: usize>(from: *const u8, to: *mut u8);

    /// Adds a number to 32 numbers. Both arrays may be the same.
    ///
    /// # Safety
    ///
    /// The processor has the vectors, and both arrays exist.
    #[inline(always)]
    unsafe fn sums(from: *const [u64; 32], number: u64, to: *mut [u64; 32]) {
        for lane in 0..32 {
            // SAFETY: both arrays exist, as the caller promises.
            unsafe { (*to)[lane] = (*from)[lane].wrapping_add(number) };
        }
    }

    /// The bits that any of 32 numbers has.
    ///
    /// # Safety
    ///
    /// The processor has the vectors.
    #[inline(always)]
    unsafe fn bits(numbers: &[u64; 32]) -> u64 {
        folded(numbers, 0, |all, number| all | number)
    }

    /// The least and the most of 32 numbers.
    ///
    /// # Safety
    ///
    /// The processor has the vectors.
    #[inline(always)]
    unsafe fn range(numbers: &[u64; 32]) -> (u64, u64) {
        (folded(numbers, u64::MAX, u64::min), folded(numbers, 0, u64::max))
    }

    /// A bit for each of 32 bytes, which are 0 or 1.
    ///
    /// # Safety
    ///
    /// The processor has the vectors.
    #[inline(always)]
    unsafe fn mask(holds: &[u8; 32]) -> u32 {
        holds.iter().enumerate().fold(0, |bits, (lane, holds)| bits | u32::from(*holds) << lane)
    }

    /// Whether the addresses of some lanes are `stride` bytes from each other. They are those of a row or of two.
    ///
    /// # Safety
    ///
    /// The processor has the vectors.
    #[inline(always)]
    unsafe fn strided<const LANES: usize>(addresses: &[u64; LANES], stride: u64) -> bool {
        let first = addresses[0];
        if addresses[1].wrapping_sub(first) != stride {
            return false;
        }
        let mut difference = 0;
        for (lane, address) in addresses.iter().enumerate() {
            difference |= address ^ first.wrapping_add(stride.wrapping_mul(lane as u64));
        }
        difference == 0
    }

    /// The same of addresses of 32 bits.
    ///
    /// # Safety
    ///
    /// The processor has the vectors.
    #[inline(always)]
    unsafe fn strided_narrow<const LANES: usize>(addresses: &[u32; LANES], stride: u32) -> bool {
        let first = addresses[0];
        let mut difference = 0;
        for (lane, address) in addresses.iter().enumerate() {
            difference |= address ^ first.wrapping_add(stride.wrapping_mul(lane as u32));
        }
        difference == 0
    }
}

/// All values together, by a function whose order does not matter.
#[inline(always)]
fn folded(values: &[u64; 32], start: u64, combine: impl Fn(u64, u64) -> u64) -> u64 {
    let mut all = [start; 8];
    for chunk in values.chunks_exact(8) {
        for (one, value) in all.iter_mut().zip(chunk) {
            *one = combine(*one, *value);
        }
    }
    all.into_iter().fold(start, combine)
}

/// 16 bytes at a time, or words where no assembly is.
pub(crate) struct Short;

#[cfg(target_arch = "x86_64")]
/// 32 bytes at a time.
pub(crate) struct Middle;

#[cfg(target_arch = "x86_64")]
/// 64 bytes at a time.
pub(crate) struct Long;

/// Copies four vectors at a time and then one at a time: the size of a vector, the instruction, and the vectors' register.
#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! steps {
    ($from:ident, $to:ident, $start:expr, $end:expr, $step:literal, $move:literal, $register:literal) => {
        let mut at = $start;
        while at + 4 * $step <= $end {
            // SAFETY: both ranges have these bytes, as the caller promises. The processor accesses each aligned word of the
            // vectors at once, as relaxed atomic accesses do.
            unsafe {
                std::arch::asm!(
                    concat!($move, " ", $register, "12, [{from}]"),
                    concat!($move, " ", $register, "13, [{from} + ", $step, "]"),
                    concat!($move, " ", $register, "14, [{from} + 2 * ", $step, "]"),
                    concat!($move, " ", $register, "15, [{from} + 3 * ", $step, "]"),
                    concat!($move, " [{to}], ", $register, "12"),
                    concat!($move, " [{to} + ", $step, "], ", $register, "13"),
                    concat!($move, " [{to} + 2 * ", $step, "], ", $register, "14"),
                    concat!($move, " [{to} + 3 * ", $step, "], ", $register, "15"),
                    from = in(reg) $from.add(at),
                    to = in(reg) $to.add(at),
                    out("xmm12") _,
                    out("xmm13") _,
                    out("xmm14") _,
                    out("xmm15") _,
                    options(nostack, preserves_flags),
                );
            }
            at += 4 * $step;
        }
        while at < $end {
            // SAFETY: as above.
            unsafe {
                std::arch::asm!(
                    concat!($move, " ", $register, "15, [{from}]"),
                    concat!($move, " [{to}], ", $register, "15"),
                    from = in(reg) $from.add(at),
                    to = in(reg) $to.add(at),
                    out("xmm15") _,
                    options(nostack, preserves_flags),
                );
            }
            at += $step;
        }
    };
}

impl Vectors for Short {
    #[inline(always)]
    unsafe fn copy<const BYTES: usize>(from: *const u8, to: *mut u8) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            steps!(from, to, 0, BYTES, 16, "movups", "xmm");
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        {
            use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
            // SAFETY: both ranges have these bytes, as the caller promises, and words are aligned where they are accessed.
            unsafe {
                if (from.addr() | to.addr()).is_multiple_of(4) {
                    for at in (0..BYTES).step_by(4) {
                        let value = AtomicU32::from_ptr(from.add(at).cast_mut().cast()).load(Ordering::Relaxed);
                        AtomicU32::from_ptr(to.add(at).cast()).store(value, Ordering::Relaxed);
                    }
                } else {
                    for at in 0..BYTES {
                        let value = AtomicU8::from_ptr(from.add(at).cast_mut()).load(Ordering::Relaxed);
                        AtomicU8::from_ptr(to.add(at)).store(value, Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Vectors for Middle {
    #[inline(always)]
    unsafe fn mask(holds: &[u8; 32]) -> u32 {
        // SAFETY: the caller's promise is passed on.
        unsafe { named::mask(holds) }
    }

    #[inline(always)]
    unsafe fn strided<const LANES: usize>(addresses: &[u64; LANES], stride: u64) -> bool {
        // SAFETY: the caller's promise is passed on.
        unsafe { named::strided_in_four(addresses, stride) }
    }

    #[inline(always)]
    unsafe fn strided_narrow<const LANES: usize>(addresses: &[u32; LANES], stride: u32) -> bool {
        // SAFETY: the caller's promise is passed on.
        unsafe { named::strided_in_eight(addresses, stride) }
    }

    #[inline(always)]
    unsafe fn copy<const BYTES: usize>(from: *const u8, to: *mut u8) {
        #[cfg(not(miri))]
        {
            steps!(from, to, 0, BYTES, 32, "vmovups", "ymm");
        }
        #[cfg(miri)]
        // SAFETY: the caller's promise is passed on.
        unsafe {
            Short::copy::<BYTES>(from, to);
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Vectors for Long {
    #[inline(always)]
    unsafe fn mask(holds: &[u8; 32]) -> u32 {
        // SAFETY: the caller's promise is passed on.
        unsafe { named::mask(holds) }
    }

    #[inline(always)]
    unsafe fn copy<const BYTES: usize>(from: *const u8, to: *mut u8) {
        #[cfg(not(miri))]
        {
            let whole = BYTES / 64 * 64;
            steps!(from, to, 0, whole, 64, "vmovups", "zmm");
            steps!(from, to, whole, BYTES, 32, "vmovups", "ymm");
        }
        #[cfg(miri)]
        // SAFETY: the caller's promise is passed on.
        unsafe {
            Short::copy::<BYTES>(from, to);
        }
    }

    #[inline(always)]
    unsafe fn sums(from: *const [u64; 32], number: u64, to: *mut [u64; 32]) {
        // SAFETY: the caller's promise is passed on.
        unsafe { named::sums(from, number, to) }
    }

    #[inline(always)]
    unsafe fn bits(numbers: &[u64; 32]) -> u64 {
        // SAFETY: the caller's promise is passed on.
        unsafe { named::bits(numbers) }
    }

    #[inline(always)]
    unsafe fn range(numbers: &[u64; 32]) -> (u64, u64) {
        // SAFETY: the caller's promise is passed on.
        unsafe { named::range(numbers) }
    }

    #[inline(always)]
    unsafe fn strided<const LANES: usize>(addresses: &[u64; LANES], stride: u64) -> bool {
        // SAFETY: the caller's promise is passed on.
        unsafe { named::strided(addresses, stride) }
    }

    #[inline(always)]
    unsafe fn strided_narrow<const LANES: usize>(addresses: &[u32; LANES], stride: u32) -> bool {
        // SAFETY: the caller's promise is passed on.
        unsafe { named::strided_narrow(addresses, stride) }
    }
}

/// AVX2 and AVX-512 by their own names: the compiler takes loops over 32 lanes with reductions apart into single registers.
#[cfg(target_arch = "x86_64")]
mod named {
    use std::arch::x86_64::{
        __m512i, _mm256_add_epi32, _mm256_add_epi64, _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_mullo_epi32,
        _mm256_or_si256, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi32, _mm256_setr_epi64x,
        _mm256_setzero_si256, _mm256_slli_epi16, _mm256_testz_si256, _mm256_xor_si256, _mm512_add_epi32,
        _mm512_add_epi64, _mm512_cmpneq_epi32_mask, _mm512_cmpneq_epi64_mask, _mm512_loadu_epi32, _mm512_loadu_epi64,
        _mm512_max_epu64, _mm512_min_epu64, _mm512_mullo_epi32, _mm512_mullo_epi64, _mm512_or_si512,
        _mm512_reduce_max_epu64, _mm512_reduce_min_epu64, _mm512_reduce_or_epi64, _mm512_set1_epi32, _mm512_set1_epi64,
        _mm512_setr_epi32, _mm512_setr_epi64, _mm512_storeu_epi64,
    };

    /// The numbers, eight at a time.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn vectors(numbers: *const [u64; 32]) -> [__m512i; 4] {
        let start = numbers.cast::<i64>();
        // SAFETY: the array has 32 numbers, as the caller promises.
        unsafe {
            [
                _mm512_loadu_epi64(start),
                _mm512_loadu_epi64(start.add(8)),
                _mm512_loadu_epi64(start.add(16)),
                _mm512_loadu_epi64(start.add(24)),
            ]
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn mask(holds: &[u8; 32]) -> u32 {
        // SAFETY: the array has 32 bytes.
        let bytes = unsafe { _mm256_loadu_si256(holds.as_ptr().cast()) };
        // The lowest bit of each byte becomes its highest one.
        _mm256_movemask_epi8(_mm256_slli_epi16::<7>(bytes)).cast_unsigned()
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) unsafe fn sums(from: *const [u64; 32], number: u64, to: *mut [u64; 32]) {
        let number = _mm512_set1_epi64(number.cast_signed());
        // SAFETY: both arrays have 32 numbers, as the caller promises.
        unsafe {
            let all = vectors(from);
            for (index, vector) in all.into_iter().enumerate() {
                _mm512_storeu_epi64(to.cast::<i64>().add(8 * index), _mm512_add_epi64(vector, number));
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) unsafe fn bits(numbers: &[u64; 32]) -> u64 {
        // SAFETY: the array has 32 numbers.
        let [a, b, c, d] = unsafe { vectors(numbers) };
        _mm512_reduce_or_epi64(_mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d))).cast_unsigned()
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) unsafe fn range(numbers: &[u64; 32]) -> (u64, u64) {
        // SAFETY: the array has 32 numbers.
        let [a, b, c, d] = unsafe { vectors(numbers) };
        let least = _mm512_min_epu64(_mm512_min_epu64(a, b), _mm512_min_epu64(c, d));
        let most = _mm512_max_epu64(_mm512_max_epu64(a, b), _mm512_max_epu64(c, d));
        (_mm512_reduce_min_epu64(least), _mm512_reduce_max_epu64(most))
    }

    // What follows has no features of its own, so that it can be inlined always: callers have them.

    #[inline(always)]
    pub(super) unsafe fn strided<const LANES: usize>(addresses: &[u64; LANES], stride: u64) -> bool {
        // SAFETY: the processor has AVX-512, as the caller promises, and each load reads 8 addresses.
        unsafe {
            let step = _mm512_set1_epi64(8u64.wrapping_mul(stride).cast_signed());
            let lanes =
                _mm512_mullo_epi64(_mm512_set1_epi64(stride.cast_signed()), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
            let mut expected = _mm512_add_epi64(_mm512_set1_epi64(addresses[0].cast_signed()), lanes);
            let mut differs = 0;
            for own in addresses.as_chunks::<8>().0 {
                differs |= _mm512_cmpneq_epi64_mask(_mm512_loadu_epi64(own.as_ptr().cast()), expected);
                expected = _mm512_add_epi64(expected, step);
            }
            differs == 0
        }
    }

    #[inline(always)]
    pub(super) unsafe fn strided_narrow<const LANES: usize>(addresses: &[u32; LANES], stride: u32) -> bool {
        // SAFETY: the processor has AVX-512, as the caller promises, and each load reads 16 addresses.
        unsafe {
            let step = _mm512_set1_epi32(16u32.wrapping_mul(stride).cast_signed());
            let lanes = _mm512_mullo_epi32(
                _mm512_set1_epi32(stride.cast_signed()),
                _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
            );
            let mut expected = _mm512_add_epi32(_mm512_set1_epi32(addresses[0].cast_signed()), lanes);
            let mut differs = 0;
            for own in addresses.as_chunks::<16>().0 {
                differs |= _mm512_cmpneq_epi32_mask(_mm512_loadu_epi32(own.as_ptr().cast()), expected);
                expected = _mm512_add_epi32(expected, step);
            }
            differs == 0
        }
    }

    /// Addresses of 32 bits, eight at a time.
    #[inline(always)]
    pub(super) unsafe fn strided_in_eight<const LANES: usize>(addresses: &[u32; LANES], stride: u32) -> bool {
        // SAFETY: the processor has AVX2, as the caller promises, and each load reads 8 addresses.
        unsafe {
            let step = _mm256_set1_epi32(8u32.wrapping_mul(stride).cast_signed());
            let lanes =
                _mm256_mullo_epi32(_mm256_set1_epi32(stride.cast_signed()), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            let mut expected = _mm256_add_epi32(_mm256_set1_epi32(addresses[0].cast_signed()), lanes);
            let mut difference = _mm256_setzero_si256();
            for own in addresses.as_chunks::<8>().0 {
                let own = _mm256_loadu_si256(own.as_ptr().cast());
                difference = _mm256_or_si256(difference, _mm256_xor_si256(own, expected));
                expected = _mm256_add_epi32(expected, step);
            }
            _mm256_testz_si256(difference, difference) != 0
        }
    }

    /// Addresses, four at a time.
    #[inline(always)]
    pub(super) unsafe fn strided_in_four<const LANES: usize>(addresses: &[u64; LANES], stride: u64) -> bool {
        let stride = stride.cast_signed();
        // SAFETY: the processor has AVX2, as the caller promises, and each load reads 4 addresses.
        unsafe {
            let step = _mm256_set1_epi64x(stride.wrapping_mul(4));
            let lanes = _mm256_setr_epi64x(0, stride, stride.wrapping_mul(2), stride.wrapping_mul(3));
            let mut expected = _mm256_add_epi64(_mm256_set1_epi64x(addresses[0].cast_signed()), lanes);
            let mut difference = _mm256_setzero_si256();
            for own in addresses.as_chunks::<4>().0 {
                let own = _mm256_loadu_si256(own.as_ptr().cast());
                difference = _mm256_or_si256(difference, _mm256_xor_si256(own, expected));
                expected = _mm256_add_epi64(expected, step);
            }
            _mm256_testz_si256(difference, difference) != 0
        }
    }
}
