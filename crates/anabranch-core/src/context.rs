//! Contexts: the state of a device as this program sees it.

use crate::device::DeviceCore;
use crate::device_name::DeviceName;
use crate::driver_context::{ContextWork, DriverContext, HostBoundKeptOut, LegacyRecording};
use crate::drop_error;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::extensions::{ClosingContext, Extension, Extensions};
use crate::keeper::Keeper;
use crate::lost_context::is_lost;
use crate::panics::PanicReports;
use crate::ranks;
use crate::reaper::{self, Attempt};
use crate::trace;
use anabranch_hal::{
    Call, Capabilities, ContextFlags, ContextHandle, DevicePointer, Driver, Failure, Live, MemoryInfo, MemoryRange,
    ObjectHandle, ObjectId, Status,
};
use anabranch_sync::{Mutex, RwLockReadGuard};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// A context, shared by everything that was made in it. A context of a driver is one object per process.
pub struct ContextCore {
    device: Arc<DeviceCore>,
    driver: Arc<dyn Driver>,
    handle: ContextHandle,
    id: ObjectId,
    owner: Owner,
    panics: Arc<PanicReports>,
    /// Attachments of higher modules.
    extensions: Extensions,
    /// What it shares with other objects of the same context.
    shared: Arc<DriverContext>,
    /// The work of its streams, once it has any.
    work: OnceLock<Arc<dyn ContextWork>>,
    strict_order: AtomicBool,
    orders_inserted: AtomicU64,
}

/// Who keeps a context alive, which determines how it is closed.
enum Owner {
    /// This library, by a reference to the primary context of the device.
    Primary,
    /// This library, which has made it.
    Made,
    /// Another library, as long as this exists.
    Another(#[expect(dead_code, reason = "it is dropped, and nothing else is done with it")] Keeper),
}

/// The contexts that are in use, each once for each driver.
static CONTEXTS: Mutex<Vec<Known>> = Mutex::new(ranks::CONTEXTS, Vec::new());

/// A context that is in use. Which one it is can be seen without a reference to it, which might become the last one.
struct Known {
    handle: ContextHandle,
    device: DeviceName,
    /// The driver's address. The context keeps the driver.
    driver: usize,
    is_primary: bool,
    context: Weak<ContextCore>,
}

impl Known {
    fn add(contexts: &mut Vec<Self>, context: &Arc<ContextCore>) {
        contexts.retain(|known| known.context.strong_count() > 0);
        contexts.push(Self {
            handle: context.handle,
            device: context.device.name(),
            driver: address_of(context.device()),
            is_primary: matches!(context.owner, Owner::Primary),
            context: Arc::downgrade(context),
        });
    }

    /// The first context of a device's driver that is the one.
    fn find(contexts: &[Self], device: &DeviceCore, is_it: impl Fn(&Self) -> bool) -> Option<Arc<ContextCore>> {
        let driver = address_of(device);
        contexts.iter().filter(|known| known.driver == driver && is_it(known)).find_map(|known| known.context.upgrade())
    }
}

fn address_of(device: &DeviceCore) -> usize {
    Arc::as_ptr(device.driver()).cast::<()>().addr()
}

const OPENING: &str = "opening a context of another library";

impl ContextCore {
    /// The device's primary context, which it shares with other libraries in the process.
    ///
    /// # Errors
    /// An error of the driver if it cannot start the device; `CUDA_ERROR_OPERATING_SYSTEM (304)` if the library's thread
    /// cannot be started.
    pub fn primary(device: &Arc<DeviceCore>) -> Result<Arc<Self>> {
        trace::span!("opening the primary context", %device);
        let mut contexts = CONTEXTS.lock();
        let is_it = |known: &Known| known.is_primary && known.device == device.name();
        if let Some(context) = Known::find(&contexts, device, is_it) {
            return Ok(context);
        }
        let operation = "opening the primary context";
        Self::start_reaper(device, operation)?;
        let handle =
            device.driver().primary_context_retain(device.ordinal()).during(operation, || device.to_string())?;
        Ok(Self::add(&mut contexts, device, handle, Owner::Primary))
    }

