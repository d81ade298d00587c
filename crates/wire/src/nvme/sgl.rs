//! Scatter gather lists (NVMe Base 2.1, 4.3.2): the walker of a device, and the planner of a host.
//!
//! Like the PRP walker, this one reads no memory: it says what to fetch, is fed, and yields segments.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Segment, Status, assert_offsets, segment::fits};

/// Maximum number of bytes of a segment that a step requests.
pub const FETCH_BYTES_MAX: u32 = 4096;

const DESCRIPTORS_MAX: usize = FETCH_BYTES_MAX as usize / SglDescriptor::SIZE;

/// An SGL descriptor's type, 4 bits. Unknown types stay representable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SglType(pub u8);

impl SglType {
    /// 0h: data.
    pub const DATA_BLOCK: SglType = SglType(0x0);
    /// 1h: data to discard.
    pub const BIT_BUCKET: SglType = SglType(0x1);
    /// 2h: the next segment, which is not the last one.
    pub const SEGMENT: SglType = SglType(0x2);
    /// 3h: the last segment.
    pub const LAST_SEGMENT: SglType = SglType(0x3);
    /// 4h: data, with a key (fabrics).
    pub const KEYED_DATA_BLOCK: SglType = SglType(0x4);
    /// 5h: data that the transport carries (fabrics).
    pub const TRANSPORT_DATA_BLOCK: SglType = SglType(0x5);
    /// Fh: vendor specific.
    pub const VENDOR: SglType = SglType(0xF);
}

/// An SGL descriptor's sub-type, 4 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SglSubType(pub u8);

impl SglSubType {
    /// 0h: the address is a memory address.
    pub const ADDRESS: SglSubType = SglSubType(0x0);
    /// 1h: the address is an offset into the capsule.
    pub const OFFSET: SglSubType = SglSubType(0x1);
    /// Ah: the transport defines it.
    pub const TRANSPORT: SglSubType = SglSubType(0xA);
}

/// An SGL descriptor of 16 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SglDescriptor {
    /// Address, or offset.
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
    /// Reserved, or a key's first bytes.
    pub reserved: [u8; 3],
    /// SGL Identifier: type in bits 7:4, sub-type in bits 3:0.
    pub id: u8,
}

assert_offsets!(SglDescriptor: 16; address = 0, length = 8, reserved = 12, id = 15);

impl SglDescriptor {
    /// Bytes of a descriptor.
    pub const SIZE: usize = 16;

    /// A descriptor of any type.
    pub const fn new(sgl_type: SglType, sub_type: SglSubType, address: u64, length: u32) -> SglDescriptor {
        SglDescriptor { address, length, reserved: [0; 3], id: sgl_type.0 << 4 | sub_type.0 & 0xF }
    }

    /// `length` bytes of data at `address`.
    pub const fn data_block(address: u64, length: u32) -> SglDescriptor {
        SglDescriptor::new(SglType::DATA_BLOCK, SglSubType::ADDRESS, address, length)
    }

    /// `length` bytes of data after the command, from `offset` on: in-capsule data.
    pub const fn data_block_offset(offset: u64, length: u32) -> SglDescriptor {
        SglDescriptor::new(SglType::DATA_BLOCK, SglSubType::OFFSET, offset, length)
    }

    /// `length` bytes of a read to discard.
    pub const fn bit_bucket(length: u32) -> SglDescriptor {
        SglDescriptor::new(SglType::BIT_BUCKET, SglSubType::ADDRESS, 0, length)
    }

    /// The next segment, of `length` bytes at `address`, which ends in a pointer to another one.
    pub const fn segment(address: u64, length: u32) -> SglDescriptor {
        SglDescriptor::new(SglType::SEGMENT, SglSubType::ADDRESS, address, length)
    }

    /// The last segment, of `length` bytes at `address`.
    pub const fn last_segment(address: u64, length: u32) -> SglDescriptor {
        SglDescriptor::new(SglType::LAST_SEGMENT, SglSubType::ADDRESS, address, length)
    }

    /// Type.
    pub const fn sgl_type(&self) -> SglType {
        SglType(self.id >> 4)
    }

    /// Sub-type.
    pub const fn sub_type(&self) -> SglSubType {
        SglSubType(self.id & 0xF)
    }

    /// The descriptor as it lies in memory.
    pub fn to_bytes(&self) -> [u8; SglDescriptor::SIZE] {
        zerocopy::transmute!(*self)
    }

