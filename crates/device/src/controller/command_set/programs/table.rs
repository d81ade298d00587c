//! Contents of a programs namespace: programs and memory range sets.

use crate::config::ProgramsPolicy;
use byteway_clock::Semaphore;
use byteway_program::Program;
use byteway_wire::IntoBytes;
use byteway_wire::nvme::Status;
use byteway_wire::nvme::programs::{EBPF, ListHeader, LoadProgram, MemoryRange, ProgramDescriptor};
use std::cell::RefCell;
use std::rc::Rc;

/// A program, complete or partly loaded.
struct ProgramSlot {
    kind: u8,
    identifier_kind: u8,
    identifier: u64,
    program_bytes: u32,
    /// Bytes loaded so far; empty once the program is complete.
    bytes: Vec<u8>,
    checksum: u32,
    /// The verified program, once the last piece is loaded.
    program: Option<Rc<Program>>,
    is_activated: bool,
    /// Number of active runs.
    runs: u32,
}

/// A range of a set. `uid` identifies the namespace, because its identifier may be reused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetRange {
    pub(crate) range: MemoryRange,
    pub(crate) uid: u64,
}

struct RangeSet {
    ranges: Rc<[SetRange]>,
    /// Number of active runs over the set.
    runs: u32,
}

/// Contents of a programs namespace.
pub(crate) struct Table {
    policy: ProgramsPolicy,
    /// Permits for slices, shared by all namespaces.
    pub(crate) turns: Semaphore,
    programs: RefCell<Vec<Option<ProgramSlot>>>,
    /// Range sets by identifier minus 1.
    sets: RefCell<Vec<Option<RangeSet>>>,
}

/// Outcome of loading a piece.
pub(crate) struct Loaded {
    /// CRC-32C of all bytes loaded so far.
    pub(crate) checksum: u32,
    /// Number of verified instructions; 0 unless the piece was the last one.
    pub(crate) checked: u64,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(policy: &ProgramsPolicy, turns: &Semaphore) -> Self {
        let programs = (0..policy.programs).map(|_| None).collect();
        let sets = (0..policy.sets_max).map(|_| None).collect();
        let (policy, turns) = (policy.clone(), turns.clone());
        Table { policy, turns, programs: RefCell::new(programs), sets: RefCell::new(sets) }
    }

    /// Checks whether a piece can be loaded now. Called before its bytes are fetched, and again afterwards.
    pub(crate) fn check_piece(&self, piece: &LoadProgram) -> Result<(), Status> {
        let programs = self.programs.borrow();
        let slot =
            programs.get(usize::from(piece.program)).ok_or(Status::INVALID_PROGRAM_INDEX.with_dnr())?;
        if piece.kind != EBPF {
            return Err(Status::INVALID_PROGRAM_TYPE.with_dnr());
        }
        if piece.program_bytes > self.policy.program_bytes_max {
            return Err(Status::PROGRAM_TOO_BIG.with_dnr());
        }
        if piece.bytes == 0
            || piece.offset.checked_add(piece.bytes).is_none_or(|end| end > piece.program_bytes)
        {
            return Err(Status::INVALID_FIELD.with_dnr());
        }
        if slot.as_ref().is_some_and(|slot| slot.program.is_some()) {
            return Err(Status::PROGRAM_IN_USE.with_dnr()); // must be unloaded first
        }
        match slot {
            // A first piece replaces what was loaded before.
            _ if piece.offset == 0 => {
                let others =
                    programs.iter().enumerate().filter(|(index, _)| *index != usize::from(piece.program));
                let bytes: u64 =
                    others.filter_map(|(_, it)| Some(u64::from(it.as_ref()?.program_bytes))).sum();
                match bytes + u64::from(piece.program_bytes) > self.policy.programs_bytes_max {
                    true => Err(Status::PROGRAM_BYTES_EXCEEDED.with_dnr()),
                    false => Ok(()),
                }
            }
            Some(slot) => {
                let is_next = piece.offset as usize == slot.bytes.len();
                let is_same = piece.program_bytes == slot.program_bytes
                    && (piece.identifier_kind, piece.identifier) == (slot.identifier_kind, slot.identifier);
                if is_next && is_same { Ok(()) } else { Err(Status::INVALID_FIELD.with_dnr()) }
            }
            None => Err(Status::INVALID_FIELD.with_dnr()),
        }
    }

