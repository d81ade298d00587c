//! Drives that request a host memory buffer for their map: Linux provides it, removes it and returns it.

use crate::guest::{Drives, Guest};
use crate::list::tell_apart;
use crate::server::Server;

/// A map of 8 MiB, of which the drive's DRAM holds 8 pages and the host should hold half.
const KEYS: [&str; 2] = [
    "--set=drive.override.firmware.map_cache=\"32 KiB\"",
    "--set=drive.override.firmware.host_buffer=\"4 MiB\"",
];

/// Precedes each script.
const COMMANDS: &str = r#"
# lends yes|no: whether memory is lent to drive A
lends() {
  value=$(nvme get-feature $AC -f 0x0d | sed -n 's/.*value: *//p' | head -n 1)
  case "$1:$(printf '%d' $value)" in yes:1|no:0) ;; *) fail "lent: $value" ;; esac
}
# load SECONDS: begins to read and write all over drive A, verified, behind
load() {
  fio --name=load --filename=$A --rw=randrw --bs=4k --iodepth=16 --size=6g --io_size=48m --norandommap --time_based --runtime=$1 \
    --randrepeat=0 $verified >/tmp/fio 2>&1 &
}
"#;

/// All steps, with this kernel.
pub fn play(kernel: &str) {
    let mut guest = Guest::boot(kernel, 2, |folder| {
        Drives::Served(Server::start_with(folder, ["mapped", "trapped"], None, &KEYS))
    });
    tell_apart(&mut guest, true);
    guest.prelude += COMMANDS;
    guest.run(
        "Linux lends what the drives ask for",
        30,
        r#"
        [ $(dmesg | grep -c "allocated 4 MiB host memory buffer") = 2 ] || fail "$(dmesg | grep nvme)"
        nvme id-ctrl $AC | field hmpre | grep -qx 1024
        nvme id-ctrl $AC | field hmmin | grep -qx 256
        lends yes
        "#,
    );
    guest.run(
        "verified, with resets",
        120,
        r#"
        load 12
        for try in 1 2 3; do sleep 3; nvme reset $AC; done
        wait $! || fail "$(cat /tmp/fio)"
        lends yes
        "#,
    );
    guest.run(
        "suspended and resumed under load",
        120,
        r#"
        # Sleeps only as far as its devices, for five seconds, and wakes by itself.
        echo devices >/sys/power/pm_test
        load 12
        sleep 2
        echo freeze >/sys/power/state
        wait $! || fail "$(cat /tmp/fio)"
        dmesg | grep -q "PM: suspend exit" || fail "$(dmesg | tail)"
        lends yes
        "#,
    );
    guest.run(
        "the driver goes and comes",
        120,
        r#"
        dd if=/dev/urandom of=/tmp/bytes bs=1M count=16 2>/dev/null
        dd if=/tmp/bytes of=$A bs=1M oflag=direct 2>/dev/null
        for drive in $AP $BP; do echo $drive >/sys/bus/pci/drivers/nvme/unbind; done
        for drive in $AP $BP; do echo $drive >/sys/bus/pci/drivers/nvme/bind; done
        appears $AS
        "#,
    );
    tell_apart(&mut guest, true);
    guest.prelude += COMMANDS;
    guest.run(
        "what was written is there, and memory is lent again",
        60,
        r#"
        lends yes
        dd if=$A bs=1M count=16 iflag=direct 2>/dev/null | cmp - /tmp/bytes
        "#,
    );
    let Drives::Served(mut server) = guest.power_off() else { unreachable!("they are served") };
    server.end();
}