    /// The descriptor that lies in memory as `bytes`.
    pub fn from_bytes(bytes: &[u8; SglDescriptor::SIZE]) -> SglDescriptor {
        zerocopy::transmute!(*bytes)
    }
}

/// The next step of an SGL walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SglStep {
    /// The next segment of the data.
    Data(Segment),
    /// The next bytes of a read, to be discarded.
    Discard {
        /// Number of bytes, at least 1.
        bytes: u32,
    },
    /// Read these bytes of a segment and hand them to [`SglWalker::feed`].
    FetchSegment {
        /// Address of the bytes, a multiple of 8.
        address: u64,
        /// Number of bytes: a multiple of 16, at most [`FETCH_BYTES_MAX`].
        bytes: u32,
    },
    /// All bytes were yielded, and the list is valid.
    Done,
}

/// Why an SGL walk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SglError {
    /// A descriptor's type or sub-type is unknown or not supported.
    #[error("an SGL descriptor has an unsupported type or sub-type")]
    Type,
    /// A segment's length is 0 or not a multiple of 16.
    #[error("an SGL segment's length is not a positive multiple of 16")]
    SegmentLength,
    /// A segment is not qword aligned.
    #[error("an SGL segment is not aligned to 8 bytes")]
    SegmentAddress,
    /// A last segment points to another one.
    #[error("a last SGL segment points to a further segment")]
    SegmentInLast,
    /// A pointer to a segment is not the last descriptor of its segment.
    #[error("an SGL segment descriptor is not the last one of its segment")]
    SegmentNotLast,
    /// There are more descriptors than the device accepts.
    #[error("an SGL has too many descriptors")]
    TooMany,
    /// The descriptors hold fewer bytes than the command transfers.
    #[error("an SGL is shorter than the data")]
    TooShort,
    /// The descriptors hold more bytes than the command transfers.
    #[error("an SGL is longer than the data")]
    TooLong,
    /// A data block is not dword aligned or not a multiple of a dword.
    #[error("an SGL data block is not dword aligned")]
    Granularity,
    /// A descriptor exceeds the 64-bit address space.
    #[error("an SGL descriptor exceeds the 64-bit address space")]
    Wraps,
}

impl SglError {
    /// The status of the failed command.
    pub const fn status(self) -> Status {
        match self {
            SglError::Type => Status::SGL_TYPE_INVALID,
            SglError::SegmentLength | SglError::SegmentAddress | SglError::SegmentInLast => {
                Status::INVALID_SGL_SEGMENT
            }
            SglError::SegmentNotLast | SglError::TooMany => Status::INVALID_SGL_COUNT,
            SglError::TooShort | SglError::TooLong => Status::DATA_SGL_LENGTH_INVALID,
            SglError::Granularity => Status::SGL_GRANULARITY_INVALID,
            SglError::Wraps => Status::DATA_TRANSFER_ERROR,
        }
    }
}

impl From<SglError> for Status {
    fn from(error: SglError) -> Status {
        error.status()
    }
}

/// SGL features that a device accepts: SGLS of Identify Controller, and a limit on descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SglRules {
    /// A list may be longer than the transfer; the excess is not examined.
    pub allow_excess: bool,
    /// Data blocks must begin at and be multiples of 4 bytes.
    pub dword_aligned: bool,
    /// Bit buckets are supported.
    pub bit_bucket: bool,
    /// Maximum number of descriptors in a list, including segment pointers and the command's own descriptor.
    pub max_descriptors: u32,
}

impl Default for SglRules {
    /// No excess, no alignment, bit buckets, 1024 descriptors.
    fn default() -> SglRules {
        SglRules { allow_excess: false, dword_aligned: false, bit_bucket: true, max_descriptors: 1024 }
    }
}

/// Walks an SGL for a given number of bytes.
///
/// Yielded data and discarded bytes together add up to exactly that number. The limit on descriptors ends cycles and
/// chains of empty descriptors. Without `allow_excess` the walk continues past the last byte to check that nothing
/// follows, so an error may come after all data was yielded. A segment announced as not the last one that ends without
/// a pointer ends the list. After an error every further step returns the same error.
pub struct SglWalker {
    rules: SglRules,
    is_read: bool,
    remaining: u64,
    seen: u32,
    failed: Option<SglError>,
    /// Whether the current segment was announced as the last one.
    in_last: bool,
    /// Address of the descriptors that were not fetched yet.
    segment_address: u64,
    /// Descriptors of the current segment that were not fetched yet.
    segment_left: u32,
    fetched: Box<[SglDescriptor; DESCRIPTORS_MAX]>,
    at: usize,
    end: usize,
}

