//! What tests of the commands about kernels share.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

pub(crate) const KERNELS: &str = include_str!("../data/kernels.ptx");

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the command prints text")
}

/// The command fails with this status and one sentence that has these words.
#[track_caller]
pub(crate) fn assert_one_sentence(output: &Output, status: i32, words: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{error}");
    assert_eq!(text(&output.stdout), "");
    assert!(error.starts_with("anabranch: ") && error.lines().count() == 1, "{error}");
    for word in words {
        assert!(error.contains(word), "{error} does not say {word}");
    }
}

/// A directory with the kernels of the tests.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        std::fs::write(folder.path("kernels.ptx"), KERNELS).unwrap();
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command in this directory, with nothing of the caller's environment that would change its answers.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        command.args(arguments).current_dir(self.0.path());
        for variable in ["ANABRANCH_DEVICE", "ANABRANCH_HOST_DEVICES", "ANABRANCH_HOST_CHECK_MEMORY"] {
            command.env_remove(variable);
        }
        command
    }

    pub(crate) fn anabranch(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// `anabranch run kernels.ptx`.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.anabranch(&[&["run", "kernels.ptx"], arguments].concat())
    }

    /// Writes an array with a header of version 1.
    pub(crate) fn write_array(&self, name: &str, header: &str, data: &[u8]) {
        let length = (header.len() as u16).to_le_bytes();
        let file = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), data].concat();
        std::fs::write(self.path(name), file).unwrap();
    }

    pub(crate) fn write_f32(&self, name: &str, values: &[f32]) {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", values.len());
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.write_array(name, &header, &data);
    }

    /// The header and the data of a file.
    pub(crate) fn read(&self, name: &str) -> (String, Vec<u8>) {
        let file = std::fs::read(self.path(name)).unwrap();
        assert_eq!(file[..8], *b"\x93NUMPY\x01\x00");
        let end = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
        (text(&file[10..end]), file[end..].to_vec())
    }

    /// The type, the shape and the numbers of an array of one dimension.
    pub(crate) fn read_f32(&self, name: &str) -> (String, Vec<usize>, Vec<f32>) {
        let (header, data) = self.read(name);
        let part = |before: &str, after: &str| {
            let rest = header.split_once(before).unwrap().1;
            rest.split_once(after).unwrap().0.to_owned()
        };
        let shape = part("'shape': (", ")").split(',').filter_map(|extent| extent.trim().parse().ok()).collect();
        let values = data.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        (part("'descr': '", "'"), shape, values.collect())
    }

    /// The names of all files, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| text(entry.unwrap().file_name().as_encoded_bytes())).collect();
        names.sort();
        names
    }
}
