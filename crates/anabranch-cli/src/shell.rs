//! `anabranch completions` and `anabranch man`: what a shell and a reader of manuals get.

use crate::arguments::{Arguments, CompletionsOptions, ManOptions};
use crate::output::{self, Failure};
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use std::process::ExitCode;

/// The name of the command in both.
const NAME: &str = "anabranch";

pub(crate) fn completions(options: &CompletionsOptions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    let mut command = Arguments::command().mut_subcommands(without_hidden_options);
    clap_complete::generate(options.shell, &mut command, NAME, &mut script);
    output::bytes(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// The same command for a reader: shells offer hidden options too.
fn without_hidden_options(command: Command) -> Command {
    let shown = command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned();
    Command::new(command.get_name().to_owned()).about(command.get_about().cloned().unwrap_or_default()).args(shown)
}

pub(crate) fn manual(options: &ManOptions) -> Result<ExitCode, Failure> {
    let mut command = Arguments::command();
    command.build();
    if let Some(name) = &options.command {
        let named = command.find_subcommand(name).filter(|command| !command.is_hide_set()).cloned();
        let named =
            named.ok_or_else(|| Failure::Usage(format!("there is no command `{name}`; see `{NAME} --help`")))?;
        // The title of its page, such as `anabranch-devices`, to which the page of the command refers.
        command = named.display_name(format!("{NAME}-{name}"));
    }
    let mut page = Vec::new();
    Man::new(command)
        .source(concat!("anabranch ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .map_err(|error| Failure::Failed(format!("the page cannot be made: {error}")))?;
    output::bytes(&page)?;
    Ok(ExitCode::SUCCESS)
}
