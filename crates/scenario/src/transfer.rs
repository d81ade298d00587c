//! `[transfer]` of a scenario: how payloads cross, checked against what drive and host have.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::DrivePlan;
use crate::profile::{Extension, Fault, Profile, Thresholds, drives_with, fault, within};
use crate::source::Index;
use byteway_console::units::Bytes;

/// `[transfer]`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferSection {
    /// How payloads cross.
    #[serde(default)]
    pub method: TransferMethod,
    /// With `method = "adaptive"`: how payloads below the threshold cross; left out, inline.
    #[serde(default)]
    pub fine: Option<FineMethod>,
    /// With `method = "adaptive"`: payloads shorter than this cross by the fine-grained method, before `alpha`; left out, the
    /// profile's (`transfer.threshold`).
    #[serde(default)]
    pub threshold: Option<Bytes>,
    /// With `method = "adaptive"`: what the threshold is multiplied with, 0.0 to 1000.0; left out, 1.0.
    #[serde(default)]
    pub alpha: Option<f64>,
    /// How payloads cross that the method cannot carry, and with `method = "adaptive"` those from the threshold on.
    #[serde(default)]
    pub fallback: Pointer,
    /// How an inline payload is announced.
    #[serde(default)]
    pub encoding: Encoding,
    /// How what is stored to the drive's memory is made sure to be there before its command.
    #[serde(default)]
    pub ordering: LineOrdering,
    /// How results of reads come back; of the payload sink and of key-value drives only.
    #[serde(default)]
    pub result: ResultWay,
}

/// How payloads cross.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TransferMethod {
    /// Whole pages, by Physical Region Pages.
    #[default]
    Prp,
    /// Exactly the bytes, by Scatter Gather Lists.
    Sgl,
    /// In the fields of commands, one after the other.
    Piggyback,
    /// In the fields of commands, all under way at once.
    PiggybackPipelined,
    /// In the queue entries behind the command.
    Inline,
    /// In chunks of queue entries, put together by the drive.
    InlineReassembly,
    /// By stores to a buffer of the drive.
    Mmio,
    /// By a fine-grained method below a threshold, by data pointer from it on.
    Adaptive,
    /// Whole pages by PRP, and what is beyond them inline.
    Hybrid,
    /// By stores to memory of the drive over CXL.mem.
    CxlMem,
    /// In the fields of a command up to 35 B, by CXL.mem above.
    PiggybackCxl,
    /// By stores to memory of the drive over CXL.mem, and without a command: by a record that the drive looks for. Of key-value
    /// drives only.
    CxlCommit,
}

/// How short payloads cross under `adaptive`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FineMethod {
    /// As `method = "piggyback"`.
    Piggyback,
    /// As `method = "piggyback-pipelined"`.
    PiggybackPipelined,
    /// As `method = "inline"`.
    #[default]
    Inline,
    /// As `method = "inline-reassembly"`.
    InlineReassembly,
    /// As `method = "mmio"`.
    Mmio,
    /// As `method = "cxl-mem"`.
    CxlMem,
    /// As `method = "piggyback-cxl"`.
    PiggybackCxl,
    /// As `method = "cxl-commit"`.
    CxlCommit,
}

/// How what is stored to the drive's memory is made sure to be there before its command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LineOrdering {
    /// Each line is flushed.
    #[default]
    Flush,
    /// Lines go past the cache, and the last one is read back.
    ReadBack,
    /// Lines go past the cache, and the command has a checksum for which the drive waits.
    Checksum,
}

/// A data pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Pointer {
    /// PRPs.
    #[default]
    Prp,
    /// SGLs.
    Sgl,
}

/// How an inline payload is announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// By an SGL descriptor in the data pointer's place, as in-capsule data is on a fabric.
    #[default]
    Sgl,
    /// As ByteExpress does it: PRPs are kept, the length stands in CDW3.
    Paper,
}

