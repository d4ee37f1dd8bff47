#!/usr/bin/env python3
"""Runs `sluice run` and `sluice doctor` as their users do, with Open MPI.

Each test prints one line; the last line is `N passed, N failed, N skipped`.
"""

import argparse
import contextlib
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import tempfile
import termios
import time

from run_mpi import ROOT, Suite, end_session, need
from verdicts import Failed, Skipped, Verdicts, check, leave, methods

PYTHON = "/usr/bin/python3"
LIMIT_SECONDS = 60
NOT_STARTED = 125


class Commands:
    """The tests; each method whose name begins with `test_` is one."""

    def __init__(self, build_dir, folder):
        self.tool = os.path.join(build_dir, "sluice")
        self.folder = folder
        args = argparse.Namespace(transport="sluice", build_dir=build_dir)
        self.suite = Suite(args, folder)
        broken = self.suite.build(["self", "sendrecv", "slow"])
        if broken:
            raise SystemExit(f"run_command: {broken}")
        self.program = self.suite.binary("sendrecv")
        # What the user's own environment says does not count; what Open MPI wants of
        # root and of small machines is the user's to say.
        self.env = {name: value for name, value in os.environ.items()
                    if not name.startswith(("FI_", "OMPI_"))}
        self.env.update(FI_SLUICE_TUNE="off", OMPI_MCA_rmaps_base_oversubscribe="1",
                        OMPI_MCA_hwloc_base_binding_policy="none")
        if os.geteuid() == 0:
            self.env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def call(self, *words, code=0, **env):
        """Runs the command; gives what it printed, and what it said of errors."""
        process = subprocess.Popen(
            [self.tool, *words], env=dict(self.env, **env), cwd=self.folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            errors="replace", start_new_session=True)
        try:
            out, errors = process.communicate(timeout=LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"{words} did not end in {LIMIT_SECONDS} s") from None
        finally:
            end_session(process.pid)
        if process.returncode != code:
            raise Failed(f"{words} ended with {process.returncode}, not {code}:\n{out}{errors}")
        return out, errors

    def carried(self, errors, ranks):
        found = re.search(r"^sluice: Sluice carried ([\d,]+) messages?, .* by (\d+) ranks?$",
                          errors, re.M)
        check(found and int(found[2]) == ranks and found[1] != "0", errors)

    # A launcher, a program, a Python program.

    def test_launcher(self):
        _, errors = self.call("run", "--", need("mpirun"), "-n", "2", need("NPopenmpi"), "-n", "20",
                              "-u", "1024")
        self.carried(errors, 2)
        check("Open MPI" in errors and "OMPI_MCA_pml=cm" in errors, errors)

    def test_program(self):
        _, errors = self.call("run", "-n", "2", self.program)
        self.carried(errors, 2)

    def test_mpi4py(self):
        if subprocess.run([PYTHON, "-c", "import mpi4py"], stderr=subprocess.DEVNULL).returncode:
            raise Skipped("mpi4py is not installed")
        out, errors = self.call("run", "-n", "2", PYTHON, "-m", "mpi4py.bench", "helloworld")
        check(out.count("Hello, World!") == 2, out)
        check("Open MPI" in errors and "cannot be seen" not in errors, errors)
        self.carried(errors, 2)

    def test_script_that_calls_a_launcher(self):
        script = os.path.join(self.folder, "job")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\nexec mpirun -n 2 {self.program}\n")
        os.chmod(script, 0o755)
        _, errors = self.call("run", script)
        check("is a script" in errors, errors)
        self.carried(errors, 2)

    def test_program_of_libfabric(self):
        out, errors = self.call("run", need("fi_info"), "-p", "sluice")
        check("provider: sluice" in out and "without an MPI" in errors, out + errors)

    def test_program_of_portals(self):
        source, program = (os.path.join(self.folder, name) for name in ("opens.c", "opens"))
        with open(source, "w", encoding="ascii") as file:
            file.write("#include <portals4.h>\n"
                       "int main(void) { if (PtlInit() != PTL_OK) return 1; PtlFini(); return 0; }\n")
        library = os.path.join(self.suite.providers, "libportals.so.4")
        headers = os.path.join(ROOT, "crates", "libportals", "include")
        subprocess.run([need("cc"), "-I", headers, source, library, "-o", program,
                        f"-Wl,-rpath,{self.suite.providers}"], check=True)
        _, errors = self.call("run", program)
        check("Portals without an MPI" in errors and "is not counted" in errors, errors)
        check("carried" not in errors, errors)

    # What the environment says wrongly is put right.

    def test_misspelt_provider_and_wrong_path(self):
        _, errors = self.call("run", "-n", "2", self.program, FI_PROVIDER="slucie",
                              FI_PROVIDER_PATH="/nowhere", OMPI_MCA_pml="ob1")
        check("FI_PROVIDER was slucie" in errors, errors)
        check("FI_PROVIDER_PATH=/nowhere has no" in errors, errors)
        self.carried(errors, 2)

    def test_command_line_that_leads_elsewhere(self):
        _, errors = self.call("run", "--", "mpirun", "--mca", "pml", "ob1", "-n", "2", self.program)
        check("--mca pml ob1" in errors and "Sluice carried nothing" in errors, errors)

    # The command's end, and signals on the way there.

    def test_exit_status(self):
        self.call("run", "sh", "-c", "exit 3", code=3)
        self.call("run", "sh", "-c", "kill -9 $$", code=128 + 9)
        _, errors = self.call("run", "-n", "2", "sh", "-c", "exit 4", code=4)
        check("carried nothing" in errors, errors)

    def test_signals_are_handed_on(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1):
            name = signal.Signals(number).name.removeprefix("SIG")
            wait = f"trap 'exit 9' {name}; echo ready; while :; do sleep 0.05; done"
            process = subprocess.Popen([self.tool, "run", "-q", "sh", "-c", wait], env=self.env,
                                       stdout=subprocess.PIPE, start_new_session=True)
            try:
                check(process.stdout.readline() == b"ready\n", "the command did not start")
                process.send_signal(number)
                check(process.wait(LIMIT_SECONDS) == 9, f"{name} was not handed on")
            except subprocess.TimeoutExpired:
                raise Failed(f"{name} did not end the command") from None
            finally:
                end_session(process.pid)

    def test_a_signal_of_the_whole_group_comes_once(self):
        # As a batch system does, or timeout. A launcher takes a second one for more.
        count = ("n=0; trap 'n=$((n+1)); echo $n' TERM; trap 'echo end; exit 0' USR1; "
                 "echo ready; while :; do sleep 0.05; done")
        process = subprocess.Popen([self.tool, "run", "-q", "sh", "-c", count], env=self.env,
                                   stdout=subprocess.PIPE, start_new_session=True)
        try:
            said = [process.stdout.readline()]
            os.killpg(process.pid, signal.SIGTERM)
            said.append(process.stdout.readline())
            process.send_signal(signal.SIGUSR1)
            said += process.stdout.readlines()
            check(said == [b"ready\n", b"1\n", b"end\n"], f"it said {said}")
            check(process.wait(LIMIT_SECONDS) == 0, "the command did not end")
        finally:
            end_session(process.pid)

    def test_in_a_terminal_an_interrupt_comes_once_whoever_sends_it(self):
        # From the terminal's key the command gets it directly, from `kill` through us.
        count = ("n=0; trap 'n=$((n+1)); echo $n' INT; trap 'echo end; exit 0' USR1; "
                 "echo ready; while :; do sleep 0.05; done")
        for by_key in (True, False):
            ours, theirs = os.openpty()

            def take_terminal(terminal=theirs):
                fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

            process = subprocess.Popen(
                [self.tool, "run", "-q", "sh", "-c", count], env=self.env, stdin=theirs,
                stdout=subprocess.PIPE, start_new_session=True, preexec_fn=take_terminal)
            os.close(theirs)
            try:
                said = [process.stdout.readline()]
                if by_key:
                    os.write(ours, b"\x03")
                else:
                    process.send_signal(signal.SIGINT)
                readable, _, _ = select.select([process.stdout], [], [], LIMIT_SECONDS)
                check(readable, f"an interrupt was lost ({by_key=})")
                said.append(process.stdout.readline())
                process.send_signal(signal.SIGUSR1)
                said += process.stdout.readlines()
                check(said == [b"ready\n", b"1\n", b"end\n"], f"it said {said} ({by_key=})")
                check(process.wait(LIMIT_SECONDS) == 0, "the command did not end")
            finally:
                end_session(process.pid)
                os.close(ours)

    def test_a_report_that_cannot_be_written_stops_nothing(self):
        env = dict(self.env, TMPDIR="/nowhere")
        result = subprocess.run([self.tool, "run", "sh", "-c", "exit 7"], env=env, text=True,
                                stderr=subprocess.PIPE, timeout=LIMIT_SECONDS)
        check(result.returncode == 7, f"status {result.returncode}: {result.stderr}")
        check("is not known" in result.stderr, result.stderr)

    def test_a_standard_error_that_is_gone_stops_nothing(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([self.tool, "run", "sh", "-c", "exit 7"], env=self.env,
                                    stderr=full, timeout=LIMIT_SECONDS)
        check(result.returncode == 7, f"status {result.returncode}")

    def test_a_launcher_finds_its_program_itself(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as here:
            os.symlink(self.program, os.path.join(here, "beside"))
            for words in (["beside"], ["--wdir", here, "./beside"]):
                result = subprocess.run(
                    [self.tool, "run", "--dry-run", "--", "mpirun", "-n", "1", *words],
                    env=self.env, cwd=here, text=True, stderr=subprocess.PIPE,
                    stdout=subprocess.PIPE, timeout=LIMIT_SECONDS)
                check(result.returncode == 0, f"{words}: {result.stderr}")

    def test_a_rank_that_is_killed_is_not_counted(self):
        if subprocess.run([PYTHON, "-c", "import mpi4py"], stderr=subprocess.DEVNULL).returncode:
            raise Skipped("mpi4py is not installed")
        program = ("from mpi4py import MPI; import os; MPI.COMM_WORLD.barrier(); "
                   "os.kill(os.getpid(), 9)")
        _, errors = self.call("run", "-n", "2", PYTHON, "-c", program, code=128 + 9)
        check("2 ranks opened Sluice and ended without closing it" in errors, errors)

    # Refusals and documents.

    def test_refusals(self):
        self.call("run", "--provider-path", "/nowhere", self.program, code=NOT_STARTED)
        with tempfile.TemporaryDirectory(dir=self.folder) as old:
            with open(os.path.join(old, "libsluice-fi.so"), "wb") as file:
                file.write(b"sluice-provider/0.0.1/wire-0;")
            _, errors = self.call("run", "--provider-path", old, self.program, code=NOT_STARTED)
            check("not of this version" in errors and "0.0.1" in errors, errors)

    def test_root_is_told_what_open_mpi_wants_of_it(self):
        if os.geteuid() != 0:
            raise Skipped("only root is refused")
        _, errors = self.call("run", "-n", "2", self.program, code=1, OMPI_ALLOW_RUN_AS_ROOT="")
        check("sluice: mpirun starts nothing for root" in errors, errors)

    def test_more_ranks_than_cores_take_turns(self):
        ranks = str(os.cpu_count() + 1)
        own = self.env.pop("OMPI_MCA_rmaps_base_oversubscribe")
        try:
            _, errors = self.call("run", "-n", ranks, self.program)
        finally:
            self.env["OMPI_MCA_rmaps_base_oversubscribe"] = own
        check("they take turns" in errors, errors)
        self.carried(errors, int(ranks))

    def test_more_ranks_than_cores_are_told_how_to_start(self):
        ranks = str(os.cpu_count() + 1)
        _, errors = self.call("run", "-n", ranks, self.program, code=1,
                              OMPI_MCA_rmaps_base_oversubscribe="0")
        check(f" -n {ranks} --map-by :OVERSUBSCRIBE" in errors, errors)
        oversubscribed = ["mpirun", "-n", ranks, "--map-by", ":OVERSUBSCRIBE", self.program]
        _, errors = self.call("run", "--", *oversubscribed, OMPI_MCA_rmaps_base_oversubscribe="0")
        self.carried(errors, int(ranks))

    def test_dry_run_is_a_command_for_a_shell(self):
        command, _ = self.call("run", "--dry-run", "-n", "2", self.program)
        check("OMPI_MCA_pml=cm" in command and self.program in command, command)
        report = os.path.join(self.folder, "lines")
        done = subprocess.run(["sh", "-c", command], env=dict(self.env, FI_SLUICE_REPORT=report),
                              timeout=LIMIT_SECONDS, stdin=subprocess.DEVNULL)
        check(done.returncode == 0, f"it ended with {done.returncode}")
        with open(report, encoding="ascii") as lines:
            check(sum('"close"' in line for line in lines) == 2, "it did not run over Sluice")

    def test_json(self):
        _, errors = self.call("run", "--json", "-n", "2", self.program)
        document = json.loads(errors.splitlines()[-1])
        check(document["exit_code"] == 0 and document["carried"]["ranks"] == 2, errors)
        check(document["mpi"]["family"] == "Open MPI", errors)
        planned, _ = self.call("run", "--json", "--dry-run", "-n", "2", self.program)
        check(json.loads(planned)["environment"] == document["environment"], planned)

    def test_nothing_is_left_behind(self):
        before = set(os.listdir(tempfile.gettempdir()))
        self.call("run", "-q", "-n", "2", self.program)
        fresh = set(os.listdir(tempfile.gettempdir())) - before
        check(not any(name.startswith("sluice-run-") for name in fresh), fresh)

    def test_doctor(self):
        out, _ = self.call("doctor", "--json")
        document = json.loads(out)
        check(document["faults"] == 0, out)
        found = {finding["topic"]: finding for finding in document["findings"]}
        check(found["loading of the provider"]["state"] == "ok", out)
        check("Open MPI 4.1." in found["MPI"]["detail"] or found["MPI"]["state"] == "ok", out)
        out, _ = self.call("doctor", code=1, FI_PROVIDER="slucie")
        check("was sluice meant" in out and "remedy:" in out, out)

    # What processes do, while they run and at their end.

    def shm_dir(self, name):
        """A directory in which only the processes of one test find each other."""
        path = os.path.join(self.folder, name)
        os.mkdir(path, 0o700)
        return path

    def test_top_beside_a_program(self):
        env = {"FI_SLUICE_SHM_DIR": self.shm_dir("watched")}
        out, _ = self.call("top", "--json", code=1, **env)
        check(json.loads(out)["processes"] == [], out)
        with self.running(env, self.program, "100000000") as program:
            seen = self.watch(program, env, lambda view: all(
                (process["per_second"] or {}).get("messages", 0) > 0
                for process in view["processes"]))["processes"]
            check(sorted(process["rank"] for process in seen) == [0, 1], seen)
            check({process["command"] for process in seen} == {"sendrecv"}, seen)
            for process in seen:
                stats = process["stats"]
                check(stats["pid"] == process["pid"] and stats["messages"]["bytes"] > 0, stats)
                check(any(peer["packets_in"] > 0 for peer in stats["peers"]), stats)
            one = str(seen[0]["pid"])
            out, _ = self.call("top", "--peers", "--count", "2", "--interval", "0.2", one, **env)
            lines = [line.split() for line in out.splitlines()]
            check(sum(line[:1] == [one] for line in lines) >= 4, out)
            check(all(line[:1] != [str(seen[1]["pid"])] for line in lines), out)

    def test_top_names_a_slow_receiver(self):
        env = {"FI_SLUICE_SHM_DIR": self.shm_dir("slow")}
        with self.running(env, self.suite.binary("slow")) as program:
            view = self.watch(program, env, lambda view: view["waited_for"])
            receiver = next(process["pid"] for process in view["processes"]
                            if process["rank"] == 0)
            waited_for = view["waited_for"]
            check([peer["peer"] for peer in waited_for] == [f"pid {receiver}"], view)
            check(waited_for[0]["senders"] == 1 and waited_for[0]["messages"] > 0, view)
            os.kill(receiver, signal.SIGSTOP)
            # It may have shown something just before it was stopped, and shows nothing more.
            self.watch(program, env, lambda view: {"silent"} == {
                process["state"] for process in view["processes"] if process["rank"] == 0})

    @contextlib.contextmanager
    def running(self, env, *program):
        """A program of two ranks, until the test is through."""
        process = subprocess.Popen(
            [self.tool, "run", "-q", "-n", "2", *program], env=dict(self.env, **env),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        try:
            yield process
        finally:
            end_session(process.pid)

    def watch(self, program, env, is_it):
        """What the two processes of a program show, once it is what is waited for."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < deadline:
            check(program.poll() is None, "the program has ended")
            # No process is there at first.
            done = subprocess.run([self.tool, "top", "--json", "--interval", "0.3"],
                                  env=dict(self.env, **env), text=True, capture_output=True,
                                  timeout=LIMIT_SECONDS, check=False)
            view = json.loads(done.stdout)
            if len(view["processes"]) == 2 and is_it(view):
                return view
        raise Failed(f"it was not seen: {done.stdout}{done.stderr}")

    def test_statistics_at_the_end(self):
        path = os.path.join(self.folder, "stats")
        self.call("run", "-q", "-n", "2", self.program, FI_SLUICE_STATS=f"json:{path}")
        with open(path, encoding="ascii") as file:
            all_stats = [json.loads(line) for line in file]
        check(len({stats["pid"] for stats in all_stats}) == 2, all_stats)
        check(all(stats["messages"]["announced"] > 0 for stats in all_stats), all_stats)
        for stats in all_stats:
            sent = [peer["sent"] for peer in stats["peers"]]
            total = stats["messages"]["eager"] + stats["messages"]["announced"]
            check(sum(peer["messages"] for peer in sent) == total, stats)
            check(sum(peer["eager"] for peer in sent) == stats["messages"]["eager"], stats)
            check(sum(peer["bytes"] for peer in sent) == stats["messages"]["bytes"], stats)
        by_pid = {f"pid {stats['pid']}": stats for stats in all_stats}
        for stats in all_stats:
            for peer in stats["peers"]:
                back = [of["received"] for of in by_pid[peer["peer"]]["peers"]
                        if of["peer"] == f"pid {stats['pid']}"]
                check([of["messages"] for of in back] == [peer["sent"]["messages"]], all_stats)
                check([of["bytes"] for of in back] == [peer["sent"]["bytes"]], all_stats)
        out, _ = self.call("report", path)
        with open(out.strip(), encoding="utf-8") as file:
            page = file.read()
        check("What 2 endpoints have done" in page and "<svg " in page, page)
        self.call("run", "-q", "-n", "2", self.program, FI_SLUICE_STATS=f"openmetrics:{path}-%p")
        names = [name for name in os.listdir(self.folder) if name.startswith("stats-")]
        check(len(names) == 2, names)
        for name in names:
            with open(os.path.join(self.folder, name), encoding="ascii") as file:
                text = file.read()
            check(text.endswith("# EOF\n") and "sluice_sent_bytes_total{" in text, text)
        _, errors = self.call("run", "-q", "-n", "2", self.program, FI_SLUICE_STATS="1")
        check(errors.count(" messages sent eagerly, ") == 2, errors)

    def test_traces(self):
        traces = os.path.join(self.folder, "traces")
        _, errors = self.call("trace", self.folder, code=1)
        check("has no traces" in errors, errors)
        self.call("run", "-q", "-n", "2", self.program, FI_SLUICE_TRACE=traces)
        names = os.listdir(traces)
        check(len(names) == 2 and all(name.endswith(".trace") for name in names), names)
        out, _ = self.call("trace", traces)
        rows = [line.split() for line in out.splitlines()]
        rows = [row for row in rows if row and row[0].isdigit()]
        check(any("eager:" in row for row in rows), out)
        check(any(row[-1] == "ns" and ("RTS:" in row or "RTS" in row) for row in rows), out)
        received = [row for row in rows if row[-1] == "ns"]
        check(len(received) > len(rows) // 2, out)
        out, _ = self.call("trace", traces, "--message", received[-1][0])
        for part in ("send to rank", "reads number", "receive ends", "rank 0"):
            check(part in out, out)
        check("►" in out or "◄" in out, out)
        out, _ = self.call("trace", traces, "--peer", "1")
        check("rank 0" in out and "rank 1" in out, out)
        _, errors = self.call("trace", traces, "--message", "1000000", code=1)
        check("there is no message 1000000; there are " in errors, errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", metavar="TEXT", help="only tests with it in the name")
    parser.add_argument("--build-dir", default=os.path.join(ROOT, "target", "release"),
                        help="where sluice and libsluice-fi.so are")
    args = parser.parse_args()
    # A shell lets what it starts in the background ignore it, and a command inherits that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    verdicts = Verdicts()
    with tempfile.TemporaryDirectory(prefix="sluice-command-") as folder:
        commands = Commands(os.path.abspath(args.build_dir), folder)
        for title, call in methods(commands, args.filter):
            verdicts.judge(title, call)
    return verdicts.end()


if __name__ == "__main__":
    leave(main)
