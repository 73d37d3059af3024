//! Contexts: the state of a device as this program sees it, and what is made in it.

use crate::device::Device;
use crate::error::{Error, Result, ResultExt};
use crate::instance::Instance;
use anabranch_core::capture_mode::CaptureModeGuard;
use anabranch_core::completion::CompletionDiagnostics;
use anabranch_core::context::ContextCore;
use anabranch_core::keeper::Keeper;
use anabranch_hal::{CaptureMode, ContextFlags, ContextHandle, DeviceOrdinal, MemoryInfo, Status};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A context. Cheap to clone. It lives until the last clone, and the last stream, event, buffer and module made in it,
/// is dropped. No call depends on which context is current on the thread, and none changes it.
///
/// A device has one primary context per process. All users of the process share it and its settings.
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
    /// An error of the driver if it cannot start the device, such as
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if its memory is full;
    /// [`CUDA_ERROR_OPERATING_SYSTEM (304)`](crate::Status::OPERATING_SYSTEM) if the library's threads cannot be started.
    pub fn context(&self) -> Result<Context> {
        Ok(Context::from_core(ContextCore::primary(self.core())?))
    }

    /// Makes a separate context on this device. A stream of one context cannot launch kernels of another context or use
    /// its buffers, except in peer copies. Most programs want [`context`](Self::context).
    ///
    /// # Errors
    /// Same as [`context`](Self::context).
    pub fn create_context(&self, flags: ContextFlags) -> Result<Context> {
        Ok(Context::from_core(ContextCore::create(self.core(), flags)?))
    }
}

impl Context {
    /// Uses a context that another library has made or retained, such as by `cuCtxCreate`, and that this library does not
    /// destroy. `keeper` is whatever keeps the context: it is dropped, on a thread of this library, when the last clone and
    /// the last object made in the context are gone and their work is complete. Pinned memory of another context that a
    /// stream of this one has used keeps the context too. If this library keeps the context itself,
    /// because it has made it or because it is the primary context of the device, `keeper` is dropped sooner. Pass `()` if
    /// nothing is to be done then.
    ///
    /// All `Context`s of one context of the driver share one state, however they were obtained: streams, orders,
    /// settings, and panics to be reported.
    ///
    /// ```
    /// # use anabranch::Context;
    /// # let device = anabranch::Instance::new()?.device("host")?;
    /// # let theirs = device.create_context(anabranch::ContextFlags::empty())?;
    /// # let handle = theirs.as_raw();
    /// // SAFETY: `theirs` has the context with this handle on this device, and keeps it.
    /// let context = unsafe { Context::from_raw(&device, handle, theirs)? };
    /// assert_eq!(context.create_stream()?.download(&context.create_stream()?.upload(&[1u32])?)?, [1]);
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Safety
    /// `handle` is a context of the device's driver that exists until `keeper` is dropped.
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_CONTEXT (201)`](crate::Status::INVALID_CONTEXT) for the null handle;
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the context belongs to another device;
    /// otherwise an error of the driver. `keeper` is dropped then.
    pub unsafe fn from_raw(device: &Device, handle: ContextHandle, keeper: impl Send + 'static) -> Result<Self> {
        // SAFETY: the caller promises that the context exists until the keeper is dropped.
        let core = unsafe { ContextCore::from_raw(device.core(), handle, Keeper::new(keeper)) }?;
        Ok(Self::from_core(core))
    }

    /// The context that is current on the calling thread, or `None` if no context is, which is always so for software
    /// devices. The primary context is retained for as long as the result, or anything made in it, exists. No call of this
    /// library makes a context current: this is for programs in which other libraries do (`cuCtxSetCurrent`).
    ///
    /// ```
    /// # use anabranch::{Context, Instance};
    /// let instance = Instance::new()?;
    /// let context = match Context::current(&instance)? {
    ///     Some(current) => current,
    ///     None => instance.default_device()?.context()?,
    /// };
    /// # Ok::<(), anabranch::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`CUDA_ERROR_INVALID_CONTEXT (201)`](crate::Status::INVALID_CONTEXT) if another library has made the context, so
    /// that nothing keeps it alive: open it with [`from_raw`](Self::from_raw) first;
    /// [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if the instance does not have its device;
    /// [`CUDA_ERROR_CONTEXT_IS_DESTROYED (709)`](crate::Status::CONTEXT_IS_DESTROYED) if it was destroyed.
    pub fn current(instance: &Instance) -> Result<Option<Self>> {
        let operation = "looking for the current context";
        let first_devices = instance.devices().iter().filter(|device| device.ordinal().0 == 0);
        for first in first_devices {
            let current = first.core().driver().context_current().during(operation, || first.to_string())?;
            if let Some((handle, ordinal)) = current {
                let device = device_of(instance, first, ordinal, operation)?;
                return Ok(Some(Self::from_core(ContextCore::find(device.core(), handle)?)));
            }
        }
        Ok(None)
    }

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

