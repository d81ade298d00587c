//! The lending policy for processors: when to lend or borrow, from which peer, and how many commands to redirect (4.3,
//! 4.4).

use crate::decision::descriptor::Utilisation;

/// Utilization above which a processor or data-end is busy.
pub const WATERMARK: f64 = 0.75;

/// Decision of a drive about its processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Neither: more processor time would not help, and there is none to spare.
    Nothing,
    /// Lend it.
    Lend,
    /// Borrow another.
    Borrow,
}

/// The action of a drive, from the utilizations of its processor and data-end, each from 0 to 1 (Table 1).
pub fn action(processor: f64, data_end: f64, watermark: f64) -> Action {
    match (processor > watermark, data_end > watermark) {
        (true, true) => Action::Nothing,
        (true, false) => Action::Borrow,
        (false, _) => Action::Lend,
    }
}

/// Best fit: the index of the smallest offer of at least `wanted`, or of the largest if there is none; among equals the
/// first. `None` if there are no offers.
pub fn best_fit(offers: impl IntoIterator<Item = u64>, wanted: u64) -> Option<usize> {
    let mut best: Option<(usize, u64)> = None;
    for (index, offer) in offers.into_iter().enumerate().filter(|(_, offer)| *offer > 0) {
        let is_better = match best {
            None => true,
            Some((_, found)) if found >= wanted => offer >= wanted && offer < found,
            Some((_, found)) => offer > found,
        };
        if is_better {
            best = Some((index, offer));
        }
    }
    best.map(|(index, _)| index)
}

/// Arbitration weight of a queue, and the sum over all I/O submission queues of its drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Commands of the queue.
    pub own: u32,
    /// Commands of all queues.
    pub all: u32,
}

impl Weight {
    /// The queue's share of the drive's fetching.
    fn share(self) -> f64 {
        if self.all == 0 {
            1.0
        } else {
            f64::from(self.own.max(1)) / f64::from(self.all.max(self.own.max(1)))
        }
    }
}

/// One end of a redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Utilization of its processor.
    pub utilisation: Utilisation,
    /// Weight of its queue: the borrower's, or the shadow queue.
    pub weight: Weight,
}

impl Load {
    /// Relative number of commands that this end can take: the weight of its queue divided by its utilization.
    ///
    /// The paper's formula gives infinity for an idle processor; here the utilization is at least 1 %.
    fn capacity(self) -> f64 {
        self.weight.share() / self.utilisation.share().max(0.01)
    }
}

/// Shares of a queue's commands for `lenders`, in their order, each from 0 to 1; the rest stays with the borrower.
///
/// The paper's formula for one lender is `N_borrow / N_lend = U_lend / U_borrow * sum_lend W / W_shadow * W_borrow /
/// sum_borrow W`: either end gets commands in proportion to its queue's share of the drive, divided by its utilization.
/// Several lenders share by the same measure.
pub fn shares(borrower: Load, lenders: &[Load]) -> Vec<f64> {
    let all = lenders.iter().fold(borrower.capacity(), |sum, lender| sum + lender.capacity());
    lenders.iter().map(|lender| lender.capacity() / all).collect()
}

/// The least share of a lender: its capacity shows only if it gets some commands.
const LEAST: f64 = 0.01;

