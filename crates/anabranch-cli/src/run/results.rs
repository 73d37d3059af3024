//! The files of results.

use super::argument::Argument;
use super::array::{Array, header};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The files of results: all are written, or none is changed.
#[derive(Debug)]
pub(crate) struct Results {
    /// One for each argument that has a result.
    files: Vec<Option<PathBuf>>,
}

impl Results {
    /// Refuses what cannot be written in the end.
    pub(super) fn new(arguments: &[Argument]) -> Result<Self, String> {
        let mut files: Vec<Option<PathBuf>> = Vec::new();
        for argument in arguments {
            let Some(path) = argument.result() else {
                files.push(None);
                continue;
            };
            let name = path.display();
            // What a link points to is replaced, and not the link.
            let target = target_of(path).map_err(|error| format!("{name} cannot be written: {error}"))?;
            if target.is_dir() {
                return Err(format!("{name} cannot be written: it is a directory"));
            }
            if path.file_name().is_none() {
                return Err(format!("{name} cannot be written: it is no file"));
            }
            let folder = folder_of(&target);
            if !folder.is_dir() {
                return Err(format!("{name} cannot be written: there is no directory {}", folder.display()));
            }
            let target = match (folder.canonicalize(), target.file_name()) {
                (Ok(folder), Some(file)) => folder.join(file),
                _ => target,
            };
            if files.iter().flatten().any(|other| *other == target) {
                return Err(format!("{name} is the file of two results"));
            }
            files.push(Some(target));
        }
        Ok(Self { files })
    }

    /// Writes the results: first all of them beside their places, then each to its place.
    pub(super) fn write(&self, arrays: &[Option<Array>]) -> Result<(), String> {
        let mut written = Vec::new();
        for (file, array) in self.files.iter().zip(arrays) {
            if let (Some(file), Some(array)) = (file, array) {
                let failed = |error: io::Error| format!("{} cannot be written: {error}", file.display());
                written.push((file, write(file, array).map_err(failed)?));
            }
        }
        for (file, temporary) in written {
            if let Some(temporary) = temporary {
                temporary
                    .persist(file)
                    .map_err(|error| format!("{} cannot be written: {}", file.display(), error.error))?;
            }
        }
        Ok(())
    }
}

/// The file that a path leads to through links. It need not exist.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    loop {
        match path.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            found => return found,
        }
        // Each round follows one link. Links in a circle are another error than that there is no file.
        match path.read_link() {
            Ok(link) => path = folder_of(&path).join(link),
            Err(_) => return Ok(path),
        }
    }
}

/// The directory of a file.
fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Writes an array beside its place, or to its place where that is no regular file, such as a pipe.
fn write(file: &Path, array: &Array) -> io::Result<Option<NamedTempFile>> {
    let before = std::fs::metadata(file).ok();
    if before.as_ref().is_some_and(|before| !before.is_file()) {
        fill(&mut OpenOptions::new().write(true).open(file)?, array)?;
        return Ok(None);
    }
    let mut temporary = new_file(file, before.as_ref())?;
    fill(temporary.as_file_mut(), array)?;
    temporary.as_file().sync_all()?;
    Ok(Some(temporary))
}

/// A file that others may use as they could use the one before, or any other new one.
#[cfg_attr(not(unix), allow(unused_variables, reason = "only Unix has permissions of files"))]
fn new_file(file: &Path, before: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".anabranch-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let temporary = builder.tempfile_in(folder_of(file))?;
    if let Some(before) = before {
        temporary.as_file().set_permissions(before.permissions())?;
    }
    Ok(temporary)
}

fn fill(file: &mut File, array: &Array) -> io::Result<()> {
    file.write_all(&header(array.element, &array.shape)?)?;
    file.write_all(&array.data)?;
    file.flush()
}
