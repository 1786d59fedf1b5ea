/* Memory at aligned addresses for NumPy's arrays, see `_compat/aligned_memory.py`. */
#include "in_c.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum {
    ALIGNMENT = 64,
    SPACE = 2 * ALIGNMENT, /* XLA's `posix_memalign` for as many bytes fits into the gap of a freed array */
    HUGE_FROM = 1 << 22,   /* bytes from which NumPy asks for huge pages */
    PAGE = 1 << 12,
    NUMPY_ABI = 0x02000000,
    GET_ABI = 0, /* places in NumPy's table of C functions */
    SET_HANDLER = 304,
};

typedef struct {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *memory, size_t size);
    void (*free)(void *context, void *memory, size_t size);
} Allocator;

typedef struct {
    char name[127];
    uint8_t version;
    Allocator allocator;
} Handler;

/* The block of an aligned address, and the size that was asked for, stand in front of the address. */
typedef struct {
    void *block;
    size_t size;
} Front;

static Front *front(void *memory) { return (Front *)memory - 1; }

static void *aligned(void *block, size_t size) {
    if (block == NULL)
        return NULL;
    char *memory = (char *)block + sizeof(Front);
    memory += (0 - (uintptr_t)memory) % ALIGNMENT;
    *front(memory) = (Front){block, size};
    return memory;
}

static void *allocate(void *context, size_t size) {
    void *memory = size > SIZE_MAX - SPACE ? NULL : aligned(malloc(size + SPACE), size);
#ifdef MADV_HUGEPAGE
    if (memory != NULL && size >= HUGE_FROM) {
        size_t before = PAGE - (uintptr_t)memory % PAGE;
        madvise((char *)memory + before, size - before, MADV_HUGEPAGE);
    }
#endif
    return memory;
}

static void *allocate_zeros(void *context, size_t count, size_t size) {
    if (size != 0 && count > (SIZE_MAX - SPACE) / size)
        return NULL;
    return aligned(calloc(count * size + SPACE, 1), count * size);
}

static void release(void *context, void *memory, size_t size) {
    if (memory != NULL)
        free(front(memory)->block);
}

static void *reallocate(void *context, void *memory, size_t size) {
    void *moved = allocate(context, size);
    if (memory == NULL || moved == NULL)
        return moved;
    size_t before = front(memory)->size;
    memcpy(moved, memory, before < size ? before : size);
    release(context, memory, before);
    return moved;
}

static Handler handler = {
    .name = "mxcompat",
    .version = 1,
    .allocator = {NULL, allocate, allocate_zeros, reallocate, release},
};

/* Set the handler of NumPy's new arrays in this context of Python, and return the previous one. The arguments are the
   capsule of NumPy's C functions and a handler, or None for ours. */
static PyObject *swap_memory_handler(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "swap_memory_handler: expected 2 arguments, got %zd", count);
    void **functions = PyCapsule_GetPointer(args[0], NULL);
    if (functions == NULL)
        return NULL;
    if (((unsigned (*)(void))functions[GET_ABI])() != NUMPY_ABI)
        return PyErr_Format(PyExc_RuntimeError, "swap_memory_handler: unknown version of NumPy's C functions");
    PyObject *ours = args[1] == Py_None ? PyCapsule_New(&handler, "mem_handler", NULL) : Py_NewRef(args[1]);
    if (ours == NULL)
        return NULL;
    PyObject *before = ((PyObject * (*)(PyObject *)) functions[SET_HANDLER])(ours);
    Py_DECREF(ours);
    return before;
}

static PyMethodDef functions[] = {FAST("swap_memory_handler", swap_memory_handler), {NULL}};

int add_memory(PyObject *module) { return PyModule_AddFunctions(module, functions); }
