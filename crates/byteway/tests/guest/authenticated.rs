//! A drive over NVMe/TCP with authentication: Linux's DH-HMAC-CHAP and nvme-cli's secrets with `byteway serve --secrets`.

use crate::guest::{Drives, Guest};
use crate::remote::AFTER_LOAD;
use crate::server::Server;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Secrets of the host and of the controller, and one of neither.
const HOST_SECRET: &str = "DHHC-1:00:kB5HZf02d83q8TfG7qIsXq/AOmoa2TpvbckY1N4T0OzkawRL:";
const CONTROLLER_SECRET: &str = "DHHC-1:03:dzQSBllT/Tkvweui5X8a2obJvM2E4Fy5BfFEdyWZyq7jLUS/:";
const OTHER_SECRET: &str = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";
const HOST: &str = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-4333-8444-555555555555";
/// A listed host without a secret.
const UNPROVED: &str = "nqn.2026-11.org.byteway:unproved";

/// Precedes each script: `connect [OPTION...]`, `refused [OPTION...]`, `disconnect`, and `$N`, the drive when it is connected.
const PRELUDE: &str = r#"
set -eu
fail() { echo "$*"; exit 1; }
N=/dev/nvme0n1
ID=11111111-2222-4333-8444-555555555555
HOST=nqn.2014-08.org.nvmexpress:uuid:$ID
nvme_connect() { nvme connect -t tcp -a 10.0.2.2 -s PORT -n NQN --hostnqn $HOST --hostid $ID "$@"; }
connect() {
  nvme_connect "$@" >/dev/null
  for try in $(seq 300); do [ -b $N ] && return; sleep 0.1; done
  fail "no $N: $(dmesg | tail -n 5)"
}
refused() {
  nvme_connect "$@" >/tmp/refused 2>&1 && fail "connected with: $*"
  [ -z "$(ls /sys/class/nvme)" ] || fail "there is a controller with: $*"
}
disconnect() { nvme disconnect -n NQN | grep -q "disconnected 1 controller" || fail "not disconnected"; }
# verify OPTION...
verify() { fio --name=v --filename=$N --direct=1 --ioengine=libaio --verify=crc32c --do_verify=1 --rw=randwrite --group_reporting "$@"; }
live() { [ "$(cat /sys/class/nvme/nvme0/state)" = live ] || fail "$(dmesg | tail -n 5)"; }
modprobe nvme_tcp
"#;

const RIGHT: &str = r#"
connect --dhchap-secret SECRET --dhchap-ctrl-secret CONTROLLER -i 2
[ "$(cat /sys/class/nvme/nvme0/dhchap_secret)" = SECRET ] || fail "$(cat /sys/class/nvme/nvme0/dhchap_secret)"
live
verify --bsrange=4k-64k --iodepth=16 --size=8m
dmesg | grep -q "qid 0: controller authenticated" || fail "$(dmesg | grep qid)"
disconnect
connect --dhchap-secret SECRET
verify --bs=16k --iodepth=8 --size=2m
disconnect
"#;

const WRONG: &str = r#"
refused --dhchap-secret OTHER
refused --dhchap-secret OTHER --dhchap-ctrl-secret CONTROLLER
refused --dhchap-secret SECRET --dhchap-ctrl-secret OTHER
refused
# A secret that is another name's.
HOST=nqn.2026-11.org.byteway:stranger
refused --dhchap-secret SECRET
# Who is listed without a secret has nothing to prove.
HOST=UNPROVED
connect
verify --bs=16k --iodepth=8 --size=1m
disconnect
"#;

