/*
 * Events. Thread safety: the queue lock guards the members; the reference count is atomic.
 */
#ifndef CUFENCE_SIM_EVENT_H
#define CUFENCE_SIM_EVENT_H

#include "capture.h"

struct CUevent_st {
    atomic_uint references; /* the handle, and pending record operations */
    CUcontext context;
    unsigned flags;
    struct ticket ticket;    /* of the last record; reference to its stream held */
    uint64_t generation;     /* number of records */
    uint64_t completed_ns;   /* CLOCK_MONOTONIC; 0 until the last record has run */
    struct capture *capture; /* set if the last record was captured; reference held */
    struct capture_clock clock;
};

/* event_record_context() records the event behind all work of a context; event_hold_context() makes later work of a context
 * wait for one.
 * Errors: INVALID_HANDLE, STREAM_CAPTURE_UNSUPPORTED (and the captures are invalidated), OUT_OF_MEMORY. */
CUresult event_record_context(CUevent event, CUcontext context);
CUresult event_hold_context(CUevent event, CUcontext context);
/* Called when the stream has reached the record. */
void event_complete(struct CUevent_st *event, uint64_t generation);
void event_release(struct CUevent_st *event);
/* Destroys all events of the context. */
void event_destroy_all(CUcontext context);

#endif
