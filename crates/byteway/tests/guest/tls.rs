//! A drive behind TLS: Linux's NVMe/TCP initiator with the kernel's TLS, tlshd's handshakes and nvme-cli's keys.

use crate::guest::{Drives, Guest};
use crate::remote::AFTER_LOAD;
use crate::server::Server;
use std::cell::RefCell;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";
const KEY: &str = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

/// Precedes each script: `insert SUBSYSTEM VERSION KEY` adds a key to the kernel's keyring, with an identity of that version, and prints
/// its number; `connect [OPTION...]`, `refused [OPTION...]`, `disconnect`; and `$N`, the drive when it is connected.
const PRELUDE: &str = r#"
set -eu
fail() { echo "$*"; exit 1; }
N=/dev/nvme0n1
KEY=TLSKEY
OTHER=NVMeTLSkey-1:01:M+eYfzsLyZdqO/JMLgbMs1ouSQ2cSc9szYUxjgEGwDwL2caL:
ID=11111111-2222-4333-8444-555555555555
WHERE="-t tcp -a 10.0.2.2 -s PORT --hostnqn HOSTNQN --hostid $ID"
insert() {
  nvme check-tls-key -n HOSTNQN -c $1 -I $2 -d $3 --insert >/tmp/inserted
  sed -n 's/^Inserted TLS key /0x/p' /tmp/inserted
}
connect() {
  nvme connect $WHERE -n NQN "$@" >/tmp/connect 2>&1 || fail "$(cat /tmp/connect /tmp/tlshd; dmesg | tail -n 5)"
  for try in $(seq 100); do [ -b $N ] && return; sleep 0.1; done
  fail "no $N: $(dmesg | tail -n 5)"
}
refused() {
  nvme connect $WHERE -n NQN "$@" >/tmp/connect 2>&1 && fail "connected: $*"
  [ ! -b $N ] || fail "there is $N"
}
disconnect() { nvme disconnect -n NQN | grep -q "disconnected 1 controller" || fail "not disconnected"; }
# verify FILE OPTION...
verify() { file=$1; shift; fio --name=v --filename=$file --direct=1 --ioengine=libaio --verify=crc32c --do_verify=1 --group_reporting "$@"; }
"#;

/// The kernel delegates its handshakes to a daemon, which uses the keys added by nvme-cli.
const FIRST: &str = r#"
modprobe nvme_tcp
mkdir -p /etc/tlshd/tags.d
printf '[debug]\nloglevel=1\n[authenticate]\nkeyrings=.nvme\n[authenticate.client]\n[authenticate.server]\n' >/tmp/tlshd.conf
setsid tlshd -s -c /tmp/tlshd.conf </dev/null >/tmp/tlshd 2>&1 3>&- &
sleep 1
refused
refused --tls
insert NQN 1 $KEY
connect --tls
[ -s /sys/class/nvme/nvme0/tls_key ] || fail "no TLS"
nvme id-ctrl /dev/nvme0 -o json | grep -q '"cntrltype" *: *1' || fail "$(nvme id-ctrl /dev/nvme0)"
# In the capsule and asked for, of several sizes, at some depth.
verify $N --rw=randwrite --bsrange=4k-64k --iodepth=16 --size=8m
nvme reset /dev/nvme0
verify $N --rw=randwrite --bs=4k --iodepth=4 --size=1m
disconnect
refused --tls --tls_key=$(insert NQN 1 $OTHER)
refused --tls --tls_key=$(insert NQN 0 $OTHER)
"#;

/// The other version of identities, without the hash of the key derivation.
const VERSION_0: &str = r#"
key=$(insert NQN 0 $KEY)
for options in "-g -G -i 1" "-i 2 -Q 16"; do
  connect --tls --tls_key=$key $options
  verify $N --rw=randwrite --bs=16k --iodepth=8 --size=2m
  disconnect
done
"#;

const DISCOVER: &str = r#"
key=$(insert nqn.2014-08.org.nvmexpress.discovery 1 $KEY)
nvme discover $WHERE --tls --tls_key=$key >/tmp/discovered 2>&1 || fail "$(cat /tmp/discovered /tmp/tlshd)"
grep -q "subnqn: *NQN" /tmp/discovered || fail "$(cat /tmp/discovered)"
grep -q "sectype: *tls13" /tmp/discovered || fail "$(cat /tmp/discovered)"
grep -q "treq: *required" /tmp/discovered || fail "$(cat /tmp/discovered)"
"#;

const LOAD: &str = r#"
connect --tls --tls_key=$(insert NQN 1 $KEY) --reconnect-delay=1
fio --name=v --filename=$N --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=16 --size=8m --time_based --runtime=12 \
  --verify=crc32c --verify_backlog=256 >/tmp/fio 2>&1 &
echo $! >/tmp/pid
sleep 2
nvme reset /dev/nvme0
sleep 2
"#;

/// All steps, with this kernel.
pub fn play(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (data, keys) = (folder.path().join("data"), folder.path().join("keys"));
    std::fs::write(&keys, format!("{HOST} {KEY}\n")).unwrap();
    std::fs::set_permissions(&keys, Permissions::from_mode(0o600)).unwrap();
    let serve = |own: &Path, port: u16| {
        let more = ["--tls-keys", keys.to_str().unwrap(), "--advertise", "10.0.2.2"];
        Server::start_tcp_with(own, port, &data, &more)
    };
    let ready = RefCell::new(None);
    let mut guest = Guest::boot(kernel, 2, |own| {
        let server = serve(own, 0);
        ready.replace(Some(server.ready()[0].clone()));
        Drives::Remote(server)
    });
    let ready = ready.take().unwrap();
    assert_eq!(ready["tls"], true);
    let (port, nqn) = (ready["port"].as_u64().unwrap() as u16, ready["subsystem_nqn"].as_str().unwrap());
    // The host's name must be replaced first, because it ends like the drive's.
    let filled = |text: &str| {
        let text = text.replace("HOSTNQN", HOST).replace("TLSKEY", KEY);
        text.replace("PORT", &port.to_string()).replace("NQN", nqn)
    };
    guest.prelude = filled(PRELUDE);
    guest.run("without TLS, without a key, with the right one and wrong ones", 60, &filled(FIRST));
    let Drives::Remote(server) = &guest.drives else { unreachable!() };
    let said = server.said();
    assert!(said.contains("does not speak TLS") && said.contains("there is no key for `NVMe1R01"), "{said}");
    assert!(said.contains("its key for `NVMe0R01"), "{said}");
    guest.run("with the other identity, digests and several queues", 60, &filled(VERSION_0));
    guest.run("discovered", 30, &filled(DISCOVER));
    guest.run("load on a server, and a reset", 60, &filled(LOAD));
    let Drives::Remote(server) = &mut guest.drives else { unreachable!() };
    server.end();
    guest.drives = Drives::Remote(serve(folder.path(), port));
    guest.run("that has ended meanwhile, and is back", 90, &filled(AFTER_LOAD));
    let Drives::Remote(mut server) = guest.power_off() else { unreachable!() };
    server.end();
}
