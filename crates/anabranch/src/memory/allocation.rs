//! A piece of memory, whichever kind, and when it can be given back.

use super::BlockKind;
use super::host_access::HostAccess;
use crate::capture::CaptureState;
use crate::context::{ContextCore, other_context};
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::host_work;
use crate::reaper;
use crate::stream::{Checkpoint, Operation, StreamCore};
use crate::trace;
use crate::uses::Uses;
use anabranch_hal::{Access, DevicePointer, MemoryPoolHandle, PinnedFlags, Status};
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

/// In a memory's state: a capture has used it, or a graph allocates it.
const CAPTURED: u8 = 1;
/// In a memory's state: a graph keeps it, or did, so that launches use it without borrowing it. It is set while the memory
/// is borrowed for the graph, and so seen by whoever borrows it later.
const KEPT: u8 = 2;

/// A piece of memory. It is given back behind its last use on every stream, and whoever drops it never waits.
pub(crate) struct Allocation {
    context: Arc<ContextCore>,
    address: DevicePointer,
    bytes: usize,
    origin: Origin,
    uses: Uses,
    /// [`CAPTURED`] and [`KEPT`]. Unless it is 0, uses are looked at closely.
    state: AtomicU8,
    /// The capture that used it last.
    captured_in: Mutex<Weak<CaptureState>>,
    host_access: HostAccess,
}

/// Where memory comes from, which is how it goes back.
enum Origin {
    /// From a pool, in the order of this stream.
    StreamOrdered(Arc<StreamCore>),
    /// From the device, at once.
    Plain,
    /// Managed.
    Managed,
    /// Pinned host memory.
    Pinned(PinnedFlags),
    /// From the graph of that number, whose launches allocate it. It is captured in that stream, or made by hand.
    Graph { graph: u64, stream: Option<Arc<StreamCore>> },
}

impl Allocation {
    fn new(context: &Arc<ContextCore>, address: DevicePointer, bytes: usize, origin: Origin) -> Self {
        Self {
            context: context.clone(),
            address,
            bytes,
            state: AtomicU8::new(if matches!(origin, Origin::Graph { .. }) { CAPTURED } else { 0 }),
            captured_in: Mutex::default(),
            origin,
            uses: Uses::default(),
            host_access: HostAccess::default(),
        }
    }

    /// Memory that the launches of a graph allocate.
    pub(crate) fn of_graph(context: &Arc<ContextCore>, address: DevicePointer, bytes: usize, graph: u64) -> Self {
        Self::new(context, address, bytes, Origin::Graph { graph, stream: None })
    }

    /// Memory that can be used from this point of `stream` on. Its contents are unspecified.
    pub(crate) fn stream_ordered(
        stream: &Arc<StreamCore>,
        bytes: usize,
        pool: Option<MemoryPoolHandle>,
    ) -> Result<Self> {
        let name = "allocating in stream order";
        let context = stream.context();
        trace::queued!(bytes, stream = stream.id(), device = %context.device(), "{name}");
        let operation = stream.operation(name);
        let mut address = DevicePointer::NULL;
        if bytes > 0 {
            let handle = stream.handle(name)?;
            // SAFETY: the stream is in use by the caller, and the pool, if any, is borrowed by it.
            address = unsafe { context.driver().allocate_async(context.handle(), bytes, pool, handle) }
                .during(name, || stream.place())?;
        }
        let capture = stream.capture();
        let origin = match &capture {
            Some(capture) => Origin::Graph { graph: capture.graph(), stream: Some(stream.clone()) },
            None => Origin::StreamOrdered(stream.clone()),
        };
        let allocation = Self::new(context, address, bytes, origin);
        // Other streams must come after the allocation.
        match &capture {
            Some(capture) => capture.use_graph_memory(&allocation, stream, Access::Write, name)?,
            None => allocation.uses.order(stream, Access::Write, &operation)?,
        }
        stream.queued(&operation, || allocation.uses.stamp(stream, Access::Write))?;
        Ok(allocation)
    }

