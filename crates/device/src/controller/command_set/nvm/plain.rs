//! Plain reads and writes as records: one whole unit, to or from the one page that PRP1 names. Nearly all I/O is plain, so it is carried
//! on by calls, from step to step. Everything else, and everything invalid, is left to [`io`](super::io), which gives the same result at the
//! same instants.

use crate::controller::command::context::Context;
use crate::controller::command::media::status_of;
use crate::controller::core::Core;
use crate::controller::namespace::Namespace;
use crate::controller::state::counters::add;
use byteway_clock::{CreditPlace, Delay, Stage};
use byteway_content::{Content, Keep, Pattern, UNIT_BYTES};
use byteway_firmware::{MediaError, Progress, Route, UnitRead, UnitWrite, WorkKind};
use byteway_link::{Direction, Epoch, Fault, Part, PartConsumer, Purpose};
use byteway_wire::nvme::command::{FUSE_NONE, PSDT_PRP};
use byteway_wire::nvme::{NvmOpcode, ReadWrite, Segment, Sqe, Status};
use std::rc::Rc;

/// A plain read or write, checked as far as possible before the first wait.
pub(crate) struct Plain {
    /// Held until the command ends, since changes of namespaces wait for that.
    namespace: Rc<Namespace>,
    /// The block, for the error log; of a read that failed, the first that can't be read.
    pub(crate) lba: u64,
    /// The unit's address on the drive.
    unit: u64,
    page: Segment,
    epoch: Epoch,
    step: Step,
}

/// The next step of a command.
enum Step {
    /// Of a read: as the translation layer reads the unit.
    Read(UnitRead),
    /// The DMA engine is set up, after this wait for a core, to send the unit.
    Send(Delay, Content),
    /// Its last byte has left.
    Sent,
    /// Of a write: the DMA engine is set up, after this wait for a core.
    SetUp(Delay),
    /// There are tags for the read requests of the page.
    Ask(Part, CreditPlace),
    /// The requests have reached memory.
    Sample(Part),
    /// The last byte of the page has arrived.
    Receive(Part, Content),
    /// As the translation layer writes the unit.
    Write(UnitWrite),
}

/// What a step comes to.
type Progressed = Result<Progress<()>, Status>;

impl Plain {
    /// The command as a plain read or write, if it is one.
    #[inline]
    pub(crate) fn of(core: &Core, sqe: &Sqe, route: Route) -> Option<Plain> {
        let direction = direction(sqe).filter(|_| core.backing.is_plain(route))?;
        let rw = ReadWrite::parse(sqe);
        let is_page = sqe.prp1.is_multiple_of(UNIT_BYTES as u64);
        let is_durable = direction == Direction::Down && !core.features.write_cache.get().wce();
        if !is_page || rw.fua || is_durable {
            return None;
        }
        let namespace = core.namespace(sqe.nsid).ok()?;
        let span = namespace.span(rw.slba, u64::from(rw.blocks())).ok()?;
        if span.offset != 0
            || span.bytes != UNIT_BYTES as u64
            || span.bytes > u64::from(core.config.controller.transfer_bytes_max)
        {
            return None;
        }
        let page = Segment { address: sqe.prp1, bytes: UNIT_BYTES as u32 };
        let epoch = core.port.epoch();
        core.port.check(page, direction, epoch).ok()?;
        let step = match direction {
            Direction::Up => Step::Sent, // until it begins
            Direction::Down => {
                namespace.check_writable().ok()?;
                Step::Ask(core.port.part(page)?, CreditPlace::default())
            }
        };
        let (unit, _) = namespace.run(span.unit, 1);
        Some(Plain { namespace, lba: rw.slba, unit, page, epoch, step })
    }

    /// Takes the first step.
    pub(crate) fn begin(&mut self, context: &Context<'_>) -> Progressed {
        match self.step {
            Step::Ask(..) => match set_up(context.core) {
                Some((queued, progress)) => {
                    self.step = Step::SetUp(queued);
                    Ok(progress)
                }
                None => self.go_on(context),
            },
            _ => {
                let begun = context.core.backing.own_ftl().begin_read(self.unit);
                let (read, at) = begun.map_err(|error| unread(context.core, error))?;
                self.step = Step::Read(read);
                Ok(Progress::Until(at))
            }
        }
    }

