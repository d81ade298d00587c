//! Random operations for tests with an oracle.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail as the test does")]

use byteway_clock::random::Stream;
use byteway_host::{Client, IoBuffer};
use byteway_wire::nvme::Range;

/// Executes one random operation of any kind, on `all` blocks.
pub async fn ask(client: &Client, buffer: &mut IoBuffer, stream: &mut Stream, all: u64) {
    let most = if stream.chance(0.5) { 8 } else { 100 };
    let blocks = 1 + stream.below(most);
    let lba = stream.below(all - blocks + 1);
    match stream.below(100) {
        0..50 => client.write(buffer, lba, blocks as u32).await.map(drop).unwrap(),
        50..60 => client.write_fua(buffer, lba, blocks as u32).await.map(drop).unwrap(),
        60..85 => client.read(buffer, lba, blocks as u32).await.map(drop).unwrap(),
        85..92 => client.trim(buffer, &[Range::new(lba, blocks as u32)]).await.map(drop).unwrap(),
        92..96 => client.write_zeroes(lba, blocks as u32, true).await.map(drop).unwrap(),
        _ => client.flush().await.map(drop).unwrap(),
    }
}
