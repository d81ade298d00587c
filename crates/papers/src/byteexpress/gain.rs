//! Sources of inline's gain over PRP: page granularity, which an exact DMA would save as well, or DMA setup,
//! which only an inline payload saves.

use super::points::{EXACT, board, by_sgl, unit};
use crate::error::Measured;
use crate::point::{Ledger, PointResult, Points, Spec};
use crate::sketch::change;
use byteway_results::figures::equal;
use byteway_text::table::time;

/// Sizes at which the gain is decomposed.
pub(super) const SIZES: [u64; 7] = [64, 128, 256, 512, 1024, 2048, 4096];

/// Name of a transfer method, and its point for a size.
type NamedMethod = (&'static str, fn(u64) -> Spec);

/// Methods with DMA, and inline.
pub(super) const METHODS: [NamedMethod; 5] = [
    ("prp, whole pages", |bytes| board("prp", bytes)),
    ("prp, 512 B", |bytes| unit(board("prp", bytes), "\"512 B\"")),
    ("prp, exact", |bytes| unit(board("prp", bytes), EXACT)),
    ("sgl, exact", by_sgl),
    ("inline", |bytes| board("inline", bytes)),
];

/// The points to run.
pub(super) fn points() -> Vec<Spec> {
    METHODS.iter().flat_map(|(_, method)| SIZES.map(method)).collect()
}

/// The gain in one figure, decomposed.
struct Gain {
    pages: f64,
    exact: f64,
    inline: f64,
}

impl Gain {
    fn of(points: &Points, bytes: u64, figure: impl Fn(PointResult<'_>) -> f64) -> Measured<Gain> {
        Ok(Gain {
            pages: figure(points.at(&board("prp", bytes))?),
            exact: figure(points.at(&unit(board("prp", bytes), EXACT))?),
            inline: figure(points.at(&board("inline", bytes))?),
        })
    }

    /// Shares of the gain in percent: page granularity, setup.
    fn shares(&self) -> Option<(f64, f64)> {
        let whole = self.pages - self.inline;
        let of = |part: f64| part / whole * 100.0;
        (whole > 0.0).then(|| (of(self.pages - self.exact), of(self.exact - self.inline)))
    }
}

/// The decomposition, in words.
///
/// # Errors
/// A point failed.
pub(super) fn sentences(points: &Points) -> Measured<Vec<String>> {
    let mut sentences = Vec::new();
    for bytes in [64, 256] {
        let gain = Gain::of(points, bytes, |seen| seen.latency())?;
        let whole = gain.pages - gain.inline;
        let Some((pages, set_up)) = gain.shares() else {
            sentences.push(format!("At {bytes} B inline takes no less time than PRP on this board."));
            continue;
        };
        let of_pages = time(gain.pages - gain.exact);
        let mut sentence =
            format!("At {bytes} B inline takes {} less than PRP, of {}. ", time(whole), time(gain.pages));
        sentence += &match gain.exact > gain.inline {
            true => format!(
                "{of_pages} of that ({pages:.0} %) is page granularity: the drive fetches 4 KiB for {bytes} B, and a DMA of \
                 exact length saves it too. The other {} ({set_up:.0} %) is the set-up of the DMA, which only payload \
                 transferred with its command avoids.",
                time(gain.exact - gain.inline)
            ),
            false => format!(
                "All of that is page granularity: a DMA of exact length saves {of_pages}, and inline is {} slower than \
                 such a DMA, because its entries take longer than the DMA set-up that they save.",
                time(gain.inline - gain.exact)
            ),
        };
        sentences.push(sentence);
    }
    let bytes = Gain::of(points, 64, |seen| seen.bytes(Ledger::Payload))?;
    let wire = Gain::of(points, 64, |seen| seen.bytes(Ledger::Wire))?;
    if let (Some((pages, _)), Some((on_wire, _))) = (bytes.shares(), wire.shares()) {
        sentences.push(format!(
            "Of the bytes that inline saves at 64 B, page granularity is {pages:.1} % ({on_wire:.1} % on the wire): PRP transfers \
             {:.0} B, PRP with exact DMA {:.0} B, inline {:.0} B. The traffic claim is about pages, not about queues.",
            bytes.pages, bytes.exact, bytes.inline
        ));
    }
    let sgl = |figure: &dyn Fn(PointResult<'_>) -> f64| Measured::Ok(figure(points.at(&by_sgl(64))?));
    let exact = |figure: &dyn Fn(PointResult<'_>) -> f64| {
        Measured::Ok(figure(points.at(&unit(board("prp", 64), EXACT))?))
    };
    let (sgl_ns, exact_ns) = (sgl(&|seen| seen.latency())?, exact(&|seen| seen.latency())?);
    let inline_ns = points.at(&board("inline", 64))?.latency();
    sentences.push(format!(
        "An SGL of one data block ({} at 64 B) {} PRP with exact DMA ({}): the descriptor is in the command, and nothing else \
         is fetched for it. Inline takes {:+.1} % versus it.",
        time(sgl_ns),
        if equal(sgl_ns, exact_ns) { "is the same as" } else { "differs from" },
        time(exact_ns),
        change(inline_ns, sgl_ns)
    ));
    let mut faster = None;
    for bytes in SIZES {
        if points.at(&board("inline", bytes))?.latency() < points.at(&by_sgl(bytes))?.latency() {
            faster = Some(bytes);
        } else {
            break;
        }
    }
    sentences.push(match faster {
        Some(bytes) => format!("Of the sizes measured, inline is faster than an exact SGL up to {bytes} B."),
        None => "At no size measured is inline faster than an exact SGL.".to_owned(),
    });
    Ok(sentences)
}
