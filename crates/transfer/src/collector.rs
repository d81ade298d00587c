//! The device's end: resolves a command's data pointer to extents of host memory.

use crate::extent::Extent;
use crate::{prp, sgl};
use byteway_link::{DeviceEnd, Direction, Epoch, Fault};
use byteway_wire::nvme::command::{PSDT_PRP, PSDT_SGL};
use byteway_wire::nvme::{PrpWalker, Segment, SglDescriptor, SglRules, SglWalker, Sqe, Status};

/// Data pointers that a device supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supported {
    /// SGLs with these rules; None for PRPs only.
    pub sgl: Option<SglRules>,
}

/// Resolves data pointers, one command at a time, with reusable memory.
pub struct Collector {
    supported: Supported,
    prp: PrpWalker,
    sgl: SglWalker,
    list: Box<[u8; 4096]>,
    extents: Vec<Extent>,
    epoch: Epoch,
}

impl Collector {
    /// A collector for a device with these capabilities.
    pub fn new(supported: Supported) -> Self {
        let sgl = SglWalker::new(SglDescriptor::default(), 0, true);
        Collector {
            sgl: match supported.sgl {
                Some(rules) => sgl.with_rules(rules),
                None => sgl,
            },
            supported,
            prp: PrpWalker::new(0, 0, 0, 4096),
            list: Box::new([0; 4096]),
            extents: Vec::new(),
            epoch: Epoch::default(),
        }
    }

    /// Resolves the location of the `bytes` of a command's payload; `to_host` is its direction. Lists are
    /// fetched over the link. Every memory extent has been checked to be memory that the host gave.
    ///
    /// # Errors
    /// The status that the specification requires for the defect of the data pointer.
    pub async fn resolve(
        &mut self,
        port: &DeviceEnd,
        sqe: &Sqe,
        bytes: u64,
        page_bytes: u32,
        to_host: bool,
    ) -> Result<(), Status> {
        self.extents.clear();
        self.epoch = port.epoch(); // before the first wait: memory mapped later is not what the host meant
        match (sqe.psdt(), self.supported.sgl) {
            (PSDT_PRP, _) => {
                self.prp.reset(sqe.prp1, sqe.prp2, bytes, page_bytes);
                prp::collect(&mut self.prp, port, &mut self.list, &mut self.extents).await?;
            }
            (PSDT_SGL, Some(_)) => {
                self.sgl.reset(sqe.sgl(), bytes, to_host);
                sgl::collect(&mut self.sgl, port, &mut self.list, &mut self.extents).await?;
            }
            _ => return Err(Status::INVALID_FIELD.with_dnr()),
        }
        let direction = if to_host { Direction::Up } else { Direction::Down };
        for extent in &self.extents {
            if let Extent::Memory(segment) = extent {
                let checked = port.check(*segment, direction, self.epoch);
                checked.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
            }
        }
        Ok(())
    }

    /// Epoch of host memory in which the extents were checked. Pass it to accesses of the payload.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The result of [`Collector::resolve`], in the order of the payload.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The memory extents: all of them, for a payload from the host.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + Clone + '_ {
        self.extents.iter().filter_map(|extent| match extent {
            Extent::Memory(segment) => Some(*segment),
            Extent::Discard { .. } => None,
        })
    }
}
