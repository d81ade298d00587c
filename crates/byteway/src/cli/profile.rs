//! `byteway profile`: lists and shows built-in profiles.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;

use super::flags::{OutputFormat, Tables};
use byteway_explore::validate::recorded;
use byteway_results::output::print;
use byteway_scenario::profile::{Completion, HostProfile, NetworkProfile, Profile, Transport};
use byteway_scenario::profile::{all_texts, drive_entries, host_entries, network_entries, text_of};
use byteway_text::error::{InputError, suggest};
use byteway_text::table::{Column, Printout, TextTable, Width, wrapped};
use byteway_text::units::{Picos, excerpt};

pub(super) const EXAMPLES: &str = "\
Examples:
  byteway profile list                                  list the profiles
  byteway profile show samsung-970-pro                  show every constant with its source
  byteway profile show p4500 > mine.toml                copy a profile to edit it: drive.profile = \"mine.toml\"
  byteway profile show p4500 --format json | jq .flash  print JSON for scripts

To change a single constant, set it in the scenario, or on the command line:
  byteway run s.toml --set drive.profile=p4500 --set drive.override.flash.channels=8";

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the profiles of drives, hosts and networks.
    List {
        /// Output format.
        #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
        format: OutputFormat,
        #[command(flatten)]
        tables: Tables,
    },
    /// Show a profile: a TOML file, each constant followed by its source.
    Show {
        /// Name, as listed by `byteway profile list`.
        name: String,
        /// Output format: the text of the file, or its values.
        #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
        format: OutputFormat,
    },
}

/// Lists or shows profiles.
pub(super) fn execute(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Action::List { format: OutputFormat::Table, tables } => {
            print(listed(tables.width()))?;
        }
        Action::List { format: OutputFormat::Json, .. } => {
            let (drives, hosts, networks) = (drive_entries(), host_entries(), network_entries());
            print(format!("{:#}\n", json!({ "drives": drives, "hosts": hosts, "networks": networks })))?;
        }
        Action::Show { name, format } => print(shown(name, *format)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn shown(name: &str, format: OutputFormat) -> Result<String, InputError> {
    let Some(text) = text_of(name) else {
        let names: Vec<&str> = all_texts().map(|(name, _)| *name).collect();
        let what = format!("no such built-in profile: `{}`", excerpt(name));
        return Err(InputError::new(what, suggest(name, &names)));
    };
    Ok(match format {
        OutputFormat::Table => text.to_owned(),
        OutputFormat::Json => match (Profile::built_in(name), HostProfile::built_in(name)) {
            (Some(profile), _) => format!("{:#}\n", json!(profile)),
            (None, Some(profile)) => format!("{:#}\n", json!(profile)),
            (None, None) => format!("{:#}\n", json!(NetworkProfile::built_in(name))),
        },
    })
}

fn listed(width: Width) -> String {
    let mut out = Printout::new(width);
    let _ = writeln!(out, "Drives");
    out.table(&drive_table());
    out.section("Hosts", &host_table());
    out.section("Networks", &network_table());
    wrapped(&out.finish(), width)
}

/// What is said of a profile that stands for no drive, or for one of which no measurements are public.
const UNHELD: &str = "nothing is published to hold it against";

fn drive_table() -> TextTable {
    let mut table = TextTable::new([
        Column::text("name"),
        Column::text("what").rank(4),
        Column::text("link"),
        Column::count("capacity"),
        Column::text("dies").rank(1),
        Column::count("page").rank(3),
        Column::text("read"),
        Column::text("program").rank(2),
        Column::text("error against the real drive").rank(5),
    ]);
    for entry in drive_entries() {
        let cells = [
            entry.name.to_owned(),
            entry.about.to_owned(),
            format!("Gen{} x{}", entry.generation, entry.lanes),
            entry.capacity.to_string(),
            format!("{} on {} channels", entry.dies, entry.channels),
            entry.page.to_string(),
            times(&entry.read),
            times(&entry.program),
            recorded(entry.name).map_or(UNHELD.to_owned(), |errors| errors.words()),
        ];
        table.row(cells.map(Into::into));
    }
    table
}

fn host_table() -> TextTable {
    let mut table = TextTable::new([
        Column::text("name"),
        Column::text("what").rank(1),
        Column::text("completion"),
        Column::count("submit"),
        Column::count("complete"),
        Column::count("interrupt"),
        Column::count("cores"),
    ]);
    for entry in host_entries() {
        let completion = match entry.completion {
            Completion::Polled => "polled",
            Completion::Interrupt => "interrupt",
        };
        let cells = [
            entry.name.to_owned(),
            entry.about.to_owned(),
            completion.to_owned(),
            entry.submit.to_string(),
            entry.complete.to_string(),
            entry.interrupt.to_string(),
            entry.cores.to_string(),
        ];
        table.row(cells.map(Into::into));
    }
    table
}

fn network_table() -> TextTable {
    let mut table = TextTable::new([
        Column::text("name"),
        Column::text("what").rank(1),
        Column::text("transport"),
        Column::count("rate"),
        Column::count("capsule"),
        Column::count("initiator"),
        Column::count("target"),
        Column::count("block"),
    ]);
    for entry in network_entries() {
        let transport = match entry.transport {
            Transport::Rdma => "rdma",
            Transport::Tcp => "tcp",
        };
        let cells = [
            entry.name.to_owned(),
            entry.about.to_owned(),
            transport.to_owned(),
            entry.rate.to_string(),
            entry.in_capsule.to_string(),
            entry.initiator.to_string(),
            entry.target.to_string(),
            entry.block.to_string(),
        ];
        table.row(cells.map(Into::into));
    }
    table
}

/// Formats the times of page types: a single one if all are equal.
fn times(times: &[Picos]) -> String {
    match times {
        [first, rest @ ..] if rest.iter().all(|time| time == first) => first.to_string(),
        _ => times.iter().map(Picos::to_string).collect::<Vec<_>>().join(" / "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Users start from the shown text: if it differed from the profile, their drive would differ too.
    #[test]
    fn a_profile_is_shown_as_it_is_or_the_nearest_is_named() {
        let text = shown("p4500", OutputFormat::Table).unwrap();
        assert!(text.contains("channels = 12") && text.contains("# derived"));
        let json: serde_json::Value =
            serde_json::from_str(&shown("p4500", OutputFormat::Json).unwrap()).unwrap();
        assert_eq!(json["flash"]["channels"], 12);
        let host: serde_json::Value =
            serde_json::from_str(&shown("cosmos", OutputFormat::Json).unwrap()).unwrap();
        assert_eq!(host["submit"], "60 ns");
        let error = shown("p450", OutputFormat::Table).unwrap_err();
        assert!(error.what.contains("`p450`") && error.help.contains("did you mean `p4500`"), "{error}");
        let list = listed(Width::Narrow);
        for name in ["wd-zn540", "linux-interrupt", "roce-100g"] {
            assert!(list.contains(name), "{list}");
        }
        let network: serde_json::Value =
            serde_json::from_str(&shown("tcp-100g", OutputFormat::Json).unwrap()).unwrap();
        assert_eq!((&network["transport"], &network["block"]["tags"]), (&"tcp".into(), &1023.into()));
    }

    // Repeating equal times adds no information and makes the table too wide.
    #[test]
    fn equal_times_are_shown_once() {
        assert_eq!(times(&[Picos(1_000_000), Picos(1_000_000)]), "1 us");
        assert_eq!(times(&[Picos(1_000), Picos(1_000_000)]), "1 ns / 1 us");
    }
}
