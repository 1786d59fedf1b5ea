/* Signals while an endless loop of XLA may run, see `_graph/run/endless.py`. Python's handlers cannot run then, since
   the main thread is in the loop. A handler in C asks the loops to stop. It also calls Python's C handler, which
   records the signal. */
#include "in_c.h"
#include <signal.h>
#include <stdatomic.h>

static atomic_uint changes; /* odd: loops stop */

int stop_requested(void) { return atomic_load_explicit(&changes, memory_order_relaxed) & 1; }

static const int numbers[] = {SIGINT, SIGALRM, SIGTERM, SIGUSR1, SIGUSR2}; /* same list: `_graph/run/interrupts.py` */
enum { SIGNALS = sizeof numbers / sizeof *numbers };

static struct sigaction before[SIGNALS];
static int watched[SIGNALS];

static void on_signal(int number) {
    unsigned even = atomic_load(&changes) & ~1u;
    atomic_compare_exchange_strong(&changes, &even, even | 1);
    for (int k = 0; k < SIGNALS; k++)
        if (numbers[k] == number)
            before[k].sa_handler(number);
}

static void watch(void) {
    for (int k = 0; k < SIGNALS; k++) {
        if (watched[k] || sigaction(numbers[k], NULL, &before[k]) != 0 || before[k].sa_flags & SA_SIGINFO ||
            before[k].sa_handler == SIG_DFL || before[k].sa_handler == SIG_IGN)
            continue;
        struct sigaction ours = before[k];
        ours.sa_handler = on_signal;
        watched[k] = sigaction(numbers[k], &ours, NULL) == 0;
    }
}

static void unwatch(void) {
    for (int k = 0; k < SIGNALS; k++)
        if (watched[k]) {
            sigaction(numbers[k], &before[k], NULL);
            watched[k] = 0;
        }
    unsigned odd = atomic_load(&changes) | 1u;
    atomic_compare_exchange_strong(&changes, &odd, odd + 1);
}

/* Let signals stop loops. Only the main thread calls this. */
static PyObject *watch_signals(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    watch();
    return none();
}

/* Restore the handlers, and let loops run again. It may be called without `watch_signals`. */
static PyObject *unwatch_signals(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    unwatch();
    return none();
}

/* Return a number that changes when loops are asked to stop, and when they may run again. It is odd in between. */
static PyObject *stops(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return PyLong_FromUnsignedLong(atomic_load(&changes));
}

static PyMethodDef functions[] = {
    FAST("watch_signals", watch_signals), FAST("unwatch_signals", unwatch_signals), FAST("stops", stops), {NULL}};

int add_interrupts(PyObject *module) { return PyModule_AddFunctions(module, functions); }
