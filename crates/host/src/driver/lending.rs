//! Host Memory Buffer (NVMe Base 2.1, 8.2.3): memory lent to a drive whose DRAM is too small for its map.

use crate::driver::controller::Driver;
use crate::driver::port::Port;
use crate::error::DriverError;
use byteway_link::memory::PAGE_BYTES;
use byteway_transfer::host::PlanError;
use byteway_wire::nvme::feature::{HostBufferEntry, HostMemoryBuffer};

/// Memory lent to a drive: pages of one run of memory, and the list that describes them. Allocated once, and lent again
/// after each reset.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loan {
    pages: u32,
    list: u64,
}

impl Driver {
    /// Lends the preferred size, limited by [`DriverConfig::lent_bytes_max`](crate::DriverConfig), unless that is below
    /// the drive's minimum. A drive that refuses it works without.
    pub(crate) async fn lend(&self) -> Result<(), DriverError> {
        let inner = &self.0;
        let (preferred, least) = {
            let identity = inner.identity.borrow();
            (identity.hmpre, identity.hmmin)
        };
        let most = inner.config.lent_bytes_max / PAGE_BYTES;
        let pages = u64::from(preferred).min(most) as u32;
        if matches!(inner.port, Port::Fabric(_)) || pages == 0 || pages < least {
            return Ok(());
        }
        let before = inner.loan.get();
        let loan = match before {
            Some(loan) => loan,
            None => self.make_loan(pages)?,
        };
        inner.loan.set(Some(loan));
        let asked = HostMemoryBuffer {
            is_enabled: true,
            is_returned: before.is_some(),
            pages: loan.pages,
            list: loan.list,
            entries: 1,
        };
        self.set_features(asked.command()).await.map(drop)
    }

    fn make_loan(&self, pages: u32) -> Result<Loan, DriverError> {
        const WHAT: &str = "what it asks for (Host Memory Buffer)";
        let memory = self.0.port.memory();
        let allocate = |pages: usize| memory.allocate(pages).ok_or(DriverError::Memory(WHAT));
        let (address, list) = (allocate(pages as usize)?, allocate(1)?);
        let entry = HostBufferEntry { address, pages };
        memory.write(list, &entry.to_bytes()).map_err(|fault| DriverError::Data(PlanError::Fault(fault)))?;
        Ok(Loan { pages, list })
    }
}
