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
