/* What the driver's threads tell of a dump that it makes (fault/arming.h). */
#include "support/test.h"

#include <semaphore.h>

#include "fault/arming.h"

#define MORE 7 /* that the driver starts at a fault */

static sem_t named, over;

static void *handle(void *unused)
{
    pthread_setname_np(pthread_self(), "cuda-EvtHandlr");
    sem_post(&named);
    sem_wait(&over);
    return unused;
}

TEST(a_dump_is_seen_by_the_handlers_that_are_started_for_it)
{
    pthread_t threads[1 + MORE];
    sem_init(&named, 0, 0);
    sem_init(&over, 0, 0);
    assert_false(dumps_seem_begun(1));
    for (int i = 0; i < 1 + MORE; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, handle, NULL), 0);
        sem_wait(&named);
        assert_int_equal(dumps_seem_begun(1), i == MORE);
    }
    assert_false(dumps_seem_begun(2));
    for (int i = 0; i < 1 + MORE; i++)
        sem_post(&over);
    for (int i = 0; i < 1 + MORE; i++)
        pthread_join(threads[i], NULL);
}
