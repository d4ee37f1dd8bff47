#!/usr/bin/env python3
"""The main job: a real MPI program over Sluice, beside the best shared memory there is.

NetPIPE (Debian's NPopenmpi, which nobody here wrote) runs on two ranks:
first over Sluice with every message's bytes verified, then for its figures over
Sluice and over what Debian's Open MPI has for shared memory (its own, and UCX if it
is there), range of sizes by range of sizes in turn. One table compares Sluice with
the best of them. Then NetPIPE runs, verified, on two hosts of a lab (`sluice lab`)
over two rails, one of which is cut and comes back meanwhile.

A virtual machine moves between two modes: the two cores are near or far. A probe of
one cache line brackets each run of a range. Where the mode changed between any two
of them the range is run again, and the table shows the mode of each row.
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
from bench_peers import OURS, TRANSPORTS, our_words

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROVIDERS = os.path.join(ROOT, "target", "release")
PROVIDER = os.path.join(PROVIDERS, "libsluice-fi.so")
TOOL = os.path.join(PROVIDERS, "sluice")
# Ranges of sizes, and messages of each in a trial. All transports are run in turn on each
# range. That takes a few seconds, so that a machine seldom changes its speed meanwhile.
RANGES = [(1, 12, 30000), (16, 192, 30000), (256, 3072, 10000), (4096, 49152, 2000),
          (65536, 1048576, 200)]
RUN_SECONDS_MAX = 300
# Of two lab hosts: the rate of each rail, the longest message, and the lengths from which
# on a rail is cut and is back. Short messages take the other one alone.
RAIL_RATE = "1gbit"
RAILS_BYTES_MAX = 8 << 20
CUT_BYTES, BACK_BYTES = 768 << 10, 3 << 20
# How often a range is run while the mode changes within it: once, and twice again.
TRIES_MAX = 3
# What NetPIPE, a program of Debian's Open MPI, can be run over beside Sluice, as the table
# calls it.
SHORT = {"vader": "Open MPI", "ucx": "UCX"}
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
    # As it is started by users, who do not leave its tuning out.
    command += our_words(PROVIDERS) if transport == OURS else TRANSPORTS[transport].words
    # Segments of others go where we remove them, however the run ends.
    if transport == "vader":
        command += ["--mca", "btl_vader_backing_directory", shared(folder)]
    if transport == "ucx":
        command += ["-x", f"UCX_POSIX_DIR={shared(folder)}"]
    if stats:
        command += ["-x", "FI_SLUICE_STATS=1"]
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


def peers():
    """What NetPIPE can be run over beside Sluice here: what its Open MPI has."""
    try:
        info = subprocess.run(["ompi_info", "--parsable"], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    except OSError:
        info = ""
    found = []
    for name in SHORT:
        words = TRANSPORTS[name].words
        layer = words[words.index("pml") + 1]
        if f"mca:pml:{layer}:" in info or not info:
            found.append(name)
        else:
            show(f"  {TRANSPORTS[name].title} is left out: Open MPI was built without it")
    return found


def measure(sizes, transport, folder):
    """Half round trip in seconds by size."""
    low, high, count = sizes
    on_line, done = progress(f"{low} to {high} bytes over {TRANSPORTS[transport].title}")
    out = os.path.join(folder, "np.out")
    program = ["NPopenmpi", "-p", "0", "-n", str(count), "-l", str(low), "-u", str(high), "-o", out]
    run(mpirun(program, transport, folder), folder, on_line)
    done()
    with open(out, encoding="ascii") as lines:
        return {int(size): float(seconds) for size, _, seconds in map(str.split, lines)}


def figures(folder, mode, names):
    """For each range the figures of all transports, and the mode they were taken in. A peer
    that fails is taken out of the names."""
    parts = []
    for sizes in RANGES:
        for attempt in range(1, TRIES_MAX + 1):
            probes, found = [mode.now()], {}
            for name in (OURS, *names):
                try:
                    found[name] = measure(sizes, name, folder)
                except Failed as why:
                    if name == OURS:
                        raise
                    names = [other for other in names if other != name]
                    show(f"  {TRANSPORTS[name].title} is left out: {why}")
                probes.append(mode.now())
            if not names:
                raise Failed("there is nothing to compare with")
            kept = mode_of(probes)
            if kept != "changed" or attempt == TRIES_MAX:
                break
            show(f"  the machine's mode changed ({', then '.join(map(said, probes))}): once more")
        parts.append({"mode": kept, "probes": probes, "seconds": found})
    return parts


def mode_of(probes):
    """The mode of what ran between probes."""
    if not all(probes):
        return "unknown"
    modes = {name for name, _ in probes}
    return modes.pop() if len(modes) == 1 else "changed"


def said(probe):
    return f"{probe[0]}, {probe[1]:.0f} ns" if probe else "unknown"


def table(parts):
    """Rows of size, mode, latencies, bandwidths, and the ratio to the best of the peers."""
    rows = []
    for part in parts:
        for size, ours in sorted(part["seconds"][OURS].items()):
            others = {name: taken[size] for name, taken in part["seconds"].items()
                      if name != OURS and taken.get(size)}
            if not others or not ours:
                continue
            best = min(others, key=others.get)
            theirs = others[best]
            rows.append({
                "size": size, "mode": part["mode"], "best": best,
                "sluice_us": ours * 1e6, "shm_us": theirs * 1e6,
                "peers_us": {name: seconds * 1e6 for name, seconds in others.items()},
                "sluice_mib_per_s": size / ours / 2**20, "shm_mib_per_s": size / theirs / 2**20,
                "speed_ratio": theirs / ours,
            })
    return rows


def print_table(rows, parts):
    names = [name for name in SHORT if any(name in row["peers_us"] for row in rows)]
    heads = "".join(f"{SHORT[name]:>11}" for name in names)
    print()
    print(f"{'half round trip, µs':>{21 + len(heads)}}     bandwidth, MiB/s     speed to      "
          "machine's")
    print(f"     bytes     Sluice{heads}     Sluice   the best     the best           mode")
    for row in rows:
        others = "".join(f"{row['peers_us'].get(name, float('nan')):11.2f}" for name in names)
        ratio = f"{row['speed_ratio']:.2f} x {SHORT[row['best']]}"
        print(f"{row['size']:10d} {row['sluice_us']:10.2f}{others} {row['sluice_mib_per_s']:10.1f} "
              f"{row['shm_mib_per_s']:10.1f}     {ratio:<15} {row['mode']:>7}")
    print()
    print("speed: above 1 Sluice is faster. mode: whether a cache line goes between the two")
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
            parts = figures(folder, Mode(), peers())
            rows = table(parts)
            print_table(rows, parts)
            if args.json:
                probes = [{name: part[name] for name in ("mode", "probes")} for part in parts]
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
