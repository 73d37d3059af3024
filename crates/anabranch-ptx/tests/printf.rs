//! What `printf` reads.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Arguments, Device};

/// A kernel that prints one text, whose address is its argument, with a format that ends at the zero.
fn prints(format: &str) -> String {
    let bytes = format.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    let count = format.len() + 1;
    format!(
        ".version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 values);
.global .align 1 .b8 format[{count}] = {{{bytes}, 0}};
.visible .entry prints(.param .u64 text)
{{
    .local .align 8 .b8 values[8];
    .reg .b64 %rd<5>;
    .reg .b32 %r<2>;
    ld.param.u64 %rd0, [text];
    mov.u64 %rd1, values;
    st.local.u64 [%rd1], %rd0;
    cvta.local.u64 %rd2, %rd1;
    mov.u64 %rd3, format;
    cvta.global.u64 %rd4, %rd3;
    {{
        .param .b64 p0;
        .param .b64 p1;
        .param .b32 q;
        st.param.b64 [p0], %rd4;
        st.param.b64 [p1], %rd2;
        call.uni (q), vprintf, (p0, p1);
        ld.param.b32 %r0, [q];
    }}
    ret;
}}
"
    )
}

#[test]
fn a_text_of_so_many_bytes_need_not_have_an_end() {
    for (format, expected) in [("[%.3s]", "[abc]"), ("[%5.2s]", "[   ab]"), ("[%.0s]", "[]"), ("[%.8s]", "[abcdefgh]")]
    {
        let mut device = Device::new(&prints(format));
        let text = device.memory.upload(b"abcdefgh");
        device.launch("prints", 1, 1, &Arguments::new().with(text)).unwrap();
        assert_eq!(*device.record.printed.lock().unwrap(), expected.as_bytes(), "{format}");
    }
}

#[test]
fn a_text_without_an_end_is_a_fault() {
    for format in ["%s", "%.9s"] {
        let mut device = Device::new(&prints(format));
        let text = device.memory.upload(b"abcdefgh");
        device.launch("prints", 1, 1, &Arguments::new().with(text)).unwrap_err();
    }
}

/// What a kernel prints that passes the bits of a value.
fn printed(format: &str, bits: u64) -> String {
    let device = Device::new(&prints(format));
    device.launch("prints", 1, 1, &Arguments::new().with(bits)).unwrap();
    let printed = device.record.printed.lock().unwrap();
    String::from_utf8(printed.clone()).unwrap()
}

#[test]
fn conversions_have_prefixes_signs_and_points_as_in_c() {
    for (format, bits, expected) in [
        ("%#08x", 0x1a, "0x00001a"),
        ("%#.4x", 0x1a, "0x001a"),
        ("%#010X", 0xbeef, "0X0000BEEF"),
        ("%#x", 0, "0"),
        ("%.0d", 0, ""),
        ("%+.0d", 0, "+"),
        ("%#.0o", 0, "0"),
        ("%#.3o", 8, "010"),
        ("%p", 0, "(nil)"),
        ("%+8p", 0x1234, " +0x1234"),
        ("%#.0f", 3f64.to_bits(), "3."),
        ("%#.0e", 3f64.to_bits(), "3.e+00"),
        ("%#g", 3f64.to_bits(), "3.00000"),
        ("%.1a", 1.97f64.to_bits(), "0x2.0p+0"),
        ("%.3a", 1f64.to_bits(), "0x1.000p+0"),
        ("%012a", (-1.5f64).to_bits(), "-0x0001.8p+0"),
        ("%08f", f64::NEG_INFINITY.to_bits(), "    -inf"),
        ("%f", (-f64::NAN).to_bits(), "-nan"),
    ] {
        assert_eq!(printed(format, bits), expected, "{format} of {bits:#x}");
    }
}

