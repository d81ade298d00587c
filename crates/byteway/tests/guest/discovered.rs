//! Discovery by a guest: `nvme discover`, `connect-all` and `list-subsys` with a server of several drives.

use crate::guest::{Drives, Guest};
use crate::server::Server;
use std::cell::RefCell;

const PRELUDE: &str = r#"
set -eu
fail() { echo "$*"; exit 1; }
ID=11111111-2222-4333-8444-555555555555
# nvme_tcp COMMAND [OPTION...]
nvme_tcp() { command=$1; shift; nvme $command -t tcp -a 10.0.2.2 -s PORT --hostnqn nqn.2014-08.org.nvmexpress:uuid:$ID --hostid $ID "$@"; }
# count TEXT: lines of standard input with it
count() { grep -c "$1" || true; }
modprobe nvme_tcp
"#;

const DISCOVER: &str = r#"
nvme_tcp discover >/tmp/text
cat /tmp/text
[ $(count "^subnqn: *NQN0$" </tmp/text) = 2 ] || fail "of the first drive, not both ports"
[ $(count "^subnqn: *NQN1$" </tmp/text) = 2 ] || fail "of the second drive, not both ports"
grep -q "^Discovery Log Number of Records 5, Generation counter" /tmp/text || fail records
grep -q "^traddr: *10.0.2.2$" /tmp/text || fail traddr
grep -q "^trsvcid: *PORT *$" /tmp/text || fail trsvcid
grep -q "^subtype: *nvme subsystem$" /tmp/text || fail subtype
grep -q "^subtype: *current discovery subsystem$" /tmp/text || fail current
grep -q "^sectype: *none$" /tmp/text || fail sectype
nvme_tcp discover -o json >/tmp/json
[ $(count '"subnqn" *: *"NQN0"' </tmp/json) = 2 ] || fail "$(cat /tmp/json)"
[ $(count '"trtype" *: *"tcp"' </tmp/json) = 5 ] || fail "$(cat /tmp/json)"
grep -q '"genctr"' /tmp/json || fail "$(cat /tmp/json)"
# Nothing stays connected.
[ -z "$(ls /sys/class/nvme)" ] || fail "$(ls /sys/class/nvme)"
"#;

const CONNECT: &str = r#"
nvme_tcp connect-all
for try in $(seq 100); do [ $(ls /sys/class/nvme | wc -l) -ge 4 ] && break; sleep 0.1; done
nvme list-subsys >/tmp/text
cat /tmp/text
for nqn in NQN0 NQN1; do grep -q "$nqn" /tmp/text || fail "no $nqn"; done
[ $(count "tcp traddr=10.0.2.2,trsvcid=.* live" </tmp/text) = 4 ] || fail "not two paths to each drive"
nvme list-subsys -o json >/tmp/json
[ $(count '"NQN" *: *"NQN[01]"' </tmp/json) -ge 2 ] || [ $(count 'NQN0\|NQN1' </tmp/json) -ge 2 ] || fail "$(cat /tmp/json)"
nvme list -o json | grep -q 'SerialNumber' || fail "$(nvme list -o json)"
for disk in /dev/nvme*n1; do dd if=/dev/urandom of=$disk bs=64k count=4 conv=fsync 2>/dev/null; done
[ $(ls /dev/nvme*n1 | wc -l) = 2 ] || fail "$(ls /dev/nvme*)"
nvme disconnect-all
"#;

const PERSISTENT: &str = r#"
nvme_tcp discover --persistent --keep-alive-tmo=2 >/dev/null
sleep 5
state=$(cat /sys/class/nvme/nvme*/state)
[ "$state" = live ] || fail "the Discovery controller is $state"
[ "$(cat /sys/class/nvme/nvme*/cntrltype)" = discovery ] || fail "$(cat /sys/class/nvme/nvme*/cntrltype)"
dmesg | grep -i "reconnect\|timeout" && fail "a connection was closed"
nvme disconnect-all
"#;

const PATHS: &str = r#"
nvme_tcp connect -n NQN
nvme connect -t tcp -a 10.0.2.2 -s OTHER -n NQN --hostnqn nqn.2014-08.org.nvmexpress:uuid:$ID --hostid $ID
for try in $(seq 100); do [ -b $N ] && [ $(nvme list-subsys | count live) = 2 ] && break; sleep 0.1; done
[ "$(cat /sys/module/nvme_core/parameters/multipath)" = Y ] || fail "no multipath"
[ $(ls /dev/nvme*n1 | wc -l) = 1 ] || fail "two disks for one drive: $(ls /dev/nvme*)"
[ "$(states)" = "optimized optimized" ] || fail "$(states)"
nvme ana-log /dev/nvme0 | grep -qi "ANA Change state\|state *: *optimized\|ngrps\|ngrps *: *1" || fail "$(nvme ana-log /dev/nvme0)"
# Load that goes on behind this script, and is looked at by the next ones.
fio --name=v --filename=$N --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=8 --size=24m \
  --time_based --runtime=14 --verify=crc32c --verify_backlog=256 >/tmp/fio 2>&1 &
echo $! >/tmp/pid
"#;

/// The state of port 2 has changed.
const CHANGED: &str = r#"
for try in $(seq 50); do [ "$(states)" = "optimized STATE" ] && break; sleep 0.1; done
[ "$(states)" = "optimized STATE" ] || fail "$(states); $(dmesg | tail -n 5)"
kill -0 $(cat /tmp/pid) || fail "$(cat /tmp/fio)"
"#;

