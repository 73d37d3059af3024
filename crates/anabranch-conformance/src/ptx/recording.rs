//! What a device computed, in a file.
//!
//! The file is text, compressed with gzip. After the header comes each kernel: a line with its family, seed, fingerprint and
//! the number of its outputs, and a line for each output: `#` and a hash, `=` and the elements, or `!` and why there is none.

use super::player::Played;
use super::subject::{Family, Hash, Subject};
use crate::recording_lines::Lines;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, BufWriter, Read, Write};

pub use crate::programs::Header;

/// The first line. Its number changes with the format.
const FORMAT: &str = "anabranch kernels 1";

/// What is kept of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A hash of all elements.
    Hash(u32),
    /// The elements.
    Elements(Vec<u64>),
    /// Why there is none.
    Failed(String),
}

impl Answer {
    /// What is kept of elements.
    pub(crate) fn of(elements: &Result<Vec<u64>, String>, keeps: bool) -> Self {
        match elements {
            Err(reason) => Self::Failed(reason.clone()),
            Ok(elements) if keeps => Self::Elements(elements.clone()),
            Ok(elements) => Self::Hash(hash(elements)),
        }
    }
}

/// The hash of elements.
pub(crate) fn hash(elements: &[u64]) -> u32 {
    let mut hash = Hash::default();
    elements.iter().for_each(|element| hash.add(&element.to_le_bytes()));
    (hash.0 ^ hash.0 >> 32) as u32
}

/// What was recorded of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The family of the kernel.
    pub family: Family,
    /// The seed of the kernel.
    pub seed: u64,
    /// The fingerprint of the kernel.
    pub fingerprint: u64,
    /// What it computed, for each output.
    pub answers: Vec<Answer>,
}

impl Recorded {
    /// What is kept of a kernel that has run.
    pub fn new(subject: &Subject, played: &Played) -> Self {
        let missing = Err("the device was lost before".to_owned());
        let answer = |(index, output): (usize, &super::Output)| {
            Answer::of(played.outputs.get(index).unwrap_or(&missing), output.keeps)
        };
        Self {
            family: subject.family(),
            seed: subject.seed(),
            fingerprint: subject.fingerprint(),
            answers: subject.outputs().iter().enumerate().map(answer).collect(),
        }
    }

    /// The kernel that was recorded.
    ///
    /// # Errors
    ///
    /// One sentence with the remedy, if the kernel of this family and seed is another one by now.
    pub fn subject(&self) -> Result<Subject, String> {
        let subject = Subject::new(self.family, self.seed);
        let is_same = |subject: &Subject| {
            subject.fingerprint() == self.fingerprint && subject.outputs().len() == self.answers.len()
        };
        subject.filter(is_same).ok_or_else(|| {
            format!(
                "the kernel {} {} is not the one that was recorded, because it or the generator has changed since; record \
                 anew with `ci/gpu-run.sh FOLDER kernels` on a machine with a GPU",
                self.family, self.seed
            )
        })
    }

    /// The line of an answer, without the one of the kernel.
    fn line(answer: &Answer) -> String {
        match answer {
            Answer::Hash(hash) => format!("#{hash:08x}"),
            Answer::Elements(elements) => {
                let words: Vec<String> = elements.iter().map(|element| format!("{element:x}")).collect();
                format!("={}", words.join(" "))
            }
            Answer::Failed(reason) => format!("!{}", reason.replace('\n', " ")),
        }
    }

    fn answer(line: &str) -> Option<Answer> {
        let rest = line.get(1..)?;
        match line.chars().next()? {
            '#' => u32::from_str_radix(rest, 16).ok().map(Answer::Hash),
            '=' => {
                let elements = rest.split_whitespace().map(|word| u64::from_str_radix(word, 16));
                elements.collect::<Result<_, _>>().ok().map(Answer::Elements)
            }
            '!' => Some(Answer::Failed(rest.to_owned())),
            _ => None,
        }
    }

    /// The lines of a kernel.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let Self { family, seed, fingerprint, answers } = self;
        let head = format!("{family} {seed} {fingerprint:016x} {}", answers.len());
        std::iter::once(head).chain(answers.iter().map(Self::line))
    }

    /// Reads [`lines`](Self::lines), if there are any.
    ///
    /// # Errors
    ///
    /// The line that makes no sense, or `None` if one is missing.
    pub fn read(lines: &mut impl Iterator<Item = String>) -> Result<Option<Self>, Option<String>> {
        let Some(head) = lines.next() else { return Ok(None) };
        let (mut recorded, count) = Self::head(&head).ok_or(Some(head))?;
        for _ in 0..count {
            let line = lines.next().ok_or(None)?;
            recorded.answers.push(Self::answer(&line).ok_or(Some(line))?);
        }
        Ok(Some(recorded))
    }

    fn head(line: &str) -> Option<(Self, usize)> {
        let [family, seed, fingerprint, count] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let recorded = Self {
            family: family.parse().ok()?,
            seed: seed.parse().ok()?,
            fingerprint: u64::from_str_radix(fingerprint, 16).ok()?,
            answers: Vec::new(),
        };
        Some((recorded, count.parse().ok()?))
    }
}

/// What one device computed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// What was recorded, and when.
    pub header: Header,
    /// The kernels in the order of families and seeds.
    pub kernels: Vec<Recorded>,
}

impl Recording {
    /// Writes the recording.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        let mut file = BufWriter::new(GzEncoder::new(to, Compression::best()));
        let Header { device, driver, date } = &self.header;
        writeln!(file, "{FORMAT}\ndevice {device}\ndriver {driver}\ndate {date}")?;
        for line in self.kernels.iter().flat_map(Recorded::lines) {
            writeln!(file, "{line}")?;
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    ///
    /// One sentence that says what is wrong with the file.
    pub fn read(from: impl Read) -> Result<Self, String> {
        let mut lines = Lines::new(from);
        lines.format(FORMAT)?;
        let header = Header {
            device: lines.labelled("device ")?,
            driver: lines.labelled("driver ")?,
            date: lines.labelled("date ")?,
        };
        let (mut kernels, mut unread) = (Vec::new(), None);
        let end = loop {
            let mut text = std::iter::from_fn(|| {
                lines.try_next().unwrap_or_else(|error| {
                    unread = Some(error);
                    None
                })
            });
            match Recorded::read(&mut text) {
                Ok(Some(recorded)) => kernels.push(recorded),
                Ok(None) => break Ok(Self { header, kernels }),
                Err(Some(line)) => break Err(lines.wrong(&line)),
                Err(None) => break Err("it ends within a kernel: record anew".to_owned()),
            }
        };
        // What could not be read looks like the end.
        unread.map_or(end, Err)
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Header, Recorded, Recording};
    use crate::ptx::Family;

    #[test]
    fn a_recording_is_read_as_it_was_written() {
        let answers = vec![Answer::Hash(0x12), Answer::Elements(vec![1, u64::MAX]), Answer::Failed("no".to_owned())];
        let header = Header { device: "A B".to_owned(), driver: "1".to_owned(), date: "2".to_owned() };
        let kernels = vec![
            Recorded { family: Family::Sweep, seed: 3, fingerprint: 7, answers },
            Recorded { family: Family::Random, seed: 4, fingerprint: 8, answers: vec![] },
        ];
        let recording = Recording { header, kernels };
        let mut file = Vec::new();
        recording.write(&mut file).unwrap();
        assert_eq!(Recording::read(&*file), Ok(recording));
        assert!(Recording::read(&file[..file.len() / 2]).is_err());
    }
}
