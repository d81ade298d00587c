//! Device memory that the host stores to over CXL.mem ([`byteway_wire::nvme::vendor::cxl`]): the area for payloads of
//! any command, then the ring of commit records, then the part of a command set.

use crate::config::CommandSet;
use crate::controller::command_set::CommandSets;
use byteway_clock::Time;
use byteway_link::Hdm;
use byteway_wire::cxl::DeviceDvsec;
use byteway_wire::nvme::vendor::cxl::DeviceMemoryLog;

impl CommandSets {
    /// How device memory is divided.
    pub(crate) fn memory_log(&self) -> DeviceMemoryLog {
        let shared = self.core.memory.log(self.core.config.transfer.memory.as_ref());
        CommandSet::ALL.iter().fold(shared, |log, set| set.memory_log(&self.core, log))
    }

    /// The DVSEC that announces memory for the host in configuration space; `None` if there is no such memory.
    pub(crate) fn dvsec(&self) -> Option<DeviceDvsec> {
        let bytes = self.memory_log().bytes;
        (bytes > 0).then(|| DeviceDvsec::new(bytes))
    }
}

impl Hdm for CommandSets {
    fn bytes(&self) -> u64 {
        self.memory_log().bytes
    }

    fn store(&self, offset: u64, bytes: &[u8]) {
        let memory = &self.core.memory;
        if CommandSet::ALL.iter().any(|set| set.store_memory(&self.core, offset, bytes)) {
            return;
        }
        if let Some(at) = memory.commits.position(offset) {
            return memory.commits.store(at, bytes);
        }
        memory.area.bytes().store(offset, bytes);
    }

    fn load(&self, offset: u64, into: &mut [u8]) {
        let memory = &self.core.memory;
        if CommandSet::ALL.iter().any(|set| set.load_memory(&self.core, offset, into)) {
            return;
        }
        if let Some(at) = memory.commits.position(offset) {
            return memory.commits.load(at, into);
        }
        memory.area.bytes().load(offset, into);
    }

    fn announce(&self, offset: u64, _bytes: u64, at: Time) {
        let commits = &self.core.memory.commits;
        if let Some(position) = commits.position(offset) {
            commits.announce(position, at);
        }
    }
}
