//! Several endpoints as one flash array: each is a controller with a raw flash namespace and some of the channels, for
//! a translation layer on this host.
//!
//! Channels are numbered endpoint by endpoint: of `n` endpoints with `c` channels each, endpoint `e` has channels `e *
//! c` to `e * c + c - 1`. The first endpoint has the system area.
//!
//! What it does not do: it moves nothing directly between endpoints. A copy with sources at another endpoint is read
//! and programmed by the host.

use super::raw_flash::RawFlash;
use byteway_flash::{
    Batch, BlockId, BlockMark, BlockReport, FarFlash, FarProgram, FarRead, FarShape, FarStripe, Geometry,
    Gone, Ppa, Priority, SystemRequest,
};
use std::ops::Range;

/// Endpoints that form one flash array.
pub struct Endpoints {
    parts: Vec<RawFlash>,
    whole: FarShape,
    part: Geometry,
}

impl Endpoints {
    /// Joins endpoints of the same shape.
    ///
    /// # Errors
    /// [`Gone`] if there are none, one can't be identified, or they differ.
    pub async fn join(parts: Vec<RawFlash>) -> Result<Endpoints, Gone> {
        let Some(first) = parts.first() else { return Err(Gone::because("there is no endpoint")) };
        let first = first.describe().await?;
        let mut whole = FarShape {
            geometry: Geometry {
                channels: first.geometry.channels.saturating_mul(parts.len() as u32),
                ..first.geometry
            },
            ..first
        };
        whole.geometry.validate().map_err(Gone::because)?;
        for (number, part) in (1..).zip(&parts[1..]) {
            let shape = part.describe().await?;
            if shape.geometry != first.geometry || shape.wordline != first.wordline {
                return Err(Gone::because(format!("endpoint {number} has another flash than endpoint 0")));
            }
            whole.can_fail |= shape.can_fail;
            whole.has_one_bit_mode &= shape.has_one_bit_mode;
            whole.is_new &= shape.is_new;
            whole.calendar_ns = whole.calendar_ns.max(shape.calendar_ns);
        }
        Ok(Endpoints { parts, whole, part: first.geometry })
    }

    /// The endpoint of a superblock, and the superblock's number there.
    fn place(&self, block: BlockId) -> (&RawFlash, BlockId) {
        let (whole, part) = (&self.whole.geometry, &self.part);
        let (die, number) = (whole.die_of_block(block), block.0 % whole.blocks);
        let (way, channel) = (die / whole.channels, die % whole.channels);
        let own = way * part.channels + channel % part.channels;
        (&self.parts[(channel / part.channels) as usize], part.block(own, number))
    }

    /// The endpoint of a unit, and the unit's address there.
    fn unit(&self, ppa: Ppa) -> (&RawFlash, Ppa) {
        let (whole, part) = (&self.whole.geometry, &self.part);
        let block = whole.block_of(ppa);
        let (stripe, unit) = (whole.stripe_of(ppa), whole.unit_of_stripe(ppa));
        let (end, block) = self.place(block);
        (end, part.ppa(block, stripe, unit))
    }

    /// Copies units from other endpoints, too, by reading and programming them.
    #[cold]
    async fn gather(&self, lane: usize, program: FarProgram<'_>, sources: &[Ppa]) -> Result<bool, Gone> {
        let mut batch = Batch { number: program.batch.number, units: Vec::with_capacity(sources.len()) };
        let mut read = FarStripe::default();
        for (source, (spare, _)) in sources.iter().zip(&program.batch.units) {
            let (end, ppa) = self.unit(*source);
            let mask = 1 << self.part.unit_of_stripe(ppa);
            let (block, stripe) = (self.part.block_of(ppa), self.part.stripe_of(ppa));
            let wanted = FarRead { block, stripe, mask, contents: true, priority: program.priority };
            end.read(lane, wanted, &mut read).await?;
            match read.contents.first() {
                Some(content) if read.unreadable == 0 => batch.units.push((*spare, content.clone())),
                _ => return Ok(false),
            }
        }
        let (end, block) = self.place(program.block);
        end.program(lane, FarProgram { block, batch: &batch, sources: None, ..program }).await
    }
}

impl FarFlash for Endpoints {
    fn lanes(&self) -> usize {
        self.parts.iter().map(FarFlash::lanes).min().unwrap_or(1)
    }

    async fn describe(&self) -> Result<FarShape, Gone> {
        Ok(self.whole)
    }

    async fn report(&self, blocks: Range<u32>, out: &mut Vec<BlockReport>) -> Result<(), Gone> {
        let of_die = self.whole.geometry.blocks;
        let mut first = blocks.start;
        while first < blocks.end {
            let last = ((first / of_die + 1) * of_die).min(blocks.end);
            let (end, block) = self.place(BlockId(first));
            end.report(block.0..block.0 + (last - first), out).await?;
            first = last;
        }
        Ok(())
    }

    async fn read(&self, lane: usize, read: FarRead, out: &mut FarStripe) -> Result<(), Gone> {
        let (end, block) = self.place(read.block);
        end.read(lane, FarRead { block, ..read }, out).await
    }

    async fn program(&self, lane: usize, program: FarProgram<'_>) -> Result<bool, Gone> {
        let (end, block) = self.place(program.block);
        let Some(sources) = program.sources else {
            return end.program(lane, FarProgram { block, ..program }).await;
        };
        let own: Option<Vec<Ppa>> = sources
            .iter()
            .map(|source| {
                Some(self.unit(*source)).filter(|(at, _)| std::ptr::eq(*at, end)).map(|(_, ppa)| ppa)
            })
            .collect();
        match own {
            Some(own) => end.program(lane, FarProgram { block, sources: Some(&own), ..program }).await,
            None => self.gather(lane, program, sources).await,
        }
    }

    async fn erase(&self, lane: usize, block: BlockId, priority: Priority) -> Result<bool, Gone> {
        let (end, block) = self.place(block);
        end.erase(lane, block, priority).await
    }

    async fn mark(&self, block: BlockId, mark: BlockMark) -> Result<(), Gone> {
        let (end, block) = self.place(block);
        end.mark(block, mark).await
    }

    async fn sync(&self) -> Result<(), Gone> {
        for part in &self.parts {
            part.sync().await?;
        }
        Ok(())
    }

    async fn system(&self, request: SystemRequest) -> Result<Vec<std::rc::Rc<[u8]>>, Gone> {
        self.parts[0].system(request).await
    }
}
