//! Which locks the calling thread holds, in builds with debug assertions.

/// Whether several can hold a lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Shared,
    Exclusive,
}

#[cfg(debug_assertions)]
mod checked {
    use super::Access;
    use crate::Rank;
    use std::cell::RefCell;
    use std::collections::BTreeMap;
    use std::marker::PhantomData;
    use std::panic::Location;

    /// A lock that the thread holds.
    struct Entry {
        rank: Rank,
        access: Access,
        place: &'static Location<'static>,
    }

    /// The rank of a lock, and the order among locks of the same rank.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Position {
        rank: Rank,
        order: u64,
    }

    /// The number of a rank, the order within it, and a number that no other entry has.
    type Key = (u32, u64, u64);

    struct Held {
        next: u64,
        /// In the order of the locks, so that a thread that holds many finds what it asks for.
        entries: BTreeMap<Key, Entry>,
    }

    thread_local! {
        static HELD: RefCell<Held> = const { RefCell::new(Held { next: 0, entries: BTreeMap::new() }) };
    }

    impl Position {
        pub(crate) const fn new(rank: Rank, order: u64) -> Self {
            Self { rank, order }
        }

        fn key(&self, number: u64) -> Key {
            (self.rank.number, self.order, number)
        }

        /// Panics if the thread holds a lock that is not before this one. [`Access::Shared`]: the thread may share it already.
        #[track_caller]
        pub(crate) fn check(&self, access: Access) {
            may_pause();
            let wrong = HELD.try_with(|held| {
                let held = held.borrow();
                let (_, wrong) = held.entries.range(self.key(0)..).rev().find(|(key, entry)| {
                    let is_shared = access == Access::Shared && entry.access == Access::Shared;
                    **key > self.key(u64::MAX) || !is_shared
                })?;
                Some((wrong.rank, wrong.place))
            });
            // A thread that is ending does not know what it holds any more.
            if let Ok(Some((other, place))) = wrong {
                panic!(
                    "the lock {} ({}) is taken while the thread holds {} ({}), which was taken at {place}: take them in \
                     the order of their ranks",
                    self.rank.name, self.rank.number, other.name, other.number
                );
            }
        }

        /// Notes that the thread holds the lock until the result is dropped.
        #[track_caller]
        pub(crate) fn enter(self, access: Access) -> Token {
            let place = Location::caller();
            let key = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                let key = self.key(held.next);
                held.next += 1;
                held.entries.insert(key, Entry { rank: self.rank, access, place });
                key
            });
            may_pause();
            Token { key: key.ok(), thread: PhantomData }
        }
    }

    /// Panics if the thread holds a lock of that rank or a higher one.
    #[track_caller]
    pub fn require_none_held(from: Rank) {
        let held = HELD.try_with(|held| {
            let held = held.borrow();
            let (_, entry) = held.entries.range((from.number, 0, 0)..).next()?;
            Some((entry.rank.name, entry.place))
        });
        if let Ok(Some((name, place))) = held {
            panic!("code of the program runs while the thread holds {name}, which was taken at {place}");
        }
    }

    /// A lock is held. It stays with the thread that took the lock.
    pub(crate) struct Token {
        key: Option<Key>,
        thread: PhantomData<*const ()>,
    }

    impl Drop for Token {
        fn drop(&mut self) {
            let Some(key) = self.key else { return };
            let _ = HELD.try_with(|held| held.borrow_mut().entries.remove(&key));
            // The lock has been released: a guard has its token last.
            may_pause();
        }
    }

    /// Does nothing in this build.
    #[cfg(not(anabranch_delays))]
    #[inline(always)]
    pub fn may_pause() {}

    /// Lets other threads go ahead at random, so that tests meet more of the orders in which threads can run.
    #[cfg(anabranch_delays)]
    pub fn may_pause() {
        use std::cell::Cell;
        use std::hash::{BuildHasher, RandomState};
        use std::time::Duration;

        thread_local! {
            static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0) | 1);
        }
        let random = STATE.try_with(|state| {
            let mut next = state.get();
            next ^= next << 13;
            next ^= next >> 7;
            next ^= next << 17;
            state.set(next);
            next
        });
        match random.unwrap_or(1) % 512 {
            0 => std::thread::sleep(Duration::from_micros(50)),
            1..32 => std::thread::yield_now(),
            _ => {}
        }
    }
}

#[cfg(not(debug_assertions))]
mod checked {
    use super::Access;
    use crate::Rank;

    /// Nothing is stored or checked.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Position;

    impl Position {
        #[inline(always)]
        pub(crate) const fn new(_: Rank, _: u64) -> Self {
            Self
        }

        #[inline(always)]
        pub(crate) fn check(&self, _: Access) {}

        #[inline(always)]
        pub(crate) fn enter(self, _: Access) -> Token {
            Token
        }
    }

    pub(crate) struct Token;

    /// Does nothing in this build.
    #[inline(always)]
    pub fn require_none_held(_: Rank) {}

    /// Does nothing in this build.
    #[inline(always)]
    pub fn may_pause() {}
}

pub(crate) use checked::{Position, Token};
pub use checked::{may_pause, require_none_held};
