#!/usr/bin/env python3
"""Runs `sluice lab` as its users do: starts hosts, talks between them, breaks cables.

Each test prints one line; the last line is `N passed, N failed, N skipped`. Where the
kernel or the user's rights allow no lab, all tests are skipped, and the lines say why.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from run_mpi import ROOT, Suite, end_session, need
from verdicts import Failed, Skipped, Verdicts, check, leave, methods

LIMIT_SECONDS = 60
NOT_STARTED = 125
# Where the lab is that `sluice perf` makes for itself.
PERF_FOLDER = "/run/sluice-lab/perf"
# What TCP's payload has of a rate.
PAYLOAD = 0.956
# What reads make of their rails at least, and how long a rail that fails may keep all from
# coming. A machine with much else to do is far from both.
EFFICIENCY_PCT_MIN = 5
GAP_MS_MAX = 10_000
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable

# What a kernel must have for a lab, tried in namespaces that end with the command.
PROBE = ("ip link add v0 type veth peer name v1 && ip link add v2 type bridge && "
         "ip link set lo up && "
         "tc qdisc add dev v0 root tbf rate 1gbit burst 256kb latency 50ms")

# Takes all bytes of one connection. Says how many they were, and when the last one came.
SINK = """
import socket, sys, time
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
server = socket.create_server((sys.argv[1], 0), family=family)
print(server.getsockname()[1], flush=True)
connection, _ = server.accept()
count, last = 0, None
while data := connection.recv(1 << 16):
    last = time.monotonic()
    count += len(data)
print(count, last)
"""

# Sends them, and says when it began.
SOURCE = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30)
print(time.monotonic())
connection.sendall(bytes(int(sys.argv[3])))
"""

# Prints each datagram's text, until `end`.
EAR = """
import socket, sys
ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ear.setsockopt(socket.SOL_SOCKET, 33, 1 << 22)  # SO_RCVBUFFORCE
ear.bind(('0.0.0.0', 0))
print(ear.getsockname()[1], flush=True)
while (text := ear.recv(100).decode()) != 'end':
    print(text, flush=True)
"""

# Sends words to ADDRESS PORT, each as often as it says: 10:hello
MOUTH = """
import socket, sys
mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port = int(sys.argv[1])
for word in sys.argv[2:]:
    address, count, text = word.split(':')
    for _ in range(int(count)):
        mouth.sendto(text.encode(), (address, port))
"""

# Answers datagrams, and asks for answers: the time of the fastest one.
ECHO = """
import socket
ear = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
ear.bind(('0.0.0.0', 0))
print(ear.getsockname()[1], flush=True)
while True:
    ear.sendto(*ear.recvfrom(100))
"""

CALL = """
import socket, sys, time
mouth = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
mouth.connect((sys.argv[1], int(sys.argv[2])))
mouth.settimeout(30)
def call(number):
    start = time.monotonic()
    mouth.send(b'call')
    mouth.recv(100)
    return time.monotonic() - start
print(min(map(call, range(5))))
"""

# The real one, but it waits before it does anything.
SLOW_TC = """#!/bin/sh
[ "$1" = -V ] && exec {tc} -V
touch {waiting}
while [ ! -e {released} ]; do sleep 0.01; done
exec {tc} "$@"
"""


