//! Whether PTX has to be linked with the CUDA device runtime.

/// What kernels call of the device runtime.
const FUNCTIONS: [&str; 1] = ["cudaGraphSetConditional"];

/// Whether a text declares a function of the device runtime as external.
pub(super) fn is_needed(ptx: &str) -> bool {
    FUNCTIONS.into_iter().any(|name| {
        ptx.match_indices(name).any(|(at, _)| {
            // The declaration ends here at the latest, and begins behind the end of what is before it.
            let before = ptx[..at].rsplit([';', '}']).next().unwrap_or_default();
            let mut words = before.split_whitespace();
            words.any(|word| word == ".extern") && words.any(|word| word == ".func")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::is_needed;

    #[test]
    fn a_declaration_is_told_from_other_uses_of_the_name() {
        assert!(is_needed(include_str!("../set_conditional.ptx")));
        assert!(is_needed(".extern .func (.param .b32 r) cudaGraphSetConditional (.param .b64 a);"));
        for ptx in [
            "",
            "// cudaGraphSetConditional\n.version 8.0",
            ".extern .func other (.param .b64 a); .visible .entry cudaGraphSetConditional () { ret; }",
            ".visible .func cudaGraphSetConditional () { ret; }",
        ] {
            assert!(!is_needed(ptx), "{ptx}");
        }
    }
}