    pub(crate) fn plain(context: &Arc<ContextCore>, bytes: usize) -> Result<Self> {
        trace::span!("allocating", bytes, device = %context.device());
        let mut address =
            context.idle_memory().take(BlockKind::Plain, bytes).map_or(DevicePointer::NULL, DevicePointer);
        if bytes > 0 && address.is_null() {
            // SAFETY: the context's handle is live as long as its core.
            address = unsafe { context.driver().allocate(context.handle(), bytes) }
                .during("allocating", || context.place())?;
        }
        Ok(Self::new(context, address, bytes, Origin::Plain))
    }

    pub(crate) fn managed(context: &Arc<ContextCore>, bytes: usize) -> Result<Self> {
        trace::span!("allocating managed memory", bytes, device = %context.device());
        let idle = context.idle_memory().take(BlockKind::Managed, bytes);
        let mut address = idle.map_or(DevicePointer::NULL, DevicePointer);
        if bytes > 0 && address.is_null() {
            // SAFETY: the context's handle is live as long as its core.
            address = unsafe { context.driver().allocate_managed(context.handle(), bytes) }
                .during("allocating managed memory", || context.place())?;
        }
        Ok(Self::new(context, address, bytes, Origin::Managed))
    }

    pub(crate) fn pinned(context: &Arc<ContextCore>, bytes: usize, flags: PinnedFlags) -> Result<Self> {
        trace::span!("allocating pinned memory", bytes, ?flags, device = %context.device());
        let idle = context.idle_memory().take(BlockKind::pinned(flags), bytes);
        let mut address = idle.map_or(DevicePointer::NULL, DevicePointer);
        if bytes > 0 && address.is_null() {
            // SAFETY: the context's handle is live as long as its core.
            let pointer = unsafe { context.driver().allocate_pinned(context.handle(), bytes, flags) }
                .during("allocating pinned memory", || context.place())?;
            address = DevicePointer(pointer as usize as u64);
        }
        Ok(Self::new(context, address, bytes, Origin::Pinned(flags)))
    }

    pub(crate) fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    #[inline(always)]
    pub(crate) fn address(&self) -> DevicePointer {
        self.address
    }

    #[inline(always)]
    pub(crate) fn uses(&self) -> &Uses {
        &self.uses
    }

    pub(crate) fn host_access(&self) -> &HostAccess {
        &self.host_access
    }

    /// Whether the host reaches the memory through references.
    pub(crate) fn is_host_visible(&self) -> bool {
        matches!(self.origin, Origin::Pinned(_) | Origin::Managed)
    }

    /// The number of the graph that allocates it, if one does.
    pub(crate) fn graph(&self) -> Option<u64> {
        match self.origin {
            Origin::Graph { graph, .. } => Some(graph),
            _ => None,
        }
    }

    /// Orders a use in `stream` behind the uses before it: by events, or by edges while the stream captures.
    #[inline(always)]
    pub(crate) fn order(
        self: &Arc<Self>,
        stream: &Arc<StreamCore>,
        access: Access,
        operation: &Operation<'_>,
    ) -> Result<()> {
        if stream.is_capturing() || self.state.load(Ordering::Relaxed) != 0 {
            return self.order_captured(stream, access, operation);
        }
        self.uses.order(stream, access, operation)
    }

    /// Stamps a use anew, that was ordered and queued, because a mark was put into the stream meanwhile, or because the
    /// stream was drawn into a capture after the memory was ordered.
    pub(crate) fn stamp(self: &Arc<Self>, stream: &Arc<StreamCore>, access: Access) {
        match stream.capture() {
            Some(capture) if self.graph().is_none() => capture.keep_memory(self, stream, access),
            _ => self.uses.stamp(stream, access),
        }
    }

