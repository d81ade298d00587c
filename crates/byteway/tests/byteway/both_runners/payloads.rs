//! Payloads of many lengths to a drive's sink and back, by each method: in virtual time, and through the served function.
//!
//! One payload at a time, so that the link transfers are the same under both runners. Not compared: timing; registers, which a served
//! drive's host accesses by messages; mapped doorbells, of which two writes between two polls count once; and, for methods with several
//! commands in flight, the numbers of entries per fetch and completions per doorbell.

use crate::both_runners::drive_config;
use crate::both_runners::runner::{How, run};
use byteway_clock::{Delay, Timing};
use byteway_device::{DriveConfig, TransferConfig};
use byteway_host::{
    Counts, Driver, DriverConfig, PayloadClient, PayloadConfig, QueueConfig, SinkBase, SinkOracle,
};
use byteway_link::{Direction, Entry, Purpose};
use byteway_serve::function::Doorbells;
use byteway_testkit::assert_at_rest;
use byteway_transfer::result::ResultMethod;
use byteway_transfer::{Method, Rules};
use byteway_wire::nvme::vendor::Methods;
use std::cell::RefCell;
use std::rc::Rc;

/// Lengths around the limits of a head, a piece, a chunk, an entry, a result's slots and a page.
const SIZES: [u32; 20] =
    [0, 1, 14, 15, 35, 36, 55, 56, 57, 63, 64, 65, 91, 92, 128, 200, 1000, 2048, 4096, 5000];
/// Distance between payloads.
const STRIDE: u64 = 8192;

/// A drive that offers all methods.
fn offering() -> DriveConfig {
    let mut config = drive_config();
    config.controller.sgl = true;
    config.transfer = TransferConfig {
        methods: Methods::from_bits(0x1FF).with_cxl_mem(false),
        inline_bytes_max: 8192,
        reassembly_bytes_max: 8192,
        piggyback_bytes_max: 8192,
        inline_result_bytes_max: 1024,
        partial_payloads_max: 16,
        // Far above the length of any pause of the machine.
        partial_timeout: Delay::from_s(10),
        bar_bytes: 64 << 10,
        memory: None,
        sink_bytes: 1 << 20,
        chunk_store: Delay::from_ns(50),
    };
    config
}

/// Outcome of the payloads of one method.
#[derive(Debug, PartialEq)]
struct Outcome {
    counts: Counts,
    crossed: Vec<(Purpose, Direction, Entry)>,
    sink: Vec<u8>,
}

fn play(how: How, rules: Rules, results: ResultMethod) -> Outcome {
    run(how, offering(), async move |setting| {
        let driver = Driver::attach(setting.port.clone(), DriverConfig::default()).await.unwrap();
        let queue = driver.create_queue_pair(QueueConfig::new(256)).await.unwrap();
        let oracle = Rc::new(RefCell::new(SinkOracle::new(SinkBase::Zeroes)));
        let mut config = PayloadConfig::new(rules, 8192);
        (config.results, config.oracle) = (results, Some(oracle.clone()));
        driver.enable_methods(&queue, config.methods()).await.unwrap();
        let client = PayloadClient::new(queue, 1, config).unwrap();
        let mut buffer = client.buffer().unwrap();
        for (offset, bytes) in (0..).step_by(STRIDE as usize).zip(SIZES) {
            client.write(&mut buffer, offset, bytes).await.unwrap();
            client.read(&mut buffer, offset, bytes).await.unwrap();
        }
        let mut sink = vec![0; STRIDE as usize * SIZES.len()];
        for (offset, part) in (0..).step_by(STRIDE as usize).zip(sink.chunks_mut(STRIDE as usize)) {
            client.read(&mut buffer, offset, STRIDE as u32).await.unwrap();
            client.get(&buffer, part).unwrap();
        }
        let verified = oracle.borrow().verified_bytes();
        assert_eq!(verified, sink.len() as u64 + SIZES.iter().map(|bytes| u64::from(*bytes)).sum::<u64>());
        driver.shutdown().await.unwrap();
        assert_eq!(driver.protocol_errors(), 0);
        assert_at_rest(&setting.powered);
        let mut crossed = Vec::new();
        let several = matches!(rules.method, Method::PiggybackPipelined | Method::InlineReassembly);
        for purpose in Purpose::ALL.into_iter().filter(|purpose| *purpose != Purpose::Register) {
            for direction in [Direction::Down, Direction::Up] {
                let mut entry = setting.powered.device.ledger().entry(purpose, direction);
                if several && matches!(purpose, Purpose::SqeFetch | Purpose::InlineChunk) {
                    entry = Entry { payload: entry.payload, ..Entry::default() };
                }
                crossed.push((purpose, direction, entry));
            }
        }
        Outcome { counts: client.counts(), crossed, sink }
    })
}

