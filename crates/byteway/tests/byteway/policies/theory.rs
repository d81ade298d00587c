//! Write amplification in theory: what simulated policies are held against.
//!
//! The mean field follows Van Houdt ("A mean field model for a class of garbage collection algorithms in flash-based solid state drives",
//! 2013; "On the necessity of hot and cold data identification to reduce the write amplification in flash-based SSDs", 2014: host writes and
//! collection fill superblocks of their own). Two things are of a real drive: a victim has to free at least one stripe; and what a superblock
//! of the collector holds comes from two or three victims one after the other, not from all that are collected at the time. Without the latter,
//! which keeps hot data from cold, 3 choices would amplify by 2.82 at 28 % where they amplify by 2.65. Of cost-benefit no closed form is known.

/// Data of two classes.
#[derive(Clone, Copy)]
pub struct Hot {
    /// Share of the hot class in all data.
    pub data: f64,
    /// Its share in the host's writes.
    pub writes: f64,
}

/// One class: two that are alike.
pub const UNIFORM: Hot = Hot { data: 0.5, writes: 0.5 };

/// Units of a superblock.
pub const UNITS: usize = 64;
/// Units of a stripe, of which a victim frees at least one.
const STRIPE: usize = 4;
const N: usize = UNITS + 1;
/// Steps of time, in victims for each superblock: short where the emptiest of all, hot ones among them, empty fast.
const STEPS: [f64; 2] = [0.002, 0.0005];
/// Time between two looks at what the collector writes, which changes slowly.
const LOOK: f64 = 0.5;
/// What a policy chooses from, and what it takes.
#[derive(Clone, Copy)]
pub enum Choice {
    /// The emptiest of all.
    Greedy,
    /// The emptiest of so many that are drawn at random.
    Random(f64),
    /// The emptiest of those that were closed first, which are such a share of all superblocks; of none: the very first.
    Oldest(f64),
}

/// First in, first out, where what is entirely valid is collected, too, in the limit of large superblocks: a unit is moved once for each
/// cycle of the log in which it was not overwritten (Desnoyers, "Analytic Models of SSD Write Performance").
pub fn log(op: f64) -> f64 {
    let (mut low, mut high) = (1.0f64, 1000.0f64);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if 1.0 + 1.0 / (libm::exp((1.0 + op) / middle) - 1.0) > middle { low = middle } else { high = middle }
    }
    low
}

/// Write amplification with this spare capacity.
pub fn amplification(op: f64, hot: Hot, choice: Choice) -> f64 {
    let is_fast = hot.data != hot.writes && !matches!(choice, Choice::Oldest(_));
    MeanField::new(op, hot, STEPS[usize::from(is_fast)]).fixed_point(choice)
}

/// Shares of superblocks by valid units of the hot class and of the cold one.
type Shares = Vec<[f64; N]>;

struct MeanField {
    valid: f64,
    step: f64,
    hot: Hot,
    /// ln(n!)
    ln_factorials: Vec<f64>,
}

impl MeanField {
    fn new(op: f64, hot: Hot, step: f64) -> Self {
        let mut ln_factorials = vec![0.0; N + 1];
        for n in 1..=N {
            ln_factorials[n] = ln_factorials[n - 1] + libm::log(n as f64);
        }
        MeanField { valid: 1.0 / (1.0 + op), step, hot, ln_factorials }
    }

    fn ln_choose(&self, n: usize, k: usize) -> f64 {
        self.ln_factorials[n] - self.ln_factorials[k] - self.ln_factorials[n - k]
    }

    /// Of `n`, each with a probability, that `k` are.
    fn binomial(&self, n: usize, k: usize, each: f64) -> f64 {
        if each <= 0.0 || each >= 1.0 {
            return f64::from(k == if each <= 0.0 { 0 } else { n });
        }
        libm::exp(self.ln_choose(n, k) + k as f64 * libm::log(each) + (n - k) as f64 * libm::log(1.0 - each))
    }

