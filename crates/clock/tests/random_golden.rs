//! The random streams and distributions: pinned bits, and agreement with the mathematics.
//!
//! A change to a pinned value changes every published result. Don't update one to make the test pass: find
//! out what moved, say so in the changelog, and run the published experiments again.
//!
//! Verified here: the first eight results of everything that draws; independence of streams; distribution
//! functions and means at 100,000 draws; that no parameter gives a result that is not a number or outside its
//! range. Not verified: the generator's own quality, which is its authors' business.

use byteway_clock::permutation::Permutation;
use byteway_clock::random::{Exponential, GeneralizedPareto, Normal, Pareto, Rng, Stream, Uniform, Zipf};
use proptest::prelude::*;

const DRAWS: usize = 100_000;

fn golden() -> Stream {
    Rng::new(42).stream("golden")
}

/// Holds eight results against the pinned ones; a failure prints the new ones as they are written here.
fn pin(what: &str, pinned: [u64; 8], mut draw: impl FnMut(&mut Stream) -> u64) {
    let mut stream = golden();
    let drawn: [u64; 8] = std::array::from_fn(|_| draw(&mut stream));
    let listing: String = drawn.iter().map(|value| format!("{value:#x}, ")).collect();
    assert!(drawn == pinned, "{what} draws [{listing}], and every published result with it is different");
}

/// Without this, an upgrade of a library or a harmless clean-up would change all results unnoticed.
#[test]
fn raw_draws_are_pinned() {
    pin(
        "next_u64",
        [
            0xd06c17128e947981,
            0xf6eb3e9568299bad,
            0xb70b8125f4c60372,
            0x91d616713ee49c6a,
            0x32daedc6b7e33c26,
            0x2c238bdf67b97d20,
            0xff69d15e73a07378,
            0x942f8a43992f6429,
        ],
        Stream::next_u64,
    );
    pin("below(1000)", [0x32e, 0x3c4, 0x2cb, 0x239, 0xc6, 0xac, 0x3e5, 0x242], |stream| stream.below(1000));
    pin(
        "below(3 * 2^62)",
        [
            0x9c51114deaef5b20,
            0xb9306ef00e1f34c1,
            0x8948a0dc77948295,
            0x6d6090d4ef2b754f,
            0x2624325509ea6d1c,
            0x6f23a7b2b2e38b1e,
            0x369f990dfbf4f7f9,
            0x53396b6c904929df,
        ],
        |stream| stream.below(3 << 62),
    );
    pin("range(10..=19)", [0x12, 0x13, 0x11, 0xf, 0xb, 0xb, 0x13, 0xf], |stream| stream.range(10..=19));
    pin(
        "unit",
        [
            0x3fea0d82e251d28f,
            0x3feedd67d2ad0533,
            0x3fe6e17024be98c0,
            0x3fe23ac2ce27dc93,
            0x3fc96d76e35bf19c,
            0x3fc611c5efb3dcbc,
            0x3fefed3a2bce740e,
            0x3fe285f1487325ec,
        ],
        |stream| stream.unit().to_bits(),
    );
    pin(
        "unit_open",
        [
            0x3fea0d82e251d28f,
            0x3feedd67d2ad0533,
            0x3fe6e17024be98c1,
            0x3fe23ac2ce27dc93,
            0x3fc96d76e35bf19c,
            0x3fc611c5efb3dcbc,
            0x3fefed3a2bce740f,
            0x3fe285f1487325ed,
        ],
        |stream| stream.unit_open().to_bits(),
    );
    pin("chance(0.3)", [0x0, 0x0, 0x0, 0x0, 0x1, 0x1, 0x0, 0x0], |stream| stream.chance(0.3).into());

    let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
    golden().shuffle(&mut order);
    let mut order = order.into_iter();
    pin("shuffle", [0x5, 0x1, 0x3, 0x0, 0x2, 0x4, 0x7, 0x6], |_| order.next().expect("eight items"));
}

