//! A workload that no job describes: a log that is appended and flushed, on a simulated drive, by a task of one's own.
//!
//! ```sh
//! cargo run --release -p byteway-run --example custom_workload
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

use byteway_clock::Executor;
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, Method, Port, QueueConfig, Rules};
use byteway_testkit::SmallWorld;
use byteway_testkit::config::drive_config;

/// Records of a block each, and records between two flushes.
const RECORDS: u64 = 1_000;
const GROUP: u64 = 8;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let executor = Executor::new();
    let powered = SmallWorld::of(drive_config()).power_on(executor.clock());
    let port = Port::Link(powered.host.clone());
    let took = executor.run(async move {
        let driver = Driver::attach(port, DriverConfig::default()).await?;
        let queue = driver.create_queue_pair(QueueConfig::new(16)).await?;
        let namespace = driver.namespaces()[0];
        let config = ClientConfig {
            rules: Rules::only(Method::Prp),
            bytes_max: 4096,
            oracle: None,
            verify_bytes: false,
        };
        let client = Client::new(queue, namespace, config)?;
        let mut buffer = client.buffer()?;
        let begin = driver.clock().now();
        for record in 0..RECORDS {
            client.put(&mut buffer, &record.to_le_bytes())?;
            client.write(&mut buffer, record, 1).await?;
            if record % GROUP == GROUP - 1 {
                client.flush().await?;
            }
        }
        // Every byte is real: the last record is what was put there.
        let mut read = [0; 8];
        client.read(&mut buffer, RECORDS - 1, 1).await?;
        client.get(&buffer, &mut read)?;
        assert_eq!(u64::from_le_bytes(read), RECORDS - 1);
        Ok::<_, Box<dyn std::error::Error>>(driver.clock().now().since(begin))
    })??;
    println!("{RECORDS} records, flushed by {GROUP}: {:.1} us each", took.0 as f64 / 1e6 / RECORDS as f64);
    Ok(())
}
