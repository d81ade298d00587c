//! A KV namespace next to a block namespace in a guest: Linux creates a generic character device for it, through which nvme-cli sends the
//! commands of the Key Value command set.
//!
//! Two boots with one data directory: in between, the server is killed. Flushed data must survive.

use crate::guest::{Drives, Guest};
use crate::server::Server;
use std::cell::RefCell;
use std::path::Path;

/// Capacity of the KV namespace.
const KV_CAPACITY: &str = "--set=drive.kv_capacity=\"512 MiB\"";

/// For drives on PCI Express: `$K` is the generic device of the KV namespace, `$B` the block device next to it, both of the first drive.
/// Linux probes drives and namespaces in parallel and numbers devices as it finds them, so addresses and identifiers are looked up.
const FIND_LOCAL: &str = r#"
set -eu
fail() { echo "$*"; exit 1; }
K= B=
for try in $(seq 100); do
  [ $(ls /sys/class/nvme | wc -l) = 2 ] || { sleep 0.1; continue; }
  first=$(cat /sys/class/nvme/*/address | sort | head -n 1)
  for device in /sys/class/nvme-generic/ng*n* /sys/block/nvme*n*; do
    [ "$(cat $device/device/address 2>&1)" = "$first" ] || continue
    name=/dev/${device##*/}
    [ ! -b $name ] || B=$name
    case "$(nvme get-ns-id $name 2>&1)" in *:2) K=$name ;; esac
  done
  [ -n "$K" ] && [ -n "$B" ] && break
  sleep 0.1
done
[ -n "$K" ] && [ -n "$B" ] || fail "$(ls -l /sys/class/nvme* /sys/block)"
"#;

/// For a drive over NVMe/TCP.
const FIND_REMOTE: &str = r#"
set -eu
fail() { echo "$*"; exit 1; }
K= B=
for name in /dev/ng0n*; do [ ! -c $name ] || case "$(nvme get-ns-id $name 2>&1)" in *:2) K=$name ;; esac; done
for name in /dev/nvme0n*; do [ ! -b $name ] || B=$name; done
"#;

