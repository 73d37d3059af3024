//! Module images, made safe to hand to the driver, which takes an address and no length.
//!
//! Text gets a terminator. A binary is refused if its headers say that it is longer than the bytes given, so that the
//! driver never reads past their end.

mod elf;
mod fatbin;

use crate::ffi::cuda_types::{CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_FATBINARY, CU_JIT_INPUT_PTX, CUjitInputType};
use anabranch_hal::{Failure, Result, Status};
use std::ffi::c_void;

/// An image in a buffer of its own, aligned to 8 bytes and ended by at least 8 zero bytes.
pub(super) struct Image {
    words: Vec<u64>,
    bytes: usize,
    kind: CUjitInputType,
}

impl Image {
    fn copy(bytes: &[u8], kind: CUjitInputType) -> Self {
        let mut words = Vec::with_capacity(bytes.len() / 8 + 2);
        words.extend(bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        }));
        words.push(0);
        Self { words, bytes: bytes.len(), kind }
    }

    pub(super) fn as_ptr(&self) -> *const c_void {
        self.words.as_ptr().cast()
    }

    /// The kind of the image, for the linker.
    pub(super) fn kind(&self) -> CUjitInputType {
        self.kind
    }

    /// The size in bytes, with the terminator of a text.
    pub(super) fn size(&self) -> usize {
        if self.kind == CU_JIT_INPUT_PTX { self.bytes + 1 } else { self.bytes }
    }
}

/// PTX text with a terminator.
pub(super) fn of_ptx(text: &str) -> Result<Image> {
    let refused = |message: &str| Err(Failure::argument(Status::INVALID_PTX, message));
    if text.contains('\0') {
        return refused("the PTX has a zero byte, at which the driver would stop reading");
    }
    // The driver recognises binaries by their first bytes, and trusts the sizes in their headers.
    if elf::begins(text.as_bytes()) {
        return refused("the PTX is not text: it begins as machine code does");
    }
    Ok(Image::copy(text.as_bytes(), CU_JIT_INPUT_PTX))
}

/// A cubin or fatbin that is as long as it says.
pub(super) fn of_binary(bytes: &[u8]) -> Result<Image> {
    let (length, kind) = if elf::begins(bytes) {
        (elf::length(bytes), CU_JIT_INPUT_CUBIN)
    } else if fatbin::begins(bytes) {
        (fatbin::length(bytes), CU_JIT_INPUT_FATBINARY)
    } else {
        return refused("the image begins neither as a cubin (ELF) nor as a fatbin does".to_owned());
    };
    match length {
        None => refused(format!("the headers of the image are cut off or out of range, in {} bytes", bytes.len())),
        Some(length) if length > bytes.len() as u64 => {
            refused(format!("the image is cut off: it says that it has {length} bytes, and {} are there", bytes.len()))
        }
        Some(_) => Ok(Image::copy(bytes, kind)),
    }
}

fn refused(message: String) -> Result<Image> {
    Err(Failure::argument(Status::INVALID_IMAGE, message))
}