    /// Takes the next step, which is due.
    ///
    /// # Errors
    /// The status with which the command ends.
    #[inline]
    pub(crate) fn go_on(&mut self, context: &Context<'_>) -> Progressed {
        let core = context.core;
        match &mut self.step {
            Step::Read(read) => {
                let ftl = core.backing.own_ftl();
                let content = match ftl.read_on(read, context.span, core.clock.spans()) {
                    Progress::Until(at) => return Ok(Progress::Until(at)),
                    Progress::Called => return Ok(Progress::Called),
                    Progress::Ended(read) => read.map_err(|error| unread(core, error))?,
                };
                context.check()?;
                if content.marred() != 0 {
                    self.check_readable(core, &content)?;
                }
                match set_up(core) {
                    None => self.send(core, content),
                    Some((queued, progress)) => {
                        self.step = Step::Send(queued, content);
                        Ok(progress)
                    }
                }
            }
            Step::Send(queued, content) => {
                context.charge_firmware(*queued);
                context.check()?;
                let content = std::mem::take(content);
                self.send(core, content)
            }
            Step::Sent => {
                context.charge(Stage::Link);
                context.check()?;
                core.count_read(context.span, u64::from(self.page.bytes));
                Ok(Progress::Ended(()))
            }
            Step::SetUp(queued) => {
                context.charge_firmware(*queued);
                context.check()?;
                let part = core.port.part(self.page).ok_or(Status::INTERNAL_ERROR)?; // there is: see `of`
                self.step = Step::Ask(part, CreditPlace::default());
                self.go_on(context)
            }
            Step::Ask(part, place) => match core.port.ask_for_part(part, Purpose::Data, place) {
                None => Ok(Progress::Called),
                Some(reached) => {
                    self.step = Step::Sample(*part);
                    Ok(Progress::Until(reached))
                }
            },
            Step::Sample(part) => {
                let part = *part;
                let mut unit = Landed { keep: core.config.keep, content: Content::Zero, bytes: Vec::new() };
                let sampled = core.port.sample_part(&part, self.epoch, Purpose::Data, &mut unit);
                if sampled.is_err() {
                    self.step = Step::Sent; // the tags are released
                }
                let arrival = sampled.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
                self.step = Step::Receive(part, unit.content);
                Ok(Progress::Until(arrival))
            }
            Step::Receive(part, content) => {
                let (part, content) = (*part, std::mem::take(content));
                self.step = Step::Sent;
                core.port.release_part(&part);
                add(&core.counters.data_in_bytes, u64::from(self.page.bytes));
                context.charge(Stage::Link);
                context.check()?;
                let begun = core.backing.own_ftl().begin_write(self.unit, content);
                let (write, at) = begun.map_err(|error| status_of(error, Status::WRITE_FAULT))?;
                self.step = Step::Write(write);
                Ok(Progress::Until(at))
            }
            Step::Write(write) => {
                match core.backing.own_ftl().write_on(write, context.span, core.clock.spans()) {
                    Progress::Until(at) => Ok(Progress::Until(at)),
                    Progress::Called => Ok(Progress::Called),
                    Progress::Ended(written) => {
                        written.map_err(|error| status_of(error, Status::WRITE_FAULT))?;
                        core.count_write(context.span, u64::from(self.page.bytes));
                        Ok(Progress::Ended(()))
                    }
                }
            }
        }
    }

    /// Sends the unit that was read.
    #[inline]
    fn send(&mut self, core: &Core, content: Content) -> Progressed {
        let Segment { address, bytes } = self.page;
        let written = core.port.write_content(address, content, 0, bytes, self.epoch, Purpose::Data);
        let passage = written.map_err(|_: Fault| Status::DATA_TRANSFER_ERROR)?;
        add(&core.counters.data_out_bytes, u64::from(bytes));
        self.step = Step::Sent;
        Ok(Progress::Until(passage.sent))
    }

    /// Fails if a block of the unit is unreadable.
    #[cold]
    fn check_readable(&mut self, core: &Core, content: &Content) -> Result<(), Status> {
        let Some(at) = content.first_marred(0, UNIT_BYTES) else { return Ok(()) };
        self.lba += (at / self.namespace.format().block.bytes()) as u64;
        add(&core.counters.media_errors, 1);
        Err(Status::UNRECOVERED_READ_ERROR)
    }

    /// Gives back what the record holds of the link, which outlives its drive: for one that is dropped before it ended.
    pub(crate) fn give_up(&mut self, core: &Core) {
        match &mut self.step {
            Step::Ask(_, place) => core.port.give_up_tags(place),
            Step::Sample(part) | Step::Receive(part, _) => core.port.release_part(part),
            _ => {}
        }
    }
}

/// The direction of the payload of a command that may be plain: a Read or Write of one page by PRP.
#[inline]
pub(crate) fn direction(sqe: &Sqe) -> Option<Direction> {
    if sqe.psdt() != PSDT_PRP || sqe.fuse() != FUSE_NONE {
        return None;
    }
    match NvmOpcode(sqe.opcode()) {
        NvmOpcode::READ => Some(Direction::Up),
        NvmOpcode::WRITE => Some(Direction::Down),
        _ => None,
    }
}

/// Sets the DMA engine up: how long that waits for a core, and its end; `None` if it takes no time.
#[inline]
fn set_up(core: &Core) -> Option<(Delay, Progress<()>)> {
    if core.placement.cycles().of(WorkKind::Dma) == 0 {
        return None;
    }
    let work = core.placement.reserve(WorkKind::Dma, 1);
    Some((work.queued, Progress::Until(work.end)))
}

/// The status of a unit that flash did not deliver.
#[cold]
fn unread(core: &Core, error: MediaError) -> Status {
    add(&core.counters.media_errors, 1);
    status_of(error, Status::UNRECOVERED_READ_ERROR)
}

/// The unit that a page becomes.
struct Landed {
    keep: Keep,
    content: Content,
    /// What came before the page was whole.
    bytes: Vec<u8>,
}

impl PartConsumer for &mut Landed {
    fn bytes(&mut self, _: usize, part: &[u8]) {
        if part.len() == UNIT_BYTES {
            self.content = Content::of(part, self.keep);
            return;
        }
        self.bytes.extend_from_slice(part);
        if self.bytes.len() == UNIT_BYTES {
            self.content = Content::of(&self.bytes, self.keep);
        }
    }

    fn page(&mut self, _: usize, pattern: Pattern) -> bool {
        let is_kept = self.keep == Keep::Stamps;
        if is_kept {
            self.content = pattern.into();
        }
        is_kept
    }
}