    /// The driver's handle, which is valid as long as this context.
    pub fn as_raw(&self) -> ContextHandle {
        self.core.handle()
    }

    /// An id that is unique among all objects of this process and never reused.
    pub fn id(&self) -> u64 {
        self.core.id().get()
    }

    /// Waits for all work of all streams of the context.
    ///
    /// # Errors
    /// An error of any of that work. During a capture in a stream of the context, on any thread:
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED), which invalidates
    /// the capture.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.core.synchronize()
    }

    /// Waits as [`synchronize`](Self::synchronize) does, and leaves panics of closures to be reported by whoever synchronizes next. For
    /// bindings of other languages, whose waits can be given up: what nobody hears any more is not lost.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize), except for panics.
    #[track_caller]
    pub fn synchronize_unreported(&self) -> Result<()> {
        self.core.synchronize_unreported("synchronizing a context")
    }

    /// Reports a panic of a closure of the context that was not reported yet, without waiting.
    ///
    /// # Errors
    /// [`CUDA_ERROR_LAUNCH_FAILED (719)`](crate::Status::LAUNCH_FAILED) with the message of the panic.
    #[track_caller]
    pub fn report_panic(&self) -> Result<()> {
        self.core.panics().report_any("reporting a panic", || self.core.place())
    }

    /// Whether using memory without an order made by the program is an error: see
    /// [`set_strict_order`](Self::set_strict_order).
    pub fn strict_order(&self) -> bool {
        self.core.is_order_strict()
    }

    /// Chooses whether work that needs an order between streams is an error. By default, the library adds the order.
    ///
    /// Work that uses a [buffer](crate::Buffer) must follow work of other streams that used it earlier. Where the
    /// program has not established this order, the library makes the later stream wait, and counts that
    /// ([`orders_inserted`](Self::orders_inserted)). In strict order, the call that would queue such work to a stream
    /// of this context instead queues nothing, and returns an error that names both streams. In this way, a program can
    /// find the places where it relies on the library for the order. Memory that is dropped is still freed after its
    /// last use, with an order added by the library if necessary.
    ///
    /// It applies to this context and its clones, within and outside captures, from the next call on.
    ///
    /// What the library knows of an order is bounded, so that a use can be refused although the program has ordered it: a stream
    /// knows that it follows up to 64 others, and fewer where their numbers within the context are equal modulo 64; an event
    /// carries the 16 that its stream followed last; and a wait of the host for a stream or an event counts for that stream, and not
    /// for others that it had followed. A record of an event behind the very use, and a wait for it, always count. Orders of the
    /// driver's own do not: of the legacy stream and blocking streams, and of launches of one executable graph. An order that
    /// the library adds to free memory counts as the program's, as soon as the memory is freed.
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

    /// The number of orders that the library has inserted between streams for later work of this context's streams,
    /// including streams that have ended. It is the sum of [`Stream::orders_inserted`](crate::Stream::orders_inserted).
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

    /// Lets kernels and copies of this context access the memory of `peer`. Calling it twice is not an error.
    ///
    /// # Errors
    /// [`CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)`](crate::Status::PEER_ACCESS_UNSUPPORTED) if the devices do not
    /// support it; [`CUDA_ERROR_INVALID_DEVICE (101)`](crate::Status::INVALID_DEVICE) if they belong to different
    /// drivers; [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) while a
    /// stream captures in a mode that prohibits it, which invalidates that capture.
    pub fn enable_peer_access(&self, peer: &Context) -> Result<()> {
        self.core.enable_peer_access(&peer.core)
    }

    /// Undoes [`enable_peer_access`](Self::enable_peer_access).
    ///
    /// # Safety
    /// No work queued in this context uses memory of `peer`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_PEER_ACCESS_NOT_ENABLED (705)`](crate::Status::PEER_ACCESS_NOT_ENABLED) if access is not enabled;
    /// [`CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)`](crate::Status::STREAM_CAPTURE_UNSUPPORTED) while a stream
    /// captures in a mode that prohibits it, which invalidates that capture.
    pub unsafe fn disable_peer_access(&self, peer: &Context) -> Result<()> {
        // SAFETY: the caller promises that no work queued in this context uses memory of `peer`.
        unsafe { self.core.disable_peer_access(&peer.core) }
    }

    /// Exchanges the calling thread's own capture mode, for all devices of this kind, also those of other instances, until the
    /// guard is dropped. On a thread of the library, which calls wakers and hooks, it ends with what it calls. A thread begins
    /// with [`CaptureMode::Global`]. In this mode it must not make potentially unsafe calls, such as allocating outside stream
    /// order, while any thread has a global capture, or while it has a capture itself that is not relaxed. With
    /// [`CaptureMode::Relaxed`], no call is prohibited. Follows `cuThreadExchangeStreamCaptureMode`.
    ///
    /// # Errors
    /// [`CUDA_ERROR_NOT_PERMITTED (800)`](crate::Status::NOT_PERMITTED) inside a host function; otherwise only an error of
    /// earlier asynchronous work.
    pub fn exchange_capture_mode(&self, mode: CaptureMode) -> Result<CaptureModeGuard> {
        CaptureModeGuard::enter(&self.core, mode)
    }

    /// How long the first poll of a future of this context spins before its task sleeps. The default is 20
    /// microseconds; see [`set_completion_spin`](Self::set_completion_spin).
    pub fn completion_spin(&self) -> Duration {
        self.core.completion_spin()
    }

    /// Sets how long the first poll of a future of this context spins before its task sleeps. Spinning avoids a context
    /// switch for short waits, and occupies the executor's thread for that time. With [`Duration::ZERO`], a poll checks
    /// once. A poll does not spin if recent waits for the stream took longer.
    pub fn set_completion_spin(&self, spin: Duration) {
        self.core.set_completion_spin(spin);
    }

    /// For tests and measurements: whether the device writes a flag after work that is awaited from now on, or an event
    /// is recorded there. With `None`, the library chooses.
    #[doc(hidden)]
    pub fn set_completion_by_flags(&self, flags: Option<bool>) {
        self.core.set_completion_by_flags(flags);
    }

    /// For tests and measurements.
    #[doc(hidden)]
    pub fn completion_diagnostics(&self) -> CompletionDiagnostics {
        self.core.completion_diagnostics()
    }

    /// The number of bytes of idle pinned staging memory that the context keeps for later transfers. The default is 64
    /// MiB; see [`set_staging_limit`](Self::set_staging_limit).
    pub fn staging_limit(&self) -> usize {
        self.core.staging_limit()
    }

    /// Sets the number of bytes of idle pinned staging memory that the context keeps for later transfers. Transfers
    /// that need more memory get it, and return it to the driver when they are complete. Idle memory that exceeds the
    /// limit is freed now, in the background. With 0, that is all idle memory.
    pub fn set_staging_limit(&self, bytes: usize) {
        self.core.set_staging_limit(bytes);
    }

    /// The number of bytes of staging memory that are currently idle.
    pub fn idle_staging(&self) -> usize {
        self.core.idle_staging()
    }

    /// Pins staging memory in advance, for `count` transfers of up to `bytes` bytes at the same time. Pinning takes
    /// long and may block, so a program should do it before its tasks run. Later transfers of that size by [`Stream::upload_async`](crate::Stream::upload_async) and
    /// [`Stream::download_async`](crate::Stream::download_async) do not pin memory.
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
    /// [`CUDA_ERROR_INVALID_VALUE (1)`](crate::Status::INVALID_VALUE) if that is more than the
    /// [limit](Self::set_staging_limit), beyond which nothing is kept;
    /// [`CUDA_ERROR_OUT_OF_MEMORY (2)`](crate::Status::OUT_OF_MEMORY) if not enough memory can be pinned.
    pub fn reserve_staging(&self, bytes: usize, count: usize) -> Result<()> {
        self.core.reserve_staging(bytes, count)
    }
}

/// The device of the same driver as `other` with that number.
pub(crate) fn device_of<'i>(
    instance: &'i Instance,
    other: &Device,
    ordinal: DeviceOrdinal,
    operation: &'static str,
) -> Result<&'i Device> {
    let mut devices = instance.devices().iter();
    devices.find(|device| device.core().same_driver(other.core()) && device.ordinal() == ordinal).ok_or_else(|| {
        let message = format!("the context belongs to device {}, which the instance does not have", ordinal.0);
        Error::argument(Status::INVALID_DEVICE, operation, message).with_hint("use an instance that has the device")
    })
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
