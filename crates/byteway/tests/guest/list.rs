//! The test list of a guest with two drives, in one boot.
//!
//! Each step is a shell script that ends at its first failing command. `$A` and `$B` are the drives' block devices, `$AC` and `$BC` their
//! controllers (all in /dev), `$AS` and `$BS` their serial numbers, `$AP` and `$BP` their addresses on the PCI bus. The steps share only
//! the data on the drives and in /tmp.
//!
//! Checked: commands have their effects, data survives, and errors are the expected ones. Not checked: performance.

use crate::guest::{Drives, Guest};
use std::collections::BTreeMap;

/// Precedes each script.
const PRELUDE: &str = r#"
set -eu
fail() { echo "$*"; exit 1; }
# refused COMMAND...: that it fails
refused() { if "$@" 2>&1; then fail "not refused: $*"; fi; }
# field NAME: the value behind a name, of nvme-cli's output
field() { sed -n "s/^$1[[:space:]]*: *//p" | sed 's/ *$//'; }
# feature FID: its current value
feature() { printf '%d' 0x$(nvme get-feature $AC -f $1 | sed 's/.*value://; s/^0x//'); }
# blocks BYTES: as many blocks of drive A, zero-based
blocks() { echo $(($1 / $(cat /sys/block/${A#/dev/}/queue/logical_block_size) - 1)); }
# appears SERIAL: waits for the drive
appears() {
  for try in $(seq 100); do
    for block in /sys/block/nvme*n*; do
      [ "$(tr -d ' ' <$block/device/serial 2>/dev/null)" = "$1" ] && return
    done
    sleep 0.1
  done
  fail "no drive $1 after 10 s"
}
verified="--ioengine=libaio --direct=1 --verify=crc32c --verify_fatal=1 --group_reporting --output-format=terse"
"#;

/// The whole list, most of it with drive A; it ends the guest and its server. `mapped` is the drive ("A" or "B") with mapped doorbells.
pub fn play(mut guest: Guest, mapped: &str) {
    let served = matches!(guest.drives, Drives::Served(_));
    tell_apart(&mut guest, served);
    identify(&mut guest, served);
    logs(&mut guest);
    features(&mut guest);
    interrupts(&mut guest);
    file_system(&mut guest);
    verify(&mut guest);
    discard(&mut guest);
    reload_driver(&mut guest, served);
    reset_under_load(&mut guest);
    reset_function(&mut guest);
    remove_and_rescan(&mut guest, served);
    both_at_once(&mut guest);
    counted(&mut guest, served);
    if served {
        lose_server(&mut guest, mapped);
    }
    guest.power_off();
}

/// The lines `name : value` of a program's output.
fn fields(output: &str) -> BTreeMap<&str, &str> {
    output
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect()
}

/// Finds the drives, whose names change when they are removed and return, and sets the variables for later scripts.
pub fn tell_apart(guest: &mut Guest, served: bool) {
    guest.prelude.clear();
    let script = "
        for try in $(seq 100); do
            [ $(ls -d /sys/block/nvme*n* 2>/dev/null | wc -l) = 2 ] && break
            sleep 0.1
        done
        for block in /sys/block/nvme*n*; do
            device=$block/device
            echo $(cat $device/address) ${block##*/} $(basename $(readlink -f $device)) \
                $(cat $device/subsysnqn):$(cat $device/cntlid) $(cat $device/serial)
        done";
    let output = guest.run("two drives are there", 20, script);
    let mut drives: Vec<Vec<&str>> = output.lines().map(|line| line.split_whitespace().collect()).collect();
    drives.retain(|drive| drive.len() == 5);
    drives.sort_unstable();
    let [a, b] = &drives[..] else { panic!("two drives, not these:\n{output}\n{}", guest.seen()) };
    assert_ne!(a[4], b[4], "serial numbers");
    assert_ne!(a[3], b[3], "controller identifiers, each with the name of its subsystem");
    guest.prelude = format!("{}\nserved={}\n", PRELUDE.trim(), if served { "yes" } else { "no" });
    for (name, drive) in [("A", a), ("B", b)] {
        let [address, block, controller, _, serial] = drive[..] else { unreachable!("five words") };
        guest.prelude +=
            &format!("{name}=/dev/{block} {name}C=/dev/{controller} {name}S={serial} {name}P={address}\n");
    }
}

fn identify(guest: &mut Guest, served: bool) {
    let output = guest.run("nvme id-ctrl", 10, "nvme id-ctrl $AC; echo place: $AC; echo serial: $AS");
    let controller = fields(&output);
    assert_eq!((controller["sqes"], controller["cqes"]), ("0x66", "0x44"), "entry sizes\n{output}");
    assert_eq!(controller["sn"], controller["serial"], "{output}");
    assert!(!controller["mn"].is_empty() && !controller["fr"].is_empty(), "{output}");
    let output =
        guest.run("nvme id-ns", 10, "nvme id-ns $A; cat /sys/block/${A#/dev/}/size | sed 's/^/sectors: /'");
    let namespace = fields(&output);
    let blocks = u64::from_str_radix(namespace["nsze"].trim_start_matches("0x"), 16).unwrap();
    let sectors: u64 = namespace["sectors"].parse().unwrap();
    assert_eq!(sectors * 512 % blocks, 0, "{output}");
    assert!(!served || sectors * 512 == crate::CAPACITY_GIB << 30, "{output}");
    guest.run(
        "nvme list",
        20,
        r#"
        nvme list | tee /tmp/list
        grep -q "^$A .*$AS" /tmp/list && grep -q "^$B .*$BS" /tmp/list
        [ "$(nvme list-ns $AC | grep -c 0x1)" = 1 ]
        lspci -vvv -s $AP | tee /tmp/lspci
        grep -q "Non-Volatile memory controller" /tmp/lspci && grep -q "MSI-X: Enable+" /tmp/lspci
        "#,
    );
}

fn logs(guest: &mut Guest) {
    guest.run(
        "nvme smart-log and get-log",
        20,
        r#"
        nvme smart-log $AC | tee /tmp/smart
        [ "$(field critical_warning </tmp/smart)" = 0 ]
        grep -q '^temperature.*[0-9]' /tmp/smart
        nvme error-log $AC -e 2
        nvme fw-log $AC | tee /tmp/firmware
        # The revision that runs is that of the slot that is said to be active; QEMU's own is not.
        running=$(nvme id-ctrl $AC | field fr)
        slot=$(($(field afi </tmp/firmware) & 7))
        revision=$(nvme get-log $AC --log-id=3 --log-len=512 --raw-binary | dd bs=8 skip=$slot count=1 2>/dev/null)
        [ $served = no ] || [ "$(echo $revision)" = "$running" ] || fail "$revision in slot $slot, not $running"
        # Commands Supported and Effects: Identify is.
        nvme get-log $AC --log-id=5 --log-len=4096 --raw-binary >/tmp/effects
        [ $(wc -c </tmp/effects) = 4096 ]
        [ $(($(od -A n -t u1 -j 24 -N 1 /tmp/effects) & 1)) = 1 ]
        nvme effects-log $AC --csi=0 >/dev/null
        "#,
    );
}

fn features(guest: &mut Guest) {
    guest.run(
        "nvme get-feature and set-feature",
        20,
        r#"
        for setting in 0x06:0 0x06:1 0x04:0x14a 0x08:0x0203 0x08:0; do
            # QEMU's own controller knows no coalescing.
            [ $served-${setting%:*} != no-0x08 ] || continue
            nvme set-feature $AC -f ${setting%:*} -V ${setting#*:}
            [ $(feature ${setting%:*}) = $((${setting#*:})) ] || fail "$setting reads as $(feature ${setting%:*})"
        done
        # One that isn't there is refused, and the drive goes on.
        refused nvme set-feature $AC -f 0x7f -V 1
        feature 0x07
        "#,
    );
}

/// Each processor has a queue with its own interrupt vector.
fn interrupts(guest: &mut Guest) {
    let script = format!(
        r#"
        counts() {{
            awk -v q=${{AC#/dev/}}q$1 '$NF == q {{ for (i = 2; i <= {last}; i++) n += $i; print n }}' /proc/interrupts
        }}
        for cpu in $(seq 0 {max}); do
            queue=$((cpu + 1))
            before=$(counts $queue)
            taskset $(printf %x $((1 << cpu))) dd if=$A of=/dev/null bs=4k count=100 iflag=direct 2>/dev/null
            after=$(counts $queue)
            echo "queue $queue: $before, then $after interrupts"
            [ $((after - before)) -ge 90 ] || fail "$(cat /proc/interrupts)"
        done
        "#,
        last = crate::CPUS + 1,
        max = crate::CPUS - 1,
    );
    guest.run("each queue has its interrupts", 30, &script);
}

fn file_system(guest: &mut Guest) {
    guest.run(
        "ext4: made and filled",
        60,
        r#"
        mkfs.ext4 -q -F $A
        mount -t ext4 $A /mnt
        dd if=/dev/urandom of=/tmp/random bs=1M count=2 2>/dev/null
        for i in $(seq 150); do
            mkdir -p /mnt/$((i % 9))
            # Of many sizes, up to 1.3 MiB, and no two alike.
            { echo file $i; dd if=/tmp/random bs=$((i * i * 61 + 7)) count=1 2>/dev/null; } >/mnt/$((i % 9))/$i
        done
        cd /mnt
        find . -type f -exec md5sum {} + >/tmp/sums
        cd /
        umount /mnt
        [ $(wc -l </tmp/sums) = 150 ]
        "#,
    );
    guest.run(
        "ext4: mounted again, thinned, trimmed, checked",
        60,
        r#"
        intact() { (cd /mnt && md5sum -c $1 >/tmp/checked) || fail "$(grep -v OK /tmp/checked)"; }
        mount -t ext4 $A /mnt
        intact /tmp/sums
        rm -r /mnt/1 /mnt/4
        fstrim /mnt
        umount /mnt
        mount -t ext4 -o ro $A /mnt
        grep -v ' ./[14]/' /tmp/sums >/tmp/sums.left
        intact /tmp/sums.left
        umount /mnt
        e2fsck -f -n $A
        "#,
    );
}

fn verify(guest: &mut Guest) {
    guest.run(
        "fio: random writes and reads, verified",
        90,
        r#"
        fio $verified --name=small --filename=$A --rw=randrw --bs=4k --iodepth=32 --size=24M --numjobs=4 \
            --offset_increment=64M >/tmp/fio || fail "$(cat /tmp/fio)"
        fio $verified --name=mixed --filename=$A --rw=randwrite --bsrange=4k-512k --bs_unaligned=0 --iodepth=8 \
            --size=96M --offset=1G >/tmp/fio || fail "$(cat /tmp/fio)"
        fio $verified --name=single --ioengine=psync --filename=$A --rw=randrw --bs=4k --size=4M --offset=2G \
            --fsync=64 >/tmp/fio || fail "$(cat /tmp/fio)"
        "#,
    );
}

/// Deallocated or zeroed blocks read as zeroes, and no others change.
fn discard(guest: &mut Guest) {
    guest.run(
        "discard, write zeroes, compare",
        40,
        r#"
        part() { dd if=$A bs=64k skip=$1 count=$2 iflag=direct 2>/dev/null; }
        zeroes() { head -c $(($1 * 65536)) /dev/zero; }
        dd if=/dev/urandom of=/tmp/pattern bs=64k count=32 2>/dev/null
        dd if=/tmp/pattern of=$A bs=64k oflag=direct 2>/dev/null
        part 0 32 | cmp - /tmp/pattern

        blkdiscard -o $((8 * 65536)) -l $((4 * 65536)) $A
        dlfeat=$(nvme id-ns $A | field dlfeat)
        zeroes 4 >/tmp/zeroes
        [ $((dlfeat & 7)) != 1 ] || part 8 4 | cmp - /tmp/zeroes

        nvme write-zeroes $A -s $(($(blocks $((20 * 65536))) + 1)) -c $(blocks $((2 * 65536)))
        zeroes 2 >/tmp/zeroes
        part 20 2 | cmp - /tmp/zeroes
        for kept in 0:8 12:8 22:10; do
            dd if=/tmp/pattern bs=64k skip=${kept%:*} count=${kept#*:} 2>/dev/null >/tmp/kept
            part ${kept%:*} ${kept#*:} | cmp - /tmp/kept
        done

        # Compare, if the drive has it: the same is the same, and something else is not.
        oncs=$(nvme id-ctrl $AC | field oncs)
        if [ $((oncs & 1)) = 1 ]; then
            head -c 65536 /tmp/pattern >/tmp/same
            nvme compare $A -s 0 -c $(blocks 65536) -z 65536 -d /tmp/same
            tail -c 65536 /tmp/pattern >/tmp/other
            refused nvme compare $A -s 0 -c $(blocks 65536) -z 65536 -d /tmp/other
        fi

        # By nvme-cli's own hands.
        tail -c 65536 /tmp/pattern >/tmp/other
        nvme write $A -s 0 -c $(blocks 65536) -z 65536 -d /tmp/other
        nvme read $A -s 0 -c $(blocks 65536) -z 65536 -d /tmp/back
        cmp /tmp/other /tmp/back
        nvme flush $A -n 1
        "#,
    );
}

/// Writes known data to both drives.
const MARK: &str = "
    dd if=/dev/urandom of=/tmp/mark bs=64k count=16 2>/dev/null
    for drive in $A $B; do dd if=/tmp/mark of=$drive bs=64k seek=16 oflag=direct 2>/dev/null; done
";
/// Checks that data.
const MARKED: &str = "
    for drive in $A $B; do dd if=$drive bs=64k skip=16 count=16 iflag=direct 2>/dev/null | cmp - /tmp/mark; done
";

fn reload_driver(guest: &mut Guest, served: bool) {
    let script =
        format!("{MARK}\nfor round in 1 2; do rmmod nvme; modprobe nvme; appears $AS; appears $BS; done");
    guest.run("rmmod and modprobe", 60, &script);
    tell_apart(guest, served);
    guest.run("data is there after modprobe", 20, MARKED);
}

/// The driver resubmits commands that a reset aborted, and all of them complete.
fn reset_under_load(guest: &mut Guest) {
    guest.run(
        "controller reset under load",
        90,
        r#"
        fio $verified --name=reset --filename=$A --rw=randrw --bs=4k --iodepth=32 --size=32M --numjobs=2 \
            --offset_increment=64M --time_based --runtime=8 >/tmp/fio 2>&1 &
        fio=$!
        sleep 2
        for round in 1 2 3; do
            kill -0 $fio || fail "fio has ended too early: $(cat /tmp/fio)"
            if [ $round = 2 ]; then echo 1 >/sys/class/nvme/${AC#/dev/}/reset_controller; else nvme reset $AC; fi
            sleep 1
        done
        wait $fio || fail "fio: $(cat /tmp/fio)"
        [ "$(cat /sys/class/nvme/${AC#/dev/}/state)" = live ]
        "#,
    );
}

fn remove_and_rescan(guest: &mut Guest, served: bool) {
    let script = format!(
        "{MARK}
        echo 1 >/sys/bus/pci/devices/$AP/remove
        sleep 0.5
        [ ! -e /sys/bus/pci/devices/$AP ]
        # The other one doesn't mind.
        dd if=$B of=/dev/null bs=64k count=16 iflag=direct 2>/dev/null
        echo 1 >/sys/bus/pci/rescan
        appears $AS"
    );
    guest.run("remove and rescan", 40, &script);
    tell_apart(guest, served);
    guest.run("data is there after the rescan", 20, MARKED);
}

/// Like a function or bus reset, below the driver.
fn reset_function(guest: &mut Guest) {
    let script = format!(
        "{MARK}
        echo 1 >/sys/bus/pci/devices/$AP/reset
        cat /sys/bus/pci/devices/$AP/reset_method
        {MARKED}
        [ $(cat /sys/class/nvme/${{AC#/dev/}}/state) = live ]"
    );
    guest.run("PCI reset", 40, &script);
}

fn both_at_once(guest: &mut Guest) {
    guest.run(
        "both drives at once",
        60,
        r#"
        fio $verified --rw=randrw --bs=4k --iodepth=16 --size=24M --name=a --filename=$A --name=b --filename=$B \
            >/tmp/fio || fail "$(cat /tmp/fio)"
        "#,
    );
}

/// The drive's counters match the commands.
fn counted(guest: &mut Guest, served: bool) {
    let output = guest.run("nvme smart-log, once more", 10, "nvme smart-log $AC");
    let smart = fields(&output);
    let count = |name: &str| -> u64 {
        let value = smart[name].split_whitespace().next().unwrap();
        value.replace(',', "").parse().unwrap()
    };
    // Removal, or a reset, may clear the counters of QEMU's controller.
    if served {
        assert!(count("Data Units Written") > 500 && count("Data Units Read") > 500, "{output}");
        assert!(count("host_write_commands") > 10_000, "{output}");
    }
    assert_eq!(count("media_errors"), 0, "{output}");
}

/// The server is killed: the guest's I/O fails with errors, and the guest continues.
///
/// Not with trapped doorbells: QEMU 11.1.3 fails an assertion of its own if the server ends during a message. That drive is removed first.
fn lose_server(guest: &mut Guest, mapped: &str) {
    let trapped = if mapped == "A" { "B" } else { "A" };
    let script = format!(
        "
        echo 1 >/sys/bus/pci/devices/${trapped}P/remove
        fio --name=lost --filename=${mapped} --rw=randrw --bs=4k --iodepth=16 --ioengine=libaio --direct=1 --size=64M \
            --time_based --runtime=600 >/tmp/fio 2>&1 &
        sleep 2
        kill -0 $!"
    );
    guest.run("load, before the server dies", 20, &script);
    if let Drives::Served(server) = &mut guest.drives {
        server.kill();
    }
    let script = format!(
        r#"
        while pidof fio >/dev/null; do sleep 0.5; done
        grep -qi 'error' /tmp/fio || fail "fio saw no error: $(cat /tmp/fio)"
        # The device is gone, or empty.
        [ "$(dd if=${mapped} bs=4k count=1 iflag=direct 2>/dev/null | wc -c)" = 0 ]
        "#
    );
    guest.run("the server is dead: I/O fails", 120, &script);
    println!("{}", guest.run("the guest lives", 10, "uname -a; dmesg | tail -n 25"));
}
