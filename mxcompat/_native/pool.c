/* A pool of threads for loops with independent parts.

   A loop is cut into parts, and the caller and the pool's threads take parts until none is left. A caller never waits
   for a thread that has not begun, so several threads may call at once. Idle threads sleep. The threads are started at
   the first use, one less than the number of processors that the process may use. A forked child has none of these
   threads, and starts its own. */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity */
#endif
#include "kernels.h"

#if defined(__unix__) || (defined(__APPLE__) && defined(__MACH__))
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_THREADS = 63, STACK_BYTES = 1 << 19, LOOKS = 2000 };

typedef struct Job {
    Part part;
    void *context;
    size_t count, grain;
    size_t next;      /* start of the next part; updated atomically */
    size_t joined;    /* number of threads that have joined so far; written with the lock held */
    size_t inside;    /* number of threads that run parts now; written with the lock held, also read without it */
    struct Job *after;
} Job;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    Job *jobs;
    size_t threads, sleeping;
    int started, stopping;
    pthread_t ids[MOST_THREADS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static size_t processors(void) {
#ifdef __linux__
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        return (size_t)CPU_COUNT(&allowed);
#endif
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (size_t)count : 1;
}

static void take_parts(Job *job, size_t participant) {
    for (;;) {
        size_t start = __atomic_fetch_add(&job->next, job->grain, __ATOMIC_RELAXED);
        if (start >= job->count)
            return;
        size_t stop = job->count - start < job->grain ? job->count : start + job->grain;
        job->part(job->context, start, stop, participant);
    }
}

/* Return a job with parts left. The caller must hold the lock. */
static Job *open_job(void) {
    for (Job *job = pool.jobs; job != NULL; job = job->after)
        if (__atomic_load_n(&job->next, __ATOMIC_RELAXED) < job->count)
            return job;
    return NULL;
}

static void *work(void *nothing) {
    pthread_mutex_lock(&pool.lock);
    while (!pool.stopping) {
        Job *job = open_job();
        if (job == NULL) {
            pool.sleeping++;
            pthread_cond_wait(&pool.work, &pool.lock);
            pool.sleeping--;
            continue;
        }
        size_t participant = ++job->joined;
        __atomic_fetch_add(&job->inside, 1, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&pool.lock);
        take_parts(job, participant);
        pthread_mutex_lock(&pool.lock);
        if (__atomic_sub_fetch(&job->inside, 1, __ATOMIC_RELEASE) == 0)
            pthread_cond_broadcast(&pool.done);
    }
    pthread_mutex_unlock(&pool.lock);
    return nothing;
}

/* Start the threads at the first call. The caller must hold the lock. */
static void start(void) {
    if (pool.started)
        return;
    pool.started = 1;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0)
        return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals must be delivered to Python's threads */
    size_t most = processors() - 1;
    while (pool.threads < most && pool.threads < MOST_THREADS &&
           pthread_create(&pool.ids[pool.threads], &attributes, work, NULL) == 0)
        pool.threads++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

/* Return the largest number of threads that work on a loop, including the caller. */
size_t participants(void) {
    pthread_mutex_lock(&pool.lock);
    if (!pool.stopping)
        start();
    size_t count = pool.threads + 1;
    pthread_mutex_unlock(&pool.lock);
    return count;
}

/* Call `part` for ranges of `grain` numbers, from 0 to `count`. Each thread passes its own number, below
   `participants()`. */
void parallel_for(size_t count, size_t grain, Part part, void *context) {
    if (count <= grain || participants() == 1) {
        if (count > 0)
            part(context, 0, count, 0);
        return;
    }
    Job job = {.part = part, .context = context, .count = count, .grain = grain};
    size_t helpers = (count - 1) / grain;
    pthread_mutex_lock(&pool.lock);
    job.after = pool.jobs;
    pool.jobs = &job;
    for (size_t woken = 0; woken < helpers && woken < pool.sleeping; woken++)
        pthread_cond_signal(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    take_parts(&job, 0);
    for (int k = 0; k < LOOKS && __atomic_load_n(&job.inside, __ATOMIC_ACQUIRE) > 0; k++)
        relax();
    pthread_mutex_lock(&pool.lock);
    Job **place = &pool.jobs;
    while (*place != &job)
        place = &(*place)->after;
    *place = job.after;
    while (job.inside > 0)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

static void forget_threads(void) {
    static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t unused = PTHREAD_COND_INITIALIZER;
    pool.lock = unlocked;
    pool.work = pool.done = unused;
    pool.jobs = NULL;
    pool.threads = pool.sleeping = 0;
    pool.started = 0;
}

/* Let forked children start their own threads. */
int watch_forks(void) { return pthread_atfork(NULL, NULL, forget_threads); }

/* End the threads. Later callers run their loops alone. */
void stop_threads(void) {
    pthread_mutex_lock(&pool.lock);
    pool.stopping = 1;
    size_t threads = pool.threads;
    pthread_cond_broadcast(&pool.work);
    pthread_mutex_unlock(&pool.lock);
    for (size_t k = 0; k < threads; k++)
        pthread_join(pool.ids[k], NULL);
    pthread_mutex_lock(&pool.lock);
    pool.threads = 0;
    pthread_mutex_unlock(&pool.lock);
}

#else /* without POSIX threads, the caller runs the loop alone */

size_t participants(void) { return 1; }

void parallel_for(size_t count, size_t grain, Part part, void *context) {
    (void)grain;
    if (count > 0)
        part(context, 0, count, 0);
}

int watch_forks(void) { return 0; }

void stop_threads(void) {}

#endif
