//! An independent client: without it, both ends here could share a misunderstanding of the protocol.

use crate::fixture::*;
use std::os::fd::AsRawFd;

#[test]
fn the_vfio_user_crates_client_attaches_and_works() {
    let served = Served::new();
    let mut client = vfio_user::Client::new(&served.socket()).unwrap();
    let bar = client.region(BAR0).unwrap();
    assert_eq!(
        (bar.sparse_areas.len(), bar.sparse_areas[0].offset, bar.sparse_areas[0].size),
        (1, 0x1000, 0x1000)
    );
    assert!(bar.file_offset.is_some());
    assert_eq!(client.region(CONFIG).unwrap().size, 4096);
    let mut class = [0; 4];
    client.region_read(CONFIG, 8, &mut class).unwrap();
    assert_eq!(class[1..], [2, 8, 1]);
    client.region_write(BAR0, 0x24, &[7, 0, 7, 0]).unwrap();
    let mut aqa = [0; 4];
    client.region_read(BAR0, 0x24, &mut aqa).unwrap();
    assert_eq!(aqa, [7, 0, 7, 0]);
    let file = memfd(4 * PAGE);
    client.dma_map(PAGE, 0x1000_0000, 2 * PAGE, file.as_raw_fd()).unwrap();
    client.dma_unmap(0x1000_0000, 2 * PAGE).unwrap();
    let irqs = client.get_irq_info(MSIX).unwrap();
    assert_eq!(irqs.count, VECTORS);
    let events = [event(), event()];
    client.set_irqs(MSIX, 4 | 32, 1, 2, &[events[0].as_raw_fd(), events[1].as_raw_fd()]).unwrap();
    client.set_irqs(MSIX, 1 | 32, 1, 2, &[]).unwrap();
    assert_eq!([count(&events[0]), count(&events[1])], [1, 1]);
    client.reset().unwrap();
    client.region_read(BAR0, 0x24, &mut aqa).unwrap();
    assert_eq!(aqa, [0; 4]);
    client.shutdown().unwrap();
    drop(client);
    served.is_well();
}
