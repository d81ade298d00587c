//! `[transfer]` of a profile: what a drive offers small payloads beyond PRPs and SGLs, and up to where it pays.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Fault, Profile, SECOND, fault, within};
use byteway_console::units::{Bytes, Picos};

/// What a drive offers small payloads. Left out: nothing, a plain NVMe drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Transfer {
    /// The methods, each of which a host enables for the queues that are to use it.
    #[serde(default)]
    pub methods: Vec<Extension>,
    /// The longest payload inline; left out, 8 KiB.
    #[serde(default = "eight_kib")]
    pub inline_max: Bytes,
    /// The longest payload that is put together from chunks; left out, 8 KiB.
    #[serde(default = "eight_kib")]
    pub reassembly_max: Bytes,
    /// The longest payload piggybacked; left out, 8 KiB.
    #[serde(default = "eight_kib")]
    pub piggyback_max: Bytes,
    /// The longest result behind a completion; left out, 1 KiB.
    #[serde(default = "one_kib")]
    pub inline_result_max: Bytes,
    /// Payloads that may be incomplete at once; left out, 64.
    #[serde(default = "sixty_four")]
    pub partial_payloads: u32,
    /// After how long an incomplete payload is given up; left out, 10 ms.
    #[serde(default = "ten_ms")]
    pub partial_timeout: Picos,
    /// The buffer in BAR0 that mmio stores to: a multiple of 4 KiB; left out, 64 KiB.
    #[serde(default = "sixty_four_kib")]
    pub bar: Bytes,
    /// The payload sink, which is memory of the drive without flash behind it; left out, there is none.
    #[serde(default)]
    pub sink: Bytes,
    /// Moving the payload of one queue entry into DRAM, while its command waits.
    #[serde(default)]
    pub chunk_store: Picos,
    /// The payload size from which on each fine-grained method is no longer faster than PRPs: tau of adaptive transfer, below
    /// which payloads go by the method, as `byteway threshold` measures it. 0 B: none is faster.
    #[serde(default)]
    pub threshold: Thresholds,
}

impl Default for Transfer {
    fn default() -> Self {
        Transfer {
            methods: Vec::new(),
            inline_max: eight_kib(),
            reassembly_max: eight_kib(),
            piggyback_max: eight_kib(),
            inline_result_max: one_kib(),
            partial_payloads: sixty_four(),
            partial_timeout: ten_ms(),
            bar: sixty_four_kib(),
            sink: Bytes(0),
            chunk_store: Picos(0),
            threshold: Thresholds::default(),
        }
    }
}

/// Something that a drive may offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Extension {
    /// Payload in the queue entries behind its command.
    Inline,
    /// The same announced in CDW3, behind whole pages by PRP or alone: hybrids, and ByteExpress's own encoding.
    InlineTail,
    /// Payload in chunks, in any order and by any queue.
    InlineReassembly,
    /// Payload in the fields of commands, one after the other.
    Piggyback,
    /// The same, all under way at once.
    PiggybackPipelined,
    /// Payload stored to a buffer of the drive.
    Mmio,
    /// Payload stored to the drive's memory over CXL.mem. A profile with `[cxl]` offers it without naming it.
    CxlMem,
    /// Pairs stored over CXL.mem without a command. A profile with `cxl.records` offers it without naming it.
    CxlCommit,
    /// Results behind their completion.
    InlineResult,
    /// Results in whole DMA units, where the host has room for them.
    RoundedResults,
}

impl Extension {
    /// Its name in profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Extension::Inline => "inline",
            Extension::InlineTail => "inline-tail",
            Extension::InlineReassembly => "inline-reassembly",
            Extension::Piggyback => "piggyback",
            Extension::PiggybackPipelined => "piggyback-pipelined",
            Extension::Mmio => "mmio",
            Extension::CxlMem => "cxl-mem",
            Extension::CxlCommit => "cxl-commit",
            Extension::InlineResult => "inline-result",
            Extension::RoundedResults => "rounded-results",
        }
    }
}

