//! A connection that carries messages: framing, descriptors, and waiting for replies.
//!
//! Only [`Channel::ask`] and [`Channel::wait_for`] block, and both have a time limit. The peer is not
//! trusted: the buffer of a message grows with the bytes received, not with the length that its header
//! claims.

use super::message::{Command, FILES_MAX, HEADER_BYTES, Header, MESSAGE_BYTES_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, recvmsg, sendmsg, shutdown,
};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::rc::Rc;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// Pending bytes to send, at most: a peer that does not read its replies is dropped.
pub const UNSENT_BYTES_MAX: usize = 4 << 20;
/// Pending descriptors to send, at most: each takes an entry in this process's table, which all its drives
/// share.
const UNSENT_FILES_MAX: usize = 64;
/// Time limit for a reply.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Bytes per read of the socket, at most.
const CHUNK_BYTES: usize = 64 << 10;
/// Slices that a message is sent from: the header and up to three parts.
const SLICES_MAX: usize = 4;

/// Why a connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Gone {
    /// The peer closed it between two messages.
    #[error("it has closed the connection")]
    Closed,
    /// The peer closed it within a message.
    #[error("it has closed the connection within a message")]
    Torn,
    /// The header claims a length that no message has.
    #[error("it sent a message of {0} bytes: {HEADER_BYTES} to {MESSAGE_BYTES_MAX} are possible")]
    Size(u32),
    /// The peer does not read. Holds the number of pending bytes.
    #[error("it does not read its messages: {0} bytes are pending")]
    Deaf(usize),
    /// The peer does not reply to this command.
    #[error("it has not answered {0} within {limit} s", limit = ANSWER_LIMIT.as_secs())]
    Silent(Command),
    /// The peer sends more requests than can be kept while this side waits for a reply.
    #[error("it sent too much while it was waited for")]
    Flood,
    /// The peer violated the protocol.
    #[error("{0}")]
    Protocol(&'static str),
    /// The socket failed.
    #[error("the socket failed: {0}")]
    Socket(Errno),
    /// This side ended the connection.
    #[error("this side has closed the connection")]
    Stopped,
}

/// A received message.
#[derive(Debug, Default)]
pub struct Message {
    /// Header.
    pub header: Header,
    /// The bytes after the header.
    pub payload: Vec<u8>,
    /// The descriptors received with it, up to [`FILES_MAX`].
    pub files: Vec<OwnedFd>,
    /// Whether more descriptors came than allowed: all were closed, and the message has to be refused.
    pub has_too_many_files: bool,
}

/// The message being received.
struct Input {
    header: [u8; HEADER_BYTES],
    /// Header bytes received so far.
    filled: usize,
    message: Message,
    chunk: Box<[u8]>,
    /// Spare payload buffer, for reuse.
    spare: Vec<u8>,
}

struct Unsent {
    bytes: Vec<u8>,
    sent: usize,
    files: Vec<OwnedFd>,
}

#[derive(Default)]
struct Output {
    queue: VecDeque<Unsent>,
    bytes: usize,
    files: usize,
}

/// A connected stream socket that carries messages.
pub struct Channel {
    socket: Rc<OwnedFd>,
    input: RefCell<Input>,
    output: RefCell<Output>,
    gone: Cell<Option<Gone>>,
    next_id: Cell<u16>,
    stray_replies: Cell<u64>,
}

impl Channel {
    /// Takes over a connected stream socket.
    pub fn new(socket: OwnedFd) -> Self {
        Channel {
            socket: Rc::new(socket),
            input: RefCell::new(Input {
                header: [0; HEADER_BYTES],
                filled: 0,
                message: Message::default(),
                chunk: vec![0; CHUNK_BYTES].into(),
                spare: Vec::new(),
            }),
            output: RefCell::default(),
            gone: Cell::new(None),
            next_id: Cell::new(0),
            stray_replies: Cell::new(0),
        }
    }

    /// The socket, for waiting on it.
    pub fn socket(&self) -> &Rc<OwnedFd> {
        &self.socket
    }

    /// Number of replies to no request.
    pub fn stray_replies(&self) -> u64 {
        self.stray_replies.get()
    }

    /// Counts a reply to no request.
    pub fn note_stray_reply(&self) {
        self.stray_replies.set(self.stray_replies.get() + 1);
    }

    /// Ends the connection, unless it has ended; returns the reason that counts.
    pub fn end(&self, why: Gone) -> Gone {
        if let Some(before) = self.gone.get() {
            return before;
        }
        self.gone.set(Some(why));
        // Shutdown wakes every task that waits for the socket.
        let _ = shutdown(&*self.socket, Shutdown::Both);
        why
    }