/// The same as the C library, by which CUDA writes what kernels print: on a GPU, 794 such conversions gave the same text.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod as_the_c_library {
    use std::ffi::{CString, c_char};

    use proptest::prelude::*;

    use super::printed;

    /// What the C library of this machine prints.
    fn printed_by_c(format: &str, bits: u64) -> String {
        let text = CString::new(format).unwrap();
        let mut buffer = vec![0u8; 8192];
        let (to, length) = (buffer.as_mut_ptr().cast::<c_char>(), buffer.len());
        let written = if format.ends_with(['f', 'F', 'e', 'E', 'g', 'G', 'a', 'A']) {
            // SAFETY: the buffer has that length, and the format takes one floating-point number.
            unsafe { libc::snprintf(to, length, text.as_ptr(), f64::from_bits(bits)) }
        } else {
            // SAFETY: the buffer has that length, and the format takes one integer or pointer, which is of no more bytes.
            unsafe { libc::snprintf(to, length, text.as_ptr(), bits) }
        };
        buffer.truncate(written.try_into().unwrap());
        String::from_utf8(buffer).unwrap()
    }

    /// A conversion with flags, a width and a precision, and the bits of a value for it.
    fn conversions() -> impl Strategy<Value = (String, u64)> {
        let flags = proptest::collection::vec(proptest::sample::select(vec!['-', '+', ' ', '#', '0']), 0..4);
        let width = proptest::option::of(0..30u32);
        let precision = proptest::option::of(proptest::option::of(0..24u32));
        let integers = proptest::sample::select(vec![
            "d", "i", "u", "x", "X", "o", "hd", "hu", "hx", "hhd", "hhx", "ld", "lld", "lu", "llx", "lX", "zo", "p",
        ]);
        let reals = proptest::sample::select(vec!["f", "F", "e", "E", "g", "G", "a", "A"]);
        let small = (-300..300i64).prop_map(i64::cast_unsigned);
        let integer = (integers, prop_oneof![Just(0), small, any::<u64>()]);
        // Ties and others with few digits; of all sizes; and what is no number.
        let few = (-4000..4000i32, -14..14i32).prop_map(|(value, power)| f64::from(value) * 2f64.powi(power));
        let decimal = (-99..99i32, -30..30i32).prop_map(|(value, power)| f64::from(value) * 10f64.powi(power));
        let special =
            proptest::sample::select(vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, 5e-324]);
        let value = prop_oneof![few, decimal, special, any::<u64>().prop_map(f64::from_bits)];
        let real = (reals, value.prop_map(f64::to_bits));
        (flags, width, precision, prop_oneof![integer, real]).prop_map(
            |(flags, width, precision, (conversion, bits))| {
                let flags: String = flags.into_iter().collect();
                let width = width.filter(|&width| width > 0).map_or_else(String::new, |width| width.to_string());
                let precision = match precision {
                    None => String::new(),
                    Some(None) => ".".to_owned(),
                    Some(Some(precision)) => format!(".{precision}"),
                };
                (format!("%{flags}{width}{precision}{conversion}"), bits)
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 2000 }))]

        #[test]
        #[cfg_attr(miri, ignore = "it calls the C library")]
        fn values_are_written_as_by_the_c_library((format, bits) in conversions()) {
            prop_assert_eq!(printed(&format, bits), printed_by_c(&format, bits), "{} of {:#x}", format, bits);
        }
    }
}

#[test]
fn what_is_no_text_or_no_conversion_is_printed_as_by_the_c_library() {
    for (format, expected) in [
        ("[%s]", "[(null)]"),
        ("[%8s]", "[  (null)]"),
        ("100%\n", "100%\n"),
        ("tail %", "tail %"),
        ("%5y %-08.2lk|", "%5y %-08.2lk|"),
        ("%%y", "%y"),
    ] {
        let device = Device::new(&prints(format));
        device.launch("prints", 1, 1, &Arguments::new().with(0u64)).unwrap();
        let printed = device.record.printed.lock().unwrap();
        assert_eq!(String::from_utf8_lossy(&printed), expected, "{format}");
    }
}
