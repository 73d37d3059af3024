//! How long a cubin is: an ELF file of 64 bits, little-endian.

use super::number;

/// Section types whose size is one in memory and not in the file: none at all, and memory that starts as zero.
const SECTION_UNUSED: u64 = 0;
const SECTION_WITHOUT_BYTES: u64 = 8;
/// From here on, types have the meaning that NVIDIA gives them. Some of them are without bytes too.
const FIRST_SECTION_OF_THE_PROCESSOR: u64 = 0x7000_0000;

const FILE_HEADER: u64 = 64;
const PROGRAM_HEADER: u64 = 56;
const SECTION_HEADER: u64 = 64;

/// Whether the image begins as a cubin does.
pub(super) fn begins(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x7fELF")
}

/// The length that the file says it has: the end of all its headers, segments and sections. None if the headers are not
/// all there, or are not those of a cubin.
pub(super) fn length(bytes: &[u8]) -> Option<u64> {
    let (class, order) = (number(bytes, 4, 1)?, number(bytes, 5, 1)?);
    if (class, order) != (2, 1) {
        return None;
    }
    let (segments, sections) = (number(bytes, 32, 8)?, number(bytes, 40, 8)?);
    let (segment_size, segment_count) = (number(bytes, 54, 2)?, number(bytes, 56, 2)?);
    let (section_size, mut section_count) = (number(bytes, 58, 2)?, number(bytes, 60, 2)?);
    let mut end = FILE_HEADER;

    if segments != 0 && segment_count != 0 {
        for header in headers(segments, segment_size, segment_count, PROGRAM_HEADER)? {
            let (offset, size) = (number(bytes, header + 8, 8)?, number(bytes, header + 32, 8)?);
            end = end.max(header + PROGRAM_HEADER).max(offset.checked_add(size)?);
        }
    }
    if sections != 0 {
        if section_count == 0 {
            // More than fit in the field: the number is in the first section's size.
            section_count = number(bytes, sections.checked_add(32)?, 8)?;
        }
        for header in headers(sections, section_size, section_count, SECTION_HEADER)? {
            let (kind, offset) = (number(bytes, header + 4, 4)?, number(bytes, header + 24, 8)?);
            let size = number(bytes, header + 32, 8)?;
            end = end.max(header + SECTION_HEADER);
            let has_bytes =
                kind != SECTION_UNUSED && kind != SECTION_WITHOUT_BYTES && kind < FIRST_SECTION_OF_THE_PROCESSOR;
            if has_bytes {
                end = end.max(offset.checked_add(size)?);
            }
        }
    }
    Some(end)
}

/// The offsets of the headers in a table. None if the headers are too small, or end where no number is.
fn headers(table: u64, size: u64, count: u64, least: u64) -> Option<impl Iterator<Item = u64>> {
    if size < least {
        return None;
    }
    // With the end in range, everything before it is.
    table.checked_add(size.checked_mul(count)?)?;
    Some((0..count).map(move |index| table + index * size))
}

#[cfg(test)]
pub(super) mod tests {
    use super::{begins, length};

    fn put(bytes: &mut [u8], offset: usize, size: usize, value: u64) {
        bytes[offset..offset + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }

    /// The header of a file, 40 bytes of code, three section headers, one program header.
    pub(in crate::module::image) fn sample() -> Vec<u8> {
        let mut file = vec![0; 64 + 40 + 3 * 64 + 56];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        put(&mut file, 32, 8, 296); // program headers
        put(&mut file, 40, 8, 104); // section headers
        put(&mut file, 54, 2, 56);
        put(&mut file, 56, 2, 1);
        put(&mut file, 58, 2, 64);
        put(&mut file, 60, 2, 3);
        // The code: type 1, at 64, 40 bytes.
        put(&mut file, 168 + 4, 4, 1);
        put(&mut file, 168 + 24, 8, 64);
        put(&mut file, 168 + 32, 8, 40);
        // Shared memory: type 8, a size that is no part of the file.
        put(&mut file, 232 + 4, 4, 8);
        put(&mut file, 232 + 24, 8, 104);
        put(&mut file, 232 + 32, 8, 49152);
        // The segment: at 64, 40 bytes of file.
        put(&mut file, 296 + 8, 8, 64);
        put(&mut file, 296 + 32, 8, 40);
        file
    }

    #[test]
    fn the_length_is_the_end_of_the_last_part() {
        let file = sample();
        assert!(begins(&file));
        assert_eq!(length(&file), Some(352));
    }

    #[test]
    fn a_section_that_lies_outside_makes_the_file_longer() {
        let mut file = sample();
        put(&mut file, 168 + 32, 8, 4000);
        assert_eq!(length(&file), Some(4064));
    }

    #[test]
    fn a_segment_that_lies_outside_makes_the_file_longer() {
        let mut file = sample();
        put(&mut file, 296 + 8, 8, 5000);
        assert_eq!(length(&file), Some(5040));
    }

    #[test]
    fn the_number_of_sections_may_be_in_the_first_section() {
        let mut file = sample();
        put(&mut file, 60, 2, 0);
        put(&mut file, 104 + 32, 8, 3);
        assert_eq!(length(&file), Some(352));
    }

    #[test]
    fn headers_that_cannot_be_are_no_length() {
        let with = |offset, size, value| {
            let mut file = sample();
            put(&mut file, offset, size, value);
            length(&file)
        };
        assert_eq!(with(4, 1, 1), None, "32 bits");
        assert_eq!(with(5, 1, 2), None, "big-endian");
        assert_eq!(with(58, 2, 8), None, "section headers too small");
        assert_eq!(with(54, 2, 8), None, "program headers too small");
        assert_eq!(with(60, 2, 65535), None, "more sections than there are");
        for offset in [32, 40, 168 + 24, 168 + 32, 296 + 8, 296 + 32] {
            assert_eq!(with(offset, 8, u64::MAX), None, "{offset}");
        }
        let mut file = sample();
        put(&mut file, 60, 2, 0);
        put(&mut file, 104 + 32, 8, u64::MAX);
        assert_eq!(length(&file), None, "a number of sections without end");
    }
}
