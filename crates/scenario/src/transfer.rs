//! The section `[transfer]` of a scenario: transfer methods, checked against drive and host.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::drive::DrivePlan;
use crate::method_name::MethodName;
use crate::profile::{KeyError, Profile, drives_with, fault, within};
use crate::source::Index;
use crate::word::{FineMethod, FromWord};
use byteway_text::error::InputError;
use byteway_text::units::Bytes;
use byteway_transfer::host::PointerKind;
use byteway_transfer::method::PayloadKind;
use byteway_transfer::own::TransferMethods;
use byteway_transfer::result::ResultMethod;
use byteway_transfer::{Method, Ordering, Rules};
use byteway_wire::nvme::vendor::Extension;

/// `[transfer]`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransferSection {
    /// The transfer method for payloads.
    #[serde(default)]
    #[schemars(with = "FromWord<Method>")]
    pub method: MethodName,
    /// With `method = "adaptive"`: the fine-grained method below the threshold. Default: inline.
    #[serde(default)]
    pub fine: Option<FromWord<FineMethod>>,
    /// With `method = "adaptive"`: payloads shorter than this, times `alpha`, use the fine-grained method.
    /// Default: the profile's `transfer.threshold`.
    #[serde(default)]
    pub threshold: Option<Bytes>,
    /// With `method = "adaptive"`: factor of the threshold, 0.0 to 1000.0. Default: 1.0.
    #[serde(default)]
    pub alpha: Option<f64>,
    /// Data pointer for payloads that the method cannot carry, and with `method = "adaptive"` for those from
    /// the threshold on.
    #[serde(default, with = "Pointer")]
    pub fallback: PointerKind,
    /// How a command announces an inline payload.
    #[serde(default)]
    pub encoding: Encoding,
    /// How the host ensures that stores to the drive's memory arrive before their command.
    #[serde(default)]
    pub ordering: LineOrdering,
    /// How results of reads return; for the payload sink and key-value drives only.
    #[serde(default)]
    pub result: ResultTransfer,
}

/// How the host ensures that stores to the drive's memory arrive before their command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LineOrdering {
    /// The host flushes each line.
    #[default]
    Flush,
    /// The host uses non-temporal stores, and reads the last line back.
    ReadBack,
    /// The host uses non-temporal stores; the command contains a checksum for which the drive waits.
    Checksum,
}

/// A data pointer.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(remote = "PointerKind", rename_all = "lowercase")]
#[schemars(rename = "Pointer")]
enum Pointer {
    /// PRPs.
    Prp,
    /// SGLs.
    Sgl,
}

/// How a command announces an inline payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// An SGL descriptor in place of the data pointer, like in-capsule data on a fabric.
    #[default]
    Sgl,
    /// As in ByteExpress: the data pointer keeps its PRPs, and CDW3 contains the length.
    Paper,
}

/// How results of reads return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ResultTransfer {
    /// The data pointer, with exact length.
    #[default]
    Pointer,
    /// Inline behind the completion, if short enough.
    Inline,
    /// The data pointer, in whole DMA units.
    Rounded,
}

impl From<ResultTransfer> for ResultMethod {
    fn from(way: ResultTransfer) -> ResultMethod {
        match way {
            ResultTransfer::Pointer => ResultMethod::Pointer,
            ResultTransfer::Inline => ResultMethod::Inline,
            ResultTransfer::Rounded => ResultMethod::Rounded,
        }
    }
}

/// The transfer plan: resolved and validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferPlan {
    /// Rules for payloads to the drive. The threshold is alpha x tau, rounded up, so that exactly the lengths
    /// below the product are below it.
    pub rules: Rules,
    /// Transfer of results.
    pub results: ResultMethod,
}

impl TransferSection {
    /// Plans the section for this drive and host.
    pub(super) fn plan(
        &self,
        drive: &DrivePlan,
        sgl_min: Bytes,
        index: &Index,
        (methods, seed): (&TransferMethods, u64),
    ) -> Result<TransferPlan, KeyError> {
        let wanted = self.method.find(methods)?;
        let is_adaptive = wanted == Method::Adaptive;
        for key in ["fine", "threshold", "alpha"] {
            let path = format!("transfer.{key}");
            if index.has(&path) && !is_adaptive {
                let what = format!("`{path}` has no effect with `method = \"{}\"`", wanted.name());
                return Err(fault(path, what, "choose `method = \"adaptive\"`, or leave it out"));
            }
        }
        let fine = self.fine.map_or(Method::Inline, |FromWord(FineMethod(method))| method);
        let (key, method) = match is_adaptive {
            true if self.fine.is_some() => ("transfer.fine", fine),
            true => ("transfer.method", fine),
            false => ("transfer.method", wanted),
        };
        if index.has("transfer.encoding") && method != Method::Inline {
            let what = format!("`transfer.encoding` has no effect with `{}`", method.name());
            return Err(fault("transfer.encoding", what, "leave it out: it says how `inline` is announced"));
        }
        let is_stored = method.entry().needs.contains(&Extension::CxlMem);
        if index.has("transfer.ordering") && !is_stored {
            let what = format!("`transfer.ordering` has no effect with `{}`", method.name());
            return Err(fault(
                "transfer.ordering",
                what,
                "leave it out: it says how `cxl-mem` is made sure of",
            ));
        }
        self.check_offered(drive, key, method)?;
        if self.fallback == PointerKind::Sgl {
            needs_sgl(drive, "transfer.fallback")?;
        }
        if drive.personality.has_payloads() {
            match self.result {
                ResultTransfer::Pointer => {}
                ResultTransfer::Inline => needs(drive, "transfer.result", "inline", Extension::InlineResult)?,
                ResultTransfer::Rounded => {
                    needs(drive, "transfer.result", "rounded", Extension::RoundedResults)?
                }
            }
        } else if index.has("transfer.result") {
            let what = "`transfer.result` has no effect: results of blocks go where the data pointer says";
            let help = "set `drive.personality = \"sink\"`, or leave it out";
            return Err(fault("transfer.result", what, help));
        }
        let threshold_bytes = if is_adaptive { self.threshold_bytes(drive, fine)? } else { 0 };
        let rules = Rules {
            method: wanted,
            fallback: self.fallback,
            fine,
            threshold_bytes,
            seed,
            sgl_bytes_min: sgl_min.0 as u32,
            paper_encoding: self.encoding == Encoding::Paper,
            ordering: match self.ordering {
                LineOrdering::Flush => Ordering::Flushed,
                LineOrdering::ReadBack => Ordering::ReadBack,
                LineOrdering::Checksum => Ordering::Checksum,
            },
        };
        Ok(TransferPlan { rules, results: self.result.into() })
    }

