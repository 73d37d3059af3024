//! Uses between modules that make a circle and stay.

/// One use that does not count.
pub(crate) struct Exception {
    /// The crate.
    pub(crate) package: &'static str,
    /// The module that uses.
    pub(crate) from: &'static str,
    /// The module that is used.
    pub(crate) to: &'static str,
    /// Why it cannot be otherwise.
    pub(crate) reason: &'static str,
}

/// All of them. One that makes no circle any more is an error too.
pub(crate) const EXCEPTIONS: &[Exception] = &[Exception {
    package: "anabranch-conformance",
    from: "case",
    to: "environment",
    reason: "a case is a function of its environment, and the environment says what a case needs that it lacks",
}];
