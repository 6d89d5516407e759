/* The states of a second launch: what follows each of them, however it ends. */
#include "support/test.h"

#include "base/clock.h"
#include "rerun/rerun.h"

/* By event: a fault, a fault amid patterns, writes, silence, barriers refused, code refused, a failure, skipped. */
static const struct rerun_step expected[RERUN_STATES][RERUN_EVENTS] = {
    [RERUN_FIRST] = {{RERUN_OVER, RERUN_FAULTED},
                     {RERUN_UNMAPPED, RERUN_FAULTED},
                     {RERUN_OVER, RERUN_WROTE},
                     {RERUN_OVER, RERUN_NO_FAULT},
                     {RERUN_PLAIN, RERUN_NOT_TRIED},
                     {RERUN_OVER, RERUN_FAILED},
                     {RERUN_OVER, RERUN_FAILED},
                     {RERUN_OVER, RERUN_FAILED}},
    [RERUN_PLAIN] = {{RERUN_OVER, RERUN_FAULTED},
                     {RERUN_UNMAPPED, RERUN_FAULTED},
                     {RERUN_OVER, RERUN_WROTE},
                     {RERUN_OVER, RERUN_NO_FAULT},
                     {RERUN_PLAIN, RERUN_NOT_TRIED}, /* it has no barriers */
                     {RERUN_OVER, RERUN_FAILED},
                     {RERUN_OVER, RERUN_FAILED},
                     {RERUN_OVER, RERUN_FAILED}},
};

TEST(each_step_is_the_one_expected)
{
    for (unsigned event = 0; event < RERUN_EVENTS; event++) {
        for (enum rerun_state from = RERUN_FIRST; from <= RERUN_PLAIN; from++) {
            struct rerun_step step = rerun_step(from, event);
            assert_int_equal(step.next, expected[from][event].next);
            assert_int_equal(step.outcome, expected[from][event].outcome);
        }
    }
}

/* They look again at a launch that has its outcome. */
TEST(a_further_look_takes_nothing_away)
{
    for (unsigned event = 0; event < RERUN_EVENTS; event++) {
        for (enum rerun_state from = RERUN_UNMAPPED; from < RERUN_OVER; from++) {
            assert_int_equal(rerun_step(from, event).next, RERUN_OVER);
            assert_int_equal(rerun_step(from, event).outcome, RERUN_NOT_TRIED);
        }
    }
}

/* So at most one process of each kind is started. */
TEST(no_state_comes_back)
{
    for (enum rerun_state from = RERUN_FIRST; from < RERUN_OVER; from++)
        for (unsigned event = 0; event < RERUN_EVENTS; event++)
            if (from != RERUN_PLAIN || event != RERUN_BARRIERS_REFUSED)
                assert_true(rerun_step(from, event).next > from);
}

/* It leaves a reason. */
TEST(a_process_that_ends_early_is_a_failure)
{
    static const uint8_t image[] = "no cubin";
    static const struct rerun_launch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}};
    struct rerun rerun = {.input = {.arena_start = 1,
                                    .arena_end = 2,
                                    .symbol = "k",
                                    .image = image,
                                    .image_bytes = sizeof image,
                                    .launches = &launch,
                                    .launch_count = 1},
                          .program = "/bin/true",
                          .limit_ms = 60000,
                          .limit = "a minute",
                          .begin_ns = monotonic_ns()};
    assert_int_equal(rerun_begin(&rerun), CUFENCE_OK);
    rerun_finish(&rerun);
    assert_int_equal(rerun.result.outcome, RERUN_FAILED);
    assert_string_equal(rerun.result.reason, "the process that launches it again has ended early");
    assert_string_equal(rerun.result.note, "");
    rerun_end(&rerun);
}
