//! Memory of a device that its host stores payloads to, in areas: a buffer in the BAR, or memory over CXL.mem.

use byteway_wire::nvme::Status;

/// Alignment of areas: a host cache line, which is stored at once.
pub const LINE_BYTES: u32 = 64;

/// Part of the memory, for one payload at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Offset in the memory.
    pub first: u32,
    /// Length in bytes.
    pub bytes: u32,
}

/// The host's end: free areas of the memory, sorted, none adjacent to another.
#[derive(Debug, Default)]
pub struct Areas {
    free: Vec<Area>,
}

impl Areas {
    /// The free areas of a buffer of `bytes`.
    pub fn new(bytes: u32) -> Areas {
        Areas { free: vec![Area { first: 0, bytes: bytes / LINE_BYTES * LINE_BYTES }] }
    }

    /// Allocates the first fitting area of `bytes`, rounded up to whole lines.
    pub fn take(&mut self, bytes: u32) -> Option<Area> {
        let bytes = bytes.max(1).checked_next_multiple_of(LINE_BYTES)?;
        let index = self.free.iter().position(|area| area.bytes >= bytes)?;
        let area = &mut self.free[index];
        let taken = Area { first: area.first, bytes };
        area.first += bytes;
        area.bytes -= bytes;
        if area.bytes == 0 {
            self.free.remove(index);
        }
        Some(taken)
    }

    /// Frees an area, whose command has completed.
    pub fn give(&mut self, area: Area) {
        let index = self.free.partition_point(|free| free.first < area.first);
        self.free.insert(index, area);
        for index in [index + 1, index] {
            if index > 0
                && let Some(Area { first, bytes }) = self.free.get(index).copied()
                && let before = &mut self.free[index - 1]
                && before.first + before.bytes == first
            {
                before.bytes += bytes;
                self.free.remove(index);
            }
        }
    }
}

/// The device's end: what was stored. It is allocated at the first store.
#[derive(Debug, Default)]
pub struct StoredBytes {
    size: u32,
    bytes: Vec<u8>,
}

impl StoredBytes {
    /// A buffer of `size` zeroes.
    pub fn new(size: u32) -> Self {
        StoredBytes { size, bytes: Vec::new() }
    }

    /// Size in bytes.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Stores the part of `bytes` that lies in the buffer.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) {
        let Some(space) = u64::from(self.size).checked_sub(offset) else { return };
        let count = space.min(bytes.len() as u64) as usize;
        if count == 0 {
            return;
        }
        self.bytes.resize(self.size as usize, 0);
        self.bytes[offset as usize..][..count].copy_from_slice(&bytes[..count]);
    }

    /// Fills `into` from `offset` on; zeroes beyond the end of the buffer.
    pub fn load(&self, offset: u64, into: &mut [u8]) {
        into.fill(0);
        let held = usize::try_from(offset).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default();
        let count = held.len().min(into.len());
        into[..count].copy_from_slice(&held[..count]);
    }

    /// The payload of `bytes` at `offset`.
    ///
    /// # Errors
    /// The NVMe status if it does not lie in the buffer.
    pub fn payload(&mut self, offset: u64, bytes: u32) -> Result<&[u8], Status> {
        let end = offset.checked_add(u64::from(bytes)).filter(|end| *end <= u64::from(self.size));
        let end = end.ok_or(Status::SGL_OFFSET_INVALID.with_dnr())?;
        self.bytes.resize(self.size as usize, 0);
        Ok(&self.bytes[offset as usize..end as usize])
    }

    /// Clears the buffer, so that one tenant's stores are not visible to the next.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without this two payloads would share a line, or the buffer would leak.
    #[test]
    fn areas_are_whole_lines_that_do_not_overlap() {
        let mut areas = Areas::new(4100);
        let mut taken: Vec<_> = [1, 64, 65, 1000].map(|bytes| areas.take(bytes).unwrap()).into();
        assert_eq!(taken.iter().map(|area| area.bytes).collect::<Vec<_>>(), [64, 64, 128, 1024]);
        assert!(taken.windows(2).all(|pair| pair[0].first + pair[0].bytes == pair[1].first));
        assert_eq!(areas.take(4096), None);
        taken.extend(areas.take(2816));
        assert_eq!(areas.take(1), None, "all is taken");
        for order in [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 3, 0, 4, 2], [0, 2, 4, 1, 3]] {
            order.iter().for_each(|index| areas.give(taken[*index]));
            assert_eq!(areas.free, [Area { first: 0, bytes: 4096 }]);
            taken.iter().for_each(|area| assert_eq!(areas.take(area.bytes), Some(*area)));
        }
        assert_eq!(Areas::new(63).take(1), None);
        assert_eq!(Areas::new(0).take(0), None);
        assert_eq!(Areas::new(4096).take(u32::MAX), None);
    }

    /// Without this a store or a command of a hostile host would reach beyond the buffer.
    #[test]
    fn nothing_reaches_behind_the_buffer() {
        let mut buffer = StoredBytes::new(4096);
        for offset in [4097, u64::from(u32::MAX) + 1, u64::MAX] {
            buffer.store(offset, &[1; 64]);
            let mut read = [9; 8];
            buffer.load(offset, &mut read);
            assert_eq!(read, [0; 8]);
            assert_eq!(buffer.payload(offset, 0), Err(Status::SGL_OFFSET_INVALID.with_dnr()));
            assert_eq!(buffer.payload(offset, u32::MAX), Err(Status::SGL_OFFSET_INVALID.with_dnr()));
        }
        buffer.store(4096, &[1; 64]);
        assert!(buffer.bytes.is_empty(), "nothing was stored so far");
        buffer.store(4080, &[7; 64]);
        assert_eq!(buffer.payload(4079, 17), Ok(&[&[0][..], &[7; 16]].concat()[..]));
        assert!(buffer.payload(4080, 17).is_err());
        assert_eq!(buffer.payload(4096, 0), Ok(&[][..]));
    }

    /// Without this the next tenant could make the drive store the previous one's data.
    #[test]
    fn nothing_is_left_after_it_was_cleared() {
        let mut buffer = StoredBytes::new(4096);
        assert_eq!(buffer.payload(0, 64), Ok(&[0; 64][..]));
        buffer.store(0, &[7; 64]);
        buffer.clear();
        buffer.store(128, &[1]);
        assert_eq!(buffer.payload(0, 64), Ok(&[0; 64][..]));
    }
}
