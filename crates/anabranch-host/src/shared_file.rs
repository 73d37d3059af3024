//! Files that are mapped, so that this process and others see what the other writes there.

use anabranch_hal::Result;
use anabranch_sync::Raise;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(unix)]
pub(crate) use mapped::{MappedFile, SharedFile};
#[cfg(not(unix))]
pub(crate) use missing::{MappedFile, SharedFile};

#[cfg(unix)]
mod mapped {
    use anabranch_hal::{Failure, Result, Status};
    use rustix::fs::{FileType, fstat};
    use rustix::io::Errno;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
    use std::ptr::{self, NonNull};

    fn refuse(why: String) -> Failure {
        Failure::argument(Status::INVALID_VALUE, why)
    }

    fn of_system(what: &str, error: Errno) -> Failure {
        refuse(format!("{what}: {error}"))
    }

    /// A file that can be mapped.
    #[derive(Debug)]
    pub(crate) struct SharedFile {
        descriptor: OwnedFd,
        bytes: usize,
    }

    impl SharedFile {
        /// Takes a file of at least so many bytes, and maps it. If that fails, the descriptor is left to the caller, as it was.
        ///
        /// # Safety
        /// The file descriptor is open, and is used by nobody else any more if this succeeds.
        pub(crate) unsafe fn take(descriptor: i32, bytes: usize) -> Result<(Self, MappedFile)> {
            if descriptor < 0 {
                return Err(refuse("the file descriptor is negative".to_owned()));
            }
            // SAFETY: the caller promises that the descriptor is open, and it stays so as long as this is used.
            let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
            let status = fstat(file).map_err(|error| of_system("the file descriptor cannot be asked", error))?;
            if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
                return Err(refuse("the file descriptor is not that of a file that can be mapped".to_owned()));
            }
            let length = u64::try_from(status.st_size).unwrap_or(0);
            if bytes as u64 > length {
                return Err(refuse(format!("the file has {length} bytes, and not {bytes}")));
            }
            let mapped = map(file, bytes)?;
            // SAFETY: the caller promises that nobody else uses the descriptor any more, because nothing fails from here on.
            Ok((Self { descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) }, bytes }, mapped))
        }

        /// The size that it was taken with.
        pub(crate) fn bytes(&self) -> usize {
            self.bytes
        }

        /// Maps all of it.
        pub(crate) fn map(&self) -> Result<MappedFile> {
            map(self.descriptor.as_fd(), self.bytes)
        }
    }

    fn map(file: BorrowedFd<'_>, bytes: usize) -> Result<MappedFile> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses the address, so that nothing else is there.
        let base = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, file, 0) };
        let base = base.map_err(|error| of_system("the file cannot be mapped to be read and written", error))?;
        let base = NonNull::new(base.cast::<u8>()).ok_or_else(|| refuse("the file was mapped nowhere".to_owned()))?;
        // The driver uses addresses as numbers.
        base.as_ptr().expose_provenance();
        Ok(MappedFile { base, bytes })
    }

    /// The beginning of a file, where it is mapped. The file may be closed.
    #[derive(Debug)]
    pub(crate) struct MappedFile {
        base: NonNull<u8>,
        bytes: usize,
    }

    // SAFETY: the mapping is memory of the process, which any thread may use and undo.
    unsafe impl Send for MappedFile {}
    // SAFETY: through a shared one, memory is accessed only where callers promise that nobody else uses it, or atomically.
    unsafe impl Sync for MappedFile {}

    impl MappedFile {
        pub(crate) fn base(&self) -> NonNull<u8> {
            self.base
        }
    }

    impl Drop for MappedFile {
        fn drop(&mut self) {
            // SAFETY: it was mapped by one call with this size, and whoever used the memory does so no more. The call cannot
            // fail for what was mapped.
            let _ = unsafe { munmap(self.base.as_ptr().cast(), self.bytes) };
        }
    }
}

/// Where files are not known by descriptors. There are none of these.
#[cfg(not(unix))]
mod missing {
    use anabranch_hal::{Failure, Result, Status};
    use std::ptr::NonNull;

    #[derive(Debug)]
    pub(crate) enum SharedFile {}

    #[derive(Debug)]
    pub(crate) enum MappedFile {}

    impl SharedFile {
        /// # Safety
        /// None: it is refused.
        pub(crate) unsafe fn take(_descriptor: i32, _bytes: usize) -> Result<(Self, MappedFile)> {
            Err(Failure::argument(Status::NOT_SUPPORTED, "this system has no POSIX file descriptors"))
        }