/// As above, for what is computed from the raw draws: here the mathematical library shows as well.
#[test]
fn distributions_are_pinned() {
    let d = Uniform::new(100..=4195).unwrap();
    pin("uniform", [0xd6a, 0xfd2, 0xbd4, 0x981, 0x391, 0x326, 0x105a, 0x9a6], |stream| d.sample(stream));
    let d = Zipf::new(1_000_000, 0.99).unwrap();
    pin("zipf 0.99", [0x8, 0x0, 0x29, 0x15e, 0x105ed, 0x177d7, 0x0, 0x133], |stream| d.sample(stream));
    let d = Zipf::new(1_000_000, 1.0).unwrap();
    pin("zipf 1", [0x7, 0x0, 0x21, 0x10f, 0xdf1f, 0x145a3, 0x0, 0xed], |stream| d.sample(stream));
    let d = Zipf::new(1 << 40, 1.2).unwrap();
    pin("zipf 1.2", [0x1, 0x0, 0x2, 0x8, 0x69e, 0xd43, 0x0, 0x8], |stream| d.sample(stream));
    let d = Normal::new(10.0, 2.5).unwrap();
    pin(
        "normal",
        [
            0x4027208487c5de01,
            0x40204a71b5f816e2,
            0x402835e62298fa02,
            0x4023b3b86345a29a,
            0x402920e635f0aa0a,
            0x40291cfbbaa5efe9,
            0x4029b9d8993bcab6,
            0x40201bd31a980bbc,
        ],
        |stream| d.sample(stream).to_bits(),
    );
    let d = Exponential::new(100.0).unwrap();
    pin(
        "exponential",
        [
            0x40348fa76cd146dc,
            0x400ce4d83fa1a585,
            0x4040c5b4a34df93e,
            0x404c2277d70241de,
            0x406433d325e0a622,
            0x4065f91418071d4c,
            0x3fcd5db9874f989a,
            0x404b55e745e70a06,
        ],
        |stream| d.sample(stream).to_bits(),
    );
    let d = Pareto::new(4.0, 1.5).unwrap();
    pin(
        "pareto",
        [
            0x401259c1da2564ef,
            0x401063d2505a7c0f,
            0x4014027e68f2c708,
            0x40174869364d9c37,
            0x40277f6d1cc6f17c,
            0x4029d322121f6f71,
            0x40100645022520f9,
            0x4017093e505a3e02,
        ],
        |stream| d.sample(stream).to_bits(),
    );
    let d = GeneralizedPareto::new(0.0, 0.2615, 25.45).unwrap();
    pin(
        "generalized pareto",
        [
            0x40158111fd79503f,
            0x3fed8da8cd6718ad,
            0x4021d86ec1b1037c,
            0x402edb0330675780,
            0x4049984a102114bf,
            0x404c6598a2106e2d,
            0x3fade757045fe619,
            0x402dea41ec344644,
        ],
        |stream| d.sample(stream).to_bits(),
    );
    let d = GeneralizedPareto::new(0.0, 0.0, 25.45).unwrap();
    pin(
        "generalized pareto, k 0",
        [
            0x4014ee6657bc77c1,
            0x3fed69fce8b679e8,
            0x402112fe088c4e1c,
            0x402ca41cd0208184,
            0x404490eaeaa7c3bf,
            0x40465e54749ecb64,
            0x3fade50b343e15b7,
            0x402bd3dd9caa2c82,
        ],
        |stream| d.sample(stream).to_bits(),
    );
    let d = GeneralizedPareto::new(3.0, -0.5, 2.0).unwrap();
    pin(
        "generalized pareto, k -0.5",
        [
            0x400b20570fd9ca9e,
            0x4008929bef9a9ef2,
            0x400cf0f126a398ca,
            0x400fd8f33b531616,
            0x4014de6444747af6,
            0x40155b35f791e36e,
            0x400809644aeb0287,
            0x400fa758392c0aa0,
        ],
        |stream| d.sample(stream).to_bits(),
    );
}

/// A permutation is the layout of a preconditioned drive: moving it moves every later result.
#[test]
fn permutations_are_pinned() {
    for (n, pinned) in [
        (1000, [0x3e4, 0x151, 0x7a, 0x3c8, 0xe0, 0x3e, 0x31e, 0x367]),
        (1 << 27, [0x16cbeb2, 0x2e45e26, 0x3d6a4f9, 0x59f4632, 0x11d321d, 0x14f0f75, 0x7d0f34d, 0x588cbae]),
        (
            1 << 40,
            [
                0x9b5a5ad65a,
                0xec4a90eb81,
                0x3585c16992,
                0xbcbe472efa,
                0x2934584a93,
                0x8e05bb4175,
                0x783a2985da,
                0xdeaa984d30,
            ],
        ),
    ] {
        let permutation = Permutation::new(42, n).unwrap();
        let mut i = 0..;
        pin(&format!("permutation of {n}"), pinned, |_| permutation.forward(i.next().expect("endless")));
    }
}

