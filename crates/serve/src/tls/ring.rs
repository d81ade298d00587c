//! Keys that authentication generated: their owners and their lifetime.

use super::psk::TlsPsk;
use byteway_auth::GeneratedPsk;
use byteway_clock::{Clock, Delay, Time};
use byteway_nvmeof::{GeneratedKeys, Peer};
use byteway_wire::fabrics::Nqn;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Time for which an unused key stays valid: the default Keep Alive Timeout.
pub(super) const UNUSED_LIMIT: Delay = Delay::from_s(120);
/// Maximum number of keys of a host: one for each association that it is setting up, at any port.
const HOST_KEYS_MAX: usize = 8;

/// A connection's hold on the key that it used. While a hold exists the key stays valid for further
/// connections.
pub(super) type Hold = Arc<()>;

struct Entry {
    peer: Peer,
    number: u64,
    psk: TlsPsk,
    made: Time,
    hold: Hold,
}

impl Entry {
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.hold) > 1
    }

    fn is_of(&self, host: &Nqn, subsystem: &Nqn) -> bool {
        self.peer.host == *host && self.peer.subsystem == *subsystem
    }
}

#[derive(Default)]
struct Keys {
    /// Keys by identity.
    all: BTreeMap<Vec<u8>, Entry>,
    last: u64,
}

/// The generated keys of a drive's hosts. The number for each host is limited, so that a host that
/// authenticates in a loop takes no more memory. Cheap to clone.
#[derive(Clone, Default)]
pub struct KeyRing(Arc<Mutex<Keys>>);

impl KeyRing {
    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a key and returns its number. If the host has too many keys, evicts the oldest unused one, or
    /// else the oldest.
    fn keep(&self, (host, subsystem): (&Nqn, &Nqn), psk: TlsPsk, replaced: Option<u64>, now: Time) -> u64 {
        let keys = &mut *self.keys();
        keys.all.retain(|_, entry| Some(entry.number) != replaced);
        keys.last += 1;
        let number = keys.last;
        let own = keys.all.iter().filter(|(_, entry)| entry.is_of(host, subsystem));
        if own.clone().count() >= HOST_KEYS_MAX
            && let Some((identity, _)) = own.min_by_key(|(_, entry)| (entry.is_used(), entry.number))
        {
            let identity = identity.clone();
            keys.all.remove(&identity);
        }
        let peer = Peer { host: *host, subsystem: *subsystem, generated: Some(number) };
        let identity = psk.identity.clone().into_bytes();
        keys.all.insert(identity, Entry { peer, number, psk, made: now, hold: Hold::default() });
        number
    }

    /// Removes keys that have been unused for too long.
    pub(crate) fn sweep(&self, now: Time) {
        self.keys().all.retain(|_, entry| entry.is_used() || now.since(entry.made) <= UNUSED_LIMIT);
    }

    /// Removes the keys of a host whose secret has changed. Its connections continue.
    pub fn forget(&self, host: &Nqn) {
        self.keys().all.retain(|_, entry| entry.peer.host != *host);
    }

    pub(super) fn psk(&self, identity: &[u8]) -> Option<TlsPsk> {
        self.keys().all.get(identity).map(|entry| entry.psk.clone())
    }

    /// The owner of a key, and a hold on it.
    pub(super) fn owner(&self, identity: &[u8]) -> Option<(Peer, Hold)> {
        self.keys().all.get(identity).map(|entry| (entry.peer, entry.hold.clone()))
    }

    /// The ring as a sink for a target's generated keys, in the time of its clock.
    pub(crate) fn filled_by(&self, clock: &Clock) -> Filling {
        Filling { ring: self.clone(), clock: clock.clone() }
    }

    /// Number of keys.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.keys().all.len()
    }
}

/// The sink for a target's generated keys.
pub(crate) struct Filling {
    ring: KeyRing,
    clock: Clock,
}

impl GeneratedKeys for Filling {
    fn keep(&self, host: &Nqn, subsystem: &Nqn, key: &GeneratedPsk, replaced: Option<u64>) -> u64 {
        let now = self.clock.now();
        self.ring.sweep(now);
        self.ring.keep((host, subsystem), TlsPsk::generated(key, host, subsystem), replaced, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nqn(name: &str) -> Nqn {
        Nqn::new(&format!("nqn.2026-11.org.byteway:{name}")).unwrap()
    }

    fn keep(ring: &KeyRing, host: &str, key: u8, replaced: Option<u64>, seconds: u64) -> (u64, Vec<u8>) {
        let (host, subsystem) = (nqn(host), nqn("drive"));
        let psk =
            TlsPsk::of_key(super::super::Hash::Sha256, &[key; 32], 'G', host.as_str(), subsystem.as_str());
        let identity = psk.identity.clone().into_bytes();
        (ring.keep((&host, &subsystem), psk, replaced, Time::ZERO + Delay::from_s(seconds)), identity)
    }

    // A host that authenticates again and again must not fill memory, displace another host's key, or remove
    // a key in use.
    #[test]
    fn a_host_has_so_many_keys_and_no_more() {
        let ring = KeyRing::default();
        let (other, others) = keep(&ring, "other", 1, None, 0);
        let (_, used) = keep(&ring, "host", 2, None, 0);
        let hold = ring.owner(&used).unwrap().1;
        let identities: Vec<_> = (3..=200).map(|key| keep(&ring, "host", key, None, 0).1).collect();
        assert_eq!(ring.count(), 1 + HOST_KEYS_MAX);
        assert!(ring.psk(&others).is_some() && ring.psk(&used).is_some());
        let known = identities.iter().filter(|identity| ring.psk(identity).is_some());
        assert_eq!(
            known.collect::<Vec<_>>(),
            identities[identities.len() - HOST_KEYS_MAX + 1..].iter().collect::<Vec<_>>()
        );
        assert_eq!(
            ring.owner(&others).unwrap().0,
            Peer { host: nqn("other"), subsystem: nqn("drive"), generated: Some(other) }
        );
        drop(hold);
        keep(&ring, "host", 201, None, 0);
        assert!(ring.psk(&used).is_none());
    }

    // An unused key must not open the drive later; a key in use has to work for the next queue.
    #[test]
    fn keys_end_by_time_replacement_and_change_of_secret() {
        let ring = KeyRing::default();
        let ((first, stale), (_, used)) = (keep(&ring, "host", 1, None, 0), keep(&ring, "host", 2, None, 0));
        let hold = ring.owner(&used).unwrap().1;
        let at = |seconds| Time::ZERO + Delay::from_s(seconds);
        ring.sweep(at(120));
        assert!(ring.psk(&stale).is_some());
        ring.sweep(at(121));
        assert!(ring.psk(&stale).is_none() && ring.psk(&used).is_some());
        drop(hold);
        ring.sweep(at(121));
        assert!(ring.psk(&used).is_none());
        let (number, replaced) = keep(&ring, "host", 3, None, 130);
        assert!(number > first);
        let (_, next) = keep(&ring, "host", 4, Some(number), 130);
        assert!(ring.psk(&replaced).is_none() && ring.psk(&next).is_some());
        let (_, others) = keep(&ring, "other", 5, None, 130);
        ring.forget(&nqn("host"));
        assert!(ring.psk(&next).is_none() && ring.psk(&others).is_some());
    }
}