class Labs:
    """The tests; each method whose name begins with `test_` is one."""

    def __init__(self, build_dir, folder):
        self.tool = os.path.join(build_dir, "sluice")
        self.build_dir = build_dir
        self.folder = folder
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("FI_", "OMPI_", "SLUICE_", "HYDRA_"))}
        self.count = 0

    # What the tests use.

    def call(self, *words, code=0, stdin="", prefix=(), **env):
        """Runs the command; gives what it printed, and what it said of errors."""
        process = subprocess.Popen(
            [*prefix, self.tool, "lab", *words], env=dict(self.env, **env), cwd=self.folder,
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            errors="replace", start_new_session=True)
        try:
            out, errors = process.communicate(stdin, timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"{words} did not end in {LIMIT_SECONDS} s") from None
        finally:
            end_session(process.pid)
        if process.returncode != code:
            raise Failed(f"{words} ended with {process.returncode}, not {code}:\n{out}{errors}")
        return out, errors

    def lab(self, *words):
        """A lab for one test."""
        self.count += 1
        return Lab(self, f"test-{os.getpid()}-{self.count}", words)

    def background(self, name, host, *words):
        return subprocess.Popen(
            [self.tool, "lab", "exec", "--name", name, host, "--", *words], env=self.env,
            cwd=self.folder, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            start_new_session=True)

    # Hosts.

    def test_hosts_are_machines_of_their_own(self):
        with self.lab() as lab:
            open_shm = "echo here > /dev/shm/mine; ls /dev/shm"
            check(lab.sh("h0", open_shm) == "mine", "no /dev/shm")
            check(lab.sh("h1", "ls /dev/shm") == "", "h1 sees h0's /dev/shm")
            check(not os.path.exists("/dev/shm/mine"), "/dev/shm is this machine's")
            for host in ("head", "h0", "h1"):
                check(lab.sh(host, "hostname") == host, "the name is another")
            for kind in ("net", "uts", "ipc", "pid", "mnt"):
                found = [os.readlink(f"/proc/self/ns/{kind}")]
                found += [lab.sh(host, f"readlink /proc/self/ns/{kind}")
                          for host in ("head", "h0", "h1")]
                check(len(set(found)) == 4, f"{kind}: {found}")
            ids = {lab.sh(host, "cat /proc/sys/kernel/random/boot_id") for host in ("h0", "h1")}
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                check(len({file.read().strip(), *ids}) == 3, f"boot identifiers: {ids}")
            check(set(lab.sh("h0", "ls /sys/class/net").split()) >= {"ctl", "lo", "r0"}, "/sys")
            check("10.42.255.2" in lab.sh("h0", "getent hosts h1"), "h1 does not resolve")
            names = lab.sh("h0", "ls /run/sluice-lab")
            check(names == "", f"a host sees labs: {names}")

    def test_every_rail_carries_both_families(self):
        with self.lab("--rails", "2") as lab:
            for rail in (0, 1):
                for address in (f"10.42.{rail}.2", f"fd42:0:0:{rail}::2"):
                    check(lab.transfer(address, 100_000)[0] == 100_000, address)

    def test_more_hosts_are_joined_by_a_switch(self):
        with self.lab("--hosts", "3", "--mtu", "9000", "--rate", "1gbit") as lab:
            for source, target in (("h0", "h2"), ("h2", "h1")):
                address = f"10.42.0.{int(target[1]) + 1}"
                check(lab.transfer(address, 100_000, source, target)[0] == 100_000, address)
            check("mtu 9000" in lab.sh("h2", "ip link show r0"), "the MTU is another")
            lab.link("h0", "r0", "down")
            check(lab.states("r0") == ["down", "up", "up"], lab.states("r0"))
            lab.link("h0", "r0", "up")
            lab.link("h1", "r0", "cut")
            check(lab.states("r0") == ["up", "no carrier", "up"], lab.states("r0"))

    def test_two_labs_do_not_see_each_other(self):
        with self.lab() as one, self.lab("--hosts", "1") as other:
            one.sh("h0", "echo one > /dev/shm/file")
            check(other.sh("h0", "ls /dev/shm") == "", "they share /dev/shm")
            document = json.loads(self.call("status", "--json")[0])
            names = {lab["name"] for lab in document["labs"]}
            check({one.name, other.name} <= names, names)

    # Commands.

    def test_exec_passes_on_what_a_command_has(self):
        with self.lab() as lab:
            out, _ = lab.call("exec", "h1", "cat", stdin="text")
            check(out == "text", out)
            lab.call("exec", "h1", "--", "sh", "-c", "exit 7", code=7)
            line = ("printenv", "FI_SLUICE_DEVICES")
            for given, expected in (({}, "^ctl"), ({"FI_SLUICE_DEVICES": "r1"}, "r1")):
                for host in ("h0", "head"):
                    out, _ = lab.call("exec", host, "--", *line, **given)
                    check(out.strip() == expected, f"{host}: {out}")
            lab.call("exec", "h1", "--", "sh", "-c", "kill -9 $$", code=128 + 9)
            check(lab.sh("h1", "pwd") == self.folder, "the working directory is another")
            out, _ = lab.call("exec", "h1", "printenv", "WORD", "SLUICE_LAB", WORD="x y")
            check(out == f"x y\n{lab.name}\n", out)
            _, errors = lab.call("exec", "h1", "no-such-program", code=NOT_STARTED)
            check("no-such-program did not run on h1" in errors, errors)

    def test_a_signal_reaches_the_command(self):
        with self.lab() as lab:
            script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do read x; done"
            process = subprocess.Popen(
                [self.tool, "lab", "exec", "--name", lab.name, "h0", "--", "sh", "-c", script],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.env,
                start_new_session=True)
            try:
                check(process.stdout.readline() == "ready\n", "it did not start")
                process.send_signal(signal.SIGTERM)
                process.stdin.write("\n")
                process.stdin.flush()
                out, _ = process.communicate(timeout=LIMIT_SECONDS)
            finally:
                end_session(process.pid)
            check(out == "caught\n" and process.returncode == 5, (out, process.returncode))

    def test_agent_runs_what_launchers_say(self):
        with self.lab() as lab:
            out, _ = lab.call("agent", "-x", "h1", "cd /; echo", "$(hostname)", "$PWD")
            check(out == "h1 /\n", out)
            check(lab.sh("head", "ssh h1 'echo $(hostname)'") == "h1", "no ssh in the head")
            lab.call("agent", "-x", code=NOT_STARTED)

    # Cables.

    def test_a_rate_is_kept(self):
        with self.lab("--rails", "2", "--rate", "80mbit,none") as lab:
            # How slow it may be depends on the machine. It is never faster: only the bucket
            # goes at once.
            count, seconds = lab.transfer("10.42.0.2", 8_000_000)
            check(count == 8_000_000, count)
            rate = (count - 262_144) * 8 / seconds
            print(f"     8 MB at 80 Mbit/s: {rate / 1e6:.1f} Mbit/s behind the bucket")
            check(rate <= 80e6 * 1.02, f"{rate / 1e6:.1f} Mbit/s")
            check(lab.rates("r0") == [80_000_000] * 2 and lab.rates("r1") == [None] * 2, "status")
            lab.link("h0", "r0", "rate", "none")
            lab.link("h1", "r1", "rate", "2.5gbit")
            check(lab.rates("r0") == [None] * 2 and lab.rates("r1") == [2_500_000_000] * 2,
                  (lab.rates("r0"), lab.rates("r1")))

    def test_a_cable_goes_down_and_comes_up(self):
        with self.lab("--rails", "2") as lab:
            for change, states in (("down", ["down", "no carrier"]),
                                   ("cut", ["no carrier", "down"])):
                lab.link("h0", "r1", change)
                check(lab.states("r1") == states, lab.states("r1"))
                check(lab.states("r0") == ["up", "up"], "the other rail went too")
                check(lab.transfer("10.42.0.2", 1000)[0] == 1000, "the other rail is silent")
                lab.link("h0", "r1", "up")
                check(lab.states("r1") == ["up", "up"], lab.states("r1"))
                for address in ("10.42.1.2", "fd42:0:0:1::2"):
                    check(lab.transfer(address, 1000)[0] == 1000, f"{address} after {change}")

    def test_a_silent_cable_shows_nothing(self):
        with self.lab("--rails", "2") as lab:
            words = ["10.42.1.2:10:quiet", "10.42.0.2:1:heard", "10.42.0.2:1:end"]
            check(lab.datagrams(*words) == ["quiet"] * 10 + ["heard"], "before")
            lab.link("h1", "r1", "silent")
            check(lab.states("r1") == ["silent", "silent"], lab.states("r1"))
            for host in ("h0", "h1"):
                check("LOWER_UP" in lab.sh(host, "ip link show r1"), "the carrier is lost")
            check(lab.datagrams(*words) == ["heard"], "it is not silent")
            lab.link("h0", "r1", "up")
            check(lab.datagrams(*words) == ["quiet"] * 10 + ["heard"], "after")

    def test_a_delayed_cable_takes_longer(self):
        with self.lab("--switch", "--rails", "2") as lab:
            rounds = lambda: [float(lab.rounds(f"10.42.{rail}.2")) for rail in (0, 1)]
            for delay, expected in (("20ms", 0.04), ("5ms", 0.01)):
                lab.link("h1", "r1", "delay", delay)
                check(lab.rail("h1", "r1")["delay_ns"] == expected * 5e8, lab.rail("h1", "r1"))
                # A packet takes no less; how much more depends on the machine.
                check(rounds()[1] >= expected, f"{rounds()} with {delay}")
            check(lab.transfer("10.42.1.2", 3_000_000)[0] == 3_000_000, "it does not carry TCP")
            lab.link("h1", "r1", "delay", "0")
            check(lab.rail("h1", "r1")["delay_ns"] == 0, "the delay has not ended")
            check("vh1r1" not in lab.sh("head", "ls /sys/class/net"), "devices are left")
            check(lab.transfer("10.42.1.2", 1000)[0] == 1000, "it carries nothing any more")
        with self.lab() as lab:
            _, errors = lab.call("link", "h0", "r0", "delay", "1ms", code=1)
            check("start the lab with --switch" in errors, errors)

    def test_a_cable_loses_a_share(self):
        with self.lab("--rails", "2") as lab:
            words = ["10.42.1.2:500:x", "10.42.0.2:1:end"]
            check(len(lab.datagrams(*words)) == 500, "it loses by itself")
            lab.link("h0", "r1", "loss", "50%")
            check(round(lab.rail("h0", "r1")["loss"], 3) == 50, lab.rail("h0", "r1"))
            # That is seven standard deviations each way.
            count = len(lab.datagrams(*words))
            check(170 <= count <= 330, f"{count} of 500 arrived")
            lab.link("h0", "r1", "loss", "0")
            check(len(lab.datagrams(*words)) == 500, "it still loses")

    # The end, and what goes wrong before it.

    def test_down_leaves_nothing(self):
        mounts, links = lines("/proc/self/mounts"), devices()
        with self.lab("--hosts", "3", "--rails", "2") as lab:
            sleeper = self.background(lab.name, "h0", "sh", "-c", "echo on; exec sleep 1000")
            check(sleeper.stdout.readline() == "on\n", "it did not start")
            networks = {lab.sh(host, "readlink /proc/self/ns/net")
                        for host in ("head", "h0", "h1", "h2")}
            check(len(networks) == 4 and len(users(networks)) >= 5, networks)
            lab.call("down")
            check(sleeper.wait(LIMIT_SECONDS) == 128 + 9, "a command outlived its lab")
            check(not users(networks), f"processes are left: {users(networks)}")
            fresh = [line for line in lines("/proc/self/mounts") - mounts if "sluice" in line]
            check(not fresh, f"mounts are left: {fresh}")
            fresh = {name for name in devices() - links if name.startswith(("ctl", "h0", "r0"))}
            check(not fresh, f"devices are left: {fresh}")
            check(not os.path.exists(lab.folder), "its directory is left")
            _, errors = lab.call("down", code=1)
            check("there is no lab" in errors, errors)

    def test_nothing_is_made_outside(self):
        mounts, links = lines("/proc/self/mounts"), devices()
        with self.lab("--hosts", "3"):
            fresh = [line for line in lines("/proc/self/mounts") - mounts if "sluice" in line]
            check(not fresh, f"mounts: {fresh}")
            fresh = {name for name in devices() - links if name.startswith(("ctl", "h0", "r0"))}
            check(not fresh, f"devices: {fresh}")

    def test_a_lab_that_died_is_recognised(self):
        with self.lab() as lab:
            os.kill(lab.holder("head"), signal.SIGKILL)
            wait_until(lambda: lab.status()["state"] == "stale", "it is not found stale")
            _, errors = lab.call("exec", "h0", "true", code=NOT_STARTED)
            check("is stale" in errors and f"sluice lab down --name {lab.name}" in errors, errors)
            lab.call("up")
            check(lab.status()["state"] == "running", "it did not start anew")
            os.kill(lab.holder("head"), signal.SIGKILL)
            wait_until(lambda: lab.status()["state"] == "stale", "it is not found stale")
            check("had died" in lab.call("down")[0], "it was not said")
            check(not os.path.exists(lab.folder), "its directory is left")

    def test_a_host_that_died_is_named(self):
        with self.lab() as lab:
            os.kill(lab.holder("h1"), signal.SIGKILL)
            wait_until(lambda: not lab.status()["hosts"][1]["alive"], "h1 is not found dead")
            _, errors = lab.call("exec", "h1", "true", code=NOT_STARTED)
            check("the host h1" in errors and "has died" in errors, errors)
            check(lab.sh("h0", "hostname") == "h0", "h0 died too")

    def test_a_start_that_is_killed_leaves_nothing(self):
        with self.lab() as lab, tempfile.TemporaryDirectory(dir=self.folder) as programs:
            lab.call("down")
            # A `tc` that waits: the start cannot end before it is killed.
            waiting, released = (os.path.join(programs, name) for name in ("waiting", "released"))
            with open(os.path.join(programs, "tc"), "w", encoding="ascii") as file:
                file.write(SLOW_TC.format(tc=need("tc"), waiting=waiting, released=released))
            os.chmod(file.name, 0o755)
            process = subprocess.Popen(
                [self.tool, "lab", "up", "--name", lab.name, "--rate", "1gbit"],
                env=dict(self.env, PATH=f"{programs}:{self.env['PATH']}"),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
            wait_until(lambda: os.path.exists(waiting), "no start")
            own = descendants(process.pid)
            check(len(own) >= 6, own)
            process.kill()
            process.wait()
            open(released, "w", encoding="ascii").close()
            wait_until(lambda: not any(map(is_there, own)), f"processes are left: {own}")
            check(lab.call("status", code=1)[1].count("half started") == 1, "it is not told")
            lab.call("up")
            check(lab.sh("h1", "hostname") == "h1", "it does not start anew")

    def test_a_start_that_fails_leaves_nothing(self):
        with self.lab() as lab:
            lab.call("down")
            _, errors = lab.call("up", "--congestion", "no-such", code=1)
            check("no congestion control 'no-such'" in errors, errors)
            check(not os.path.exists(lab.folder), "its directory is left")

    def test_refusals(self):
        with self.lab() as lab:
            _, errors = lab.call("up", code=1)
            check("is there already" in errors, errors)
            _, errors = lab.call("exec", "h2", "true", code=NOT_STARTED)
            check("has no host h2: its hosts are h0 to h1" in errors, errors)
            for words, said in ((("h0", "r1", "down"), "no rail r1"),
                                (("head", "r0", "down"), "head has no rails")):
                _, errors = lab.call("link", *words, code=1)
                check(said in errors, errors)
            _, errors = lab.call("exec", "head", self.tool, "lab", "down", code=1)
            check("inside the lab" in errors, errors)
            prefix = [need("setpriv"), "--reuid=65534", "--regid=65534", "--clear-groups"]
            folder = os.path.dirname(self.tool)
            if subprocess.run([*prefix, "test", "-x", self.tool]).returncode:
                raise Skipped(f"other users cannot read {folder}")
            _, errors = lab.call("up", code=1, prefix=prefix)
            check("needs root" in errors, errors)
            for words in (("status",), ("link", "h0", "r0", "down"), ("down",)):
                _, errors = lab.call(*words, code=1, prefix=prefix)
                check("labs need root" in errors, errors)

    # What uses a lab.

    def test_perf_runs_between_hosts(self):
        with self.lab("--rate", "1gbit") as lab:
            latency = self.perf(lab, "latency", "--size", "8", "--iterations", "3", "--warmup", "0")
            check(latency["rows"][0]["verified"], latency)
            rows = self.perf(lab, "behind", "--messages", "20", "--size", "1M")["rows"]
            check([row["bulk_bytes"] for row in rows] == [0, 1 << 20], rows)
            check(0 < rows[1]["bulk_gbit_per_s"] < 1, rows)
            before = lab.carried("h0", "r0")
            flood = self.perf(lab, "flood", "--messages", "20000", "--quiet", "0.2")["rows"][0]
            check(flood["peak_unexpected_bytes"] <= flood["unexpected_bytes_max"], flood)
            check((flood["lost"], flood["corrupt"]) == (0, 0), flood)
            check(lab.carried("h0", "r0") > before, "the rail carried nothing")

    def test_perf_stripe_uses_all_rails_and_the_rest_of_them(self):
        """In a lab of its own, which is gone afterwards."""
        if os.path.exists(PERF_FOLDER):
            raise Skipped("there is a lab 'perf'")
        sizes = ["--size", "8M,1M", "--seconds", "0.2"]
        report = self.measure("stripe", *sizes, "--lab-rails", "0.4,0.2")
        check(not os.path.exists(PERF_FOLDER), "the lab is left")
        rows = report["rows"]
        check([row["size"] for row in rows] == [8 << 20, 1 << 20, 8 << 20], rows)
        check([row["rails"] for row in rows] == [[0.4, 0.2]] * 2 + [[0.4, 0.02]], rows)
        check([row.get("fallen") for row in rows] == [None, None, "r1"], rows)
        for row in rows:
            sum_of_rails = sum(row["rails"]) * PAYLOAD
            check(abs(row["sum_of_rails_gbit_per_s"] - sum_of_rails) < 0.01, row)
            made = 100 * row["gbit_per_s"] / row["sum_of_rails_gbit_per_s"]
            check(abs(row["efficiency_pct"] - made) < 1, row)
            # How much it is depends on the machine. More than all there is it cannot be: what
            # the buckets let go at once is a few per cent.
            check(EFFICIENCY_PCT_MIN <= row["efficiency_pct"] <= 115, row)
            check(row["reads"] >= 3 and 0 <= row["copied_pct"] <= 100, row)
        check(rows[2]["before_gbit_per_s"] > 0, rows[2])
        made, left = rows[0]["efficiency_pct"], rows[2]["efficiency_pct"]
        return f"{made} % of two rails, {left} % after a fall"

    def test_perf_failover_loses_nothing(self):
        with self.lab("--rails", "2", "--rate", "400mbit") as lab:
            before = {rail: lab.carried("h1", rail) for rail in ("r0", "r1")}
            report = self.measure("failover", "--trials", "1", "--lab", lab.name)
            carried = {rail: lab.carried("h1", rail) - before[rail] for rail in before}
            check(min(carried.values()) >= 1 << 20, f"a rail carried nothing: {carried}")
            check(lab.states("r0") == ["up", "up"], f"r0 is not mended: {lab.states('r0')}")
        check((report["rails"], report["lost"], report["duplicated"]) == ([0.4, 0.4], 0, 0), report)
        rows = {row["kind"]: row for row in report["rows"]}
        check(list(rows) == ["none", "cut", "silent", "slow", "return"], report)
        for kind, row in rows.items():
            check((row["trials"], row["lost"], row["duplicated"]) == (1, 0, 0), row)
            spread = row["gap_ms"]
            check(0 < spread["p50"] <= spread["p99"] <= spread["max"] <= GAP_MS_MAX, row)
            # What returns interrupts nothing: its time is until it carries data.
            if kind != "return":
                of_either = max(row["packet_gap_ms"]["max"], row["read_gap_ms"]["max"])
                check(spread["max"] == of_either, row)
        for kind in ("cut", "silent"):
            check(0 < rows[kind]["noticed_ms"]["max"] <= GAP_MS_MAX, rows[kind])
        return ", ".join(f"{kind} {row['gap_ms']['max']} ms" for kind, row in rows.items())

    def test_perf_that_is_interrupted_leaves_no_lab(self):
        folder = PERF_FOLDER
        if os.path.exists(folder):
            raise Skipped("there is a lab 'perf'")
        # While the lab is made, and while there is one.
        for number, seconds in ((signal.SIGINT, 0), (signal.SIGINT, 2), (signal.SIGTERM, 2)):
            for words in (("stripe",), ("failover",), ("behind", "--rail", "tcp")):
                process = subprocess.Popen(
                    [self.tool, "perf", *words], env=self.env, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                wait_until(lambda: os.path.exists(folder), f"{words}: no lab")
                time.sleep(seconds)
                own = descendants(process.pid)
                process.send_signal(number)
                ended = process.wait(LIMIT_SECONDS)
                check(ended == -number, f"{words}: it ended with {ended}, not by {number}")
                check(not os.path.exists(folder), f"{words}: the lab is left after {number}")
                wait_until(lambda: not any(map(is_there, own)), f"processes are left: {own}")

    def perf(self, lab, command, *words):
        return self.measure(command, "--rail", "tcp", "--lab", lab.name, *words)

    def measure(self, command, *words):
        words = (self.tool, "perf", command, *words, "--json")
        done = subprocess.run(words, env=self.env, cwd=self.folder, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=LIMIT_SECONDS)
        check(done.returncode == 0, f"{command}: {done.stderr}")
        return json.loads(done.stdout)

    def test_why_names_the_rails_to_a_host(self):
        with self.lab("--rails", "3") as lab:
            lab.sh("h0", "ip link set r2 down")
            words = (self.tool, "why", "--size", "1M", "--json", "--peer")
            out, _ = lab.call("exec", "h0", "--", *words, "10.42.0.2,10.42.1.2",
                              FI_SLUICE_TUNE="off")
            answer = json.loads(out)
            rails = {rail["device"]: rail for rail in answer["rails"]}
            used = {name for name, rail in rails.items() if rail["chosen"]}
            check((answer["rail"], used) == ("tcp", {"r0", "r1"}), answer)
            check(rails["r0"]["share_pct"] == rails["r1"]["share_pct"] == 50, rails)
            check(rails["r0"]["eager"] and not rails["r1"]["eager"], rails)
            check(rails["ctl"]["detail"] == "excluded by ^ctl", rails["ctl"])
            check(rails["r2"]["detail"] and not rails["r2"]["chosen"], rails["r2"])
            _, errors = lab.call("exec", "h0", "--", *words, "10.42.0.1", code=1)
            check("this host" in errors, errors)
            _, errors = lab.call("exec", "h0", "--", *words, "192.0.2.1", code=1)
            check("no rail reaches it" in errors, errors)

    # MPI.

    def test_open_mpi_spans_hosts(self):
        mpirun = need("mpirun.openmpi" if shutil.which("mpirun.openmpi") else "mpirun")
        suite = Suite(argparse.Namespace(transport="sluice", build_dir=self.build_dir),
                      self.folder)
        broken = suite.build(["sendrecv"])
        check(not broken, broken)
        with self.lab("--rails", "2") as lab:
            words = ["exec", "head", mpirun, "--host", "h0:2,h1:2", "-np", "4", "--bind-to",
                     "none", "--mca", "pml", "ob1", "--mca", "btl", "tcp,vader,self", "--mca",
                     "btl_tcp_if_include", "r0,r1"]
            env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_mpi_yield_when_idle": "1"}
            out, _ = lab.call(*words, "hostname", **env)
            check(sorted(out.split()) == ["h0", "h0", "h1", "h1"], out)
            before = lab.carried("h0", "r0")
            lab.call(*words, suite.binary("sendrecv"), **env)
            check(lab.carried("h0", "r0") - before > 10_000, "the rail carried nothing")


class Lab:
    """A lab that ends with its test."""

    def __init__(self, labs, name, words):
        self.labs = labs
        self.name = name
        self.words = words
        self.folder = f"/run/sluice-lab/{name}"

    def __enter__(self):
        self.labs.call("up", "--name", self.name, *self.words)
        return self

    def __exit__(self, *_):
        if os.path.exists(self.folder):
            self.call("down")

    def call(self, command, *words, **options):
        return self.labs.call(command, "--name", self.name, *words, **options)

    def sh(self, host, line):
        return self.call("exec", host, "--", "sh", "-c", line)[0].strip()

    def link(self, *words):
        self.call("link", *words)

    def carried(self, host, rail):
        """How many bytes a host has sent by a rail."""
        return int(self.sh(host, f"cat /sys/class/net/{rail}/statistics/tx_bytes"))

    def status(self):
        return json.loads(self.call("status", "--json")[0])["labs"][0]

    def rail(self, host, rail):
        found = next(it for it in self.status()["hosts"] if it["name"] == host)
        return next(it for it in found["rails"] if it["name"] == rail)

    def states(self, rail):
        return [self.rail(host["name"], rail)["state"] for host in self.status()["hosts"]]

    def rates(self, rail):
        return [self.rail(host["name"], rail)["rate"] for host in self.status()["hosts"]]

    def holder(self, host):
        """The process that holds a host: the first one of its process namespace."""
        namespace = self.sh(host, "readlink /proc/1/ns/pid")
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                same = os.readlink(f"/proc/{pid}/ns/pid") == namespace
                with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
                    numbers = next(line for line in file if line.startswith("NSpid:"))
            except OSError:
                continue
            if same and numbers.split()[-1] == "1":
                return int(pid)
        raise Failed(f"{host} has no holder")

    def transfer(self, address, count, source="h0", target="h1"):
        """Sends bytes over TCP; gives how many arrived and in which time."""
        sink = self.labs.background(self.name, target, PYTHON, "-c", SINK, address)
        try:
            port = sink.stdout.readline().strip()
            began, _ = self.call("exec", source, "--", PYTHON, "-c", SOURCE, address, port,
                                 str(count))
            out, _ = sink.communicate(timeout=LIMIT_SECONDS)
        finally:
            end_session(sink.pid)
        arrived, last = out.split()
        return int(arrived), float(last) - float(began)

    def rounds(self, address):
        """The shortest of some round trips from h0 to h1, in seconds."""
        echo = self.labs.background(self.name, "h1", PYTHON, "-c", ECHO)
        try:
            port = echo.stdout.readline().strip()
            return self.call("exec", "h0", "--", PYTHON, "-c", CALL, address, port)[0]
        finally:
            end_session(echo.pid)

    def datagrams(self, *words):
        """Sends datagrams from h0 to h1; gives what arrived."""
        ear = self.labs.background(self.name, "h1", PYTHON, "-c", EAR)
        try:
            port = ear.stdout.readline().strip()
            self.call("exec", "h0", "--", PYTHON, "-c", MOUTH, port, *words)
            out, _ = ear.communicate(timeout=LIMIT_SECONDS)
        finally:
            end_session(ear.pid)
        return out.split()


def wait_until(holds, said):
    deadline = time.monotonic() + LIMIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise Failed(said)
        time.sleep(0.002)


def lines(path):
    with open(path, encoding="utf-8") as file:
        return set(file)


def devices():
    return set(os.listdir("/sys/class/net"))


def users(networks):
    """The processes in these networks."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/net") in networks:
                found.add(int(pid))
        except OSError:
            pass
    return found


def started(pid):
    """When a process started; None if there is none, or only its exit status."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def is_there(process):
    pid, start = process
    return started(pid) == start


def descendants(pid):
    """The processes that a process has started, and theirs, each with its start time."""
    found = []
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = file.read().split()
    except OSError:
        return found
    for child in map(int, children):
        found += [(child, started(child)), *descendants(child)]
    return [process for process in found if process[1]]


def why_not():
    """Why there can be no lab here; empty if there can."""
    if os.geteuid() != 0:
        return "a lab needs root"
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("unshare", "util-linux")):
        if not shutil.which(program):
            return f"{program} is missing: install {package}"
    kinds = ["--net", "--uts", "--ipc", "--pid", "--mount", "--fork"]
    result = subprocess.run(["unshare", *kinds, "sh", "-c", PROBE], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = "; ".join(result.stderr.split("\n")).strip("; ")
    return f"this kernel allows no lab: {said}" if result.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests with it in the name")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where sluice is")
    args = parser.parse_args()
    verdicts = Verdicts()
    reason = why_not()
    with tempfile.TemporaryDirectory(prefix="sluice-lab-") as folder:
        labs = Labs(os.path.abspath(args.build_dir), os.path.realpath(folder))
        for title, call in methods(labs, args.filter):
            verdicts.judge(title, call, why_not=reason)
    return verdicts.end()


if __name__ == "__main__":
    leave(main)
