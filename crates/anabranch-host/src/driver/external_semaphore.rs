//! Semaphores of other APIs and processes: numbers in files.

use super::{HostDriver, resolve, usable};
use crate::capture::Target;
use crate::engine::{Entry, work};
use crate::error::permitted;
use crate::semaphore::{SemaphoreState, SignalSemaphore};
use crate::shared_file::SharedNumber;
use anabranch_hal::{
    Call, ExternalSemaphoreHandle, ExternalSemaphoreKind, ExternalSemaphoreOperation, ExternalSemaphores, Failure,
    Live, NodeParameters, Result, Status, StreamHandle,
};
use std::sync::Arc;

impl ExternalSemaphores for HostDriver {
    unsafe fn external_semaphore_import(
        &self,
        call: &Call<'_>,
        descriptor: i32,
        kind: ExternalSemaphoreKind,
    ) -> Result<ExternalSemaphoreHandle> {
        let context = usable(call)?;
        if kind != ExternalSemaphoreKind::Timeline {
            let message = "the software device has timeline semaphores only";
            return Err(Failure::argument(Status::NOT_SUPPORTED, message));
        }
        // SAFETY: the caller promises that the descriptor is open, and it is the driver's if this succeeds.
        let number = unsafe { SharedNumber::take(descriptor) }?;
        let semaphore = SemaphoreState::new(&context.core, number);
        Ok(ExternalSemaphoreHandle::from_raw(self.external_semaphores.insert(semaphore)))
    }

    unsafe fn external_semaphore_destroy(&self, _: &Call<'_>, semaphore: ExternalSemaphoreHandle) -> Result<()> {
        permitted()?;
        let removed = self.external_semaphores.remove(semaphore.as_raw());
        let removed = removed.ok_or(Failure::new(Status::INVALID_HANDLE))?;
        let core = Arc::clone(&removed.core);
        drop(removed);
        core.check()
    }

    unsafe fn stream_signal_external_semaphores(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        operations: &[ExternalSemaphoreOperation],
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        // SAFETY: the caller promises that the semaphores exist.
        let signals = unsafe { SemaphoreState::resolve(operations) }?;
        match target {
            Target::Queue(stream) => {
                for signal in signals {
                    stream.enqueue(work(SignalSemaphore(signal)));
                }
                Ok(())
            }
            Target::Capture(mut recording) => {
                // SAFETY: the caller keeps the semaphores until they are signalled, at each launch.
                unsafe { recording.add(NodeParameters::ExternalSignal(operations.to_vec())) }.map(|_| ())
            }
        }
    }

    unsafe fn stream_wait_external_semaphores(
        &self,
        call: &Call<'_>,
        stream: Live<'_, StreamHandle>,
        operations: &[ExternalSemaphoreOperation],
    ) -> Result<()> {
        let stream = resolve(&self.shared, call.context, stream)?;
        let target = self.shared.captures.target(&stream)?;
        // SAFETY: the caller promises that the semaphores exist.
        let waits = unsafe { SemaphoreState::resolve(operations) }?;
        match target {
            Target::Queue(stream) => {
                for wait in waits {
                    stream.enqueue(Entry::WaitNumber(wait));
                }
                Ok(())
            }
            Target::Capture(mut recording) => {
                // SAFETY: the caller keeps the semaphores until the wait is over, at each launch.
                unsafe { recording.add(NodeParameters::ExternalWait(operations.to_vec())) }.map(|_| ())
            }
        }
    }
}
