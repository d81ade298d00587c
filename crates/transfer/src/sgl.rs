//! `sgl`: Scatter Gather Lists (NVMe Base 2.1, 4.3.2). The device's end; the host's is in [`crate::host`].

use crate::collector::Extent;
use byteway_link::{DeviceEnd, Purpose};
use byteway_wire::nvme::{SglStep, SglWalker, Status};

/// Walks a data pointer, fetching segments as they are needed, and appends what it yields to `extents`.
pub(crate) async fn collect(
    walker: &mut SglWalker,
    port: &DeviceEnd,
    list: &mut [u8; 4096],
    extents: &mut Vec<Extent>,
) -> Result<(), Status> {
    loop {
        match walker.next()? {
            SglStep::Data(segment) => extents.push(Extent::Memory(segment)),
            SglStep::Discard { bytes } => extents.push(Extent::Discard { bytes }),
            SglStep::FetchSegment { address, bytes } => {
                let part = &mut list[..bytes as usize];
                let read = port.read(address, part, Purpose::SglSegment).await;
                read.map_err(|_| Status::DATA_TRANSFER_ERROR)?;
                walker.feed(part);
            }
            SglStep::Done => return Ok(()),
        }
    }
}
