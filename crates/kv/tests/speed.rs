//! Speed of the store on the host machine, without commands. By hand: `cargo test --release -p byteway-kv speed --
//! --ignored --nocapture`.

use crate::fixture::{Case, NOBODY, spans};
use byteway_clock::Executor;
use byteway_clock::random::Rng;
use byteway_firmware::FtlConfig;
use byteway_flash::{FaultPlan, Geometry};
use byteway_kv::{Key, KvConfig, Origin, StoreMode, UnitExtent};

/// A drive of the Cosmos+ shape, with 1.5 GiB.
fn large() -> Case {
    let geometry = Geometry { channels: 4, ways: 8, planes: 1, blocks: 16, pages: 256, page_bytes: 16384 };
    let units = 400_000;
    let ftl = FtlConfig { user_units: units, plp: true, ..FtlConfig::default() };
    let extents = vec![UnitExtent { first: 0, count: units }];
    let kv = KvConfig { extents, plp: true, ..KvConfig::default() };
    Case { name: "large", geometry, ftl, kv, cycles: 0, index_cycles: 0, faults: FaultPlan::default() }
}

fn store_all(count: u64, key_bytes: usize, value_bytes: impl Fn(u64) -> usize + 'static) {
    let case = large();
    let executor = Executor::new();
    let (_, kv) = case.power_on(executor.clock(), case.medium());
    let inner = kv.clone();
    #[allow(clippy::disallowed_methods, reason = "it measures the host")]
    let began = std::time::Instant::now();
    executor
        .run(async move {
            let spans = spans();
            let mut stream = Rng::new(1).stream("keys");
            let bytes = [7; 1024];
            for number in 0..count {
                let word = stream.next_u64();
                let mut text = [0x5a; 16];
                text[..8].copy_from_slice(&word.to_be_bytes());
                let key = Key::new(&text[..key_bytes]).unwrap();
                let value = &bytes[..value_bytes(number ^ word)];
                inner.store(NOBODY, &spans, key, value, Origin::Memory, StoreMode::Any).await.unwrap();
            }
        })
        .unwrap();
    let counters = kv.counters();
    println!(
        "{count} stores of keys of {key_bytes} B: {:?}, {counters:?}, {:?}",
        began.elapsed(),
        kv.usage()
    );
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
}

#[test]
#[ignore = "it measures; by hand, in a release build"]
fn a_million_small_stores() {
    store_all(1_000_000, 8, |word| (word % 70) as usize);
}

#[test]
#[ignore = "it measures; by hand, in a release build"]
fn ten_million_stores() {
    store_all(10_000_000, 16, |_| 32);
}
