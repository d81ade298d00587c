//! Method `sgl`: Scatter Gather Lists (NVMe Base 2.1, 4.3.2).

use crate::buffer::{Buffer, DataPointer};
use crate::extent::Extent;
use byteway_link::memory::PAGE_BYTES;
use byteway_link::{DeviceEnd, Purpose};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::{SglDescriptor, SglStep, SglWalker, Status, sgl};

/// Descriptors in a page of a list.
pub(crate) const DESCRIPTORS_PER_PAGE: usize = PAGE_BYTES as usize / SglDescriptor::SIZE;

/// The host's end: the descriptor for the first `bytes` of `buffer`; adjacent pages form one data block.
/// Contents of the segments at `lists` go to `write`. `descriptors` is scratch memory.
pub(crate) fn plan(
    buffer: &Buffer,
    bytes: u32,
    lists: &[u64],
    descriptors: &mut Vec<SglDescriptor>,
    write: &mut impl FnMut(u64, &[u8]),
) -> DataPointer {
    descriptors.clear();
    descriptors.extend(buffer.extents(bytes).map(|part| SglDescriptor::data_block(part.address, part.bytes)));
    let place = |address, run: &[SglDescriptor]| write(address, run.as_bytes());
    DataPointer::Sgl(sgl::plan_with(descriptors, lists, DESCRIPTORS_PER_PAGE, place))
}

/// The device's end: walks a data pointer, fetches segments as needed, and appends the result to `extents`.
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
