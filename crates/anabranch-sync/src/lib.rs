//! Locks with ranks, and the primitives that loom replaces.
//!
//! Every lock of Anabranch has a [`Rank`], and a thread takes locks in the order of their ranks: while it holds one, it takes
//! only locks of a higher rank. So no two threads can wait for each other. A build with debug assertions checks this at every
//! lock, and panics with the places of both locks where a thread takes them in the wrong order. Other builds do not even
//! store the rank.
//!
//! No lock is held while code of the program runs, such as a waker. [`require_none_held`] checks that, in the same builds.
//!
//! A crate declares the ranks of its locks in one file with [`ranks!`], from the lowest to the highest. That file is the
//! documentation of their order.
//!
//! [`Mutex`], [`RwLock`] and [`Condvar`] are those of `parking_lot` with ranks; a [`SpinMutex`] costs less to unlock. The
//! module [`modelled`] has what protocols are made of that loom tries in every interleaving: with `--cfg loom` its types are
//! loom's. With `--cfg anabranch_delays`, builds with debug assertions pause at random before and after locks are taken and
//! released, before the accesses of those types to memory, and at each [`may_pause`].

#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

mod condvar;
#[cfg(all(anabranch_delays, not(loom)))]
mod delayed;
mod held;
pub mod modelled;
mod mutex;
mod raise;
mod rank;
mod rwlock;
mod spin_mutex;

pub use condvar::Condvar;
pub use held::{may_pause, require_none_held};
pub use mutex::{Mutex, MutexGuard};
pub use raise::Raise;
pub use rank::Rank;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use spin_mutex::{SpinMutex, SpinMutexGuard};