    /// Whether the peer has closed the connection, perhaps with bytes still unread here.
    pub fn has_left(&self) -> bool {
        if self.gone.get().is_some() {
            return true;
        }
        let mut polled = [PollFd::new(&*self.socket, PollFlags::RDHUP)];
        let ready = poll(&mut polled, Some(&Timespec::default())).unwrap_or(0);
        ready > 0 && polled[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
    }

    /// The next message, if it has been received completely.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn try_receive(&self) -> Result<Option<Message>, Gone> {
        if let Some(why) = self.gone.get() {
            return Err(why);
        }
        self.input.borrow_mut().advance(&self.socket).map_err(|why| self.end(why))
    }

    /// Returns the buffer of a payload for reuse.
    pub fn recycle(&self, mut payload: Vec<u8>) {
        if payload.capacity() <= CHUNK_BYTES {
            payload.clear();
            self.input.borrow_mut().spare = payload;
        }
    }

    /// Sends a message of `header` and up to three `parts`, with the descriptors attached to its first byte.
    /// Bytes that the socket does not accept stay pending for [`Channel::flush`].
    ///
    /// # Errors
    /// The connection has ended, or ends now because too much is pending.
    pub fn send(&self, header: Header, parts: &[&[u8]], files: &[BorrowedFd<'_>]) -> Result<(), Gone> {
        if let Some(why) = self.gone.get() {
            return Err(why);
        }
        self.output.borrow_mut().send(&self.socket, header, parts, files).map_err(|why| self.end(why))
    }

    /// Sends pending bytes as far as the socket accepts them. Returns whether nothing is pending.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn flush(&self) -> Result<bool, Gone> {
        if let Some(why) = self.gone.get() {
            return Err(why);
        }
        self.output.borrow_mut().flush(&self.socket).map_err(|why| self.end(why))
    }

    /// Whether bytes are pending.
    pub fn has_unsent(&self) -> bool {
        !self.output.borrow().queue.is_empty()
    }

    /// Sends a request and waits for its reply. `meanwhile` receives the other messages.
    ///
    /// # Errors
    /// The connection has ended, or ends now because no reply came within [`ANSWER_LIMIT`].
    pub fn ask(
        &self,
        command: Command,
        parts: &[&[u8]],
        files: &[BorrowedFd<'_>],
        mut meanwhile: impl FnMut(Message) -> Result<(), Gone>,
    ) -> Result<Message, Gone> {
        let id = self.next_id();
        self.send(Header::request(id, command, 0), parts, files)?;
        self.wait_for(ANSWER_LIMIT, |message| {
            if message.header.kind() != Header::REPLY {
                return meanwhile(message).map(|()| None);
            }
            if message.header.id.get() == id && message.header.command() == command {
                return Ok(Some(message));
            }
            self.note_stray_reply();
            Ok(None)
        })?
        .ok_or_else(|| self.end(Gone::Silent(command)))
    }

    /// Passes received messages to `look` until it returns a value or `limit` has passed. Sends pending bytes
    /// meanwhile.
    ///
    /// # Errors
    /// The connection has ended, or `look` returned an error.
    pub fn wait_for<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut(Message) -> Result<Option<T>, Gone>,
    ) -> Result<Option<T>, Gone> {
        let end = now() + limit;
        loop {
            let message = self.try_receive()?;
            let has_come = message.is_some();
            if let Some(message) = message
                && let Some(found) = look(message)?
            {
                return Ok(Some(found));
            }
            // The limit also holds while messages arrive: a peer that sends endlessly must not extend it.
            let left = end.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(None);
            }
            if !has_come {
                let unsent = if self.flush()? { PollFlags::empty() } else { PollFlags::OUT };
                self.poll(PollFlags::IN | unsent, left)?;
            }
        }
    }

    /// Sends all pending bytes within `limit`. Returns false if the socket has not accepted all of them.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn drain(&self, limit: Duration) -> Result<bool, Gone> {
        let end = now() + limit;
        while !self.flush()? {
            let left = end.saturating_duration_since(now());
            if left.is_zero() {
                return Ok(false);
            }
            self.poll(PollFlags::OUT, left)?;
        }
        Ok(true)
    }

    fn poll(&self, flags: PollFlags, limit: Duration) -> Result<(), Gone> {
        let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&*self.socket, flags)], Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(self.end(Gone::Socket(errno))),
        }
    }

    /// Identifier of this side's next request.
    pub fn next_id(&self) -> u16 {
        let id = self.next_id.get();
        self.next_id.set(id.wrapping_add(1));
        id
    }
}

#[allow(clippy::disallowed_methods, reason = "limits on another process are in real time")]
fn now() -> Instant {
    Instant::now()
}

