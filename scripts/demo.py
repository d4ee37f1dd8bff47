#!/usr/bin/env python3
"""The main job: a real MPI program over Sluice, beside Open MPI's shared memory.

NetPIPE (Debian's NPopenmpi, which nobody here wrote) runs on two ranks:
first over Sluice with every message's bytes verified, then for its figures over
Sluice and over Open MPI's own shared memory, range of sizes by range of sizes in
turn. One table compares them. Then it runs, verified, on two hosts of a lab
(`sluice lab`) over two rails, one of which is cut and comes back meanwhile.

A virtual machine moves between two modes: the two cores are near or far. A probe of
one cache line brackets each pair of runs of a range. Where the mode changed in
between the range is run again, and the table shows the mode of each row.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import bench_base as bench

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROVIDERS = os.path.join(ROOT, "target", "release")
PROVIDER = os.path.join(PROVIDERS, "libsluice-fi.so")
TOOL = os.path.join(PROVIDERS, "sluice")
# The two transports are run in turn on each range, so that a machine that
# changes its speed in between does it to both.
RANGES = [(1, 256), (384, 12288), (16384, 1048576)]
RUN_SECONDS_MAX = 300
# Of two lab hosts: the rate of each rail, the longest message, and the lengths from which
# on a rail is cut and is back. Short messages take the other one alone.
RAIL_RATE = "1gbit"
RAILS_BYTES_MAX = 8 << 20
CUT_BYTES, BACK_BYTES = 768 << 10, 3 << 20
# How often a range is run while the mode changes within it.
TRIES_MAX = 3
# What each rank of NetPIPE says of itself, which can fall into another one's line.
SAID_BY_EACH = re.compile(
    r"Doing an integrity check instead of measuring performance\n?"
    rf"|\d+: (?:{re.escape(os.uname().nodename)}|h[01])\n"
)


class Failed(Exception):
    """The demo did not show what it should."""


def mpirun(program, transport, folder, stats=False):
    """The command line that runs `program` on two ranks over `transport`."""
    command = ["mpirun.openmpi", "-n", "2"]
    if (os.cpu_count() or 1) < 2:
        command.append("--oversubscribe")
    if os.geteuid() == 0:
        command.append("--allow-run-as-root")
    if transport == "sluice":
        command += ["--mca", "pml", "cm", "--mca", "mtl", "ofi"]
        command += ["--mca", "mtl_ofi_provider_include", "sluice"]
        command += ["-x", f"FI_PROVIDER_PATH={PROVIDERS}"]
        if stats:
            command += ["-x", "FI_SLUICE_STATS=1"]
    else:
        # Its segments go where we remove them, however the run ends.
        command += ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]
        command += ["--mca", "btl_vader_backing_directory", shared(folder)]
    return command + program


def shared(folder):
    """The folder in shared memory that belongs to this run."""
    path = os.path.join("/dev/shm", os.path.basename(folder))
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path


def show(text, end="\n"):
    sys.stderr.write(text + end)
    sys.stderr.flush()


def run(command, folder, on_line):
    """Runs a job; `on_line` sees each line of its output."""
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        env=dict(os.environ, TMPDIR=folder),
    )
    signal.signal(signal.SIGALRM, lambda *_: kill(process))
    signal.alarm(RUN_SECONDS_MAX)
    lines = []
    try:
        for line in process.stdout:
            lines.append(line.rstrip())
            on_line(line)
        code = process.wait()
    except BaseException:
        kill(process)
        raise
    finally:
        signal.alarm(0)
    if code != 0:
        tail = "\n".join(lines[-15:])
        raise Failed(f"`{' '.join(command)}` ended with {code}:\n{tail}")
    return lines


def kill(process):
    """Ends a job with all its ranks, gently first. Each rank has a process group of
    its own, but all are in the session of mpirun."""
    for number, patience in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        for pid in processes_of(process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            process.poll()
            if not processes_of(process.pid):
                return
            time.sleep(0.05)


def processes_of(session):
    """The living processes of a session."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(name))
    return found


def progress(title):
    """A callback that shows how far NetPIPE is, on one line."""
    start = time.monotonic()
    live = sys.stderr.isatty()

    def on_line(line):
        found = re.match(r"\s*\d+:\s+(\d+) bytes", line)
        if found and live:
            show(f"\r  {title}: {found.group(1):>8} bytes, {time.monotonic() - start:3.0f} s", "")

    def done():
        lead = "\r" if live else ""
        show(f"{lead}  {title}: done in {time.monotonic() - start:.0f} s" + " " * 16)

    return on_line, done


