//! How long a fatbin is: a header, then as many bytes of images for several architectures as the header says.

use super::number;

const MAGIC: u64 = 0xba55_ed50;

/// Whether the image begins as a fatbin does.
pub(super) fn begins(bytes: &[u8]) -> bool {
    number(bytes, 0, 4) == Some(MAGIC)
}

/// The length that the header says: its own and that of what follows. None if the header is not all there.
pub(super) fn length(bytes: &[u8]) -> Option<u64> {
    // The magic number, a version of 2 bytes, the header's size in 2, and the size of the rest in 8.
    let (header, rest) = (number(bytes, 6, 2)?, number(bytes, 8, 8)?);
    if header < 16 { None } else { header.checked_add(rest) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{begins, length};

    pub(in crate::module::image) fn sample() -> Vec<u8> {
        let mut file = vec![0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
        file.extend(100_u64.to_le_bytes());
        file.resize(116, 0xee);
        file
    }

    #[test]
    fn the_length_is_that_of_the_header_and_the_rest() {
        assert!(begins(&sample()));
        assert_eq!(length(&sample()), Some(116));
    }

    #[test]
    fn headers_that_cannot_be_are_no_length() {
        let mut small = sample();
        small[6] = 8;
        assert_eq!(length(&small), None);
        let mut endless = sample();
        endless[8..16].fill(0xff);
        assert_eq!(length(&endless), None);
    }
}