const LOST: &str = r#"
# Now a path that is gone under load.
nvme disconnect -d $(controller_at PORT)
sleep 1
kill -0 $(cat /tmp/pid) || fail "$(cat /tmp/fio)"
while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.3; done
grep -q "err= 0" /tmp/fio || fail "$(cat /tmp/fio)"
dmesg | grep -i "I/O error\|Buffer I/O" && fail "an error has come through"
nvme disconnect-all
"#;

const NAMESPACES: &str = r#"
nvme_tcp connect -n NQN
for try in $(seq 100); do [ -b $N ] && break; sleep 0.1; done
nvme list-ctrl /dev/nvme0 | grep -q "0x" || fail "$(nvme list-ctrl /dev/nvme0)"
nvme delete-ns /dev/nvme0 -n 1
for try in $(seq 50); do [ -e $N ] || break; sleep 0.1; done
[ ! -e $N ] || fail "the disk of a namespace that is gone"
nvme create-ns /dev/nvme0 --nsze=65536 --ncap=65536 --flbas=0 --nmic=1
nvme attach-ns /dev/nvme0 -n 1 -c $(cat /sys/class/nvme/nvme0/cntlid)
for try in $(seq 50); do [ "$(ls /dev/nvme0n* 2>/dev/null)" ] && break; sleep 0.1; done
disk=$(ls /dev/nvme0n*)
[ "$(cat /sys/block/${disk##*/}/size)" = 65536 ] || fail "$(cat /sys/block/${disk##*/}/size)"
dd if=/dev/urandom of=$disk bs=64k count=4 conv=fsync 2>/dev/null
dmesg | grep -i "rescanning namespaces" || fail "$(dmesg | tail)"
nvme disconnect-all
"#;

/// Two paths to one drive: Linux's multipath, also with namespaces that are created and deleted.
pub fn play_paths(kernel: &str) {
    let ready = RefCell::new(None);
    let mut guest = Guest::boot(kernel, 2, |own| {
        let server = Server::start_remote(own, &[("drive", "")], 2, &["--control", "--manage"]);
        ready.replace(Some(server.ready()[0].clone()));
        Drives::Remote(server)
    });
    let ready = ready.take().unwrap();
    let port = |at: usize| ready["ports"][at]["port"].as_u64().unwrap().to_string();
    let nqn = ready["subsystem_nqn"].as_str().unwrap();
    let filled = |text: &str| text.replace("PORT", &port(0)).replace("OTHER", &port(1)).replace("NQN", nqn);
    let functions = r#"
N=/dev/nvme0n1
# controller_at PORT; state_at PORT; states: of both ports
controller_at() { for c in /sys/class/nvme/nvme*; do grep -q "trsvcid=$1" $c/address && echo ${c##*/}; done; }
state_at() { cat /sys/class/nvme/$(controller_at $1)/nvme*c*n1/ana_state; }
states() { echo $(state_at PORT) $(state_at OTHER); }
"#;
    guest.prelude = filled(&format!("{PRELUDE}{functions}"));
    guest.run("two paths to one disk, under load", 60, &filled(PATHS));
    for state in ["inaccessible", "non-optimized", "change", "optimized"] {
        let Drives::Remote(server) = &mut guest.drives else { unreachable!() };
        server.tell(&format!("ana drive 2 {state}\n"));
        guest.run(&format!("a path becomes {state}"), 30, &CHANGED.replace("STATE", state));
    }
    guest.run("a path is lost under load", 60, &filled(LOST));
    guest.run("namespaces come and go", 60, &filled(NAMESPACES));
    let Drives::Remote(mut server) = guest.power_off() else { unreachable!() };
    server.end();
}

/// All steps, with this kernel.
pub fn play(kernel: &str) {
    let ready = RefCell::new(Vec::new());
    let mut guest = Guest::boot(kernel, 2, |own| {
        let hidden = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";
        let server = Server::start_remote(own, &[("one", ""), ("two", "")], 2, &["--host", hidden]);
        ready.replace(server.ready().to_vec());
        Drives::Remote(server)
    });
    let ready = ready.take();
    let port = ready[0]["port"].as_u64().unwrap().to_string();
    let nqns = [0, 1].map(|drive| ready[drive]["subsystem_nqn"].as_str().unwrap().to_string());
    let filled = |text: &str| text.replace("PORT", &port).replace("NQN0", &nqns[0]).replace("NQN1", &nqns[1]);
    guest.prelude = filled(PRELUDE);
    guest.run("discovered, as text and JSON", 60, &filled(DISCOVER));
    guest.run("all connected, each by two paths", 60, &filled(CONNECT));
    guest.run("a Discovery controller that stays", 60, PERSISTENT);
    // A host that is not listed sees only the Discovery Service itself.
    let other = r#"nvme discover -t tcp -a 10.0.2.2 -s PORT --hostnqn nqn.2026-11.org.byteway:guest >/tmp/text
grep -q "Number of Records 1," /tmp/text || fail "$(cat /tmp/text)""#;
    guest.run("another host sees no drive", 30, &filled(other));
    let Drives::Remote(mut server) = guest.power_off() else { unreachable!() };
    server.end();
}