    /// Of `drawn` among `hot` and `cold` ones, that `k` are hot.
    fn hypergeometric(&self, hot: usize, cold: usize, drawn: usize, k: usize) -> f64 {
        libm::exp(
            self.ln_choose(hot, k) + self.ln_choose(cold, drawn - k) - self.ln_choose(hot + cold, drawn),
        )
    }

    /// The fixed point. Superblocks from which the policy does not choose yet wait in the order in which they were closed; those that would free too
    /// little when their turn comes are passed over until they free enough.
    fn fixed_point(&self, choice: Choice) -> f64 {
        let Hot { data, writes } = self.hot;
        let units = UNITS as f64;
        let host: Vec<f64> = (0..N).map(|hot| self.binomial(UNITS, hot, writes)).collect();
        // At the start, what random overwriting of all would leave.
        let even: Vec<f64> = (0..N).map(|hot| self.binomial(UNITS, hot, data)).collect();
        let mut filled = self.overwritten(&even, self.valid, self.valid);
        let mut shares = filled.clone();
        if let Choice::Oldest(window) = choice {
            shares.iter_mut().flatten().for_each(|share| *share *= window);
        }
        let (mut look, mut moved) = (0.0, self.valid * units);
        let mut time = 0.0;
        // Until nothing changes: the less is spare, the less is written for each victim.
        // Cold data, which are seldom written, take longest where all superblocks are looked at.
        let long =
            if matches!(choice, Choice::Oldest(_)) || self.hot.data == self.hot.writes { 12.0 } else { 30.0 };
        let end = long * self.valid / (1.0 - self.valid);
        while time < end {
            // Writes of the host for each victim, in relation to all valid units.
            let written = (units - moved) / (self.valid * units);
            self.overwrite(&mut shares, self.step * written);
            let is_candidate = |hot: usize, cold: usize| hot + cold <= UNITS - STRIPE;
            let of_candidates = |shares: &Shares| {
                let mut sum = 0.0;
                for_each(|hot, cold| {
                    if is_candidate(hot, cold) {
                        sum += shares[hot][cold]
                    }
                });
                sum
            };
            let taken = match choice {
                Choice::Oldest(window) => {
                    ((window + self.step - of_candidates(&shares)) / of_candidates(&filled)).max(0.0)
                }
                Choice::Greedy | Choice::Random(_) => self.step,
            };
            for_each(|hot, cold| shares[hot][cold] += taken * filled[hot][cold]);
            let victims = victims(&shares, choice, self.step);
            moved = 0.0;
            for_each(|hot, cold| {
                moved += (hot + cold) as f64 * victims[hot][cold] / self.step;
                shares[hot][cold] -= victims[hot][cold];
            });
            if time >= look {
                look += LOOK;
                let collected = self.collected(&victims);
                let by_collector = moved / units;
                let mix = host.iter().zip(&collected).map(|(own, moved)| own + by_collector * (moved - own));
                let waiting = 1.0 - shares.iter().flatten().sum::<f64>();
                let waited = waiting.max(0.0) * written;
                filled = self.overwritten(
                    &mix.collect::<Vec<_>>(),
                    libm::exp(-waited * writes / data),
                    libm::exp(-waited * (1.0 - writes) / (1.0 - data)),
                );
            }
            time += self.step;
        }
        units / (units - moved)
    }

    /// Overwrites a share `written` of all valid units.
    fn overwrite(&self, shares: &mut Shares, written: f64) {
        let Hot { data, writes } = self.hot;
        let (of_hot, of_cold) = (written * writes / data, written * (1.0 - writes) / (1.0 - data));
        // By rising numbers of units: each gets what it loses to only after it has given.
        for_each(|hot, cold| {
            let share = shares[hot][cold];
            let (less_hot, less_cold) = (of_hot * hot as f64 * share, of_cold * cold as f64 * share);
            shares[hot][cold] -= less_hot + less_cold;
            if hot > 0 {
                shares[hot - 1][cold] += less_hot;
            }
            if cold > 0 {
                shares[hot][cold - 1] += less_cold;
            }
        });
    }

