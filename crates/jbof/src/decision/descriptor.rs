//! Idle-resource descriptors: what a drive offers to lend, and which peer has borrowed it (4.3, Figure 7).
//!
//! | bits | content |
//! |---|---|
//! | 0 | valid |
//! | 1 | type: 0 a processor, 1 DRAM |
//! | 2 to 9 | the borrower; FFh: none |
//! | 10 | served: the lender's shadow queue executes the borrower's commands |
//! | 11 | bound: the host has bound the shadow queue, and may redirect commands to it |
//! | 12 to 31 | zero |
//! | 32 to 63 | amount: of a processor the utilization of the borrower, then of the lender, 16 bits each; of DRAM segments |
//! | 64 to 127 | locations: of a processor the borrower's directory of the map, its completion queue, the shadow completion queue; of DRAM the head of the list of segments, the borrower's first log page |
//!
//! The widths are the paper's; the order, and bits 10 and 11, are not in it. A table has 256 bytes, so sixteen
//! descriptors. Peers read it over the fabric and act on what they have read, which may be out of date by then. So a
//! borrower names the descriptor as it has read it, and gets the resource only if it is unchanged
//! ([`IdleTable::claim`]).
//!
//! **A processor is lent in steps**, because lender, borrower and host act at different moments, and a command sent
//! through a shadow queue must never be executed for the wrong drive:
//!
//! ```text
//! published - claimed (borrower) - served (lender lends its queue) - bound (host redirects)
//!                                                                       |
//! taken back (lender) - unbound (host: nothing is in flight) - given back (borrower) or withdrawn (lender)
//! ```
//!
//! The host binds only a descriptor that is valid, claimed and served, and unbinds one that no longer is. The lender
//! takes its queue back only after the host has unbound it; until then a withdrawn descriptor stays allocated, invalid.
//!
//! **DRAM** needs no host. It is empty when it is published, and again when its borrower returns it. A withdrawn
//! descriptor stays allocated, invalid, until its borrower has returned it: before that the lender must not use the
//! DRAM.

use crate::decision::DriveId;
use std::cell::Cell;

/// Size of a table, in bytes.
pub const TABLE_BYTES: usize = 256;
/// Size of a descriptor, in bytes.
pub const DESCRIPTOR_BYTES: usize = 16;
/// Number of descriptors in a table.
pub const DESCRIPTORS: usize = TABLE_BYTES / DESCRIPTOR_BYTES;

const NO_BORROWER: u8 = 0xFF;

/// Utilization, in 65,535ths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utilisation(pub u16);

impl Utilisation {
    /// Converts a fraction from 0 to 1; other values are clamped.
    pub fn of(share: f64) -> Self {
        Utilisation((share.clamp(0.0, 1.0) * f64::from(u16::MAX)).round() as u16)
    }

    /// Converts to a fraction from 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(u16::MAX)
    }
}

/// A resource to lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A processor.
    Processor {
        /// Utilization of the borrower's processor; 0 without a borrower.
        borrower: Utilisation,
        /// Utilization of the lender's processor.
        lender: Utilisation,
        /// Start of the borrower's directory of the map, in lines of its exposed DRAM.
        directory: u32,
        /// The borrower's completion queue whose commands are redirected.
        borrower_queue: u16,
        /// The shadow completion queue.
        shadow_queue: u16,
    },
    /// DRAM.
    Dram {
        /// Number of segments.
        segments: u32,
        /// Head of the list of segments.
        list: u32,
        /// The borrower's log page of the first segment; the others follow it.
        log: u32,
    },
}

/// A descriptor: the state of a resource offered by a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Offered or lent; `false`: withdrawn.
    pub valid: bool,
    /// The borrower; `None`: free.
    pub borrower: Option<DriveId>,
    /// The lender serves the borrower.
    pub served: bool,
    /// The host has bound the shadow queue.
    pub bound: bool,
    /// The resource.
    pub resource: Resource,
}

impl Descriptor {
    /// A descriptor of a free resource.
    pub fn free(resource: Resource) -> Descriptor {
        Descriptor { valid: true, borrower: None, served: false, bound: false, resource }
    }

    /// Whether the host may redirect commands to the shadow queue.
    pub fn may_be_bound(&self) -> bool {
        self.valid && self.served && self.borrower.is_some()
    }

