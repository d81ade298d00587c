//! Named key-value workloads.

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::key::KeyOrder;
use super::mixgraph;
use super::op::Verb;
use super::plan::{KvChoice, KvDraws, KvScans};
use super::value::{Lengths, MIXGRAPH_BYTES_MAX, ValueSizes};
use super::ycsb::Ycsb;
use crate::distribution::Distribution;

/// A named workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Stores all key-value pairs in key order.
    Fillseq,
    /// Stores key-value pairs at random: some never, some several times.
    Fillrandom,
    /// Stores all key-value pairs once, in random order.
    Filluniquerandom,
    /// Retrieves key-value pairs at random.
    Readrandom,
    /// Deletes key-value pairs at random.
    Deleterandom,
    /// Checks keys at random for existence.
    Existrandom,
    /// Scans from random keys.
    Scanrandom,
    /// A mix with the shares `store`, `read`, `delete`, `exist` and `scan`.
    Mixed,
    /// BandSlim's W(A): stores key-value pairs in key order, with values of one length.
    #[value(name = "w-a")]
    WA,
    /// BandSlim's W(B): unique hashed keys in random order, nine values of 8 B to one of 2 KiB.
    #[value(name = "w-b")]
    WB,
    /// BandSlim's W(C): unique hashed keys in random order, nine values of 2 KiB to one of 8 B.
    #[value(name = "w-c")]
    WC,
    /// BandSlim's W(D): unique hashed keys in random order, values of 8 B, 16 B and so on to 2 KiB in equal shares.
    #[value(name = "w-d")]
    WD,
    /// BandSlim's W(M), the put-only MixGraph: unique hashed keys in random order, values up to 1 KiB.
    #[value(name = "w-m")]
    WM,
    /// MixGraph's retrieves, stores and scans on random keys.
    MixgraphAllRandom,
    /// The same with the key distribution of a social graph.
    MixgraphPrefixDist,
    /// Loads the records of a YCSB workload (`file`).
    YcsbLoad,
    /// Runs a YCSB workload (`file`).
    Ycsb,
    /// The load of a cache: CacheLib's distributions (`sizes`, `popularity`).
    Cachelib,
    /// Replays a CacheLib trace (`file`).
    Trace,
}

impl Preset {
    /// All workloads.
    pub const ALL: [Preset; 19] = [
        Preset::Fillseq,
        Preset::Fillrandom,
        Preset::Filluniquerandom,
        Preset::Readrandom,
        Preset::Deleterandom,
        Preset::Existrandom,
        Preset::Scanrandom,
        Preset::Mixed,
        Preset::WA,
        Preset::WB,
        Preset::WC,
        Preset::WD,
        Preset::WM,
        Preset::MixgraphAllRandom,
        Preset::MixgraphPrefixDist,
        Preset::YcsbLoad,
        Preset::Ycsb,
        Preset::Cachelib,
        Preset::Trace,
    ];

