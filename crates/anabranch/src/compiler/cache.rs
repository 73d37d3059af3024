//! The cache of compiled code on disk.

mod entry;

use super::cache_directory;
use super::fingerprint::Fingerprint;
use super::regular_file::{self, Links};
use crate::trace;
use anabranch_hal::CompileOutput;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The maximum size of all entries in bytes.
const MOST_BYTES: u64 = 256 << 20;

const SUFFIX: &str = ".kernel";
const TEMPORARY_PREFIX: &str = ".anabranch-";

/// Older temporary files were left by a process that ended while writing.
const OLDEST_TEMPORARY: Duration = Duration::from_secs(60 * 60);

/// A directory of entries, one for each [`Fingerprint`]. Other processes use it at the same time: entries are replaced
/// whole, never changed. Whatever is no regular file is no entry.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
    most_bytes: u64,
}

impl Cache {
    /// Opens the cache in a directory, or returns `None` if it cannot be used.
    pub(super) fn open(directory: &Path) -> Option<Self> {
        match cache_directory::secure(directory) {
            Ok(()) => Some(Self { directory: directory.to_owned(), most_bytes: MOST_BYTES }),
            Err(error) => {
                note("the compiler's cache is not used", directory, &error);
                None
            }
        }
    }

    /// The entry with that key, or `None` if there is no intact one.
    pub(super) fn read(&self, key: &Fingerprint) -> Option<CompileOutput> {
        let path = self.path(key);
        let bytes = match self.read_file(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                note("an entry of the compiler's cache cannot be read", &path, &error);
                return None;
            }
        };
        let output = entry::decode(key, &bytes);
        if output.is_none() {
            note("an entry of the compiler's cache is compiled anew", &path, &"it is damaged");
        }
        output
    }

    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let (file, metadata) = regular_file::open(path, Links::Refused)?;
        // The directory was checked by its name, and may be another one by now. This file is the one that is read.
        if !cache_directory::is_ours_alone(&metadata) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let bytes = regular_file::read(&file, self.most_bytes)?;
        // So that what is in use is not the oldest. It does not matter much where that is not possible.
        let _ = file.set_modified(SystemTime::now());
        Ok(bytes)
    }

    /// Keeps an entry, if possible.
    pub(super) fn write(&self, key: &Fingerprint, output: &CompileOutput) {
        let bytes = entry::encode(key, output);
        if bytes.len() as u64 > self.most_bytes {
            return;
        }
        let path = self.path(key);
        match self.write_file(&path, &bytes) {
            Ok(()) => self.prune(),
            Err(error) => note("an entry of the compiler's cache cannot be written", &path, &error),
        }
    }

    fn write_file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // For the owner only, as `tempfile` makes them.
        let mut file = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(&self.directory)?;
        file.write_all(bytes)?;
        file.persist(path)?;
        Ok(())
    }

    /// Removes the oldest entries until the rest is small enough. Other processes may do the same at the same time, so
    /// a missing file is not an error.
    fn prune(&self) {
        let Ok(directory) = std::fs::read_dir(&self.directory) else { return };
        let now = SystemTime::now();
        let (mut entries, mut total) = (Vec::new(), 0);
        for file in directory.flatten() {
            let name = file.file_name();
            let name = name.to_string_lossy();
            let Ok(metadata) = file.metadata() else { continue };
            let Ok(modified) = metadata.modified() else { continue };
            if !metadata.is_file() {
                continue;
            }
            if is_entry(&name) {
                total += metadata.len();
                entries.push((modified, metadata.len(), file.path()));
            } else if name.starts_with(TEMPORARY_PREFIX)
                && now.duration_since(modified).is_ok_and(|age| age > OLDEST_TEMPORARY)
            {
                let _ = std::fs::remove_file(file.path());
            }
        }
        entries.sort_unstable();
        for (_, bytes, path) in entries {
            if total <= self.most_bytes {
                break;
            }
            let _ = std::fs::remove_file(path);
            total -= bytes;
        }
    }

    fn path(&self, key: &Fingerprint) -> PathBuf {
        self.directory.join(format!("{key}{SUFFIX}"))
    }
}

/// Whether a file of that name is an entry. The directory may also contain other files.
fn is_entry(name: &str) -> bool {
    name.strip_suffix(SUFFIX).is_some_and(|key| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Logs a problem with the cache. No such problem makes a compilation fail.
#[cfg_attr(not(feature = "tracing"), allow(unused_variables, reason = "used when the feature is on"))]
fn note(what: &str, path: &Path, why: &dyn fmt::Display) {
    trace::rare!(path = %path.display(), %why, "{what}");
}

#[cfg(test)]
mod tests {
    use super::{Cache, Fingerprint, OLDEST_TEMPORARY, TEMPORARY_PREFIX};
    use anabranch_hal::{CompileOutput, CompileRequest, OutputKind};
    use std::time::{Duration, SystemTime};

    fn key(source: &str) -> Fingerprint {
        let request =
            CompileRequest { source, name: "a", options: &[], name_expressions: &[], output: OutputKind::Binary };
        Fingerprint::of("fake", &request, &[]).unwrap()
    }

    fn output(bytes: usize) -> CompileOutput {
        CompileOutput { image: vec![7; bytes], log: "log".to_owned(), lowered_names: vec!["name".to_owned()] }
    }

    #[test]
    fn the_oldest_go_first_and_other_files_stay() {
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache { most_bytes: 3500, ..Cache::open(directory.path()).unwrap() };
        let age = |path: &std::path::Path, age: Duration| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        let file = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, vec![0; 5000]).unwrap();
            age(&path, OLDEST_TEMPORARY * 2);
            path
        };
        let (other, abandoned) = (file("notes.kernel"), file(&format!("{TEMPORARY_PREFIX}x")));
        for (number, source) in ["one", "two", "three"].into_iter().enumerate() {
            cache.write(&key(source), &output(1000));
            age(&cache.path(&key(source)), Duration::from_secs(100 - number as u64));
        }
        assert_eq!(cache.read(&key("one")), Some(output(1000)), "three fit");
        cache.write(&key("four"), &output(1000));
        assert_eq!(cache.read(&key("two")), None, "unused for longest");
        for source in ["one", "three", "four"] {
            assert_eq!(cache.read(&key(source)), Some(output(1000)), "{source}");
        }
        cache.write(&key("five"), &output(4000));
        assert_eq!(cache.read(&key("five")), None, "too large to keep");
        assert!(cache.read(&key("four")).is_some());
        assert!(other.exists() && !abandoned.exists());
    }

    #[test]
    #[cfg(unix)]
    fn an_entry_that_others_may_write_to_is_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::open(directory.path()).unwrap();
        cache.write(&key("one"), &output(10));
        assert!(cache.read(&key("one")).is_some());
        let writable = std::fs::Permissions::from_mode(0o666);
        std::fs::set_permissions(cache.path(&key("one")), writable).unwrap();
        assert_eq!(cache.read(&key("one")), None);
    }
}