/// Without named streams, a die added to a drive would change every other die's errors.
#[test]
fn a_consumer_changes_no_other_draw() {
    let rng = Rng::new(7);
    let mut alone = rng.stream("die-3");
    let expected: Vec<u64> = (0..100).map(|_| alone.next_u64()).collect();

    let mut before = rng.stream("die-2");
    before.next_u64();
    let mut again = rng.stream("die-3");
    for value in expected {
        rng.stream("late").next_u64();
        before.next_u64();
        assert_eq!(again.next_u64(), value);
    }
}

/// Names that differ in a digit, or seeds that differ by one, must not give related streams.
#[test]
fn similar_names_and_seeds_are_unrelated() {
    let names = (0..DRAWS).map(|i| Rng::new(1).stream(&format!("die-{i}")));
    let seeds = (0..DRAWS).map(|i| Rng::new(i as u64).stream("die-3"));
    for (what, streams) in [("names", names.collect::<Vec<_>>()), ("seeds", seeds.collect())] {
        let mut last = 0.5;
        let (mut first, mut distance) = (Vec::new(), Vec::new());
        for mut stream in streams {
            let unit = stream.unit();
            first.push(unit);
            distance.push((unit - last + 1.0) % 1.0);
            last = unit;
        }
        follows(&format!("first draws over {what}"), first, |x| x);
        follows(&format!("distances over {what}"), distance, |x| x);
    }
}

/// Multiplication without rejection would give every third value below 3 * 2^62 twice as often.
#[test]
fn below_is_unbiased() {
    let mut stream = golden();
    let mut counts = [0_u32; 3];
    (0..DRAWS).for_each(|_| counts[(stream.below(3 << 62) % 3) as usize] += 1);
    for count in counts {
        assert!(count.abs_diff(33_333) < 500, "{counts:?} should be equal within 3.3 standard deviations");
    }
}

/// The ends of a range, and the whole of it, where the number of values does not fit 64 bits.
#[test]
fn a_range_includes_its_ends() {
    let mut stream = golden();
    let drawn: Vec<u64> = (0..1000).map(|_| stream.range(5..=7)).collect();
    assert!((5..=7).all(|value| drawn.contains(&value)) && drawn.iter().all(|value| (5..=7).contains(value)));
    assert_eq!(stream.range(9..=9), 9);
    assert_eq!(golden().range(0..=u64::MAX), golden().next_u64());
}

/// A rate of 0 must never fire and a rate of 1 always, and a rate between must be met.
#[test]
fn chance_meets_its_rate() {
    let mut stream = golden();
    assert!((0..1000).all(|_| !stream.chance(0.0) && stream.chance(1.0) && !stream.chance(f64::NAN)));
    let hits = (0..DRAWS).filter(|_| stream.chance(0.3)).count();
    assert!(hits.abs_diff(30_000) < 480, "{hits} of 100,000 at 0.3: beyond 3.3 standard deviations");
}

/// The classic mistake of a shuffle draws from all places each time, and its orders are unequal.
#[test]
fn shuffle_gives_every_order() {
    let mut stream = golden();
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..60_000 {
        let mut order = [0, 1, 2];
        stream.shuffle(&mut order);
        *counts.entry(order).or_insert(0_u32) += 1;
    }
    assert_eq!(counts.len(), 6);
    assert!(counts.values().all(|count| count.abs_diff(10_000) < 330), "{counts:?} should be equal");
    stream.shuffle::<u8>(&mut []);
}

/// Holds the largest distance between the samples' distribution function and `cdf` against its 99.9 %
/// quantile (Kolmogorov and Smirnov).
fn follows(what: &str, mut samples: Vec<f64>, cdf: impl Fn(f64) -> f64) {
    samples.sort_by(f64::total_cmp);
    let count = samples.len() as f64;
    let distance = samples.iter().enumerate().fold(0.0_f64, |worst, (i, &x)| {
        let expected = cdf(x);
        worst.max((expected - i as f64 / count).abs()).max((expected - (i + 1) as f64 / count).abs())
    });
    let limit = 1.95 / count.sqrt();
    assert!(distance < limit, "{what}: {distance} away from its distribution function, at most {limit}");
}

