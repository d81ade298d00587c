//! The device file: a drive to be served to a real host, and how.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;
use toml::de::DeValue;

use super::drive::{DrivePlan, overrides, placed};
use super::file::{DriveSection, Precondition, Store, one_u64, yes};
use super::hosted;
use super::plan::Options;
use crate::profile::{Fault, fault};
use crate::source::{Index, Sources, Texts, Tree};
use byteway_console::error::InputError;
use byteway_console::units::{Picos, excerpt};

/// A device file as it is written.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceFile {
    /// What the drive is called: 1 to 32 letters, digits, `-`, `_` and `.`; left out, the name of the file.
    #[serde(default)]
    pub name: Option<String>,
    /// Everything random in the drive follows from it, and its serial number, together with the name.
    #[serde(default = "one_u64")]
    pub seed: u64,
    /// The drive, as in a scenario; left out, `store` is "ram", or with `--data DIR` "file", and `precondition` "empty".
    pub drive: DriveSection,
    /// How it is served.
    #[serde(default)]
    pub serve: ServeSection,
}

/// `[serve]`
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServeSection {
    /// What modelled latencies mean in real time.
    #[serde(default)]
    pub timing: Timing,
    /// How the host's doorbells come here.
    #[serde(default)]
    pub doorbells: Doorbells,
    /// Whether the drive offers Doorbell Buffer Config: a host that uses it rings far less often.
    #[serde(default = "yes")]
    pub shadow_doorbells: bool,
    /// How long to rest between two looks at mapped doorbells while nothing happens, 10 us to 1 s: a first doorbell waits
    /// up to that long, and every look costs processor time.
    #[serde(default = "rest")]
    pub rest: Picos,
}

/// That of the crate `serve`, which tests hold against this one.
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

/// What modelled latencies mean in real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// They take as long as modelled; what this machine cannot keep up with is counted and reported.
    #[default]
    Model,
    /// They take no time: as fast as this machine can.
    None,
}

/// How the host's doorbells come here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Doorbells {
    /// The host stores to a shared page, which is looked at again and again: fast, and busy while the host is.
    #[default]
    Mapped,
    /// Each is a message on the socket: slower, and asleep while nothing comes.
    Trapped,
}

/// A drive that can be served: everything looked up, laid on, checked.
#[derive(Clone, Debug)]
pub struct Device {
    /// What it is called.
    pub name: String,
    /// Everything random in it follows from it.
    pub seed: u64,
    /// The drive.
    pub drive: DrivePlan,
    /// How it is served.
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

    /// The same for a text that stands for the file `folder`/`name`.
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
        for flag in &options.sets {
            sources.set(&mut tree, flag)?;
        }
        check_one(&sources, &tree)?;
        let over = overrides(&tree, "drive");
        let (mut file, index): (DeviceFile, Index) = sources.decode(tree, "device file")?;
        // A real host's data is rarely a test pattern, and nothing of it is there before the host comes.
        if !index.has("drive.store") {
            file.drive.store = if options.in_files { Store::File } else { Store::Ram };
        }
        if !index.has("drive.precondition") {
            file.drive.precondition = Precondition::Empty;
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

/// Each drive that is served has a file of its own.
fn check_one<'t>(sources: &Sources<'t>, tree: &Spanned<Tree<'t>>) -> Result<(), InputError> {
    match tree.get_ref().get("drive") {
        Some(drives) if matches!(drives.get_ref(), DeValue::Array(_)) => {
            let what =
                "`[[drive]]`: a device file has one drive; several are of scenarios, for `byteway run`";
            let cure =
                "write `[drive]`, and a file for each drive: `byteway serve a.toml b.toml --vfio-user DIR`";
            Err(InputError::new(what, cure).at(sources.place(&drives.span())))
        }
        _ => Ok(()),
    }
}

/// What a scenario tells its drives apart by.
fn check_not_named(section: &DriveSection) -> Result<(), Fault> {
    let keys = [("name", section.name.is_some()), ("copies", section.copies.is_some())];
    let Some((key, _)) = keys.iter().find(|(_, is_given)| *is_given) else { return Ok(()) };
    let what = format!("`drive.{key}`: a device file has one drive, which has the file's name");
    let cure = "leave it out; `name = \"...\"` above [drive] is what a served drive is called";
    Err(fault(format!("drive.{key}"), what, cure))
}

/// A drive in files needs to be told where they are.
fn check_files(drive: &DrivePlan, has_directory: bool) -> Result<(), Fault> {
    if drive.store != Store::File || has_directory {
        return Ok(());
    }
    let what = "`drive.store` = \"file\": nothing says in which directory";
    Err(fault("drive.store", what, "add --data DIR to the command"))
}

/// The buffer of shadow doorbells is one page, in which those of all queues must lie.
fn check_shadow(serve: &ServeSection, drive: &DrivePlan) -> Result<(), Fault> {
    let controller = &drive.profile.controller;
    let queues_max = (512u32 >> controller.dstrd.min(9)).saturating_sub(1);
    if !serve.shadow_doorbells || u32::from(controller.max_io_queues) <= queues_max {
        return Ok(());
    }
    let queues = controller.max_io_queues;
    let what = format!("`serve.shadow_doorbells`: those of {queues} queues do not fit into a page");
    let cure = format!(
        "set it to false, or `controller.max_io_queues` in [drive.override] to at most {}",
        queues_max.max(1)
    );
    Err(fault("serve.shadow_doorbells", what, cure))
}

/// A shorter rest is none, and after a longer one hosts would have given up.
fn check_rest(rest: Picos) -> Result<(), Fault> {
    if (10_000_000..=1_000_000_000_000).contains(&rest.0) {
        return Ok(());
    }
    let what = format!("`serve.rest` is {rest}, and can be 10 us to 1 s");
    Err(fault("serve.rest", what, "leave it out for 200 us"))
}

/// The name becomes that of a folder.
fn check_name(name: &str) -> Result<(), Fault> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.starts_with('.') && (1..=NAME_CHARS_MAX).contains(&name.len()) && name.chars().all(fits) {
        return Ok(());
    }
    let what = format!("`{}` cannot be the name of a served drive", excerpt(name));
    let cure = format!(
        "write `name = \"...\"` with 1 to {NAME_CHARS_MAX} letters, digits, `-`, `_` or `.`, the first no `.`"
    );
    Err(fault("name", what, cure))
}
