//! Semaphores that another API or another process has exported: imported here, signalled, and waited for.

use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::idle_memory::attempt_when_idle;
use crate::stream::OpenStream;
use crate::submission::Submission;
use crate::trace;
use anabranch_hal::{ExternalSemaphoreHandle, ExternalSemaphoreKind, ExternalSemaphoreOperation, Status};
use std::fmt;
use std::sync::Arc;

#[cfg(unix)]
const UNSUPPORTED: &str = "ask Device::capabilities for EXTERNAL_SEMAPHORES before, and wait on the host where it is missing; \
     the software device has timeline semaphores only";
#[cfg(unix)]
const NO_SEMAPHORE: &str = "pass a file descriptor of a semaphore of that kind that another API has exported as an opaque \
     file descriptor; of the software device, one of a file of at least 8 bytes that can be mapped";

/// A semaphore that another API or another process has exported. It is given up when nobody holds it any more, which graphs
/// do whose nodes use it, and the context is idle.
pub struct ExternalSemaphoreCore {
    context: Arc<ContextCore>,
    handle: ExternalSemaphoreHandle,
    kind: ExternalSemaphoreKind,
}

#[cfg(unix)]
impl ExternalSemaphoreCore {
    /// Imports a semaphore by a file descriptor, which the driver has then. If this fails, it is closed.
    ///
    /// # Safety
    /// If the descriptor is that of a semaphore, it is one of that kind, and is signalled and waited for by the rules of the API
    /// that has exported it.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the driver cannot import such a semaphore; another error if the descriptor is not
    /// that of a semaphore.
    pub unsafe fn import(
        context: &Arc<ContextCore>,
        descriptor: std::os::fd::OwnedFd,
        kind: ExternalSemaphoreKind,
    ) -> Result<Arc<Self>> {
        use crate::external_descriptor::hand_over;
        use crate::host_work::refuse_inside;

        let operation = "importing an external semaphore";
        refuse_inside(operation).map_err(|error| error.at(context.place()))?;
        let explain = |error: Error| match error.status() {
            Status::NOT_SUPPORTED => error.with_hint(UNSUPPORTED),
            Status::INVALID_VALUE
            | Status::INVALID_HANDLE
            | Status::INVALID_DEVICE
            | Status::OPERATING_SYSTEM
            | Status::UNKNOWN => error.with_hint(NO_SEMAPHORE),
            _ => error.of_another_capture(),
        };
        let (driver, call) = (context.driver(), context.call(operation));
        // SAFETY: the file descriptor is open until the call returns, and the caller promises what is said of its semaphore.
        let import = |descriptor| unsafe { driver.external_semaphore_import(&call, descriptor, kind) };
        let handle = hand_over(descriptor, operation, context, import, explain)?;
        Ok(Arc::new(Self { context: context.clone(), handle, kind }))
    }
}

impl ExternalSemaphoreCore {
    /// The context that it was imported in.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The handle.
    pub fn handle(&self) -> ExternalSemaphoreHandle {
        self.handle
    }

    /// The kind.
    pub fn kind(&self) -> ExternalSemaphoreKind {
        self.kind
    }
}

/// Signals of semaphores, or waits for them, by one call.
pub type ExternalSemaphoreValues<'a> = [(&'a Arc<ExternalSemaphoreCore>, u64)];

/// The operations, as drivers take them.
pub fn operations(values: &ExternalSemaphoreValues<'_>) -> Vec<ExternalSemaphoreOperation> {
    let operation = |&(semaphore, value): &(&Arc<ExternalSemaphoreCore>, u64)| ExternalSemaphoreOperation {
        semaphore: semaphore.handle,
        value,
    };
    values.iter().map(operation).collect()
}

impl OpenStream {
    /// Signals semaphores after all work that is queued. If the stream is capturing, this becomes one node.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)` for a semaphore of another context.
    #[track_caller]
    pub fn signal_external_semaphores(&self, values: &ExternalSemaphoreValues<'_>) -> Result<()> {
        let operation = "signalling an external semaphore";
        let Some(submission) = self.begin_with_semaphores(operation, values)? else { return Ok(()) };
        let (operations, semaphores) = (operations(values), values.iter().map(|(semaphore, _)| *semaphore));
        // SAFETY: a semaphore is given up when the context is idle, which is behind its uses, of which these are some, and a
        // capture retains it.
        submission.submit_retaining(&[], semaphores, |call, stream| unsafe {
            self.context().driver().stream_signal_external_semaphores(call, stream, &operations)
        })
    }

    /// Makes later work wait for semaphores. If the stream is capturing, this becomes one node.
    ///
    /// # Errors
    /// Same as [`signal_external_semaphores`](Self::signal_external_semaphores).
    #[track_caller]
    pub fn wait_external_semaphores(&self, values: &ExternalSemaphoreValues<'_>) -> Result<()> {
        let operation = "waiting for an external semaphore";
        let Some(submission) = self.begin_with_semaphores(operation, values)? else { return Ok(()) };
        let (operations, semaphores) = (operations(values), values.iter().map(|(semaphore, _)| *semaphore));
        // The other side may wait for a thread of this process.
        let submission = submission.host_bound();
        // SAFETY: a semaphore is given up when the context is idle, which is behind its uses, of which these are some, and a
        // capture retains it.
        submission.submit_retaining(&[], semaphores, |call, stream| unsafe {
            self.context().driver().stream_wait_external_semaphores(call, stream, &operations)
        })
    }

    /// `None`: there is nothing to do, about which drivers differ.
    #[track_caller]
    fn begin_with_semaphores(
        &self,
        operation: &'static str,
        values: &ExternalSemaphoreValues<'_>,
    ) -> Result<Option<Submission<'_>>> {
        if values.is_empty() {
            return self.require_usable(operation).map(|()| None);
        }
        trace::queued!(stream = self.id(), count = values.len(), "{operation}");
        let submission = Submission::begin(self, operation)?;
        if values.iter().any(|(semaphore, _)| !semaphore.context.is_same(self.context())) {
            let message = "the semaphore belongs to another context";
            return Err(Error::argument(Status::INVALID_HANDLE, operation, message)
                .with_hint("import it in the context of the stream, by a file descriptor of its own")
                .at(self.place()));
        }
        Ok(Some(submission))
    }
}

impl Drop for ExternalSemaphoreCore {
    fn drop(&mut self) {
        let (context, handle) = (self.context.clone(), self.handle);
        attempt_when_idle(&self.context, move || {
            let operation = "giving an external semaphore up";
            // SAFETY: the context is idle, so that all signals and waits are complete, and this was the last owner.
            let destroyed =
                unsafe { context.driver().external_semaphore_destroy(&context.call(operation).of_unused(), handle) };
            drop_error::report(destroyed.during(operation, || context.place()));
        });
    }
}

impl fmt::Debug for ExternalSemaphoreCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} semaphore {:#x} of {}", self.kind, self.handle.as_raw(), self.context.place())
    }
}
