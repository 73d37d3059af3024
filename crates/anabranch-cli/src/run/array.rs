//! Arrays in `.npy` files.

use super::element::Element;
use npyz::{DType, NpyHeader, Order, WriteOptions, WriterBuilder};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

/// An array, in C order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Array {
    pub(super) element: Element,
    pub(super) shape: Vec<u64>,
    pub(super) data: Vec<u8>,
}

/// The longest header that is read. NumPy reads 10,000 bytes unless it is told otherwise.
const LONGEST_HEADER: u32 = 1 << 16;

impl Array {
    /// Reads a file of version 1, 2 or 3.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let name = path.display();
        let file = File::open(path).map_err(|error| format!("{name} cannot be read: {error}"))?;
        Self::read_from(&mut BufReader::new(file)).map_err(|what| format!("{name} cannot be used: {what}"))
    }

    pub(crate) fn read_from(file: &mut impl Read) -> Result<Self, String> {
        let (element, shape) = read_header(file)?;
        let bytes = byte_count(element, &shape).ok_or("its shape is larger than any memory")?;
        let mut data = Vec::new();
        // The memory grows with what is really there.
        file.take(bytes).read_to_end(&mut data).map_err(|error| error.to_string())?;
        if (data.len() as u64) < bytes {
            return Err(format!("it ends after {} of the {bytes} bytes of its array", data.len()));
        }
        match file.read(&mut [0]) {
            Ok(0) => Ok(Self { element, shape, data }),
            Ok(_) => Err("there is more in it after its array".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The bytes of an array, if there can be so many.
pub(super) fn byte_count(element: Element, shape: &[u64]) -> Option<u64> {
    // Beside an extent of zero, too, the others must be such that the header can be read again.
    let most = shape.iter().try_fold(element.bytes() as u64, |product, &extent| product.checked_mul(extent.max(1)))?;
    i64::try_from(most).ok()?;
    Some(if shape.contains(&0) { 0 } else { most })
}

/// The text of an extent, such as `f32[640,480]`.
pub(super) fn describe(element: Element, shape: &[u64]) -> String {
    let extents: Vec<String> = shape.iter().map(u64::to_string).collect();
    format!("{element}[{}]", extents.join(","))
}

/// The beginning of the file of an array, up to its data.
pub(super) fn header(element: Element, shape: &[u64]) -> std::io::Result<Vec<u8>> {
    let name = element.descriptor().parse().map_err(std::io::Error::other)?;
    WriteOptions::new_header_only().dtype(DType::Plain(name)).shape(shape).writer(Vec::new()).write_header_only()
}

/// Reads what is before the data.
fn read_header(file: &mut impl Read) -> Result<(Element, Vec<u64>), String> {
    let short = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "it is no .npy file, or only the beginning of one".to_owned(),
        _ => error.to_string(),
    };
    let mut head = vec![0; 8];
    file.read_exact(&mut head).map_err(short)?;
    if head[..6] != *b"\x93NUMPY" {
        return Err("it is no .npy file".to_owned());
    }
    let wide = match (head[6], head[7]) {
        (1, 0) => false,
        (2 | 3, 0) => true,
        (major, minor) => return Err(format!("it has version {major}.{minor} of the format, and not 1.0, 2.0 or 3.0")),
    };
    let mut length = [0; 4];
    let size = if wide { 4 } else { 2 };
    file.read_exact(&mut length[..size]).map_err(short)?;
    head.extend(&length[..size]);
    let length = u32::from_le_bytes(length);
    if length > LONGEST_HEADER {
        return Err(format!("its header has {length} bytes, and at most {LONGEST_HEADER} are read"));
    }
    let mut text = vec![0; length as usize];
    file.read_exact(&mut text).map_err(short)?;
    if !is_plain(&text) {
        return Err("its header is not that of an array of numbers".to_owned());
    }
    head.extend(&text);
    let header = NpyHeader::from_reader(&head[..]).map_err(|error| format!("its header is wrong: {error}"))?;
    let element = match header.dtype() {
        DType::Plain(name) => Element::of_descriptor(&name)?,
        DType::Record(_) | DType::Array(..) => {
            return Err("it has a structured type; save its fields one by one".to_owned());
        }
    };
    if header.order() == Order::Fortran {
        return Err("it is in Fortran order; save it with `numpy.ascontiguousarray`".to_owned());
    }
    Ok((element, header.shape().to_vec()))
}

/// Whether the parser can be given a header: it recurses into brackets, and multiplies what numbers it finds.
fn is_plain(header: &[u8]) -> bool {
    let (mut depth, mut product, mut number) = (0u32, 1u64, None);
    for &byte in header {
        if byte.is_ascii_digit() {
            let digit = u64::from(byte - b'0');
            let Some(value) = number.unwrap_or(0u64).checked_mul(10).and_then(|value| value.checked_add(digit)) else {
                return false;
            };
            number = Some(value);
            continue;
        }
        if let Some(value) = number.take() {
            let Some(so_far) = product.checked_mul(value.max(1)) else { return false };
            product = so_far;
            // Other ways to write numbers.
            if byte == b'_' || byte.is_ascii_alphabetic() {
                return false;
            }
        }
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'\\' => return false,
            b'\n' | b' '..=b'~' => {}
            _ => return false,
        }
        if depth > 8 {
            return false;
        }
    }
    i64::try_from(product).is_ok()
}

#[cfg(test)]
mod tests {
    use super::{Array, Element, byte_count, header};

    fn file(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let length = (header.len() as u32).to_le_bytes();
        let size = if version == 1 { 2 } else { 4 };
        [b"\x93NUMPY", &[version, 0][..], &length[..size], header.as_bytes(), data].concat()
    }

    fn dictionary(name: &str, order: &str, shape: &str) -> String {
        format!("{{'descr': '{name}', 'fortran_order': {order}, 'shape': {shape}, }}")
    }

    fn refused(file: &[u8]) -> String {
        Array::read_from(&mut &file[..]).expect_err("a file that is wrong")
    }

    #[test]
    fn what_is_written_is_read_again() {
        for (element, shape) in
            [(Element::F32, &[2u64, 3][..]), (Element::Bf16, &[5]), (Element::U8, &[]), (Element::I64, &[0, 4])]
        {
            let bytes = byte_count(element, shape).expect("a small array");
            let data: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
            let mut file = header(element, shape).expect("a vector takes all");
            assert_eq!(file.len() % 64, 0, "data is aligned as NumPy aligns it");
            file.extend(&data);
            let expected = Array { element, shape: shape.to_vec(), data };
            assert_eq!(Array::read_from(&mut &file[..]), Ok(expected));
        }
    }

    #[test]
    fn every_version_is_read() {
        for version in [1, 2, 3] {
            let file = file(version, &dictionary("<u2", "False", "(2,)"), &[1, 0, 2, 0]);
            let array = Array::read_from(&mut &file[..]).expect("a version that there is");
            assert_eq!((array.element, array.shape, array.data), (Element::U16, vec![2], vec![1, 0, 2, 0]));
        }
        assert!(refused(&file(4, "", &[])).contains("version 4.0"));
    }

    #[test]
    fn other_types_and_orders_are_refused_with_a_remedy() {
        for (name, order, words) in [
            (">f4", "False", ".astype(\"<f4\")"),
            ("|b1", "False", ".astype(\"u1\")"),
            ("<c8", "False", "`<c8`"),
            ("|V3", "False", "`|V3`"),
            ("<f4", "True", "ascontiguousarray"),
        ] {
            let error = refused(&file(1, &dictionary(name, order, "(1, 1)"), &[0; 16]));
            assert!(error.contains(words), "{name}: {error}");
        }
        let structured = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }";
        assert!(refused(&file(1, structured, &[0; 4])).contains("structured"));
    }

    #[test]
    fn sizes_are_those_of_the_file() {
        let header = dictionary("<f4", "False", "(2,)");
        assert!(refused(&file(1, &header, &[0; 7])).contains("7 of the 8 bytes"));
        assert!(refused(&file(1, &header, &[0; 9])).contains("more in it"));
    }

    #[test]
    fn hostile_files_are_refused() {
        let deep = "[".repeat(60_000);
        for header in [
            "",
            "{}",
            "{'shape': ()}",
            "nonsense",
            &deep,
            "{'a\\u0041': 1}",
            &dictionary("<f4", "False", "(18446744073709551615, 18446744073709551615)"),
            &dictionary("<f4", "False", "(0, 9999999999999, 9999999999999)"),
            &dictionary("<f4", "False", "(99999999999999999999999,)"),
            &dictionary("<f4", "False", "(0xffffffffffffffff, 2)"),
            &dictionary("<f4", "False", "(-1,)"),
            &dictionary("<f4", "False", "(1.5,)"),
            &dictionary("<f4", "False", "7"),
            &dictionary("<f4", "0", "(7,)"),
            &dictionary("", "False", "(7,)"),
            &dictionary("<V18446744073709551615", "False", "(7,)"),
        ] {
            assert!(!refused(&file(2, header, &[0; 64])).is_empty());
        }
        let whole = file(1, &dictionary("<f4", "False", "(1,)"), &[0; 4]);
        for length in 0..whole.len() {
            assert!(!refused(&whole[..length]).is_empty());
        }
        let endless = [b"\x93NUMPY\x02\x00", &[255; 4][..]].concat();
        assert!(refused(&endless).contains("4294967295 bytes"));
        let large = file(1, &dictionary("<f4", "False", "(1000000000000,)"), &[0; 4]);
        assert!(refused(&large).contains("4 of the 4000000000000 bytes"));
    }
}
