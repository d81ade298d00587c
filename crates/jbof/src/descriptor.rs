//! Idle-resource descriptors: what a drive has to lend, and who has borrowed it (4.3, Figure 7).
//!
//! | bits | what |
//! |---|---|
//! | 0 | valid |
//! | 1 | type: 0 a processor, 1 DRAM |
//! | 2 to 9 | the borrower, FFh: none |
//! | 10 | the lender serves: its shadow queue executes the borrower's commands |
//! | 11 | the host has bound the shadow queue, and may redirect commands to it |
//! | 12 to 31 | zero |
//! | 32 to 63 | how much: of a processor the utilisation of the borrower, then of the lender, 16 bits each; of DRAM segments |
//! | 64 to 127 | what the others need: of a processor the borrower's directory of the map, its completion queue, the shadow completion queue; of DRAM the head of the list of segments, the borrower's first log page |
//!
//! The widths are the paper's, the order is not in it, nor are bits 10 and 11. A table has 256 bytes, so sixteen descriptors. Peers
//! read it over the fabric and act on what they have read, which may be stale by then: so who borrows names what it has seen, and gets
//! the resource only if it is still so ([`IdleTable::claim`]).
//!
//! **A processor is lent in steps**, since lender, borrower and host look at different moments, and a command that comes by a shadow
//! queue must never be executed for the wrong drive:
//!
//! ```text
//! published - claimed (borrower) - served (lender lends its queue) - bound (host redirects)
//!                                                                       |
//! taken back (lender) - unbound (host: nothing is under way) - given back (borrower) or withdrawn (lender)
//! ```
//!
//! The host binds what is valid, claimed and served alone, and unbinds what is not any more. The lender takes its queue back when the
//! host has unbound it, and not before: as long as that takes a descriptor that was withdrawn keeps its place, invalid.
//!
//! **DRAM** needs no host. It is empty when it is published; who has claimed it uses it until it gives it back, and it is empty again
//! then. A descriptor that was withdrawn keeps its place, invalid, until its borrower has done so: before that the lender must not use
//! the DRAM for anything else.

use crate::DriveId;
use std::cell::Cell;

/// Bytes of a table.
pub const TABLE_BYTES: usize = 256;
/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 16;
/// Descriptors of a table.
pub const DESCRIPTORS: usize = TABLE_BYTES / DESCRIPTOR_BYTES;

const NO_BORROWER: u8 = 0xFF;

/// How much of the time something is busy, in 65,535ths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Utilisation(pub u16);

impl Utilisation {
    /// A share from 0 to 1; what lies beyond is taken as the nearer of them.
    pub fn of(share: f64) -> Self {
        Utilisation((share.clamp(0.0, 1.0) * f64::from(u16::MAX)).round() as u16)
    }

    /// From 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(u16::MAX)
    }
}

/// What there is to lend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A processor.
    Processor {
        /// How busy the borrower's is; 0 as long as there is none.
        borrower: Utilisation,
        /// How busy the lender's is.
        lender: Utilisation,
        /// Where the borrower's directory of the map begins, in lines of its exposed DRAM.
        directory: u32,
        /// The completion queue of the borrower whose commands are redirected.
        borrower_queue: u16,
        /// The shadow completion queue.
        shadow_queue: u16,
    },
    /// DRAM.
    Dram {
        /// How many segments.
        segments: u32,
        /// The first of the list of segments.
        list: u32,
        /// The borrower's log page of the first; the others follow it.
        log: u32,
    },
}

/// What a drive says of something that it lends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Whether it is lent still.
    pub valid: bool,
    /// Who has it; none: it is free.
    pub borrower: Option<DriveId>,
    /// The lender serves the borrower.
    pub served: bool,
    /// The host has bound the shadow queue.
    pub bound: bool,
    /// What it is.
    pub resource: Resource,
}

impl Descriptor {
    /// What is free.
    pub fn free(resource: Resource) -> Descriptor {
        Descriptor { valid: true, borrower: None, served: false, bound: false, resource }
    }

    /// Whether the host may redirect commands to the shadow queue.
    pub fn may_be_bound(&self) -> bool {
        self.valid && self.served && self.borrower.is_some()
    }

    /// Whether the lender may take its queue back, and use the descriptor for something else.
    fn is_over(&self) -> bool {
        let is_used = match self.resource {
            Resource::Processor { .. } => self.bound || self.served,
            Resource::Dram { .. } => self.borrower.is_some(),
        };
        !is_used && !self.valid
    }

    /// Its two words. A borrower FFh can't be told from none: there is none with this number.
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

    /// What two words say; none: nothing is lent there, and nothing was that is not over. What must be zero is not looked at.
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
        // A word of zeroes names borrower 0 of a processor, which nobody serves.
        (!descriptor.is_over()).then_some(descriptor)
    }
}

/// Why a resource was not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// There is no such descriptor.
    #[error("a table has {DESCRIPTORS} descriptors, and no number {0}")]
    NoDescriptor(usize),
    /// It is not as it was seen.
    #[error("the descriptor has changed since it was read")]
    Stale,
    /// Another one has it.
    #[error("the resource has a borrower")]
    Taken,
    /// A number that says that there is no borrower.
    #[error("no drive can have the number 255")]
    Number,
}

/// The descriptors of a drive. What is done here is done under the lock of one descriptor, at once; what that costs over the fabric
/// is its caller's to pay.
#[derive(Debug, Default)]
pub struct IdleTable([Cell<[u64; 2]>; DESCRIPTORS]);

impl IdleTable {
    /// What a peer reads; none: nothing is lent there, or there is no such descriptor.
    pub fn read(&self, index: usize) -> Option<Descriptor> {
        Descriptor::decode(self.0.get(index)?.get())
    }

