#include "python_end.h"

#include "base/lock.h"
#include "base/clock.h"

#include <dlfcn.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAIT_NS 1000000000ull /* longest wait for captures under way; a capture takes microseconds */

int python_reading = PYTHON_NOT_WATCHED_YET;
_Thread_local struct python_reader *python_reader;

static struct python_reader *readers;      /* atomic; entries are never removed */
static struct lock lock = LOCK(RANK_LEAF); /* a leaf; held while adding to `readers` and while creating the key */
static pthread_key_t key;
static int has_key;

/* ---- readers ---- */

static void give_back(void *reader)
{
    python_reader = NULL; /* a capture later in the thread's exit takes a new one */
    __atomic_store_n(&((struct python_reader *)reader)->is_taken, 0, __ATOMIC_RELEASE);
}

static struct python_reader *find_or_make(void)
{
    struct python_reader *reader = readers;
    while (reader && __atomic_load_n(&reader->is_taken, __ATOMIC_ACQUIRE))
        reader = reader->next;
    if (!reader && (reader = calloc(1, sizeof *reader))) {
        reader->next = readers;
        __atomic_store_n(&readers, reader, __ATOMIC_RELEASE);
    }
    if (reader)
        reader->is_taken = 1;
    return reader;
}

struct python_reader *python_take_reader(void)
{
    HOLD(&lock);
    if (!has_key)
        has_key = pthread_key_create(&key, give_back) == 0;
    struct python_reader *reader = has_key ? find_or_make() : NULL;
    if (reader && pthread_setspecific(key, reader) != 0) {
        reader->is_taken = 0;
        reader = NULL;
    }
    return python_reader = reader;
}

/* ---- the end ---- */

static int has_membarrier; /* written once, before end_reading() is registered */
static pid_t watching;     /* likewise: the process id, since a forked child has none of the other threads */

static int membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

static void end_reading(void)
{
    __atomic_store_n(&python_reading, PYTHON_ENDS, __ATOMIC_SEQ_CST);
    if (getpid() != watching)
        return;
    if (has_membarrier)
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    unsigned long long until = monotonic_ns() + WAIT_NS;
    for (struct python_reader *reader = __atomic_load_n(&readers, __ATOMIC_SEQ_CST); reader; reader = reader->next) {
        while (__atomic_load_n(&reader->is_reading, __ATOMIC_SEQ_CST) && monotonic_ns() < until)
            sched_yield();
    }
}

/* ---- registering with Python ---- */

typedef struct object object; /* PyObject */

/* PyMethodDef, the same in every version. */
static object *on_exit_of_python(object *self, object *unused);
static struct {
    const char *name;
    object *(*function)(object *, object *);
    int flags;
    const char *documentation;
} method = {"cufence_stop_reading_frames", on_exit_of_python, 4 /* METH_NOARGS */, NULL};

static struct {
    int (*add_pending_call)(int (*function)(void *), void *argument);
    int (*is_finalizing)(void);
    object *(*import)(const char *name);
    object *(*make_function)(void *method, object *self, object *module);
    object *(*call_method)(object *of, const char *name, const char *format, ...);
    object *(*build_value)(const char *format, ...);
    void (*release)(object *);
    void (*clear_error)(void);
} python;                 /* written once, under the lock, before has_python */
static int has_python;    /* atomic; -1: a function is missing, so only is_finalizing can be used */
static int is_registered; /* atomic; the pending call is queued or done */

static object *on_exit_of_python(object *self, object *unused)
{
    (void)self;
    (void)unused;
    end_reading();
    return python.build_value(""); /* None */
}

static void find_python(void)
{
    const struct {
        void *into;
        const char *name;
    } functions[] = {
        {&python.add_pending_call, "Py_AddPendingCall"},
        {&python.import, "PyImport_ImportModule"},
        {&python.make_function, "PyCFunction_NewEx"},
        {&python.call_method, "PyObject_CallMethod"},
        {&python.build_value, "Py_BuildValue"},
        {&python.release, "Py_DecRef"},
        {&python.clear_error, "PyErr_Clear"},
    };
    int found = 1;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (!(*(void **)functions[i].into = dlsym(RTLD_DEFAULT, functions[i].name)))
            found = -1;
    }
    *(void **)&python.is_finalizing = dlsym(RTLD_DEFAULT, "Py_IsFinalizing"); /* from 3.13 on */
    if (!python.is_finalizing)
        *(void **)&python.is_finalizing = dlsym(RTLD_DEFAULT, "_Py_IsFinalizing");
    has_membarrier = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
    watching = getpid();
    __atomic_store_n(&has_python, found, __ATOMIC_RELEASE);
}

/* A pending call: runs on the main thread, with the GIL. */
static int watch(void *unused)
{
    (void)unused;
    int unwatched = PYTHON_NOT_WATCHED_YET;
    object *atexit = python.import("atexit"), *function = atexit ? python.make_function(&method, NULL, NULL) : NULL;
    object *result = function ? python.call_method(atexit, "register", "O", function) : NULL;
    if (result)
        __atomic_compare_exchange_n(&python_reading, &unwatched, has_membarrier ? PYTHON_MAY_BE_READ : PYTHON_BEHIND_A_BARRIER,
                                    0, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    else
        python.clear_error();
    object *const made[] = {atexit, function, result};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        python.release(made[i]); /* NULL is fine */
    return 0;
}

static int ask_python(void)
{
    if (!__atomic_load_n(&has_python, __ATOMIC_ACQUIRE)) {
        HOLD(&lock);
        if (!has_python)
            find_python();
    }
    if (!python.is_finalizing || python.is_finalizing())
        return 0;
    if (__atomic_load_n(&has_python, __ATOMIC_ACQUIRE) == 1 && !__atomic_exchange_n(&is_registered, 1, __ATOMIC_RELAXED) &&
        python.add_pending_call(watch, NULL) != 0)
        __atomic_store_n(&is_registered, 0, __ATOMIC_RELAXED); /* the queue of pending calls is full: try again another time */
    return 1;
}

int python_ask_to_read(void)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    switch ((enum python_reading)__atomic_load_n(&python_reading, __ATOMIC_SEQ_CST)) {
    case PYTHON_MAY_BE_READ:
    case PYTHON_BEHIND_A_BARRIER:
        return 1;
    case PYTHON_NOT_WATCHED_YET:
        return ask_python();
    case PYTHON_ENDS:
        break;
    }
    return 0;
}
