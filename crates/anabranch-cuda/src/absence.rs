//! The reasons for which the driver or NVRTC cannot be used, and their remedies.

use crate::ffi::{LoadError, MissingSymbol};
use anabranch_hal::{Absence, DriverVersion, Status};

/// The oldest driver that is served: the first whose streams have ids, among others.
pub(crate) const OLDEST: DriverVersion = DriverVersion { major: 12, minor: 0 };

fn absence(reason: impl Into<String>, remedy: impl Into<String>) -> Absence {
    Absence { reason: reason.into(), remedy: remedy.into() }
}

/// The library was not found, or could not be loaded.
pub(crate) fn no_library(error: &LoadError) -> Absence {
    if error.tried.is_empty() {
        return absence(error.to_string(), "use the host device, or a machine with Linux or Windows and an NVIDIA GPU");
    }
    absence(
        error.to_string(),
        "install NVIDIA's driver, or start the container with GPU access (such as `docker run --gpus all`)",
    )
}

/// The library lacks a function that every driver of a version that is served has.
pub(crate) fn no_symbol(missing: MissingSymbol) -> Absence {
    absence(
        format!("the CUDA driver library that was found has no {}", missing.name),
        format!("install NVIDIA's driver for CUDA {OLDEST} or newer"),
    )
}

/// The driver is older than what is served.
pub(crate) fn too_old(version: DriverVersion) -> Absence {
    absence(
        format!("the installed NVIDIA driver is for CUDA {version}, and CUDA {OLDEST} is the oldest that is served"),
        format!("install NVIDIA's driver for CUDA {OLDEST} or newer"),
    )
}

/// The library was loaded, and could not be initialised.
pub(crate) fn not_initialized(status: Status) -> Absence {
    let remedy = match status {
        Status::NO_DEVICE => return no_device(),
        Status::STUB_LIBRARY => {
            "take the CUDA toolkit's directory of stubs out of the library path, and install NVIDIA's driver"
        }
        Status::SYSTEM_DRIVER_MISMATCH => {
            "restart the machine so that the kernel module of the updated driver is loaded, or remove the older \
             compatibility library from the library path"
        }
        Status::COMPAT_NOT_SUPPORTED_ON_DEVICE => {
            "remove the CUDA compatibility package from the library path, which serves data-centre GPUs only, and \
             update NVIDIA's driver"
        }
        Status::SYSTEM_NOT_READY => {
            "start the services that the machine needs, such as `nvidia-fabricmanager` on systems with NVSwitch"
        }
        Status::OPERATING_SYSTEM => {
            "check that this user may open the files /dev/nvidia*, and that the container was given them"
        }
        Status::OUT_OF_MEMORY => "free memory of the host or of the GPU, and start the program again",
        _ => "run `nvidia-smi` to see whether the driver works, and restart the machine if it does not",
    };
    absence(format!("the CUDA driver could not be initialised: {status}"), remedy)
}

/// The driver works, and serves no device.
pub(crate) fn no_device() -> Absence {
    absence(
        "the CUDA driver found no device",
        "check that `nvidia-smi` lists a GPU, and that CUDA_VISIBLE_DEVICES does not hide it",
    )
}

/// NVRTC was not found, or could not be loaded.
pub(crate) fn no_compiler(error: &LoadError, variable: &str) -> Absence {
    if error.tried.is_empty() {
        return absence(error.to_string(), "compile the kernels to PTX on Linux or Windows, and load the PTX");
    }
    if std::env::var_os(variable).is_some_and(|file| !file.is_empty()) {
        return absence(
            format!("{error}, which {variable} names"),
            format!("set {variable} to the file of an NVRTC library, or unset it so that one is searched for"),
        );
    }
    absence(
        error.to_string(),
        format!(
            "install the CUDA toolkit, or run `pip install nvidia-cuda-nvrtc` and set {variable} to the library file \
             of that package"
        ),
    )
}

/// The NVRTC library lacks a function that every version has.
pub(crate) fn no_compiler_version(file: &std::path::Path) -> Absence {
    absence(
        format!("the library {} does not say which version of NVRTC it is", file.display()),
        "install NVRTC of CUDA 12 or newer",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::FailedAttempt;
    use std::path::PathBuf;

    fn load_error(tried: &[&str]) -> LoadError {
        let tried = tried.iter().map(|file| FailedAttempt { file: PathBuf::from(file), reason: "not there".into() });
        LoadError { library: "CUDA driver", tried: tried.collect() }
    }

    fn every_absence() -> Vec<Absence> {
        let statuses = [2, 3, 34, 46, 100, 304, 802, 803, 804, 999, 4242].map(Status);
        let mut all: Vec<Absence> = statuses.into_iter().map(not_initialized).collect();
        all.extend([
            no_library(&load_error(&["libcuda.so.1"])),
            no_library(&load_error(&[])),
            no_symbol(MissingSymbol { name: "cuInit", since: 2000 }),
            too_old(DriverVersion { major: 11, minor: 8 }),
            no_device(),
            no_compiler(&load_error(&["libnvrtc.so"]), "ANABRANCH_NO_SUCH_VARIABLE"),
            no_compiler(&load_error(&[]), "ANABRANCH_NO_SUCH_VARIABLE"),
            no_compiler_version(&PathBuf::from("libnvrtc.so")),
        ]);
        all
    }

    #[test]
    fn reason_and_remedy_are_clauses_without_a_full_stop() {
        for Absence { reason, remedy } in every_absence() {
            for text in [reason, remedy] {
                assert!(!text.is_empty() && !text.ends_with('.') && !text.contains("  "), "{text:?}");
                assert!(!text.contains(". "), "more than one sentence: {text:?}");
            }
        }
    }

    #[test]
    fn the_reason_names_what_is_wrong() {
        assert!(no_library(&load_error(&["libcuda.so.1"])).reason.contains("libcuda.so.1"));
        assert!(too_old(DriverVersion { major: 11, minor: 8 }).reason.contains("CUDA 11.8"));
        assert!(not_initialized(Status::UNKNOWN).reason.contains("999"));
        assert!(not_initialized(Status(4242)).reason.contains("4242"));
        assert_eq!(not_initialized(Status::NO_DEVICE), no_device());
        assert!(no_symbol(MissingSymbol { name: "cuInit", since: 2000 }).reason.contains("cuInit"));
    }

    #[test]
    fn the_remedy_for_a_mismatch_is_not_the_one_for_a_stub() {
        let remedy = |status| not_initialized(status).remedy;
        assert!(remedy(Status::SYSTEM_DRIVER_MISMATCH).contains("restart"));
        assert!(remedy(Status::STUB_LIBRARY).contains("stubs"));
    }
}
