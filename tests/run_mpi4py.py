#!/usr/bin/env python3
"""Run mpi4py's own test suite under Open MPI, over Sluice or over its peer.

The source distribution that matches the installed Debian package
python3-mpi4py is fetched through pip as it is configured, kept in
target/mpi4py, and its tests run with the system's Python under mpirun.
The last line reads "N passed, N failed, N skipped": the tests of rank 0, summed
over all parts and rank counts.  A test that fails on any rank is a failure.
"""

import argparse
import fnmatch
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

from verdicts import leave

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = "/usr/bin/python3"

# The parts of the suite: modules, time limit in seconds, MPI thread level, Open
# MPI's one-sided component, whether mpi4py receives objects by matched probe,
# and a pattern that narrows the part.
# Open MPI 4's one-sided component over messages (osc/pt2pt) refuses
# MPI_THREAD_MULTIPLE whatever the transport is, so the parts with windows ask
# for less; Debian's configuration switches the component off, so they name it.
P2P = ["test_p2p_buf", "test_p2p_buf_matched", "test_p2p_obj",
       "test_p2p_obj_matched", "test_msgzero", "test_msgspec", "test_request",
       "test_status", "test_pack", "test_util_pkl5", "test_threads"]
PARTS = {
    "point-to-point": dict(modules=P2P, limit=60),
    # What point-to-point excludes runs here, without matched probes.
    "synchronous": dict(modules=["test_p2p_obj"], limit=40,
                        mprobe=False, only="excluded from point-to-point"),
    "collective": dict(modules=[
        "test_cco_buf", "test_cco_nb_buf", "test_cco_vec", "test_cco_nb_vec",
        "test_cco_ngh_buf", "test_cco_ngh_obj", "test_cco_obj",
        "test_cco_obj_inter"], limit=150),
    "communicator": dict(modules=["test_comm", "test_comm_inter", "test_comm_topo",
                                  "test_group"], limit=40),
    "rma": dict(modules=["test_rma", "test_rma_nb"], limit=120,
                level="serialized", osc="pt2pt"),
    "windows": dict(modules=["test_win", "test_attributes", "test_errhandler"],
                    limit=40, level="serialized", osc="^ucx"),
}

MRECV = ("a synchronous send that MPI_Mrecv receives never completes: Open MPI 4's "
         "mtl/ofi sends no acknowledgement then, over any libfabric provider")
BOTTOM = ("MPI_Alltoallw from MPI_BOTTOM crashes in Open MPI 4's mtl/ofi, over any "
          "libfabric provider")

CANCEL = ("MPI_Cancel of a send crashes or fails inside Open MPI 4's mtl/ofi, over any "
          "libfabric provider")
MANY = ("the test expects that sends which MPI_Testall found unfinished stay so until "
        "they are received; with Open MPI 4's mtl/ofi they finish in that very call, "
        "over any libfabric provider")

SHARED = ("it makes a window of shared memory of all ranks: MPI has that only for ranks "
          "of one host")

# Every exclusion: part, pattern of the test's name, where (None is everywhere, else
# only where ranks are spread over hosts), reason.  Each reason holds for Open MPI
# without Sluice too, and "--transport ofi-tcp --no-exclusions --filter NAME" shows it.
EXCLUSIONS = [
    *(("point-to-point", f"test_p2p_obj.TestP2PObj{name}", None, MRECV)
      for name in ("*.testISSendAndRecv", "*.testProbe", "*.testWaitSomeSend",
                   "*.testTestSomeSend", "World*.testSSendAndRecv")),
    *(("point-to-point", f"test_util_pkl5.Test{name}", None, MRECV)
      for name in ("*.testMProbe", "*.testIMProbe", "*.testMessageProbeIProbe",
                   "*.testWaitAll", "*World.testSSendAndMProbe",
                   "MPIWorld.testSSendAndRecv", "MPI*.testISSendAndRecv",
                   "MPI*.testProbe", "MPI*.testTestAll")),
    ("point-to-point", "test_p2p_obj.TestP2PObj*.testCancel", None, CANCEL),
    ("point-to-point", "test_util_pkl5.Test*.testISSendCancel", None, CANCEL),
    ("point-to-point", "test_p2p_buf.TestP2PBuf*.testProbeCancel", None, CANCEL),
    ("point-to-point", "test_p2p_obj.TestP2PObj*.testManyISendAndRecv", None, MANY),
    ("synchronous", "test_p2p_obj.TestP2PObj*.testCancel", None, CANCEL),
    ("synchronous", "test_p2p_obj.TestP2PObj*.testManyISendAndRecv", None, MANY),
    ("collective", "test_cco_vec.TestCCOVecWorld*.testAlltoallwBottom", None, BOTTOM),
    ("windows", "test_win.TestWinAllocateSharedWorld.*", "hosts", SHARED),
]

