"""What the benchmarks share: programs that are compiled, run with a time limit, and bracketed
by a probe of the machine's mode."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RELEASE = os.path.join(ROOT, "target", "release")
BUILD = os.path.join(ROOT, "target", "bench")
NEAR_BELOW_NS = 100.0

# The figure of each test. Of times less is better.
VALUE = {"latency": "half_rtt_ns", "returned": "half_rtt_ns", "bandwidth": "mib_per_s",
         "distinct": "mib_per_s", "relayed": "mib_per_s", "cold": "mib_per_s",
         "single": "mib_per_s", "rate": "msgs_per_s"}


def die(what, cause, step):
    sys.exit(f"bench: {what}: {cause}. {step}")


def say(text):
    print(text, file=sys.stderr, flush=True)


def environment(directory=None):
    env = dict(os.environ)
    if directory:
        env["OMPI_MCA_orte_tmpdir_base"] = directory
    if os.geteuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


def run(command, limit, env=None):
    """Run a command in a group of its own; return (output, None) or (output, why not)."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(command, stdout=out, stderr=err, env=env,
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        why = None
        try:
            code = process.wait(timeout=limit)
            if code:
                why = f"it ended with {code}"
        except subprocess.TimeoutExpired:
            why = f"it was killed at its time limit of {limit} s"
        finally:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is not None:
                    break
                try:
                    os.killpg(process.pid, number)
                    process.wait(timeout=5)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        out.seek(0)
        err.seek(0)
        if why:
            lines = [x.strip() for x in err.read().decode(errors="replace").splitlines()]
            said = [x for x in lines if x and not set(x) <= {"-"}]
            why += (", saying: " + " / ".join(said)[:300]) if said else ""
        return out.read().decode(errors="replace"), why


def rows_in(out):
    """The lines of JSON that a program has printed."""
    rows = []
    for line in out.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            pass
    return rows


def write_json(path, document):
    """Writes what was measured for scripts."""
    with open(path, "w", encoding="ascii") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


def end_with(main):
    """Runs a benchmark, and ends with what it returns."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


class NotBuilt(Exception):
    """A program of ours did not compile: what, why, and what to do about it."""


def build_one(name, compiler, flags, packages, folder="bench"):
    os.makedirs(BUILD, exist_ok=True)
    step = f"Install the Debian packages {packages}"
    if not shutil.which(compiler):
        raise NotBuilt(compiler, "it is not there", step)
    _, why = run([compiler, "-O2", *flags, os.path.join(ROOT, folder, name + ".c"),
                  "-o", os.path.join(BUILD, name)], 120)
    if why:
        raise NotBuilt(f"{folder}/{name}.c does not compile", why, step)


def build_probe():
    build_one("cacheline", "cc", ["-pthread"], "gcc and libc6-dev")


def probe(cores):
    out, why = run([os.path.join(BUILD, "cacheline"), *map(str, cores)], 60)
    if why:
        die("the cache-line probe", why, "Run bench/cacheline.c by hand")
    return float(out)


def mode_of(ns):
    return "near" if ns < NEAR_BELOW_NS else "far"


def is_time(test):
    return VALUE[test] == "half_rtt_ns"


def size_name(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def show(test, value):
    """A figure of a test, without its unit."""
    if is_time(test):
        return f"{value / 1000:.3f}"
    return f"{value / 1e6:.2f}" if test == "rate" else f"{value:.0f}"
