//! Balancing the books: a link's ledger, its host memory and the drive's controller count bytes independently.

use crate::drive::PoweredDrive;
use byteway_link::{Direction, Purpose};
use thiserror::Error;

/// Two of them have counted different numbers of bytes: a defect of Byteway.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{}the books don't balance: {what}: {ledger} in the ledger, {counted} counted; this is a defect",
    .drive.as_ref().map(|name| format!("drive {name}: ")).unwrap_or_default()
)]
pub struct UnbalancedBooks {
    /// The drive's name, if there are several.
    pub drive: Option<String>,
    /// The kind of bytes.
    pub what: &'static str,
    /// Count of the ledger.
    pub ledger: u64,
    /// Count of host memory or the controller.
    pub counted: u64,
}

/// The kind of bytes, the ledger's count, and another count.
type Comparison = (&'static str, u64, u64);

impl PoweredDrive {
    /// Checks that ledger, host memory and controller have counted the same bytes. Nothing may be in flight.
    ///
    /// # Errors
    /// [`UnbalancedBooks`] for the first difference.
    pub fn balance(&self) -> Result<(), UnbalancedBooks> {
        // Behind this drive, programs of buffered data may be in flight at any time, so only memory can be compared.
        self.behind.iter().try_for_each(PoweredDrive::balance_memory)?;
        self.balance_memory()?;
        let counters = self.drive.controller.counters();
        let commands = self.crossed(Direction::Down, &[Purpose::SqeFetch, Purpose::InlineChunk]);
        let completions = self.crossed(Direction::Up, &[Purpose::Cqe]);
        let to_host = self.crossed(Direction::Up, &[Purpose::Data]);
        let to_device = self.crossed(Direction::Down, &[Purpose::Data]);
        compare(&[
            // Entries of submission queues are commands, or carry payload.
            ("bytes of entries fetched", commands, counters.fetched.get() * 64),
            ("bytes of completions posted", completions, counters.posted.get() * 16),
            ("bytes of data to the host", to_host, counters.data_out_bytes.get()),
        ])?;
        // DMA of whole units fetches more than the commands asked for, and a failed one less.
        if self.dma_granularity == 1 {
            compare(&[("bytes of data to the device", to_device, counters.data_in_bytes.get())])?;
        }
        Ok(())
    }

    /// Like [`PoweredDrive::balance`], for ledger and host memory only: this holds while commands are in flight, too.
    ///
    /// # Errors
    /// Same as [`PoweredDrive::balance`].
    pub fn balance_memory(&self) -> Result<(), UnbalancedBooks> {
        const READ: [Purpose; 6] = [
            Purpose::Data,
            Purpose::SqeFetch,
            Purpose::InlineChunk,
            Purpose::PrpList,
            Purpose::SglSegment,
            Purpose::HostBuffer,
        ];
        let memory = self.host.memory();
        let under_way = self.host.bytes_in_flight();
        let read = self.crossed(Direction::Down, &READ);
        let written = self.crossed(Direction::Up, &[Purpose::Data, Purpose::Cqe, Purpose::HostBuffer]);
        compare(&[
            ("bytes read from host memory", read, memory.dma_read_bytes()),
            ("bytes written to host memory", written, memory.dma_written_bytes() + under_way),
        ])
    }

    /// Payload bytes in the ledger.
    fn crossed(&self, direction: Direction, purposes: &[Purpose]) -> u64 {
        let ledger = self.host.ledger();
        purposes.iter().map(|purpose| ledger.entry(*purpose, direction).payload).sum()
    }
}

fn compare(comparisons: &[Comparison]) -> Result<(), UnbalancedBooks> {
    match comparisons.iter().find(|(_, ledger, counted)| ledger != counted) {
        Some(&(what, ledger, counted)) => Err(UnbalancedBooks { drive: None, what, ledger, counted }),
        None => Ok(()),
    }
}
