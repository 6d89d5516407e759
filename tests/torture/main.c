/*
 * The torture program: plays seeds one after another, in one process. tests/torture/torture.py starts it with the libraries and
 * options for each chunk of seeds, and tells how to replay a single seed.
 *
 * Exit status: 0 success, 1 a seed has failed, 2 it could not start, 4 no progress for a minute.
 */
#include "surround.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned feature;
} features[] = {{"churn", FEATURE_CHURN}, {"pools", FEATURE_POOLS}, {"large", FEATURE_LARGE}, {"graph", FEATURE_GRAPH}};

static int usage(void)
{
    fprintf(stderr, "usage: torture [--first N] [--count N] [--devices N] [--without NAME,...] [--library FILE] [--align N]\n"
                    "               [--scarce] [--inject] [--timed] [--verbose] [--surroundings FOLDER]\n"
                    "NAMES:");
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        fprintf(stderr, " %s", features[i].name);
    fprintf(stderr, "\n");
    return 2;
}

static int parse_without(const char *wanted)
{
    char *names = strdup(wanted);
    for (char *name; (name = strsep(&names, ",")) != NULL;) {
        size_t i = 0;
        while (i < sizeof features / sizeof features[0] && strcmp(features[i].name, name) != 0)
            i++;
        if (*name != '\0' && i == sizeof features / sizeof features[0])
            return 0;
        settings.without |= *name != '\0' ? features[i].feature : 0;
    }
    return 1;
}

/* Turns a hang into a failure that says where. */
static void *watch(void *unused)
{
    enum { PATIENCE_S = 60 };
    uint64_t before = 0;
    for (int still = 0; still < PATIENCE_S; still++) {
        uint64_t now = __atomic_load_n(&progress, __ATOMIC_RELAXED);
        if (now != before)
            still = 0;
        before = now;
        sleep(1);
    }
    worlds_print();
    fprintf(stderr, "FAILED: no progress for %d seconds\n", PATIENCE_S);
    _exit(4);
}

struct request {
    uint64_t first, count;
    const char *library, *folder; /* of play_in_surroundings() */
};

static int parse(int count, char **arguments, struct request *request)
{
    for (int i = 1; i < count; i++) {
        const char *name = arguments[i];
        char *value = i + 1 < count ? arguments[i + 1] : NULL;
        int has_value = 1;
        if (!strcmp(name, "--scarce"))
            settings.is_scarce = 1, has_value = 0;
        else if (!strcmp(name, "--inject"))
            settings.is_injected = 1, has_value = 0;
        else if (!strcmp(name, "--timed"))
            settings.is_timed = 1, has_value = 0;
        else if (!strcmp(name, "--verbose"))
            settings.is_verbose = 1, has_value = 0;
        else if (!value)
            return 0;
        else if (!strcmp(name, "--first"))
            request->first = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--count"))
            request->count = strtoull(value, NULL, 10);
        else if (!strcmp(name, "--devices"))
            settings.devices = atoi(value);
        else if (!strcmp(name, "--align"))
            settings.align = atoi(value);
        else if (!strcmp(name, "--library"))
            request->library = value;
        else if (!strcmp(name, "--surroundings"))
            request->folder = value;
        else if (!strcmp(name, "--without"))
            settings.without_names = value;
        else
            return 0;
        i += has_value;
    }
    return (request->folder || parse_without(settings.without_names)) && settings.devices >= 1 && settings.devices <= DEVICES &&
           settings.align >= 1;
}

int main(int count, char **arguments)
{
    struct request request = {.count = 1};
    if (count == 2 && !strcmp(arguments[1], "--inherited"))
        return tell_inherited();
    settings = (struct settings){
        .without_names = "", .devices = 1, .align = 4, .most_bytes = (size_t)4 << 20, .lack_bytes = (size_t)1 << 40};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    settings.most_bytes = 128 << 10;
#endif
    if (!parse(count, arguments, &request))
        return usage();
    driver_find();
    if (request.folder)
        return play_in_surroundings(request.first, request.count, request.folder);
    driver_start(request.library);
    settings.is_alone = fence.is_alone;
    int devices = 0;
    if (cu.cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices < settings.devices) {
        fprintf(stderr, "torture: %d devices are wanted, and %d are here\n", settings.devices, devices);
        return 2;
    }
    if (sim.fail_call == NULL)
        settings.is_timed = 1;
    pthread_t watchdog;
    if (pthread_create(&watchdog, NULL, watch, NULL) != 0)
        return 2;
    pthread_detach(watchdog);
    play(request.first, request.count);
    printf("done\n");
    return 0;
}
