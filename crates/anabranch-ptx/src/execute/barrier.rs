//! Barriers of a block.

/// How many barriers a block has.
pub(crate) const COUNT: usize = 16;

/// A barrier that some threads have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Barrier {
    /// Threads that have come, for barriers of all threads of the block.
    pub(crate) threads: u32,
    /// Those of them that do not wait, with each whole warp as 32 threads, as counts want it.
    pub(crate) counted: u32,
    /// The count that the threads named, if they did.
    pub(crate) count: Option<u32>,
    /// Threads whose predicate holds, of reductions.
    pub(crate) holding: u32,
}

impl Barrier {
    /// Whether all have come.
    pub(crate) fn is_complete(&self, live: u32) -> bool {
        match self.count {
            _ if self.threads == 0 => false,
            Some(count) => self.counted >= count,
            None => self.threads >= live,
        }
    }
}
