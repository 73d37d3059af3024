//! Host memory of the program, which is registered with the driver for as long as work may use it.

use super::{Allocation, BORROWED, Origin, READ_ONLY};
use crate::access::AccessHistory;
use crate::context::ContextCore;
use crate::drop_error;
use crate::error::{Error, Result, ResultExt};
use crate::extensions::Extension;
use crate::helping::helping;
use crate::host_work::refuse_inside;
use crate::idle_memory::{attempt_behind, attempt_when_idle};
use crate::keeper::Keeper;
use crate::ranks;
use crate::stream::PendingWork;
use crate::thread_capture_mode::with_relaxed_capture_mode;
use crate::trace;
use crate::waiting_call::call_waiting;
use anabranch_hal::{Access, Capabilities, DevicePointer, RegisterFlags, Status};
use anabranch_sync::Mutex;
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const REGISTERING: &str = "registering host memory";
const UNREGISTERING: &str = "unregistering host memory";

/// Host memory of the program that is to be registered.
#[derive(Clone, Copy)]
pub struct HostRange {
    /// The first byte.
    pub address: *mut u8,
    /// The size in bytes.
    pub bytes: usize,
    /// In addition to those that are always set, which make it pinned and mapped for all contexts.
    pub flags: RegisterFlags,
}

impl Allocation {
    /// Registers host memory, which `keeper` keeps allocated. It is unregistered behind its last use, and then the keeper is
    /// dropped.
    ///
    /// # Errors
    /// `CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED (712)` if a part of it is registered; `CUDA_ERROR_NOT_SUPPORTED (801)` if
    /// the device cannot use it at its host address; `CUDA_ERROR_INVALID_VALUE (1)` for unknown flags;
    /// `CUDA_ERROR_OUT_OF_MEMORY (2)` if it cannot be pinned.
    ///
    /// # Safety
    /// The memory stays allocated until the keeper is dropped, and nobody uses it except through the result.
    #[track_caller]
    pub unsafe fn registered(
        context: &Arc<ContextCore>,
        range: HostRange,
        keeper: Keeper,
    ) -> Result<Self, (Error, Keeper)> {
        // SAFETY: the keeper keeps the memory allocated until it was unregistered.
        match unsafe { register(context, range) } {
            Ok(address) => {
                let memory = Self::new(context, address, range.bytes, Origin::Registered(keeper));
                Ok(if range.flags.contains(RegisterFlags::READ_ONLY) { memory.read_only() } else { memory })
            }
            Err(error) => Err((error, keeper)),
        }
    }

    /// Registers host memory that is borrowed, until [`give_back`](Self::give_back). Work that uses it is not captured.
    ///
    /// # Errors
    /// Same as [`registered`](Self::registered).
    ///
    /// # Safety
    /// The memory stays allocated until it was given back, and nobody uses it except through the result. The caller gives it
    /// back, and uses of it are not submitted from then on.
    #[track_caller]
    pub unsafe fn borrowed(context: &Arc<ContextCore>, range: HostRange) -> Result<Arc<Self>> {
        // SAFETY: the memory stays allocated until the caller has given it back, which unregisters it.
        let address = unsafe { register(context, range) }?;
        Ok(Arc::new(Self::new(context, address, range.bytes, Origin::Borrowed)))
    }

    /// Returns when nothing uses borrowed memory any more, and it is not registered. It ends whatever the driver answers.
    ///
    /// # Errors
    /// An error of work that uses the memory, or of unregistering it.
    pub fn give_back(self: &Arc<Self>) -> Result<()> {
        // Where no event can be waited for, the work is looked after as if its memory were dropped.
        let waited = self.history.synchronize(Access::Write);
        outlast(&self.history);
        let unregistered = if self.address.is_null() { Ok(()) } else { unregister(&self.context, self.address) };
        waited.and(unregistered)
    }