    /// Makes a separate context.
    ///
    /// # Errors
    /// Same as [`primary`](Self::primary).
    pub fn create(device: &Arc<DeviceCore>, flags: ContextFlags) -> Result<Arc<Self>> {
        trace::span!("creating a context", %device, ?flags);
        let operation = "creating a context";
        Self::start_reaper(device, operation)?;
        let handle =
            device.driver().context_create(device.ordinal(), flags).during(operation, || device.to_string())?;
        let context = Self::new(device, handle, Owner::Made);
        Known::add(&mut CONTEXTS.lock(), &context);
        Ok(context)
    }

    /// A context that another library has made or retained, and that exists until `keeper` is dropped. If the library
    /// keeps the context alive already, or is able to do so because it is the primary context, `keeper` is dropped now.
    ///
    /// # Safety
    /// The context belongs to the device's driver, and exists until `keeper` is dropped.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_CONTEXT (201)` for the null handle; `CUDA_ERROR_INVALID_DEVICE (101)` if it is a context of
    /// another device; otherwise an error of the driver.
    pub unsafe fn from_raw(device: &Arc<DeviceCore>, handle: ContextHandle, keeper: Keeper) -> Result<Arc<Self>> {
        let refuse = |status, message| Err(Error::argument(status, OPENING, message).at(device.to_string()));
        if handle.is_null() {
            return refuse(Status::INVALID_CONTEXT, "the handle is null".to_owned())
                .map_err(|error| error.with_hint("pass the handle of a context that exists"));
        }
        // SAFETY: the caller promises that the context exists, and belongs to this driver.
        let live = unsafe { Live::new(handle) };
        let actual = device.driver().context_device(live).during(OPENING, || device.to_string())?;
        if actual != device.ordinal() {
            return refuse(Status::INVALID_DEVICE, format!("the context belongs to device {}", actual.0))
                .map_err(|error| error.with_hint("pass the device that the context belongs to"));
        }
        let mut contexts = CONTEXTS.lock();
        match Self::keep(&mut contexts, device, handle)? {
            Some(known) => Ok(known),
            None => Ok(Self::add(&mut contexts, device, handle, Owner::Another(keeper))),
        }
    }

    /// The context with that handle, if the library knows it, or if it is the primary context of the device, which the
    /// library can retain. Nobody has to promise that the context exists.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_CONTEXT (201)` if it is another context; otherwise an error of the driver.
    pub fn find(device: &Arc<DeviceCore>, handle: ContextHandle) -> Result<Arc<Self>> {
        let found = Self::keep(&mut CONTEXTS.lock(), device, handle)?;
        found.ok_or_else(|| {
            let message = format!("another library has made {handle:?}, which this library cannot keep");
            Error::argument(Status::INVALID_CONTEXT, OPENING, message)
                .with_hint("open it with Context::from_raw first, and keep the result")
                .at(device.to_string())
        })
    }

    /// As [`find`](Self::find). `None`: it is another context.
    fn keep(contexts: &mut Vec<Known>, device: &Arc<DeviceCore>, handle: ContextHandle) -> Result<Option<Arc<Self>>> {
        if let Some(context) = Known::find(contexts, device, |known| known.handle == handle) {
            return Ok(Some(context));
        }
        Self::start_reaper(device, OPENING)?;
        let (driver, ordinal, place) = (device.driver(), device.ordinal(), || device.to_string());
        if !driver.primary_context_is_active(ordinal).during(OPENING, place)? {
            return Ok(None);
        }
        if driver.primary_context_retain(ordinal).during(OPENING, place)? == handle {
            return Ok(Some(Self::add(contexts, device, handle, Owner::Primary)));
        }
        // SAFETY: the reference was taken just now, and nothing was made with it.
        unsafe { driver.primary_context_release(ordinal) }.during(OPENING, place)?;
        Ok(None)
    }

