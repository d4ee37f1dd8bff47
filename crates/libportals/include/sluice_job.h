/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * sluice_job.h: starting a parallel Portals program without a launcher's library.
 *
 * Portals moves data between processes, but does not say which processes there
 * are. These functions do: they find the job's other processes with the help of
 * whatever launched them, and exchange what is needed to set a Portals map.
 *
 *   launched by                                          found by
 *   mpiexec of MPICH or MVAPICH, other PMI-1 managers    PMI_FD in the environment
 *   mpirun or prterun of Open MPI, srun --mpi=pmix       PMIX_NAMESPACE, with libpmix.so
 *   anything else, with these variables set              SLUICE_JOB=host:port  where rank 0 listens
 *                                                        SLUICE_JOB_KEY=words  a secret of the job
 *                                                        SLUICE_JOB_RANK=n     from 0
 *                                                        SLUICE_JOB_SIZE=n
 *   nothing                                              a job of one process
 *
 * The processes may be on several hosts: see SluiceJobExchange.
 *
 * Each wait ends after SLUICE_JOB_TIMEOUT_S seconds (120 if not set). Messages to this process
 * arrive meanwhile, also with PTL_PROGRESS=poll.
 *
 * All functions but SluiceJobError, SluiceJobPeers and SluiceJobAbort are collective:
 * every process of the job calls them in the same order. They are meant for start and
 * end, not for speed, and one thread at a time may be in them. After a failure the
 * job's processes no longer agree, and every further call fails too.
 *
 * The format of the comments is that of portals4.h.
 */
#ifndef SLUICE_JOB_H
#define SLUICE_JOB_H

#include <stddef.h>

#include "portals4.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most that one process may contribute to one SluiceJobExchange, in bytes. */
#define SLUICE_JOB_BLOB_MAX 1048576

/**
 * @brief Join the job.
 * @param[out] rank  number of this process in the job, from 0; or NULL
 * @param[out] size  number of processes of the job; or NULL
 * @retval PTL_OK           This process is part of the job.
 * @retval PTL_FAIL         The others were not found; SluiceJobError says why.
 * @retval PTL_ARG_INVALID  The environment contradicts itself; SluiceJobError says where.
 * @note PtlInit is not needed before. To call it again gives the same answer.
 * @see SluiceJobMap SluiceJobFini
 */
int SluiceJobInit(int *rank, int *size);

/**
 * @brief Give some bytes to every process of the job, and get those of all.
 * @param[in] mine   this process's bytes
 * @param[in] bytes  number of them, the same in every process, up to SLUICE_JOB_BLOB_MAX
 * @param[out] all   room for size times bytes, in which rank r's begin at r times bytes
 * @retval PTL_OK           all is filled.
 * @retval PTL_NO_INIT      SluiceJobInit has not been called.
 * @retval PTL_ARG_INVALID  A pointer is NULL although bytes is not 0, or bytes is too great.
 * @retval PTL_FAIL         The exchange failed; SluiceJobError says why.
 * @note It also tells where the interfaces of this process are that were opened since the last
 *   exchange. Processes on other hosts reach no interface that they were not told of.
 * @see SluiceJobBarrier
 */
int SluiceJobExchange(const void *mine, size_t bytes, void *all);

/**
 * @brief Wait until every process of the job is here.
 * @retval PTL_OK       They are.
 * @retval PTL_NO_INIT  SluiceJobInit has not been called.
 * @retval PTL_FAIL     They did not come in time, or the launcher failed; SluiceJobError says why.
 * @see SluiceJobExchange
 */
int SluiceJobBarrier(void);

/**
 * @brief Exchange physical identities, and set the map of ranks; also as SluiceJobExchange.
 * @param[in] ni  an interface; every process gives one of the same kind
 * @retval PTL_OK           Ranks are those of the job. A physical interface has no map; for it only
 *   SluiceJobPeers knows the identities.
 * @retval PTL_IGNORED      The interface had a map before, which it keeps; the identities are
 *   exchanged all the same.
 * @retval PTL_NO_INIT      SluiceJobInit or PtlInit has not been called.
 * @retval PTL_ARG_INVALID  The handle is not one of an open interface.
 * @retval PTL_NO_SPACE     There is not enough memory for the map.
 * @retval PTL_FAIL         The exchange failed; SluiceJobError says why.
 * @see SluiceJobPeers PtlSetMap PtlGetPhysId
 */
int SluiceJobMap(ptl_handle_ni_t ni);

/**
 * @brief Tell how to name each process of the job as a target.
 * @param[in] ni    an interface that SluiceJobMap was called for
 * @param[out] all  room for as many as the job has processes: for each rank the target_id of
 *   operations at this interface, which is a rank if it is logical and a node and process
 *   identifier if it is physical
 * @retval PTL_OK           all is filled.
 * @retval PTL_NO_INIT      SluiceJobInit has not been called.
 * @retval PTL_ARG_INVALID  SluiceJobMap was not called for the interface, or all is NULL.
 * @see SluiceJobMap
 */
int SluiceJobPeers(ptl_handle_ni_t ni, ptl_process_t *all);

/**
 * @brief Leave the job.
 * @retval PTL_OK       This process is not part of the job any more.
 * @retval PTL_NO_INIT  SluiceJobInit has not been called.
 * @retval PTL_FAIL     The launcher failed; SluiceJobError says why.
 * @note It waits for nobody: a program whose processes still need one another calls
 *   SluiceJobBarrier before. Interfaces stay open.
 * @see SluiceJobInit
 */
int SluiceJobFini(void);

/**
 * @brief End the job's processes, as well as the launcher can.
 * @param[in] code  what this process exits with
 * @param[in] why   a sentence for the user, or NULL
 * @retval PTL_NO_INIT  SluiceJobInit has not been called. Otherwise it does not return.
 * @see SluiceJobError
 */
int SluiceJobAbort(int code, const char *why);

/**
 * @brief Say in words why the calling thread's last SluiceJob function failed.
 * @retval "text"  What happened, and the remedy; an empty text if nothing has failed. It
 *   stays until the thread's next SluiceJob call.
 * @see SluiceJobInit
 */
const char *SluiceJobError(void);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_JOB_H */