    fn check_offered(&self, drive: &DrivePlan, key: &str, method: Method) -> Result<(), KeyError> {
        let name = method.name();
        if method == Method::Sgl {
            return needs_sgl(drive, key);
        }
        match method.entry().of {
            PayloadKind::Pairs if drive.pairs_nsids().is_empty() => {
                let what = format!("`{key}` = {name}: only key-value pairs are stored without a command");
                return Err(fault(key, what, "set `drive.personality = \"kv\"`, or choose another method"));
            }
            PayloadKind::Payloads if !drive.personality.has_payloads() => {
                let what = format!("`{key}` = {name}: blocks have no field in which their payload could be");
                let help = "set `drive.personality = \"sink\"`, or choose another method";
                return Err(fault(key, what, help));
            }
            _ => {}
        }
        let is_paper = self.encoding == Encoding::Paper;
        method.needs(is_paper).iter().try_for_each(|extension| needs(drive, key, name, *extension))
    }

    /// Alpha x tau, rounded up.
    fn threshold_bytes(&self, drive: &DrivePlan, fine: Method) -> Result<u32, KeyError> {
        const MOST: Bytes = Bytes(1 << 24);
        let alpha = self.alpha.unwrap_or(1.0);
        within("transfer.alpha", alpha, 0.0, 1000.0)?;
        let measured = drive.profile.transfer.threshold.of(fine);
        let Some(tau) = self.threshold.or(measured) else {
            let name = fine.name();
            let what = format!("the drive `{}` has no measured threshold for {name}", drive.profile_name);
            let help = "write `threshold = \"128 B\"` in [transfer]; `byteway threshold` measures it";
            return Err(fault("transfer.threshold", what, help));
        };
        within("transfer.threshold", tau, Bytes(0), MOST)?;
        // At most 2^24 x 1000: exact in a float except for the product's own rounding, which must not add a
        // byte (100 B x 1.1).
        let product = tau.0 as f64 * alpha;
        Ok(libm::ceil(product - product * 1e-12) as u32)
    }
}

impl DrivePlan {
    /// Checks that the drive offers a transfer method for its payloads.
    ///
    /// # Errors
    /// It does not.
    pub fn check_method(&self, method: Method) -> Result<(), InputError> {
        let checked = TransferSection::default().check_offered(self, "method", method);
        checked.map_err(|fault| InputError::new(fault.what, fault.help))
    }
}

/// Checks that the drive offers the extension that `key` = `name` needs.
fn needs(drive: &DrivePlan, key: &str, name: &str, extension: Extension) -> Result<(), KeyError> {
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
        let help = format!("{known} have such memory; or give the drive some, as [drive.override.cxl]");
        return Err(fault(key, what, help));
    }
    if extension == Extension::CxlCommit {
        let help = "write `cxl.records = 64` in [drive.override]; a drive without [cxl] needs that, too";
        return Err(fault(key, what, help));
    }
    let mut offered: Vec<&str> =
        transfer.methods.iter().map(|FromWord(extension)| extension.name()).collect();
    offered.push(wanted);
    let list = offered.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let known = drives_with(|profile| profile.offers(extension));
    let known = match known.is_empty() {
        true => String::new(),
        false => format!("{} offer it; or ", known.join(", ")),
    };
    Err(fault(key, what, format!("{known}set `transfer.methods = [{list}]` in [drive.override]")))
}

fn needs_sgl(drive: &DrivePlan, key: &str) -> Result<(), KeyError> {
    if drive.profile.controller.sgl {
        return Ok(());
    }
    let what = format!("`{key}` = sgl: the drive `{}` has no SGLs", drive.profile_name);
    let known = drives_with(|profile: &Profile| profile.controller.sgl).join(", ");
    let help = format!("set `controller.sgl = true` in [drive.override], or use prp; {known} have them");
    Err(fault(key, what, help))
}

/// The error for a drive without a sink, at `path`, the key of its personality.
pub(super) fn no_sink(path: &str, profile_name: &str) -> KeyError {
    let what = format!("`{path}` = sink: the drive `{profile_name}` has no payload sink");
    let known = drives_with(|profile| profile.transfer.sink.0 > 0).join(", ");
    let help = format!("{known} have one; or set `transfer.sink = \"64 MiB\"` in [drive.override]");
    fault(path, what, help)
}
