//! Byteway with a transfer method of one's own, `by-depth:COMMANDS`.
//!
//! A payload behind its command saves the drive a DMA, which counts while it waits for one command; the host pays for it by writing more entries. So
//! short payloads go inline while few commands are in flight, and by data pointer while there are many.

use byteway::{
    DriveExtension, Extensions, MadeTransferMethod, PayloadView, TransferKind, TransferMethod, WrongArgument,
};
use std::process::ExitCode;

/// Longest payload that goes inline, in bytes.
const LONGEST: u32 = 512;

struct ByDepth {
    /// Commands in flight from which on the data pointer is better.
    most: u32,
}

impl TransferMethod for ByDepth {
    fn needs(&self) -> &'static [DriveExtension] {
        &[DriveExtension::Inline]
    }

    fn entries_bytes_max(&self) -> u32 {
        LONGEST
    }

    fn choose(&mut self, view: &mut PayloadView<'_>) -> TransferKind {
        let inline = TransferKind::Inline { paper: false };
        let is_short = view.bytes() <= LONGEST && view.in_flight() < self.most;
        if is_short && view.carries(inline) { inline } else { view.pointer() }
    }
}

/// The method of `by-depth:4`; up to 4 commands without an argument.
fn by_depth(argument: Option<&str>) -> MadeTransferMethod {
    let most = argument.unwrap_or("4").parse().map_err(|_| WrongArgument {
        what: "needs a number of commands".into(),
        help: "write it behind a colon, such as `by-depth:4`".into(),
    })?;
    Ok(Box::new(ByDepth { most }))
}

fn main() -> ExitCode {
    let about = "Up to 512 B inline while fewer than 4 commands are in flight, or `by-depth:COMMANDS`; else by data pointer.";
    let own = Extensions::default().transfer_method("by-depth", about, env!("CARGO_PKG_VERSION"), by_depth);
    byteway::main_with(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_number_is_refused() {
        assert!(by_depth(Some("5")).is_ok() && by_depth(None).is_ok());
        assert!(by_depth(Some("-1")).is_err() && by_depth(Some("many")).is_err());
    }
}
