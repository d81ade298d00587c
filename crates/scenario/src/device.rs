//! The device file: a drive to be served to a real host, and how.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;

use super::drive::{DrivePlan, overrides, placed};
use super::file::{DriveSection, Store, one_u64, yes};
use super::hosted;
use super::plan::Options;
use crate::profile::{KeyError, fault};
use crate::source::{Index, Sources, Texts, Tree};
use byteway_firmware::Base;
use byteway_text::error::InputError;
use byteway_text::units::{Picos, excerpt};

/// The contents of a device file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    /// Name of the drive: 1 to 32 letters, digits, `-`, `_` and `.`. Default: the name of the file.
    #[serde(default)]
    pub name: Option<String>,
    /// Seed of all randomness in the drive, and, together with the name, of its serial number.
    #[serde(default = "one_u64")]
    pub seed: u64,
    /// The drive, as in a scenario. Default: `store` is "ram", or with `--data DIR` "file"; `precondition` is
    /// "empty".
    pub drive: DriveSection,
    /// How the drive is served.
    #[serde(default)]
    pub serve: ServeSection,
}

/// `[serve]`
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeSection {
    /// How modelled latencies relate to real time.
    #[serde(default)]
    pub timing: Timing,
    /// How doorbell writes of the host arrive.
    #[serde(default)]
    pub doorbells: Doorbells,
    /// Whether the drive supports Doorbell Buffer Config, which lets a host write doorbells far less often.
    #[serde(default = "yes")]
    pub shadow_doorbells: bool,
    /// Interval between two polls of mapped doorbells while idle, 10 us to 1 s: the longest wait of a first
    /// doorbell write, against the CPU time of polling.
    #[serde(default = "rest")]
    pub rest: Picos,
}

/// The default of the crate `serve`; a test keeps them equal.
fn rest() -> Picos {
    Picos(200_000_000)
}

impl Default for ServeSection {
    fn default() -> Self {
        ServeSection {
            timing: Timing::default(),
            doorbells: Doorbells::default(),
            shadow_doorbells: true,
            rest: rest(),
        }
    }
}

/// How modelled latencies relate to real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// Operations take as long as modelled; delays of this machine beyond that are counted and reported.
    #[default]
    Model,
    /// Operations take no modelled time: as fast as this machine can.
    None,
}

/// How doorbell writes of the host arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Doorbells {
    /// The host stores to a shared page, which is polled: fast, with a busy CPU while the host is active.
    #[default]
    Mapped,
    /// Each is a message on the socket: slower, with an idle CPU while the host is idle.
    Trapped,
}

/// A drive that can be served: resolved and validated.
#[derive(Clone, Debug)]
pub struct Device {
    /// Name of the drive.
    pub name: String,
    /// Seed of all its randomness.
    pub seed: u64,
    /// The drive.
    pub drive: DrivePlan,
    /// How the drive is served.
    pub serve: ServeSection,
}

/// Longer names would not fit into the path of a socket.
const NAME_CHARS_MAX: usize = 32;

impl Device {
    /// Reads, resolves and checks a device file.
    pub fn load(path: &Path, options: &Options) -> Result<Device, InputError> {
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let tree = sources.parse_file(path, "device file")?;
        let stem = path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        Device::resolve(sources, tree, &stem, options)
    }

    /// Like [`Device::load`], for a text in place of the file `folder`/`name`.
    pub fn from_text(name: &str, folder: &Path, text: &str, options: &Options) -> Result<Device, InputError> {
        let texts = Texts::default();
        let mut sources = Sources::new(&texts);
        let tree = sources.parse_text(name, folder, text)?;
        Device::resolve(sources, tree, name.trim_end_matches(".toml"), options)
    }

