//! The information that a driver receives about a call in addition to its arguments.

use crate::{ContextHandle, Live};
use std::panic::Location;

/// One call of a driver: the context that the call is made in, and what a layer needs to describe the call.
///
/// A driver uses only the context. Layers (a tracer, a checker, a fault injector) also use the operation, the source
/// location and the label.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The context that the call is made in.
    pub context: Live<'a, ContextHandle>,
    /// What the caller is doing, such as `launching a kernel`. Empty if the caller did not say.
    pub operation: &'static str,
    /// The source location in the user's program that asked for the operation.
    pub location: &'static Location<'static>,
    /// The name of the work: the kernel's name, or a name that the user has chosen.
    pub label: Option<&'a str>,
    /// Whether no work uses what the call frees, unloads or unregisters, so that the driver need not wait for work that is
    /// submitted meanwhile. Drivers that cannot help waiting do wait.
    pub is_of_unused: bool,
}

impl<'a> Call<'a> {
    /// Describes a call for `operation`. The source location is that of the caller.
    #[inline(always)]
    #[track_caller]
    pub const fn new(context: Live<'a, ContextHandle>, operation: &'static str) -> Self {
        Self { context, operation, location: Location::caller(), label: None, is_of_unused: false }
    }

    /// Describes a call for `operation` that was requested at `location`.
    #[inline(always)]
    pub const fn at(
        context: Live<'a, ContextHandle>,
        operation: &'static str,
        location: &'static Location<'static>,
    ) -> Self {
        Self { context, operation, location, label: None, is_of_unused: false }
    }

    /// Returns the same call with a label.
    #[inline(always)]
    #[must_use]
    pub const fn with_label(self, label: &'a str) -> Self {
        Self { label: Some(label), ..self }
    }

    /// Returns the same call, which gives back what no work uses.
    #[inline(always)]
    #[must_use]
    pub const fn of_unused(self) -> Self {
        Self { is_of_unused: true, ..self }
    }
}

impl<'a> From<Live<'a, ContextHandle>> for Call<'a> {
    /// Describes a call of which only the context and the source location are known.
    #[track_caller]
    fn from(context: Live<'a, ContextHandle>) -> Self {
        Self::new(context, "")
    }
}

#[cfg(test)]
mod tests {
    use super::Call;
    use crate::{ContextHandle, Live};

    #[test]
    fn a_call_names_the_place_that_made_it() {
        // SAFETY: no driver is given the handle.
        let context = unsafe { Live::new(ContextHandle::from_raw(1)) };
        let call = Call::new(context, "testing").with_label("a label");
        assert!(call.location.file().ends_with("call.rs"));
        assert_eq!((call.operation, call.label), ("testing", Some("a label")));
    }
}