    /// Whether the lender may take its queue back, and reuse the descriptor.
    fn is_over(&self) -> bool {
        let is_used = match self.resource {
            Resource::Processor { .. } => self.bound || self.served,
            Resource::Dram { .. } => self.borrower.is_some(),
        };
        !is_used && !self.valid
    }

    /// Encodes it in two words. Borrower FFh would mean none; no drive has this number.
    pub fn encode(&self) -> [u64; 2] {
        let borrower = self.borrower.map_or(NO_BORROWER, |DriveId(number)| number);
        let flags = u64::from(self.valid) | u64::from(self.served) << 10 | u64::from(self.bound) << 11;
        let word =
            |kind: u64, amount: u32| flags | kind << 1 | u64::from(borrower) << 2 | u64::from(amount) << 32;
        match self.resource {
            Resource::Processor { borrower, lender, directory, borrower_queue, shadow_queue } => {
                let amount = u32::from(borrower.0) | u32::from(lender.0) << 16;
                let queues = u64::from(borrower_queue) << 32 | u64::from(shadow_queue) << 48;
                [word(0, amount), u64::from(directory) | queues]
            }
            Resource::Dram { segments, list, log } => {
                [word(1, segments), u64::from(list) | u64::from(log) << 32]
            }
        }
    }

    /// Decodes two words; `None`: nothing is offered there, and no earlier loan is left. Reserved bits are ignored.
    pub fn decode([first, second]: [u64; 2]) -> Option<Descriptor> {
        let [valid, served, bound] = [0, 10, 11].map(|bit: u32| first >> bit & 1 == 1);
        let (borrower, amount) = ((first >> 2) as u8, (first >> 32) as u32);
        let resource = match first >> 1 & 1 {
            0 => Resource::Processor {
                borrower: Utilisation(amount as u16),
                lender: Utilisation((amount >> 16) as u16),
                directory: second as u32,
                borrower_queue: (second >> 32) as u16,
                shadow_queue: (second >> 48) as u16,
            },
            _ => Resource::Dram { segments: amount, list: second as u32, log: (second >> 32) as u32 },
        };
        let borrower = (borrower != NO_BORROWER).then_some(DriveId(borrower));
        let descriptor = Descriptor { valid, borrower, served, bound, resource };
        // A word of zeroes names borrower 0 of a processor that no lender serves.
        (!descriptor.is_over()).then_some(descriptor)
    }
}

/// Why a claim failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// The index is out of range.
    #[error("descriptor {0} is out of range (a table has {DESCRIPTORS})")]
    NoDescriptor(usize),
    /// The descriptor has changed since it was read.
    #[error("the descriptor has changed since it was read")]
    Stale,
    /// The descriptor has a borrower.
    #[error("the resource has a borrower")]
    Taken,
    /// The number FFh, which means no borrower.
    #[error("drive number 255 is reserved")]
    Number,
}

/// The descriptors of a drive. Each change is atomic, under the lock of one descriptor; the caller charges the fabric.
#[derive(Debug, Default)]
pub struct IdleTable([Cell<[u64; 2]>; DESCRIPTORS]);

impl IdleTable {
    /// A descriptor as a peer reads it; `None`: nothing is offered there, or the index is out of range.
    pub fn read(&self, index: usize) -> Option<Descriptor> {
        Descriptor::decode(self.0.get(index)?.get())
    }

