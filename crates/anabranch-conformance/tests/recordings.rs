//! Files that are said to be recordings, and unpack to more than fits in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use anabranch_conformance::{programs, ptx};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// A compressed file.
fn file(head: &str, rest: &str) -> Vec<u8> {
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    file.write_all(format!("{head}\ndevice x\ndriver CUDA 13.0\ndate 2026-11-26\n{rest}").as_bytes()).unwrap();
    file.finish().unwrap()
}

#[track_caller]
fn assert_one_short_sentence<T>(read: Result<T, String>, words: &str) {
    let Err(error) = read else { panic!("it was read") };
    assert!(error.contains(words) && error.len() < 300 && error.lines().count() == 1, "{error}");
}

#[test]
fn a_line_of_any_length_is_refused() {
    let line = " ".repeat(3 << 20);
    let words = "line 5 has more than 1048576 bytes";
    assert_one_short_sentence(programs::Recording::read(&*file("anabranch programs 1", &line)), words);
    assert_one_short_sentence(ptx::Recording::read(&*file("anabranch kernels 1", &line)), words);
}

#[test]
fn a_wrong_line_is_shown_in_part() {
    let line = "x".repeat(1 << 19);
    let words = "makes no sense";
    assert_one_short_sentence(programs::Recording::read(&*file("anabranch programs 1", &line)), words);
    assert_one_short_sentence(ptx::Recording::read(&*file("anabranch kernels 1", &line)), words);
    assert_one_short_sentence(programs::Recording::read(&*file(&line, "")), "it starts with");
    assert_one_short_sentence(ptx::Recording::read(&*file(&line, "")), "it starts with");
}

#[test]
fn more_answers_than_any_device_gives_are_refused() {
    let count = u64::MAX;
    for rest in [format!("streams 0 0 {count}\n*{count}\n"), "streams 0 0 9000000\n*9000000\n".repeat(2)] {
        let read = programs::Recording::read(&*file("anabranch programs 1", &rest));
        assert_one_short_sentence(read, "has more than 16777216 answers");
    }
}

#[test]
fn the_recordings_of_the_repository_are_within_the_limits() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    // The published package is without them.
    let Ok(entries) = std::fs::read_dir(&folder) else { return };
    let paths = entries.map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "gz")) {
        let file = || File::open(&path).unwrap();
        let found = match programs::Recording::read(file()) {
            Ok(recording) => recording.programs.len(),
            Err(_) => ptx::Recording::read(file()).unwrap().kernels.len(),
        };
        assert!(found > 0, "{}", path.display());
    }
}
