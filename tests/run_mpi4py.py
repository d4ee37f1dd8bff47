#!/usr/bin/env python3
"""Run mpi4py's own test suite under an MPI, over Sluice or over its peer.

With Debian's Open MPI the source distribution that matches the installed package
python3-mpi4py is fetched through pip as it is configured, kept in
target/mpi4py, and its tests run with the system's Python under mpirun. With an MPI
of PyPI (--mpi) mpi4py is that of PyPI too, in an environment below target/mpis.
The last line reads "N passed, N failed, N skipped": the tests of rank 0, summed
over all parts and rank counts.  A test that fails on any rank is a failure.
"""

import argparse
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

from mpi4py_launch import PYTHON, TRANSPORTS, Refused, Unavailable, launch_of
from mpi4py_parts import DEBIAN, EXCLUSIONS, PYPI, modules_of, parts_of
from run_mpi import ROOT
from verdicts import leave

# What `sluice run` says where some went from host to host.
BETWEEN_HOSTS = r"carried [1-9].* on \d+ hosts; by device: .*[1-9]"
RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi4py_rank.py")


def die(what, cause, step):
    sys.exit(f"run_mpi4py: {what}: {cause}. {step}")


# ---------------------------------------------------------------- the suite

def suite_dir(python):
    """Return the directory of the tests, fetching the source if need be."""
    probe = subprocess.run(
        [python, "-c", "import mpi4py; print(mpi4py.__version__)"],
        capture_output=True, text=True)
    if probe.returncode:
        die("mpi4py cannot be imported by " + python, probe.stderr.strip()[-300:],
            "Install the Debian package python3-mpi4py")
    version = probe.stdout.strip()
    cache = os.path.join(ROOT, "target", "mpi4py")
    tests = os.path.join(cache, f"mpi4py-{version}", "test")
    if os.path.exists(os.path.join(tests, "mpiunittest.py")):
        return tests, version
    os.makedirs(cache, exist_ok=True)
    archive = glob.glob(os.path.join(cache, f"mpi4py-{version}.tar.gz"))
    if not archive:
        print(f"fetching mpi4py {version} through pip", file=sys.stderr, flush=True)
        said = fetch(version, cache)
        archive = glob.glob(os.path.join(cache, f"mpi4py-{version}.tar.gz"))
        if not archive:
            die(f"the source distribution of mpi4py {version} could not be fetched",
                said, "Check pip's configuration with \"pip config list\", or put "
                f"mpi4py-{version}.tar.gz into target/mpi4py by hand")
    scratch = tempfile.mkdtemp(dir=cache)
    try:
        with tarfile.open(archive[0]) as tar:
            tar.extractall(scratch, filter="data") if hasattr(
                tarfile, "data_filter") else tar.extractall(scratch)
        os.rename(os.path.join(scratch, f"mpi4py-{version}"),
                  os.path.dirname(tests))
    except (tarfile.TarError, OSError, EOFError) as e:
        die(f"target/mpi4py/{os.path.basename(archive[0])} cannot be unpacked", e,
            "Remove the file and run again")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return tests, version


def fetch(version, cache):
    """Let pip download the archive; return what it said if it could not.

    pip insists on the metadata, which needs setuptools but no compiler.  The
    first try uses the setuptools that is installed, the second lets pip fetch
    its own."""
    said = "no pip was found"
    seen = set()
    for python in (PYTHON, sys.executable, shutil.which("python3")):
        if not python or python in seen:
            continue
        seen.add(python)
        for isolation in (["--no-build-isolation"], []):
            run = subprocess.run(
                [python, "-m", "pip", "download", "--no-deps",
                 "--no-binary", "mpi4py", *isolation, "-d", cache,
                 f"mpi4py=={version}"],
                capture_output=True, text=True)
            if run.returncode == 0:
                return ""
            said = (run.stderr.strip() or run.stdout.strip())[-600:]
    return said


# ---------------------------------------------------------------- running

def run_part(part, ranks, args, tests, launch):
    """Run one part, over hosts of a lab of its own if --hosts says so: whatever a part
    leaves running ends with its lab.  Return its outcomes by test, failed ranks told."""
    if not args.hosts or args.lab:
        return run_part_on(args.lab, part, ranks, args, tests, launch)
    # Workers, which import this file too, need none of it.
    from run_lab import Labs
    with tempfile.TemporaryDirectory(prefix="m4-lab-") as folder:
        labs = Labs(os.path.abspath(args.provider_path), folder)
        with labs.lab("--hosts", str(args.hosts), "--rails", "2") as lab:
            return run_part_on(lab.name, part, ranks, args, tests, launch)


