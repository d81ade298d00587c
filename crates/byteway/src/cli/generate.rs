//! `byteway completions` and `byteway man`: files for shells and for `man`, from the same definitions as `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use byteway_console::error::InputError;
use byteway_measure::output::{Unfinished, print};
use clap_complete::Shell;
use std::io::Write;

#[derive(clap::Args)]
pub(super) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(clap::Args)]
pub(super) struct Man {
    /// Write a page for each command to DIR, which is created if necessary, instead of printing the program's page.
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Prints the completion script of a shell.
pub(super) fn completions(arguments: &Completions, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "byteway", &mut script);
    print(script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the program's manual page, or writes those of all commands.
pub(super) fn man(arguments: &Man, command: clap::Command) -> anyhow::Result<ExitCode> {
    match &arguments.dir {
        None => print(page(command, "byteway")?)?,
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| {
                let what = format!("cannot create `{}`: {error}", folder.display());
                InputError::new(what, "choose another folder with --dir")
            })?;
            write_all(folder, &command, "byteway")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of a command, in roff.
fn page(command: clap::Command, name: &str) -> std::io::Result<Vec<u8>> {
    // A page is found by its name; the definition's name is only the last word of it.
    let command = command.display_name(name.to_owned());
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text)?;
    Ok(text)
}

fn write_all(folder: &Path, command: &clap::Command, name: &str) -> anyhow::Result<()> {
    let mut file = Unfinished::at(&folder.join(format!("{name}.1")))?;
    file.write_all(&page(command.clone(), name)?)?;
    file.finish()?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_all(folder, inner, &format!("{name}-{}", inner.get_name()))?;
    }
    Ok(())
}