        pub(crate) fn bytes(&self) -> usize {
            match *self {}
        }

        pub(crate) fn map(&self) -> Result<MappedFile> {
            match *self {}
        }
    }

    impl MappedFile {
        pub(crate) fn base(&self) -> NonNull<u8> {
            match *self {}
        }
    }
}

/// A number at the beginning of a file, which this process and others read and change in one piece, and which only grows.
pub(crate) struct SharedNumber {
    file: MappedFile,
}

impl SharedNumber {
    /// Takes the file that it is in. If that fails, the descriptor is left to the caller, as it was.
    ///
    /// # Safety
    /// Same as [`SharedFile::take`].
    pub(crate) unsafe fn take(descriptor: i32) -> Result<Self> {
        // SAFETY: passed on.
        let (_, file) = unsafe { SharedFile::take(descriptor, size_of::<u64>()) }?;
        Ok(Self { file })
    }

    fn number(&self) -> &AtomicU64 {
        // SAFETY: the mapping is aligned to pages, has at least 8 bytes, which `SharedFile` has looked at, and lives as long as
        // this; whoever shares the file promised that it is not made shorter, and reads and writes the number in one piece.
        unsafe { AtomicU64::from_ptr(self.file.base().as_ptr().cast()) }
    }

    /// The number now. What was written before others made it so can be seen.
    pub(crate) fn get(&self) -> u64 {
        self.number().load(Ordering::Acquire)
    }

    /// Makes it at least `value`. Who sees that also sees what was written before.
    pub(crate) fn raise(&self, value: u64) {
        self.number().raise(value);
    }
}

impl fmt::Debug for SharedNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SharedNumber({})", self.get())
    }
}

#[cfg(all(test, unix, not(any(loom, miri))))]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]
mod tests {
    use super::{SharedFile, SharedNumber};
    use anabranch_hal::Status;
    use std::fs::File;
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::os::unix::fs::FileExt;

    fn file(bytes: u64) -> File {
        let name = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let file = File::from(name);
        file.set_len(bytes).unwrap();
        file
    }

    /// A copy for a driver to take.
    fn copy(file: &File) -> i32 {
        file.try_clone().unwrap().into_raw_fd()
    }

    #[test]
    fn what_is_written_to_the_file_is_seen_and_the_other_way_round() {
        let shared = file(5000);
        // SAFETY: the descriptor is open, and nobody else has it.
        let (taken, first) = unsafe { SharedFile::take(copy(&shared), 5000) }.unwrap();
        drop(first);
        let mapped = taken.map().unwrap();
        shared.write_all_at(&[7], 4999).unwrap();
        // SAFETY: the mapping has so many bytes, and the file was just written by this thread.
        assert_eq!(unsafe { mapped.base().add(4999).read() }, 7);
        // SAFETY: the same.
        unsafe { mapped.base().write(9) };
        let mut byte = [0];
        shared.read_exact_at(&mut byte, 0).unwrap();
        assert_eq!(byte, [9]);
    }

    #[test]
    fn a_number_only_grows() {
        let shared = file(8);
        // SAFETY: the descriptor is open, and nobody else has it.
        let number = unsafe { SharedNumber::take(copy(&shared)) }.unwrap();
        assert_eq!(number.get(), 0);
        number.raise(u64::MAX - 1);
        number.raise(3);
        assert_eq!(number.get(), u64::MAX - 1);
        let mut bytes = [0; 8];
        shared.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), u64::MAX - 1);
    }

    #[test]
    fn what_cannot_be_mapped_is_refused_and_stays_open() {
        let nothing = File::open("/dev/null").unwrap();
        let short = file(7);
        for (file, bytes) in [(&nothing, 1), (&short, 8)] {
            // SAFETY: the descriptor is open, and it is refused.
            let refused = unsafe { SharedFile::take(file.as_raw_fd(), bytes) }.unwrap_err();
            assert_eq!(refused.status, Status::INVALID_VALUE);
            assert!(file.metadata().is_ok());
        }
        // SAFETY: it is refused.
        assert_eq!(unsafe { SharedFile::take(-1, 1) }.unwrap_err().status, Status::INVALID_VALUE);
        // Opened to be read only.
        let path = std::env::temp_dir().join(format!("anabranch-shared-file-{}", std::process::id()));
        std::fs::write(&path, [0; 8]).unwrap();
        let read_only = File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        // SAFETY: the descriptor is open, and it is refused.
        let refused = unsafe { SharedFile::take(read_only.as_raw_fd(), 8) }.unwrap_err();
        assert!(refused.to_string().contains("cannot be mapped"), "{refused}");
    }
}
