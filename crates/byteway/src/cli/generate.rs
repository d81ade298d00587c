//! `byteway completions` and `byteway man`: files for shells and for `man`, from the same definitions as `--help`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use byteway_results::output::{Unfinished, print};
use byteway_text::error::InputError;
use clap::builder::Resettable;
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
pub(super) fn man(arguments: &Man, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    // Names, usage and version of subcommands are known once it is built.
    command.build();
    match &arguments.dir {
        None => print(page(&command)?)?,
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| {
                let what = format!("cannot create `{}`: {error}", folder.display());
                InputError::new(what, "choose another folder with --dir")
            })?;
            write_all(folder, &command)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The name under which `man` finds the page of a command: `byteway-kv-bench`.
fn page_name(command: &clap::Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).replace(' ', "-")
}

/// The page of a command, in roff.
fn page(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let examples = command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string);
    let name = page_name(command);
    let command = command.clone().display_name(name);
    let command = command.after_help(Resettable::Reset).after_long_help(Resettable::Reset);
    let source = format!("byteway {}", env!("CARGO_PKG_VERSION"));
    let mut text = Vec::new();
    clap_mangen::Man::new(command).source(source).manual("Byteway").render(&mut text)?;
    if let Some(examples) = examples {
        // Not filled, which would join and hyphenate commands.
        writeln!(text, ".SH EXAMPLES\n.nf")?;
        for line in examples.lines() {
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            let guard = if line.starts_with(['.', '\'']) { "\\&" } else { "" };
            writeln!(text, "{guard}{line}")?;
        }
        writeln!(text, ".fi")?;
    }
    Ok(text)
}

fn write_all(folder: &Path, command: &clap::Command) -> anyhow::Result<()> {
    let mut file = Unfinished::at(&folder.join(format!("{}.1", page_name(command))))?;
    file.write_all(&page(command)?)?;
    file.finish()?;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_all(folder, inner)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // A page of another program's name, or with commands that can't be copied from it, is of no use.
    #[test]
    fn pages_name_the_whole_command_and_keep_its_examples() {
        fn each(command: &clap::Command) {
            let text = String::from_utf8(page(command).unwrap()).unwrap();
            let name = command.get_bin_name().unwrap_or(command.get_name());
            let escaped = name.replace('-', "\\-");
            assert!(text.contains(&format!(".SH SYNOPSIS\n\\fB{escaped}\\fR")), "{text}");
            assert!(text.contains(&format!("\"byteway {}\"", env!("CARGO_PKG_VERSION"))), "{text}");
            if let Some(examples) = command.get_after_help() {
                let first =
                    examples.to_string().lines().last().unwrap().replace('\\', "\\e").replace('-', "\\-");
                assert!(
                    text.contains(".nf") && text.lines().any(|line| line == first),
                    "{name}: {first}\n{text}"
                );
            }
            command.get_subcommands().filter(|inner| !inner.is_hide_set()).for_each(each);
        }
        let mut command = super::super::command();
        command.build();
        each(&command);
        assert_eq!(
            page_name(command.find_subcommand("kv").unwrap().find_subcommand("bench").unwrap()),
            "byteway-kv-bench"
        );
    }
}
