//! Log pages of background operations: self-test and sanitize.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::assert_offsets;

/// A Self-test Result of 28 bytes (NVMe Base 2.1, 5.1.12.1.7, figure "Self-test Result Data Structure").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SelfTestResult {
    /// Self-test Code in bits 7:4, result in bits 3:0: see the constants.
    pub status: u8,
    /// Number of the first segment that failed, where the result is [`SelfTestResult::SEGMENT_FAILED`].
    pub segment: u8,
    /// Bit mask of the valid fields among those that follow: see the constants `VALID_*`.
    pub valid: u8,
    #[doc(hidden)]
    pub reserved_3: u8,
    /// Power On Hours at the end of the test.
    pub power_on_hours: U64,
    /// Namespace of the failure.
    pub nsid: u32,
    /// Block that failed.
    pub failing_lba: U64,
    /// Status Code Type of the failure, 3 bits.
    pub status_code_type: u8,
    /// Status Code of the failure.
    pub status_code: u8,
    /// Vendor Specific.
    pub vendor: [u8; 2],
}

assert_offsets!(SelfTestResult: 28; status = 0, segment = 1, valid = 2, power_on_hours = 4, nsid = 12,
    failing_lba = 16, status_code_type = 24, status_code = 25, vendor = 26);

impl SelfTestResult {
    /// Result: no error.
    pub const PASSED: u8 = 0x0;
    /// Result: aborted by a Device Self-test command.
    pub const ABORTED: u8 = 0x1;
    /// Result: aborted by a controller level reset.
    pub const ABORTED_RESET: u8 = 0x2;
    /// Result: aborted because a namespace was removed.
    pub const ABORTED_NAMESPACE: u8 = 0x3;
    /// Result: aborted by a Format NVM.
    pub const ABORTED_FORMAT: u8 = 0x4;
    /// Result: a fatal or unexpected error ended the test.
    pub const FATAL: u8 = 0x5;
    /// Result: an unknown segment failed.
    pub const UNKNOWN_SEGMENT_FAILED: u8 = 0x6;
    /// Result: one or more segments failed; `segment` is the first.
    pub const SEGMENT_FAILED: u8 = 0x7;
    /// Result: aborted for an unknown reason.
    pub const ABORTED_UNKNOWN: u8 = 0x8;
    /// Result: aborted by a sanitize operation.
    pub const ABORTED_SANITIZE: u8 = 0x9;
    /// Result: the entry holds no result.
    pub const UNUSED: u8 = 0xF;

    /// `nsid` is valid.
    pub const VALID_NSID: u8 = 1 << 0;
    /// `failing_lba` is valid.
    pub const VALID_LBA: u8 = 1 << 1;
    /// `status_code_type` is valid.
    pub const VALID_SCT: u8 = 1 << 2;
    /// `status_code` is valid.
    pub const VALID_SC: u8 = 1 << 3;

    /// Bytes of a result.
    pub const SIZE: usize = 28;

    /// The code of the test.
    pub const fn code(&self) -> u8 {
        self.status >> 4
    }

    /// The result.
    pub const fn result(&self) -> u8 {
        self.status & 0xF
    }
}

/// The Device Self-test log, 564 bytes (NVMe Base 2.1, 5.1.12.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SelfTestLog {
    /// The test in progress in bits 3:0, 0 if there is none.
    pub current: u8,
    /// Per cent done, in bits 6:0.
    pub completion: u8,
    #[doc(hidden)]
    pub reserved_2: [u8; 2],
    /// The last results, newest first.
    pub results: [SelfTestResult; 20],
}

assert_offsets!(SelfTestLog: 564; current = 0, completion = 1, results = 4);

impl Default for SelfTestLog {
    /// No test in progress, no results.
    fn default() -> Self {
        let unused = SelfTestResult { status: SelfTestResult::UNUSED, ..SelfTestResult::default() };
        SelfTestLog { results: [unused; 20], ..Self::new_zeroed() }
    }
}

/// The Sanitize Status log, 512 bytes (NVMe Base 2.1, 5.1.12.1.36).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SanitizeStatusLog {
    /// Sanitize Progress, in 65536ths; FFFFh if none is in progress.
    pub sprog: u16,
    /// Sanitize Status: see the constants.
    pub sstat: u16,
    /// Dword 10 of the last Sanitize command that started one.
    pub scdw10: u32,
    /// Estimated time of an overwrite in seconds, FFFFFFFFh if not reported.
    pub eto: u32,
    /// Estimated time of a block erase in seconds.
    pub etbe: u32,
    /// Estimated time of a crypto erase in seconds.
    pub etce: u32,
    /// Estimated time of an overwrite without deallocation in seconds.
    pub etond: u32,
    /// Estimated time of a block erase without deallocation in seconds.
    pub etbend: u32,
    /// Estimated time of a crypto erase without deallocation in seconds.
    pub etcend: u32,
    #[doc(hidden)]
    pub reserved_32: [u8; 480],
}

assert_offsets!(SanitizeStatusLog: 512; sprog = 0, sstat = 2, scdw10 = 4, eto = 8, etbe = 12, etce = 16, etond = 20,
    etbend = 24, etcend = 28, reserved_32 = 32);

impl SanitizeStatusLog {
    /// Estimate that is not reported.
    pub const NO_ESTIMATE: u32 = u32::MAX;
    /// SSTAT bits 2:0: never sanitized.
    pub const NEVER: u16 = 0;
    /// SSTAT bits 2:0: the last one succeeded.
    pub const SUCCEEDED: u16 = 1;
    /// SSTAT bits 2:0: one is in progress.
    pub const IN_PROGRESS: u16 = 2;
    /// SSTAT bits 2:0: the last one failed.
    pub const FAILED: u16 = 3;
    /// SSTAT bit 8, Global Data Erased: nothing was written since the last one that succeeded.
    pub const ERASED: u16 = 1 << 8;
}

impl Default for SanitizeStatusLog {
    /// Never sanitized, no estimates.
    fn default() -> Self {
        let none = Self::NO_ESTIMATE;
        let times = SanitizeStatusLog { eto: none, etbe: none, etce: none, ..Self::new_zeroed() };
        SanitizeStatusLog { sprog: u16::MAX, etond: none, etbend: none, etcend: none, ..times }
    }
}
