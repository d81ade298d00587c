//! Accesses a drive that another process serves: attaches over vfio-user, writes a block, reads it back.
//!
//! ```sh
//! byteway serve drive.toml --vfio-user /tmp/drive &
//! cargo run --release -p byteway-serve --example attach -- /tmp/drive
//! ```
#![allow(clippy::print_stdout, reason = "an example shows what it finds")]

use byteway_clock::{Executor, Timing};
use byteway_host::{Client, ClientConfig, Driver, DriverConfig, Method, QueueConfig, Rules};
use byteway_serve::attach::Attachment;
use std::path::PathBuf;

/// Memory that the drive may access by DMA, in bytes: queues and a buffer.
const MEMORY_BYTES: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name the folder of a served drive")?;
    let attachment = Attachment::connect(&folder, MEMORY_BYTES)?;
    let executor = Executor::new();
    let port = attachment.port(executor.clock());
    let said = executor.run_real(Timing::None, None, async move {
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
        client.put(&mut buffer, b"hello, drive")?;
        client.write(&mut buffer, 0, 1).await?;
        client.put(&mut buffer, &[0; 12])?;
        client.read(&mut buffer, 0, 1).await?;
        let mut said = [0; 12];
        client.get(&buffer, &mut said)?;
        driver.shutdown().await?;
        Ok::<_, Box<dyn std::error::Error>>(said)
    })??;
    println!("block 0 says: {}", String::from_utf8_lossy(&said));
    Ok(())
}