def verify(folder):
    """NetPIPE's integrity mode over Sluice; gives the number of sizes checked."""
    on_line, done = progress("integrity over Sluice")
    program = ["NPopenmpi", "-i", "-u", "1048576"]
    lines = run(mpirun(program, "sluice", folder, stats=True), folder, on_line)
    done()
    lines = SAID_BY_EACH.sub("", "\n".join(lines)).splitlines()
    count = count_checked(lines)
    counters = [line for line in lines if "eager" in line and "sluice" in line.lower()]
    if not counters:
        raise Failed("Sluice printed no counters, so it did not carry the data")
    return count, counters


def count_checked(lines):
    """How many sizes NetPIPE has found right; all of them must be."""
    checked = [line for line in lines if re.match(r"\s*\d+:\s+\d+ bytes", line)]
    bad = [line for line in checked if "Integrity check passed" not in line]
    if bad:
        raise Failed("an integrity check did not pass:\n" + "\n".join(bad))
    if not checked:
        raise Failed("NetPIPE checked nothing; it printed:\n" + "\n".join(lines[-15:]))
    return len(checked)


class Rails:
    """Two hosts of a lab, and a rail that is cut while NetPIPE verifies."""

    def __init__(self):
        self.name = f"demo-{os.getpid()}"
        # Changes that are still to be made: from which length on, which, what is said.
        self.changes = [(CUT_BYTES, "cut"), (BACK_BYTES, "up")]
        self.sent = []

    def lab(self, *words):
        command = [TOOL, "lab", words[0], "--name", self.name, *words[1:]]
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace")

    def verify(self, folder):
        """Prints what came of it; where there can be no lab, why not."""
        up = self.lab("up", "--hosts", "2", "--rails", "2", "--rate", RAIL_RATE)
        if up.returncode:
            show(f"  two hosts: skipped: {up.stderr.strip()}")
            return
        try:
            self.note()
            program = ["NPopenmpi", "-i", "-u", str(RAILS_BYTES_MAX)]
            command = mpirun(program, "sluice", folder)
            command[1:1] = ["--host", "h0:1,h1:1"]
            command = [TOOL, "lab", "exec", "--name", self.name, "head", "--", *command]
            on_line, done = progress("integrity between two hosts over two rails")
            lines = run(command, folder, lambda line: (on_line(line), self.change(line)))
            done()
            lines = SAID_BY_EACH.sub("", "\n".join(lines)).splitlines()
            count = count_checked(lines)
            self.note()
        finally:
            self.lab("down")
        self.report(count)

    def change(self, line):
        """Breaks and mends the second rail when NetPIPE is far enough."""
        found = re.match(r"\s*\d+:\s+(\d+) bytes", line)
        if found and self.changes and int(found.group(1)) >= self.changes[0][0]:
            _, what = self.changes.pop(0)
            changed = self.lab("link", "h0", "r1", what)
            if changed.returncode:
                raise Failed(f"the rail cannot be changed: {changed.stderr.strip()}")
            self.note()

    def note(self):
        """Remembers what the first host has sent by each rail."""
        files = [f"/sys/class/net/r{rail}/statistics/tx_bytes" for rail in range(2)]
        counts = self.lab("exec", "h0", "cat", *files).stdout.split()
        self.sent.append([int(count) for count in counts])

    def report(self, count):
        if self.changes:
            raise Failed("NetPIPE ended before the rail was cut and back")
        print()
        print(f"Between two hosts over two rails of {RAIL_RATE}, one of which was cut and came back:")
        print(f"{count} message sizes up to {RAILS_BYTES_MAX >> 20} MiB: "
              "every integrity check passed.")
        print("MiB that the first host sent    rail 0    rail 1")
        phases = zip(("before", "while rail 1 was cut", "after"), self.sent, self.sent[1:])
        for title, start, end in phases:
            counts = "".join(f"{(b - a) / 2**20:10.1f}" for a, b in zip(start, end))
            print(f"  {title:26}{counts}")


class Mode:
    """The mode of the machine, by a cache line that goes between two cores."""

    def __init__(self):
        cores = sorted(os.sched_getaffinity(0))[:2]
        # On one core there is nothing to tell apart.
        self.cores = cores if len(cores) == 2 else None
        if not self.cores:
            return
        try:
            bench.build_probe()
        except bench.NotBuilt as why:
            # The figures are good without it, only their mode is not known.
            what, cause, step = why.args
            show(f"  the machine's mode is unknown: {what}: {cause}. {step}.")
            self.cores = None

    def now(self):
        """`near` or `far` with the half round trip in ns, or None if it cannot be told."""
        if not self.cores:
            return None
        ns = bench.probe(self.cores)
        return bench.mode_of(ns), ns