/// How results of reads come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ResultWay {
    /// Exactly, to where the data pointer says.
    #[default]
    Pointer,
    /// Behind the completion, if they are short enough.
    Inline,
    /// To where the data pointer says, in whole DMA units.
    Rounded,
}

/// How payloads cross: everything looked up and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferPlan {
    /// The method.
    pub method: TransferMethod,
    /// How payloads below the threshold cross, under [`TransferMethod::Adaptive`].
    pub fine: FineMethod,
    /// The threshold, bytes: alpha x tau, rounded up, so that a whole number of bytes is below it if it is below the product.
    pub threshold_bytes: u32,
    /// What takes those that the method cannot carry.
    pub fallback: Pointer,
    /// Under [`TransferMethod::Sgl`]: shorter payloads go by PRP.
    pub sgl_bytes_min: u32,
    /// How an inline payload is announced.
    pub encoding: Encoding,
    /// How what is stored to the drive's memory is made sure to be there.
    pub ordering: LineOrdering,
    /// How results come back.
    pub result: ResultWay,
}

impl TransferMethod {
    /// All, in the order in which they are reported.
    pub const ALL: [TransferMethod; 12] = [
        TransferMethod::Prp,
        TransferMethod::Sgl,
        TransferMethod::Piggyback,
        TransferMethod::PiggybackPipelined,
        TransferMethod::Inline,
        TransferMethod::InlineReassembly,
        TransferMethod::Mmio,
        TransferMethod::Adaptive,
        TransferMethod::Hybrid,
        TransferMethod::CxlMem,
        TransferMethod::PiggybackCxl,
        TransferMethod::CxlCommit,
    ];

    /// Its name in scenarios and reports.
    pub const fn name(self) -> &'static str {
        match self {
            TransferMethod::Prp => "prp",
            TransferMethod::Sgl => "sgl",
            TransferMethod::Piggyback => "piggyback",
            TransferMethod::PiggybackPipelined => "piggyback-pipelined",
            TransferMethod::Inline => "inline",
            TransferMethod::InlineReassembly => "inline-reassembly",
            TransferMethod::Mmio => "mmio",
            TransferMethod::Adaptive => "adaptive",
            TransferMethod::Hybrid => "hybrid",
            TransferMethod::CxlMem => "cxl-mem",
            TransferMethod::PiggybackCxl => "piggyback-cxl",
            TransferMethod::CxlCommit => "cxl-commit",
        }
    }
}

impl FineMethod {
    /// The method that it is.
    pub const fn method(self) -> TransferMethod {
        match self {
            FineMethod::Piggyback => TransferMethod::Piggyback,
            FineMethod::PiggybackPipelined => TransferMethod::PiggybackPipelined,
            FineMethod::Inline => TransferMethod::Inline,
            FineMethod::InlineReassembly => TransferMethod::InlineReassembly,
            FineMethod::Mmio => TransferMethod::Mmio,
            FineMethod::CxlMem => TransferMethod::CxlMem,
            FineMethod::PiggybackCxl => TransferMethod::PiggybackCxl,
            FineMethod::CxlCommit => TransferMethod::CxlCommit,
        }
    }

    /// What a drive's profile has measured for it.
    pub const fn threshold(self, of: &Thresholds) -> Option<Bytes> {
        match self {
            FineMethod::Piggyback => of.piggyback,
            FineMethod::PiggybackPipelined => of.piggyback_pipelined,
            FineMethod::Inline => of.inline,
            FineMethod::InlineReassembly => of.inline_reassembly,
            FineMethod::Mmio => of.mmio,
            FineMethod::CxlMem => of.cxl_mem,
            FineMethod::PiggybackCxl => of.piggyback_cxl,
            FineMethod::CxlCommit => of.cxl_commit,
        }
    }
}

