//! Members that collect garbage at once.
//!
//! A request that is striped over several drives waits for the slowest of them, and a drive that collects is slow. If each collects
//! when it must, some drive nearly always does. So the first member that has to begin tells the array (an asynchronous event), and
//! the array opens a [collection window](byteway_wire::nvme::vendor::collection) at every member: all of them collect, until each has
//! free superblocks for a while without collection.
//!
//! All of it crosses the members' links as admin commands, each of which is converted where the array's work is done. Nothing waits
//! for a window: a member that is gone, does not answer, or has nothing to collect holds up no other, and a write that finds no free
//! superblock waits for its own drive alone, as ever. Windows are not persistent: after a power cut the array that is assembled
//! anew asks to be told again.
//!
//! Source: Kim and others, "Harmonia: A Globally Coordinated Garbage Collector for Arrays of Solid-State Drives" (MSST 2011), where
//! the RAID controller sends the request.

use byteway_clock::{Clock, Notify};
use byteway_firmware::{Placement, Work};
use byteway_host::driver::{Data, Driver};
use byteway_wire::IntoBytes;
use byteway_wire::nvme::vendor::collection::{CollectionLog, CollectionWindow};
use byteway_wire::nvme::{AsyncEvent, NSID_ALL, SetFeatures, fid, lid};
use std::rc::Rc;

/// A member as it is spoken to.
struct Seat {
    driver: Driver,
    /// A window is to be opened.
    called: Notify,
}

/// What the tasks share.
struct Together {
    clock: Clock,
    placement: Placement,
    seats: Vec<Seat>,
    /// Superblocks that a window frees in each die.
    blocks: u16,
}

/// Has all members, with the spares, collect at once: by two tasks for each, which end when it is gone or has no windows.
pub(crate) fn coordinate(clock: &Clock, placement: &Placement, drivers: Vec<Driver>, blocks: u16) {
    let seat = |driver| Seat { driver, called: Notify::new(clock) };
    let seats: Vec<Seat> = drivers.into_iter().map(seat).collect();
    let count = seats.len();
    let together = Rc::new(Together { clock: clock.clone(), placement: placement.clone(), seats, blocks });
    for number in 0..count {
        clock.spawn("collection windows", open_windows(together.clone(), number));
    }
}

/// Opens windows at a member, whenever one is wanted.
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

/// Calls all members when this one has begun to collect.
async fn listen(together: Rc<Together>, number: usize) {
    let driver = &together.seats[number].driver;
    let events = driver.events(1);
    let mut log = CollectionLog::default();
    loop {
        if events.receive().await != AsyncEvent::COLLECTION_BEGUN {
            continue;
        }
        together.seats.iter().for_each(|seat| seat.called.notify_one());
        // Until the log is read the member says nothing more.
        together.convert().await;
        if driver.log_page(lid::COLLECTION, NSID_ALL, false, log.as_mut_bytes()).await.is_err() {
            return;
        }
    }
}

impl Together {
    /// Sets the feature of a member. False: it has none, or is gone.
    async fn set(&self, number: usize, window: CollectionWindow) -> bool {
        self.convert().await;
        let cdw11 = window.into_bits();
        let sqe = SetFeatures { fid: fid::COLLECTION_WINDOW, cdw11, ..SetFeatures::default() }.sqe(0, 0);
        let answer = self.seats[number].driver.admin(sqe, Data::None).await;
        answer.is_ok_and(|cqe| cqe.status().is_success())
    }

    /// What a command to a member costs where the array's work is done.
    async fn convert(&self) {
        self.placement.run(Work::Convert, 1).await;
    }
}