    fn resolve<'t>(
        mut sources: Sources<'t>,
        mut tree: Spanned<Tree<'t>>,
        stem: &str,
        options: &Options,
    ) -> Result<Device, InputError> {
        (sources.policies, sources.is_served) = (options.policies.clone(), true);
        for flag in &options.sets {
            sources.set(&mut tree, flag)?;
        }
        check_one(&sources, &tree)?;
        let over = overrides(&tree, "drive");
        let (mut file, index): (DeviceFile, Index) = sources.decode(tree, "device file")?;
        // A real host's data is rarely a test pattern, and none exists before the host writes it.
        if !index.has("drive.store") {
            file.drive.store = if options.in_files { Store::File } else { Store::Ram };
        }
        if !index.has("drive.precondition") {
            file.drive.precondition = Base::Empty;
        }
        let drive = DrivePlan::load(&mut sources, &file.drive, ("drive", &index), over)?;
        let name = file.name.unwrap_or_else(|| stem.to_owned());
        let checked = check_name(&name).and_then(|()| check_shadow(&file.serve, &drive));
        let checked = checked.and_then(|()| check_not_named(&file.drive));
        let checked = checked.and_then(|()| check_rest(file.serve.rest));
        let checked = checked.and_then(|()| check_files(&drive, options.in_files));
        let checked = checked.and_then(|()| hosted::check_served(&drive));
        checked.map_err(|fault| placed(&sources, &index, fault))?;
        Ok(Device { name, seed: file.seed, drive, serve: file.serve })
    }
}

/// A device file describes one drive.
fn check_one<'t>(sources: &Sources<'t>, tree: &Spanned<Tree<'t>>) -> Result<(), InputError> {
    match tree.get_ref().get("drive") {
        Some(drives) if matches!(drives.get_ref(), DeValue::Array(_)) => {
            let what =
                "`[[drive]]`: a device file has one drive; several are of scenarios, for `byteway run`";
            let help =
                "write `[drive]`, and a file for each drive: `byteway serve a.toml b.toml --vfio-user DIR`";
            Err(InputError::new(what, help).at(sources.place(&drives.span())))
        }
        _ => Ok(()),
    }
}

/// Refuses keys that distinguish several drives of a scenario.
fn check_not_named(section: &DriveSection) -> Result<(), KeyError> {
    if !section.table.is_empty() {
        let what = "`drive.table`: a drive that is served gets its tables from its host";
        return Err(fault("drive.table.0", what, "leave it out; `byteway csd load` brings rows"));
    }
    let keys = [("name", section.name.is_some()), ("copies", section.copies.is_some())];
    let Some((key, _)) = keys.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let what = format!("`drive.{key}`: a device file has one drive, which has the file's name");
    let help = "leave it out; `name = \"...\"` above [drive] is what a served drive is called";
    Err(fault(format!("drive.{key}"), what, help))
}

/// A drive in files requires a directory.
fn check_files(drive: &DrivePlan, has_directory: bool) -> Result<(), KeyError> {
    if drive.store != Store::File || has_directory {
        return Ok(());
    }
    let what = "`drive.store` = \"file\": no directory is given";
    Err(fault("drive.store", what, "add --data DIR to the command"))
}

/// The shadow doorbell buffer is one page, which has to contain those of all queues.
fn check_shadow(serve: &ServeSection, drive: &DrivePlan) -> Result<(), KeyError> {
    let controller = &drive.profile.controller;
    let queues_max = (512u32 >> controller.dstrd.min(9)).saturating_sub(1);
    if !serve.shadow_doorbells || u32::from(controller.max_io_queues) <= queues_max {
        return Ok(());
    }
    let queues = controller.max_io_queues;
    let what =
        format!("`serve.shadow_doorbells`: the shadow doorbells of {queues} queues do not fit in a page");
    let help = format!(
        "set it to false, or `controller.max_io_queues` in [drive.override] to at most {}",
        queues_max.max(1)
    );
    Err(fault("serve.shadow_doorbells", what, help))
}

/// The bounds: a shorter interval is no rest, and with a longer one hosts would time out.
fn check_rest(rest: Picos) -> Result<(), KeyError> {
    if (10_000_000..=1_000_000_000_000).contains(&rest.0) {
        return Ok(());
    }
    let what = format!("`serve.rest` = {rest} is out of range: 10 us to 1 s");
    Err(fault("serve.rest", what, "leave it out for 200 us"))
}

/// The name is used as the name of a directory.
fn check_name(name: &str) -> Result<(), KeyError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.starts_with('.') && (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    let what = format!("`{}` cannot be the name of a served drive", excerpt(name));
    let help = format!(
        "write `name = \"...\"` with 1 to {NAME_CHARS_MAX} letters, digits, `-`, `_` or `.`, not beginning with `.`"
    );
    Err(fault("name", what, help))
}
