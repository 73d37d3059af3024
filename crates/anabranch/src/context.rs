//! Contexts: the state of a device as this program sees it, and what is made in it.

use crate::completion::ContextCompletion;
use crate::device::Device;
use crate::drop_error;
use crate::error::{Error, ErrorKind, Result, ResultExt};
use crate::event::Event;
use crate::graph::ConditionalSetter;
use crate::memory::IdleMemory;
use crate::reaper;
use crate::staging::StagingCache;
use crate::stream::{Reached, Stream, StreamCore};
use crate::trace;
use anabranch_hal::{
    BackendKind, ContextFlags, ContextHandle, Driver, EventFlags, FunctionHandle, MemoryInfo, Status, StreamFlags,
};
use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// A context. Cheap to clone; it lives until the last clone, and the last stream, event, buffer and module made in it,
/// is dropped. Which context is current on a thread is never the caller's business, and never changes.
///
/// Follows the Driver API's groups *Context Management* and *Primary Context Management*.
#[derive(Clone)]
pub struct Context {
    core: Arc<ContextCore>,
}

pub(crate) struct ContextCore {
    device: Device,
    driver: Arc<dyn Driver>,
    handle: ContextHandle,
    owned: bool,
    /// Streams that may still have work in flight, for whoever must outlast all of it (modules).
    streams: Mutex<Vec<Weak<StreamCore>>>,
    completion: ContextCompletion,
    staging: StagingCache,
    idle_memory: IdleMemory,
    /// Held shared while work is queued that the host has to bring to its end, and alone while memory is freed.
    host_bound: RwLock<()>,
    conditional_setter: ConditionalSetter,
    strict_order: AtomicBool,
    orders_inserted: AtomicU64,
}

impl Context {
    pub(crate) fn primary(device: &Device) -> Result<Self> {
        trace::span!("opening the primary context", %device);
        let handle = device
            .driver()
            .primary_context_retain(device.ordinal())
            .during("opening the primary context", || device.to_string())?;
        Ok(Self::from_handle(device, handle, false))
    }

    pub(crate) fn create(device: &Device, flags: ContextFlags) -> Result<Self> {
        trace::span!("creating a context", %device, ?flags);
        let handle = device
            .driver()
            .context_create(device.ordinal(), flags)
            .during("creating a context", || device.to_string())?;
        Ok(Self::from_handle(device, handle, true))
    }

    fn from_handle(device: &Device, handle: ContextHandle, owned: bool) -> Self {
        reaper::may_use(device.driver());
        let core = ContextCore {
            device: device.clone(),
            driver: device.driver().clone(),
            handle,
            owned,
            streams: Mutex::new(Vec::new()),
            completion: ContextCompletion::default(),
            staging: StagingCache::default(),
            idle_memory: IdleMemory::default(),
            host_bound: RwLock::default(),
            conditional_setter: ConditionalSetter::default(),
            strict_order: AtomicBool::new(false),
            orders_inserted: AtomicU64::new(0),
        };
        Self { core: Arc::new(core) }
    }

    pub(crate) fn from_core(core: Arc<ContextCore>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<ContextCore> {
        &self.core
    }

    /// The context's device.
    pub fn device(&self) -> &Device {
        &self.core.device
    }

    /// The driver's handle. It stays valid as long as this context.
    pub fn as_raw(&self) -> ContextHandle {
        self.core.handle
    }

    /// A non-blocking stream of the default priority: it neither waits for the legacy default stream nor is waited for
    /// by it.
    ///
    /// # Errors
    /// 2 when the device has no room for one.
    pub fn create_stream(&self) -> Result<Stream> {
        self.create_stream_with_priority(StreamFlags::NON_BLOCKING, 0)
    }

    /// A stream of the default priority; blocking towards the legacy default stream unless the flags say otherwise.
    ///
    /// # Errors
    /// 1 for flags that the driver does not know.
    pub fn create_stream_with_flags(&self, flags: StreamFlags) -> Result<Stream> {
        self.create_stream_with_priority(flags, 0)
    }

    /// A stream with a priority. Lower is more urgent; a priority outside of the device's
    /// [range](Device::stream_priority_range) is clamped, and [`Stream::priority`] returns the effective one.
    ///
    /// # Errors
    /// 1 for flags that the driver does not know.
    pub fn create_stream_with_priority(&self, flags: StreamFlags, priority: i32) -> Result<Stream> {
        Stream::create(self, flags, priority)
    }

    /// The legacy default stream, which waits for all blocking streams of the context, and all of them for it.
    pub fn legacy_stream(&self) -> Result<Stream> {
        Stream::legacy(self)
    }

    /// The calling thread's default stream of this context. Using it from another thread is an error (400).
    pub fn per_thread_stream(&self) -> Result<Stream> {
        Stream::per_thread(self)
    }

    /// An event that takes time when it is recorded.
    ///
    /// # Errors
    /// As [`create_event_with_flags`](Self::create_event_with_flags).
    pub fn create_event(&self) -> Result<Event> {
        self.create_event_with_flags(EventFlags::empty())
    }

    /// An event with flags.
    ///
    /// # Errors
    /// 1 for flags that the driver does not know, and for an interprocess event that takes time.
    pub fn create_event_with_flags(&self, flags: EventFlags) -> Result<Event> {
        Event::create(self, flags)
    }

    /// Waits for all work of all streams of the context.
    ///
    /// # Errors
    /// An error of any of that work.
    pub fn synchronize(&self) -> Result<()> {
        trace::span!("synchronising a context", device = %self.core.device);
        let reached: Vec<Reached> = self.core.streams().iter().map(|stream| Reached::now(stream.shared())).collect();
        // SAFETY: the handle is live, since `self` keeps the context.
        unsafe { self.core.driver.context_synchronize(self.core.handle) }
            .during("synchronising a context", || self.core.place())?;
        reached.iter().for_each(Reached::note);
        Ok(())
    }

    /// Whether a use of memory that the user has not ordered is an error: see [`set_strict_order`](Self::set_strict_order).
    pub fn strict_order(&self) -> bool {
        self.core.is_order_strict()
    }

    /// Lets work that needs an order between streams be refused, in place of the library making that order.
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
        self.core.strict_order.store(strict, Ordering::Relaxed);
    }