    /// All used descriptors, with their indexes.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Descriptor)> {
        self.0.iter().enumerate().filter_map(|(index, words)| Some((index, Descriptor::decode(words.get())?)))
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut Descriptor)) {
        if let Some(mut descriptor) = self.read(index) {
            change(&mut descriptor);
            self.0[index].set(if descriptor.is_over() { [0; 2] } else { descriptor.encode() });
        }
    }

    /// Offers a resource; returns the index of its descriptor, or `None` if all are in use.
    pub fn publish(&self, resource: Resource) -> Option<usize> {
        let index = self.0.iter().position(|words| Descriptor::decode(words.get()).is_none())?;
        self.0[index].set(Descriptor::free(resource).encode());
        Some(index)
    }

    /// Updates the fields that change while a resource is lent, for lender or borrower. Unused descriptors stay
    /// unchanged.
    pub fn update(&self, index: usize, change: impl FnOnce(&mut Resource)) {
        self.change(index, |descriptor| change(&mut descriptor.resource));
    }

    /// Claims descriptor `index`, which was free when the peer read it as `seen`.
    ///
    /// # Errors
    /// [`ClaimError`] if it has changed since. Nothing changes then.
    pub fn claim(&self, index: usize, seen: &Descriptor, borrower: DriveId) -> Result<(), ClaimError> {
        if borrower.0 == NO_BORROWER {
            return Err(ClaimError::Number);
        }
        if index >= DESCRIPTORS {
            return Err(ClaimError::NoDescriptor(index));
        }
        let now = self.read(index).filter(|now| now.valid).ok_or(ClaimError::Stale)?;
        // A returned descriptor stays served or bound until lender and host have noticed.
        if now.borrower.is_some() || now.served || now.bound {
            return Err(ClaimError::Taken);
        }
        let is_same = match (now.resource, seen.resource) {
            // Utilizations change all the time and do not invalidate the claim.
            (Resource::Processor { shadow_queue: now, .. }, Resource::Processor { shadow_queue, .. }) => {
                now == shadow_queue
            }
            (now @ Resource::Dram { .. }, seen) => now == seen,
            (Resource::Processor { .. }, Resource::Dram { .. }) => false,
        };
        if !is_same {
            return Err(ClaimError::Stale);
        }
        self.change(index, |descriptor| descriptor.borrower = Some(borrower));
        Ok(())
    }

    /// Takes a descriptor even if another peer has it: for tests that must detect the damage.
    pub fn take(&self, index: usize, borrower: DriveId) {
        self.change(index, |descriptor| descriptor.borrower = Some(borrower));
    }

    /// Clears the table at power-on: the drive lends nothing.
    pub fn clear(&self) {
        self.0.iter().for_each(|words| words.set([0; 2]));
    }

    /// Marks a descriptor as served, for commands of `borrower_queue`: the shadow queue is lent to the borrower.
    pub fn serve(&self, index: usize) {
        self.change(index, |descriptor| {
            descriptor.served = descriptor.valid && descriptor.borrower.is_some()
        });
    }

    /// Marks a descriptor as bound if the host may redirect commands to the shadow queue; returns the borrower. `None`:
    /// it may not.
    pub fn bind(&self, index: usize) -> Option<DriveId> {
        let descriptor = self.read(index).filter(Descriptor::may_be_bound)?;
        self.change(index, |descriptor| descriptor.bound = true);
        descriptor.borrower
    }

    /// Marks a descriptor as unbound: no command is redirected to the shadow queue, or in flight there.
    pub fn unbind(&self, index: usize) {
        self.change(index, |descriptor| descriptor.bound = false);
    }

    /// Returns a descriptor on behalf of its borrower. Others stay unchanged.
    pub fn give_back(&self, index: usize, borrower: DriveId) {
        self.change(index, |descriptor| {
            if descriptor.borrower == Some(borrower) {
                descriptor.borrower = None;
            }
        });
    }

    /// Withdraws a descriptor. Returns the borrower that still has it, and must be notified.
    pub fn withdraw(&self, index: usize) -> Option<DriveId> {
        let borrower = self.read(index)?.borrower;
        self.change(index, |descriptor| descriptor.valid = false);
        borrower
    }

    /// Whether the lender may take back the queue that serves the descriptor: the host redirects nothing there, and
    /// will not.
    pub fn is_service_over(&self, index: usize) -> bool {
        self.read(index).is_some_and(|now| now.served && !now.bound && !now.may_be_bound())
    }

    /// Ends the service after the lender has taken its queue back: the descriptor is free for another borrower, or
    /// unused if it was withdrawn. No effect while the service is not over.
    pub fn end_service(&self, index: usize) {
        if self.is_service_over(index) {
            self.change(index, |descriptor| (descriptor.served, descriptor.borrower) = (false, None));
        }
    }

    /// Frees all claims of a peer that was removed.
    pub fn forget(&self, borrower: DriveId) {
        (0..DESCRIPTORS).for_each(|index| self.give_back(index, borrower));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processor(lender: f64, shadow_queue: u16) -> Resource {
        let (borrower, lender) = (Utilisation(0), Utilisation::of(lender));
        Resource::Processor { borrower, lender, directory: 0xDEAD_BEEF, borrower_queue: 0, shadow_queue }
    }

    // The paper gives the widths; a field that overlaps its neighbor turns one drive's queue into another's.
    #[test]
    fn every_field_has_its_own_bits() {
        assert_eq!(size_of::<IdleTable>(), TABLE_BYTES);
        let full = Resource::Processor {
            borrower: Utilisation(0xFFFF),
            lender: Utilisation(0),
            directory: 0,
            borrower_queue: 0xFFFF,
            shadow_queue: 0,
        };
        let descriptor = Descriptor { borrower: Some(DriveId(0x5A)), ..Descriptor::free(full) };
        assert_eq!(descriptor.encode(), [1 | 0x5A << 2 | 0xFFFF << 32, 0xFFFF << 32]);
        let served = Descriptor { served: true, ..descriptor };
        let bound = Descriptor { bound: true, valid: false, ..descriptor };
        assert_eq!([served, bound].map(|it| it.encode()[0] & 0xFFF), [0x401 | 0x5A << 2, 0x800 | 0x5A << 2]);
        let dram = Resource::Dram { segments: u32::MAX, list: 0, log: u32::MAX };
        let free = Descriptor::free(dram);
        assert_eq!(free.encode(), [0b11 | 0xFF << 2 | 0xFFFF_FFFF << 32, 0xFFFF_FFFF << 32]);
        for descriptor in [descriptor, free, served, bound, Descriptor::free(processor(0.4, 7))] {
            assert_eq!(Descriptor::decode(descriptor.encode()), Some(descriptor));
        }
        let none = [[0, 0], [0x2 | 0xFF << 2, u64::MAX], [0x5A << 2, 0]];
        assert_eq!(none.map(Descriptor::decode), [None; 3]);
    }

    // Views are out of date for up to a period: what one peer has taken, or the lender has withdrawn, must not be
    // taken.
    #[test]
    fn a_stale_view_takes_nothing() {
        let table = IdleTable::default();
        let index = table.publish(processor(0.1, 3)).unwrap();
        let seen = table.read(index).unwrap();
        table.update(index, |resource| *resource = processor(0.6, 3));
        assert_eq!(table.claim(index, &seen, DriveId(1)), Ok(()), "it is busier, and lent all the same");
        assert_eq!(table.claim(index, &seen, DriveId(2)), Err(ClaimError::Taken));
        table.give_back(index, DriveId(2));
        assert_eq!(table.read(index).unwrap().borrower, Some(DriveId(1)), "it has nothing to give back");
        assert_eq!(table.withdraw(index), Some(DriveId(1)));
        assert_eq!(table.claim(index, &seen, DriveId(2)), Err(ClaimError::Stale));
        assert_eq!(table.publish(processor(0.1, 4)), Some(index));
        assert_eq!(table.claim(index, &seen, DriveId(2)), Err(ClaimError::Stale), "another shadow queue");
        let dram = table.publish(Resource::Dram { segments: 8, list: 1, log: 0 }).unwrap();
        let seen = table.read(dram).unwrap();
        table.update(dram, |resource| *resource = Resource::Dram { segments: 4, list: 1, log: 0 });
        assert_eq!(table.claim(dram, &seen, DriveId(2)), Err(ClaimError::Stale), "less than was seen");
        assert_eq!(table.claim(99, &seen, DriveId(2)), Err(ClaimError::NoDescriptor(99)));
        assert_eq!(table.claim(dram, &seen, DriveId(255)), Err(ClaimError::Number));
    }

    // Publishing more descriptors than a table has would overwrite lent ones.
    #[test]
    fn a_table_has_sixteen_places() {
        let table = IdleTable::default();
        assert!((0..DESCRIPTORS).all(|index| table.publish(processor(0.0, index as u16)) == Some(index)));
        assert_eq!(table.publish(processor(0.0, 99)), None);
        let seen = table.read(9).unwrap();
        table.claim(9, &seen, DriveId(6)).unwrap();
        table.claim(11, &table.read(11).unwrap(), DriveId(6)).unwrap();
        table.forget(DriveId(6));
        assert!(table.iter().all(|(_, descriptor)| descriptor.borrower.is_none()));
        table.withdraw(9);
        assert_eq!((table.publish(processor(0.0, 50)), table.iter().count()), (Some(9), DESCRIPTORS));
    }

    // A lender that reused DRAM before its borrower has left it would mix the pages of two drives.
    #[test]
    fn dram_that_was_withdrawn_stays_its_borrowers_until_it_is_given_back() {
        let table = IdleTable::default();
        let dram = Resource::Dram { segments: 8, list: 1, log: 0 };
        let index = table.publish(dram).unwrap();
        table.claim(index, &Descriptor::free(dram), DriveId(0)).unwrap();
        assert_eq!(table.withdraw(index), Some(DriveId(0)));
        let withdrawn = Descriptor { valid: false, borrower: Some(DriveId(0)), ..Descriptor::free(dram) };
        assert_eq!(table.read(index), Some(withdrawn));
        assert_eq!(table.publish(dram), Some(1), "its place is taken");
        assert_eq!(table.claim(index, &withdrawn, DriveId(2)), Err(ClaimError::Stale));
        table.give_back(index, DriveId(0));
        assert_eq!(table.read(index), None);
        assert_eq!(table.withdraw(1), None);
        assert_eq!(table.read(1), None, "one that has no borrower is gone at once");
    }

    /// The states of lender, borrower and host, for one descriptor of a processor.
    #[derive(Default)]
    struct Three {
        table: IdleTable,
        seen: Option<Descriptor>,
        /// The borrower that the lender's queue is lent to.
        lent_to: Option<DriveId>,
        /// The borrower whose commands the host redirects to the shadow queue, and the number in flight there.
        bound: Option<DriveId>,
        under_way: u32,
    }

    impl Three {
        fn step(&mut self, number: u64, me: DriveId) {
            match number {
                0 => self.seen = self.table.read(0),
                1 => {
                    if let Some(seen) = self.seen {
                        let _ = self.table.claim(0, &seen, me);
                    }
                }
                2 => self.table.give_back(0, me),
                3 => {
                    // The lender acts once.
                    match self.table.read(0) {
                        None => _ = self.table.publish(processor(0.1, 3)),
                        Some(now) if now.served => {
                            if self.table.is_service_over(0) {
                                assert_eq!(
                                    self.under_way, 0,
                                    "the queue is taken back while commands are in flight"
                                );
                                self.table.end_service(0);
                                self.lent_to = None;
                            }
                        }
                        Some(Descriptor { valid: true, borrower: Some(borrower), .. }) => {
                            self.lent_to = Some(borrower);
                            self.table.serve(0);
                        }
                        Some(_) => {}
                    }
                }
                4 => _ = self.table.withdraw(0),
                5 => match (self.bound, self.table.read(0)) {
                    (None, _) => self.bound = self.table.bind(0),
                    (Some(bound), now) => {
                        let holds = now.is_some_and(|now| now.may_be_bound() && now.borrower == Some(bound));
                        if !holds && self.under_way == 0 {
                            self.table.unbind(0);
                            self.bound = None;
                        }
                    }
                },
                6 if self.bound.is_some() => {
                    self.under_way += 1;
                    assert_eq!(self.lent_to, self.bound, "a command is executed for the wrong drive");
                }
                7 => self.under_way = self.under_way.saturating_sub(1),
                _ => {}
            }
        }
    }

    // Lender, borrowers and host act in any order, on views that may be out of date. Without the two bits that the
    // paper does not have, a queue that is empty for a moment would be taken back while the host still uses it.
    #[test]
    fn in_whatever_order_they_look_no_command_is_executed_for_the_wrong_drive() {
        let mut bound = 0;
        for seed in 0..2000 {
            let mut stream = byteway_clock::random::Rng::new(seed).stream("steps");
            let mut three = Three::default();
            for _ in 0..300 {
                let me = DriveId(stream.below(2) as u8);
                three.step(stream.below(8), me);
                bound += u64::from(three.bound.is_some());
            }
            // Without further action it ends: whatever was in flight, the descriptor becomes usable again.
            three.table.withdraw(0);
            for _ in 0..3 {
                (three.under_way, three.seen) = (0, None);
                [5, 3].into_iter().for_each(|step| three.step(step, DriveId(0)));
            }
            assert!(three.lent_to.is_none() && three.bound.is_none(), "seed {seed}");
        }
        assert!(bound > 50_000, "{bound}");
    }
}