# Nothing may go round the transport under test: Sluice gets no other path
# between processes, and windows are made over messages where MPI permits it.
TRANSPORTS = {
    "sluice": ["--mca", "pml", "cm", "--mca", "mtl", "ofi",
               "--mca", "mtl_ofi_provider_include", "sluice",
               "--mca", "btl", "self"],
    "vader": ["--mca", "pml", "ob1", "--mca", "btl", "self,vader"],
    # The same component of Open MPI (mtl/ofi) over libfabric's own provider: it
    # tells a limit of that component from a fault of Sluice.
    "ofi-tcp": ["--mca", "pml", "cm", "--mca", "mtl", "ofi",
                "--mca", "mtl_ofi_provider_include", "tcp;ofi_rxm",
                "--mca", "btl", "self"],
}


def die(what, cause, step):
    sys.exit(f"run_mpi4py: {what}: {cause}. {step}")


# ---------------------------------------------------------------- one rank

class Recorder(unittest.TestResult):
    """Writes each test's start and outcome as a line of JSON, at once."""

    def __init__(self, path):
        super().__init__()
        self.out = open(path, "w", buffering=1)
        self.bad_subtest = None

    def emit(self, *fields):
        self.out.write(json.dumps(fields) + "\n")

    def startTest(self, test):
        super().startTest(test)
        self.bad_subtest = None
        self.emit("start", test.id())

    def addSuccess(self, test):
        self.emit("passed", test.id(), "")

    def addSkip(self, test, reason):
        self.emit("skipped", test.id(), reason)

    def addFailure(self, test, err):
        self.emit("failed", test.id(), self._exc_info_to_string(err, test))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        # One subtest is told; unittest then reports no success for the whole.
        if err is not None and self.bad_subtest is None:
            self.bad_subtest = subtest
            self.emit("failed", test.id(),
                      f"{subtest}\n{self._exc_info_to_string(err, test)}")

    def addExpectedFailure(self, test, err):
        self.emit("passed", test.id(), "")

    def addUnexpectedSuccess(self, test):
        self.emit("failed", test.id(), "an expected failure did not happen")


def flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from flatten(item)
        else:
            yield item


def worker(config_path):
    """Run one part inside an MPI process."""
    with open(config_path) as f:
        config = json.load(f)
    sys.dont_write_bytecode = True
    sys.path.insert(0, config["tests"])
    for name in ("cupy", "numba"):
        sys.modules[name] = None
    import mpi4py
    mpi4py.rc.thread_level = config["thread_level"]
    mpi4py.rc.recv_mprobe = config["mprobe"]
    from mpi4py import MPI
    rank = MPI.COMM_WORLD.Get_rank()
    loader = unittest.TestLoader()
    recorder = Recorder(os.path.join(config["out"], f"{rank}.log"))
    chosen = []
    for module in config["modules"]:
        chosen.extend(flatten(loader.loadTestsFromName(module)))
    if config["only"]:
        chosen = [t for t in chosen
                  if exclusion(t.id(), config["is_spread"], "point-to-point")]
    if config["filter"]:
        chosen = [t for t in chosen if matches(t.id(), config["filter"])]
    recorder.emit("list", [t.id() for t in chosen])
    suite = unittest.TestSuite()
    for test in chosen:
        reason = exclusion(
            test.id(), config["is_spread"], config["part"]) if config["exclusions"] else None
        if reason:
            recorder.emit("skipped", test.id(), "excluded here: " + reason)
        else:
            suite.addTest(test)
    # Sequences of communicators must be the same on all ranks from the first.
    MPI.COMM_WORLD.Barrier()
    suite.run(recorder)
    MPI.COMM_WORLD.Barrier()
    recorder.emit("done")


