//! Contexts: the state of a device as this program sees it, and what is made in it.

use crate::device::Device;
use crate::error::Result;
use anabranch_core::capture_mode::CaptureModeGuard;
use anabranch_core::completion::CompletionDiagnostics;
use anabranch_core::context::ContextCore;
use anabranch_hal::{CaptureMode, ContextFlags, ContextHandle, MemoryInfo};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A context. Cheap to clone; it lives until the last clone, and the last stream, event, buffer and module made in it,
/// is dropped. Which context is current on a thread is never the caller's business, and never changes.
///
/// A device has one primary context in a process: everybody who asks for it gets the same, settings included.
///
/// Follows the Driver API's groups *Context Management* and *Primary Context Management*.
#[derive(Clone)]
pub struct Context {
    core: Arc<ContextCore>,
    device: Device,
}

impl Device {
    /// The device's primary context, which it shares with other libraries in the process.
    ///
    /// # Errors
    /// What the driver says when it cannot start the device, such as `CUDA_ERROR_OUT_OF_MEMORY (2)` when its memory is full.
    pub fn context(&self) -> Result<Context> {
        Ok(Context::from_core(ContextCore::primary(self.core())?))
    }

    /// A context of its own on this device. Memory and streams of one context cannot be launched into from another.
    /// Most programs want [`context`](Self::context).
    ///
    /// # Errors
    /// As [`context`](Self::context).
    pub fn create_context(&self, flags: ContextFlags) -> Result<Context> {
        Ok(Context::from_core(ContextCore::create(self.core(), flags)?))
    }
}

impl Context {
    pub(crate) fn from_core(core: Arc<ContextCore>) -> Self {
        let device = Device::from_core(core.device().clone());
        Self { core, device }
    }

    pub(crate) fn core(&self) -> &Arc<ContextCore> {
        &self.core
    }

    /// The context's device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The driver's handle. It stays valid as long as this context.
    pub fn as_raw(&self) -> ContextHandle {
        self.core.handle()
    }

    /// A number that is unique among all objects of this process, and never used again.
    pub fn id(&self) -> u64 {
        self.core.id().get()
    }