    /// Everything that is dropped in a context may need the library's thread, so there is no context without it.
    fn start_reaper(device: &Arc<DeviceCore>, operation: &'static str) -> Result<()> {
        reaper::start_for(device.driver()).map_err(|error| {
            Error::new(ErrorKind::Absent, Status::OPERATING_SYSTEM, operation)
                .with_message(format!("the library's thread cannot be started: {error}"))
                .with_hint("raise the limit of threads, or of memory, of the process or its container")
                .at(device.to_string())
        })
    }

    fn add(contexts: &mut Vec<Known>, device: &Arc<DeviceCore>, handle: ContextHandle, owner: Owner) -> Arc<Self> {
        let context = Self::new(device, handle, owner);
        Known::add(contexts, &context);
        context
    }

    fn new(device: &Arc<DeviceCore>, handle: ContextHandle, owner: Owner) -> Arc<Self> {
        let id = ObjectId::next();
        let context = Arc::new(Self {
            device: device.clone(),
            driver: device.driver().clone(),
            handle,
            id,
            owner,
            panics: Arc::default(),
            extensions: Extensions::new(),
            shared: DriverContext::of(handle, device.name()),
            work: OnceLock::new(),
            strict_order: AtomicBool::new(false),
            orders_inserted: AtomicU64::new(0),
        });
        if device.observes_objects() {
            context.driver.object_created(&context.call("opening a context"), ObjectHandle::Context, id);
        }
        context
    }

    /// The device.
    pub fn device(&self) -> &Arc<DeviceCore> {
        &self.device
    }

    /// The driver.
    #[inline(always)]
    pub fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    /// The driver, for code that may outlive the context.
    pub fn shared_driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// The driver's handle.
    #[inline(always)]
    pub fn handle(&self) -> ContextHandle {
        self.handle
    }

    /// The driver's handle, for calls of its driver.
    #[inline(always)]
    pub(crate) fn live(&self) -> Live<'_, ContextHandle> {
        // SAFETY: the context is destroyed, or the reference to it released, after this is dropped.
        unsafe { Live::new(self.handle) }
    }

    /// An id that is never reused.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// The number of the queue in which the reaper waits for the context to have no work.
    pub fn queue(&self) -> u64 {
        self.id.get() << 1 | 1
    }

    /// A call of the driver for an operation, made where this is called.
    #[inline(always)]
    #[track_caller]
    pub fn call(&self, operation: &'static str) -> Call<'_> {
        Call::new(self.live(), operation)
    }

    /// The attachment of a higher module to this context.
    #[inline]
    pub fn extension<T: Extension + Default>(&self) -> &T {
        self.extensions.get()
    }

    /// Panics of closures that ran in this context.
    #[inline(always)]
    pub fn panics(&self) -> &Arc<PanicReports> {
        &self.panics
    }

    /// Whether this library has retained it as the primary context of its device.
    pub fn is_primary(&self) -> bool {
        matches!(self.owner, Owner::Primary)
    }

    /// The description of this context in errors.
    pub fn place(&self) -> String {
        self.device.to_string()
    }

    /// Whether a call that waits in the driver keeps calls of other threads waiting. Work that it waits for may depend on them.
    pub fn keeps_others_waiting(&self) -> bool {
        !self.device.can(Capabilities::CONCURRENT_BLOCKING_CALLS)
    }

    /// Whether work of this context may come behind work of another context of its device, or of a green context.
    pub(crate) fn is_beside_others(&self) -> bool {
        self.shared.is_beside_others()
    }

    /// What all objects of this context of the driver share.
    pub(crate) fn shared(&self) -> &Arc<DriverContext> {
        &self.shared
    }

    /// Part of [`StreamCore::submit_host_bound_if`](crate::stream::StreamCore::submit_host_bound_if), and for a context whose memory
    /// the work uses.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn submit_host_bound_if(&self, is_host_bound: bool) -> Option<RwLockReadGuard<'_, ()>> {
        if is_host_bound {
            return self.submit_host_bound();
        }
        if cfg!(debug_assertions) {
            self.shared.may_submit_host_bound();
        }
        None
    }

