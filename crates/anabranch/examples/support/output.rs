//! The beginning and the end of an example: it reads its command line, ends quietly where nobody reads its output any
//! more, and fails with one sentence where something went wrong, such as that the output cannot be written.

use clap::{Command, FromArgMatches};
use std::error::Error;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// The output cannot be written.
#[derive(Debug)]
pub(crate) struct OutputError(io::Error);

impl Display for OutputError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the output cannot be written: {}", self.0)
    }
}

impl Error for OutputError {}

/// Prints a line. `println!` would panic where it cannot.
pub(crate) fn line(text: impl Display) -> Result<(), OutputError> {
    writeln!(io::stdout(), "{text}").map_err(OutputError)
}

/// Calls `body` with the command line.
pub(crate) fn run<A: FromArgMatches>(
    command: Command,
    body: impl FnOnce(&A) -> Result<(), Box<dyn Error>>,
) -> ExitCode {
    let arguments = command.try_get_matches().and_then(|matches| A::from_arg_matches(&matches));
    let result = match arguments {
        Ok(arguments) => body(&arguments),
        // A mistake: where standard error is closed, the exit status has to do.
        Err(message) if message.use_stderr() => {
            let _ = message.print();
            return ExitCode::from(2);
        }
        // The help.
        Err(message) => message.print().and_then(|()| io::stdout().flush()).map_err(|error| OutputError(error).into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether nobody reads the output any more.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<OutputError>().is_some_and(|OutputError(error)| error.kind() == ErrorKind::BrokenPipe)
}