    /// Waits for all work of all streams of the context.
    ///
    /// # Errors
    /// An error of any of that work. `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` while a stream of the context captures,
    /// whichever thread calls this; that invalidates the capture.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.core.synchronize()
    }

    /// Whether a use of memory that the user has not ordered is an error: see [`set_strict_order`](Self::set_strict_order).
    pub fn strict_order(&self) -> bool {
        self.core.is_order_strict()
    }

    /// Makes work that needs an order between streams an error, in place of the library making that order.
    ///
    /// Work that uses a [buffer](crate::Buffer) must come after work of other streams that used it before. Where it does not
    /// yet, the library makes the later stream wait, and counts that ([`orders_inserted`](Self::orders_inserted)). While
    /// strict order is on, the call that would queue such work to a stream of this context answers an error instead, which
    /// names both streams, and queues nothing. So a program finds the places where it leaves order to the library. Memory
    /// that is dropped is still freed behind its last use, with an order made by the library if need be.
    ///
    /// It holds for this context and its clones, outside of captures and within, from the next call on.
    ///
    /// ```
    /// use anabranch::Status;
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// let (producer, consumer) = (context.create_stream()?, context.create_stream()?);
    /// let mut source = producer.allocate_zeroed::<u32>(4)?;
    /// let mut copy = consumer.allocate_zeroed::<u32>(4)?;
    /// context.set_strict_order(true);
    ///
    /// producer.fill(&mut source, 7)?;
    /// let error = consumer.copy(&mut copy, &source).unwrap_err();
    /// assert_eq!(error.status(), Status::ILLEGAL_STATE);
    ///
    /// consumer.wait(&producer.record_event()?)?;
    /// consumer.copy(&mut copy, &source)?;
    /// assert_eq!(context.orders_inserted(), 0);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    pub fn set_strict_order(&self, strict: bool) {
        self.core.set_strict_order(strict);
    }

    /// How many orders the library has inserted between streams for later work of this context's streams, those that have
    /// ended included: the sum of what [`Stream::orders_inserted`](crate::Stream::orders_inserted) counts.
    pub fn orders_inserted(&self) -> u64 {
        self.core.orders_inserted()
    }

    /// Free and total memory of the device, in bytes.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.core.memory_info()
    }

    /// Lets kernels and copies of this context access the memory of `peer`. Doing so twice is no error.
    ///
    /// # Errors
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)` when the devices cannot; `CUDA_ERROR_INVALID_DEVICE (101)` when they belong to
    /// different drivers.
    pub fn enable_peer_access(&self, peer: &Context) -> Result<()> {
        self.core.enable_peer_access(&peer.core)
    }

    /// Undoes [`enable_peer_access`](Self::enable_peer_access).
    ///
    /// # Safety
    /// No work queued in this context uses memory of `peer`.
    ///
    /// # Errors
    /// `CUDA_ERROR_PEER_ACCESS_NOT_ENABLED (705)` when it is not enabled.
    pub unsafe fn disable_peer_access(&self, peer: &Context) -> Result<()> {
        // SAFETY: the caller's word.
        unsafe { self.core.disable_peer_access(&peer.core) }
    }

    /// Exchanges the calling thread's own capture mode, for all devices of this driver, until the guard is dropped. A
    /// thread begins with [`CaptureMode::Global`]: it is refused potentially unsafe calls, such as allocating outside of
    /// stream order, while any thread captures globally, and while it captures itself in a mode that is not relaxed. With
    /// [`CaptureMode::Relaxed`] it is refused none. Follows `cuThreadExchangeStreamCaptureMode`.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureModeGuard> {
        CaptureModeGuard::enter(&self.core, mode)
    }

    /// How long the first poll of a future of this context spins before its task is put to sleep: 20 microseconds unless it
    /// was [set](Self::set_completion_spin).
    pub fn completion_spin(&self) -> Duration {
        self.core.completion_spin()
    }

    /// Chooses how long the first poll of a future of this context spins before its task is put to sleep. Spinning saves short
    /// waits a context switch, and costs the executor's thread that time; with [`Duration::ZERO`] a poll checks once. Where
    /// recent waits for a stream took longer, a poll does not spin.
    pub fn set_completion_spin(&self, spin: Duration) {
        self.core.set_completion_spin(spin);
    }

    /// For tests and measurements: whether the device writes a flag behind work that is awaited from now on, or an event is
    /// recorded there. `None` leaves it to the library.
    #[doc(hidden)]
    pub fn set_completion_by_flags(&self, flags: Option<bool>) {
        self.core.set_completion_by_flags(flags);
    }

    /// For tests and measurements.
    #[doc(hidden)]
    pub fn completion_diagnostics(&self) -> CompletionDiagnostics {
        self.core.completion_diagnostics()
    }

    /// How many bytes of pinned staging memory the context has for later transfers when they are idle: 64 MiB unless it
    /// was [set](Self::set_staging_limit).
    pub fn staging_limit(&self) -> usize {
        self.core.staging_limit()
    }

    /// Chooses how many bytes of pinned staging memory the context has for later transfers when they are idle. Transfers that
    /// need more memory get it, and give it back to the driver when they are complete. Idle memory that exceeds the limit is
    /// freed now, in the background; with 0 that is all of it.
    pub fn set_staging_limit(&self, bytes: usize) {
        self.core.set_staging_limit(bytes);
    }

    /// How many bytes of staging memory are idle at the moment.
    pub fn idle_staging(&self) -> usize {
        self.core.idle_staging()
    }

    /// Pins staging memory ahead of its use, for `count` transfers of up to `bytes` bytes at a time. Pinning takes long and
    /// may block, so a program does it before its tasks run: as long as the limit is not exceeded, later transfers of that
    /// size by [`Stream::upload_async`](crate::Stream::upload_async) and
    /// [`Stream::download_async`](crate::Stream::download_async) pin nothing.
    ///
    /// ```
    /// # let context = anabranch::Instance::new()?.device("host")?.context()?;
    /// context.set_staging_limit(16 << 20);
    /// context.reserve_staging(1 << 20, 4)?;
    /// assert_eq!(context.idle_staging(), 4 << 20);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY (2)` when there is not enough memory that can be pinned.
    pub fn reserve_staging(&self, bytes: usize, count: usize) -> Result<()> {
        self.core.reserve_staging(bytes, count)
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        self.core == other.core
    }
}

impl Eq for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(formatter)
    }
}
