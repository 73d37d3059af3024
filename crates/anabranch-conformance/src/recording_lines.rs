//! The lines of a recording. A small compressed file may unpack to more than fits in memory, so there are limits.

use flate2::read::GzDecoder;
use std::io::{BufRead, BufReader, Read};

/// The limits of a file. The largest recordings of the repository have 15 MB, a million lines and lines of 20 kB.
const LIMITS: Limits = Limits { line: 1 << 20, bytes: 1 << 28, lines: 1 << 24 };

/// How many answers a recording may have.
const MOST_ANSWERS: usize = 1 << 24;

/// How many characters of a wrong line are shown.
const SHOWN: usize = 100;

struct Limits {
    /// The bytes of a line.
    line: u64,
    /// The bytes of all lines.
    bytes: u64,
    lines: usize,
}

/// The lines of a compressed file, with their numbers.
pub(crate) struct Lines<R: Read> {
    file: BufReader<GzDecoder<R>>,
    limits: Limits,
    number: usize,
    bytes: u64,
    answers: usize,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(from: R) -> Self {
        Self::with_limits(from, LIMITS)
    }

    fn with_limits(from: R, limits: Limits) -> Self {
        Self { file: BufReader::new(GzDecoder::new(from)), limits, number: 0, bytes: 0, answers: 0 }
    }

    /// The next line, without its end.
    ///
    /// # Errors
    ///
    /// One sentence, if it cannot be read or is beyond a limit.
    pub(crate) fn try_next(&mut self) -> Result<Option<String>, String> {
        self.number += 1;
        let number = self.number;
        let mut line = Vec::new();
        // The end of the line is counted, too.
        let read = (&mut self.file).take(self.limits.line + 1).read_until(b'\n', &mut line);
        self.bytes += read.map_err(|error| format!("line {number} cannot be read: {error}"))? as u64;
        if line.is_empty() {
            return Ok(None);
        }
        if line.pop_if(|last| *last == b'\n').is_some() {
            line.pop_if(|last| *last == b'\r');
        }
        if line.len() as u64 > self.limits.line {
            return Err(format!("line {number} has more than {} bytes", self.limits.line));
        }
        if self.bytes > self.limits.bytes {
            return Err(format!("it unpacks to more than {} bytes", self.limits.bytes));
        }
        if number > self.limits.lines {
            return Err(format!("it has more than {} lines", self.limits.lines));
        }
        String::from_utf8(line).map(Some).map_err(|_| format!("line {number} is no text"))
    }

    /// The next line, which a whole recording has.
    pub(crate) fn next(&mut self) -> Result<String, String> {
        self.try_next()?.ok_or_else(|| format!("it ends before line {}: record anew", self.number))
    }

    /// What follows a label on the next line.
    pub(crate) fn labelled(&mut self, label: &str) -> Result<String, String> {
        let line = self.next()?;
        line.strip_prefix(label).map(str::to_owned).ok_or_else(|| self.wrong(&line))
    }

    /// Reads the first line, which says what the file is.
    pub(crate) fn format(&mut self, format: &str) -> Result<(), String> {
        let line = self.try_next()?.unwrap_or_default();
        if line == format {
            return Ok(());
        }
        Err(format!("it starts with `{}`, and not with `{format}`: record anew with this version", start_of(&line)))
    }

    /// Counts answers that will be read. They may be more than there are lines.
    pub(crate) fn expect_answers(&mut self, count: usize) -> Result<(), String> {
        self.answers = self.answers.saturating_add(count);
        if self.answers > MOST_ANSWERS {
            return Err(format!("it has more than {MOST_ANSWERS} answers"));
        }
        Ok(())
    }

    /// The error of a line that was read last.
    pub(crate) fn wrong(&self, line: &str) -> String {
        format!("line {} makes no sense: `{}`", self.number, start_of(line))
    }
}

/// A line, or its start and dots.
fn start_of(line: &str) -> String {
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Limits, Lines};
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    /// The lines up to the first error, and the error.
    fn read(text: &str) -> (Vec<String>, Option<String>) {
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all(text.as_bytes()).unwrap();
        let file = file.finish().unwrap();
        let mut lines = Lines::with_limits(&*file, Limits { line: 4, bytes: 12, lines: 5 });
        let mut found = Vec::new();
        loop {
            match lines.try_next() {
                Ok(Some(line)) => found.push(line),
                Ok(None) => return (found, None),
                Err(error) => return (found, Some(error)),
            }
        }
    }

    #[test]
    fn lines_end_at_the_limits() {
        assert_eq!(read("abcd\n\r\nabcd"), (vec!["abcd".to_owned(), String::new(), "abcd".to_owned()], None));
        for (text, error) in [
            ("a\nabcde\n", "line 2 has more than 4 bytes"),
            ("abcde", "line 1 has more than 4 bytes"),
            ("abcd\nabcd\nabcd\n", "it unpacks to more than 12 bytes"),
            ("\n\n\n\n\n\n", "it has more than 5 lines"),
        ] {
            assert_eq!(read(text).1.as_deref(), Some(error), "{text:?}");
        }
    }
}