/// The longest payload that each fine-grained method carries faster than PRPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Thresholds {
    /// `inline`.
    #[serde(default)]
    pub inline: Option<Bytes>,
    /// `inline-reassembly`.
    #[serde(default)]
    pub inline_reassembly: Option<Bytes>,
    /// `piggyback`.
    #[serde(default)]
    pub piggyback: Option<Bytes>,
    /// `piggyback-pipelined`.
    #[serde(default)]
    pub piggyback_pipelined: Option<Bytes>,
    /// `mmio`.
    #[serde(default)]
    pub mmio: Option<Bytes>,
    /// `cxl-mem`.
    #[serde(default)]
    pub cxl_mem: Option<Bytes>,
    /// `piggyback-cxl`.
    #[serde(default)]
    pub piggyback_cxl: Option<Bytes>,
    /// `cxl-commit`.
    #[serde(default)]
    pub cxl_commit: Option<Bytes>,
}

impl Transfer {
    /// Whether its methods name it.
    pub fn offers(&self, extension: Extension) -> bool {
        self.methods.contains(&extension)
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        for (at, extension) in self.methods.iter().enumerate() {
            if self.methods[..at].contains(extension) {
                let what = format!("`transfer.methods` names `{}` twice", extension.name());
                return Err(fault("transfer.methods", what, "leave one of them out"));
            }
        }
        let most = Bytes(1 << 20);
        within("transfer.inline_max", self.inline_max, Bytes(1), most)?;
        within("transfer.reassembly_max", self.reassembly_max, Bytes(1), most)?;
        within("transfer.piggyback_max", self.piggyback_max, Bytes(1), most)?;
        within("transfer.inline_result_max", self.inline_result_max, Bytes(1), most)?;
        within("transfer.partial_payloads", self.partial_payloads, 1, 4096)?;
        within("transfer.partial_timeout", self.partial_timeout, Picos(1_000_000), SECOND)?;
        within("transfer.bar", self.bar, Bytes(4096), Bytes(16 << 20))?;
        if !self.bar.0.is_multiple_of(4096) {
            let what = format!("`transfer.bar` = {} is not possible", self.bar);
            return Err(fault("transfer.bar", what, "choose a multiple of 4 KiB"));
        }
        within("transfer.sink", self.sink, Bytes(0), Bytes(1 << 40))?;
        within("transfer.chunk_store", self.chunk_store, Picos(0), SECOND)?;
        let Thresholds {
            inline,
            inline_reassembly,
            piggyback,
            piggyback_pipelined,
            mmio,
            cxl_mem,
            piggyback_cxl,
            cxl_commit,
        } = self.threshold;
        for (key, threshold) in [
            ("inline", inline),
            ("inline-reassembly", inline_reassembly),
            ("piggyback", piggyback),
            ("piggyback-pipelined", piggyback_pipelined),
            ("mmio", mmio),
            ("cxl-mem", cxl_mem),
            ("piggyback-cxl", piggyback_cxl),
            ("cxl-commit", cxl_commit),
        ] {
            let path = format!("transfer.threshold.{key}");
            within(&path, threshold.unwrap_or_default(), Bytes(0), Bytes(1 << 24))?;
        }
        Ok(())
    }
}

impl Profile {
    /// Whether a host may enable it.
    pub fn offers(&self, extension: Extension) -> bool {
        self.transfer.offers(extension)
            || match (extension, &self.cxl) {
                (Extension::CxlMem, Some(_)) => true,
                (Extension::CxlCommit, Some(cxl)) => cxl.records > 0,
                _ => false,
            }
    }
}

/// The built-in drives that `offers` fits, by name, for an error's cure.
pub(crate) fn drives_with(offers: impl Fn(&Profile) -> bool) -> Vec<&'static str> {
    let fits = |name: &&str| Profile::built_in(name).is_some_and(|profile| offers(&profile));
    super::DRIVES.iter().map(|(name, _)| *name).filter(fits).collect()
}

fn eight_kib() -> Bytes {
    Bytes(8 << 10)
}
fn one_kib() -> Bytes {
    Bytes(1 << 10)
}
fn sixty_four_kib() -> Bytes {
    Bytes(64 << 10)
}
fn sixty_four() -> u32 {
    64
}
fn ten_ms() -> Picos {
    Picos(10_000_000_000)
}
