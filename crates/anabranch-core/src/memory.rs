//! A piece of memory of any kind, and when it can be freed.

mod attachment;
mod exclusion;
mod registered;
mod stream_ordered;

pub use self::registered::HostRange;

use self::attachment::NO_STREAM;
use self::exclusion::Exclusion;
pub(crate) use self::exclusion::ForeignUses;
use self::stream_ordered::StreamOrdered;
pub use self::stream_ordered::free_behind_launch;
use crate::access::AccessHistory;
use crate::context::{ContextCore, other_context};
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::host_access::HostAccess;
use crate::host_work;
use crate::idle_memory::{BlockKind, attempt_behind};
use crate::keeper::Keeper;
use crate::label::Label;
use crate::memory_pool::MemoryPoolCore;
use crate::ranks;
use crate::reaper;
use crate::stream::{Capture, PendingWork, StreamCore, is_any_capturing};
use crate::trace;
use anabranch_hal::{ALLOCATION_ALIGNMENT, Access, Capabilities, DevicePointer, ObjectHandle, PinnedFlags, Status};
use anabranch_sync::modelled;
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// In the state of a piece of memory: a capture has used it, or a graph allocates it.
const CAPTURED: u8 = 1;
/// In the state of a piece of memory: a graph retains it, or did, so launches use it without borrowing it. It is set
/// while the memory is borrowed for the graph, so later borrowers see it.
const RETAINED: u8 = 2;
/// In the state of a piece of memory: nobody writes it.
const READ_ONLY: u8 = 4;
/// In the state of a piece of memory: it is borrowed, and neither captures nor graphs use it.
const BORROWED: u8 = 8;
/// In the state of a piece of memory: it is attached to a stream or to the host, and no other stream uses it.
const ATTACHED: u8 = 16;

/// A piece of memory. It is freed after its last use in every stream. Dropping it never waits.
pub struct Allocation {
    context: Arc<ContextCore>,
    address: DevicePointer,
    bytes: usize,
    origin: Origin,
    history: AccessHistory,
    /// [`CAPTURED`], [`RETAINED`], [`READ_ONLY`], [`BORROWED`] and [`ATTACHED`]. If it is not 0, uses need further checks.
    state: AtomicU8,
    /// The id of the stream that it is attached to, or `NO_STREAM`, if it is attached.
    attached_to: AtomicU64,
    /// The captures that have used it, as far as it is not known that they have ended. The last one to use it comes last.
    captured_in: modelled::Mutex<SmallVec<[Weak<dyn Any + Send + Sync>; 1]>>,
    host_access: HostAccess,
    exclusion: Exclusion,
    label: Label,
}

/// Where memory comes from, which determines how it is freed.
pub enum Origin {
    /// From a pool, in the order of a stream.
    StreamOrdered {
        /// The stream.
        stream: Arc<StreamCore>,
        /// The pool, unless it is the default one, which is never destroyed.
        pool: Option<Arc<MemoryPoolCore>>,
    },
    /// From the device, immediately.
    Plain,
    /// Managed.
    Managed,
    /// Pinned host memory.
    Pinned(PinnedFlags),
    /// Host memory of the program, which is registered, and then kept no longer.
    Registered(Keeper),
    /// Host memory that is borrowed from the program, and registered until it is given back.
    Borrowed,
    /// From somebody else, who frees it.
    Foreign(Keeper),
    /// From somebody else, who frees it, as a part or all of memory that is there already, and that has its uses when it is dropped.
    Part {
        /// The memory.
        of: Arc<Allocation>,
        /// What keeps the part.
        keeper: Keeper,
        /// The uses of the part. They are those of the memory, too, before this is dropped.
        history: Arc<AccessHistory>,
    },
    /// From the graph of that id, to which the node was added by hand, and whose launches allocate it.
    Graph(u64),
    /// From a graph, as before, but the allocation was captured. Only work of the same capture uses it, because that work is
    /// known to follow the allocation.
    Captured {
        /// The graph.
        graph: u64,
        /// The capture.
        capture: Weak<dyn Capture>,
        /// The stream.
        stream: Arc<StreamCore>,
    },
}

