//! The payload buffer behind the registers: what a client may store, and its traffic on the link.

use super::fixture::{BAR0, BUFFER, BUFFER_BYTES, EINVAL, PAGE, Served, errno};
use byteway_link::{Direction, Entry, Purpose};
use byteway_serve::vfio_user::message::{Command, RegionAccess};
use zerocopy::IntoBytes;

/// The errno of a write of `bytes` zeroes at `offset` of BAR0.
fn stored(client: &byteway_serve::vfio_user::Client, offset: u64, bytes: u64) -> i32 {
    let access = RegionAccess { offset: offset.into(), region: BAR0.into(), count: (bytes as u32).into() };
    errno(client, Command::REGION_WRITE, &[access.as_bytes(), &vec![0; bytes as usize]], &[])
}

// Without this a client's stores would go to another address than the controller reads.
#[test]
fn the_buffer_lies_behind_everything_else() {
    let served = Served::buffered();
    let client = served.client();
    let region = client.region(BAR0).unwrap();
    assert_eq!(region.bytes, (BUFFER + u64::from(BUFFER_BYTES)).next_power_of_two());
    let part = region.mappable.unwrap();
    assert_eq!((part.offset, part.bytes), (PAGE, PAGE), "doorbells lie where they did");
    let plain = Served::new();
    assert_eq!(plain.client().region(BAR0).unwrap().bytes, 4 * PAGE, "without a buffer nothing grows");
}

// Stores beyond the buffer must not be silently lost, or reach other memory.
#[test]
fn stores_are_taken_within_the_buffer_only() {
    let served = Served::buffered();
    let client = served.client();
    let end = BUFFER + u64::from(BUFFER_BYTES);
    for (offset, bytes, right) in [
        (BUFFER, 1, 0),
        (BUFFER + 61, 7, 0),
        (end - 1, 1, 0),
        (end, 0, 0),
        (BUFFER, end - BUFFER, 0),
        (end - 1, 2, EINVAL),
        (end, 1, EINVAL),
        (BUFFER - 1, 2, EINVAL),
        (BUFFER - 4, 4, EINVAL),
        (BUFFER, end - BUFFER + 1, EINVAL),
        (4 * PAGE - 4, 4, 0), // the end of the pending bit array's page
        (4 * PAGE - 4, 8, EINVAL),
        (4 * PAGE, 4, EINVAL),
    ] {
        assert_eq!(stored(&client, offset, bytes), right, "{bytes} bytes at {offset:x}h");
    }
    drop(client);
    served.is_well();
}

// Data of one tenant must not be readable by the next; and a read of all of BAR0, as tools do, must not fail.
#[test]
fn the_buffer_reads_as_zeroes() {
    let served = Served::buffered();
    let client = served.client();
    client.region_write(BAR0, BUFFER, &[0xA5; 200]).unwrap();
    let mut all = vec![0xFF; client.region(BAR0).unwrap().bytes as usize];
    client.region_read(BAR0, 0, &mut all).unwrap();
    assert!(all[BUFFER as usize..].iter().all(|byte| *byte == 0));
    client.region_read(BAR0, BUFFER - 2, &mut all[..300]).unwrap();
    assert!(all[..300].iter().all(|byte| *byte == 0));
}

// A ledger that counted messages would not show the cost of a processor's stores.
#[test]
fn stores_cross_the_link_in_lines_of_64_bytes() {
    let served = Served::buffered();
    let client = served.client();
    client.region_write(BAR0, BUFFER + 60, &[1; 100]).unwrap(); // 4, 64 and 32 bytes
    client.region_post(BAR0, BUFFER, &[2; 64]).unwrap();
    client.region_post(BAR0, BUFFER + u64::from(BUFFER_BYTES) - 1, &[3; 2]).unwrap(); // refused
    client.region_read(BAR0, BUFFER, &mut [0; 4]).unwrap();
    drop(client);
    let entry = served.end().ledger.entry(Purpose::MmioData, Direction::Down);
    // A header of 16 bytes above 4 GiB, with 8 bytes of framing and sequence number.
    assert_eq!(entry, Entry { payload: 164, wire: 164 + 4 * 24, tlps: 4 });
}
