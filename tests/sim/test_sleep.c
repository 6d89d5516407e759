/* The background thread sleeps while there is nothing to do, and wakes up when there is. */
#include "heap_story.h"

#include <dirent.h>
#include <sched.h>

/* How often the background thread has gone to sleep so far. */
static long sleeps(void)
{
    char name[300], line[128];
    long count = -1;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && count < 0 && (entry = readdir(folder)) != NULL;) {
        snprintf(name, sizeof name, "/proc/self/task/%s/status", entry->d_name);
        FILE *in = fopen(name, "r");
        int is_worker = in && fgets(line, sizeof line, in) && strcmp(line, "Name:\tcufence-worker\n") == 0;
        while (is_worker && count < 0 && fgets(line, sizeof line, in))
            sscanf(line, "voluntary_ctxt_switches: %ld", &count);
        if (in)
            fclose(in);
    }
    if (folder)
        closedir(folder);
    return count;
}

/* It rests for 0.1 s at most before it sleeps. */
static int is_asleep(void)
{
    long before = sleeps();
    usleep(300000);
    return before > 0 && sleeps() == before; /* it may not have begun */
}

static void await_sleep(void)
{
    AWAIT(is_asleep());
    CHECK(is_asleep());
}

STORY(strict)
{
    start("uaf=strict");
    void *first = allocate(1000, NULL), *second = allocate(1000, NULL);
    CHECK_OK(cufence_free(first, NULL));
    AWAIT(is_retired(first));
    await_sleep();
    CHECK_OK(cufence_free(second, NULL));
    AWAIT(is_retired(second));
    CHECK(is_retired(second));
}

STORY(adaptive)
{
    start("uaf=adaptive");
    void *first = allocate(1000, NULL), *second = allocate(1000, NULL);
    CHECK_OK(cufence_free(first, NULL));
    await_sleep();
    CHECK_OK(cufence_free(second, NULL));
    AWAIT(is_retired(second)); /* though the program does nothing more */
    CHECK(is_retired(second));
    await_sleep();
}

STORY(idle)
{
    tune("idle_age=500");
    start("uaf=off");
    void *first = allocate(1000, NULL);
    await_sleep();
    CHECK_OK(cufence_free(first, NULL));
    CHECK(stats().idle_bytes == PAGE);
    AWAIT(stats().mapped_bytes == 0);
    CHECK(stats().mapped_bytes == 0);
    await_sleep();
}

/* Has the background thread run as soon as it is woken: all threads share a processor, and this one gives way. */
static void give_way(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.')
            CHECK(sched_setaffinity(atoi(entry->d_name), sizeof one, &one) == 0);
    }
    closedir(folder);
    CHECK(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}) == 0);
    CHECK(nice(10) != -1);
}

STORY(slack)
{
    start("uaf=off");
    char *first = allocate(1000, NULL);
    await_sleep();
    CHECK_CU(cuMemsetD8((CUdeviceptr)(uintptr_t)(first + 1004), 7, 1));
    give_way(); /* the check must not be lost if it is launched within the free */
    CHECK_OK(cufence_free(first, NULL));
    AWAIT(cufence_fault_count() == 1);
    CHECK(cufence_fault_count() == 1);
    _exit(0); /* not 86 */
}

TEST_CONCURRENTLY
