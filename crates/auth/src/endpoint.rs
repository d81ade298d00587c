//! An endpoint: the common part of both ends of a transaction.

use crate::group::Exponentiation;
use byteway_wire::fabrics::auth::{DhGroup, HashFunction};
use std::cell::Cell;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;
use zeroize::Zeroizing;

/// The accepted algorithms, in order of preference. The controller's order decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Algorithms {
    /// Hash functions, at least one.
    pub hashes: Vec<HashFunction>,
    /// Diffie-Hellman groups, at least one.
    pub groups: Vec<DhGroup>,
}

impl Default for Algorithms {
    /// All algorithms. The preferred group is as strong as the shortest secret has to be (128 bits); slower
    /// groups follow. The null group comes last, because recorded exchanges can be broken once the secret
    /// leaks.
    fn default() -> Self {
        use DhGroup::{Ffdhe2048, Ffdhe3072, Ffdhe4096, Ffdhe6144, Ffdhe8192, Null};
        Algorithms {
            hashes: vec![HashFunction::Sha512, HashFunction::Sha384, HashFunction::Sha256],
            groups: vec![Ffdhe3072, Ffdhe4096, Ffdhe6144, Ffdhe8192, Ffdhe2048, Null],
        }
    }
}

/// The system has no random bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system provides no random bytes")]
pub struct NoRandomness;

/// A future that resolves to the result of an exponentiation.
pub type Power<'a> = Pin<Box<dyn Future<Output = Zeroizing<Vec<u8>>> + 'a>>;

/// Services that the caller provides.
pub trait Provider {
    /// Fills `bytes` with unpredictable bytes. A simulation may derive them from a seed.
    ///
    /// # Errors
    /// The system has no random bytes.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), NoRandomness>;

    /// Performs an exponentiation, which takes up to some 10 ms: in the caller's thread, or elsewhere.
    fn exponentiate(&self, work: Exponentiation) -> Power<'_> {
        Box::pin(ready(work.run()))
    }
}

/// One end of authentication, for any number of transactions.
pub struct Endpoint {
    algorithms: Algorithms,
    provider: Box<dyn Provider>,
    /// The last sequence number; 0: none was used yet.
    sequence: Cell<u32>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("algorithms", &self.algorithms).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint with these algorithms.
    pub fn new(algorithms: Algorithms, provider: Box<dyn Provider>) -> Endpoint {
        Endpoint { algorithms, provider, sequence: Cell::new(0) }
    }

    pub(crate) fn algorithms(&self) -> &Algorithms {
        &self.algorithms
    }

    pub(crate) fn provider(&self) -> &dyn Provider {
        &*self.provider
    }

    pub(crate) fn random(&self, bytes: usize) -> Result<Zeroizing<Vec<u8>>, NoRandomness> {
        let mut random = Zeroizing::new(vec![0; bytes]);
        self.provider.fill(&mut random)?;
        Ok(random)
    }

    /// The next sequence number: the first is random, each further one is incremented, and none is 0 (NVMe
    /// Base 2.1, 8.3.4.5.4).
    pub(crate) fn next_sequence(&self) -> Result<u32, NoRandomness> {
        let mut last = self.sequence.get();
        if last == 0 {
            let mut random = [0; 4];
            self.provider.fill(&mut random)?;
            last = u32::from_le_bytes(random);
        }
        let next = last.wrapping_add(1).max(1);
        self.sequence.set(next);
        Ok(next)
    }
}