    /// Waits for all uses of registered memory, unregisters it, and returns what has kept it. Nothing of the memory is left here.
    /// `None`: it is not the program's.
    ///
    /// # Errors
    /// An error of the work, or of unregistering it; `CUDA_ERROR_NOT_PERMITTED (800)` inside a host function. The memory is
    /// still registered then.
    pub fn take_kept(&mut self) -> Result<Option<Box<dyn Any + Send>>> {
        if !matches!(self.origin, Origin::Registered(_)) {
            return Ok(None);
        }
        refuse_inside(UNREGISTERING)?;
        self.history.synchronize(Access::Write)?;
        if !self.address.is_null()
            && let Err(error) = unregister(&self.context, self.address)
            // A lost context has no work that uses the memory.
            && !error.is_sticky()
        {
            return Err(error);
        }
        (self.address, self.bytes) = (DevicePointer::NULL, 0);
        match std::mem::replace(&mut self.origin, Origin::Plain) {
            Origin::Registered(keeper) => Ok(keeper.into_kept()),
            _ => Ok(None),
        }
    }

    /// Whether it is memory of the program that is kept by a value of that type.
    pub fn keeps<K: 'static>(&self) -> bool {
        matches!(&self.origin, Origin::Registered(keeper) if keeper.is::<K>())
    }

    /// Whether a use needs [`require_use`](Self::require_use).
    pub(crate) fn is_restricted(&self) -> bool {
        self.state.load(Ordering::Relaxed) & (READ_ONLY | BORROWED) != 0
    }

    /// Whether nobody writes it.
    pub fn is_read_only(&self) -> bool {
        self.state.load(Ordering::Relaxed) & READ_ONLY != 0
    }

    /// The memory, which nobody writes from now on.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        *self.state.get_mut() |= READ_ONLY;
        self
    }

    /// Refuses to write memory that is read-only.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)`.
    pub fn require_writable(&self, operation: &'static str) -> Result<()> {
        if !self.is_read_only() {
            return Ok(());
        }
        Err(Error::argument(Status::INVALID_VALUE, operation, "the memory is read-only")
            .with_hint("copy it, or register or export it as memory that can be written")
            .at(self.context.place()))
    }

    /// Refuses uses that the memory does not allow: to write what is read-only, and to outlive a borrow.
    ///
    /// # Errors
    /// `CUDA_ERROR_INVALID_VALUE (1)`; `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (900)` if `lasting` work, which a capture or
    /// a graph retains, uses borrowed memory.
    #[cold]
    pub(crate) fn require_use(&self, access: Access, lasting: bool, operation: &'static str) -> Result<()> {
        if access == Access::Write {
            self.require_writable(operation)?;
        }
        if !lasting || !matches!(self.origin, Origin::Borrowed) {
            return Ok(());
        }
        let message = "the memory is borrowed for a scope, and a graph would use it afterwards";
        Err(Error::argument(Status::STREAM_CAPTURE_UNSUPPORTED, operation, message)
            .with_hint("register memory that the library owns, with register_pinned")
            .at(self.context.place()))
    }
}

/// Registers memory, and returns its address, which is that of the host for the device too. Null if there are no bytes.
///
/// # Safety
/// The memory stays allocated until it is unregistered.
#[track_caller]
unsafe fn register(
    context: &Arc<ContextCore>,
    HostRange { address, bytes, flags }: HostRange,
) -> Result<DevicePointer> {
    if bytes == 0 {
        return Ok(DevicePointer::NULL);
    }
    trace::span!("registering host memory", bytes, ?flags, device = %context.device());
    let refused = || {
        let message = "the device uses registered memory at another address than the host";
        Error::argument(Status::NOT_SUPPORTED, REGISTERING, message)
            .with_hint("allocate pinned memory, and copy to it")
            .at(context.place())
    };
    if !context.device().can(Capabilities::REGISTERED_HOST_ADDRESS) {
        return Err(refused());
    }
    let call = context.call(REGISTERING);
    let flags = flags | RegisterFlags::PORTABLE | RegisterFlags::DEVICE_MAP;
    let driver = context.driver();
    // SAFETY: the caller keeps the memory allocated until it is unregistered.
    unsafe { driver.register_pinned(&call, address, bytes, flags) }.during(REGISTERING, || context.place()).map_err(
        |error| match error.status() {
            Status::INVALID_VALUE => error
                .with_message("the driver does not register this memory, or not with these flags")
                .with_hint("use the buffer itself if the memory is pinned or managed already"),
            _ => error.of_another_capture(),
        },
    )?;
    let host = DevicePointer(address.expose_provenance() as u64);
    match driver.pinned_device_pointer(&call, address).during(REGISTERING, || context.place()) {
        Ok(mapped) if mapped == host => Ok(host),
        found => {
            // The first error is the one to report.
            let _ = unregister(context, host);
            Err(found.err().unwrap_or_else(refused))
        }
    }
}