    /// Appends a piece. The last piece triggers verification; a program that fails it is removed.
    pub(crate) fn add_piece(&self, piece: &LoadProgram, bytes: &[u8]) -> Result<Loaded, Status> {
        self.check_piece(piece)?;
        let mut programs = self.programs.borrow_mut();
        let entry = &mut programs[usize::from(piece.program)];
        if piece.offset == 0 {
            *entry = Some(ProgramSlot {
                kind: piece.kind,
                identifier_kind: piece.identifier_kind,
                identifier: piece.identifier,
                program_bytes: piece.program_bytes,
                bytes: Vec::new(),
                checksum: 0,
                program: None,
                is_activated: false,
                runs: 0,
            });
        }
        let Some(slot) = entry else { return Err(Status::INTERNAL_ERROR) };
        slot.bytes.extend_from_slice(bytes);
        slot.checksum = crc32c::crc32c_append(slot.checksum, bytes);
        let checksum = slot.checksum;
        if slot.bytes.len() < slot.program_bytes as usize {
            return Ok(Loaded { checksum, checked: 0 });
        }
        let Ok(program) = Program::verify(&slot.bytes) else {
            *entry = None;
            return Err(Status::INVALID_PROGRAM_DATA.with_dnr());
        };
        let checked = program.instructions().len() as u64;
        (slot.program, slot.bytes) = (Some(Rc::new(program)), Vec::new());
        Ok(Loaded { checksum, checked })
    }

    /// Unloads a program, or a partly loaded one.
    pub(crate) fn unload(&self, program: u16) -> Result<(), Status> {
        let mut programs = self.programs.borrow_mut();
        let entry = programs.get_mut(usize::from(program)).ok_or(Status::INVALID_PROGRAM_INDEX.with_dnr())?;
        let slot = entry.as_ref().ok_or(Status::NO_PROGRAM.with_dnr())?;
        if slot.is_activated || slot.runs > 0 {
            return Err(Status::PROGRAM_IN_USE.with_dnr());
        }
        *entry = None;
        Ok(())
    }

    /// Activates or deactivates a program. Repeating the current state succeeds.
    pub(crate) fn activate(&self, program: u16, activate: bool) -> Result<(), Status> {
        let mut programs = self.programs.borrow_mut();
        let activated = programs.iter().flatten().filter(|slot| slot.is_activated).count();
        let entry = programs.get_mut(usize::from(program)).ok_or(Status::INVALID_PROGRAM_INDEX.with_dnr())?;
        let slot = entry.as_mut().ok_or(Status::NO_PROGRAM.with_dnr())?;
        if slot.program.is_none() {
            return Err(Status::INVALID_PROGRAM_DATA.with_dnr()); // not completely loaded
        }
        match (slot.is_activated, activate) {
            (false, true) if activated >= usize::from(self.policy.activated_max) => {
                return Err(Status::PROGRAMS_ACTIVATED.with_dnr());
            }
            (true, false) if slot.runs > 0 => return Err(Status::PROGRAM_IN_USE.with_dnr()),
            _ => slot.is_activated = activate,
        }
        Ok(())
    }

    /// Creates a memory range set. Returns its identifier.
    pub(crate) fn create_set(&self, ranges: Vec<SetRange>) -> Result<u16, Status> {
        let mut sets = self.sets.borrow_mut();
        let free = sets.iter().position(Option::is_none);
        let index = free.ok_or(Status::MEMORY_RANGE_SETS_EXCEEDED.with_dnr())?;
        sets[index] = Some(RangeSet { ranges: ranges.into(), runs: 0 });
        Ok(index as u16 + 1)
    }

    /// Deletes a memory range set.
    pub(crate) fn delete_set(&self, set: u16) -> Result<(), Status> {
        let mut sets = self.sets.borrow_mut();
        let unknown = Status::INVALID_MEMORY_RANGE_SET_ID.with_dnr();
        let entry = sets.get_mut(usize::from(set).wrapping_sub(1)).ok_or(unknown)?;
        if entry.as_ref().ok_or(unknown)?.runs > 0 {
            return Err(Status::MEMORY_RANGE_SET_IN_USE.with_dnr());
        }
        *entry = None;
        Ok(())
    }