    /// Name in scenarios.
    pub const fn name(self) -> &'static str {
        match self {
            Preset::Fillseq => "fillseq",
            Preset::Fillrandom => "fillrandom",
            Preset::Filluniquerandom => "filluniquerandom",
            Preset::Readrandom => "readrandom",
            Preset::Deleterandom => "deleterandom",
            Preset::Existrandom => "existrandom",
            Preset::Scanrandom => "scanrandom",
            Preset::Mixed => "mixed",
            Preset::WA => "w-a",
            Preset::WB => "w-b",
            Preset::WC => "w-c",
            Preset::WD => "w-d",
            Preset::WM => "w-m",
            Preset::MixgraphAllRandom => "mixgraph-all-random",
            Preset::MixgraphPrefixDist => "mixgraph-prefix-dist",
            Preset::YcsbLoad => "ycsb-load",
            Preset::Ycsb => "ycsb",
            Preset::Cachelib => "cachelib",
            Preset::Trace => "trace",
        }
    }

    /// Lengths of its values, where the workload defines them.
    pub fn lengths(self) -> Option<ValueSizes> {
        match self {
            Preset::WB => Some(ValueSizes::small_and_large(90)),
            Preset::WC => Some(ValueSizes::small_and_large(10)),
            Preset::WD => Some(ValueSizes::nine()),
            Preset::WM | Preset::MixgraphAllRandom | Preset::MixgraphPrefixDist => {
                Some(ValueSizes::MixGraph { max: MIXGRAPH_BYTES_MAX })
            }
            _ => None,
        }
    }

    /// Whether the scenario has to set the lengths of values.
    pub const fn wants_lengths(self) -> bool {
        matches!(
            self,
            Preset::Fillseq | Preset::Fillrandom | Preset::Filluniquerandom | Preset::WA | Preset::Mixed
        )
    }

    /// Whether it is read from the file in the key `file`.
    pub const fn wants_file(self) -> bool {
        matches!(self, Preset::Ycsb | Preset::YcsbLoad | Preset::Trace)
    }

    /// Whether the key `distribution` may set the distribution of random keys.
    pub const fn takes_distribution(self) -> bool {
        matches!(
            self,
            Preset::Fillrandom
                | Preset::Readrandom
                | Preset::Deleterandom
                | Preset::Existrandom
                | Preset::Scanrandom
                | Preset::Mixed
        )
    }

    /// The draws of a workload without a parameter file.
    pub fn draws(self, lengths: ValueSizes, distribution: Distribution, scan: u32) -> KvDraws {
        let lengths = Lengths::Stated(self.lengths().unwrap_or(lengths));
        let random = KvChoice::Spread(distribution);
        let (verb, choice) = match self {
            Preset::Fillseq | Preset::WA | Preset::WB | Preset::WC | Preset::WD | Preset::WM => {
                (Verb::Store, KvChoice::Sequential)
            }
            Preset::Filluniquerandom => (Verb::Store, KvChoice::Once),
            Preset::Readrandom => (Verb::Retrieve, random),
            Preset::Deleterandom => (Verb::Delete, random),
            Preset::Existrandom => (Verb::Exist, random),
            Preset::Scanrandom => (Verb::Scan, random),
            Preset::MixgraphPrefixDist => (Verb::Store, KvChoice::Prefixes),
            _ => (Verb::Store, random),
        };
        let is_mix = matches!(self, Preset::MixgraphAllRandom | Preset::MixgraphPrefixDist);
        let [retrieve, store, seek] = mixgraph::MIX;
        let mix = match is_mix {
            true => vec![(Verb::Retrieve, retrieve), (Verb::Store, store), (Verb::Scan, seek)],
            false => vec![(verb, 1.0)],
        };
        let scans = if is_mix { KvScans::MixGraph } else { KvScans::Fixed(scan) };
        // BandSlim, Evaluation Setup: "unique keys of 4 bytes generated by a hash function". Pairs are stored
        // in order of their numbers, and scattered keys are a permutation of all keys: unique, and in random
        // order.
        let order = match self {
            Preset::WB | Preset::WC | Preset::WD | Preset::WM => KeyOrder::Scattered,
            _ => KeyOrder::Rising,
        };
        KvDraws { mix, choice, order, lengths, scans }
    }

    /// The draws of a YCSB workload: loading its records, or its operations.
    pub fn ycsb(self, ycsb: &Ycsb) -> KvDraws {
        let mix = match self {
            Preset::YcsbLoad => vec![(Verb::Insert, 1.0)],
            _ => ycsb.mix.clone(),
        };
        KvDraws {
            mix,
            choice: KvChoice::Records(ycsb.choice),
            order: if ycsb.is_ordered { KeyOrder::Rising } else { KeyOrder::Scattered },
            lengths: Lengths::Stated(ValueSizes::Fixed(ycsb.value_bytes)),
            scans: KvScans::Ycsb { range: ycsb.scan, lengths: ycsb.scan_lengths },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // If flags refused a name that scenarios accept, the help text would be wrong.
    #[test]
    fn flags_take_the_names_that_scenarios_take() {
        for preset in <Preset as clap::ValueEnum>::value_variants() {
            let value = clap::ValueEnum::to_possible_value(preset).unwrap();
            assert_eq!(value.get_name(), preset.name());
        }
    }
}
