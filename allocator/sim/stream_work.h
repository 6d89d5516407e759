/*
 * What stream.c shares with the thread that runs a stream's work (stream_worker.c). Functions named _locked require
 * queue_lock().
 */
#ifndef CUFENCE_SIM_STREAM_WORK_H
#define CUFENCE_SIM_STREAM_WORK_H

#include "stream.h"

struct work {
    struct work *next;
    struct operation *operation;
    uint64_t serial; /* in order of submission, over all streams */
    size_t ticket_count;
    struct ticket after[];
};

/* Starts the stream's thread. Returns 0 or errno's number. */
int stream_start_worker_locked(CUstream stream);
/* Takes the stream off its home's list. */
void stream_unlink_locked(CUstream stream);

void queue_sleep_locked(pthread_cond_t *until);
void queue_await_progress_locked(void); /* until work was completed or a dump was written */
void queue_progressed_locked(void);

#endif
