//! `malloc` and `free`.

use super::Hooks;
use super::provided::{Builtin, Outcome};
use super::warp::failure_of;
use crate::fault::{Detail, FaultCode};

impl Builtin<'_, '_> {
    /// `malloc` of a lane, which returns zero where there is not as much.
    pub(super) fn allocate(&self, lane: u32, hooks: &dyn Hooks) -> Outcome<()> {
        let bytes = self.argument(lane, 0)?;
        self.answer(lane, hooks.allocate(bytes).unwrap_or(0));
        Ok(())
    }

    /// `free` of a lane, which does nothing for zero.
    pub(super) fn free(&self, lane: u32, hooks: &dyn Hooks) -> Outcome<()> {
        let address = self.argument(lane, 0)?;
        if address == 0 {
            return Ok(());
        }
        hooks.free(address).map_err(|what| failure_of(FaultCode::LAUNCH_FAILED, Detail::Refused(what), lane))
    }
}