    /// How many orders the library has inserted between streams for later work of this context's streams, those that have
    /// ended included: the sum of what [`Stream::orders_inserted`] counts.
    pub fn orders_inserted(&self) -> u64 {
        self.core.orders_inserted.load(Ordering::Relaxed)
    }

    /// Free and total memory of the device, in bytes.
    ///
    /// # Errors
    /// Only an error of earlier asynchronous work.
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        // SAFETY: the handle is live, since `self` keeps the context.
        unsafe { self.core.driver.memory_info(self.core.handle) }.during("asking for free memory", || self.core.place())
    }

    /// Lets kernels and copies of this context reach the memory of `peer`. Doing so twice is no error.
    ///
    /// # Errors
    /// 217 when the devices cannot; 101 when they belong to different back ends.
    pub fn enable_peer_access(&self, peer: &Context) -> Result<()> {
        let operation = "enabling peer access";
        self.core.require_same_driver(&peer.core, operation)?;
        // SAFETY: both handles are live, since the contexts are borrowed.
        match unsafe { self.core.driver.context_enable_peer_access(self.core.handle, peer.core.handle) } {
            Err(failure) if failure.status == Status::PEER_ACCESS_ALREADY_ENABLED => Ok(()),
            result => result.during(operation, || self.core.place()),
        }
    }

    /// Undoes [`enable_peer_access`](Self::enable_peer_access).
    ///
    /// # Safety
    /// No work queued in this context uses memory of `peer`.
    ///
    /// # Errors
    /// 705 when it is not enabled.
    pub unsafe fn disable_peer_access(&self, peer: &Context) -> Result<()> {
        let operation = "disabling peer access";
        self.core.require_same_driver(&peer.core, operation)?;
        // SAFETY: both handles are live; that nothing uses the memory is the caller's word.
        unsafe { self.core.driver.context_disable_peer_access(self.core.handle, peer.core.handle) }
            .during(operation, || self.core.place())
    }
}