    /// What [`order`](Self::order) would answer in strict mode. It changes nothing: of several pieces of memory each is
    /// looked at before the first is ordered.
    #[cold]
    pub(crate) fn check_order(&self, stream: &Arc<StreamCore>, access: Access, operation: &'static str) -> Result<()> {
        match stream.capture() {
            Some(capture) => return capture.check_order(self.address, stream, access, operation),
            None if self.is_captured() => {
                let capture = self.captured_in.lock().upgrade();
                if let Some(capture) = capture {
                    capture.check_draw_in(stream, self.address, operation)?;
                }
            }
            None => {}
        }
        self.uses.check(stream, access, operation)
    }

    #[cold]
    #[inline(never)]
    fn order_captured(
        self: &Arc<Self>,
        stream: &Arc<StreamCore>,
        access: Access,
        operation: &Operation<'_>,
    ) -> Result<()> {
        if self.is_kept() {
            operation.exclude_others();
        }
        if !stream.is_capturing() && self.is_captured() {
            // What a capture uses belongs to it until it ends: a use elsewhere is drawn in.
            let capture = self.captured_in.lock().upgrade();
            let drawn_in = match capture {
                Some(capture) => operation.while_joining(|| capture.draw_in(stream, self.address, operation.name))?,
                None => false,
            };
            if !drawn_in && self.graph().is_none() {
                self.state.fetch_and(!CAPTURED, Ordering::Relaxed);
            }
        }
        let capture = stream.capture();
        match (&capture, &self.origin) {
            (Some(capture), Origin::Graph { graph, .. }) if capture.owns(*graph) => {
                capture.use_graph_memory(self, stream, access, operation.name)
            }
            (_, Origin::Graph { .. }) => Err(self.refuse_graph_memory(stream.place())),
            (Some(capture), _) => capture.use_memory(self, stream, access, operation.name),
            (None, _) => self.uses.order(stream, access, operation),
        }
    }