/// Shares of `lenders` for the next period, from those of the last one (`now`), in which the ends had these loads.
///
/// The formula gives the target shares if commands cost the same everywhere, but utilization depends on the last
/// shares. Following one period's measurement at once would give an idle lender everything in the next period, and
/// nothing in the one after. So shares move half of the way. In addition, a lender gets no more than leaves it at the
/// watermark, so that its own work does not wait: the formula alone makes both ends equally busy, which is too busy if
/// the borrower's commands never run out.
pub fn next_shares(now: &[f64], borrower: Load, lenders: &[Load], watermark: f64) -> Vec<f64> {
    let wanted = shares(borrower, lenders);
    let next = now.iter().zip(wanted).zip(lenders).map(|((now, wanted), lender)| {
        let busy = lender.utilisation.share();
        let most = if *now > 0.0 && busy > 0.0 { now * watermark / busy } else { 1.0 };
        ((now + wanted) / 2.0).min(most).max(LEAST)
    });
    next.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(utilisation: f64, own: u32, all: u32) -> Load {
        Load { utilisation: Utilisation::of(utilisation), weight: Weight { own, all } }
    }

    // Table 1, row by row; at the watermark a processor is not busy.
    #[test]
    fn drives_do_what_table_1_says() {
        let cases = [
            (0.9, 0.9, Action::Nothing),
            (0.3, 0.9, Action::Lend),
            (0.0, 0.0, Action::Lend),
            (0.9, 0.3, Action::Borrow),
            (0.75, 0.75, Action::Lend),
            (0.76, 0.75, Action::Borrow),
        ];
        for (processor, data_end, expected) in cases {
            assert_eq!(action(processor, data_end, WATERMARK), expected, "{processor} {data_end}");
        }
    }

    // A borrower that takes the largest offer leaves none for a peer that needs it.
    #[test]
    fn the_smallest_offer_that_is_enough_is_taken() {
        assert_eq!(best_fit([9, 5, 7], 6), Some(2));
        assert_eq!(best_fit([9, 5, 7], 20), Some(0), "none is enough: the most");
        assert_eq!(best_fit([3, 7, 7], 5), Some(1), "the first of equals");
        assert_eq!(best_fit([0, 0], 5), None);
        assert_eq!(best_fit([4], 0), Some(0));
    }

    // ES55: a ratio of 3 is a probability of 25 %.
    #[test]
    fn the_ratio_is_the_papers() {
        let quarter = shares(load(0.2, 1, 1), &[load(0.6, 1, 1)]);
        assert!((quarter[0] - 0.25).abs() < 1e-4, "{quarter:?}");
        // U_lend / U_borrow = 0.5, sum_lend W / W_shadow = 3, W_borrow / sum_borrow W = 2 / 4: the borrower keeps 0.75
        // for each that goes to the lender.
        let weighed = shares(load(0.8, 2, 4), &[load(0.4, 1, 3)]);
        assert!((weighed[0] - 1.0 / 1.75).abs() < 1e-4, "{weighed:?}");
    }

    // Cases that the paper leaves open must be defined: no division by zero, and shares between 0 and 1.
    #[test]
    fn undefined_cases_are_defined() {
        let idle = shares(load(0.9, 1, 1), &[load(0.0, 1, 1)]);
        assert!((idle[0] - 0.9 / 0.91).abs() < 1e-3, "an idle lender counts as busy by 1 %: {idle:?}");
        let both = shares(load(0.0, 1, 1), &[load(0.0, 1, 1)]);
        assert!((both[0] - 0.5).abs() < 1e-6);
        let two = shares(load(0.4, 1, 1), &[load(0.4, 1, 1), load(0.2, 1, 1)]);
        assert!((two[0] - 0.25).abs() < 1e-3 && (two[1] - 0.5).abs() < 1e-3, "{two:?}");
        let strange = shares(load(1.0, 0, 0), &[load(1.0, 9, 3)]);
        assert!((0.0..=1.0).contains(&strange[0]));
        assert!(shares(load(0.5, 1, 1), &[]).is_empty());
    }

    // Shares that follow each period directly oscillate between all and nothing: two drives then do less than one.
    #[test]
    fn shares_settle() {
        for (own_of_lender, demand) in [(0.0, 1.0), (0.0, 3.0), (0.3, 1.2), (0.6, 2.0)] {
            let mut share = vec![0.0];
            let mut seen = Vec::new();
            for _ in 0..20 {
                let busy = |work: f64| work.min(1.0);
                let lender = load(busy(own_of_lender + share[0] * demand), 1, 1);
                let borrower = load(busy((1.0 - share[0]) * demand), 1, 1);
                share = next_shares(&share, borrower, &[lender], WATERMARK);
                seen.push(share[0]);
            }
            let (last, before) = (seen[19], seen[18]);
            assert!((last - before).abs() < 0.02, "{own_of_lender} {demand}: {seen:?}");
            assert!(own_of_lender + last * demand < WATERMARK + 0.02, "{own_of_lender} {demand}: {seen:?}");
            assert!(own_of_lender > 0.5 || last > 0.15, "{own_of_lender} {demand}: {seen:?}");
        }
    }
}
