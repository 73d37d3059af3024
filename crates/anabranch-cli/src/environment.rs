//! Environment variables of the command.

/// How many software devices there are.
pub(crate) const HOST_DEVICES: &str = "ANABRANCH_HOST_DEVICES";
/// How many threads run their work.
pub(crate) const HOST_WORKERS: &str = "ANABRANCH_HOST_WORKERS";

/// What the CUDA driver reads when it is loaded: as many hardware queues as it can have, so that a stream that is held
/// up does not hold up another, and kernels loaded at once, so that no launch has to wait for the device.
pub(crate) const OF_THE_DRIVER: [(&str, &str); 2] =
    [("CUDA_DEVICE_MAX_CONNECTIONS", "32"), ("CUDA_MODULE_LOADING", "EAGER")];

/// Whether a variable has a value. One without text has none, as in the library.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.to_string_lossy().trim().is_empty())
}
