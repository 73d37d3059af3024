//! Whether the calling thread is inside of work given to the driver, where the driver must not be called.

use anabranch_hal::{Failure, Result, Status};
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread as inside of host work or a kernel, until it is dropped.
#[derive(Debug)]
pub(crate) struct HostWorkScope {
    before: bool,
    not_send: PhantomData<*const ()>,
}

impl HostWorkScope {
    pub(crate) fn enter() -> Self {
        // A thread that is ending has no mark any more; nothing is called back from there.
        let before = INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true);
        Self { before, not_send: PhantomData }
    }
}

impl Drop for HostWorkScope {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(self.before));
    }
}

/// Whether the thread is inside of host work or a kernel.
#[inline]
pub(crate) fn inside_host_work() -> bool {
    INSIDE.try_with(Cell::get).unwrap_or(false)
}

/// Refuses driver calls from host work and kernels, as the hardware's driver does.
#[inline]
pub(crate) fn permitted() -> Result<()> {
    if inside_host_work() { Err(Failure::new(Status::NOT_PERMITTED)) } else { Ok(()) }
}