impl Origin {
    /// The state of new memory.
    fn state(&self) -> u8 {
        match self {
            Self::Graph(_) | Self::Captured { .. } => CAPTURED,
            Self::Borrowed => BORROWED,
            _ => 0,
        }
    }
}

/// A use of memory that a submission declares.
#[derive(Clone, Copy)]
pub struct MemoryAccess<'a> {
    /// The memory.
    pub memory: &'a Arc<Allocation>,
    /// Whether the work writes it.
    pub access: Access,
}

impl<'a> MemoryAccess<'a> {
    /// The work only reads the memory.
    #[inline(always)]
    pub fn read(memory: &'a Arc<Allocation>) -> Self {
        Self { memory, access: Access::Read }
    }

    /// The work writes the memory.
    #[inline(always)]
    pub fn write(memory: &'a Arc<Allocation>) -> Self {
        Self { memory, access: Access::Write }
    }
}

impl Allocation {
    /// Takes ownership of memory that was just allocated. The address is null if there are no bytes.
    #[track_caller]
    pub fn new(context: &Arc<ContextCore>, address: DevicePointer, bytes: usize, origin: Origin) -> Self {
        Self::with_history(context, address, bytes, origin, AccessHistory::default())
    }

    /// Takes ownership of memory that a stream that does not capture has just allocated.
    #[track_caller]
    pub fn in_stream_order(
        stream: &Arc<StreamCore>,
        pool: Option<Arc<MemoryPoolCore>>,
        address: DevicePointer,
        bytes: usize,
    ) -> Self {
        // Read after the driver was asked, so that no point that the value covers came before the allocation.
        let history = AccessHistory::begin(stream, stream.shared().timeline().value());
        let origin = Origin::StreamOrdered { stream: stream.clone(), pool };
        Self::with_history(stream.context(), address, bytes, origin, history)
    }

    #[track_caller]
    fn with_history(
        context: &Arc<ContextCore>,
        address: DevicePointer,
        bytes: usize,
        origin: Origin,
        history: AccessHistory,
    ) -> Self {
        let label = Label::new(context, ObjectHandle::Memory(address));
        Self {
            context: context.clone(),
            address,
            bytes,
            state: AtomicU8::new(origin.state()),
            attached_to: AtomicU64::new(NO_STREAM),
            captured_in: modelled::Mutex::new(ranks::CAPTURED_IN, SmallVec::new()),
            origin,
            history,
            host_access: HostAccess::default(),
            exclusion: Exclusion::new(label.id()),
            label,
        }
    }

    /// Takes memory that somebody else has allocated, and frees.
    #[track_caller]
    pub fn foreign(context: &Arc<ContextCore>, address: DevicePointer, bytes: usize, keeper: Keeper) -> Self {
        Self::new(context, address, bytes, Origin::Foreign(keeper))
    }

    /// Takes memory of somebody else, who frees it, which is a part or all of memory that is there already. When its history is gone,
    /// that memory has the uses that are not complete.
    #[track_caller]
    pub fn part(
        context: &Arc<ContextCore>,
        address: DevicePointer,
        bytes: usize,
        of: Arc<Self>,
        keeper: Keeper,
    ) -> (Self, Weak<AccessHistory>) {
        let history = Arc::new(AccessHistory::default());
        let uses = Arc::downgrade(&history);
        (Self::new(context, address, bytes, Origin::Part { of, keeper, history }), uses)
    }

    /// Allocates plain device memory, whose contents are unspecified.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY (2)` if there is not enough memory.
    #[track_caller]
    pub fn plain(context: &Arc<ContextCore>, bytes: usize) -> Result<Self> {
        let operation = "allocating";
        trace::span!("allocating", bytes, device = %context.device());
        let address = Self::take_idle(context, BlockKind::Plain, bytes, || {
            context
                .driver()
                .allocate(&context.call(operation), bytes)
                .during(operation, || context.place())
                .map_err(Error::of_another_capture)
        })?;
        Ok(Self::new(context, address, bytes, Origin::Plain))
    }

