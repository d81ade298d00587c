//! The array's end of a member: queued commands, and the tasks that execute them.

use crate::group::{Group, Verb};
use byteway_clock::{Clock, Notify, TaskId};
use byteway_content::Content;
use byteway_member::{Member, MemberError, MemberLost, MemberShape};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// A command: part of a piece. It is answered when it is dropped: as lost, if that is before its end.
struct Job {
    group: Rc<Group>,
    piece: usize,
    /// Offset of its units in the piece, and their number.
    at: u64,
    count: u64,
    has_ended: bool,
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.has_ended {
            let error = MemberLost::because("it was replaced").into();
            self.group.pieces.borrow_mut()[self.piece].fail(error);
        }
        self.group.answer();
    }
}

/// A member, as seen by the array.
pub(crate) struct Port {
    clock: Clock,
    pub(crate) shape: MemberShape,
    /// Queued commands: of hosts, and in the background.
    waiting: RefCell<[VecDeque<Job>; 2]>,
    sendable: Notify,
    in_flight: Cell<u32>,
    /// Why the member is lost.
    gone: RefCell<Option<MemberLost>>,
    tasks: RefCell<Vec<TaskId>>,
}

impl Port {
    /// Queries a member's properties, and starts its lanes.
    pub(crate) async fn attach<M: Member>(clock: &Clock, member: M) -> Result<Rc<Port>, MemberLost> {
        let mut shape = member.describe().await?;
        shape.command_units = shape.command_units.max(1);
        let port = Rc::new(Port {
            clock: clock.clone(),
            shape,
            waiting: RefCell::default(),
            sendable: Notify::new(clock),
            in_flight: Cell::default(),
            gone: RefCell::default(),
            tasks: RefCell::default(),
        });
        let member = Rc::new(member);
        let lane = |lane| clock.spawn("member of an array", run(port.clone(), member.clone(), lane));
        let tasks = (0..member.lanes().max(1)).map(lane).collect();
        port.tasks.replace(tasks);
        Ok(port)
    }

    /// Sends a piece of a group, in as many commands as necessary.
    pub(crate) fn send(&self, group: &Rc<Group>, piece: usize) {
        let count = {
            let piece = &mut group.pieces.borrow_mut()[piece];
            if piece.verb == Verb::Read {
                piece.contents.clear();
                piece.contents.resize(piece.count as usize, Content::Zero);
            }
            match piece.verb {
                Verb::Read | Verb::Write(_) => Some(piece.count),
                _ => None,
            }
        };
        let line = usize::from(group.is_background.get());
        let longest = u64::from(self.shape.command_units);
        let mut waiting = self.waiting.borrow_mut();
        let mut push = |at, count| {
            group.expect(1);
            waiting[line].push_back(Job { group: group.clone(), piece, at, count, has_ended: false });
            self.sendable.notify_one();
        };
        match count {
            Some(count) => {
                (0..count).step_by(longest as usize).for_each(|at| push(at, longest.min(count - at)));
            }
            None => push(0, 0),
        }
    }

    /// Commands queued or in flight.
    pub(crate) fn load(&self) -> u32 {
        let waiting = self.waiting.borrow();
        (waiting[0].len() + waiting[1].len()) as u32 + self.in_flight.get()
    }

    /// Stops sending; queued commands are answered with `why`.
    pub(crate) fn give_up(&self, why: MemberLost) {
        self.gone.borrow_mut().get_or_insert(why);
        self.sendable.notify_one();
    }

    /// Ends its lanes. Commands that are queued or in flight are answered as lost: who waits for them may have gone on with another member.
    pub(crate) fn stop(&self) {
        self.tasks.take().into_iter().for_each(|task| self.clock.kill(task));
        self.waiting.take();
    }

    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting.borrow_mut();
        let job = waiting.iter_mut().find_map(VecDeque::pop_front);
        if job.is_some() && waiting.iter().any(|line| !line.is_empty()) {
            self.sendable.notify_one(); // another lane may be idle
        }
        job
    }
}

/// A lane: executes one command after another.
async fn run<M: Member>(port: Rc<Port>, member: Rc<M>, lane: usize) {
    let mut contents = Vec::new();
    loop {
        let Some(mut job) = port.next() else {
            port.sendable.notified().await;
            continue;
        };
        port.in_flight.set(port.in_flight.get() + 1);
        let gone = port.gone.borrow().clone();
        let result = match gone {
            Some(gone) => Err(gone.into()),
            None => carry_out(&*member, lane, &job, &mut contents).await,
        };
        port.in_flight.set(port.in_flight.get() - 1);
        if let Err(error) = result {
            job.group.pieces.borrow_mut()[job.piece].fail(error);
        }
        contents.clear();
        job.has_ended = true;
    }
}

async fn carry_out<M: Member>(
    member: &M,
    lane: usize,
    job: &Job,
    contents: &mut Vec<Content>,
) -> Result<(), MemberError> {
    let span = job.group.span.get();
    let (verb, first, count) = {
        let pieces = job.group.pieces.borrow();
        let piece = &pieces[job.piece];
        let range = job.at as usize..(job.at + job.count) as usize;
        match piece.verb {
            Verb::Write(_) => contents.extend_from_slice(&piece.contents[range]),
            Verb::WritePart(..) => contents.extend_from_slice(&piece.contents),
            Verb::Read | Verb::Deallocate | Verb::Flush => {}
        }
        (piece.verb, piece.first + job.at, piece.count)
    };
    match verb {
        Verb::Read => {
            member.read(lane, span, first, job.count as u32, contents).await?;
            if contents.len() as u64 != job.count {
                return Err(MemberLost::because("it gave fewer units than it was asked for").into());
            }
            let mut pieces = job.group.pieces.borrow_mut();
            let into = pieces[job.piece].contents[job.at as usize..].iter_mut();
            into.zip(contents.drain(..)).for_each(|(into, content)| *into = content);
            Ok(())
        }
        Verb::Write(durable) => member.write(lane, span, first, contents, durable).await,
        Verb::WritePart(offset, bytes, durable) => match contents.first() {
            Some(content) => member.write_part(lane, span, first, offset, bytes, content, durable).await,
            None => Ok(()),
        },
        Verb::Deallocate => member.deallocate(lane, span, first, count).await,
        Verb::Flush => member.flush(lane, span).await,
    }
}