    /// All that is lent, with its number.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Descriptor)> {
        self.0.iter().enumerate().filter_map(|(index, words)| Some((index, Descriptor::decode(words.get())?)))
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut Descriptor)) {
        if let Some(mut descriptor) = self.read(index) {
            change(&mut descriptor);
            self.0[index].set(if descriptor.is_over() { [0; 2] } else { descriptor.encode() });
        }
    }

    /// The lender offers something: the number of its descriptor; none: all are in use.
    pub fn publish(&self, resource: Resource) -> Option<usize> {
        let index = self.0.iter().position(|words| Descriptor::decode(words.get()).is_none())?;
        self.0[index].set(Descriptor::free(resource).encode());
        Some(index)
    }

    /// Lender or borrower say anew what changes while something is lent. Of what is not lent nothing is said.
    pub fn update(&self, index: usize, change: impl FnOnce(&mut Resource)) {
        self.change(index, |descriptor| change(&mut descriptor.resource));
    }

    /// A peer takes what it has `seen`, free, as number `index`.
    ///
    /// # Errors
    /// It is not so any more. Nothing has changed then.
    pub fn claim(&self, index: usize, seen: &Descriptor, borrower: DriveId) -> Result<(), ClaimError> {
        if borrower.0 == NO_BORROWER {
            return Err(ClaimError::Number);
        }
        if index >= DESCRIPTORS {
            return Err(ClaimError::NoDescriptor(index));
        }
        let now = self.read(index).filter(|now| now.valid).ok_or(ClaimError::Stale)?;
        // One that was given back is served, or bound, until lender and host have seen that.
        if now.borrower.is_some() || now.served || now.bound {
            return Err(ClaimError::Taken);
        }
        let is_same = match (now.resource, seen.resource) {
            // How busy it is changes all the time, and takes nothing away.
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

    /// A peer takes a descriptor without a look at who has it: for tests that must find what comes of that.
    pub fn take(&self, index: usize, borrower: DriveId) {
        self.change(index, |descriptor| descriptor.borrower = Some(borrower));
    }

    /// The drive's power has come: it lends nothing.
    pub fn clear(&self) {
        self.0.iter().for_each(|words| words.set([0; 2]));
    }

    /// The lender serves the borrower from now on, for whom `borrower_queue` is redirected: its shadow queue is lent to it.
    pub fn serve(&self, index: usize) {
        self.change(index, |descriptor| {
            descriptor.served = descriptor.valid && descriptor.borrower.is_some()
        });
    }

    /// The host looks whether it may redirect commands to the shadow queue, and says that it does: to whom the queue is lent. None: it
    /// may not.
    pub fn bind(&self, index: usize) -> Option<DriveId> {
        let descriptor = self.read(index).filter(Descriptor::may_be_bound)?;
        self.change(index, |descriptor| descriptor.bound = true);
        descriptor.borrower
    }

    /// The host redirects nothing more to the shadow queue, and nothing is under way there.
    pub fn unbind(&self, index: usize) {
        self.change(index, |descriptor| descriptor.bound = false);
    }

    /// A borrower gives back what it has. What it has not stays as it is.
    pub fn give_back(&self, index: usize, borrower: DriveId) {
        self.change(index, |descriptor| {
            if descriptor.borrower == Some(borrower) {
                descriptor.borrower = None;
            }
        });
    }

    /// The lender lends something no more. Gives who has it still, and is to learn of that.
    pub fn withdraw(&self, index: usize) -> Option<DriveId> {
        let borrower = self.read(index)?.borrower;
        self.change(index, |descriptor| descriptor.valid = false);
        borrower
    }

    /// Whether the lender may take its queue back that it has served with: the host redirects nothing there, nor will it.
    pub fn is_service_over(&self, index: usize) -> bool {
        self.read(index).is_some_and(|now| now.served && !now.bound && !now.may_be_bound())
    }

    /// The lender, which has taken its queue back, serves no more: the descriptor is free for another borrower, or for something else
    /// if it was withdrawn. As long as the service is not over, nothing happens.
    pub fn end_service(&self, index: usize) {
        if self.is_service_over(index) {
            self.change(index, |descriptor| (descriptor.served, descriptor.borrower) = (false, None));
        }
    }

    /// A peer is gone: what it had is free.
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

    // The paper gives the widths; a field that reaches into its neighbour makes one drive's queue another's.
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

    // Views are stale for up to a period: what is taken by one must not be taken by another, nor what is withdrawn.
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

    // A table that takes more than it has room for overwrites what is lent.
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

    // A lender that used DRAM again while its borrower has not left it would hold two drives' pages in one place.
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

    /// What lender, borrower and host are at, for one descriptor of a processor.
    #[derive(Default)]
    struct Three {
        table: IdleTable,
        seen: Option<Descriptor>,
        /// To whom the lender's queue is lent.
        lent_to: Option<DriveId>,
        /// To whose commands the host gives the shadow queue, and how many are under way there.
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
                    // The lender, at one look.
                    match self.table.read(0) {
                        None => _ = self.table.publish(processor(0.1, 3)),
                        Some(now) if now.served => {
                            if self.table.is_service_over(0) {
                                assert_eq!(
                                    self.under_way, 0,
                                    "the queue is taken back while commands are under way"
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

    // Lender, borrowers and host look in any order, and what they saw may be old. Without the two bits that the paper does not have, a
    // queue that is empty for a moment is taken back while the host still uses it.
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
            // Left alone, it ends: whatever was under way, the descriptor is of use again.
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
