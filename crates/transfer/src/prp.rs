//! `prp`: Physical Region Pages (NVMe Base 2.1, 4.3.1). The device's end; the host's is in [`crate::host`].

use crate::collector::Extent;
use byteway_link::{DeviceEnd, Purpose};
use byteway_wire::nvme::{PrpStep, PrpWalker, Status};

/// Walks a data pointer, fetching lists as they are needed, and appends what it yields to `extents`.
pub(crate) async fn collect(
    walker: &mut PrpWalker,
    port: &DeviceEnd,
    list: &mut [u8; 4096],
    extents: &mut Vec<Extent>,
) -> Result<(), Status> {
    loop {
        match walker.next()? {
            PrpStep::Data(segment) => extents.push(Extent::Memory(segment)),
            PrpStep::FetchList { address, bytes } => {
                let part = &mut list[..bytes as usize];
                let read = port.read(address, part, Purpose::PrpList).await;
                read.map_err(|_| Status::DATA_TRANSFER_ERROR)?;
                walker.feed(part);
            }
            PrpStep::Done => return Ok(()),
        }
    }
}
