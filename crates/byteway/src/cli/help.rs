//! `byteway help`: the help of a command, or a page of the documentation.

use std::process::ExitCode;

use byteway_text::error::{InputError, nearest};

use super::print;

/// Pages of the documentation: topic and text.
macro_rules! pages {
    ($($topic:literal: $path:literal),* $(,)?) => {
        const TOPICS: &[(&str, &str)] = &[$(($topic, include_str!(concat!("../../../../docs/", $path)))),*];
    };
}

pages! {
    "install": "install.md",
    "first-hour": "first-hour.md",
    "comparing": "tasks/compare.md",
    "sweeping": "tasks/sweep.md",
    "replay-a-trace": "tasks/replay-a-trace.md",
    "model-my-drive": "tasks/model-my-drive.md",
    "fit-a-profile": "tasks/fit-a-profile.md",
    "write-a-policy": "tasks/write-a-policy.md",
    "write-a-workload": "tasks/write-a-workload.md",
    "choose-a-transfer-method": "tasks/choose-a-transfer-method.md",
    "write-a-transfer-method": "tasks/write-a-transfer-method.md",
    "attach-a-guest": "tasks/attach-a-guest.md",
    "serve-over-tcp": "tasks/serve-over-tcp.md",
    "watch-a-served-drive": "tasks/watch-a-served-drive.md",
    "key-value-drive": "tasks/key-value-drive.md",
    "queries": "tasks/queries.md",
    "programs": "tasks/programs.md",
    "network": "tasks/network.md",
    "python": "python.md",
    "several-drives": "tasks/several-drives.md",
    "break-it-on-purpose": "tasks/break-it-on-purpose.md",
    "reproduce-a-paper": "tasks/reproduce-a-paper.md",
    "fio-jobs": "fio.md",
    "validation": "models/validation.md",
    "host-model": "models/host.md",
    "link": "models/link.md",
    "firmware": "models/firmware.md",
    "flash": "models/flash.md",
    "key-value": "models/key-value.md",
    "computational": "models/computational.md",
    "fabric": "models/fabric.md",
    "jbof": "models/jbof.md",
    "mqsim": "mqsim.md",
    "scenario": "reference/scenario.md",
    "device": "reference/device.md",
    "drive-profile": "reference/profile.md",
    "host-profile": "reference/host.md",
    "network-profile": "reference/network.md",
    "traces": "traces.md",
    "results": "reference/results.md",
    "errors": "reference/errors.md",
    "performance": "performance.md",
    "peers": "peers.md",
    "limits": "limits.md",
}

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// A command, with its subcommand if any; a topic; or `topics`, which lists them. Default: this program.
    words: Vec<String>,
}

/// The title of a page: its first line without the heading mark.
fn title(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
}

pub(super) fn execute(arguments: &Arguments, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    command.build();
    let text = text(&arguments.words, &command)?;
    print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn text(words: &[String], command: &clap::Command) -> Result<String, InputError> {
    if let [word] = words {
        if word == "topics" {
            let width = TOPICS.iter().map(|(topic, _)| topic.len()).max().unwrap_or(0);
            let line = |(topic, text): &(&str, &str)| format!("{topic:width$}  {}\n", title(text));
            let list: String = TOPICS.iter().map(line).collect();
            return Ok(format!("{list}\nRun `byteway help TOPIC` to show a page.\n"));
        }
        if let Some((_, text)) = TOPICS.iter().find(|(topic, _)| topic == word) {
            return Ok((*text).to_owned());
        }
    }
    let mut of = command;
    for word in words {
        let Some(found) = of.find_subcommand(word) else {
            let commands = of.get_subcommands().map(clap::Command::get_name);
            let topics = TOPICS.iter().map(|(topic, _)| *topic).filter(|_| words.len() == 1);
            let help = match nearest(word, commands.chain(topics)) {
                Some(near) => format!(
                    "did you mean `{near}`? `byteway help topics` lists the topics, `byteway --help` the commands"
                ),
                None => "`byteway help topics` lists the topics, `byteway --help` the commands".to_owned(),
            };
            return Err(InputError::new(format!("no such command or topic: `{word}`"), help));
        };
        of = found;
    }
    Ok(of.clone().render_long_help().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> Result<String, InputError> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let mut command = super::super::command();
        command.build();
        text(&words, &command)
    }

    // A page that the program does not have cannot be read where only the program is.
    #[test]
    fn every_page_is_a_topic() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut pages = Vec::new();
        for folder in ["", "tasks", "models", "reference"] {
            let entries = std::fs::read_dir(docs.join(folder)).unwrap().map(|entry| entry.unwrap().path());
            pages.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
        }
        pages.retain(|path| !path.ends_with("index.md"));
        for path in &pages {
            let page = std::fs::read_to_string(path).unwrap();
            assert!(TOPICS.iter().any(|(_, text)| *text == page), "{} is no topic", path.display());
        }
        assert_eq!(pages.len(), TOPICS.len(), "each page is one topic");
    }

    // A topic named like a command would hide the command's help, and one without a title would be blank in the list.
    #[test]
    fn topics_and_commands_are_told_apart() {
        let command = super::super::command();
        for (topic, text) in TOPICS {
            assert!(command.find_subcommand(topic).is_none(), "{topic} is a command");
            assert!(text.starts_with("# "), "{topic}");
            assert_eq!(shown(&[topic]).unwrap(), *text);
        }
        assert!(shown(&["run"]).unwrap().contains("Usage: byteway run"));
        assert!(shown(&["trace", "inspect"]).unwrap().contains("Usage: byteway trace inspect"));
        assert!(shown(&[]).unwrap().contains("Usage: byteway <COMMAND>"));
        let wrong = shown(&["limit"]).unwrap_err();
        assert!(wrong.help.contains("`limits`"), "{}", wrong.help);
    }
}
