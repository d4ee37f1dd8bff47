"""The parts of mpi4py's test suite that `run_mpi4py.py` runs, and what it leaves out, by MPI."""

import fnmatch
import os

# mpi4py 3.1, which Debian has: modules, time limit in seconds, MPI thread level, Open
# MPI's one-sided component, whether mpi4py receives objects by matched probe,
# and a pattern that narrows the part.
# Open MPI 4's one-sided component over messages (osc/pt2pt) refuses
# MPI_THREAD_MULTIPLE whatever the transport is, so the parts with windows ask
# for less; Debian's configuration switches the component off, so they name it.
P2P = ["test_p2p_buf", "test_p2p_buf_matched", "test_p2p_obj",
       "test_p2p_obj_matched", "test_msgzero", "test_msgspec", "test_request",
       "test_status", "test_pack", "test_util_pkl5", "test_threads"]
DEBIAN = {
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

# mpi4py 4.1, with the MPIs of PyPI: all modules are in one part or the other.
PYPI = {
    "point-to-point": dict(modules=[*P2P, "test_p2p_buf_part"], limit=120),
    "collective": dict(modules=[
        "test_cco_buf", "test_cco_nb_buf", "test_cco_vec", "test_cco_nb_vec",
        "test_cco_ngh_buf", "test_cco_ngh_obj", "test_cco_obj", "test_cco_obj_inter",
        "test_cco_buf_inter", "test_cco_vec_inter", "test_cco_pr_buf",
        "test_cco_pr_ngh_buf", "test_cco_pr_vec"], limit=240),
    "communicator": dict(modules=["test_comm", "test_comm_inter", "test_comm_topo",
                                  "test_group", "test_session"], limit=60),
    # Over libfabric, also where the MPI has a way round it.
    "rma": dict(modules=["test_rma", "test_rma_nb"], limit=180, one_sided=True),
    "windows": dict(modules=["test_win", "test_attributes", "test_errhandler"], limit=60),
    "processes": dict(modules=["test_spawn", "test_dynproc"], limit=120),
    "files": dict(modules=["test_io", "test_file"], limit=240),
    "other": dict(modules=None, limit=240),
}


def parts_of(mpi):
    return DEBIAN if mpi == "debian" else PYPI


def modules_of(mpi, part, tests):
    """The modules of a part; `other` has those of a suite that no part names."""
    modules = parts_of(mpi)[part]["modules"]
    if modules is not None:
        return modules
    named = {module for about in PYPI.values() for module in about["modules"] or []}
    there = {name[:-3] for name in os.listdir(tests) if fnmatch.fnmatch(name, "test_*.py")}
    return sorted(there - named)


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

ANY_SOURCE = ("MPICH probes for parts of a distributed graph from any source, and then receives "
              "one from any source, its own first: another one, if that of a peer has come early")
FORTRAN = "it asks for types that a system without a Fortran compiler lacks"
UNBOUNDED = ("Intel MPI says that a window of attached memory has the size -1 where a provider "
             "lets it expose all memory; with FI_PROVIDER=shm too")
REVOKED = ("Open MPI has fault tolerance only where its launcher is told so (--with-ft), over any "
           "transport")

# Every exclusion: part, pattern of the test's name, where (None is everywhere, else
# only where ranks are spread over hosts), reason.  Each reason holds for the MPI
# without Sluice too, and "--transport ofi-tcp --no-exclusions --filter NAME" shows it, but for
# ANY_SOURCE, which is a race, and UNBOUNDED, which takes another provider.
EXCLUSIONS = {
    "debian": [
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
    ],
    "mpich": [
        ("communicator", "test_comm_topo.TestTopoWorld*.testDistgraphcomm", None, ANY_SOURCE),
        ("other", "test_mpiabi.TestMPIABI.testGetFortranInfo", None, FORTRAN),
    ],
    "impi": [
        *(("windows", f"test_win.TestWinCreateDynamic*.{name}", None, UNBOUNDED)
          for name in ("testAttachDetach", "testAttributes", "testGetAttr", "testMemory")),
        ("other", "test_mpiabi.TestMPIABI.testGetFortranInfo", None, FORTRAN),
    ],
    "openmpi": [
        ("other", "test_ulfm.TestULFM*.testRevoke", None, REVOKED),
    ],
}


def exclusion(mpi, name, is_spread, part):
    """Why a test is left out of a part, or None."""
    for of, pattern, where, reason in EXCLUSIONS[mpi]:
        if (of == part and (where is None or is_spread)
                and fnmatch.fnmatchcase(name, pattern)):
            return reason
    return None