impl TransferSection {
    /// Checks the section against drive and host.
    pub(super) fn plan(
        &self,
        drive: &DrivePlan,
        sgl_min: Bytes,
        index: &Index,
    ) -> Result<TransferPlan, Fault> {
        let is_adaptive = self.method == TransferMethod::Adaptive;
        for key in ["fine", "threshold", "alpha"] {
            let path = format!("transfer.{key}");
            if index.has(&path) && !is_adaptive {
                let what = format!("`{path}` has no effect with `method = \"{}\"`", self.method.name());
                return Err(fault(path, what, "choose `method = \"adaptive\"`, or leave it out"));
            }
        }
        let fine = self.fine.unwrap_or_default();
        let (key, method) = match is_adaptive {
            true if self.fine.is_some() => ("transfer.fine", fine.method()),
            true => ("transfer.method", fine.method()),
            false => ("transfer.method", self.method),
        };
        let is_inline = method == TransferMethod::Inline;
        if index.has("transfer.encoding") && !is_inline {
            let what = format!("`transfer.encoding` has no effect with `{}`", method.name());
            return Err(fault("transfer.encoding", what, "leave it out: it says how `inline` is announced"));
        }
        let by_cxl = [TransferMethod::CxlMem, TransferMethod::PiggybackCxl, TransferMethod::CxlCommit];
        let is_stored = by_cxl.contains(&method);
        if index.has("transfer.ordering") && !is_stored {
            let what = format!("`transfer.ordering` has no effect with `{}`", method.name());
            return Err(fault(
                "transfer.ordering",
                what,
                "leave it out: it says how `cxl-mem` is made sure of",
            ));
        }
        self.check_offered(drive, key, method)?;
        if self.fallback == Pointer::Sgl {
            needs_sgl(drive, "transfer.fallback")?;
        }
        if drive.has_payloads() {
            match self.result {
                ResultWay::Pointer => {}
                ResultWay::Inline => needs(drive, "transfer.result", "inline", Extension::InlineResult)?,
                ResultWay::Rounded => needs(drive, "transfer.result", "rounded", Extension::RoundedResults)?,
            }
        } else if index.has("transfer.result") {
            let what = "`transfer.result` has no effect: results of blocks go where the data pointer says";
            let cure = "set `drive.personality = \"sink\"`, or leave it out";
            return Err(fault("transfer.result", what, cure));
        }
        let threshold_bytes = if is_adaptive { self.threshold_bytes(drive, fine)? } else { 0 };
        Ok(TransferPlan {
            method: self.method,
            fine,
            threshold_bytes,
            fallback: self.fallback,
            sgl_bytes_min: sgl_min.0 as u32,
            encoding: self.encoding,
            ordering: self.ordering,
            result: self.result,
        })
    }

    fn check_offered(&self, drive: &DrivePlan, key: &str, method: TransferMethod) -> Result<(), Fault> {
        let name = method.name();
        let extension = match method {
            TransferMethod::Prp | TransferMethod::Adaptive => return Ok(()),
            TransferMethod::Sgl => return needs_sgl(drive, key),
            TransferMethod::Piggyback => Extension::Piggyback,
            TransferMethod::PiggybackPipelined => Extension::PiggybackPipelined,
            TransferMethod::Inline if self.encoding == Encoding::Paper => Extension::InlineTail,
            TransferMethod::Inline => Extension::Inline,
            TransferMethod::InlineReassembly => Extension::InlineReassembly,
            TransferMethod::Mmio => Extension::Mmio,
            TransferMethod::Hybrid => Extension::InlineTail,
            TransferMethod::CxlMem => Extension::CxlMem,
            TransferMethod::PiggybackCxl => {
                needs(drive, key, name, Extension::CxlMem)?;
                Extension::Piggyback
            }
            TransferMethod::CxlCommit => Extension::CxlCommit,
        };
        if extension == Extension::CxlCommit && !drive.has_pairs() {
            let what =
                format!("`{key}` = {name}: only pairs of keys and values are stored without a command");
            return Err(fault(key, what, "set `drive.personality = \"kv\"`, or choose another method"));
        }
        if matches!(extension, Extension::Piggyback | Extension::PiggybackPipelined) && !drive.has_payloads()
        {
            let what = format!("`{key}` = {name}: blocks have no field in which their payload could be");
            let cure = "set `drive.personality = \"sink\"`, or choose another method";
            return Err(fault(key, what, cure));
        }
        needs(drive, key, name, extension)
    }