impl SglWalker {
    /// A walk over `bytes` bytes under the default rules. `descriptor` is the command's data pointer; `is_read`: data
    /// goes to the host.
    pub fn new(descriptor: SglDescriptor, bytes: u64, is_read: bool) -> SglWalker {
        let mut walker = SglWalker {
            rules: SglRules::default(),
            is_read,
            remaining: 0,
            seen: 0,
            failed: None,
            in_last: false,
            segment_address: 0,
            segment_left: 0,
            fetched: Box::new([SglDescriptor::default(); DESCRIPTORS_MAX]),
            at: 0,
            end: 0,
        };
        walker.reset(descriptor, bytes, is_read);
        walker
    }

    /// Sets the rules for this walk and later ones.
    pub fn with_rules(mut self, rules: SglRules) -> SglWalker {
        self.rules = rules;
        self
    }

    /// Starts another walk in the same memory, under the same rules.
    pub fn reset(&mut self, descriptor: SglDescriptor, bytes: u64, is_read: bool) {
        self.is_read = is_read;
        self.remaining = bytes;
        self.seen = 1;
        self.failed = None;
        self.in_last = false;
        self.segment_left = 0;
        self.fetched[0] = descriptor;
        self.at = 0;
        // A command without data has no list to check.
        self.end = usize::from(bytes > 0);
    }

    /// Bytes not yet yielded.
    pub const fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The next step. Until a requested segment is fed, the step stays the same.
    ///
    /// # Errors
    /// [`SglError`] if a descriptor, or the list as a whole, is invalid.
    #[expect(
        clippy::should_implement_trait,
        reason = "a walk needs feeding between steps, so it is no iterator"
    )]
    pub fn next(&mut self) -> Result<SglStep, SglError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let step = self.step();
        self.failed = step.err();
        step
    }

    /// Feeds the bytes that the last step requested.
    ///
    /// # Panics
    /// If the number of bytes differs from the request.
    pub fn feed(&mut self, descriptors: &[u8]) {
        let count = if self.at == self.end { self.fetch_count() as usize } else { 0 };
        assert!(
            count > 0 && descriptors.len() == count * SglDescriptor::SIZE,
            "a walker is fed what it asked for"
        );
        self.fetched[..count].as_mut_bytes().copy_from_slice(descriptors);
        self.at = 0;
        self.end = count;
        self.segment_address += descriptors.len() as u64;
        self.segment_left -= count as u32;
    }

    fn step(&mut self) -> Result<SglStep, SglError> {
        loop {
            if self.remaining == 0 && self.rules.allow_excess {
                return Ok(SglStep::Done);
            }
            if self.at == self.end {
                return if self.segment_left > 0 {
                    let bytes = self.fetch_count() * SglDescriptor::SIZE as u32;
                    Ok(SglStep::FetchSegment { address: self.segment_address, bytes })
                } else if self.remaining == 0 {
                    Ok(SglStep::Done)
                } else {
                    Err(SglError::TooShort)
                };
            }
            let descriptor = self.fetched[self.at];
            self.at += 1;
            if descriptor.sub_type() != SglSubType::ADDRESS {
                return Err(SglError::Type);
            }
            match descriptor.sgl_type() {
                SglType::DATA_BLOCK => {
                    let SglDescriptor { address, length, .. } = descriptor;
                    if self.rules.dword_aligned && (!address.is_multiple_of(4) || !length.is_multiple_of(4)) {
                        return Err(SglError::Granularity);
                    }
                    if length > 0 {
                        if !fits(address, u64::from(length)) {
                            return Err(SglError::Wraps);
                        }
                        let bytes = self.take_bytes(length)?;
                        return Ok(SglStep::Data(Segment { address, bytes }));
                    }
                }
                SglType::BIT_BUCKET if self.rules.bit_bucket => {
                    // In a write a bit bucket counts as length 0, because it has no data to give.
                    if self.is_read && descriptor.length > 0 {
                        return Ok(SglStep::Discard { bytes: self.take_bytes(descriptor.length)? });
                    }
                }
                SglType::SEGMENT | SglType::LAST_SEGMENT => self.enter_segment(descriptor)?,
                _ => return Err(SglError::Type),
            }
        }
    }

    /// The part of a descriptor's `length` that belongs to the transfer.
    fn take_bytes(&mut self, length: u32) -> Result<u32, SglError> {
        if u64::from(length) > self.remaining && !self.rules.allow_excess {
            return Err(SglError::TooLong);
        }
        let bytes = self.remaining.min(u64::from(length));
        self.remaining -= bytes;
        Ok(bytes as u32)
    }

    fn enter_segment(&mut self, pointer: SglDescriptor) -> Result<(), SglError> {
        if self.in_last {
            return Err(SglError::SegmentInLast);
        }
        if self.at < self.end || self.segment_left > 0 {
            return Err(SglError::SegmentNotLast);
        }
        let SglDescriptor { address, length, .. } = pointer;
        if length == 0 || !length.is_multiple_of(SglDescriptor::SIZE as u32) {
            return Err(SglError::SegmentLength);
        }
        if !address.is_multiple_of(8) {
            return Err(SglError::SegmentAddress);
        }
        if !fits(address, u64::from(length)) {
            return Err(SglError::Wraps);
        }
        let count = length / SglDescriptor::SIZE as u32;
        self.seen = self.seen.saturating_add(count);
        if self.seen > self.rules.max_descriptors {
            return Err(SglError::TooMany);
        }
        self.segment_address = address;
        self.segment_left = count;
        self.in_last = pointer.sgl_type() == SglType::LAST_SEGMENT;
        Ok(())
    }

    fn fetch_count(&self) -> u32 {
        self.segment_left.min(DESCRIPTORS_MAX as u32)
    }
}

