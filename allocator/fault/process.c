#include "tell.h"

#include "base/env.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define VALUE_BYTES 64

static const char *const job_names[PROCESS_JOB] = {"RANK",         "LOCAL_RANK",   "WORLD_SIZE",           "SLURM_JOB_ID",
                                                   "SLURM_PROCID", "SLURM_NODEID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"};

/* Constant after process_open(). */
static char host[256], command[4096], values[PROCESS_JOB][VALUE_BYTES];
static const char *words[sizeof command]; /* of the command */
static size_t word_count;

/* Reads the command line, truncated to fit. */
static void read_command(void)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, command, sizeof command - 1) : 0;
    if (fd >= 0)
        close(fd);
    size_t size = got > 0 ? (size_t)got : 0;
    command[size] = '\0';
    word_count = 0;
    for (size_t at = 0; at < size; at += strlen(command + at) + 1)
        words[word_count++] = command + at;
}

void process_open(void)
{
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    for (int i = 0; i < PROCESS_JOB; i++) {
        const char *value = env_get(job_names[i]);
        snprintf(values[i], sizeof values[i], "%s", value ? value : "");
    }
    read_command();
}

struct finding_process process_now(char time_text[32])
{
    struct finding_process process = {
        .time = time_text, .host = host[0] ? host : NULL, .command = words, .word_count = word_count};
    time_t now = time(NULL);
    struct tm utc;
    if (!gmtime_r(&now, &utc) || !strftime(time_text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc))
        process.time = NULL;
    for (int i = 0; i < PROCESS_JOB; i++) {
        if (!values[i][0])
            continue;
        process.job[process.job_count].name = job_names[i];
        process.job[process.job_count++].value = values[i];
    }
    return process;
}