    /// Refuses memory that a capture uses, for work that must not be captured: the use would draw its stream in.
    #[inline(always)]
    pub(crate) fn refuse_captured(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        if self.is_captured() { self.refuse_if_captured(stream, operation) } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn refuse_if_captured(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        let capture = self.captured_in.lock().upgrade();
        if !capture.is_some_and(|capture| capture.uses(self.address)) {
            return Ok(());
        }
        Err(Error::argument(Status::STREAM_CAPTURE_UNSUPPORTED, operation, "a capture uses the memory, and goes on")
            .with_hint("do this before or after the capture; captured copies take device or pinned buffers")
            .at(stream.place()))
    }

    #[inline(always)]
    fn is_captured(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CAPTURED != 0
    }

    /// Whether a graph keeps the memory, or did.
    #[inline(always)]
    pub(crate) fn is_kept(&self) -> bool {
        self.state.load(Ordering::Relaxed) & KEPT != 0
    }

    /// A graph keeps the memory from now on.
    pub(crate) fn kept_by_graph(&self) {
        self.state.fetch_or(KEPT, Ordering::Relaxed);
    }

    /// Whether a use needs no order, because its stream alone has used the memory, and nothing else is to be looked at. The
    /// caller shares what is queued at the moment.
    #[inline]
    pub(crate) fn stands(&self, stream: &Arc<StreamCore>, access: Access, operation: &Operation<'_>) -> bool {
        !stream.is_capturing() && !self.is_captured() && self.uses.stands(stream, access, operation.position)
    }

    /// Notes a use within a capture.
    pub(crate) fn used_in(&self, capture: &Arc<CaptureState>) {
        *self.captured_in.lock() = Arc::downgrade(capture);
        self.state.fetch_or(CAPTURED, Ordering::Relaxed);
    }

    #[cold]
    pub(crate) fn refuse_graph_memory(&self, place: String) -> Error {
        Error::argument(Status::INVALID_VALUE, "using memory of a graph", "only the graph that allocates it can use it")
            .with_hint("copy it, inside of the capture, to a buffer that was allocated before")
            .at(place)
    }

    pub(crate) fn is_pinned(&self) -> bool {
        matches!(self.origin, Origin::Pinned(_))
    }

    /// Whether work of `stream` may use the memory: it is of the stream's context, or pinned, which every context
    /// reaches.
    #[inline(always)]
    pub(crate) fn require_context(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        if Arc::ptr_eq(&self.context, stream.context()) { Ok(()) } else { self.require_reach(stream, operation) }
    }

    #[cold]
    #[inline(never)]
    fn require_reach(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        let same =
            self.context.handle() == stream.context().handle() && self.context.device() == stream.context().device();
        if same {
            return Ok(());
        }
        if self.is_pinned() && self.context.device().same_driver(stream.context().device()) {
            return Ok(());
        }
        Err(other_context(operation, "memory", stream.place()))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.address.is_null() {
            return;
        }
        let uses = std::mem::take(&mut self.uses);
        let (context, address) = (self.context.clone(), self.address);
        let free: Box<dyn FnOnce() -> Result<()> + Send> = match &self.origin {
            Origin::Graph { graph, stream } => {
                if let Some(stream) = stream {
                    CaptureState::drop_graph_memory(*graph, address, stream);
                }
                return;
            }
            Origin::StreamOrdered(home) => {
                let home = home.clone();
                Box::new(move || free_in_stream_order(&context, address, &home, uses))
            }
            Origin::Plain => free_behind(uses, context, BlockKind::Plain, self.bytes, address),
            Origin::Managed => free_behind(uses, context, BlockKind::Managed, self.bytes, address),
            Origin::Pinned(flags) => free_behind(uses, context, BlockKind::pinned(*flags), self.bytes, address),
        };
        if host_work::is_inside() {
            reaper::later(move || drop_error::report(free()));
        } else {
            drop_error::report(free());
        }
    }
}

/// What frees memory whose freeing may block, behind its uses.
fn free_behind(
    uses: Uses,
    context: Arc<ContextCore>,
    kind: BlockKind,
    bytes: usize,
    address: DevicePointer,
) -> Box<dyn FnOnce() -> Result<()> + Send> {
    Box::new(move || {
        // Where no event can be had the context is lost, and nothing runs any more.
        let checkpoints = uses.checkpoints(Access::Write).unwrap_or_default();
        let events = checkpoints.into_iter().map(|checkpoint| checkpoint.event).collect();
        context.free_when_idle(kind, bytes, address.0, events);
        Ok(())
    })
}

/// Frees memory on the stream that it was allocated on, behind its uses on all streams.
fn free_in_stream_order(
    context: &Arc<ContextCore>,
    address: DevicePointer,
    home: &Arc<StreamCore>,
    uses: Uses,
) -> Result<()> {
    let others: Vec<_> = uses.into_pending().into_iter().filter(|last| !last.stream.is_same(home)).collect();
    let mut checkpoints = Vec::new();
    for last in others.iter().filter(|last| !home.comes_after(&last.stream, last.stamp)) {
        Checkpoint::add_to(&mut checkpoints, &last.stream, last.stamp)?;
    }
    match home.free_behind(&checkpoints, address) {
        Some(result) => result,
        None => {
            // The stream has ended. Any other will do, behind the end of that one, and behind all other uses: what this handle
            // came after at its end is not what the stream has followed since under another.
            let mut checkpoints: Vec<_> = home.checkpoint()?.into_iter().collect();
            for last in &others {
                Checkpoint::add_to(&mut checkpoints, &last.stream, last.stamp)?;
            }
            let stream = crate::context::Context::from_core(context.clone()).create_stream()?;
            stream.core().free_behind(&checkpoints, address).unwrap_or(Ok(()))
        }
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}, {} bytes on {}", self.address, self.bytes, self.context.place())
    }
}

/// The size in bytes of `length` elements, or the error that there is not so much memory.
pub(crate) fn byte_size<T>(length: usize, operation: &'static str) -> Result<usize> {
    length.checked_mul(size_of::<T>()).filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(|| {
        Error::argument(
            Status::OUT_OF_MEMORY,
            operation,
            format!("{length} elements of {} bytes are more than the address space; allocate less", size_of::<T>()),
        )
    })
}
