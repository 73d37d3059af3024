//! The format of an entry: a header with the key and the digest of the content, and the content.

use super::super::fingerprint::{Fingerprint, Sha256Digest};
use anabranch_hal::CompileOutput;
use sha2::{Digest, Sha256};

/// Changes with the format.
const MAGIC: &[u8; 16] = b"anabranch-kernel";
const VERSION: u32 = 1;

/// An entry as bytes.
pub(super) fn encode(key: &Fingerprint, output: &CompileOutput) -> Vec<u8> {
    let mut content = Vec::new();
    put(&mut content, &output.image);
    put(&mut content, output.log.as_bytes());
    output.lowered_names.iter().for_each(|name| put(&mut content, name.as_bytes()));

    let mut bytes = Vec::with_capacity(content.len() + 128);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(key.bytes());
    bytes.extend_from_slice(&Sha256Digest::from(Sha256::digest(&content)));
    put(&mut bytes, &content);
    bytes
}

/// The entry of that key, or `None` if these bytes are not exactly that.
pub(super) fn decode(key: &Fingerprint, bytes: &[u8]) -> Option<CompileOutput> {
    let bytes = bytes.strip_prefix(MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?.strip_prefix(key.bytes())?;
    let (digest, mut bytes) = bytes.split_first_chunk::<32>()?;
    let mut content = take(&mut bytes)?;
    if !bytes.is_empty() || Sha256Digest::from(Sha256::digest(content)) != *digest {
        return None;
    }
    let image = take(&mut content)?.to_vec();
    let log = text(take(&mut content)?)?;
    let mut lowered_names = Vec::new();
    while !content.is_empty() {
        lowered_names.push(text(take(&mut content)?)?);
    }
    Some(CompileOutput { image, log, lowered_names })
}

/// Appends bytes with their length before them.
fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    to.extend_from_slice(bytes);
}

/// Takes off what [`put`] appended.
fn take<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = from.split_first_chunk::<8>()?;
    let (bytes, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *from = rest;
    Some(bytes)
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::{decode, encode};
    use crate::compiler::fingerprint::Fingerprint;
    use anabranch_hal::{CompileOutput, CompileRequest, OutputKind};

    fn key(source: &str) -> Fingerprint {
        let request =
            CompileRequest { source, name: "a", options: &[], name_expressions: &[], output: OutputKind::Ptx };
        Fingerprint::of("fake", &request, &[]).unwrap()
    }

    #[test]
    fn an_entry_is_read_back_or_refused_but_never_misread() {
        let output = CompileOutput {
            image: b"image".to_vec(),
            log: "a log".to_owned(),
            lowered_names: vec![String::new(), "_Z1k".to_owned()],
        };
        let bytes = encode(&key("one"), &output);
        assert_eq!(decode(&key("one"), &bytes), Some(output));
        assert_eq!(decode(&key("two"), &bytes), None);
        for length in 0..bytes.len() {
            assert_eq!(decode(&key("one"), &bytes[..length]), None);
        }
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 0x10;
            assert_eq!(decode(&key("one"), &damaged), None, "byte {position}");
        }
        assert_eq!(decode(&key("one"), &[&bytes[..], b"x"].concat()), None);
    }
}