def measure(low, high, transport, folder):
    """Half round trip in seconds by size."""
    names = {"sluice": "Sluice", "shm": "Open MPI's shared memory"}
    on_line, done = progress(f"{low} to {high} bytes over {names[transport]}")
    out = os.path.join(folder, "np.out")
    program = ["NPopenmpi", "-p", "0", "-l", str(low), "-u", str(high), "-o", out]
    run(mpirun(program, transport, folder), folder, on_line)
    done()
    with open(out, encoding="ascii") as lines:
        return {int(size): float(seconds) for size, _, seconds in map(str.split, lines)}


def figures(folder, mode):
    """For each range the figures of both transports, and the mode they were taken in."""
    parts = []
    for low, high in RANGES:
        for attempt in range(1, TRIES_MAX + 1):
            before = mode.now()
            both = {name: measure(low, high, name, folder) for name in ("sluice", "shm")}
            after = mode.now()
            kept = mode_between(before, after)
            if kept != "changed" or attempt == TRIES_MAX:
                break
            show(f"  the machine's mode changed ({said(before)}, then {said(after)}): once more")
        parts.append({"mode": kept, "before": before, "after": after, **both})
    return parts


def mode_between(before, after):
    """The mode of what ran between two probes."""
    if not before or not after:
        return "unknown"
    return before[0] if before[0] == after[0] else "changed"


def said(probe):
    return f"{probe[0]}, {probe[1]:.0f} ns" if probe else "unknown"


def table(parts):
    """Rows of size, mode, latencies, bandwidths and ratio."""
    rows = []
    for part in parts:
        for size, ours in sorted(part["sluice"].items()):
            theirs = part["shm"].get(size)
            if not theirs or not ours:
                continue
            rows.append({
                "size": size, "mode": part["mode"],
                "sluice_us": ours * 1e6, "shm_us": theirs * 1e6,
                "sluice_mib_per_s": size / ours / 2**20, "shm_mib_per_s": size / theirs / 2**20,
                "speed_ratio": theirs / ours,
            })
    return rows


def print_table(rows, parts):
    print()
    print("                 half round trip, µs        bandwidth, MiB/s     speed  machine's")
    print("     bytes      Sluice     Open MPI      Sluice    Open MPI      ratio       mode")
    for row in rows:
        print(f"{row['size']:10d}  {row['sluice_us']:10.2f}   {row['shm_us']:10.2f}  "
              f"{row['sluice_mib_per_s']:10.1f}  {row['shm_mib_per_s']:10.1f}  "
              f"{row['speed_ratio']:8.2f} x  {row['mode']:>9}")
    print()
    print("ratio: above 1 Sluice is faster. mode: whether a cache line goes between the two")
    print(f"cores in less than {bench.NEAR_BELOW_NS:.0f} ns (near) or not (far); compare rows of one mode.")
    if any(part["mode"] == "changed" for part in parts):
        print(f"Where it says changed, the mode changed in each of {TRIES_MAX} runs: that ratio")
        print("says nothing. `make bench` takes the median of more runs.")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", metavar="FILE", help="write the rows there as well")
    parser.add_argument("--verify-only", action="store_true", help="leave the figures out")
    args = parser.parse_args()
    for program in ("mpirun.openmpi", "NPopenmpi"):
        if not shutil.which(program):
            raise Failed(f"{program} is not installed; next: make deps")
    if not os.path.exists(PROVIDER):
        raise Failed("the provider is not built; next: make build")
    folder = tempfile.mkdtemp(prefix="sluice-demo-")
    try:
        show("NetPIPE on two ranks under Open MPI")
        checked, counters = verify(folder)
        print(f"{checked} message sizes up to 1 MiB: every integrity check passed.")
        print("Carried by Sluice, in its own words:")
        for line in counters:
            print(f"  {line}")
        if not args.verify_only:
            parts = figures(folder, Mode())
            rows = table(parts)
            print_table(rows, parts)
            if args.json:
                probes = [{name: part[name] for name in ("mode", "before", "after")}
                          for part in parts]
                with open(args.json, "w", encoding="utf-8") as out:
                    json.dump({"rows": rows, "probes": probes}, out, indent=1)
        Rails().verify(folder)
    finally:
        shutil.rmtree(os.path.join("/dev/shm", os.path.basename(folder)), ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


def interrupt(*_):
    """Being asked to end is like Ctrl-C: tidy up first."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    try:
        main()
    except KeyboardInterrupt:
        show("\nstopped; nothing is left behind")
        sys.exit(130)
    except Failed as why:
        show(f"demo: {why}")
        sys.exit(1)
