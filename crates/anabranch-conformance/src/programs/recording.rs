//! The answers of a device, in a file.
//!
//! The file is text, compressed with gzip. After the header comes each program: a line with its family, seed, fingerprint
//! and the number of its answers, and a line for each answer. A line `*N` is N answers of success without a detail.

use super::answer::{Answer, Outcome};
use super::{Family, Program};
use crate::recording_lines::Lines;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, BufWriter, Read, Write};

/// The first line. Its number changes with the format.
const FORMAT: &str = "anabranch programs 1";

/// What was recorded, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The product's name of the device.
    pub device: String,
    /// The version of the driver's interface.
    pub driver: String,
    /// The date, such as 2026-11-22.
    pub date: String,
}

/// The answers to one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The family of the program.
    pub family: Family,
    /// The seed of the program.
    pub seed: u64,
    /// The fingerprint of the calls that were made.
    pub fingerprint: u64,
    /// The answers. The last one is that to the end of the program, or the one that the device did not survive.
    pub answers: Vec<Answer>,
}

/// The answers of one device to many programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recording {
    /// What was recorded, and when.
    pub header: Header,
    /// The programs in the order of families and seeds.
    pub programs: Vec<Recorded>,
}

impl Recorded {
    /// The answers to a program.
    pub fn new(program: &Program, answers: Vec<Answer>) -> Self {
        let (family, seed, fingerprint) = (program.family(), program.seed(), program.fingerprint());
        Self { family, seed, fingerprint, answers }
    }

    /// The program that was recorded.
    ///
    /// # Errors
    ///
    /// One sentence with the remedy, if the program of this family and seed is another one by now.
    pub fn program(&self) -> Result<Program, String> {
        let program = Program::new(self.family, self.seed);
        if program.fingerprint() == self.fingerprint {
            return Ok(program);
        }
        Err(format!(
            "the program {} {} is not the one that was recorded, because the generator has changed since; record anew \
             with `ci/gpu-run.sh FOLDER fuzz` on a machine with a GPU",
            self.family, self.seed
        ))
    }
}

impl Recording {
    /// Writes the recording.
    ///
    /// # Errors
    ///
    /// Those of `to`.
    pub fn write(&self, to: impl Write) -> io::Result<()> {
        let mut file = BufWriter::new(GzEncoder::new(to, Compression::default()));
        let Header { device, driver, date } = &self.header;
        writeln!(file, "{FORMAT}\ndevice {device}\ndriver {driver}\ndate {date}")?;
        for recorded in &self.programs {
            let Recorded { family, seed, fingerprint, answers } = recorded;
            writeln!(file, "{family} {seed} {fingerprint:016x} {}", answers.len())?;
            let mut plain = 0;
            for answer in answers {
                let line = answer.to_line();
                if line.is_empty() {
                    plain += 1;
                    continue;
                }
                skip(&mut file, &mut plain)?;
                writeln!(file, "{line}")?;
            }
            skip(&mut file, &mut plain)?;
        }
        file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    ///
    /// One sentence that says what is wrong with the file, and where.
    pub fn read(from: impl Read) -> Result<Self, String> {
        let mut lines = Lines::new(from);
        lines.format(FORMAT)?;
        let header = Header {
            device: lines.labelled("device ")?,
            driver: lines.labelled("driver ")?,
            date: lines.labelled("date ")?,
        };
        let mut programs = Vec::new();
        while let Some(line) = lines.try_next()? {
            let (mut recorded, count) = parse(&line).ok_or_else(|| lines.wrong(&line))?;
            lines.expect_answers(count)?;
            while recorded.answers.len() < count {
                let line = lines.next()?;
                match line.strip_prefix('*').map(str::parse::<usize>) {
                    Some(Ok(plain)) if plain <= count - recorded.answers.len() => {
                        recorded.answers.extend((0..plain).map(|_| Answer::new(Outcome::Status(0))));
                    }
                    None => recorded.answers.push(Answer::from_line(&line).ok_or_else(|| lines.wrong(&line))?),
                    Some(_) => return Err(lines.wrong(&line)),
                }
            }
            programs.push(recorded);
        }
        Ok(Self { header, programs })
    }
}

/// Writes how many answers had no line.
fn skip(file: &mut impl Write, plain: &mut usize) -> io::Result<()> {
    match std::mem::take(plain) {
        0 => Ok(()),
        count => writeln!(file, "*{count}"),
    }
}

/// The line that a program starts with, and the number of its answers.
fn parse(line: &str) -> Option<(Recorded, usize)> {
    let [family, seed, fingerprint, count] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
    let recorded = Recorded {
        family: family.parse().ok()?,
        seed: seed.parse().ok()?,
        fingerprint: u64::from_str_radix(fingerprint, 16).ok()?,
        answers: Vec::new(),
    };
    Some((recorded, count.parse().ok()?))
}
