#!/usr/bin/env python3
"""Packs what was built as a wheel and as Debian packages, installs them, and uses them.

The wheel is installed by pip into new environments below target/packages, each with an MPI of PyPI
and mpi4py. There `sluice run -n 2 python -m mpi4py.bench ringtest` has to be carried by the
provider of the wheel, with no variable set. Then the same where the system has no libfabric. The
Debian packages have to pass lintian, and are installed into a root of their own.
"""

import argparse
import contextlib
import glob
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor

from run_mpi import ROOT, run, tail
from run_mpis import MPIS, carried_by, environment, pip_install
from verdicts import Failed, Skipped, Verdicts, check, leave

sys.path.insert(0, os.path.join(ROOT, "packaging"))
import wheel  # noqa: E402

FOLDER = os.path.join(ROOT, "target", "packages")
LIMIT_SECONDS = 60
BUILD_SECONDS_MAX = 120
RING = ["sluice", "run", "-n", "2", "python", "-m", "mpi4py.bench", "ringtest"]
# What the Debian packages have, beside documents and manual pages.
DEB_FILES = {
    "sluice-mpi": {"bin/sluice", "LIB/libfabric/libsluice-fi.so",
                   "share/bash-completion/completions/sluice",
                   "share/fish/vendor_completions.d/sluice.fish",
                   "share/zsh/vendor-completions/_sluice"},
    "libportals4": {"LIB/libportals.so.4"},
    "libportals-dev": {"include/portals4.h", "include/sluice_job.h", "LIB/libportals.so",
                       "LIB/pkgconfig/portals4.pc"},
}
MULTIARCH = sysconfig.get_config_var("MULTIARCH") or f"{os.uname().machine}-linux-gnu"
# What packs, and what tests it, of Debian.
TOOLS = ("debhelper", "dpkg-dev", "lintian", "environment-modules")


def output(command, limit=LIMIT_SECONDS, env=None, cwd=ROOT):
    """What a command prints, both ways."""
    try:
        got = subprocess.run(command, cwd=cwd, env=env, text=True, timeout=limit,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
    except FileNotFoundError as why:
        raise Failed(str(why)) from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)} did not end in {limit} s") from None
    check(got.returncode == 0, f"{' '.join(command)} ended with {got.returncode}:\n{got.stdout}")
    return got.stdout


def files_below(top):
    """The files and links below a folder, but those of Python's cache."""
    return {os.path.relpath(os.path.join(place, name), top)
            for place, _, names in os.walk(top) for name in names if not name.endswith(".pyc")}


class Wheel:
    """The wheel, and environments with an MPI of PyPI and mpi4py where it is installed."""

    def __init__(self, folder):
        self.folder = folder
        self.path = None

    def build(self):
        """It is the same in every byte if it is packed again."""
        try:
            first, self.path = [wheel.build(os.path.join(FOLDER, name)) for name in ("again", "wheel")]
        except wheel.Refused as why:
            raise Failed(str(why)) from None
        with open(first, "rb") as one, open(self.path, "rb") as other:
            check(one.read() == other.read(), "two wheels of the same files differ")
        return os.path.basename(self.path)

    def place(self, mpi):
        return os.path.join(FOLDER, mpi.name)

    def prepare(self):
        """Environments with the MPIs that the wheel has as extras, side by side, as pip mostly
        waits. Gives why one is not there."""
        def install(mpi):
            try:
                pip_install(self.place(mpi), [wheel.EXTRAS[mpi.name], "mpi4py"])
                return mpi.name, ""
            except Skipped as why:
                return mpi.name, str(why)

        with ThreadPoolExecutor() as pool:
            return dict(pool.map(install, MPIS))

    def environment(self, mpi):
        """As `activate` of the environment makes it."""
        env = environment(mpi, self.folder, {"VIRTUAL_ENV": self.place(mpi), "FI_SLUICE_TUNE": "off"})
        env["PATH"] = os.path.join(self.place(mpi), "bin") + os.pathsep + env["PATH"]
        return env

    def install(self, mpi):
        """pip takes it, and what it asks for is there already."""
        pip = os.path.join(self.place(mpi), "bin", "pip")
        output([pip, "install", "-q", "--no-input", f"{self.path}[{mpi.name}]"])
        output([pip, "check"])

    def ring(self, mpi, before=()):
        """The ring, over the provider of the wheel; gives what sluice run said of it."""
        _, said, _ = run([*before, *RING], self.folder, LIMIT_SECONDS, self.environment(mpi))
        check(re.search(r"time for 1 loops = \S+ seconds \(2 processes", said), tail(said))
        check(carried_by(said) == 2, tail(said))
        for mine in (f"FI_PROVIDER_PATH={self.place(mpi)}/lib/libfabric ",
                     f"({self.place(mpi)}/lib/libmpi.so"):
            check(mine in said, tail(said))
        return next(line for line in said.splitlines() if "Sluice carried" in line)

    def ring_without_libfabric(self, mpi):
        """The same where the MPI's own libfabric is the only one."""
        with hidden(f"/usr/lib/{MULTIARCH}", "libfabric.so*", self.folder) as before:
            self.ring(mpi, before)

    def doctor(self, mpi):
        """It finds the provider, and names no fault of it, by way of Python too."""
        command = ["python", "-m", "sluice_mpi", "doctor", "--all", "--json"]
        got = subprocess.run(command, cwd=self.folder, env=self.environment(mpi), text=True,
                             capture_output=True, timeout=LIMIT_SECONDS)
        findings = [one for one in json.loads(got.stdout)["findings"] if one["topic"] == "provider"]
        where = f"{self.place(mpi)}/lib/libfabric/libsluice-fi.so"
        check(len(findings) == 1 and findings[0]["state"] == "ok" and where in findings[0]["detail"],
              f"{got.stdout}{got.stderr}")

    def portals(self, mpi):
        """A Portals program is compiled with what pkg-config says, and finds the library."""
        lib = os.path.join(self.place(mpi), "lib")
        env = {**self.environment(mpi), "PKG_CONFIG_PATH": os.path.join(lib, "pkgconfig")}
        flags = output(["pkg-config", "--cflags", "--libs", "portals4"], env=env).split()
        program = os.path.join(self.folder, "hello")
        source = os.path.join(ROOT, "examples", "portals", "hello.c")
        output(["cc", source, *flags, f"-Wl,-rpath,{lib}", "-o", program])
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        alone = {**env, "SLUICE_JOB": f"127.0.0.1:{port}", "SLUICE_JOB_KEY": "of this test",
                 "SLUICE_JOB_SIZE": "1", "SLUICE_JOB_RANK": "0"}
        check("rank 0" in output([program], env=alone), "no greeting")
        check(f"{lib}/libportals.so.4" in output(["ldd", program]), "another library is found")

    def remove(self, mpi):
        """pip removes every file of it."""
        before = files_below(self.place(mpi))
        output([os.path.join(self.place(mpi), "bin", "pip"), "uninstall", "-q", "-y", "sluice-mpi"])
        left = files_below(self.place(mpi))
        mine = [name for name in left if "sluice" in name or "portals" in name.lower()]
        check(before > left and not mine, f"left: {mine}")


