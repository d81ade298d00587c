//! Synchronized garbage collection of array members.
//!
//! A request that is striped over several drives waits for the slowest of them, and a drive that collects garbage is
//! slow. If each collects when it must, some drive nearly always does. So the first member that has to start notifies
//! the array (an asynchronous event), and the array opens a [collection window](byteway_wire::nvme::vendor::collection)
//! at every member: all of them collect, until each has enough free superblocks for a while.
//!
//! All of it uses admin commands over the members' links, each converted where the array's work runs. Nothing waits for
//! a window: a member that is gone, does not answer, or has nothing to collect delays no other, and a write that finds
//! no free superblock waits for its own drive only, as usual. Windows are not persistent: after a power cut the newly
//! assembled array enables notifications again.
//!
//! Source: Kim and others, "Harmonia: A Globally Coordinated Garbage Collector for Arrays of Solid-State Drives" (MSST
//! 2011), where the RAID controller sends the request.

use byteway_clock::{Clock, Notify};
use byteway_firmware::{Placement, WorkKind};
use byteway_host::{Data, Driver};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::vendor::collection::{CollectionLog, CollectionWindow};
use byteway_wire::nvme::{AsyncEvent, NSID_ALL, SetFeatures, fid, lid};
use std::rc::Rc;

/// A member, as the coordinator sees it.
struct Seat {
    driver: Driver,
    /// A window must be opened.
    called: Notify,
}

/// State that the tasks share.
struct Together {
    clock: Clock,
    placement: Placement,
    seats: Vec<Seat>,
    /// Superblocks that a window frees in each die.
    blocks: u16,
}

/// Synchronizes garbage collection of all members and spares. Each has two tasks, which end when it is
/// removed or does not support windows.
pub(crate) fn coordinate(clock: &Clock, placement: &Placement, drivers: Vec<Driver>, blocks: u16) {
    let seat = |driver| Seat { driver, called: Notify::new(clock) };
    let seats: Vec<Seat> = drivers.into_iter().map(seat).collect();
    let count = seats.len();
    let together = Rc::new(Together { clock: clock.clone(), placement: placement.clone(), seats, blocks });
    for number in 0..count {
        clock.spawn("collection windows", open_windows(together.clone(), number));
    }
}

/// Opens windows at a member, on request.
async fn open_windows(together: Rc<Together>, number: usize) {
    let seat = &together.seats[number];
    if !together.set(number, CollectionWindow::new().with_notify(true)).await {
        return;
    }
    together.clock.spawn("collection notices", listen(together.clone(), number));
    let window = CollectionWindow::new().with_notify(true).with_open(true).with_blocks(together.blocks);
    loop {
        seat.called.notified().await;
        if !together.set(number, window).await {
            return;
        }
    }
}

/// Requests windows at all members when this one has started garbage collection.
async fn listen(together: Rc<Together>, number: usize) {
    let driver = &together.seats[number].driver;
    let events = driver.events(1);
    let mut log = CollectionLog::default();
    loop {
        if events.receive().await != AsyncEvent::COLLECTION_BEGUN {
            continue;
        }
        together.seats.iter().for_each(|seat| seat.called.notify_one());
        // The member raises no further event until the log page is read.
        together.convert().await;
        if driver.log_page(lid::COLLECTION, NSID_ALL, false, log.as_mut_bytes()).await.is_err() {
            return;
        }
    }
}

impl Together {
    /// Sets the feature of a member. Returns false if it is not supported or the member was removed.
    async fn set(&self, number: usize, window: CollectionWindow) -> bool {
        self.convert().await;
        let cdw11 = window.into_bits();
        let sqe = SetFeatures { fid: fid::COLLECTION_WINDOW, cdw11, ..SetFeatures::default() }.sqe(0, 0);
        let answer = self.seats[number].driver.admin(sqe, Data::None).await;
        answer.is_ok_and(|cqe| cqe.status().is_success())
    }

    /// Charges the cost of a command to a member where the array's work runs.
    async fn convert(&self) {
        self.placement.run(WorkKind::Convert, 1).await;
    }
}
