//! Numbers that only become greater.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that several threads raise.
pub trait Raise {
    /// Makes the number at least `value`, like `fetch_max` with acquire and release: whoever reads it afterwards, with acquire,
    /// sees what came before.
    ///
    /// ThreadSanitizer looks at no `fetch_max`, and would report a race where only that call orders two accesses.
    fn raise(&self, value: u64);
}

macro_rules! raise {
    ($number:ty) => {
        impl Raise for $number {
            #[inline]
            fn raise(&self, value: u64) {
                // It cannot fail.
                let _ = self.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |number| Some(number.max(value)));
            }
        }
    };
}

raise!(AtomicU64);
#[cfg(loom)]
raise!(loom::sync::atomic::AtomicU64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_raised_and_never_lowered() {
        let number = AtomicU64::new(3);
        number.raise(7);
        assert_eq!(number.load(Ordering::Acquire), 7);
        number.raise(5);
        assert_eq!(number.load(Ordering::Acquire), 7);
    }
}