impl ContextCore {
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    #[inline(always)]
    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    pub(crate) fn shared_driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }

    /// What it has for futures.
    #[inline(always)]
    pub(crate) fn completion(&self) -> &ContextCompletion {
        &self.completion
    }

    /// Its pinned memory for transfers.
    pub(crate) fn staging(&self) -> &StagingCache {
        &self.staging
    }

    #[inline(always)]
    pub(crate) fn handle(&self) -> ContextHandle {
        self.handle
    }

    /// Held while work is queued that waits for the host, so that nobody begins to wait for the whole context meanwhile, with
    /// a lock of the driver's that the host needs. The host device has no such lock.
    #[inline]
    pub(crate) fn queue_host_bound(&self) -> Option<RwLockReadGuard<'_, ()>> {
        let needless = self.device.backend() == BackendKind::Host || reaper::is_here();
        if needless { None } else { Some(self.host_bound.read_recursive()) }
    }

    /// Held while the context is idle and memory is freed. `None`: it is not idle.
    pub(crate) fn keep_idle(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        self.host_bound.try_write().filter(|_| self.is_idle())
    }

    pub(crate) fn idle_memory(&self) -> &IdleMemory {
        &self.idle_memory
    }

    #[inline(always)]
    pub(crate) fn is_order_strict(&self) -> bool {
        self.strict_order.load(Ordering::Relaxed)
    }

    pub(crate) fn count_inserted(&self, count: u64) {
        self.orders_inserted.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn place(&self) -> String {
        self.device.to_string()
    }

    #[inline(always)]
    pub(crate) fn require_same_driver(&self, other: &Self, operation: &'static str) -> Result<()> {
        if std::ptr::eq(self, other) { Ok(()) } else { self.compare_drivers(other, operation) }
    }

    #[cold]
    #[inline(never)]
    fn compare_drivers(&self, other: &Self, operation: &'static str) -> Result<()> {
        if self.device.same_driver(&other.device) {
            return Ok(());
        }
        Err(Error::argument(
            Status::INVALID_DEVICE,
            operation,
            format!("{} and {} do not belong to one driver; go through host memory", self.device, other.device),
        ))
    }

    /// The kernel of the library that sets the value of a conditional node.
    pub(crate) fn conditional_setter(self: &Arc<Self>) -> Result<FunctionHandle> {
        self.conditional_setter.function(self)
    }

    /// Remembers a stream for [`streams`](Self::streams), and forgets those that are gone.
    pub(crate) fn remember(&self, stream: &Arc<StreamCore>) {
        let mut streams = self.streams.lock();
        if streams.len() == streams.capacity() {
            streams.retain(|stream| stream.strong_count() > 0);
        }
        streams.push(Arc::downgrade(stream));
    }

    /// Whether no stream that is known here has work at the moment.
    pub(crate) fn is_idle(&self) -> bool {
        // Work is not recorded in the legacy stream beside the capture of a blocking one, which that would spoil.
        let is_shut = |stream: &StreamCore| {
            stream.raw().is_legacy() &&
                // SAFETY: default streams are always live.
                unsafe { self.driver().stream_capture_status(self.handle(), stream.raw()) }.is_err()
        };
        self.streams().iter().filter(|stream| !is_shut(stream)).all(|stream| match stream.checkpoint() {
            Ok(checkpoint) => checkpoint.is_none_or(|checkpoint| checkpoint.event.is_over()),
            Err(_) => true,
        })
    }

    /// The streams of this context that anything still refers to.
    pub(crate) fn streams(&self) -> Vec<Arc<StreamCore>> {
        self.streams.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drop for ContextCore {
    fn drop(&mut self) {
        let (driver, handle, owned) = (self.driver.clone(), self.handle, self.owned);
        let device = self.device.clone();
        let leftovers = self.completion.close();
        let setter = self.conditional_setter.take();
        let staging = self.staging.close();
        reaper::later(move || {
            if let Some(module) = setter {
                // SAFETY: graphs keep their context, so none is left that could launch from the module.
                let result = unsafe { driver.module_unload(handle, module) };
                drop_error::report(result.during("unloading a module", || device.to_string()));
            }
            trace::span!("closing a context", %device);
            // On a lost context, the only one where this fails, they go with the context.
            for event in leftovers.events {
                // SAFETY: the events were the context's own, and nobody is left to use them.
                let _ = unsafe { driver.event_destroy(handle, event) };
            }
            for page in leftovers.pinned {
                // SAFETY: the memory was the context's own, and nobody is left to read it. The call waits for work that is
                // still to write there.
                let _ = unsafe { driver.free_pinned(handle, page as *mut u8) };
            }
            for block in staging {
                // SAFETY: blocks in use keep the context, so nobody uses these.
                let _ = unsafe { driver.free_pinned(handle, block.pointer()) };
            }
            // SAFETY: everything made in the context kept it alive, so nothing of it is left, and the share is given
            // back, or the context destroyed, exactly once.
            let result = unsafe {
                if owned { driver.context_destroy(handle) } else { driver.primary_context_release(device.ordinal()) }
            };
            drop_error::report(result.during("closing a context", || device.to_string()));
        });
    }
}

impl PartialEq for Context {
    fn eq(&self, other: &Self) -> bool {
        self.core.handle == other.core.handle && self.core.device == other.core.device
    }
}

impl Eq for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Context({}, {:?})", self.core.device, self.core.handle)
    }
}

/// A context that a call found to be another than it needs.
#[cold]
pub(crate) fn other_context(operation: &'static str, what: &str, place: String) -> Error {
    Error::new(ErrorKind::Argument, Status::INVALID_HANDLE, operation)
        .with_message(format!("the {what} belongs to another context"))
        .with_hint("use objects of one context, or copy between contexts with copy_peer")
        .at(place)
}
