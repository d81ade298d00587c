//! Cost of accesses to another process's memory: `cargo run --release -p byteway-link --example copy`.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a measurement of the real thing")]

use byteway_content::{BlockSize, Content, Keep, Stamp};
use byteway_link::Memory;
use byteway_link::memory::{Access, Backing, PAGE_BYTES};
use std::fs::File;
use std::hint::black_box;
use std::time::Instant;

/// Regions that a guest's memory is divided into.
const REGIONS: u64 = 4;
const ROUNDS: u64 = 200_000;

/// Prints the best of several runs, in ns a call; each call uses the next of `pages` pages.
fn measure(name: &str, pages: u64, mut call: impl FnMut(u64)) {
    let best = (0..5).map(|_| {
        let start = Instant::now();
        for round in 0..ROUNDS {
            call(round % pages * PAGE_BYTES);
        }
        start.elapsed().as_nanos() as f64 / ROUNDS as f64
    });
    println!("  {name:<42}{:8.1} ns", best.fold(f64::MAX, f64::min));
}

fn main() {
    for pages in [8, 4096] {
        println!("{pages} pages of 4 KiB:");
        let file =
            File::from(rustix::fs::memfd_create("byteway-copy", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        file.set_len(pages * PAGE_BYTES).unwrap();
        let memory = Memory::guest();
        let bytes = pages / REGIONS * PAGE_BYTES;
        for base in (0..REGIONS).map(|index| index * bytes) {
            memory.map(base, bytes, Backing::File { file: &file, offset: base }, Access::ReadWrite).unwrap();
        }
        let stamp = Stamp { lba: 77, version: 1, tag: 2, block: BlockSize::B4096 };
        let mut unit = [0; PAGE_BYTES as usize];
        stamp.fill(&mut unit);
        let whole = PAGE_BYTES as usize;
        let epoch = memory.epoch();
        let contents = [
            ("bytes", Content::of(&unit, Keep::Bytes)),
            ("stamp", Content::Stamp(stamp)),
            ("zero", Content::Zero),
        ];
        for (name, content) in contents {
            let name = format!("the device writes a unit: {name}");
            measure(&name, pages, |at| memory.dma_write_content(at, &content, 0, whole, epoch).unwrap());
        }
        (0..pages).for_each(|page| memory.write(page * PAGE_BYTES, &unit).unwrap());
        let mut copy = [0; PAGE_BYTES as usize];
        measure("the device reads a unit into its memory", pages, |at| {
            memory.dma_read_into(at, &mut copy, epoch).unwrap();
        });
        measure("the device reads a unit and looks", pages, |at| {
            memory.dma_read(at, whole, epoch, |bytes| black_box(bytes[9])).unwrap();
        });
        measure("the host verifies a unit", pages, |at| {
            assert!(memory.with(at, whole, |bytes| stamp.matches(bytes)).unwrap());
        });
        let mut entry = [0; 64];
        measure("an entry is fetched", pages, |at| memory.dma_read_into(at, &mut entry, epoch).unwrap());
        measure("a completion is posted", pages, |at| memory.dma_post(at, &[1; 16]).unwrap());
        measure("a word is loaded", pages, |at| {
            black_box(memory.load32(at).unwrap());
        });
    }
}
