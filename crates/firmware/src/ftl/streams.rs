//! The streams of units: what a drive's stream policy is asked, and told.
//!
//! A drive with the built-in policy `separate` has none of this.

use crate::ftl::blocks::Lane;
use crate::ftl::config::FtlConfig;
use crate::policy::stream::{Filler, Source, Stream, StreamCounts, StreamView};
use byteway_clock::random::{Rng, Stream as Random};
use byteway_flash::BlockId;
use byteway_policy::Asked;

/// Units whose last writes are allocated together.
const PAGE_UNITS: usize = 512;

/// When the host wrote units, plus one; 0 for never. Units that were not written cost nothing.
struct LastWrites(Vec<Option<Box<[u64; PAGE_UNITS]>>>);

impl LastWrites {
    fn get(&self, unit: u64) -> Option<u64> {
        let page = self.0.get(unit as usize / PAGE_UNITS)?.as_ref()?;
        page[unit as usize % PAGE_UNITS].checked_sub(1)
    }

    fn set(&mut self, unit: u64, now: u64) {
        let page = self.0[unit as usize / PAGE_UNITS].get_or_insert_with(|| Box::new([0; PAGE_UNITS]));
        page[unit as usize % PAGE_UNITS] = now + 1;
    }
}

/// The policy of a drive, and what it may ask for.
pub(in crate::ftl) struct Streams {
    asked: Asked<dyn Stream, Random>,
    counts: StreamCounts,
    /// Units of the host.
    units: u64,
    /// Units that the host has written.
    now: u64,
    last_writes: Option<LastWrites>,
    /// What filled each superblock, since power-on.
    sources: Vec<Source>,
}

impl Streams {
    /// The streams of a drive, if its policy is to be asked.
    pub(in crate::ftl) fn new(config: &FtlConfig, counts: StreamCounts, blocks: u32) -> Option<Box<Self>> {
        if config.streams.is_default() {
            return None;
        }
        let mut asked = Asked::new("stream policy", &config.streams, Rng::new(config.seed).stream("streams"));
        let needs_last_write = asked.ask(|policy, _| match policy.counts() == counts {
            true => Ok(policy.needs_last_write()),
            false => Err("its streams are others each time that it is asked for them".to_owned()),
        });
        let needs_last_write = needs_last_write.unwrap_or(false);
        let pages = config.user_units.div_ceil(PAGE_UNITS as u64) as usize;
        let last_writes = needs_last_write.then(|| LastWrites((0..pages).map(|_| None).collect()));
        let unknown = Source { filled_by: None, opened_at: 0 };
        Some(Box::new(Streams {
            asked,
            counts,
            units: config.user_units,
            now: 0,
            last_writes,
            sources: vec![unknown; blocks as usize],
        }))
    }

    /// The stream of a unit that is buffered, or of a translation page.
    pub(in crate::ftl) fn place_written(&mut self, unit: u64) -> u8 {
        if unit >= self.units {
            return 0;
        }
        let stream = self.place(unit, None);
        if let Some(last_writes) = &mut self.last_writes {
            last_writes.set(unit, self.now);
        }
        self.now += 1;
        stream
    }

    /// The stream of a valid unit, or translation page, of a superblock that is being emptied.
    pub(in crate::ftl) fn place_moved(&mut self, unit: u64, from: BlockId) -> u8 {
        if unit >= self.units {
            return 0;
        }
        self.place(unit, Some(self.sources[from.0 as usize]))
    }

    fn place(&mut self, unit: u64, source: Option<Source>) -> u8 {
        let Streams { asked, counts, units, now, last_writes, .. } = self;
        let (units, now) = (*units, *now);
        let last_write = last_writes.as_ref().and_then(|writes| writes.get(unit));
        let count = if source.is_some() { counts.collector } else { counts.host };
        let stream = asked.ask(|policy, random| {
            let stream = policy.place(&mut StreamView { unit, units, now, last_write, source, random });
            if stream < count {
                return Ok(stream as u8);
            }
            let of = if source.is_some() { "the collector" } else { "the host" };
            Err(policy.fault().unwrap_or_else(|| format!("stream {stream} is none of the {count} of {of}")))
        });
        stream.unwrap_or(0)
    }

    /// A superblock was opened.
    pub(in crate::ftl) fn opened(&mut self, block: BlockId, lane: Lane) {
        let filled_by = match lane {
            Lane::Host(stream) => Some(Filler::Host(stream.into())),
            Lane::Collector(stream) => Some(Filler::Collector(stream.into())),
            Lane::Cache | Lane::Cold => None,
        };
        let opened_at = if filled_by.is_some() { self.now } else { 0 };
        self.sources[block.0 as usize] = Source { filled_by, opened_at };
    }

    /// A superblock was chosen to be emptied.
    pub(in crate::ftl) fn collects(&mut self, block: BlockId) {
        let Streams { asked, sources, now, .. } = self;
        asked.ask(|policy, _| {
            policy.collects(sources[block.0 as usize], *now);
            Ok(())
        });
    }

    /// What the policy did wrong, if it did.
    pub(in crate::ftl) fn fault(&self) -> Option<&str> {
        self.asked.fault()
    }
}
