//! System services for authentication: random bytes, and a thread for computations that would delay the
//! drive's other hosts.
#![allow(
    clippy::disallowed_methods,
    reason = "an exponentiation takes up to 10 ms, in which other hosts are served"
)]

use byteway_auth::endpoint::Power;
use byteway_auth::{Exponentiation, NoRandomness, Provider};
use byteway_clock::Clock;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::mpsc;
use zeroize::Zeroizing;

/// Input of the thread: the computation, and where to send and announce its result.
type ExponentiationJob = (Exponentiation, mpsc::Sender<Zeroizing<Vec<u8>>>, OwnedFd);
/// Channel of the result, and the descriptor that becomes readable when it has arrived.
type Pending = (mpsc::Receiver<Zeroizing<Vec<u8>>>, Rc<OwnedFd>);

/// The system services of one served drive. The thread starts with the first exponentiation and ends when
/// this is dropped. It runs one exponentiation at a time; each connection has at most one outstanding.
pub struct System {
    clock: Clock,
    thread: OnceCell<mpsc::Sender<ExponentiationJob>>,
}

impl System {
    /// Services for an executor in real time.
    pub fn new(clock: &Clock) -> System {
        System { clock: clock.clone(), thread: OnceCell::new() }
    }

    fn thread(&self) -> &mpsc::Sender<ExponentiationJob> {
        self.thread.get_or_init(|| {
            let (sender, works) = mpsc::channel::<ExponentiationJob>();
            // Without a thread the receiver is dropped, and exponentiations run in the caller's thread.
            let _ = std::thread::Builder::new().name("authentication".to_owned()).spawn(move || {
                for (work, result, done) in works {
                    let _ = result.send(work.run());
                    let _ = rustix::io::write(&done, &1u64.to_ne_bytes());
                }
            });
            sender
        })
    }

    /// Hands the computation to the thread. The error returns it to the caller.
    fn begin(&self, work: Exponentiation) -> Result<Pending, Exponentiation> {
        let event = || {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let signal = rustix::io::fcntl_dupfd_cloexec(&event, 0)?;
            Ok::<_, Errno>((event, signal))
        };
        let Ok((event, signal)) = event() else { return Err(work) };
        let (sender, result) = mpsc::channel();
        match self.thread().send((work, sender, signal)) {
            Ok(()) => Ok((result, Rc::new(event))),
            Err(mpsc::SendError((work, ..))) => Err(work),
        }
    }
}

impl Provider for System {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        getrandom::fill(bytes).map_err(|_| NoRandomness)
    }

    fn exponentiate(&self, work: Exponentiation) -> Power<'_> {
        Box::pin(async move {
            let (result, done) = match self.begin(work) {
                Ok(begun) => begun,
                Err(work) => return work.run(),
            };
            loop {
                match result.try_recv() {
                    Ok(power) => return power,
                    Err(mpsc::TryRecvError::Empty) => self.clock.readable(&done).await,
                    // The thread has panicked: return a value that matches no response.
                    Err(mpsc::TryRecvError::Disconnected) => return Zeroizing::default(),
                }
            }
        })
    }
}
