//! Calls of code of the program, which may unwind.

use std::any::Any;
use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Calls code of the program: a closure that it gave away, a waker, a hook, or the drop of any of these. If the code
/// unwinds, the unwinding ends here. Everything of the library and the drivers that calls such code uses this function,
/// and holds no lock of its own meanwhile.
///
/// # Errors
/// What was thrown.
pub fn contain<R>(run: impl FnOnce() -> R) -> Result<R, Thrown> {
    // The caller cannot observe state that the code has left inconsistent: it was given away.
    catch_unwind(AssertUnwindSafe(run)).map_err(|payload| Thrown(ManuallyDrop::new(payload)))
}

/// What code of the program has thrown. It may be a value that unwinds again when it is dropped; dropping a `Thrown`
/// does not unwind.
pub struct Thrown(ManuallyDrop<Box<dyn Any + Send>>);

impl Thrown {
    /// The value that was thrown.
    pub fn payload(&self) -> &(dyn Any + Send) {
        &**self.0
    }

    /// The message of a panic.
    pub fn message(&self) -> String {
        if let Some(raised) = self.payload().downcast_ref::<Raised>() {
            return raised.message.clone();
        }
        match (self.payload().downcast_ref::<&str>(), self.payload().downcast_ref::<String>()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => text.clone(),
            (None, None) => "with a value that is not text".to_owned(),
        }
    }

    /// What is kept until the panic is reported, or is not to be reported any more.
    pub fn kept(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.payload().downcast_ref::<Raised>().map(|raised| &raised.kept)
    }
}

/// A value to unwind with, for bindings of languages whose exceptions are more than a message.
pub struct Raised {
    /// The message of the panic.
    pub message: String,
    /// What the library keeps until it reports the panic, or will not report it any more.
    pub kept: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for Raised {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Raised").field(&self.message).finish()
    }
}

impl Drop for Thrown {
    fn drop(&mut self) {
        // SAFETY: the value is dropped, and with it its field, which nobody takes before.
        let payload = unsafe { ManuallyDrop::take(&mut self.0) };
        // What the drop of the payload throws may unwind as well, so it is leaked.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            mem::forget(second);
        }
    }
}

impl fmt::Debug for Thrown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Thrown").field(&self.message()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::contain;
    use std::panic::resume_unwind;

    #[test]
    fn what_is_thrown_has_a_message_and_may_unwind_when_it_is_dropped() {
        struct Unwinds;
        impl Drop for Unwinds {
            fn drop(&mut self) {
                resume_unwind(Box::new("again"));
            }
        }
        let thrown = contain(|| resume_unwind(Box::new(Unwinds))).unwrap_err();
        assert_eq!(thrown.message(), "with a value that is not text");
        drop(thrown);
        assert_eq!(contain(|| resume_unwind(Box::new("text"))).unwrap_err().message(), "text");
        assert_eq!(contain(|| resume_unwind(Box::new("text".to_owned()))).unwrap_err().message(), "text");
        assert_eq!(contain(|| 7).unwrap(), 7);
    }
}