/// The little-endian number of 2, 4 or 8 bytes at an offset, or none if it is not all there.
fn number(bytes: &[u8], offset: u64, size: usize) -> Option<u64> {
    let start = usize::try_from(offset).ok()?;
    let field = bytes.get(start..start.checked_add(size)?)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::{CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_PTX, Image, elf, fatbin, number, of_binary, of_ptx};
    use anabranch_hal::{CompileRequest, Detail, OutputKind, Result, Status};

    fn bytes(image: &Image) -> Vec<u8> {
        image.words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[track_caller]
    fn assert_refused(image: Result<Image>, status: Status) {
        let failure = image.err().expect("the image is bad");
        assert_eq!(failure.status, status);
        assert!(matches!(failure.detail.as_deref(), Some(Detail::Argument(_))), "{failure}");
    }

    #[test]
    fn an_image_is_aligned_and_ended_by_zeros() {
        for length in 0..20 {
            let original = vec![0xa5; length];
            let image = Image::copy(&original, CU_JIT_INPUT_CUBIN);
            assert!(image.as_ptr().addr().is_multiple_of(8));
            let (copied, rest) = (bytes(&image)[..length].to_vec(), bytes(&image)[length..].to_vec());
            assert_eq!(copied, original);
            assert!(rest.len() >= 8 && rest.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn text_is_taken_unless_it_is_not_text() {
        let image = of_ptx(".version 8.0").expect("this is text");
        assert!(bytes(&image).starts_with(b".version 8.0\0"));
        assert_eq!((image.size(), image.kind()), (13, CU_JIT_INPUT_PTX));
        assert_refused(of_ptx(".version\0 8.0"), Status::INVALID_PTX);
        assert_refused(of_ptx("\x7fELF and so on"), Status::INVALID_PTX);
    }

    #[test]
    fn an_image_of_no_known_kind_is_refused() {
        for image in [&b""[..], b"\x7fEL", b".version 8.0", b"!<arch>\n", &[0; 4096], b"BC\xc0\xde"] {
            assert_refused(of_binary(image), Status::INVALID_IMAGE);
        }
    }

    #[test]
    fn whole_images_are_taken_and_every_shorter_one_is_refused() {
        for whole in [elf::tests::sample(), fatbin::tests::sample()] {
            assert!(of_binary(&whole).is_ok());
            let longer = [&whole[..], &[0xff; 100]].concat();
            assert!(of_binary(&longer).is_ok(), "what follows the image is not part of it");
            for length in 0..whole.len() {
                assert_refused(of_binary(&whole[..length]), Status::INVALID_IMAGE);
            }
        }
    }

    /// Needs an NVRTC, and no GPU.
    #[test]
    fn what_the_compiler_makes_is_taken_whole_and_refused_when_cut_off() {
        let compiler = match crate::load_compiler() {
            Ok(compiler) => compiler,
            Err(absence) => return eprintln!("skipped: {absence}"),
        };
        // One of everything that machine code has sections for.
        let source = "__constant__ int table[64]; __device__ int zeros[1024]; __device__ int ones[2] = {1, 1};
            extern \"C\" __global__ void all(int *to, int from) {
                __shared__ int shared[512];
                extern __shared__ int dynamic[];
                int local[64];
                for (int i = 0; i < 64; ++i) local[i] = from * i;
                shared[threadIdx.x] = dynamic[threadIdx.x] = table[threadIdx.x];
                __syncthreads();
                to[threadIdx.x] = local[to[0]] + shared[to[1]] + dynamic[to[2]] + zeros[to[3]] + ones[to[4]];
            }";
        for architecture in compiler.architectures().expect("the compiler can say") {
            let request = CompileRequest {
                source,
                name: "all.cu",
                options: &[format!("--gpu-architecture=sm_{architecture}"), "--generate-line-info".to_owned()],
                name_expressions: &[],
                output: OutputKind::Binary,
            };
            let whole = compiler.compile(&request).expect("the source is valid").image;
            let length = elf::length(&whole).expect("the headers are there");
            assert!(length <= whole.len() as u64, "sm_{architecture}: {length} of {}", whole.len());
            assert!(whole.len() as u64 - length < 64, "sm_{architecture}: {length} of {}", whole.len());
            assert!(of_binary(&whole).is_ok());
            for length in (0..length as usize).step_by(97) {
                assert_refused(of_binary(&whole[..length]), Status::INVALID_IMAGE);
            }
        }
    }

    #[test]
    fn numbers_are_little_endian_and_never_read_past_the_end() {
        let bytes = [1, 2, 3, 4];
        assert_eq!(number(&bytes, 0, 4), Some(0x0403_0201));
        assert_eq!(number(&bytes, 2, 2), Some(0x0403));
        for (offset, size) in [(3, 2), (4, 2), (u64::MAX, 8), (u64::MAX - 7, 8)] {
            assert_eq!(number(&bytes, offset, size), None);
        }
    }
}
