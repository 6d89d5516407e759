/* Stories about what a correct program notices of cufence: how it ends, and what its process holds. */
#include "program.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static void say_goodbye(void)
{
    puts("goodbye");
}

/* A main thread that has left is a zombie until the process ends. */
static int is_main_over(void)
{
    char name[64], text[512] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", (int)getpid());
    FILE *in = fopen(name, "r");
    size_t got = in != NULL ? fread(text, 1, sizeof text - 1, in) : 0;
    if (in != NULL)
        fclose(in);
    return got != 0 && strstr(text, ") Z ") != NULL;
}

static void *outlive_main(void *what)
{
    CUdeviceptr address;
    while (!is_main_over())
        usleep(1000);
    use_device(0);
    MUST(cu.cuMemAlloc(&address, 1000));
    puts("the other thread goes on");
    fflush(stdout);
    if (strcmp(what, "exit") == 0)
        exit(3);
    if (strcmp(what, "signal") == 0) {
        kill(getpid(), SIGTERM);
        pause();
    }
    return NULL;
}

/* busy_end: main() returns while a kernel waits for the host. */
int story_busy_end(int count, char **arguments)
{
    static uint32_t flag;
    CUstream stream;
    (void)count;
    (void)arguments;
    start();
    MUST(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    spin(&flag, stream);
    return 0;
}

/* main_leaves alone|thread|exit|signal: by pthread_exit(); the process ends with its last thread, or as that one ends it. */
int story_main_leaves(int count, char **arguments)
{
    CUdeviceptr address;
    pthread_t thread;
    if (count < 3)
        return 4;
    alarm(60);
    atexit(say_goodbye);
    start();
    MUST(cu.cuMemAlloc(&address, 1000));
    if (strcmp(arguments[2], "alone") != 0)
        pthread_create(&thread, NULL, outlive_main, arguments[2]);
    pthread_exit(NULL);
}