/// Under load: the controller is reset, and the host authenticates again on all its queues.
const UNDER_LOAD: &str = r#"
dmesg -c >/dev/null
connect --dhchap-secret SECRET --dhchap-ctrl-secret CONTROLLER -i 2
verify --bs=4k --iodepth=8 --size=16m --time_based --runtime=8 --verify_backlog=256 >/tmp/fio 2>&1 & running=$!
sleep 1
nvme reset /dev/nvme0
sleep 1
live
echo SECRET >/sys/class/nvme/nvme0/dhchap_secret
sleep 2
dmesg | grep -q "re-authenticating controller" || fail "$(dmesg | tail)"
dmesg | grep -i "failed to\|I/O error\|timeout" && fail "an error has come through"
live
wait $running
grep -q "err= 0" /tmp/fio || fail "$(cat /tmp/fio)"
"#;

/// The host authenticates again after its secret was changed: it loses its controller, and gets none.
const LOST: &str = r#"
live
echo OTHER >/sys/class/nvme/nvme0/dhchap_secret
for try in $(seq 100); do [ "$(cat /sys/class/nvme/nvme0/state 2>/dev/null)" = live ] || break; sleep 0.1; done
[ "$(cat /sys/class/nvme/nvme0/state 2>/dev/null)" = live ] && fail "it has kept its controller: $(dmesg | tail)"
nvme disconnect -n NQN >/dev/null
"#;

const LOAD: &str = r#"
connect --dhchap-secret SECRET --dhchap-ctrl-secret CONTROLLER
fio --name=v --filename=$N --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=16 --size=16m --time_based --runtime=6 \
  --verify=crc32c --verify_backlog=256 >/tmp/fio 2>&1 &
echo $! >/tmp/pid
sleep 2
"#;

/// An emulated processor computes longer than Linux's default keep-alive timeout, the limit for authentication.
const ONCE: &str = r#"
connect --dhchap-secret SECRET --dhchap-ctrl-secret CONTROLLER -i 1 --keep-alive-tmo=60
dmesg | grep "qid 0: authenticated with hash" | tail -n 1 | grep -q "hash hmac(HASH) dhgroup GROUP" || fail "$(dmesg | grep qid)"
verify --bs=16k --iodepth=8 --size=1m
disconnect
"#;

/// A kernel without authentication.
const UNABLE: &str = r#"
refused
grep -qi "not support\|authentication\|Protocol" /tmp/refused || dmesg | grep -qi "authentication" || fail "$(cat /tmp/refused; dmesg | tail -n 5)"
HOST=UNPROVED
connect
verify --bs=16k --iodepth=8 --size=1m
disconnect
"#;

