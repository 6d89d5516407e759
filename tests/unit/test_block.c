/* The states of a block: all valid transitions; every other one prints a message, and aborts debug builds. */
#include "sim/child.h"

#include "base/output.h"
#include "heap/heap_internal.h"

enum { STATES = BLOCK_PAST + 1 };

static const char *const names[STATES] = {"held", "live", "idle", "waiting", "retiring", "past"};

/* From a row to a column. Whatever happens to a block, one thread has it in its hands meanwhile. */
static const char allowed[STATES][STATES + 1] = {
    [BLOCK_HELD] = "-+++++",    [BLOCK_LIVE] = "+-----",     [BLOCK_IDLE] = "+-----",
    [BLOCK_WAITING] = "+-----", [BLOCK_RETIRING] = "+-----", [BLOCK_PAST] = "------",
};

static struct block block;
static unsigned from, to;

static void take_step(void)
{
    block.state = (uint8_t)from;
    block.facts.id = 17;
    block_become(&block, to);
    output_flush();
}

TEST(each_step_exists_or_is_said)
{
    for (from = 0; from < STATES; from++) {
        for (to = 0; to < STATES; to++) {
            char wanted[128];
            struct outcome outcome = run_child(take_step);
            snprintf(wanted, sizeof wanted, "the block of buffer #17 goes from %s to %s", names[from], names[to]);
            if (allowed[from][to] == '+') {
                assert_int_equal(outcome.status, 0);
                assert_string_equal(outcome.err, "");
                take_step();
                assert_int_equal(block.state, to);
            } else {
                assert_non_null(strstr(outcome.err, wanted));
#ifdef NDEBUG
                assert_int_equal(outcome.status, 0);
#else
                assert_true(WIFSIGNALED(outcome.status) && WTERMSIG(outcome.status) == SIGABRT);
#endif
            }
            free(outcome.err);
        }
    }
}
