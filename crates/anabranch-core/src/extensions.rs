//! Attachments of higher modules to objects of lower ones, which do not know the higher modules.

use std::any::{Any, TypeId};
use std::sync::OnceLock;

/// Values of different types, one of each, which are made at their first use. Looking one up takes no lock.
pub struct Extensions {
    first: OnceLock<Box<Entry>>,
}

struct Entry {
    kind: TypeId,
    value: Box<dyn Extension>,
    next: OnceLock<Box<Entry>>,
}

/// What can be attached to a device, a context or a stream.
pub trait Extension: Any + Send + Sync {
    /// Called by a context that is about to be closed, when all its work is complete.
    fn close(&mut self, context: &ClosingContext<'_>) {
        let _ = context;
    }
}

/// A context that is about to be closed, and whose last object was dropped.
pub struct ClosingContext<'a> {
    /// Its driver.
    pub driver: &'a dyn anabranch_hal::Driver,
    /// Its handle.
    pub context: anabranch_hal::Live<'a, anabranch_hal::ContextHandle>,
}

impl Extensions {
    /// None.
    pub const fn new() -> Self {
        Self { first: OnceLock::new() }
    }

    /// The value of a type.
    #[inline]
    pub fn get<T: Extension + Default>(&self) -> &T {
        let mut slot = &self.first;
        loop {
            let entry = slot.get_or_init(|| {
                Box::new(Entry { kind: TypeId::of::<T>(), value: Box::<T>::default(), next: OnceLock::new() })
            });
            if entry.kind == TypeId::of::<T>()
                && let Some(value) = (&*entry.value as &dyn Any).downcast_ref()
            {
                return value;
            }
            slot = &entry.next;
        }
    }

    /// Closes all values.
    pub(crate) fn close(mut self, context: &ClosingContext<'_>) {
        let mut next = self.first.take();
        while let Some(mut entry) = next {
            entry.value.close(context);
            next = entry.next.take();
        }
    }
}

impl Default for Extensions {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::{Extension, Extensions};
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct First(AtomicU32);

    #[derive(Default)]
    struct Second(AtomicU32);

    impl Extension for First {}
    impl Extension for Second {}

    #[test]
    fn there_is_one_value_of_each_type() {
        let extensions = Extensions::new();
        extensions.get::<First>().0.store(1, Ordering::Relaxed);
        extensions.get::<Second>().0.store(2, Ordering::Relaxed);
        assert_eq!(extensions.get::<First>().0.load(Ordering::Relaxed), 1);
        assert_eq!(extensions.get::<Second>().0.load(Ordering::Relaxed), 2);
    }
}
