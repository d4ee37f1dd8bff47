/* A process that closes all of its interfaces and opens one again is reached by the others,
 * under the name that it has then; also where one has nothing to say under the first, and by one
 * that stays open. */
#include "harness.h"

enum { PT = 4, SHORT = 64, LONG = 100000, LIVES = 3 };

static uint8_t in[LONG], out[LONG];

/* A map of ranks is set once, so with ranks nobody stays. */
static bool is_staying(void)
{
    return rank == 0 && !logical;
}

static void put_to_the_next(int life, size_t length)
{
    ptl_handle_eq_t target = EQ_NEW(16), initiator = EQ_NEW(16);
    ptl_pt_index_t pt = PT_NEW(0, target, PT);
    ptl_me_t what = entry(in, length, PTL_ME_OP_PUT);
    memset(in, 0, length);
    memset(out, 1 + rank + 16 * life, length);
    ptl_handle_me_t me = APPEND_QUIET(pt, &what, PTL_PRIORITY_LIST, NULL);
    ptl_handle_md_t md = MD_NEW(out, length, 0, initiator, PTL_CT_NONE);
    BARRIER();
    OK(PtlPut(md, 0, length, PTL_ACK_REQ, peers[rank_next()], pt, 0, 0, NULL, 0));
    PUT_DONE(initiator);
    ptl_event_t put = EXPECT(target, PTL_EVENT_PUT);
    CHECK_FROM(put, rank_before());
    CHECK_EQ(put.mlength, length);
    for (size_t i = 0; i < length; i++)
        CHECK_EQ(in[i], 1 + rank_before() + 16 * life);
    BARRIER();
    UNLINK(me);
    MD_RELEASE(md);
    OK(PtlPTFree(ni, pt));
    OK(PtlEQFree(target));
    OK(PtlEQFree(initiator));
}

int main(int argc, char **argv)
{
    test_join(argc, argv);
    for (int life = 0;; life++) {
        if (life > 0 && is_staying()) {
            free(peers);
            peers = map_peers(ni, logical);
        } else {
            test_open(NULL);
        }
        if (life != 1) {
            put_to_the_next(life, SHORT);
            put_to_the_next(life, LONG);
        }
        BARRIER();
        if (life == LIVES - 1)
            return test_end();
        if (is_staying())
            continue;
        OK(PtlNIFini(ni));
        PtlFini();
        free(peers);
    }
}