fn samples(mut sample: impl FnMut(&mut Stream) -> f64) -> Vec<f64> {
    let mut stream = golden();
    (0..DRAWS).map(|_| sample(&mut stream)).collect()
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// A wrong formula gives plausible numbers: only the distribution function tells.
#[test]
fn continuous_distributions_follow_their_functions() {
    follows("unit", samples(Stream::unit), |x| x);
    follows("unit_open", samples(Stream::unit_open), |x| x);

    let d = Normal::new(10.0, 2.5).unwrap();
    let drawn = samples(|stream| d.sample(stream));
    assert!((mean(&drawn) - 10.0).abs() < 0.026, "normal: mean {}", mean(&drawn));
    follows("normal", drawn, |x| 0.5 * libm::erfc((10.0 - x) / 2.5 / 2.0_f64.sqrt()));

    let d = Exponential::new(100.0).unwrap();
    let drawn = samples(|stream| d.sample(stream));
    assert!((mean(&drawn) - 100.0).abs() < 1.04, "exponential: mean {}", mean(&drawn));
    follows("exponential", drawn, |x| -libm::expm1(-x / 100.0));

    // Shape 3: mean scale * 3 / 2, variance scale^2 * 3 / 4.
    let d = Pareto::new(4.0, 3.0).unwrap();
    let drawn = samples(|stream| d.sample(stream));
    assert!((mean(&drawn) - 6.0).abs() < 0.036, "pareto: mean {}", mean(&drawn));
    follows("pareto", drawn, |x| 1.0 - libm::pow(4.0 / x, 3.0));

    for k in [-1.5, -0.5, -1e-9, 1e-9, 0.2615, 0.9, 2.0] {
        let d = GeneralizedPareto::new(3.0, k, 25.45).unwrap();
        follows(&format!("generalized pareto, k {k}"), samples(|stream| d.sample(stream)), |x| {
            1.0 - libm::pow((1.0 + k * (x - 3.0) / 25.45).max(0.0), -1.0 / k)
        });
    }
    let d = GeneralizedPareto::new(3.0, 0.0, 25.45).unwrap();
    follows("generalized pareto, k 0", samples(|stream| d.sample(stream)), |x| {
        -libm::expm1(-(x - 3.0) / 25.45)
    });
}

/// The formula (u^-k - 1) / k loses all its digits near k = 0, where it must meet the exponential.
#[test]
fn generalized_pareto_is_continuous_at_zero() {
    let (zero, near) = (GeneralizedPareto::new(0.0, 0.0, 1.0), GeneralizedPareto::new(0.0, 1e-14, 1.0));
    let (zero, near) = (zero.unwrap(), near.unwrap());
    let (mut at_zero, mut at_near) = (golden(), golden());
    for _ in 0..1000 {
        let (zero, near) = (zero.sample(&mut at_zero), near.sample(&mut at_near));
        assert!((zero - near).abs() <= 1e-12 * zero, "{zero} at 0, {near} next to it");
    }
}

/// MixGraph's value sizes decide how many payloads fit a fine-grained transfer: the claims rest on these
/// four.
#[test]
fn mixgraph_value_sizes() {
    let d = GeneralizedPareto::new(0.0, 0.2615, 25.45).unwrap();
    let sizes = samples(|stream| match d.sample(stream).ceil() {
        size if size > 1024.0 => size % 1024.0,
        size => size,
    });
    assert!((mean(&sizes) - 34.9).abs() < 0.5, "mean {} B, should be 34.9", mean(&sizes));
    for (most, percent) in [(32.0, 66.3), (35.0, 69.1), (127.0, 95.9)] {
        let found = 100.0 * sizes.iter().filter(|&&size| size <= most).count() as f64 / DRAWS as f64;
        assert!((found - percent).abs() < 0.5, "{found} % are <= {most} B, should be {percent} %");
    }
}

/// The sum of k^-theta for k in 1..=n: term by term, then Euler and Maclaurin.
fn harmonic(n: u64, theta: f64) -> f64 {
    let term = |k: f64| libm::pow(k, -theta);
    let exact = n.min(10_000);
    let sum: f64 = (1..=exact).rev().map(|k| term(k as f64)).sum();
    let (a, b) = (exact as f64, n as f64);
    let integral = if theta == 1.0 {
        libm::log(b / a)
    } else {
        (libm::pow(b, 1.0 - theta) - libm::pow(a, 1.0 - theta)) / (1.0 - theta)
    };
    let slope = |k: f64| -theta * libm::pow(k, -theta - 1.0);
    sum + integral + (term(b) - term(a)) / 2.0 + (slope(b) - slope(a)) / 12.0
}

/// A skew that is off by a little is a cache that hits a little too often; theta 1, and a drive of 2^40
/// units, are where approximations break.
#[test]
fn zipf_follows_its_function() {
    for n in [1, 2, 10, 1000, 1 << 27, 1 << 40] {
        for theta in [0.01, 0.5, 0.99, 1.0 - 1e-12, 1.0, 1.0 + 1e-12, 1.2, 2.0, 5.0] {
            let d = Zipf::new(n, theta).unwrap();
            let mut stream = golden();
            let mut ranks: Vec<u64> = (0..DRAWS).map(|_| d.sample(&mut stream)).collect();
            ranks.sort_unstable();
            let total = harmonic(n, theta);
            // Popular ranks one by one, then in steps to the last.
            let (dense, sparse) =
                (0..30.min(n), (30..41).map(|bit| 1_u64 << bit).chain((5..30).map(|bit| 1 << bit)));
            for rank in dense.chain(sparse).filter(|&rank| rank < n).chain([n - 1]) {
                let expected = harmonic(rank + 1, theta) / total;
                let found = ranks.partition_point(|&drawn| drawn <= rank) as f64 / DRAWS as f64;
                let deviation = (expected * (1.0 - expected)).max(0.0).sqrt() / (DRAWS as f64).sqrt();
                assert!(
                    (found - expected).abs() <= 4.5 * deviation + 1e-9,
                    "n {n}, theta {theta}: P(rank <= {rank}) is {found}, should be {expected}"
                );
            }
        }
    }
}

/// A wrong number in a scenario must be named with what would be right, not draw nonsense later.
#[test]
fn parameters_are_checked() {
    for theta in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(Zipf::new(10, theta).unwrap_err().parameter, "theta");
        assert_eq!(Exponential::new(theta).unwrap_err().parameter, "mean");
        assert_eq!(Pareto::new(theta, 1.0).unwrap_err().parameter, "scale");
        assert_eq!(Pareto::new(1.0, theta).unwrap_err().parameter, "shape");
        assert_eq!(GeneralizedPareto::new(0.0, 0.0, theta).unwrap_err().parameter, "sigma");
    }
    for n in [0, (1 << 40) + 1, u64::MAX] {
        assert_eq!(Zipf::new(n, 1.0).unwrap_err().parameter, "n");
    }
    for bad in [f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(Normal::new(bad, 1.0).unwrap_err().parameter, "mean");
        assert_eq!(Normal::new(0.0, bad).unwrap_err().parameter, "sd");
        assert_eq!(GeneralizedPareto::new(bad, 0.0, 1.0).unwrap_err().parameter, "theta");
        assert_eq!(GeneralizedPareto::new(0.0, bad, 1.0).unwrap_err().parameter, "k");
    }
    #[expect(clippy::reversed_empty_ranges, reason = "the mistake that is to be caught")]
    let reversed = Uniform::new(9..=8);
    assert_eq!(reversed.unwrap_err().to_string(), "uniform: high is 8; valid: at least low, 9");
    let error = Zipf::new(10, -1.0).unwrap_err();
    assert_eq!(error.to_string(), "zipf: theta is -1; valid: a finite number above 0");
}

