/*
 * Stream capture: recordings in the making, and the rules about what may be called meanwhile.
 *
 * Order between captured streams is kept as vector clocks, one component for each stream of the capture, so that a stream
 * that was not joined is seen when the capture ends, and what a stream depends on. The recording itself is one sequence, in
 * order of capture, and runs so. Thread safety: under the queue lock, all of it.
 */
#ifndef CUFENCE_SIM_CAPTURE_H
#define CUFENCE_SIM_CAPTURE_H

#include "stream.h"

#define CAPTURE_STREAMS 32

struct capture_clock {
    uint32_t counts[CAPTURE_STREAMS];
};

struct capture_node {
    struct operation *operation; /* the graph's; its address is the node's handle */
    struct capture_clock clock;  /* right behind it */
    unsigned component;
};

struct capture {
    struct capture *next; /* of the active ones */
    unsigned references;  /* the list, and events recorded in it */
    unsigned long long id;
    CUstreamCaptureMode mode;
    unsigned long owner; /* thread_number() of who began it */
    int is_invalid;
    int is_ended;
    CUgraph graph;
    int is_into_graph;                 /* the graph is the program's own, and stays its own if the capture fails */
    CUstream streams[CAPTURE_STREAMS]; /* [0] is the origin; references held */
    unsigned stream_count;
    /* A stream goes on in a component of its own from the start, and in a new one each time its dependencies are set anew: what
     * it did before is then no longer before what it does. */
    struct capture_clock clocks[CAPTURE_STREAMS];
    unsigned components[CAPTURE_STREAMS]; /* of each stream */
    int is_dropped[CAPTURE_STREAMS];      /* of each component: nobody needs to join it */
    unsigned component_count;
    struct capture_node *nodes;
    size_t node_count, node_capacity;
    CUgraphNode frontier[CAPTURE_STREAMS]; /* for cuStreamGetCaptureInfo */
};

/* For a call that is potentially unsafe while some stream is captured: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and the captures
 * that forbid it to the calling thread are invalidated. */
CUresult capture_check_unsafe_locked(void);
CUresult capture_check_unsafe(void);

/* For work on the legacy stream: CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, and the captures of blocking streams of its context are
 * invalidated. Work on other streams is fine. */
CUresult capture_check_implicit_locked(CUstream stream);

/* For a call that a capturing stream does not allow: invalidates its capture. */
CUresult capture_refuse_locked(CUstream stream);

/* Records an operation (takes a reference of its own). Errors: STREAM_CAPTURE_INVALIDATED, OUT_OF_MEMORY. */
CUresult capture_append_locked(CUstream stream, struct operation *operation);

/* The position of a capturing stream, for an event. */
CUresult capture_position_locked(CUstream stream, struct capture **capture, struct capture_clock *clock);
/* Makes `stream` wait for such a position; pulls it into the capture if it is not in one. */
CUresult capture_join_locked(CUstream stream, struct capture *capture, const struct capture_clock *clock);

struct capture *capture_retain_locked(struct capture *capture);
void capture_release_locked(struct capture *capture);

/* graph.c: what a graph holds. Counted references, because a graph, its executables and pending launches share it. */
struct graph_memory {
    CUdeviceptr address;
    uint64_t id;
};

struct recording {
    atomic_uint references;
    struct operation **operations; /* references held */
    size_t count, capacity;
    struct graph_memory *allocations; /* freed with the recording */
    size_t allocation_count, allocation_capacity;
    CUuserObject *objects; /* one entry for each reference */
    size_t object_count, object_capacity;
};

struct CUgraph_st {
    struct recording *recording;
};

struct CUgraphExec_st {
    struct recording *recording;
};

/* `recording` is the graph's from then on; NULL: an empty one. Without memory NULL, and the recording is the caller's still. */
CUgraph graph_create(struct recording *recording);
void graph_free(CUgraph graph);
int recording_append(struct recording *recording, struct operation *operation);
int recording_add_allocation(struct recording *recording, CUdeviceptr address);
/* Takes over a reference that the caller has. */
int recording_add_object(struct recording *recording, CUuserObject object);
struct recording *recording_retain(struct recording *recording);
void recording_release(struct recording *recording);
/* With the same operations, and references of its own to the same objects. NULL without memory. */
struct recording *recording_copy(const struct recording *recording);

/* user_object.c */
void user_object_retain(CUuserObject object);
/* The last one calls the destructor, on the calling thread, which may hold no lock. */
void user_object_release(CUuserObject object);

#endif
