//! Ranks.

/// The place of a lock in the order in which a thread may take locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    pub(crate) number: u32,
    pub(crate) name: &'static str,
}

impl Rank {
    /// The rank below all others.
    pub const LOWEST: Self = Self::new(0, "the lowest rank");

    /// A rank of a number, which is compared, and a name, which is shown.
    pub const fn new(number: u32, name: &'static str) -> Self {
        Self { number, name }
    }
}

/// Declares ranks as constants, from the lowest to the highest. The first has the number given, and each of the others one
/// more than the one before.
///
/// ```
/// anabranch_sync::ranks! { from 10;
///     /// Held while a queue is changed.
///     QUEUE,
///     /// The list of free blocks.
///     FREE_BLOCKS,
/// }
/// let (queue, blocks) = (anabranch_sync::Mutex::new(QUEUE, 0), anabranch_sync::Mutex::new(FREE_BLOCKS, 0));
/// let queue = queue.lock();
/// let blocks = blocks.lock();
/// # drop((queue, blocks));
/// ```
#[macro_export]
macro_rules! ranks {
    (from $first:expr; $($(#[$meta:meta])* $name:ident,)*) => {
        $crate::ranks! { @declare $first; $($(#[$meta])* $name,)* }
    };
    (@declare $number:expr;) => {};
    (@declare $number:expr; $(#[$meta:meta])* $name:ident, $($rest:tt)*) => {
        $(#[$meta])*
        pub(crate) const $name: $crate::Rank = $crate::Rank::new($number, stringify!($name));
        $crate::ranks! { @declare $number + 1; $($rest)* }
    };
}
