//! Which build of a version of NVRTC it is. Update releases of one version have the same two numbers, and can make
//! different code.

use crate::ffi::{Loaded, NvrtcFunctions};
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

/// Size and time of the library's file, or nothing where the file is not to be found.
pub(super) fn of(functions: &Loaded<NvrtcFunctions>) -> Option<String> {
    let metadata = std::fs::metadata(file(functions)?).ok()?;
    let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(format!("{} bytes, modified {}.{:09}", metadata.len(), modified.as_secs(), modified.subsec_nanos()))
}

/// The file that was loaded. A bare name was searched for by the operating system.
fn file(functions: &Loaded<NvrtcFunctions>) -> Option<PathBuf> {
    let asked = functions.file();
    if asked.parent().is_some_and(|directory| !directory.as_os_str().is_empty()) {
        return Some(asked.to_owned());
    }
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    mapped_at(functions.nvrtcVersion? as usize, &maps)
}

/// The file that an address belongs to, by the table of a process's memory that Linux has: a range of addresses, four
/// other columns, and the file, which may have spaces in its name.
fn mapped_at(address: usize, maps: &str) -> Option<PathBuf> {
    maps.lines().find_map(|line| {
        let mut columns = line.splitn(6, ' ');
        let (first, end) = columns.next()?.split_once('-')?;
        let bound = |text| usize::from_str_radix(text, 16).ok();
        let file = columns.nth(4)?.trim_start();
        ((bound(first)?..bound(end)?).contains(&address) && file.starts_with('/')).then(|| PathBuf::from(file))
    })
}

#[cfg(test)]
mod tests {
    use super::mapped_at;
    use std::path::Path;

    const MAPS: &str = "\
7f10-7f20 r--p 00000000 fe:00 247282                     /opt/a folder/libnvrtc.so.12
7f20-7f30 rw-p 00000000 00:00 0 \n7f30-7f40 rw-p 00000000 00:00 0                          [heap]
7f40-7f50 r-xp 00001000 fe:00 247283 /usr/lib/other.so";

    #[test]
    fn the_file_of_an_address_is_found() {
        assert_eq!(mapped_at(0x7f10, MAPS).as_deref(), Some(Path::new("/opt/a folder/libnvrtc.so.12")));
        assert_eq!(mapped_at(0x7f4f, MAPS).as_deref(), Some(Path::new("/usr/lib/other.so")));
        for nowhere in [0x7f0f, 0x7f20, 0x7f30, 0x7f50] {
            assert_eq!(mapped_at(nowhere, MAPS), None, "{nowhere:x}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_file_of_a_function_of_this_program_is_this_program() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let function: fn() = the_file_of_an_address_is_found;
        let program = std::env::current_exe().expect("the program has a file");
        assert_eq!(mapped_at(function as usize, &maps), Some(program));
    }
}