    /// Allocates managed memory, whose contents are unspecified.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_SUPPORTED (801)` if the device has no managed memory; `CUDA_ERROR_OUT_OF_MEMORY (2)` if there is
    /// not enough memory.
    #[track_caller]
    pub fn managed(context: &Arc<ContextCore>, bytes: usize) -> Result<Self> {
        let operation = "allocating managed memory";
        trace::span!("allocating managed memory", bytes, device = %context.device());
        let address = Self::take_idle(context, BlockKind::Managed, bytes, || {
            context
                .driver()
                .allocate_managed(&context.call(operation), bytes)
                .during(operation, || context.place())
                .map_err(Error::of_another_capture)
        })?;
        Ok(Self::new(context, address, bytes, Origin::Managed))
    }

    /// Allocates pinned memory, whose contents are unspecified.
    ///
    /// # Errors
    /// `CUDA_ERROR_OUT_OF_MEMORY (2)` if not enough memory can be pinned; `CUDA_ERROR_INVALID_VALUE (1)` for flags that
    /// the driver does not know.
    #[track_caller]
    pub fn pinned(context: &Arc<ContextCore>, bytes: usize, flags: PinnedFlags) -> Result<Self> {
        let operation = "allocating pinned memory";
        trace::span!("allocating pinned memory", bytes, ?flags, device = %context.device());
        let address = Self::take_idle(context, BlockKind::pinned(flags), bytes, || {
            let pointer = context.driver().allocate_pinned(&context.call(operation), bytes, flags);
            let pointer = pointer.during(operation, || context.place()).map_err(Error::of_another_capture)?;
            Ok(DevicePointer(pointer as usize as u64))
        })?;
        Ok(Self::new(context, address, bytes, Origin::Pinned(flags)))
    }

    fn take_idle(
        context: &ContextCore,
        kind: BlockKind,
        bytes: usize,
        allocate: impl Fn() -> Result<DevicePointer>,
    ) -> Result<DevicePointer> {
        // While streams capture, and inside of a host function, the driver is asked, because it may refuse: that must not depend on
        // what was freed before.
        let idle =
            if is_any_capturing() || host_work::is_inside() { None } else { context.take_idle_memory(kind, bytes) };
        match idle {
            Some(address) => Ok(DevicePointer(address)),
            None if bytes == 0 => Ok(DevicePointer::NULL),
            None => match allocate() {
                // What was dropped before may not be freed yet, because that takes an idle context.
                Err(error) if error.status() == Status::OUT_OF_MEMORY && context.is_idle_memory_freed() => allocate(),
                allocated => allocated,
            },
        }
    }

    /// The context.
    pub fn context(&self) -> &Arc<ContextCore> {
        &self.context
    }

