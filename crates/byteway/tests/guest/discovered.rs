//! Drives that a guest finds by itself: `nvme discover`, `connect-all` and `list-subsys` against a server of several drives.

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

/// The whole story, with this kernel.
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
    // A host that is not listed is told of nothing but whom it asks.
    let other = r#"nvme discover -t tcp -a 10.0.2.2 -s PORT --hostnqn nqn.2026-11.org.byteway:guest >/tmp/text
grep -q "Number of Records 1," /tmp/text || fail "$(cat /tmp/text)""#;
    guest.run("another host sees no drive", 30, &filled(other));
    let Drives::Remote(mut server) = guest.power_off() else { unreachable!() };
    server.end();
}
