//! Regular files, opened and read so that nothing else in their place blocks.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Whether a symbolic link is the file that it points to, or no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    Followed,
    Refused,
}

/// Opens a regular file for reading. Anything else is refused without waiting for it: a pipe, a device, a directory.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] for anything else; otherwise what the system says.
pub(super) fn open(path: &Path, links: Links) -> io::Result<(File, Metadata)> {
    // A device may do something when it is opened, so it is not opened to look at it.
    let metadata = if links == Links::Refused { path.symlink_metadata() } else { path.metadata() };
    require_regular(metadata?)?;
    // Something else may be in its place by now, whose opening must not wait. What is open stays what it is.
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let refused = if links == Links::Refused { OFlags::NOFOLLOW } else { OFlags::empty() };
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY | refused).bits() as i32);
    }
    let file = options.open(path)?;
    let metadata = require_regular(file.metadata()?)?;
    Ok((file, metadata))
}

fn require_regular(metadata: Metadata) -> io::Result<Metadata> {
    if metadata.is_file() { Ok(metadata) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Reads a file that may grow meanwhile.
///
/// # Errors
/// [`io::ErrorKind::FileTooLarge`] if it has more bytes than that; otherwise what the system says.
pub(super) fn read(file: &File, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}
