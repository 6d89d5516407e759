/*
 * Stream capture: captures in progress, and the rules about calls meanwhile.
 *
 * The order between captured streams is kept as vector clocks with one component per stream. They show which streams were not
 * joined when the capture ends, and what a stream depends on. The recording itself is one sequence in order of capture, and is
 * replayed in that order. Thread safety: everything requires the queue lock.
 */
#pragma once

#include "stream.h"

#define CAPTURE_STREAMS 32

struct capture_clock {
    uint32_t counts[CAPTURE_STREAMS];
};

struct capture_node {
    struct operation *operation; /* owned by the graph; its address is the node's handle */
    struct capture_clock clock;  /* right after the node */
    unsigned component;
};

struct capture {
    struct capture *next; /* in the list of captures that have not ended */
    unsigned long long id;
    CUstreamCaptureMode mode;
    unsigned long owner; /* thread_number() of the thread that began it */
    int is_invalid;
    CUgraph graph;
    int is_into_graph;                 /* the graph belongs to the program, and still does if the capture fails */
    CUstream streams[CAPTURE_STREAMS]; /* [0] is the origin */
    unsigned stream_count;
    /* A stream has a component of its own from the start, and gets a new one each time its dependencies are set: its earlier
     * work is then no longer ordered before its later work. */
    struct capture_clock clocks[CAPTURE_STREAMS];
    unsigned component_count;
    struct capture_node *nodes;
    size_t node_count;
    CUgraphNode frontier[CAPTURE_STREAMS]; /* for cuStreamGetCaptureInfo */
};

/* For a call that is unsafe during captures. While some stream is capturing: returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and
 * invalidates the captures that forbid the call to this thread. */
CUresult capture_check_unsafe_locked(void);
CUresult capture_check_unsafe(void);

/* For work on the legacy stream. If blocking streams of its context are capturing: returns CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
 * and with `invalidates` set their captures are invalid. Work on other streams is allowed. */
CUresult capture_check_implicit_locked(CUstream stream, int invalidates);

/* Invalidates a capture. Returns the error. */
static inline CUresult capture_fail_locked(struct capture *capture, CUresult error)
{
    capture->is_invalid = 1;
    return error;
}
#define CAPTURE_REFUSE(capture)                                                                                                \
    capture_fail_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) /* a call that is not allowed */
/* Refuses for all streams of a context; for a primary context, also of its green ones. */
CUresult capture_refuse_all_locked(CUcontext context);

/* Records an operation, taking its own reference. Errors: STREAM_CAPTURE_INVALIDATED. */
CUresult capture_append_locked(CUstream stream, struct operation *operation);

/* Returns NULL if the capture has ended. */
struct capture *capture_find_locked(unsigned long long id);
/* Makes `stream` wait for the position of one that is capturing. Pulls the stream into the capture if it is not in one. */
CUresult capture_join_locked(CUstream stream, unsigned long long id, const struct capture_clock *clock);

/* Ends a capture. Returns its graph, for graph_free() without the lock; NULL if it belongs to the program. */
CUgraph capture_end_locked(struct capture *capture);
/* Ends the captures of the context's streams; for a primary context, also of its green ones'. Called without the lock. */
void capture_end_all(CUcontext context);

/* graph.c: the contents of a graph, or of an executable, which has its own. Reference counted, because pending launches share
 * them. */
struct recording {
    atomic_uint references;
    struct operation **operations; /* references held */
    size_t count;
    size_t memory_nodes;        /* of them, allocations and frees */
    atomic_int is_instantiated; /* a graph with memory nodes has one executable at a time */
    uint64_t disabled;          /* of the first 64 operations, those that do not run: a bit each */
    CUuserObject *objects;      /* one entry per reference */
    size_t object_count;
};

struct CUgraph_st {
    struct recording *recording;
    unsigned long long capture_id; /* of all captures into it, as on an H200; 0: none yet */
};

struct CUgraphExec_st {
    struct recording *recording;
    struct recording *source; /* what it was made of, if that has memory nodes, else NULL */
    int frees_first;          /* what has not been freed, before it is launched again */
    struct ticket last;       /* of its launches, which do not overlap */
};

/* Its contents are a copy; NULL: it is empty. */
CUgraph graph_create(const struct recording *contents);
/* Errors: INVALID_VALUE (no graph, or no longer). */
CUresult graph_free(CUgraph graph);
/* Appends an item to an array that grows. */
void append(void *array, size_t *count, const void *item, size_t size);
void recording_append(struct recording *recording, struct operation *operation);
struct recording *recording_copy(const struct recording *recording);
void recording_release(struct recording *recording);

/* stream_calls.c: events. The queue lock guards the members. The memory of one goes to the next one, and is never
 * freed: a record that is still to come finds another generation there. */
struct CUevent_st {
    CUcontext context;
    unsigned flags;
    struct ticket ticket;       /* of the last record */
    uint64_t generation;        /* number of the last record among all events'; 0: none */
    uint64_t completed_ns;      /* CLOCK_MONOTONIC; 0 until the last record has run */
    unsigned long long capture; /* id of the one in which the last record was captured; 0: none */
    struct capture_clock clock;
};

/* Called when the stream has reached the record. */
void event_complete(struct CUevent_st *event, uint64_t generation);