/// An SGL as a host lays it out: the descriptor in the command, and those in list memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SglPlan {
    /// The command's data pointer.
    pub first: SglDescriptor,
    /// Descriptors to write before, each run with its address.
    pub segments: Vec<(u64, Vec<SglDescriptor>)>,
}

/// Segments needed for a list of `descriptors` data or bit bucket descriptors; 0 for a single one.
///
/// # Panics
/// If `per_segment` is less than 2.
pub const fn segments_needed(descriptors: usize, per_segment: usize) -> usize {
    assert!(per_segment >= 2, "a segment holds a descriptor and a pointer");
    match descriptors {
        0..=1 => 0,
        count if count <= per_segment => 1,
        count => 1 + (count - per_segment).div_ceil(per_segment - 1),
    }
}

/// Lays out an SGL as [`plan_with`], but returns the segments.
///
/// # Panics
/// Same as [`plan_with`].
pub fn plan(descriptors: &[SglDescriptor], segments: &[u64], per_segment: usize) -> SglPlan {
    let mut written = Vec::new();
    let first =
        plan_with(descriptors, segments, per_segment, |address, run| written.push((address, run.to_vec())));
    SglPlan { first, segments: written }
}

/// Lays out `descriptors` (data blocks and bit buckets) in segments of up to `per_segment` descriptors at the addresses
/// `segments` (multiples of 8); returns the command's data pointer.
///
/// A single descriptor goes into the command itself. `write` receives each run of descriptors with its address; nothing
/// is allocated.
///
/// # Panics
/// If `per_segment` is less than 2 or a segment of that many exceeds a 32-bit length, or there are fewer addresses than
/// [`segments_needed`].
pub fn plan_with(
    descriptors: &[SglDescriptor],
    segments: &[u64],
    per_segment: usize,
    mut write: impl FnMut(u64, &[SglDescriptor]),
) -> SglDescriptor {
    assert!(
        segments_needed(descriptors.len(), per_segment) <= segments.len(),
        "there is a segment for all descriptors"
    );
    let mut rest = match descriptors {
        [] => return SglDescriptor::default(),
        [only] => return *only,
        several => several,
    };
    // The pointer to the segment at `address` that begins with `rest`.
    let pointer = |address: u64, rest: &[SglDescriptor]| {
        let count = rest.len().min(per_segment);
        let length = u32::try_from(count * SglDescriptor::SIZE).expect("a segment's length has 32 bits");
        if rest.len() <= per_segment {
            SglDescriptor::last_segment(address, length)
        } else {
            SglDescriptor::segment(address, length)
        }
    };
    let first = pointer(segments[0], rest);
    let mut index = 0;
    while rest.len() > per_segment {
        let (here, further) = rest.split_at(per_segment - 1);
        write(segments[index], here);
        write(
            segments[index] + (here.len() * SglDescriptor::SIZE) as u64,
            &[pointer(segments[index + 1], further)],
        );
        rest = further;
        index += 1;
    }
    write(segments[index], rest);
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(descriptors: &[SglDescriptor]) -> Vec<u8> {
        descriptors.as_bytes().to_vec()
    }

    /// Feeds `segment` to every fetch; returns the steps up to Done, or the first error.
    fn walk(walker: &mut SglWalker, segment: &[SglDescriptor]) -> Result<Vec<SglStep>, SglError> {
        let mut steps = Vec::new();
        loop {
            match walker.next()? {
                SglStep::Done => return Ok(steps),
                step @ SglStep::FetchSegment { .. } => {
                    steps.push(step);
                    walker.feed(&bytes(segment));
                }
                step => steps.push(step),
            }
        }
    }

    /// Without this a host's descriptor would be decoded as another type.
    #[test]
    fn lies_in_memory_as_the_specification_says() {
        let descriptor = SglDescriptor::last_segment(0x0102_0304, 32);
        assert_eq!(descriptor.to_bytes(), [4, 3, 2, 1, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0x30]);
        assert_eq!(SglDescriptor::from_bytes(&descriptor.to_bytes()), descriptor);
        assert_eq!(SglDescriptor::data_block_offset(0, 5).id, 0x01);
        assert_eq!(SglDescriptor::bit_bucket(1).sgl_type(), SglType::BIT_BUCKET);
    }

    /// Without this the most common SGL, one block in the command, would fetch or fail.
    #[test]
    fn one_block_needs_no_segment() {
        let mut walker = SglWalker::new(SglDescriptor::data_block(0x1001, 7), 7, false);
        assert_eq!(walk(&mut walker, &[]), Ok(vec![SglStep::Data(Segment { address: 0x1001, bytes: 7 })]));
        walker.reset(SglDescriptor::data_block(0x1001, 6), 7, false);
        assert_eq!(walk(&mut walker, &[]), Err(SglError::TooShort));
        walker.reset(SglDescriptor::data_block(0x1001, 8), 7, false);
        assert_eq!(walker.next(), Err(SglError::TooLong));
        assert_eq!(walker.next(), Err(SglError::TooLong));
        walker.reset(SglDescriptor::segment(1, 1), 0, false);
        assert_eq!(walker.next(), Ok(SglStep::Done));
    }

    /// Without this a bit bucket would shift the data of a write, or not be skipped in a read.
    #[test]
    fn bit_buckets_count_in_reads_only() {
        let segment = [
            SglDescriptor::data_block(0x1000, 10),
            SglDescriptor::bit_bucket(5),
            SglDescriptor::data_block(0, 0),
            SglDescriptor::data_block(0x2000, 10),
        ];
        let pointer = SglDescriptor::last_segment(0x8000, 64);
        let fetch = SglStep::FetchSegment { address: 0x8000, bytes: 64 };
        let first = SglStep::Data(Segment { address: 0x1000, bytes: 10 });
        let second = SglStep::Data(Segment { address: 0x2000, bytes: 10 });
        let mut walker = SglWalker::new(pointer, 25, true);
        assert_eq!(
            walk(&mut walker, &segment),
            Ok(vec![fetch, first, SglStep::Discard { bytes: 5 }, second])
        );
        walker.reset(pointer, 20, false);
        assert_eq!(walk(&mut walker, &segment), Ok(vec![fetch, first, second]));
        walker.reset(pointer, 25, false);
        assert_eq!(walk(&mut walker, &segment), Err(SglError::TooShort));
        walker = walker.with_rules(SglRules { bit_bucket: false, ..SglRules::default() });
        walker.reset(pointer, 25, true);
        assert_eq!(walk(&mut walker, &segment), Err(SglError::Type));
    }

    /// Without this a list longer than the data would be an error on a device that accepts it.
    #[test]
    fn excess_is_cut_where_it_is_allowed() {
        let rules = SglRules { allow_excess: true, ..SglRules::default() };
        let mut walker = SglWalker::new(SglDescriptor::data_block(0x1000, 100), 60, true).with_rules(rules);
        assert_eq!(walk(&mut walker, &[]), Ok(vec![SglStep::Data(Segment { address: 0x1000, bytes: 60 })]));
        walker.reset(SglDescriptor::last_segment(0x8000, 32), 60, true);
        let segment = [SglDescriptor::data_block(0x1000, 60), SglDescriptor::segment(3, 3)];
        assert!(walk(&mut walker, &segment).is_ok());
        let mut walker = SglWalker::new(SglDescriptor::last_segment(0x8000, 32), 60, true);
        let segment = [SglDescriptor::data_block(0x1000, 60), SglDescriptor::data_block(0, 1)];
        assert_eq!(walk(&mut walker, &segment), Err(SglError::TooLong));
    }

    /// Without this a malformed list would be walked as another one.
    #[test]
    fn each_broken_rule_has_its_status() {
        let block = SglDescriptor::data_block(0x1000, 8);
        let last = SglDescriptor::last_segment(0x8000, 32);
        let keyed = SglDescriptor::new(SglType::KEYED_DATA_BLOCK, SglSubType::ADDRESS, 0, 8);
        for (first, segment, error, status) in [
            (keyed, [block, block], SglError::Type, Status::SGL_TYPE_INVALID),
            (
                SglDescriptor::data_block_offset(0, 64),
                [block, block],
                SglError::Type,
                Status::SGL_TYPE_INVALID,
            ),
            (last, [block, keyed], SglError::Type, Status::SGL_TYPE_INVALID),
            (last, [block, last], SglError::SegmentInLast, Status::INVALID_SGL_SEGMENT),
            (
                SglDescriptor::segment(0x8000, 32),
                [last, block],
                SglError::SegmentNotLast,
                Status::INVALID_SGL_COUNT,
            ),
            (
                SglDescriptor::segment(0x8000, 0),
                [block, last],
                SglError::SegmentLength,
                Status::INVALID_SGL_SEGMENT,
            ),
            (
                SglDescriptor::segment(0x8000, 24),
                [block, last],
                SglError::SegmentLength,
                Status::INVALID_SGL_SEGMENT,
            ),
            (
                SglDescriptor::segment(0x8004, 32),
                [block, last],
                SglError::SegmentAddress,
                Status::INVALID_SGL_SEGMENT,
            ),
            (
                SglDescriptor::segment(0x8000, 1 << 31),
                [block, last],
                SglError::TooMany,
                Status::INVALID_SGL_COUNT,
            ),
            (SglDescriptor::segment(!15, 32), [block, last], SglError::Wraps, Status::DATA_TRANSFER_ERROR),
            (SglDescriptor::data_block(!7, 8), [block, last], SglError::Wraps, Status::DATA_TRANSFER_ERROR),
            (last, [block, block], SglError::TooShort, Status::DATA_SGL_LENGTH_INVALID),
        ] {
            let mut walker = SglWalker::new(first, 64, true);
            assert_eq!(walk(&mut walker, &segment), Err(error), "{first:?}");
            assert_eq!(error.status(), status);
        }
        let rules = SglRules { dword_aligned: true, ..SglRules::default() };
        for block in [SglDescriptor::data_block(2, 64), SglDescriptor::data_block(4, 63)] {
            let mut walker = SglWalker::new(block, 64, true).with_rules(rules);
            assert_eq!(walker.next(), Err(SglError::Granularity));
        }
        assert_eq!(SglError::Granularity.status(), Status::SGL_GRANULARITY_INVALID);
    }

    /// Without the bound a segment that points to itself, or empty descriptors without end, would hang the device.
    #[test]
    fn cycles_and_empty_chains_end() {
        let itself = SglDescriptor::segment(0x8000, 32);
        let mut walker = SglWalker::new(itself, 64, true);
        assert_eq!(walk(&mut walker, &[SglDescriptor::data_block(0, 0), itself]), Err(SglError::TooMany));
    }

    /// Without this a large segment would overrun the walker's memory.
    #[test]
    fn a_large_segment_is_fetched_in_pieces() {
        let mut walker = SglWalker::new(SglDescriptor::last_segment(0x8000, 300 * 16), 300, true);
        assert_eq!(walker.next(), Ok(SglStep::FetchSegment { address: 0x8000, bytes: 4096 }));
        walker.feed(&bytes(&[SglDescriptor::data_block(9, 1); 256]));
        for _ in 0..256 {
            assert_eq!(walker.next(), Ok(SglStep::Data(Segment { address: 9, bytes: 1 })));
        }
        assert_eq!(walker.next(), Ok(SglStep::FetchSegment { address: 0x9000, bytes: 704 }));
    }

    /// Without this a pointer at the end of a fetched piece would pass for one at the end of the segment.
    #[test]
    fn a_piece_is_not_the_segment() {
        let mut piece = [SglDescriptor::data_block(9, 1); 256];
        piece[255] = SglDescriptor::last_segment(0x8000, 16);
        let mut walker = SglWalker::new(SglDescriptor::segment(0x8000, 300 * 16), 300, true);
        assert_eq!(walk(&mut walker, &piece), Err(SglError::SegmentNotLast));
    }
}