    /// Full superblocks, given by their hot units, after each unit was kept with these probabilities.
    fn overwritten(&self, full: &[f64], keeps_hot: f64, keeps_cold: f64) -> Shares {
        let mut shares = vec![[0.0; N]; N];
        for (all_hot, share) in full.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let of = |all: usize, keeps: f64| -> Vec<f64> {
                (0..=all).map(|kept| self.binomial(all, kept, keeps)).collect()
            };
            let cold = of(UNITS - all_hot, keeps_cold);
            for (hot, kept) in of(all_hot, keeps_hot).into_iter().enumerate() {
                shares[hot].iter_mut().zip(&cold).for_each(|(own, cold)| *own += share * kept * cold);
            }
        }
        shares
    }

    /// Hot units of the superblocks that the collector fills with victims one after the other, one of which is cut where a superblock begins.
    fn collected(&self, victims: &Shares) -> Vec<f64> {
        if self.hot.data == self.hot.writes {
            return (0..N).map(|hot| self.binomial(UNITS, hot, self.hot.data)).collect(); // what is moved has no class
        }
        let mut all = Vec::new();
        for_each(|hot, cold| all.push((hot, cold, victims[hot][cold] / self.step)));
        all.retain(|(hot, cold, share)| hot + cold > 0 && *share > 1e-7);
        let mean: f64 = all.iter().map(|(hot, cold, share)| share * (hot + cold) as f64).sum();
        let total: f64 = all.iter().map(|(.., share)| share).sum();
        // By units left to fill: hot ones among them.
        let mut rest = vec![[0.0; N]; N];
        rest[0][0] = 1.0;
        for left in 1..N {
            for (hot, cold, share) in &all {
                let (filled, share) = (hot + cold, share / total);
                if filled <= left {
                    for more in 0..=left - filled {
                        rest[left][more + hot] += share * rest[left - filled][more];
                    }
                    continue;
                }
                let own = left.saturating_sub(*cold)..=left.min(*hot);
                own.for_each(|own| rest[left][own] += share * self.hypergeometric(*hot, *cold, left, own));
            }
        }
        let mut filled = vec![0.0; N];
        for (hot, cold, share) in &all {
            // The one that is cut: the longer it is, the more often.
            for left in 1..=(hot + cold) {
                for own in left.saturating_sub(*cold)..=left.min(*hot) {
                    let share = share / mean * self.hypergeometric(*hot, *cold, left, own);
                    for more in 0..=UNITS - left {
                        filled[own + more] += share * rest[UNITS - left][more];
                    }
                }
            }
        }
        filled
    }
}

/// What is taken of each in a step.
fn victims(shares: &Shares, choice: Choice, step: f64) -> Shares {
    let mut by_valid = [0.0; N];
    for_each(|hot, cold| by_valid[hot + cold] += shares[hot][cold]);
    let candidates = &by_valid[..=UNITS - STRIPE];
    let all: f64 = candidates.iter().sum();
    let mut taken = [0.0; N];
    let (mut left, mut at_least) = (step, all);
    for (units, share) in candidates.iter().enumerate() {
        let above = (at_least - share).max(0.0);
        taken[units] = match choice {
            Choice::Random(choices) => {
                step * (libm::pow(at_least / all, choices) - libm::pow(above / all, choices))
            }
            _ => share.min(left),
        };
        left -= taken[units];
        at_least = above;
    }
    let mut victims = vec![[0.0; N]; N];
    for_each(|hot, cold| {
        let all = by_valid[hot + cold];
        if all > 0.0 {
            victims[hot][cold] = taken[hot + cold] * shares[hot][cold] / all;
        }
    });
    victims
}

fn for_each(mut what: impl FnMut(usize, usize)) {
    (0..N).for_each(|hot| (0..N - hot).for_each(|cold| what(hot, cold)));
}
