//! Method `prp`: Physical Region Pages (NVMe Base 2.1, 4.3.1).

use crate::buffer::{Buffer, DataPointer};
use crate::extent::Extent;
use byteway_link::memory::PAGE_BYTES;
use byteway_link::{DeviceEnd, Purpose};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::{PrpStep, PrpWalker, Status, prp};

/// The host's end: PRP1 and PRP2 for the first `bytes` of `buffer`. Contents of the list pages at `lists` go
/// to `write`.
pub(crate) fn plan(
    buffer: &Buffer,
    bytes: u32,
    lists: &[u64],
    write: &mut impl FnMut(u64, &[u8]),
) -> DataPointer {
    let place = |address, entries: &[u64]| write(address, entries.as_bytes());
    let (prp1, prp2) =
        prp::plan_with(buffer.pages(), buffer.offset(), bytes.into(), PAGE_BYTES as u32, lists, place);
    DataPointer::Prp { prp1, prp2 }
}

/// The device's end: walks a data pointer, fetches lists as needed, and appends the result to `extents`.
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