    /// The first address.
    #[inline(always)]
    pub fn address(&self) -> DevicePointer {
        self.address
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its number and name.
    pub fn label(&self) -> &Label {
        &self.label
    }

    /// Which streams use it.
    #[inline(always)]
    pub fn history(&self) -> &AccessHistory {
        match &self.origin {
            Origin::Part { history, .. } => history,
            _ => &self.history,
        }
    }

    /// Which accesses of the host and of graph launches are in progress.
    pub fn host_access(&self) -> &HostAccess {
        &self.host_access
    }

    /// Who submits work that uses it, once graphs retain it.
    pub(crate) fn exclusion(&self) -> &Exclusion {
        &self.exclusion
    }

    /// Where it comes from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether the host accesses the memory through references.
    pub fn is_host_visible(&self) -> bool {
        self.is_pinned() || matches!(self.origin, Origin::Managed)
    }

    /// Whether it is pinned host memory, of the driver or of the program.
    pub fn is_pinned(&self) -> bool {
        matches!(self.origin, Origin::Pinned(_)) || self.is_registered()
    }

    /// Whether it is host memory of the program.
    fn is_registered(&self) -> bool {
        matches!(self.origin, Origin::Registered(_) | Origin::Borrowed)
    }

    /// Whether it is host memory that the program has lent for a scope.
    pub(crate) fn is_borrowed(&self) -> bool {
        matches!(self.origin, Origin::Borrowed)
    }

    /// The id of the graph that allocates it, if one does.
    pub fn graph(&self) -> Option<u64> {
        match self.origin {
            Origin::Graph(graph) | Origin::Captured { graph, .. } => Some(graph),
            _ => None,
        }
    }

    /// Whether a use needs further checks: a capture has used the memory, a graph retains it, or not every use is allowed.
    #[inline(always)]
    pub fn is_special(&self) -> bool {
        self.state.load(Ordering::Relaxed) != 0
    }

    /// Whether a capture has used it, or a graph allocates it.
    #[inline(always)]
    pub fn is_captured(&self) -> bool {
        self.state.load(Ordering::Relaxed) & CAPTURED != 0
    }

    /// Whether a graph retains the memory, or did.
    #[inline(always)]
    pub fn is_retained(&self) -> bool {
        self.state.load(Ordering::Relaxed) & RETAINED != 0
    }

    /// Notes that a graph retains the memory from now on.
    pub fn retained_by_graph(&self) {
        self.state.fetch_or(RETAINED, Ordering::Relaxed);
    }

    /// The captures that have used it and still exist. The last one to use it comes last.
    pub fn captured_in(&self) -> SmallVec<[Arc<dyn Any + Send + Sync>; 1]> {
        self.captured_in.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Notes a use within a capture.
    pub fn used_in<C: Capture>(&self, capture: &Arc<C>) {
        let mut captured_in = self.captured_in.lock();
        let is_it = |known: &Weak<dyn Any + Send + Sync>| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(capture));
        if !captured_in.last().is_some_and(is_it) {
            captured_in.retain(|known| known.strong_count() > 0 && !is_it(known));
            let weak: Weak<C> = Arc::downgrade(capture);
            captured_in.push(weak);
        }
        // Under the lock, so that the end of another capture does not undo it.
        if !self.is_captured() {
            self.state.fetch_or(CAPTURED, Ordering::Relaxed);
        }
    }

    /// Notes that these captures are over.
    pub fn captures_are_over(&self, over: &[Arc<dyn Any + Send + Sync>]) {
        let mut captured_in = self.captured_in.lock();
        let is_over = |known: &Weak<_>| over.iter().any(|over| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(over)));
        captured_in.retain(|known| known.strong_count() > 0 && !is_over(known));
        if captured_in.is_empty() && self.graph().is_none() {
            self.state.fetch_and(!CAPTURED, Ordering::Relaxed);
        }
    }

    /// The error of memory that belongs to another graph.
    #[cold]
    pub fn refuse_graph_memory(&self, place: String) -> Error {
        let message = match self.origin {
            Origin::Captured { .. } => "only the capture that allocates it can use it",
            _ => "only the graph that allocates it can use it",
        };
        Error::argument(Status::INVALID_VALUE, "using memory of a graph", message)
            .with_hint("copy it, inside of the capture, to a buffer that was allocated before")
            .at(place)
    }

    /// Whether work of `stream` may use the memory: it belongs to the stream's context, or is pinned, which every
    /// context can access.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_HANDLE (400)`.
    #[inline(always)]
    pub fn require_context(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        if Arc::ptr_eq(&self.context, stream.context()) { Ok(()) } else { self.require_reach(stream, operation) }
    }

    #[cold]
    #[inline(never)]
    fn require_reach(&self, stream: &StreamCore, operation: &'static str) -> Result<()> {
        if self.is_reached_from(stream.context()) {
            Ok(())
        } else {
            Err(other_context(operation, "memory", stream.place()))
        }
    }