@contextlib.contextmanager
def hidden(folder, pattern, scratch):
    """The beginning of a command for which the files of a pattern are not in a folder."""
    if os.geteuid() != 0:
        raise Skipped("hiding the system's libfabric needs root")
    upper, work = (os.path.join(scratch, name) for name in ("upper", "work"))
    for path in (upper, work):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
    try:
        # In an overlay a device of this number hides the file of its name.
        for path in glob.glob(os.path.join(folder, pattern)):
            os.mknod(os.path.join(upper, os.path.basename(path)), 0o020000)
    except PermissionError as why:
        raise Skipped(f"hiding the system's libfabric: {why}") from None
    script = (f"mount -t overlay -o lowerdir={folder},upperdir={upper},workdir={work} none {folder}"
              " && exec \"$@\"")
    before = ["unshare", "--mount", "sh", "-c", script, "sh"]
    got = subprocess.run([*before, "ls", folder], capture_output=True, text=True)
    if got.returncode:
        raise Skipped(f"hiding the system's libfabric: {got.stderr.strip()}")
    check("libfabric.so" not in got.stdout, "it is not hidden")
    yield before


def debian_is_here():
    lacking = [tool for tool in ("dpkg-buildpackage", "dh", "lintian") if not shutil.which(tool)]
    if lacking:
        raise Skipped(f"not installed: {', '.join(lacking)}")


