//! A layer that counts the calls that reach a driver.

use anabranch::hal::{Driver, Forward, Layered};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of calls of each method of the driver contract. Clones share the counts.
///
/// [`wrap`](Self::wrap) is what [`InstanceBuilder::wrap`](anabranch::InstanceBuilder::wrap) takes:
///
/// ```
/// use anabranch_conformance::CallCounts;
///
/// let counts = CallCounts::default();
/// let layer = counts.clone();
/// let instance = anabranch::Instance::builder().wrap(move |driver| layer.wrap(driver)).build()?;
/// let stream = instance.device("host")?.context()?.create_stream()?;
/// stream.synchronize()?;
/// let calls = counts.groups();
/// assert_eq!(calls["Streams"]["stream_create"], 1);
/// # Ok::<(), anabranch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CallCounts {
    calls: Arc<Mutex<BTreeMap<(&'static str, &'static str), u64>>>,
}

impl CallCounts {
    /// Makes a driver that counts the calls of `driver`.
    pub fn wrap(&self, driver: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Layered(CountCalls { driver, counts: self.clone() }))
    }

    /// The counts so far, by trait of the contract and by method. Methods that were not called are missing.
    pub fn groups(&self) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
        let mut groups = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (&(group, method), &calls) in &*self.calls.lock() {
            groups.entry(group).or_default().insert(method, calls);
        }
        groups
    }
}

#[derive(Debug)]
struct CountCalls {
    driver: Arc<dyn Driver>,
    counts: CallCounts,
}

// SAFETY: all calls go to the one driver, with what they were given.
unsafe impl Forward for CountCalls {
    fn inner(&self) -> &dyn Driver {
        &*self.driver
    }

    fn called(&self, group: &'static str, method: &'static str) {
        *self.counts.calls.lock().entry((group, method)).or_default() += 1;
    }
}