/// Unregisters memory that no work uses any more. May block until the context is idle.
///
/// # Errors
/// Any error that the driver returns.
fn unregister(context: &ContextCore, address: DevicePointer) -> Result<()> {
    call_waiting(context, || unregister_at_once(context, address))
}

/// The same, when the context is idle, or no work needs other threads.
fn unregister_at_once(context: &ContextCore, address: DevicePointer) -> Result<()> {
    trace::rare_elsewhere!(device = context.device().clone(), address = address.0; address, %device, "unregistering host memory");
    let call = context.call(UNREGISTERING).of_unused();
    let pointer = std::ptr::with_exposed_provenance_mut(address.0 as usize);
    // No capture can depend on this.
    let unregistered = with_relaxed_capture_mode(context.driver(), || {
        // SAFETY: all uses are complete.
        unsafe { context.driver().unregister_pinned(&call, pointer) }
    });
    unregistered.during(UNREGISTERING, || context.place())
}

/// The memory of a context that is to be unregistered, and is not yet: addresses and sizes in bytes.
struct UnregisteredLater(Mutex<Vec<(DevicePointer, usize)>>);

impl Default for UnregisteredLater {
    fn default() -> Self {
        Self(Mutex::new(ranks::UNREGISTERED_LATER, Vec::new()))
    }
}

impl Extension for UnregisteredLater {}

impl ContextCore {
    /// Whether memory whose owner is gone, and which has some of these bytes, is still registered.
    pub fn is_unregistering(&self, address: DevicePointer, bytes: usize) -> bool {
        let begins_in = |first: (DevicePointer, usize), second: (DevicePointer, usize)| {
            second.0.0.checked_sub(first.0.0).is_some_and(|distance| distance < first.1 as u64)
        };
        let own = (address, bytes);
        let later = self.extension::<UnregisteredLater>().0.lock();
        later.iter().any(|&other| begins_in(own, other) || begins_in(other, own))
    }
}

/// Unregisters memory behind work, when the context is idle, and then drops what has kept it.
pub(super) fn unregister_behind(
    context: &Arc<ContextCore>,
    (address, bytes): (DevicePointer, usize),
    keeper: Keeper,
    after: PendingWork,
) {
    context.extension::<UnregisteredLater>().0.lock().push((address, bytes));
    let context = context.clone();
    attempt_behind(after, move || {
        let idle = context.clone();
        attempt_when_idle(&idle, move || {
            let unregistered = unregister_at_once(&context, address);
            let own = |&(other, _): &(DevicePointer, usize)| other == address;
            let mut later = context.extension::<UnregisteredLater>().0.lock();
            if let Some(place) = later.iter().position(own) {
                later.swap_remove(place);
            }
            drop(later);
            drop_error::report(unregistered);
            drop(keeper);
        });
    });
}

/// Returns when no use is left that is not over, whatever the driver answers.
fn outlast(history: &AccessHistory) {
    let mut uses = history.pending();
    let mut pending = PendingWork::default();
    uses.iter().for_each(|last| pending.add(&last.stream));
    let is_over = |pending: &mut PendingWork| {
        let _helping = helping();
        pending.is_over()
    };
    while !is_over(&mut pending) {
        // Where no event is to be had, the streams that are still there can be asked themselves.
        uses.retain(|last| !last.stream.is_known_to_be_idle());
        if uses.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
