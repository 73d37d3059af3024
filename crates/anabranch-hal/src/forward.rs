//! Layers that write only the calls that they mind.

mod generated;

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
#[derive(Debug)]
pub struct Layered<L>(pub L);
