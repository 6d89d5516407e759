/* What the stories of a program share. A story prints what the driver answers, and returns the program's exit status. */
#pragma once

#include "driver.h"

#include <cufence.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints "what: CUDA_..."; returns the result. */
CUresult say(const char *what, CUresult result);

/* Ends the program with status 2 and a message unless the call succeeds. */
#define MUST(call) must(#call, call)
void must(const char *what, CUresult result);

int is_guarded(void); /* by the preload library */

/* Starts CUDA on device 0, and loads the kernels. */
void start(void);
void use_device(int device);

/* One that does not wait for the default stream. */
CUstream new_stream(void);

/* Of the simulated device: how often a function was called so far. */
uint64_t calls_of(const char *function);

/* Of device 0; nothing without the preload library. */
cufence_stats stats_of_cufence(void);

/* Kernels. store: 4 bytes, `value` to `address`; add_one: to each of `count` numbers. */
CUresult store(CUdeviceptr address, uint32_t value, CUstream stream);
CUresult store_together(CUdeviceptr address, uint32_t value, CUstream stream);   /* a cooperative launch, 64 bytes shared */
CUresult store_configured(CUdeviceptr address, uint32_t value, CUstream stream); /* the same with attributes, in clusters */
CUresult add_one(CUdeviceptr numbers, uint32_t count, CUstream stream);

/* Keeps the stream busy until let_go(), at most for the 10 s of cusim_spin. */
void spin(uint32_t *flag, CUstream stream);
void let_go(void *flag); /* also as a host function */

/*
 * STORY(word) {...} is what the program does when that is its first argument; CASE(story, word) {...} is a case of one. Both
 * are found by their names.
 */
struct named {
    const char *story, *name; /* the case's, or NULL */
    int (*run)(int count, char **arguments);
    void (*play)(void);
    struct named *next;
};
void add_named(struct named *named);
#define NAMED(function, ...)                                                                                                   \
    __attribute__((constructor)) static void function##_has_a_name(void)                                                       \
    {                                                                                                                          \
        static struct named named = {__VA_ARGS__};                                                                             \
        add_named(&named);                                                                                                     \
    }
#define STORY(word)                                                                                                            \
    static int story_##word(int count, char **arguments);                                                                      \
    NAMED(story_##word, .story = #word, .run = story_##word)                                                                   \
    static int story_##word(int count, char **arguments)
#define CASE(of, word)                                                                                                         \
    static void word(void);                                                                                                    \
    NAMED(word, .story = #of, .name = #word, .play = word)                                                                     \
    static void word(void)

/* Plays the case that the second argument names. Returns the program's exit status. */
int play_case(int count, char **arguments);
