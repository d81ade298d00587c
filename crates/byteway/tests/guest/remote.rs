//! A drive over a network: Linux's NVMe/TCP initiator and nvme-cli with `byteway serve --tcp`.

use crate::guest::{Drives, Guest};
use crate::server::Server;
use std::cell::RefCell;

/// Precedes each script: `connect [OPTION...]`, `disconnect`, and `$N`, the drive when it is connected.
const PRELUDE: &str = r#"
set -eu
fail() { echo "$*"; exit 1; }
N=/dev/nvme0n1
ID=11111111-2222-4333-8444-555555555555
connect() {
  nvme connect -t tcp -a 10.0.2.2 -s PORT -n NQN --hostnqn nqn.2014-08.org.nvmexpress:uuid:$ID --hostid $ID "$@" >/dev/null
  for try in $(seq 100); do [ -b $N ] && return; sleep 0.1; done
  fail "no $N: $(dmesg | tail -n 5)"
}
disconnect() { nvme disconnect -n NQN | grep -q "disconnected 1 controller" || fail "not disconnected"; }
# verify FILE OPTION...
verify() { file=$1; shift; fio --name=v --filename=$file --direct=1 --ioengine=libaio --verify=crc32c --do_verify=1 --group_reporting "$@"; }
modprobe nvme_tcp
"#;

const FIRST: &str = r#"
connect
nvme list | grep -q "NVMe\|Samsung" || fail "$(nvme list)"
nvme list-subsys | grep -q "tcp traddr=10.0.2.2,trsvcid=PORT" || fail "$(nvme list-subsys)"
[ "$(cat /sys/class/nvme/nvme0/state)" = live ] || fail "$(cat /sys/class/nvme/nvme0/state)"
nvme id-ctrl /dev/nvme0 -o json | grep -q '"cntrltype" *: *1' || fail "$(nvme id-ctrl /dev/nvme0)"
nvme smart-log /dev/nvme0 >/dev/null
# Queues that are idle from the beginning stay: longer than a host is given to connect one.
sleep 12
[ "$(cat /sys/class/nvme/nvme0/state)" = live ] || fail "$(dmesg | tail -n 5)"
dmesg | grep -i "reconnect\|timeout" && fail "a connection was closed"
# Data in the capsule and data that is asked for, of several sizes, at some depth.
verify $N --rw=randwrite --bsrange=4k-64k --iodepth=16 --size=16m
disconnect
"#;

const DIGESTS: &str = r#"
for options in "-g" "-G" "-g -G -i 1" "-i 2 -Q 16"; do
  connect $options
  verify $N --rw=randwrite --bs=16k --iodepth=8 --size=2m
  disconnect
done
"#;

const FILES: &str = r#"
connect --keep-alive-tmo=2
mkfs.ext4 -q $N
mkdir -p /mnt
mount -o discard $N /mnt
dd if=/dev/urandom of=/mnt/a bs=1M count=12 2>/dev/null
sync
md5sum /mnt/a >/tmp/sum
# A reset under load: the initiator repeats the commands in flight.
verify /mnt/b --rw=randwrite --bs=4k --iodepth=8 --size=4m & running=$!
sleep 0.5
nvme reset /dev/nvme0
wait $running
echo 3 >/proc/sys/vm/drop_caches
md5sum -c /tmp/sum
# Idle for longer than the keep-alive time-out: the initiator keeps it alive.
sleep 6
[ "$(cat /sys/class/nvme/nvme0/state)" = live ] || fail "$(cat /sys/class/nvme/nvme0/state)"
fstrim /mnt
"#;

const LOAD: &str = r#"
connect
fio --name=v --filename=$N --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=16 --size=16m --time_based --runtime=6 \
  --verify=crc32c --verify_backlog=256 >/tmp/fio 2>&1 &
echo $! >/tmp/pid
sleep 2
"#;

/// The server was shut down under load in the meantime, and is back.
pub const AFTER_LOAD: &str = r#"
while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.3; done
grep -q "err= 0" /tmp/fio || fail "$(cat /tmp/fio)"
dmesg | grep -i "I/O error" && fail "an error has come through"
[ "$(cat /sys/class/nvme/nvme0/state)" = live ] || fail "$(dmesg | tail)"
disconnect
"#;

/// The server is gone in the meantime, and returns at the same port.
const BACK: &str = r#"
for try in $(seq 300); do [ "$(cat /sys/class/nvme/nvme0/state)" = live ] && break; sleep 0.1; done
[ "$(cat /sys/class/nvme/nvme0/state)" = live ] || fail "$(dmesg | tail)"
echo 3 >/proc/sys/vm/drop_caches
md5sum -c /tmp/sum
umount /mnt
fsck.ext4 -fn $N >/tmp/fsck || fail "$(cat /tmp/fsck)"
disconnect
"#;

/// All steps, with this kernel.
pub fn play(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let ready = RefCell::new(None);
    let mut guest = Guest::boot(kernel, 2, |own| {
        let server = Server::start_tcp(own, 0, &data);
        ready.replace(Some(server.ready()[0].clone()));
        Drives::Remote(server)
    });
    let ready = ready.take().unwrap();
    let (port, nqn) = (ready["port"].as_u64().unwrap() as u16, ready["subsystem_nqn"].as_str().unwrap());
    let filled = |text: &str| text.replace("PORT", &port.to_string()).replace("NQN", nqn);
    guest.prelude = filled(PRELUDE);
    guest.run("connected, looked at, verified, disconnected", 60, &filled(FIRST));
    guest.run("with digests and several queues", 60, DIGESTS);
    guest.run("load on a server", 60, LOAD);
    let Drives::Remote(server) = &mut guest.drives else { unreachable!() };
    server.end();
    guest.drives = Drives::Remote(Server::start_tcp(folder.path(), port, &data));
    guest.run("that has ended meanwhile, and is back", 60, AFTER_LOAD);
    guest.run("a file system, and a reset under load", 60, FILES);
    // Synced data survives kill -9.
    let Drives::Remote(server) = &mut guest.drives else { unreachable!() };
    server.kill();
    let again = Server::start_tcp(folder.path(), port, &data);
    guest.drives = Drives::Remote(again);
    guest.run("the server killed and back", 60, BACK);
    let Drives::Remote(mut server) = guest.power_off() else { unreachable!() };
    server.end();
}
