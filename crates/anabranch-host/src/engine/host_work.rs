//! Whether the calling thread is inside of work given to the driver, where the driver must not be called.

use anabranch_hal::{Failure, InsideWork, Result, Status};

/// Refuses driver calls from host work and kernels, as the hardware's driver does.
#[inline]
pub(crate) fn permitted() -> Result<()> {
    if InsideWork::is_entered() { Err(Failure::new(Status::NOT_PERMITTED)) } else { Ok(()) }
}