impl Input {
    /// Continues to read, but never beyond the end of a message. Descriptors arrive with a message's first
    /// byte, so those received belong to this message.
    fn advance(&mut self, socket: &OwnedFd) -> Result<Option<Message>, Gone> {
        while self.filled < HEADER_BYTES {
            let unfilled = &mut self.header[self.filled..];
            let Some(bytes) = receive(socket, unfilled, &mut self.message)? else { return Ok(None) };
            if bytes == 0 {
                return Err(if self.filled == 0 { Gone::Closed } else { Gone::Torn });
            }
            self.filled += bytes;
            if self.filled == HEADER_BYTES {
                let header = Header::read_from_bytes(&self.header).expect("as long as a header");
                if !(HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&(header.bytes.get() as usize)) {
                    return Err(Gone::Size(header.bytes.get()));
                }
                self.message.header = header;
                self.message.payload = std::mem::take(&mut self.spare);
            }
        }
        let payload_bytes = self.message.header.bytes.get() as usize - HEADER_BYTES;
        while self.message.payload.len() < payload_bytes {
            let wanted = (payload_bytes - self.message.payload.len()).min(CHUNK_BYTES);
            let chunk = &mut self.chunk[..wanted];
            let Some(bytes) = receive(socket, chunk, &mut self.message)? else { return Ok(None) };
            if bytes == 0 {
                return Err(Gone::Torn);
            }
            self.message.payload.extend_from_slice(&chunk[..bytes]);
        }
        debug_assert_eq!(self.message.payload.len(), payload_bytes, "reads end at the end of a message");
        self.filled = 0;
        Ok(Some(std::mem::take(&mut self.message)))
    }
}

/// Receives bytes, and descriptors into `message`. `None`: nothing is available now.
fn receive(socket: &OwnedFd, into: &mut [u8], message: &mut Message) -> Result<Option<usize>, Gone> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(into)], &mut control, flags) {
            Ok(received) => break received,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::CONNRESET) => return Ok(Some(0)),
            Err(errno) => return Err(Gone::Socket(errno)),
        }
    };
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = part {
            for file in files {
                if message.files.len() < FILES_MAX {
                    message.files.push(file);
                } else {
                    message.has_too_many_files = true;
                }
            }
        }
    }
    // The system closed the descriptors that did not fit, into this buffer or into the descriptor table.
    message.has_too_many_files |= received.flags.contains(ReturnFlags::CTRUNC);
    if message.has_too_many_files {
        message.files.clear();
    }
    Ok(Some(received.bytes))
}

impl Output {
    fn send(
        &mut self,
        socket: &OwnedFd,
        mut header: Header,
        parts: &[&[u8]],
        files: &[BorrowedFd<'_>],
    ) -> Result<(), Gone> {
        let total = HEADER_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
        header.bytes = u32::try_from(total).expect("this side's messages are small").into();
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        slices[0] = IoSlice::new(header.as_bytes());
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        let slices = &slices[..=parts.len()];
        let sent = if self.flush(socket)? { transmit(socket, slices, files)? } else { 0 };
        if sent == total {
            return Ok(());
        }
        let mut bytes = Vec::with_capacity(total);
        slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        let files = match sent {
            0 => files.iter().map(|file| file.try_clone_to_owned()).collect::<Result<_, _>>(),
            _ => Ok(Vec::new()),
        };
        let files = files.map_err(|_| Gone::Socket(Errno::MFILE))?;
        self.bytes += total - sent;
        self.files += files.len();
        self.queue.push_back(Unsent { bytes, sent, files });
        if self.bytes > UNSENT_BYTES_MAX || self.files > UNSENT_FILES_MAX {
            return Err(Gone::Deaf(self.bytes));
        }
        Ok(())
    }

    fn flush(&mut self, socket: &OwnedFd) -> Result<bool, Gone> {
        while let Some(first) = self.queue.front_mut() {
            let files: Vec<_> = first.files.iter().map(AsFd::as_fd).collect();
            let sent = transmit(socket, &[IoSlice::new(&first.bytes[first.sent..])], &files)?;
            if sent == 0 {
                return Ok(false);
            }
            self.files -= first.files.len();
            first.files.clear();
            first.sent += sent;
            self.bytes -= sent;
            if first.sent == first.bytes.len() {
                self.queue.pop_front();
            }
        }
        Ok(true)
    }
}

/// Sends what the socket accepts now.
fn transmit(socket: &OwnedFd, slices: &[IoSlice<'_>], files: &[BorrowedFd<'_>]) -> Result<usize, Gone> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(Gone::Protocol("more descriptors than a message carries"));
    }
    loop {
        match sendmsg(socket, slices, &mut control, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(bytes) => return Ok(bytes),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::PIPE | Errno::CONNRESET) => return Err(Gone::Closed),
            Err(errno) => return Err(Gone::Socket(errno)),
        }
    }
}