    /// Alpha x tau, rounded up.
    fn threshold_bytes(&self, drive: &DrivePlan, fine: FineMethod) -> Result<u32, Fault> {
        const MOST: Bytes = Bytes(1 << 24);
        let alpha = self.alpha.unwrap_or(1.0);
        within("transfer.alpha", alpha, 0.0, 1000.0)?;
        let measured = fine.threshold(&drive.profile.transfer.threshold);
        let Some(tau) = self.threshold.or(measured) else {
            let name = fine.method().name();
            let what = format!("the drive `{}` has no measured threshold for {name}", drive.profile_name);
            let cure = "write `threshold = \"128 B\"` in [transfer]; `byteway threshold` measures it";
            return Err(fault("transfer.threshold", what, cure));
        };
        within("transfer.threshold", tau, Bytes(0), MOST)?;
        // At most 2^24 x 1000: exact in a float but for the product's own rounding, which must not add a byte (100 B x 1.1).
        let product = tau.0 as f64 * alpha;
        Ok(libm::ceil(product - product * 1e-12) as u32)
    }
}

/// The drive must offer what `key` = `name` needs.
fn needs(drive: &DrivePlan, key: &str, name: &str, extension: Extension) -> Result<(), Fault> {
    let transfer = &drive.profile.transfer;
    if drive.profile.offers(extension) {
        return Ok(());
    }
    let wanted = extension.name();
    let what = match name == wanted {
        true => format!("`{key}` = {name}: the drive `{}` does not offer it", drive.profile_name),
        false => {
            format!(
                "`{key}` = {name} needs `{wanted}`, which the drive `{}` does not offer",
                drive.profile_name
            )
        }
    };
    if extension == Extension::CxlMem {
        let known = drives_with(|profile| profile.offers(extension)).join(", ");
        let cure = format!("{known} have such memory; or give the drive some, as [drive.override.cxl]");
        return Err(fault(key, what, cure));
    }
    if extension == Extension::CxlCommit {
        let cure = "write `cxl.records = 64` in [drive.override]; a drive without [cxl] needs that, too";
        return Err(fault(key, what, cure));
    }
    let mut offered: Vec<&str> = transfer.methods.iter().map(|extension| extension.name()).collect();
    offered.push(wanted);
    let list = offered.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let known = drives_with(|profile| profile.offers(extension));
    let known = match known.is_empty() {
        true => String::new(),
        false => format!("{} offer it; or ", known.join(", ")),
    };
    Err(fault(key, what, format!("{known}set `transfer.methods = [{list}]` in [drive.override]")))
}

fn needs_sgl(drive: &DrivePlan, key: &str) -> Result<(), Fault> {
    if drive.profile.controller.sgl {
        return Ok(());
    }
    let what = format!("`{key}` = sgl: the drive `{}` has no SGLs", drive.profile_name);
    let known = drives_with(|profile: &Profile| profile.controller.sgl).join(", ");
    let cure = format!("set `controller.sgl = true` in [drive.override], or use prp; {known} have them");
    Err(fault(key, what, cure))
}

/// An error that a drive without a sink gets, at the place of `drive.personality`.
pub(super) fn no_sink(profile_name: &str) -> Fault {
    let what = format!("`drive.personality` = sink: the drive `{profile_name}` has no payload sink");
    let known = drives_with(|profile| profile.transfer.sink.0 > 0).join(", ");
    let cure = format!("{known} have one; or set `transfer.sink = \"64 MiB\"` in [drive.override]");
    fault("drive.personality", what, cure)
}