proptest! {
    /// A scenario may hold any number: what the constructors let through must draw numbers, in range, and
    /// end.
    #[test]
    fn any_parameter_draws_a_number(a in any::<u64>(), b in any::<u64>(), c in any::<u64>()) {
        let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
        let mut stream = Rng::new(a).stream("any");
        for _ in 0..4 {
            if let Ok(d) = Zipf::new(a % Zipf::N_MAX + 1, y.abs()) {
                prop_assert!(d.sample(&mut stream) <= a % Zipf::N_MAX);
            }
            if let Ok(d) = Uniform::new(a..=b) {
                prop_assert!((a..=b).contains(&d.sample(&mut stream)));
            }
            if let Ok(d) = Normal::new(x, y.abs()) {
                prop_assert!(d.sample(&mut stream).is_finite());
            }
            if let Ok(d) = Exponential::new(x.abs()) {
                let drawn = d.sample(&mut stream);
                prop_assert!(drawn.is_finite() && drawn >= 0.0);
            }
            if let Ok(d) = Pareto::new(x.abs(), y.abs()) {
                let drawn = d.sample(&mut stream);
                prop_assert!(drawn.is_finite() && drawn >= x.abs());
            }
            if let Ok(d) = GeneralizedPareto::new(x, y % 1000.0, z.abs()) {
                let drawn = d.sample(&mut stream);
                prop_assert!(drawn.is_finite() && drawn >= x);
            }
        }
    }
}
