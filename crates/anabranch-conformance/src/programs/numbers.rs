//! Pseudo-random numbers that are the same in every version of every library.

/// A generator of the kind SplitMix64.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(family: u64, seed: u64) -> Self {
        let mut numbers = Self(seed);
        numbers.0 = numbers.next() ^ family.wrapping_mul(0x9e6d_62d0_6f6a_9a9b);
        numbers
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.next()
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 33) as usize % limit.max(1)
    }

    /// True in `parts` of `of` cases.
    pub(crate) fn chance(&mut self, parts: usize, of: usize) -> bool {
        self.below(of) < parts
    }

    /// One of the choices.
    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        if choices.is_empty() { None } else { choices.get(self.below(choices.len())).copied() }
    }

    /// One of the choices, of which there is always at least the first.
    pub(crate) fn one_of<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        const { assert!(N > 0) };
        choices[self.below(N)]
    }
}
