//! What is no regular file in the place of an entry of the cache.

use super::*;
use std::os::unix::fs::symlink;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Compiles on another thread, and fails if that takes longer than anything but a hang.
#[track_caller]
fn is_cached(setup: &Setup, source: &'static str, what: &str) -> bool {
    let (tell, told) = channel();
    let (compiler, options) = (setup.compiler.clone(), setup.options());
    std::thread::spawn(move || tell.send(compiler.compile(source, &options).map(|compiled| compiled.from_cache())));
    told.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("{what}: it hangs")).unwrap()
}

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn safety_56_what_is_no_regular_file_is_no_entry_of_the_cache() {
    type Place = fn(&Path, &Path);
    let kinds: [(&str, Place); 9] = [
        ("a pipe", |entry, _| pipe(entry)),
        ("a link to a pipe", |entry, beside| {
            pipe(beside);
            symlink(beside, entry).unwrap();
        }),
        ("a link to a device that waits", |entry, _| symlink("/dev/tty", entry).unwrap()),
        ("a link to a device without an end", |entry, _| symlink("/dev/zero", entry).unwrap()),
        ("a link to nothing", |entry, beside| symlink(beside, entry).unwrap()),
        ("a link to itself", |entry, _| symlink(entry, entry).unwrap()),
        ("a directory", |entry, _| std::fs::create_dir(entry).unwrap()),
        ("a file without an end", |entry, _| std::fs::File::create(entry).unwrap().set_len(1 << 40).unwrap()),
        ("a file that cannot be read", |entry, _| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::write(entry, "x").unwrap();
            std::fs::set_permissions(entry, std::fs::Permissions::from_mode(0o000)).unwrap();
        }),
    ];
    for (what, place) in kinds {
        let setup = Setup::new();
        assert!(!is_cached(&setup, "source", what));
        let entry = setup.entry();
        std::fs::remove_file(&entry).unwrap();
        place(&entry, &setup.directory.path().join("beside"));
        assert!(!is_cached(&setup, "source", what), "{what}");
        // It is replaced by an entry, unless it is a directory.
        assert_eq!(is_cached(&setup, "source", what), what != "a directory", "{what}");
        // Other entries are written and read as ever.
        assert!(!is_cached(&setup, "another", what) && is_cached(&setup, "another", what), "{what}");
    }
}

/// Entries are replaced by pipes and removed while they are read.
#[test]
fn safety_56_entries_that_are_replaced_while_they_are_read_block_nobody() {
    let setup = Setup::new();
    assert!(!is_cached(&setup, "source", "the first"));
    let (entry, other) = (setup.entry(), setup.directory.path().join("pipe"));
    pipe(&other);
    let go_on = Arc::new(());
    let watched = Arc::downgrade(&go_on);
    let replacing = std::thread::spawn(move || {
        let mut replaced = 0;
        while watched.strong_count() > 0 {
            let _ = std::fs::remove_file(&entry);
            let _ = std::fs::hard_link(&other, &entry);
            replaced += 1;
        }
        replaced
    });
    for _ in 0..300 {
        is_cached(&setup, "source", "a race");
    }
    drop(go_on);
    assert!(replacing.join().unwrap() > 0);
}
