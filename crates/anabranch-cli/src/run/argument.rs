//! An argument of a kernel, as it is written on the command line.

use super::element::Element;
use std::path::PathBuf;
use std::str::FromStr;

/// An argument of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// An array that the kernel reads.
    Read { file: PathBuf },
    /// An array that the kernel reads and changes.
    Changed { file: PathBuf, result: PathBuf },
    /// An array that is zero before, and that the kernel writes.
    Written { element: Element, shape: Vec<u64>, result: PathBuf },
    /// A number.
    Number { element: Element, text: String, bytes: Vec<u8> },
}

impl Argument {
    /// Where the array goes after the launch.
    pub(super) fn result(&self) -> Option<&PathBuf> {
        match self {
            Self::Changed { result, .. } | Self::Written { result, .. } => Some(result),
            Self::Read { .. } | Self::Number { .. } => None,
        }
    }
}

impl FromStr for Argument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let forms = "in:FILE.npy, inout:FILE.npy:RESULT.npy, out:TYPE[D0,D1,…]:RESULT.npy or TYPE:VALUE";
        let (kind, rest) =
            text.split_once(':').ok_or_else(|| format!("the argument `{text}` is not of the form {forms}"))?;
        let wrong = |what: String| format!("the argument `{text}`: {what}");
        match kind {
            "in" if !rest.is_empty() => Ok(Self::Read { file: rest.into() }),
            "in" => Err(wrong("write in:FILE.npy".to_owned())),
            "inout" => {
                // A path may have a colon in it.
                let split = rest.find(".npy:").map(|at| at + ".npy".len()).or_else(|| rest.find(':'));
                match split.map(|at| (&rest[..at], &rest[at + 1..])) {
                    Some((file, result)) if !file.is_empty() && !result.is_empty() => {
                        Ok(Self::Changed { file: file.into(), result: result.into() })
                    }
                    _ => Err(wrong("write inout:FILE.npy:RESULT.npy".to_owned())),
                }
            }
            "out" => {
                let form = || wrong("write out:TYPE[D0,D1,…]:RESULT.npy, such as out:f32[640,480]:r.npy".to_owned());
                let (array, result) = rest.split_once("]:").ok_or_else(form)?;
                let (element, extents) = array.split_once('[').ok_or_else(form)?;
                if result.is_empty() {
                    return Err(form());
                }
                let element = element.parse().map_err(wrong)?;
                let extents = extents.trim();
                let shape: Result<Vec<u64>, _> = match extents {
                    "" => Ok(Vec::new()),
                    _ => extents.split(',').map(|extent| extent.trim().parse()).collect(),
                };
                let shape = shape.map_err(|_| wrong(format!("`{extents}` are no extents, such as 640,480")))?;
                Ok(Self::Written { element, shape, result: result.into() })
            }
            _ => {
                let element: Element = kind
                    .parse()
                    .map_err(|_| format!("the argument `{text}` is not of the form {forms}: `{kind}` is no type"))?;
                let bytes = element.value(rest).map_err(wrong)?;
                Ok(Self::Number { element, text: rest.to_owned(), bytes })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Argument, Element};

    #[test]
    fn every_form_is_read() {
        let changed = |file: &str, result: &str| Argument::Changed { file: file.into(), result: result.into() };
        let written =
            |shape: &[u64]| Argument::Written { element: Element::F32, shape: shape.to_vec(), result: "r".into() };
        for (text, expected) in [
            ("in:x.npy", Argument::Read { file: "x.npy".into() }),
            ("in:C:\\x.npy", Argument::Read { file: "C:\\x.npy".into() }),
            ("inout:x.npy:r.npy", changed("x.npy", "r.npy")),
            ("inout:C:\\x.npy:D:\\r.npy", changed("C:\\x.npy", "D:\\r.npy")),
            ("inout:x:r", changed("x", "r")),
            ("out:f32[2, 3]:r", written(&[2, 3])),
            ("out:f32[7]:r", written(&[7])),
            ("out:f32[]:r", written(&[])),
            ("u8:7", Argument::Number { element: Element::U8, text: "7".to_owned(), bytes: vec![7] }),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_argument_is_one_sentence_that_repeats_it() {
        for text in [
            "",
            "7",
            "in:",
            "inout:x.npy",
            "inout:x.npy:",
            "inout::r",
            "out:f32:r",
            "out:f32[3]",
            "out:f32[3]:",
            "out:f32[-3]:r",
            "out:f32[3,]:r",
            "out:f80[3]:r",
            "f80:1",
            "u8:",
            "u8:256",
            "float:1",
        ] {
            let error = text.parse::<Argument>().expect_err(text);
            assert!(error.contains(&format!("`{text}`")) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
