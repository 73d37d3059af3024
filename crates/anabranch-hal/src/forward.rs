//! Layers that write only the calls that they mind.

mod generated;

use crate::{Detail, Failure, Result, Status, Thrown, contain};

pub use generated::Forward;

/// The [`Driver`](crate::Driver) that a [`Forward`] makes.
///
/// A layer (a tracer, a checker, a fault injector, a test that counts) owns a driver, names it in [`Forward::inner`], and
/// writes those methods that it does something in. All others go to the driver that it owns, those that the contract has
/// bodies for included.
///
/// ```
/// use anabranch_hal::{Call, Driver, Forward, Layered, Live, Result, StreamHandle};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// /// Counts how often the host waits for a stream.
/// #[derive(Debug)]
/// struct Waits {
///     driver: Arc<dyn Driver>,
///     count: AtomicU64,
/// }
///
/// // SAFETY: all calls go to the one driver, with what they were given.
/// unsafe impl Forward for Waits {
///     fn inner(&self) -> &dyn Driver {
///         &*self.driver
///     }
///
///     fn stream_synchronize(&self, call: &Call<'_>, stream: Live<'_, StreamHandle>) -> Result<()> {
///         self.count.fetch_add(1, Ordering::Relaxed);
///         self.inner().stream_synchronize(call, stream)
///     }
/// }
///
/// fn counted(driver: Arc<dyn Driver>) -> Arc<dyn Driver> {
///     Arc::new(Layered(Waits { driver, count: AtomicU64::new(0) }))
/// }
/// ```
///
/// A call whose layer unwinds returns `CUDA_ERROR_UNKNOWN (999)`, with the message: nobody who calls a driver is unwound.
#[derive(Debug)]
pub struct Layered<L>(pub L);

impl<L: Forward> Layered<L> {
    /// Calls the layer. If it unwinds, that ends here.
    #[inline(always)]
    fn contained<R: Unwound>(&self, group: &'static str, method: &'static str, call: impl FnOnce(&L) -> R) -> R {
        let called = contain(|| {
            self.0.called(group, method);
            call(&self.0)
        });
        called.unwrap_or_else(|thrown| R::unwound(&thrown))
    }
}

/// The result of a call whose layer has unwound.
trait Unwound {
    fn unwound(thrown: &Thrown) -> Self;
}

impl<T> Unwound for Result<T> {
    #[cold]
    fn unwound(thrown: &Thrown) -> Self {
        Err(Failure::with_detail(Status::UNKNOWN, Detail::Panic(thrown.message())))
    }
}

impl<T> Unwound for Option<T> {
    fn unwound(_: &Thrown) -> Self {
        None
    }
}

impl Unwound for bool {
    /// A context may be running, and objects may be observed.
    fn unwound(_: &Thrown) -> Self {
        true
    }
}

impl Unwound for () {
    fn unwound(_: &Thrown) -> Self {}
}
