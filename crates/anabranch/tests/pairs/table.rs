//! The table of calls.

use crate::world::{Shared, Side};
use anabranch::{Result, Status};

/// A call. It returns the errors that it may not ignore.
pub(crate) type Body = for<'w, 'scope, 'env, 's, 'm> fn(&'w Shared<'scope, 'env>, &'s mut Side<'m, 'env>) -> Result<()>;

/// A call of the public API, by the name in `public-api.txt` without generic parameters.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) body: Body,
    /// The errors that this call and those beside it may return because of it, in a world that is neither lost nor captures.
    pub(crate) may: &'static [Status],
    /// Whether it may bring about a capture, so that calls beside it may be captured.
    pub(crate) captures: bool,
}

pub(crate) const fn call(name: &'static str, body: Body) -> Call {
    Call { name, body, may: &[], captures: false }
}

impl Call {
    pub(crate) const fn may(self, may: &'static [Status]) -> Self {
        Self { may, ..self }
    }

    pub(crate) const fn captures(self) -> Self {
        Self { captures: true, ..self }
    }
}

pub(crate) fn all() -> Vec<&'static Call> {
    let groups = [
        crate::devices::CALLS,
        crate::contexts::CALLS,
        crate::streams::CALLS,
        crate::work::CALLS,
        crate::operations::CALLS,
        crate::memory::CALLS,
        crate::external::CALLS,
        crate::captures::CALLS,
        crate::graphs::CALLS,
        crate::green_contexts::CALLS,
        crate::kernels::CALLS,
    ];
    groups.into_iter().flatten().collect()
}