impl Outcome {
    /// Compares it with that of a served drive.
    fn is_that_of(&self, served: &Outcome, doorbells: Doorbells, what: &str) {
        let several =
            self.counts.of(Method::InlineReassembly) + self.counts.of(Method::PiggybackPipelined) > 0;
        assert_eq!(served.counts, self.counts, "{what}");
        for (simulated, served) in self.crossed.iter().zip(&served.crossed) {
            match simulated.0 {
                Purpose::Doorbell if several || doorbells == Doorbells::Mapped => {
                    assert!(served.2.tlps <= simulated.2.tlps, "{what}: {served:?} against {simulated:?}");
                }
                _ => assert_eq!(served, simulated, "{what}"),
            }
        }
        assert!(served.sink == self.sink, "{what}: other bytes");
    }
}

/// Runs a method under every runner, and compares.
fn same_everywhere(rules: Rules, results: ResultMethod) {
    let simulated = play(How::Virtual, rules, results);
    let name = rules.method.name();
    assert!(simulated.sink.iter().any(|byte| *byte != 0), "{name}: payloads have arrived");
    let carried = rules.method == Method::Adaptive || simulated.counts.fallbacks == 0;
    assert!(carried, "{name}: the queue has free slots for all of them: {:?}", simulated.counts);
    for doorbells in [Doorbells::Mapped, Doorbells::Trapped] {
        let served = play(How::Served(Timing::None, doorbells), rules, results);
        simulated.is_that_of(&served, doorbells, &format!("{name}, {results:?}, {doorbells:?}"));
    }
}

// A method could work in the simulation only: there memory never changes concurrently, and doorbells are never late.
#[test]
fn every_method_carries_the_same_under_both_runners() {
    // A served drive has no CXL.mem.
    let by_cxl = [Method::CxlMem, Method::PiggybackCxl, Method::CxlCommit];
    let is_carried = |method: &Method| !by_cxl.contains(method);
    for method in Method::ALL.into_iter().filter(is_carried) {
        let rules = Rules { threshold_bytes: 128, ..Rules::only(method) };
        same_everywhere(rules, ResultMethod::Pointer);
    }
    same_everywhere(Rules { paper_encoding: true, ..Rules::only(Method::Inline) }, ResultMethod::Pointer);
}

// The same for results.
#[test]
fn every_kind_of_result_comes_back_the_same_under_both_runners() {
    for results in [ResultMethod::Inline, ResultMethod::Rounded] {
        same_everywhere(Rules::only(Method::Inline), results);
    }
}

// Modeled time between the parts of a payload must not break its reassembly.
#[test]
fn payloads_arrive_when_modelled_time_passes() {
    // A served drive has no CXL.mem.
    let by_cxl = [Method::CxlMem, Method::PiggybackCxl, Method::CxlCommit];
    let is_carried = |method: &Method| !by_cxl.contains(method);
    for method in Method::ALL.into_iter().filter(is_carried) {
        let rules = Rules { threshold_bytes: 128, ..Rules::only(method) };
        let simulated = play(How::Virtual, rules, ResultMethod::Inline);
        let served = play(How::Served(Timing::Model, Doorbells::Mapped), rules, ResultMethod::Inline);
        simulated.is_that_of(&served, Doorbells::Mapped, method.name());
    }
}
