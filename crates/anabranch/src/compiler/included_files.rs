//! The files that a source includes.
//!
//! The search looks for the text `include` instead of directives, and ignores `#if` and comments. It therefore finds
//! all files that a compiler may read, and some that it does not read. It has no state that could get out of step with
//! the language, unlike a lexer.

use super::fingerprint::Sha256Digest;
use super::regular_file::{self, Links};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

/// Limits of the included files. Reading more would take as long as compiling.
const MOST_FILES: usize = 4096;
const MOST_BYTES: u64 = 64 << 20;

/// The files that a source may include, and those that they include, each with the digest of its content.
#[derive(Debug, Default)]
pub(super) struct IncludedFiles {
    files: Vec<(PathBuf, Sha256Digest)>,
}

impl IncludedFiles {
    /// The files that the source of that name may include, or `None` if the texts do not determine what the compiler
    /// reads. The other texts, which define macros or are appended to the source, must include nothing themselves.
    pub(super) fn of<'a>(
        name: &str,
        source: &str,
        mut others: impl Iterator<Item = &'a String>,
        directories: &[PathBuf],
    ) -> Option<Self> {
        if !others.all(|text| References::of(text.as_bytes()).is_some_and(|References(names)| names.is_empty())) {
            return None;
        }
        let mut found = Self::default();
        let (mut seen, mut bytes_read) = (HashSet::new(), 0);
        let mut to_search = vec![(directory_of(Path::new(name)), References::of(source.as_bytes())?)];
        while let Some((beside, References(references))) = to_search.pop() {
            for reference in references {
                // In all the directories and not only in the first that contains it: `#include_next` continues the
                // search.
                for directory in std::iter::once(&beside).chain(directories) {
                    let path = directory.join(&reference);
                    if !seen.insert(path.clone()) {
                        continue;
                    }
                    let Some(content) = read(&path).ok()? else { continue };
                    bytes_read += content.len() as u64;
                    if found.files.len() == MOST_FILES || bytes_read > MOST_BYTES {
                        return None;
                    }
                    to_search.push((directory_of(&path), References::of(&content)?));
                    found.files.push((path, Sha256::digest(&content).into()));
                }
            }
        }
        Some(found)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &(PathBuf, Sha256Digest)> {
        self.files.iter()
    }
}

fn directory_of(file: &Path) -> PathBuf {
    file.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// The content of a file, or `None` where there is none.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let absent = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
        _ => Err(error),
    };
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(None),
        // Reading anything else, such as a pipe, would change what the compiler reads.
        Ok(_) => match regular_file::open(path, Links::Followed) {
            Ok((file, _)) => regular_file::read(&file, MOST_BYTES).map(Some),
            Err(error) => absent(error),
        },
        Err(error) => absent(error),
    }
}

/// The names by which a text includes files.
#[derive(Debug, PartialEq, Eq)]
struct References(Vec<String>);

impl References {
    /// Text that makes the result depend on the time, that can hide a directive, or that only some compilers know.
    const OPAQUE: [&str; 6] = ["__DATE__", "__TIME__", "__TIMESTAMP__", "__include_macros", "??=", "??/"];
    /// Words that a macro may paste from pieces, without being in the text.
    const PASTED: [&str; 6] =
        ["__DATE__", "__TIME__", "__TIMESTAMP__", "__has_include", "__has_include_next", "__has_embed"];
    /// What directives and conditions name files with.
    const WORDS: [&[u8]; 3] = [b"include", b"import", b"embed"];

    /// The names in a text, or `None` if there may be others that the text does not contain literally.
    fn of(text: &[u8]) -> Option<Self> {
        let text = &spliced(text);
        if Self::OPAQUE.iter().any(|opaque| positions(text, opaque.as_bytes()).next().is_some())
            || has_piece_of(text, &Self::PASTED)
        {
            return None;
        }
        let mut names = Vec::new();
        for word in Self::WORDS {
            for position in positions(text, word) {
                if let Some(start) = start_of_name(text, position, word.len())? {
                    names.push(name_at(start)?);
                }
            }
        }
        Some(Self(names))
    }
}