    #[track_caller]
    fn submit_host_bound(&self) -> Option<RwLockReadGuard<'_, ()>> {
        if !self.keeps_others_waiting() {
            self.shared.may_submit_host_bound();
            return None;
        }
        self.shared.submit_host_bound()
    }

    /// Whether objects of other instances may use the same default streams.
    pub fn is_shared(&self) -> bool {
        self.shared.is_shared()
    }

    /// Whether all work of the context that is known is complete, including work of streams that have ended.
    pub fn is_idle(&self) -> bool {
        self.shared.is_idle()
    }

    /// Held while the context is idle, so that a call may wait for all its work. `None`: the context is not idle.
    pub fn try_keep_idle(&self) -> Option<HostBoundKeptOut<'_>> {
        self.shared.try_keep_idle(self.keeps_others_waiting())
    }

    /// See [`DriverContext::count_host_bound`].
    pub(crate) fn count_host_bound(&self) -> Option<u64> {
        self.shared.count_host_bound()
    }

    /// See [`DriverContext::keep_out_host_bound`].
    pub(crate) fn keep_out_host_bound(&self, count: u64) -> Option<HostBoundKeptOut<'_>> {
        self.shared.keep_out_host_bound(count)
    }

    /// Returns when all work that has been submitted until now is complete, as far as it can be waited for.
    pub(crate) fn wait_for_work(&self) {
        self.shared.wait_for_work();
    }

    /// Held while a stream joins a capture: no thread of this library records in the legacy stream meanwhile.
    pub(crate) fn join_capture(&self) -> Option<RwLockReadGuard<'_, ()>> {
        self.shared.join_capture()
    }

    /// Held while it is asked whether a call in the legacy stream would invalidate a capture, and while it is made.
    pub(crate) fn record_in_legacy_stream(&self) -> LegacyRecording<'_> {
        self.shared.record_in_legacy_stream()
    }

    /// Finds out whether this thread may record in the legacy stream, for a record in any stream.
    #[track_caller]
    pub(crate) fn may_record_in_legacy_stream(&self) {
        self.shared.may_record_in_legacy_stream();
    }

    /// Whether the context is lost, and work of it is still running.
    pub fn is_lost_and_running(&self) -> bool {
        self.driver.lost_context_is_running(&self.call("asking whether a lost context runs on"))
    }

    /// Whether a call of the context has failed because the context is lost.
    pub fn is_lost_by(&self, error: &Error) -> bool {
        let call = self.call("asking whether a context is lost");
        error.is_sticky()
            || (error.kind() == ErrorKind::Driver && is_lost(&*self.driver, &call, &Failure::new(error.status())))
    }

    /// Whether a use of memory that the program has not ordered is an error.
    #[inline(always)]
    pub fn is_order_strict(&self) -> bool {
        self.strict_order.load(Ordering::Relaxed)
    }

    /// Chooses whether a use of memory that the program has not ordered is an error.
    pub fn set_strict_order(&self, strict: bool) {
        self.strict_order.store(strict, Ordering::Relaxed);
    }

    /// Adds to the number of orders that the library has inserted.
    pub fn count_orders(&self, count: u64) {
        self.orders_inserted.fetch_add(count, Ordering::Relaxed);
    }

    /// The number of orders that the library has inserted between streams.
    pub fn orders_inserted(&self) -> u64 {
        self.orders_inserted.load(Ordering::Relaxed)
    }

    /// Refuses objects of different drivers.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_DEVICE (101)`.
    #[inline(always)]
    pub fn require_same_driver(&self, other: &Self, operation: &'static str) -> Result<()> {
        if std::ptr::eq(self, other) || Arc::ptr_eq(&self.driver, &other.driver) {
            Ok(())
        } else {
            Err(self.device.refuse_other_driver(&other.device, operation))
        }
    }

    /// Whether both are the same context of the driver.
    #[inline(always)]
    pub fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || (self.handle == other.handle && self.device == other.device)
    }

    /// Free and total memory of the device, in bytes.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        let operation = "reading the free memory";
        self.driver.memory_info(&self.call(operation)).during(operation, || self.place())
    }

    /// The allocation that an address is in, whoever has allocated it.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)` if it is in none that the driver knows.
    pub fn memory_range(&self, address: DevicePointer) -> Result<MemoryRange> {
        let operation = "looking for the allocation of an address";
        self.driver.memory_range(&self.call(operation), address).during(operation, || self.place())
    }

    /// Lets kernels and copies of this context access the memory of `peer`. Calling it twice is not an error.
    ///
    /// # Errors
    /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED (217)` if the devices do not support it; `CUDA_ERROR_INVALID_DEVICE (101)`
    /// if they belong to different drivers.
    pub fn enable_peer_access(&self, peer: &Self) -> Result<()> {
        let operation = "enabling peer access";
        self.require_same_driver(peer, operation)?;
        match self.driver.context_enable_peer_access(&self.call(operation), peer.live()) {
            Err(failure) if failure.status == Status::PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            result => result.during(operation, || self.place()).map_err(Error::of_another_capture),
        }
    }

    /// Undoes [`enable_peer_access`](Self::enable_peer_access).
    ///
    /// # Safety
    /// No work queued in this context uses memory of `peer`.
    ///
    /// # Errors
    /// `CUDA_ERROR_PEER_ACCESS_NOT_ENABLED (705)` if access is not enabled.
    pub unsafe fn disable_peer_access(&self, peer: &Self) -> Result<()> {
        let operation = "disabling peer access";
        self.require_same_driver(peer, operation)?;
        // SAFETY: the caller promises that no work queued in this context uses memory of `peer`.
        unsafe { self.driver.context_disable_peer_access(&self.call(operation), peer.live()) }
            .during(operation, || self.place())
            .map_err(Error::of_another_capture)
    }

    /// Adds the work of the context's streams. Called once, by the module that knows the streams.
    pub fn add_work(&self, work: Arc<dyn ContextWork>) {
        self.shared.add(&work);
        let _ = self.work.set(work);
    }
}

impl Drop for ContextCore {
    fn drop(&mut self) {
        let (driver, handle) = (self.driver.clone(), self.handle);
        let mut owner = Some(std::mem::replace(&mut self.owner, Owner::Made));
        let (device, keeps_others_waiting) = (self.device.clone(), self.keeps_others_waiting());
        let mut extensions = Some(std::mem::take(&mut self.extensions));
        let (shared, mut work) = (self.shared.clone(), self.work.take());
        // Closing a context waits for its work, and the reaper must not.
        reaper::attempt(self.queue(), move || {
            let Some(idle) = shared.try_keep_idle(keeps_others_waiting) else { return Attempt::Pending };
            drop(work.take());
            // SAFETY: the context is destroyed, or the reference to it released, below.
            let context = unsafe { Live::new(handle) };
            if let Some(extensions) = extensions.take() {
                extensions.close(&ClosingContext { driver: &*driver, context });
            }
            let operation = "closing a context";
            let owner = owner.take();
            let result = match owner {
                // SAFETY: everything made in the context kept it alive, so nothing of it is left, and it is destroyed once.
                Some(Owner::Made) => unsafe { driver.context_destroy(&Call::new(context, operation)) },
                // SAFETY: as before; the reference is released once.
                Some(Owner::Primary) => unsafe { driver.primary_context_release(device.ordinal()) },
                Some(Owner::Another(_)) | None => Ok(()),
            };
            drop(idle);
            drop(owner);
            trace::rare!(%device, "closed a context");
            drop_error::report(result.during(operation, || device.to_string()));
            Attempt::Done
        });
    }
}

impl PartialEq for ContextCore {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl Eq for ContextCore {}

impl fmt::Debug for ContextCore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Context({}, {:?})", self.device, self.handle)
    }
}

/// The error for an object that belongs to another context than the call needs.
#[cold]
pub fn other_context(operation: &'static str, what: &str, place: String) -> Error {
    Error::new(ErrorKind::Argument, Status::INVALID_HANDLE, operation)
        .with_message(format!("the {what} belongs to another context"))
        .with_hint("use objects of one context, or copy between contexts with copy_peer")
        .at(place)
}
