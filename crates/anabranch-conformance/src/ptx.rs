//! Kernels of PTX, and what devices compute with them.
//!
//! A [`Subject`] is a kernel with its launch and its inputs. There are three families: *golden* kernels are written in CUDA
//! C++; a *sweep* runs single instructions with many operands; a *random* kernel is composed of them. The last two are made
//! from a seed alone. A [`Player`] runs subjects on a device, and a [`Recording`] has what one device computed, such as a GPU,
//! for comparison on a machine that has none.
//!
//! Kernels only do what is defined, and what they compute does not depend on the order of their threads.

mod compare;
mod element;
mod explain;
mod forms;
mod golden;
mod operand;
mod player;
mod random;
mod recording;
mod subject;
mod sweep;

pub use compare::{Difference, differences};
pub use explain::{Located, Shrunk, locate, shrink};
pub use player::{Played, Player};
pub use recording::{Answer, Header, Recorded, Recording};
pub use subject::{Family, Output, Subject};

pub(crate) use golden::CASES as GOLDEN_CASES;