/// The text behind the word at this position, from the name of the file on. `Some(None)` if the word names no file, and
/// `None` if the text does not tell.
fn start_of_name(text: &[u8], position: usize, length: usize) -> Option<Option<&[u8]>> {
    let (before, after) = (&text[..position], &text[position + length..]);
    let after = after.strip_prefix(b"_next").unwrap_or(after);
    if let Some(before) = before.strip_suffix(b"__has_") {
        if asks_whether_defined(before) {
            return Some(None);
        }
        let after = without_leading_space(after);
        let start = without_leading_space(after.strip_prefix(b"(").unwrap_or(after));
        // Quotation marks mean the directory of the file where the macro is used, which may be another one.
        return if start.starts_with(b"\"") && may_be_in_definition(before) { None } else { Some(Some(start)) };
    }
    let names_file = is_directive(before)? && !after.first().is_some_and(|byte| is_part_of_word(*byte));
    Some(names_file.then(|| without_leading_space(after)))
}

/// Whether the text ends where an operand of `defined`, `#ifdef` or `#ifndef` begins.
fn asks_whether_defined(before: &[u8]) -> bool {
    let before = without_trailing_space(before);
    let is_operand = |before: &[u8]| {
        before.strip_suffix(b"defined").is_some_and(|before| !before.last().is_some_and(|byte| is_part_of_word(*byte)))
    };
    let is_tested = |word: &[u8]| before.strip_suffix(word).is_some_and(|before| is_directive(before) == Some(true));
    is_operand(before)
        || before.strip_suffix(b"(").is_some_and(|before| is_operand(without_trailing_space(before)))
        || is_tested(b"ifdef")
        || is_tested(b"ifndef")
}

/// Whether the line that the text ends in may define a macro. A comment may hide that.
fn may_be_in_definition(before: &[u8]) -> bool {
    let line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or(before);
    positions(line, b"*/").next().is_some() || identifiers(line).any(|word| word == b"define")
}

/// Whether an identifier is the beginning of one of the words. `##` may make the word of it, and so may a macro of a
/// file that is built into the compiler, so that no `##` needs to be in the text.
fn has_piece_of(text: &[u8], words: &[&str]) -> bool {
    identifiers(text).any(|piece| {
        words.iter().any(|word| word.len() > piece.len() && word.as_bytes().starts_with(piece))
            && !words.iter().any(|word| word.as_bytes() == piece)
    })
}

/// The identifiers in a text. What comes before a `$`, as in the `__$name` of some headers, is left out: it is a part of a
/// longer identifier, or not the last token of an operand of `##`.
fn identifiers(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !is_part_of_word(*byte) && *byte != b'$')
        .filter_map(|word| word.rsplit(|byte| *byte == b'$').next())
        .filter(|word| !word.is_empty())
}

/// Whether the text before the word makes it a directive; `None` if there is a comment in between, which may hide that.
fn is_directive(before: &[u8]) -> Option<bool> {
    let before = without_trailing_space(before);
    if before.ends_with(b"*/") { None } else { Some(before.ends_with(b"#") || before.ends_with(b"%:")) }
}

/// The name in quotation marks or angle brackets that the text begins with.
fn name_at(text: &[u8]) -> Option<String> {
    let (first, rest) = text.split_first()?;
    let last = match first {
        b'"' => b'"',
        b'<' => b'>',
        _ => return None,
    };
    let name = rest.split(|byte| *byte == b'\n').next()?;
    let end = name.iter().position(|byte| *byte == last)?;
    String::from_utf8(name[..end].to_vec()).ok()
}

/// The text with lines joined that end in a backslash, as the first thing that a compiler does. Some allow space behind
/// it.
fn spliced(text: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match without_trailing_space(line.strip_suffix(b"\n").unwrap_or(line)).strip_suffix(b"\\") {
            Some(start) if line.ends_with(b"\n") => joined.extend_from_slice(start),
            _ => joined.extend_from_slice(line),
        }
    }
    joined
}

fn positions<'a>(text: &'a [u8], word: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    text.windows(word.len()).enumerate().filter(move |(_, window)| *window == word).map(|(position, _)| position)
}

fn is_part_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Space within a line.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c)
}

fn without_leading_space(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_space(*byte)).unwrap_or(text.len());
    &text[start..]
}

