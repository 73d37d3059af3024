//! The location of the cache, and whether it can be trusted.

use std::ffi::OsString;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// The environment variable that names the directory of the cache, or is `off`.
const CACHE_VARIABLE: &str = "ANABRANCH_CACHE";

/// The directory that the environment determines, or `None` if it determines none or disables the cache.
pub(super) fn from_environment() -> Option<PathBuf> {
    choose(&|name| std::env::var_os(name), std::env::home_dir())
}

fn choose(variable: &dyn Fn(&str) -> Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    if let Some(value) = variable(CACHE_VARIABLE).filter(|value| !value.is_empty()) {
        let off = value.eq_ignore_ascii_case("off") || value == "0";
        return (!off).then(|| PathBuf::from(value));
    }
    // The base directory specification has it that a path which is not absolute is ignored.
    let absolute = |path: &PathBuf| path.is_absolute();
    let given = variable("XDG_CACHE_HOME").map(PathBuf::from).filter(absolute);
    let caches = given.or_else(|| {
        if cfg!(windows) {
            return variable("LOCALAPPDATA").map(PathBuf::from).filter(absolute);
        }
        let below = if cfg!(target_os = "macos") { "Library/Caches" } else { ".cache" };
        home.filter(absolute).map(|home| home.join(below))
    });
    caches.map(|caches| caches.join("anabranch"))
}

/// Makes the directory, for its owner only, if it does not exist, and checks that nobody else can write to it.
///
/// # Errors
/// The reason why it cannot be used.
pub(super) fn secure(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    if is_ours_alone(&directory.metadata()?) {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user, or others may write to it"))
    }
}

/// Whether a file or directory belongs to this user and nobody else may write to it.
#[cfg(unix)]
pub(super) fn is_ours_alone(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    const WRITABLE_BY_OTHERS: u32 = 0o022;
    metadata.uid() == rustix::process::geteuid().as_raw() && metadata.mode() & WRITABLE_BY_OTHERS == 0
}

/// Elsewhere the user's directories are private as they are.
#[cfg(not(unix))]
pub(super) fn is_ours_alone(_metadata: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::choose;
    use std::ffi::OsString;
    use std::path::PathBuf;

    fn chosen(variables: &[(&str, &str)], home: Option<&str>) -> Option<PathBuf> {
        let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
        choose(&find, home.map(PathBuf::from))
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_variable_goes_before_the_base_directory_and_that_before_the_home() {
        let path = |text: &str| Some(PathBuf::from(text));
        let base = ("XDG_CACHE_HOME", "/base");
        assert_eq!(chosen(&[("ANABRANCH_CACHE", "/mine"), base], Some("/home")), path("/mine"));
        assert_eq!(chosen(&[("ANABRANCH_CACHE", ""), base], Some("/home")), path("/base/anabranch"));
        assert_eq!(chosen(&[("XDG_CACHE_HOME", "relative")], Some("/home")), path("/home/.cache/anabranch"));
        assert_eq!(chosen(&[], Some("/home")), path("/home/.cache/anabranch"));
    }

    #[test]
    fn there_is_no_cache_when_it_is_off_or_there_is_no_home() {
        for value in ["off", "OFF", "0"] {
            assert_eq!(chosen(&[("ANABRANCH_CACHE", value)], Some("/home")), None);
        }
        assert_eq!(chosen(&[], None), None);
        assert_eq!(chosen(&[], Some("")), None);
    }
}