/// The target's file of secrets, with these lines before the host.
fn secrets(folder: &Path, lines: &str, host: &str, controller: &str) -> PathBuf {
    let path = folder.join("secrets.toml");
    let text = format!(
        "{lines}\n[[host]]\nnqn = \"{HOST}\"\nsecret = \"{host}\"\ncontroller_secret = \"{controller}\"\n"
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A server at this port with these secrets.
fn serve(folder: &Path, port: u16, lines: &str, host: &str, controller: &str) -> Server {
    let secrets = secrets(folder, lines, host, controller);
    let arguments = ["--secrets", secrets.to_str().unwrap(), "--host", UNPROVED];
    Server::start_tcp_with(folder, port, &folder.join("data"), &arguments)
}

struct Story {
    guest: Guest,
    folder: tempfile::TempDir,
    port: u16,
    nqn: String,
}

impl Story {
    fn begin(kernel: &str) -> Story {
        let folder = tempfile::tempdir().unwrap();
        let guest = Guest::boot(kernel, 2, |_| {
            Drives::Remote(serve(folder.path(), 0, "", HOST_SECRET, CONTROLLER_SECRET))
        });
        let Drives::Remote(server) = &guest.drives else { unreachable!() };
        let ready = server.ready()[0].clone();
        let port = ready["port"].as_u64().unwrap() as u16;
        let nqn = ready["subsystem_nqn"].as_str().unwrap().to_owned();
        assert_eq!(
            (ready["any_host"].as_bool(), ready["authenticated_hosts"].as_u64()),
            (Some(false), Some(1))
        );
        let mut story = Story { guest, folder, port, nqn };
        story.guest.prelude = story.filled(PRELUDE, HOST_SECRET, CONTROLLER_SECRET);
        story
    }

    fn filled(&self, text: &str, host: &str, controller: &str) -> String {
        text.replace("PORT", &self.port.to_string())
            .replace("NQN", &self.nqn)
            .replace("UNPROVED", UNPROVED)
            .replace("CONTROLLER", controller)
            .replace("OTHER", OTHER_SECRET)
            .replace("SECRET", host)
    }

    fn run(&mut self, what: &str, seconds: u64, script: &str) -> String {
        let script = self.filled(script, HOST_SECRET, CONTROLLER_SECRET);
        self.guest.run(what, seconds, &script)
    }

    fn server(&mut self) -> &mut Server {
        let Drives::Remote(server) = &mut self.guest.drives else { unreachable!() };
        server
    }

    /// Replaces the running server by another one.
    fn serve_again(&mut self, lines: &str, host: &str, controller: &str) {
        self.server().end();
        let server = serve(self.folder.path(), self.port, lines, host, controller);
        self.guest.drives = Drives::Remote(server);
    }

    fn end(self) {
        let Drives::Remote(mut server) = self.guest.power_off() else { unreachable!() };
        server.end();
    }
}

/// All steps, with a kernel that supports authentication.
pub fn play(kernel: &str) {
    let mut story = Story::begin(kernel);
    story.run("authenticated, one way and both ways", 60, RIGHT);
    story.run("other secrets, and none", 60, WRONG);
    let said = story.server().said();
    assert!(said.contains("it has not authenticated: authentication failed (01h)"), "{said}");
    for secret in [HOST_SECRET, CONTROLLER_SECRET, OTHER_SECRET] {
        assert!(!said.contains(&secret[12..30]), "{said}");
    }
    story.run("a reset and a further authentication under load", 60, UNDER_LOAD);
    story.run("a further authentication that fails", 60, LOST);
    story.run("load on a server", 60, LOAD);
    story.serve_again("", HOST_SECRET, CONTROLLER_SECRET);
    story.run("that has ended meanwhile, and is back", 60, AFTER_LOAD);
    story.end();
}

/// Every hash, every group and every transformation of a secret, as nvme-cli generates them.
pub fn play_algorithms(kernel: &str) {
    let mut story = Story::begin(kernel);
    // A freshly booted guest has no random bytes for a moment.
    let generate = |hash: u32, nqn: &str| {
        let bytes = 16 + 16 * hash.max(1);
        format!("head -c 1 /dev/random >/dev/null; nvme gen-dhchap-key -m {hash} -l {bytes} -n {nqn}")
    };
    for (round, (hash, group)) in [
        ("sha256", "null"),
        ("sha384", "ffdhe2048"),
        ("sha512", "ffdhe3072"),
        ("sha256", "ffdhe4096"),
        ("sha384", "ffdhe6144"),
        ("sha512", "ffdhe8192"),
    ]
    .into_iter()
    .enumerate()
    {
        let transformation = round as u32 % 4;
        let nqn = story.nqn.clone();
        let host = story.guest.run("a secret of the host", 20, &generate(transformation, HOST));
        let controller =
            story.guest.run("a secret of the controller", 20, &generate(3 - transformation, &nqn));
        let (host, controller) = (host.trim(), controller.trim());
        assert!(host.starts_with(&format!("DHHC-1:0{transformation}:")), "{host}");
        let lines = format!("hashes = [\"{}\"]\ngroups = [\"{group}\"]", hash.replace("sha", "sha-"));
        story.serve_again(&lines, host, controller);
        let script = ONCE.replace("HASH", hash).replace("GROUP", group);
        let script = story.filled(&script, host, controller);
        story.guest.run(&format!("{hash} and {group}"), 60, &script);
    }
    story.end();
}

/// A kernel without support for authentication.
pub fn play_unable(kernel: &str) {
    let mut story = Story::begin(kernel);
    story.run("a kernel that cannot authenticate", 60, UNABLE);
    story.end();
}
