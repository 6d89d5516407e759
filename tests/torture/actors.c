/* The threads of a world, which take turns, and their thread ids. */
#include "world.h"

#include <sys/syscall.h>
#include <unistd.h>

/*
 * The system reuses the id of a thread that has ended. That takes long to happen, so here it happens at once: this gettid()
 * replaces the C library's for every library of the process, and returns an id made from the thread's position in its world. On
 * a real GPU the driver would be told it, too, so there it is the true one.
 */
static _Thread_local pid_t own_number;

__attribute__((visibility("default"))) pid_t gettid(void) /* interposes the C library's */
{
    return own_number ? own_number : (pid_t)syscall(SYS_gettid);
}

static void *live(void *argument)
{
    struct thread *thread = argument;
    thread->body(thread->argument);
    sem_post(&thread->is_over);
    while (!sim.fail_call)
        pause();
    return NULL;
}

void thread_start(struct thread *thread, void (*body)(void *), void *argument)
{
    *thread = (struct thread){.body = body, .argument = argument};
    sem_init(&thread->is_over, 0, 0);
    if (pthread_create(&thread->id, NULL, live, thread) != 0)
        abort();
}

void thread_await(struct thread *thread)
{
    while (sem_wait(&thread->is_over) != 0)
        continue; /* a signal */
    if (sim.fail_call)
        pthread_join(thread->id, NULL);
    else
        pthread_detach(thread->id);
    sem_destroy(&thread->is_over);
}

static void name_thread(const struct actor *actor)
{
    unsigned place = (unsigned)(actor->world->number * THREADS + actor->number);
    if (sim.fail_call && !settings.is_surrounded)
        own_number = (pid_t)(0x40000000u + place);
}

static void run(void *argument)
{
    struct actor *actor = argument;
    name_thread(actor);
    pthread_mutex_lock(&actor->lock);
    while (!actor->is_ending) {
        if (actor->step) {
            actor->result = actor->step(actor->world);
            actor->step = NULL;
            pthread_cond_broadcast(&actor->turn);
        } else {
            pthread_cond_wait(&actor->turn, &actor->lock);
        }
    }
    pthread_mutex_unlock(&actor->lock);
}

int actor_play(struct world *world, int thread, step_function step)
{
    struct actor *actor = &world->actors[thread];
    int before = world->thread;
    world->thread = thread;
    if (thread == before) {
        actor->result = step(world);
    } else {
        pthread_mutex_lock(&actor->lock);
        actor->step = step;
        pthread_cond_broadcast(&actor->turn);
        while (actor->step)
            pthread_cond_wait(&actor->turn, &actor->lock);
        pthread_mutex_unlock(&actor->lock);
    }
    world->thread = before;
    return actor->result;
}

void actor_start(struct world *world, int thread)
{
    struct actor *actor = &world->actors[thread];
    *actor = (struct actor){.is_live = 1, .world = world, .number = thread};
    pthread_mutex_init(&actor->lock, NULL);
    pthread_cond_init(&actor->turn, NULL);
    say(world, "thread %d starts", thread);
    thread_start(&actor->thread, run, actor);
}

void own_streams_end(struct world *world, int thread)
{
    for (int i = 0; i < QUEUES; i++) {
        if (world->queues[i].is_live && world->queues[i].kind == QUEUE_OWN_DEFAULT && world->queues[i].thread == thread)
            queue_end(world, i);
    }
}

void actor_end(struct world *world, int thread)
{
    struct actor *actor = &world->actors[thread];
    say(world, "thread %d ends", thread);
    pthread_mutex_lock(&actor->lock);
    actor->is_ending = 1;
    pthread_cond_broadcast(&actor->turn);
    pthread_mutex_unlock(&actor->lock);
    thread_await(&actor->thread);
    pthread_cond_destroy(&actor->turn);
    pthread_mutex_destroy(&actor->lock);
    actor->is_live = 0;
    own_streams_end(world, thread);
}
