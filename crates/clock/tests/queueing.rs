//! Stations against queueing theory: mean waits of Poisson arrivals, for which closed forms are known (L. Kleinrock, "Queueing
//! Systems", volume 1, 3.5 and 5.6).

use byteway_clock::random::{Exponential, Rng};
use byteway_clock::{Clock, Delay, Executor, Station};

/// Mean service time in picoseconds.
const SERVICE: f64 = 1e6;

/// Customers of a run: at a load of 0.8 the mean wait of so many is within 3 % of its expectation.
const CUSTOMERS: u64 = 1_000_000;

/// Mean wait, in service times, of Poisson arrivals at this load of each server.
fn mean_wait(servers: usize, load: f64, is_exponential: bool) -> f64 {
    let executor = Executor::new();
    let clock = executor.clock().clone();
    let main = async move |clock: Clock| {
        let station = Station::new(&clock, servers);
        let rng = Rng::new(1);
        let (mut arrivals, mut services) = (rng.stream("arrivals"), rng.stream("services"));
        let between = Exponential::new(SERVICE / (load * servers as f64)).expect("a mean above 0");
        let service = Exponential::new(SERVICE).expect("a mean above 0");
        let mut waited = 0.0;
        for _ in 0..CUSTOMERS {
            clock.sleep(Delay(between.sample(&mut arrivals) as u64)).await;
            let duration = if is_exponential { service.sample(&mut services) } else { SERVICE };
            waited += station.reserve(Delay(duration as u64)).queued.0 as f64;
        }
        waited / CUSTOMERS as f64 / SERVICE
    };
    executor.run(async move { main(clock).await }).expect("the last customer arrives")
}

fn assert_near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 0.03, "{what}: waits {found:.4}, in theory {expected:.4}");
}

// A station that served in another order, forgot a server or lost time between customers would still look plausible in every result.
#[test]
fn waits_are_those_of_queueing_theory() {
    for load in [0.3, 0.5, 0.8] {
        // M/D/1: rho / (2 (1 - rho)); M/M/1: rho / (1 - rho).
        assert_near(mean_wait(1, load, false), load / (2.0 * (1.0 - load)), &format!("M/D/1 at {load}"));
        assert_near(mean_wait(1, load, true), load / (1.0 - load), &format!("M/M/1 at {load}"));
        // M/M/2: the Erlang C formula gives rho^2 / (1 - rho^2).
        let expected = load * load / (1.0 - load * load);
        assert_near(mean_wait(2, load, true), expected, &format!("M/M/2 at {load}"));
    }
}
