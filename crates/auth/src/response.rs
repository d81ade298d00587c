//! The response to a challenge (NVMe Base 2.1, 8.3.4.5.4 and 8.3.4.5.5).

use crate::hash::{digest, hmac};
use crate::secret::Secret;
use byteway_wire::fabrics::Nqn;
use byteway_wire::fabrics::auth::{HashFunction, SecureChannel};

/// The end that responds to the challenge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prover {
    Host,
    Controller,
}

/// A challenge and the other inputs of its response.
pub(crate) struct Challenged<'a> {
    pub prover: Prover,
    pub hash: HashFunction,
    pub secret: &'a Secret,
    pub host: &'a Nqn,
    pub subsystem: &'a Nqn,
    pub transaction: u16,
    /// SC_C of the host's AUTH_Negotiate.
    pub secure_channel: SecureChannel,
    /// S1 or S2.
    pub sequence: u32,
    /// C1 or C2.
    pub challenge: &'a [u8],
    /// The Diffie-Hellman shared value; `None` with the null group.
    pub shared: Option<&'a [u8]>,
}

impl Challenged<'_> {
    /// R1 or R2.
    pub fn response(&self) -> Vec<u8> {
        let (label, own, other) = match self.prover {
            Prover::Host => ("HostHost", self.host, self.subsystem),
            Prover::Controller => ("Controller", self.subsystem, self.host),
        };
        let augmented = match self.shared {
            None => self.challenge.to_vec(),
            Some(shared) => hmac(self.hash, &digest(self.hash, shared), &[self.challenge]),
        };
        let parts = [
            &augmented[..],
            &self.sequence.to_le_bytes(),
            &self.transaction.to_le_bytes(),
            &[self.secure_channel.0],
            label.as_bytes(),
            own.as_str().as_bytes(),
            &[0],
            other.as_str().as_bytes(),
        ];
        hmac(self.hash, &self.secret.key(own), &parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::shared_of;

    // Two ends of this crate would agree on wrong responses, too. These were computed with Python's hmac,
    // hashlib and pow.
    #[test]
    fn responses_are_those_of_another_implementation() {
        let host = Nqn::new("nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555").unwrap();
        let subsystem = Nqn::new("nqn.2026-11.org.byteway:a").unwrap();
        let shared = shared_of(0x3535_3535, 0xA2A2_A2A2);
        for (hash, shared, secrets, responses) in [
            (
                HashFunction::Sha256,
                None,
                [
                    "DHHC-1:00:kB5HZf02d83q8TfG7qIsXq/AOmoa2TpvbckY1N4T0OzkawRL:",
                    "DHHC-1:03:dzQSBllT/Tkvweui5X8a2obJvM2E4Fy5BfFEdyWZyq7jLUS/:",
                ],
                [
                    "004f937a5fa6fb7b1c084b62e1c2db987db9fbee4a7ce9cc47566296647d7832",
                    "0d019a525fc496be0ddd9ea481e208ec1e32609e49ffb1b91f4fb17022e9618a",
                ],
            ),
            (
                HashFunction::Sha384,
                Some(&shared[..]),
                [
                    "DHHC-1:02:UvQrCRMhhzTLJkpdt7MEiOwLCMTvWgROD5rvNhLZHghFIhxZwlITF6XNGQ0ha8CSuOfAkg==:",
                    "DHHC-1:01:9qIgrxcaL6wcDPXk5BdmIgVLPWE2iUMDqao6f/uA/iu+h3rk+6JAwNOoUmDkBhX+WfoIDg==:",
                ],
                [
                    "ebe402e3a5ac6646e24f1b04dd17851845940b74a806f2cf91d8de3bbb9e9caf\
                     5f0916f8fc7a310c57aabc0acc367ae6",
                    "13f8bd80b301c256b5f3efa15d6673193d2ee0b3639b1c027c30b7b24b8bd25a\
                     75d2bf366e558c3f7cc738f3fe44a622",
                ],
            ),
            (
                HashFunction::Sha512,
                Some(&shared[..]),
                [
                    "DHHC-1:01:/h1ApEMZiXeOySJEzimqGinas9WXcq9Lpj9UpWUHnWm2Ky/MLVhWvqwzEzGk0N5fNT3cvlXhn5haxQrT5YTkxZV+BAk=:",
                    "DHHC-1:02:dPSPBmBGbcl06bcZUJs0K3m1yCf4UdnAcrDsAaNC7Q96rs7wtQHMUq7ZNFQAJUCZhSo/CaEBnD+xiJxq2yhCYAIkrFY=:",
                ],
                [
                    "c14958891b9197e74336c8841a4e277bea7270a01f06475825f3ab9dc410afc6\
                     7afd97b4164b2600cce3f0cfd1b3ba1fc15be3241875622eefa9664a48206aa9",
                    "c01579bd622ffe0ada0df1e915fd256f1b9dafc19a878ecee52aeb40d6bd0138\
                     b4b9b5e033b0784cb34056563d870fa401f7dbd55164d86d7cc7b1213a1be17d",
                ],
            ),
        ] {
            let challenge: Vec<u8> = (0..hash.bytes() as u8).collect();
            for (prover, (secret, response)) in
                [Prover::Host, Prover::Controller].into_iter().zip(secrets.into_iter().zip(responses))
            {
                let challenged = Challenged {
                    prover,
                    hash,
                    secret: &secret.parse().unwrap(),
                    host: &host,
                    subsystem: &subsystem,
                    transaction: 0xBEEF,
                    secure_channel: SecureChannel::NONE,
                    sequence: 0x0102_0304,
                    challenge: &challenge,
                    shared,
                };
                let digits: String = challenged.response().iter().map(|byte| format!("{byte:02x}")).collect();
                assert_eq!(digits, response, "{hash:?} {prover:?}");
            }
        }
    }
}