def run_part_on(lab, part, ranks, args, tests, launch):
    about = parts_of(args.mpi)[part]
    limit = args.time_limit or about["limit"]
    directory = tempfile.mkdtemp(prefix="m4-")
    out = os.path.join(directory, "out")
    os.mkdir(out)
    config = os.path.join(directory, "config.json")
    with open(config, "w") as f:
        json.dump(dict(tests=tests, mpi=args.mpi, part=part, out=out,
                       modules=modules_of(args.mpi, part, tests),
                       thread_level=about.get("level", "multiple"),
                       mprobe=about.get("mprobe", True), only=about.get("only"),
                       is_spread=bool(lab), filter=args.filter,
                       exclusions=not args.no_exclusions), f)
    command = [*launch.command(about, ranks, lab), launch.python, "-u", RANK, config]
    started = time.monotonic()
    ended = None
    text_path = os.path.join(directory, "text")
    with open(text_path, "wb") as text:
        process = subprocess.Popen(command, stdout=text, stderr=subprocess.STDOUT,
                                   cwd=directory, env=launch.environment(about, directory),
                                   stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            code = process.wait(timeout=limit)
            if code:
                ended = f"mpirun ended with {code}"
        except subprocess.TimeoutExpired:
            ended = f"killed at its time limit of {limit} s"
        finally:
            end_group(process)
    seconds = time.monotonic() - started
    with open(text_path, errors="replace") as text:
        said = text.read()
    # What `sluice run` says at the end of an MPI of PyPI.
    reports = args.transport == "sluice" and args.mpi != "debian"
    if lab and reports and not ended and not re.search(BETWEEN_HOSTS, said):
        ended = "Sluice carried nothing from host to host"
    result = collect(out, ranks, ended)
    result["text"] = said
    result["seconds"] = seconds
    result["ended"] = ended
    shutil.rmtree(directory, ignore_errors=True)
    return result


def end_group(process):
    """End mpirun and its ranks: mpirun first ends its ranks, then all is killed."""
    if process.poll() is not None:
        return
    for number, wait in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            process.wait(timeout=wait)
            return
        except subprocess.TimeoutExpired:
            continue


def collect(out, ranks, ended):
    names, outcomes, details, stopped = [], {}, {}, []
    for rank in range(ranks):
        path = os.path.join(out, f"{rank}.log")
        if not os.path.exists(path):
            stopped.append(f"rank {rank} never started its tests")
            continue
        last, done = None, False
        with open(path) as f:
            for line in f:
                try:
                    kind, *rest = json.loads(line)
                except ValueError:
                    continue
                if kind == "list":
                    names = names or rest[0]
                elif kind == "start":
                    last = rest[0]
                elif kind == "done":
                    done = True
                else:
                    name, detail = rest
                    if name == last:
                        last = None
                    # setUpClass and module errors are no tests of the list.
                    if kind == "failed" or rank == 0 and name not in outcomes:
                        if kind == "failed" and outcomes.get(name) != "failed":
                            details[name] = f"rank {rank}: {detail}"
                        elif kind == "skipped":
                            details[name] = detail
                        outcomes[name] = kind
        if not done and last:
            stopped.append(f"rank {rank} stopped in {last}")
            outcomes[last] = "failed"
            details.setdefault(last, f"rank {rank} was in this test when the run was "
                               f"ended: {ended or 'a rank did not finish'}")
    for name in names:
        if name not in outcomes:
            # The skip of a whole class is reported by some versions only once.
            outcomes[name] = "failed"
            details[name] = "not run, because the run ended before it"
    if ended and "failed" not in outcomes.values():
        outcomes["(whole part)"] = "failed"
        details["(whole part)"] = ended
    return dict(outcomes=outcomes, details=details, stopped=stopped)


def parsed():
    """The arguments, once they make sense."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Parts, of Debian: " + ", ".join(DEBIAN) + ". Of PyPI: " + ", ".join(PYPI)
        + ". All rank counts run every part.")
    parser.add_argument("--mpi", action="append", choices=sorted(EXCLUSIONS),
                        help="under this MPI (may be repeated) [default: debian, which is "
                        "Open MPI 4.1]")
    parser.add_argument("--transport", choices=TRANSPORTS, default="sluice",
                        help="own: what the MPI takes by itself in a host; ofi-tcp: "
                        "libfabric's tcp [default: sluice]")
    parser.add_argument("--ranks", default="2,4", help="rank counts [default: 2,4]")
    parser.add_argument("--part", action="append", choices=sorted({*DEBIAN, *PYPI}),
                        help="only this part (may be repeated)")
    parser.add_argument("--filter", default="",
                        help="only tests whose name contains this (shell wildcards work)")
    parser.add_argument("--no-exclusions", action="store_true",
                        help="run what the table of exclusions leaves out as well")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS",
                        help="limit of each part instead of its own")
    parser.add_argument("--provider-path", metavar="DIR",
                        default=os.path.join(ROOT, "target", "release"),
                        help="where libsluice-fi.so is [default: target/release]")
    parser.add_argument("--rails", metavar="RAILS", help="FI_SLUICE_RAILS, with an MPI of PyPI")
    parser.add_argument("--lab", metavar="NAME", help="spread the ranks over the hosts of this "
                        "lab (sluice lab), with \"sluice\" of --provider-path")
    parser.add_argument("--hosts", type=int, metavar="N", help="how many hosts the lab has "
                        "[default: 2]; without --lab: start one of two rails for this run")
    parser.add_argument("--verbose", action="store_true", help="show what the launcher printed")
    args = parser.parse_args()
    try:
        args.counts = [int(n) for n in args.ranks.split(",")]
        assert all(n > 0 for n in args.counts)
    except (ValueError, AssertionError):
        die(f"--ranks {args.ranks}", "it is no list of rank counts", "Write it as 2,4")
    library = os.path.join(args.provider_path, "libsluice-fi.so")
    if args.transport == "sluice" and not os.path.exists(library):
        die(library, "it is not there", "Build it with \"make build\"")
    if args.hosts and not args.lab:
        from run_lab import why_not
        if reason := why_not():
            die("--hosts", reason, "Run it where \"sluice lab\" works, or without --hosts")
    return args


class Totals:
    """What became of all tests."""

    def __init__(self):
        self.by_outcome = dict(passed=0, failed=0, skipped=0)
        self.skips = {}
        self.is_stray = False

    def take(self, title, result, verbose):
        """Tells what one part came to, and adds it."""
        here = dict(passed=0, failed=0, skipped=0)
        for name, outcome in result["outcomes"].items():
            here[outcome] += 1
            self.by_outcome[outcome] += 1
            if outcome == "skipped":
                key = (name, result["details"].get(name, ""))
                self.skips.setdefault(key, []).append(title)
        print(f"{title}: {here['passed']} passed, {here['failed']} failed, "
              f"{here['skipped']} skipped, {result['seconds']:.1f} s", flush=True)
        if result["ended"]:
            self.is_stray = True
            print(f"  {title}: {result['ended']}")
        for line in result["stopped"]:
            print("  " + line)
        tell_failures(result)
        if result["text"].strip() and (verbose or here["failed"] or result["ended"]):
            print("  the launcher printed (the end of it):")
            for line in result["text"].strip().splitlines()[-25:]:
                print("    " + line)
        sys.stdout.flush()

    def end(self):
        """Tells the skips and the sum; gives the exit status."""
        if self.skips:
            print("skipped:")
        for (name, reason), where in sorted(self.skips.items()):
            print(f"  {name} [{'; '.join(where)}]: {reason}")
        passed, failed, skipped = self.by_outcome.values()
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
        return 1 if failed or self.is_stray else 0


def tell_failures(result):
    told = 0
    for name, outcome in result["outcomes"].items():
        detail = result["details"].get(name, "")
        if outcome == "failed" and not detail.startswith("not run"):
            told += 1
            if told <= 20:
                print(f"  FAILED {name}\n    " + detail.strip().replace("\n", "\n    "))
    if told > 20:
        print(f"  and {told - 20} more failed")


def run_under(args, totals):
    """Runs the parts under one MPI."""
    launch = launch_of(args)
    tests, version = suite_dir(launch.python)
    where = f" on {args.hosts} hosts" if args.hosts else ""
    print(f"mpi4py {version}, {args.mpi}, over {args.transport}, ranks {args.ranks}{where}",
          flush=True)
    for ranks in args.counts:
        for part in parts_of(args.mpi):
            if not args.part or part in args.part:
                result = run_part(part, ranks, args, tests, launch)
                totals.take(f"{args.mpi}, {part}, {ranks} ranks", result, args.verbose)


def main():
    args = parsed()
    totals = Totals()
    for mpi in args.mpi or ["debian"]:
        try:
            run_under(argparse.Namespace(**{**vars(args), "mpi": mpi}), totals)
        except Unavailable as why:
            print(f"skip {mpi}: {why}", flush=True)
            totals.by_outcome["skipped"] += 1
        except Refused as why:
            die(*why.args)
    if not any(totals.by_outcome.values()):
        die("no test ran", f"nothing matches --filter {args.filter!r}",
            "Give a part of a test's name")
    return totals.end()


if __name__ == "__main__":
    leave(main)
