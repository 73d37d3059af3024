//! Runs subjects on a device.

use super::subject::{Argument, HEAD, Subject, Text};
use anabranch::{ArgumentList, Context, Device, Error, LaunchConfig, Module, Stream};

/// What a device computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Played {
    /// The elements of each output, or why there is none.
    pub outputs: Vec<Result<Vec<u64>, String>>,
    /// Whether the device cannot be used any more.
    pub is_lost: bool,
}

/// Runs subjects on a device.
#[derive(Debug)]
pub struct Player {
    context: Context,
    stream: Stream,
}

/// Why a kernel gave nothing.
fn reason(error: &Error) -> String {
    let log = error.log().unwrap_or_default();
    let line = log.lines().find(|line| line.contains("error")).or_else(|| log.lines().next());
    match line {
        Some(line) => format!("{}: {}", error.status(), line.trim()),
        None => error.to_string().replace('\n', " "),
    }
}

impl Player {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// If the device cannot be opened.
    pub fn new(device: &Device) -> anabranch::Result<Self> {
        Self::of(&device.context()?)
    }

    /// A player in a context.
    pub(crate) fn of(context: &Context) -> anabranch::Result<Self> {
        Ok(Self { context: context.clone(), stream: context.create_stream()? })
    }

    /// Runs subjects, whose parts are of one module, and hands over what came of each until the device is lost. Where that
    /// module cannot be loaded, each is one of its own.
    pub fn play<'a>(&self, subjects: &'a [Subject], mut take: impl FnMut(&'a Subject, Played)) {
        let parts = subjects.iter().filter_map(|subject| match &subject.text {
            Text::Part(part) => Some(part.as_str()),
            Text::Module(_) => None,
        });
        let text: String = std::iter::once(HEAD).chain(parts).collect();
        let shared = if text == HEAD { None } else { Module::load_ptx(&self.context, &text).ok() };
        for subject in subjects {
            let played = self.play_one(subject, shared.as_ref());
            let is_lost = played.is_lost;
            take(subject, played);
            if is_lost {
                break;
            }
        }
    }

    /// Runs a subject. Where it is refused, each instruction is run alone, so that only what is refused has no result.
    fn play_one(&self, subject: &Subject, shared: Option<&Module>) -> Played {
        let error = match self.run(subject, shared) {
            Ok(outputs) => return Played { outputs: outputs.into_iter().map(Ok).collect(), is_lost: false },
            Err(error) => error,
        };
        if error.is_sticky() {
            let outputs = subject.outputs.iter().map(|_| Err(reason(&error))).collect();
            return Played { outputs, is_lost: true };
        }
        let mut outputs = Vec::new();
        for index in 0..subject.outputs.len() {
            outputs.push(match subject.only(index).map(|only| self.run(&only, None)) {
                None => Err(reason(&error)),
                Some(Ok(mut outputs)) => outputs.pop().ok_or_else(|| reason(&error)),
                Some(Err(error)) => {
                    if error.is_sticky() {
                        return Played { outputs, is_lost: true };
                    }
                    Err(reason(&error))
                }
            });
        }
        Played { outputs, is_lost: false }
    }

    /// Runs a kernel once, and reads what it has written.
    fn run(&self, subject: &Subject, shared: Option<&Module>) -> anabranch::Result<Vec<Vec<u64>>> {
        let own;
        let module = match (&subject.text, shared) {
            (Text::Part(_), Some(module)) => module,
            _ => {
                own = Module::load_ptx(&self.context, &subject.module())?;
                &own
            }
        };
        let kernel = module.kernel(&subject.entry)?;
        let mut buffers = Vec::new();
        for argument in &subject.arguments {
            buffers.push(match argument {
                Argument::Memory(bytes) => Some(self.stream.upload(bytes)?),
                Argument::Value(_) => None,
            });
        }
        let mut arguments = ArgumentList::new();
        for (argument, buffer) in subject.arguments.iter().zip(&mut buffers) {
            match (argument, buffer) {
                (_, Some(buffer)) => arguments.push(buffer),
                (Argument::Value(bytes) | Argument::Memory(bytes), None) => arguments.push_bytes(bytes),
            }
        }
        let config = LaunchConfig::new(subject.grid, subject.block).dynamic_shared_bytes(subject.shared);
        // SAFETY: the subject was made with the arguments that its kernel declares, and the kernel uses nothing outside of the
        // memory that it is given.
        unsafe { self.stream.launch(&kernel, &config, &arguments)? };
        drop(arguments);
        let mut contents = Vec::new();
        for buffer in &buffers {
            contents.push(buffer.as_ref().map(|buffer| self.stream.download(buffer)).transpose()?.unwrap_or_default());
        }
        let read = |output: &super::Output| {
            let bytes = contents.get(output.argument).and_then(|bytes| bytes.get(output.range.clone()));
            output.element.read(bytes.unwrap_or_default())
        };
        Ok(subject.outputs.iter().map(read).collect())
    }
}