class Debian:
    """The Debian packages."""

    def __init__(self, folder):
        self.folder = folder
        self.debs = {}

    def build(self):
        """They have the files that they should have, and documents."""
        debian_is_here()
        said = output([os.path.join(ROOT, "packaging", "deb.sh")], BUILD_SECONDS_MAX)
        debs = {os.path.basename(path).split("_")[0]: path for path in said.split()}
        check(set(debs) == set(DEB_FILES), said)
        for name, path in debs.items():
            lines = output(["dpkg-deb", "--contents", path]).splitlines()
            names = {line.split()[5].removeprefix("./usr/").replace(f"lib/{MULTIARCH}/", "LIB/")
                     for line in lines if not line.startswith("d")}
            documents = {one for one in names if one.startswith(("share/doc/", "share/man/"))}
            check(names - documents == DEB_FILES[name], f"{name}: {sorted(names - documents)}")
            wanted = {f"share/doc/{name}/copyright", f"share/doc/{name}/changelog.gz"}
            check(wanted < documents, f"{name}: {sorted(documents)}")
        needed = output(["dpkg-deb", "--field", debs["sluice-mpi"], "Depends"])
        check("libfabric1 (>= 1.17)" in needed and "libc6 (>=" in needed, needed)
        self.debs = debs

    def lintian(self):
        """lintian has neither an error nor a warning."""
        said = output(["lintian", "--allow-root", "--fail-on", "error,warning", *self.debs.values()])
        check(not re.search("^[EW]:", said, re.M), said)

    def install(self):
        """In a root of its own the command finds the provider; removal leaves nothing."""
        if os.geteuid() != 0:
            raise Skipped("installing needs root")
        root = os.path.join(self.folder, "root")
        os.makedirs(os.path.join(root, "var", "lib", "dpkg"))
        for name in ("status", "available"):
            open(os.path.join(root, "var", "lib", "dpkg", name), "w", encoding="ascii").close()
        # Depends is not for this root: the command runs with the libraries of the machine.
        dpkg = ["dpkg", f"--root={root}", "--force-depends", f"--log={self.folder}/dpkg.log"]
        output([*dpkg, "--install", *self.debs.values()])
        env = {name: value for name, value in os.environ.items() if not name.startswith("FI_")}
        got = subprocess.run([f"{root}/usr/bin/sluice", "doctor", "--all", "--json"], env=env,
                             text=True, capture_output=True, timeout=LIMIT_SECONDS)
        details = [one["detail"] for one in json.loads(got.stdout)["findings"]
                   if one["topic"] in ("provider", "loading of the provider")]
        where = f"{root}/usr/lib/{MULTIARCH}/libfabric/libsluice-fi.so"
        check(len(details) == 2 and where in details[0] and details[1].endswith("loads it"),
              f"{details}")
        output([*dpkg, "--purge", *self.debs])
        left = {name for name in files_below(root) if not name.startswith("var/lib/dpkg/")}
        check(not left, f"left: {sorted(left)}")


def module_file(folder):
    """`module load` of what `make install` has leads to it."""
    modules = shutil.which("modulecmd")
    if not modules:
        raise Skipped("Environment Modules is not installed")
    prefix = os.path.join(folder, "opt", "sluice")
    output([os.path.join(ROOT, "scripts", "install.sh"), "", prefix])
    env = {**os.environ, "MODULEPATH": os.path.join(prefix, "share", "modulefiles")}
    env.pop("FI_PROVIDER_PATH", None)
    said = output([modules, "bash", "load", "sluice"], env=env)
    for name, where in (("FI_PROVIDER_PATH", "lib/libfabric"), ("PATH", "bin"),
                        ("LD_LIBRARY_PATH", "lib"), ("PKG_CONFIG_PATH", "lib/pkgconfig")):
        check(re.search(rf"^{name}='?{prefix}/{where}[:;']", said, re.M), said)


def recipes():
    """Spack's is Python, and conda's is of this version."""
    packaging = os.path.join(ROOT, "packaging")
    spack = os.path.join(packaging, "spack_repo", "sluice", "packages", "sluice_mpi", "package.py")
    with open(spack, encoding="utf-8") as file:
        try:
            compile(file.read(), spack, "exec")
        except SyntaxError as why:
            raise Failed(str(why)) from None
    with open(os.path.join(packaging, "conda", "recipe.yaml"), encoding="utf-8") as file:
        check(f'version: "{wheel.version()}"' in file.read(), "another version")


def prepare():
    """What is packed beside the build: manual pages, licences; and the tools that pack."""
    output(["scripts/deps.sh", *TOOLS], BUILD_SECONDS_MAX)
    output([sys.executable, "crates/libportals/scripts/man.py"])
    output(["target/release/sluice", "man", "target/man/man1"])
    output([sys.executable, "packaging/notices.py"])


def test_wheel(verdicts, folder):
    """Judges the wheel."""
    ours = Wheel(folder)
    verdict = verdicts.judge("the wheel is packed, twice the same", ours.build)
    lacking = ours.prepare() if verdict == "ok" else {}
    for mpi in MPIS:
        why = lacking.get(mpi.name, "the wheel is not there")
        got = verdicts.judge(f"the wheel beside {mpi.title}: pip takes it",
                             lambda: ours.install(mpi), why_not=why)
        why = "" if got == "ok" else "it is not installed"
        for title, test in (("ring", ours.ring),
                            ("ring without the system's libfabric", ours.ring_without_libfabric),
                            ("sluice doctor", ours.doctor), ("a Portals program", ours.portals),
                            ("pip removes it", ours.remove)):
            verdicts.judge(f"the wheel beside {mpi.title}: {title}", lambda: test(mpi), why_not=why)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    verdicts = Verdicts(parser.parse_args().json)
    with tempfile.TemporaryDirectory(prefix="sluice-packages-") as folder:
        verdicts.judge("what is packed is there", prepare)
        test_wheel(verdicts, folder)
        debian = Debian(folder)
        got = verdicts.judge("Debian packages are built", debian.build)
        why = "" if got == "ok" else "they are not there"
        verdicts.judge("Debian packages pass lintian", debian.lintian, why_not=why)
        verdicts.judge("Debian packages are installed and removed", debian.install, why_not=why)
        verdicts.judge("a module file leads to the installation", lambda: module_file(folder))
        verdicts.judge("recipes for Spack and conda are in order", recipes)
    return verdicts.end()


if __name__ == "__main__":
    leave(main)