def matches(name, pattern):
    return fnmatch.fnmatchcase(name, f"*{pattern}*")


def exclusion(name, is_spread, part):
    for of, pattern, where, reason in EXCLUSIONS:
        if (of == part and (where is None or is_spread)
                and fnmatch.fnmatchcase(name, pattern)):
            return reason
    return None


# ---------------------------------------------------------------- the suite

def suite_dir():
    """Return the directory of the tests, fetching the source if need be."""
    probe = subprocess.run(
        [PYTHON, "-c", "import mpi4py; print(mpi4py.__version__)"],
        capture_output=True, text=True)
    if probe.returncode:
        die("mpi4py cannot be imported by " + PYTHON, probe.stderr.strip()[-300:],
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

def environment(directory):
    env = dict(os.environ, OMPI_MCA_mpi_yield_when_idle="1",
               PYTHONDONTWRITEBYTECODE="1", TMPDIR=directory,
               OMPI_MCA_orte_tmpdir_base=directory)
    # A Python environment of the caller must not shadow the system's mpi4py.
    for name in ("PYTHONPATH", "PYTHONHOME"):
        env.pop(name, None)
    if os.geteuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


def run_part(part, ranks, args, tests):
    """Run one part, over hosts of a lab of its own if --hosts says so: whatever a part
    leaves running ends with its lab.  Return its outcomes by test, failed ranks told."""
    if not args.hosts or args.lab:
        return run_part_on(args.lab, part, ranks, args, tests)
    # Workers, which import this file too, need none of it.
    from run_lab import Labs
    with tempfile.TemporaryDirectory(prefix="m4-lab-") as folder:
        labs = Labs(os.path.abspath(args.provider_path), folder)
        with labs.lab("--hosts", str(args.hosts), "--rails", "2") as lab:
            return run_part_on(lab.name, part, ranks, args, tests)


def run_part_on(lab, part, ranks, args, tests):
    about = PARTS[part]
    limit = args.time_limit or about["limit"]
    directory = tempfile.mkdtemp(prefix="m4-")
    out = os.path.join(directory, "out")
    os.mkdir(out)
    config = os.path.join(directory, "config.json")
    with open(config, "w") as f:
        json.dump(dict(tests=tests, part=part, modules=about["modules"], out=out,
                       thread_level=about.get("level", "multiple"),
                       mprobe=about.get("mprobe", True), only=about.get("only"),
                       is_spread=bool(lab), filter=args.filter,
                       exclusions=not args.no_exclusions), f)
    command = [shutil.which("mpirun.openmpi"), "--oversubscribe", "--bind-to", "none",
               "-n", str(ranks), *TRANSPORTS[args.transport]]
    if lab:
        tool = os.path.join(os.path.abspath(args.provider_path), "sluice")
        hosts = args.hosts or 2
        counts = [ranks // hosts + (host < ranks % hosts) for host in range(hosts)]
        slots = ",".join(f"h{host}:{count}" for host, count in enumerate(counts) if count)
        command = [tool, "lab", "exec", "--name", lab, "head", "--", *command,
                   "--host", slots]
    if "osc" in about:
        command += ["--mca", "osc", about["osc"]]
    if args.transport == "sluice":
        command += ["-x", "FI_PROVIDER_PATH=" + os.path.abspath(args.provider_path)]
        command += ["-x", "FI_SLUICE_TUNE=off"]
    command += [PYTHON, "-u", os.path.abspath(__file__), "--worker", config]
    started = time.monotonic()
    ended = None
    text_path = os.path.join(directory, "text")
    with open(text_path, "wb") as text:
        process = subprocess.Popen(command, stdout=text, stderr=subprocess.STDOUT,
                                   cwd=directory, env=environment(directory),
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
    result = collect(out, ranks, ended)
    with open(text_path, errors="replace") as text:
        result["text"] = text.read()
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


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Parts: " + ", ".join(PARTS) + ". Both rank counts run every part.")
    parser.add_argument("--transport", choices=sorted(TRANSPORTS), default="sluice")
    parser.add_argument("--ranks", default="2,4", help="rank counts [default: 2,4]")
    parser.add_argument("--part", action="append", choices=list(PARTS),
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
    parser.add_argument("--lab", metavar="NAME", help="spread the ranks over the hosts of this "
                        "lab (sluice lab), with \"sluice\" of --provider-path")
    parser.add_argument("--hosts", type=int, metavar="N", help="how many hosts the lab has "
                        "[default: 2]; without --lab: start one of two rails for this run")
    parser.add_argument("--verbose", action="store_true", help="show what mpirun printed")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        return worker(args.worker)

    try:
        counts = [int(n) for n in args.ranks.split(",")]
        assert all(n > 0 for n in counts)
    except (ValueError, AssertionError):
        die(f"--ranks {args.ranks}", "it is no list of rank counts", "Write it as 2,4")
    if not os.access(PYTHON, os.X_OK):
        die(PYTHON, "it is not there", "Install the Debian package python3")
    if not shutil.which("mpirun.openmpi"):
        die("mpirun.openmpi", "it is not there",
            "Install the Debian package openmpi-bin")
    library = os.path.join(args.provider_path, "libsluice-fi.so")
    if args.transport == "sluice" and not os.path.exists(library):
        die(library, "it is not there", "Build it with \"cargo build --release\"")
    if args.hosts and not args.lab:
        from run_lab import why_not
        if reason := why_not():
            die("--hosts", reason, "Run it where \"sluice lab\" works, or without --hosts")

    tests, version = suite_dir()
    where = f" on {args.hosts} hosts" if args.hosts else ""
    print(f"mpi4py {version} over {args.transport}, ranks {args.ranks}{where}", flush=True)
    total = dict(passed=0, failed=0, skipped=0)
    skips = {}
    stray = False
    for ranks in counts:
        for part in args.part or PARTS:
            result = run_part(part, ranks, args, tests)
            here = dict(passed=0, failed=0, skipped=0)
            for name, outcome in result["outcomes"].items():
                here[outcome] += 1
                total[outcome] += 1
                if outcome == "skipped":
                    key = (name, result["details"].get(name, ""))
                    skips.setdefault(key, []).append(ranks)
            print(f"{part}, {ranks} ranks: {here['passed']} passed, "
                  f"{here['failed']} failed, {here['skipped']} skipped, "
                  f"{result['seconds']:.1f} s", flush=True)
            if result["ended"]:
                stray = True
                print(f"  {part}, {ranks} ranks: {result['ended']}")
            for line in result["stopped"]:
                print("  " + line)
            told = 0
            for name, outcome in result["outcomes"].items():
                detail = result["details"].get(name, "")
                if outcome == "failed" and not detail.startswith("not run"):
                    told += 1
                    if told <= 20:
                        print(f"  FAILED {name}\n    "
                              + detail.strip().replace("\n", "\n    "))
            if told > 20:
                print(f"  and {told - 20} more failed")
            if result["text"].strip() and (args.verbose or here["failed"] or result["ended"]):
                print("  mpirun printed (the end of it):")
                for line in result["text"].strip().splitlines()[-25:]:
                    print("    " + line)
            sys.stdout.flush()
    if skips:
        print("skipped:")
        for (name, reason), where in sorted(skips.items()):
            print(f"  {name} [{','.join(map(str, where))} ranks]: {reason}")
    if not any(total.values()):
        die("no test ran", f"nothing matches --filter {args.filter!r}",
            "Give a part of a test's name")
    print(f"{total['passed']} passed, {total['failed']} failed, {total['skipped']} skipped")
    return 1 if total["failed"] or stray else 0


if __name__ == "__main__":
    leave(main)
