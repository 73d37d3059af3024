//! The order in which a thread takes the locks of this crate.
//!
//! The library above calls a driver while it holds locks of its own, so the ranks here are higher than there. No lock of
//! this crate but the first is held while NVIDIA's driver or a user's code is called.

anabranch_sync::ranks! { from 3000;
    /// Calls with what captures have, beside which no capture may end.
    CAPTURE_ENDS,
    /// The streams in which captures are in progress.
    CAPTURING_STREAMS,
    /// A part of the registry of queued host work, held while a closure is put in or taken out.
    QUEUED_HOST_WORK,
    /// The descriptors of sets of resources, held while one is looked up or noted.
    RESOURCE_DESCRIPTORS,
}