/// Precedes each script, after one of these: key-value commands.
const COMMANDS: &str = r#"
# kv OPCODE KEY OPTION...: a command about a key of up to 16 characters
kv() {
  opcode=$1 key=$2
  shift 2
  set -- $(printf '%s' "$key" | dd bs=16 conv=sync 2>/dev/null | od -A n -t u4) "$@"
  words="--cdw2=$1 --cdw3=$2 --cdw14=$3 --cdw15=$4"
  shift 4
  nvme io-passthru $K --opcode=$opcode --namespace-id=2 $words --cdw11=${#key} "$@"
}
# store KEY FILE, retrieve KEY BYTES, list KEY BYTES (raw bytes), exist KEY, remove KEY, flush
store() { kv 0x01 "$1" --cdw10=$(wc -c <$2) --data-len=$(wc -c <$2) --input-file=$2 --write --latency; }
retrieve() { kv 0x02 "$1" --cdw10=$2 --data-len=$2 --read --raw-binary; }
list() { kv 0x06 "$1" --cdw10=$2 --data-len=$2 --read --raw-binary; }
exist() { kv 0x14 "$1"; }
remove() { kv 0x10 "$1"; }
flush() { nvme io-passthru $K --opcode=0 --namespace-id=2; }
# fails STATUS COMMAND...: that it is refused with that status code
fails() {
  status=$1
  shift
  if "$@" >/tmp/said 2>&1; then fail "not refused: $*"; fi
  grep -qi "$status" /tmp/said || fail "$*: $(cat /tmp/said)"
}
"#;

/// All steps, with this kernel.
pub fn play(kernel: &str) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut guest = boot(kernel, &data);
    guest.run(
        "the KV namespace is a generic device, and not a block device",
        30,
        r#"
        [ -c $K ] || fail "$(ls /dev/ng* /dev/nvme*)"
        for block in /sys/block/${B##*/}/device/nvme*n*; do
          # Linux knows a disk of pairs, and hides it.
          name=/dev/${block##*/}
          [ $name = $B ] || [ ! -e $name ] || fail "a block device for the KV namespace: $name next to $B"
        done
        nvme id-ns $B -n 1 >/dev/null
        "#,
    );
    guest.run(
        "Store, Retrieve, Exist, Delete",
        60,
        r#"
        printf 'a value' >/tmp/value
        dd if=/dev/urandom of=/tmp/long bs=1000 count=100 2>/dev/null
        : >/tmp/nothing
        store short /tmp/value
        store a-key-16-bytes-l /tmp/long
        store empty /tmp/nothing
        exist short && exist a-key-16-bytes-l && exist empty
        retrieve a-key-16-bytes-l 100000 | cmp - /tmp/long
        retrieve short 7 | cmp - /tmp/value
        # Into a larger buffer: the value's length is the command's result.
        kv 0x02 short --cdw10=4096 --data-len=4096 --read 2>&1 | tee /tmp/said
        grep -qi 'result: *\(0x\)\?0*7$' /tmp/said
        # Next to it, blocks.
        dd if=/tmp/long of=$B bs=1000 count=100 conv=fsync 2>/dev/null
        dd if=$B bs=1000 count=100 2>/dev/null | cmp - /tmp/long
        printf 'another' >/tmp/other
        store short /tmp/other
        retrieve short 7 | cmp - /tmp/other
        remove short
        "#,
    );
    guest.run(
        "statuses",
        60,
        r#"
        # Key Does Not Exist, Invalid Key Size, Invalid Value Size, Key Exists: in the generic command status.
        fails 87 retrieve short 7
        fails 87 exist short
        fails 87 remove short
        fails 86 nvme io-passthru $K --opcode=0x14 --namespace-id=2 --cdw11=0
        fails 86 nvme io-passthru $K --opcode=0x14 --namespace-id=2 --cdw11=17
        fails 85 kv 0x01 large --cdw10=16777217 --data-len=4096 --input-file=/tmp/long --write
        # An option stands above the key's length.
        must_not_exist() {
          nvme io-passthru $K --opcode=1 --namespace-id=2 --cdw2=$1 --cdw11=$((4 + 2 * 256)) --cdw10=7 \
            --data-len=7 --input-file=/tmp/value --write 2>&1
        }
        must_not_exist 12345
        fails 89 must_not_exist 12345
        "#,
    );
    let output = guest.run(
        "200 pairs, listed in order",
        150,
        r#"
        for i in $(seq 1000 1199); do
            printf "value of $i" >/tmp/value
            store key-$i /tmp/value 2>&1 | grep latency >>/tmp/latency
        done
        list key- 8192 >/tmp/list
        # The number of keys, then each with its length: the first is 8 bytes long.
        [ $(od -A n -t u4 -N 4 /tmp/list) = 200 ] || fail "$(od -A d -c /tmp/list | head)"
        tr -c 'a-z0-9-' '\n' </tmp/list | grep '^key-' >/tmp/keys
        seq 1000 1199 | sed 's,^,key-,' | cmp - /tmp/keys
        list key-1190 8192 | od -A n -t u4 -N 4 | grep -q '^ *10$'
        for i in $(seq 1000 10 1199); do remove key-$i >/dev/null; done
        flush
        [ $(list key- 8192 | od -A n -t u4 -N 4) = 180 ]
        awk '{ for (i = 1; i < NF; i++) if ($(i + 1) == "us") { n++; sum += $i } } END { print "Store:", n, "of", sum / n, "us" }' \
            /tmp/latency
        for i in $(seq 20); do
            kv 0x02 key-1001 --cdw10=13 --data-len=13 --read --latency 2>&1 | grep latency
        done
        "#,
    );
    println!("{output}");
    let Drives::Served(server) = &mut guest.drives else { unreachable!("they are served") };
    server.kill();
    drop(guest);

    let mut guest = boot(kernel, &data);
    guest.run(
        "pairs are there after a kill",
        60,
        r#"
        list key- 8192 | tr -c 'a-z0-9-' '\n' | grep '^key-' >/tmp/keys
        seq 1000 1199 | sed 's,^,key-,' | grep -v '0$' | cmp - /tmp/keys
        [ "$(retrieve key-1041 13 2>/dev/null)" = "value of 1041" ]
        fails 87 retrieve key-1040 13
        dd if=$B bs=1000 count=100 2>/dev/null | wc -c | grep -q 100000
        "#,
    );
    guest.power_off();
}

/// The same commands over a network: keys are in the capsule's command, values in the capsule, after R2Ts and in C2HData.
pub fn play_remote(kernel: &str) {
    let ready = RefCell::new(None);
    let mut guest = Guest::boot(kernel, 2, |own| {
        let server = Server::start_remote(own, &[("pairs", "kv_capacity = \"512 MiB\"")], 1, &[]);
        ready.replace(Some(server.ready()[0].clone()));
        Drives::Remote(server)
    });
    let ready = ready.take().unwrap();
    let (port, nqn) = (ready["port"].as_u64().unwrap(), ready["subsystem_nqn"].as_str().unwrap());
    guest.prelude = format!("{FIND_REMOTE}{COMMANDS}");
    guest.run(
        "connected, with a generic device of the pairs",
        60,
        &format!(
            r#"
            modprobe nvme_tcp
            nvme connect -t tcp -a 10.0.2.2 -s {port} -n {nqn}
            for try in $(seq 100); do [ $(ls /dev/ng0n* | wc -l) = 2 ] && ls /dev/nvme0n? && break; sleep 0.1; done
            sleep 0.5
            "#
        ),
    );
    guest.run(
        "Store, Retrieve, Exist, Delete, List",
        60,
        r#"
        printf 'a value' >/tmp/value
        dd if=/dev/urandom of=/tmp/long bs=1000 count=100 2>/dev/null
        : >/tmp/nothing
        store short /tmp/value
        store a-key-16-bytes-l /tmp/long
        store empty /tmp/nothing
        exist short && exist a-key-16-bytes-l && exist empty
        retrieve a-key-16-bytes-l 100000 | cmp - /tmp/long
        retrieve short 7 | cmp - /tmp/value
        kv 0x02 short --cdw10=4096 --data-len=4096 --read 2>&1 | tee /tmp/said
        grep -qi 'result: *\(0x\)\?0*7$' /tmp/said
        dd if=/tmp/long of=$B bs=1000 count=100 conv=fsync 2>/dev/null
        dd if=$B bs=1000 count=100 2>/dev/null | cmp - /tmp/long
        [ $(list a 8192 | od -A n -t u4 -N 4) = 3 ]
        remove short
        fails 87 retrieve short 7
        fails 87 exist short
        fails 86 nvme io-passthru $K --opcode=0x14 --namespace-id=2 --cdw11=17
        fails 85 kv 0x01 large --cdw10=16777217 --data-len=4096 --input-file=/tmp/long --write
        for i in $(seq 1000 1049); do printf "value of $i" >/tmp/value; store key-$i /tmp/value >/dev/null; done
        list key- 8192 | tr -c 'a-z0-9-' '\n' | grep '^key-' >/tmp/keys
        seq 1000 1049 | sed 's,^,key-,' | cmp - /tmp/keys
        [ "$(retrieve key-1041 13 2>/dev/null)" = "value of 1041" ]
        flush
        "#,
    );
    let Drives::Remote(mut server) = guest.power_off() else { unreachable!() };
    server.end();
}

/// A guest whose drives keep their data in `data`.
fn boot(kernel: &str, data: &Path) -> Guest {
    let mut guest = Guest::boot(kernel, 2, |folder| {
        Drives::Served(Server::start_with(folder, ["mapped", "trapped"], Some(data), &[KV_CAPACITY]))
    });
    guest.prelude = format!("{FIND_LOCAL}{COMMANDS}");
    guest
}