    /// Whether work of a context can use the memory.
    pub fn is_reached_from(&self, context: &ContextCore) -> bool {
        let shares_pinned = || self.is_pinned() && self.context.device().same_driver(context.device());
        let has_address = || !self.is_registered() || context.device().can(Capabilities::REGISTERED_HOST_ADDRESS);
        self.context.is_same(context) || (shares_pinned() && has_address())
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.address.is_null() && !matches!(self.origin, Origin::Foreign(_)) {
            return;
        }
        match &self.origin {
            Origin::Captured { capture, stream, .. } => {
                if let Some(capture) = capture.upgrade() {
                    let (address, stream) = (self.address, stream.clone());
                    reaper::now_or_later(move || capture.release_memory(address, &stream));
                }
                return;
            }
            Origin::Graph(_) | Origin::Borrowed => return,
            _ => {}
        }
        if let Origin::Part { of, history, .. } = &self.origin {
            history.pending().into_iter().for_each(|last| of.history().begin_after(last));
        }
        let history = std::mem::take(&mut self.history);
        let origin = std::mem::replace(&mut self.origin, Origin::Plain);
        let (address, bytes) = (self.address, self.bytes);
        let managed = if self.is_attached() { BlockKind::Attached } else { BlockKind::Managed };
        if host_work::is_inside() {
            let context = self.context.clone();
            reaper::later(move || drop_error::report(free(&context, address, bytes, origin, managed, history)));
        } else {
            drop_error::report(free(&self.context, address, bytes, origin, managed, history));
        }
    }
}

/// Frees memory after its uses. `managed`: which kind it is if it is managed.
fn free(
    context: &Arc<ContextCore>,
    address: DevicePointer,
    bytes: usize,
    origin: Origin,
    managed: BlockKind,
    history: AccessHistory,
) -> Result<()> {
    let pending = |history: AccessHistory| {
        let mut work = PendingWork::default();
        history.into_pending().iter().for_each(|last| work.add(&last.stream));
        work
    };
    let kind = match origin {
        Origin::StreamOrdered { stream, pool } => {
            let freed = StreamOrdered { context, address, home: &stream, pool: pool.as_ref(), frees: None };
            return freed.free(history);
        }
        Origin::Foreign(keeper) => {
            attempt_behind(pending(history), move || drop(keeper));
            return Ok(());
        }
        Origin::Part { of, keeper, history } => {
            let mut work = PendingWork::default();
            history.pending().iter().for_each(|last| work.add(&last.stream));
            attempt_behind(work, move || drop((keeper, of)));
            return Ok(());
        }
        Origin::Registered(keeper) => {
            registered::unregister_behind(context, (address, bytes), keeper, pending(history));
            return Ok(());
        }
        Origin::Plain | Origin::Graph(_) | Origin::Captured { .. } | Origin::Borrowed => BlockKind::Plain,
        Origin::Managed => managed,
        Origin::Pinned(flags) => BlockKind::pinned(flags),
    };
    context.free_when_idle(kind, bytes, address.0, pending(history));
    Ok(())
}

impl fmt::Debug for Allocation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?}, {} bytes on {}", self.address, self.bytes, self.context.place())
    }
}

/// The size in bytes of `length` elements, for which memory is about to be allocated.
///
/// # Errors
/// `CUDA_ERROR_OUT_OF_MEMORY (2)` if it exceeds the address space; `CUDA_ERROR_INVALID_VALUE (1)` for elements that are
/// aligned to more than [`ALLOCATION_ALIGNMENT`].
pub fn byte_size<T>(length: usize, operation: &'static str) -> Result<usize> {
    let (size, alignment) = (size_of::<T>(), align_of::<T>());
    if alignment > ALLOCATION_ALIGNMENT {
        let message = format!("the elements are aligned to {alignment} bytes, and memory to {ALLOCATION_ALIGNMENT}");
        return Err(Error::argument(Status::INVALID_VALUE, operation, message)
            .with_hint("use elements of a type that is less aligned"));
    }
    length.checked_mul(size).filter(|&bytes| isize::try_from(bytes).is_ok()).ok_or_else(|| {
        Error::argument(
            Status::OUT_OF_MEMORY,
            operation,
            format!("{length} elements of {size} bytes are more than the address space; allocate less"),
        )
    })
}
