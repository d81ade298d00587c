//! Authentication of a fuzzed host: expected, nearly expected and other messages of a host that knows its
//! secret or guesses.

use super::input::Input;
use byteway_auth::{Algorithms, Credentials, Endpoint, HostSecrets, Login, NoRandomness, Provider, Secret};
use byteway_clock::Clock;
use byteway_nvmeof::{Path, Subsystem, SubsystemConfig};
use byteway_wire::fabrics::auth::{
    AuthReceive, AuthSend, DhGroup, Explanation, Failure, HashFunction, Message, SecurityProtocol, Success2,
};
use byteway_wire::fabrics::{DataPointer, Nqn};
use byteway_wire::nvme::Sqe;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

const TRANSACTION: u16 = 5;

/// Bytes that are equal in every run of an input, and differ within one.
struct Counted(Cell<u64>);

impl Provider for Counted {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness> {
        for byte in bytes {
            self.0.set(self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            *byte = (self.0.get() >> 33) as u8;
        }
        Ok(())
    }
}

/// The right secret, and a guess.
fn secret(is_right: bool) -> Secret {
    let text = match is_right {
        true => "DHHC-1:00:kB5HZf02d83q8TfG7qIsXq/AOmoa2TpvbckY1N4T0OzkawRL:",
        false => "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:",
    };
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// Without Diffie-Hellman, which would take most of an input's time.
fn algorithms() -> Algorithms {
    Algorithms { hashes: HashFunction::ALL.to_vec(), groups: vec![DhGroup::Null] }
}

/// A subsystem in which this host has to authenticate.
pub fn subsystem(clock: &Clock, config: SubsystemConfig, path: Path, host: &str) -> Rc<Subsystem> {
    let secrets = HostSecrets { host: secret(true), controller: Some(secret(true)) };
    let hosts = Nqn::new(host).map(|nqn| (nqn, secrets)).into_iter().collect::<BTreeMap<_, _>>();
    let credentials = Credentials::new(algorithms(), hosts);
    Subsystem::with_credentials(clock, config, path, credentials, Box::new(Counted(Cell::new(1))))
}

/// A host's end of one connection.
pub struct Prover {
    login: Login,
    knows: bool,
}

impl Prover {
    pub fn new(knows: bool, host: &str, subsystem: &str) -> Prover {
        let name = |text| Nqn::new(text).unwrap_or_else(|error| panic!("{error}"));
        let endpoint = Rc::new(Endpoint::new(algorithms(), Box::new(Counted(Cell::new(2)))));
        let secrets = HostSecrets { host: secret(knows), controller: knows.then(|| secret(true)) };
        Prover { login: Login::new(&endpoint, &secrets, (name(host), name(subsystem)), TRANSACTION), knows }
    }

    /// Whether it knows its secret.
    pub fn knows(&self) -> bool {
        self.knows
    }

    /// A command, its in-capsule data, and the length that it describes. `heard`: the last received data.
    pub fn command(&mut self, input: &mut Input<'_>, heard: &[u8]) -> (Sqe, Vec<u8>, u32) {
        let protocol = match input.one_in(16) {
            true => SecurityProtocol { secp: input.byte(), ..SecurityProtocol::NVME },
            false => SecurityProtocol::NVME,
        };
        let mut message = match input.below(8) {
            0 | 1 => {
                let bytes = input.pick(&[4096, 4096, 48, 8, 1, 0, 4097, u32::MAX]);
                let pointer = DataPointer::Transport { bytes }.descriptor();
                return (
                    AuthReceive { protocol, allocation_bytes: bytes }.sqe(0, pointer),
                    Vec::new(),
                    bytes,
                );
            }
            2 | 3 => self.login.negotiate(),
            4 | 5 => now(self.login.reply(heard)).unwrap_or_default(),
            6 => match (input.below(4), self.login.conclude(heard)) {
                (0, Ok(Some(last))) => last,
                (0 | 1, _) => Message::Success2(Success2 { transaction: TRANSACTION }).to_bytes(),
                (2, _) => Message::Failure2(Failure::new(TRANSACTION, Explanation::FAILED)).to_bytes(),
                _ => heard.to_vec(),
            },
            _ => input.take(64).to_vec(),
        };
        if input.one_in(8) && !message.is_empty() {
            let at = usize::from(input.u16()) % message.len();
            message[at] ^= input.byte();
        }
        let transfer_bytes = if input.one_in(16) { input.u32() } else { message.len() as u32 };
        let bytes = message.len() as u32;
        let pointer = DataPointer::InCapsule { offset: 0, bytes }.descriptor();
        (AuthSend { protocol, transfer_bytes }.sqe(0, pointer), message, bytes)
    }
}

/// Result of a future that waits for nothing.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}