fn without_trailing_space(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !is_space(*byte)).map_or(0, |last| last + 1);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::{IncludedFiles, References};
    use std::path::PathBuf;

    fn names(text: &str) -> Option<Vec<String>> {
        References::of(text.as_bytes()).map(|references| references.0)
    }

    #[test]
    fn all_spellings_of_a_directive_are_found() {
        for text in [
            "#include <a.h>",
            "#include\"a.h\"",
            "  #\tinclude  \"a.h\" // why",
            "#\x0cinclude\x0b\"a.h\"",
            "%:include <a.h>",
            "#inc\\\nlude <a.h>",
            "#inc\\ \r\nlude <a.h>",
            "#include_next <a.h>",
            "/* first */ #include <a.h>",
            "// #include <a.h>",
            "#if __has_include(<a.h>)",
            "#if __has_include ( \"a.h\" )",
            "#if defined __has_include && __has_include_next(<a.h>)",
            "#if defined(__has_include) && __has_include(\"a.h\")",
            "#define HAS __has_include(<a.h>)",
            "#import \"a.h\"",
            "#embed <a.h> limit(4)",
            "#if __has_embed(\"a.h\")",
            "int x;\r\n#include <a.h>\r\nint y;",
        ] {
            assert_eq!(names(text), Some(vec!["a.h".to_owned()]), "{text}");
        }
    }

    #[test]
    fn what_the_text_does_not_tell_is_admitted() {
        for text in [
            "#include HEADER",
            "#include",
            "#include <a.h\n>",
            "#/**/include <a.h>",
            "#include /**/ <a.h>",
            "#if __has_include(HEADER)",
            "#define HAS(name) __has_include(name)",
            "#define HAS __has_include",
            "??=include <a.h>",
            "const char *made = __DATE__;",
            "#embed DATA",
            "#if __has_embed(DATA)",
            "#__include_macros <a.h>",
            "#define ifdef(name) name(<a.h>)\n#if ifdef(__has_include)",
            "#if is_defined(__has_include)",
            "#define HAS __has_include(\"a.h\")",
            "%:\tdefine HAS() __has_include(\"a.h\")",
            "#define HAS \\\n __has_include(\"a.h\")",
            "#define /*\n*/ HAS __has_include(\"a.h\")",
            "PASTE(__TI, ME__)",
            "PASTE(__has_inc, lude)(<a.h>)",
            "PASTE(__has_include, _next)(<a.h>)",
            "PASTE(__has_emb, ed)(<a.h>)",
            "_##_DATE__",
            "__%:%:TIME__",
            "__TI\\\nM##E__",
            "$__TI##ME__",
        ] {
            assert_eq!(names(text), None, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_passed_over() {
        for text in [
            "int include;",
            "we include <a.h>",
            "#includes",
            "#ifdef __has_include",
            "%: ifndef __has_include",
            "defined( __has_include )",
            "#define PASTE(a, b) a##b\nint PASTE(__T1, ME__), ___, __TIMER, has_include, __restrict__;",
            "asm(\"{ .reg .pred __$temp3; }\");",
        ] {
            assert_eq!(names(text), Some(Vec::new()), "{text}");
        }
    }

    #[test]
    fn files_are_found_in_turn_in_every_directory() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        };
        write("source/beside.h", "#include \"deeper/own.h\"");
        write("source/deeper/own.h", "#include \"sibling.h\"\n#include <missing.h>");
        write("source/deeper/sibling.h", "#include <shared.h>");
        write("first/shared.h", "#include <shared.h>");
        write("second/shared.h", "");
        write("second/unused.h", "");
        let source = "#include \"beside.h\"";
        let name = root.path().join("source/kernel.cu");
        let directories: Vec<PathBuf> = ["first", "second"].iter().map(|name| root.path().join(name)).collect();
        let found = |source: &str| {
            let found = IncludedFiles::of(name.to_str().unwrap(), source, [].iter(), &directories)?;
            let relative = |path: &PathBuf| path.strip_prefix(root.path()).unwrap().to_str().unwrap().to_owned();
            Some(found.iter().map(|(path, _)| relative(path)).collect::<Vec<_>>())
        };
        let expected =
            ["source/beside.h", "source/deeper/own.h", "source/deeper/sibling.h", "first/shared.h", "second/shared.h"];
        assert_eq!(found(source).unwrap(), expected);
        assert_eq!(found("").unwrap(), [""; 0]);
        write("second/shared.h", "#include MACRO");
        assert_eq!(found(source), None);
    }
}