    /// Begins a run of an activated program, over memory range set `set`, or over none (0).
    pub(crate) fn begin(self: &Rc<Self>, program: u16, set: u16) -> Result<Run, Status> {
        let mut programs = self.programs.borrow_mut();
        let entry = programs.get_mut(usize::from(program)).ok_or(Status::INVALID_PROGRAM_INDEX.with_dnr())?;
        let slot = entry.as_mut().ok_or(Status::NO_PROGRAM.with_dnr())?;
        let code = slot.program.clone().filter(|_| slot.is_activated);
        let code = code.ok_or(Status::PROGRAM_NOT_ACTIVATED.with_dnr())?;
        let mut sets = self.sets.borrow_mut();
        let ranges = match set {
            0 => Rc::new([]) as Rc<[SetRange]>,
            _ => {
                let entry = sets.get_mut(usize::from(set) - 1).and_then(Option::as_mut);
                let entry = entry.ok_or(Status::INVALID_MEMORY_RANGE_SET_ID.with_dnr())?;
                entry.runs += 1;
                entry.ranges.clone()
            }
        };
        slot.runs += 1;
        Ok(Run { table: self.clone(), program, set, code, ranges })
    }

    /// Encodes the Program List log page.
    pub(crate) fn program_list(&self) -> Vec<u8> {
        let programs = self.programs.borrow();
        let header = ListHeader { count: programs.len() as u32, ..ListHeader::default() };
        let mut page = header.as_bytes().to_vec();
        for slot in &*programs {
            let descriptor =
                slot.as_ref().map_or_else(ProgramDescriptor::default, |slot| ProgramDescriptor {
                    state: ProgramDescriptor::DOWNLOADED
                        | if slot.is_activated { ProgramDescriptor::ACTIVATED } else { 0 }
                        | (slot.identifier_kind & 0x7) << 3,
                    kind: slot.kind,
                    identifier: slot.identifier,
                    loaded_bytes: match slot.program {
                        Some(_) => slot.program_bytes,
                        None => slot.bytes.len() as u32,
                    },
                    runs: slot.runs,
                    ..ProgramDescriptor::default()
                });
            page.extend_from_slice(descriptor.as_bytes());
        }
        page
    }

    /// Encodes the Memory Range Set List log page: for each set a header with identifier and count, then its
    /// ranges.
    pub(crate) fn set_list(&self) -> Vec<u8> {
        let sets = self.sets.borrow();
        let header = ListHeader { count: sets.iter().flatten().count() as u32, ..ListHeader::default() };
        let mut page = header.as_bytes().to_vec();
        for (index, set) in sets.iter().enumerate().filter_map(|(index, set)| Some((index, set.as_ref()?))) {
            let mut head = [0; MemoryRange::SIZE];
            head[..2].copy_from_slice(&(index as u16 + 1).to_le_bytes());
            head[4..8].copy_from_slice(&(set.ranges.len() as u32).to_le_bytes());
            page.extend_from_slice(&head);
            set.ranges.iter().for_each(|it| page.extend_from_slice(it.range.as_bytes()));
        }
        page
    }
}

/// An active run. It keeps the program and the range set in use until it is dropped, also if its command is
/// aborted.
pub(crate) struct Run {
    table: Rc<Table>,
    program: u16,
    set: u16,
    pub(crate) code: Rc<Program>,
    pub(crate) ranges: Rc<[SetRange]>,
}

impl Run {
    /// Permits for slices.
    pub(crate) fn turns(&self) -> &Semaphore {
        &self.table.turns
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Some(slot) = &mut self.table.programs.borrow_mut()[usize::from(self.program)] {
            slot.runs -= 1;
        }
        let mut sets = self.table.sets.borrow_mut();
        let set = usize::from(self.set).checked_sub(1).and_then(|index| sets[index].as_mut());
        if let Some(set) = set {
            set.runs -= 1;
        }
    }
}
