/* The functions of `products.c`, `convolve.c`, `attention.c` and `interrupts.c` for XLA's foreign-function interface, see `_graph/run/foreign.py`. */
#include "ffi.h"
#include "in_c.h"
#include "kernels.h"

static void *failed(const FfiCall *call, int code, const char *message) {
    FfiError error = {sizeof error, NULL, message, code};
    return call->functions->make_error(&error);
}

/* Write the version of the interface to the call, which XLA requests when the function is registered. */
static void write_version(const FfiCall *call) {
    FfiMetadata *metadata = ((FfiMetadataExtension *)call->extension)->metadata;
    const FfiVersion *theirs = &call->functions->version;
    metadata->version.major = FFI_MAJOR;
    /* the structures used here are the same in all minor versions */
    metadata->version.minor = theirs->major == FFI_MAJOR ? theirs->minor : 0;
    metadata->traits = 0;
}

/* Return the kind in `kernels.h` of a dtype, or -1 if it has none. */
static int kind_of(const FfiBuffer *buffer) {
    switch (buffer->dtype) {
    case FFI_FLOAT32: return FLOAT32;
    case FFI_BFLOAT16: return BFLOAT16;
    case FFI_FLOAT16: return FLOAT16;
    default: return -1;
    }
}

static size_t size_of_buffer(const FfiBuffer *buffer) {
    size_t size = 1;
    for (int64_t k = 0; k < buffer->rank; k++)
        size *= (size_t)buffer->shape[k];
    return size;
}

/* Indices into the attribute of a call, which is an array of numbers: the kind of the matrix; the kind of the scales, if
   they are codes; one flag for each optional argument; then members of `Product`. */
enum { KIND, SCALE_KIND, UNITS, LHS, RHS, TRANSPOSED, GROUP, INNER, OUTER, MATRICES, X_MATRICES, PRODUCTS, ROWS, NUMBERS };

/* The arguments are x, words, scales (not for half precision), biases (only for integer codes), then units, lhs and rhs
   if present. */
static int read_product(const FfiCall *call, const int64_t *n, Product *p) {
    FfiBuffer *const *buffers = call->arguments.buffers;
    int codes = n[KIND] < E2M1, halves = n[KIND] >= BFLOAT16;
    int64_t count = 3 + codes - halves + n[UNITS] + n[LHS] + n[RHS];
    if (call->arguments.count != count || call->results.count != 1)
        return -1;
    *p = (Product){.kind = (int)n[KIND],
                   .scale_kind = codes ? kind_of(buffers[2]) : (int)n[SCALE_KIND],
                   .bias_kind = codes ? kind_of(buffers[3]) : FLOAT32,
                   .x_kind = kind_of(buffers[0]),
                   .y_kind = kind_of(call->results.buffers[0]),
                   .transposed = (int)n[TRANSPOSED],
                   .group = (size_t)n[GROUP],
                   .inner = (size_t)n[INNER],
                   .outer = (size_t)n[OUTER],
                   .matrices = (size_t)n[MATRICES],
                   .x_matrices = (size_t)n[X_MATRICES],
                   .products = (size_t)n[PRODUCTS],
                   .rows = (size_t)n[ROWS],
                   .x = buffers[0]->data,
                   .stored = buffers[1]->data,
                   .scales = halves ? NULL : buffers[2]->data,
                   .biases = codes ? buffers[3]->data : NULL,
                   .y = call->results.buffers[0]->data};
    if (n[RHS])
        p->rhs = buffers[--count]->data;
    if (n[LHS])
        p->lhs = buffers[--count]->data;
    if (n[UNITS])
        p->units = buffers[--count]->data;
    size_t columns = p->transposed ? p->inner : p->outer, rows = p->transposed ? p->outer : p->inner;
    int fits = p->scale_kind >= 0 && p->bias_kind >= 0 && p->x_kind >= 0 && p->y_kind >= 0 &&
               size_of_buffer(buffers[0]) == p->x_matrices * p->rows * p->inner &&
               size_of_buffer(buffers[1]) * (halves ? 16 : 32) == p->matrices * rows * columns * bits_of(p->kind) &&
               (halves ? kind_of(buffers[1]) == p->kind
                       : size_of_buffer(buffers[2]) * p->group == p->matrices * rows * columns) &&
               size_of_buffer(call->results.buffers[0]) == p->products * p->rows * p->outer;
    return fits ? 0 : -1;
}

/* Find the numbers in the attribute and return 1. Return 0 if there is nothing to compute: for a request for the
   version, which is answered here; or if the attribute is not an array of `count` numbers, with an error in
   `*error`. */
static int begin(const FfiCall *call, size_t count, const int64_t **numbers, void **error) {
    *error = NULL;
    if (call->extension != NULL && call->extension->kind == FFI_METADATA) {
        write_version(call);
        return 0;
    }
    if (call->stage != FFI_EXECUTE)
        return 0;
    const FfiAttributes *attributes = &call->attributes;
    const FfiArray *array = attributes->count == 1 ? attributes->values[0] : NULL;
    if (array == NULL || attributes->kinds[0] != FFI_ARRAY || array->dtype != FFI_INT64 || array->count != count) {
        *error = failed(call, FFI_INVALID_ARGUMENT, "the call needs other numbers");
        return 0;
    }
    *numbers = array->data;
    return 1;
}

static void *multiply_for_xla(FfiCall *call) {
    const int64_t *numbers;
    void *error;
    Product p;
    if (!begin(call, NUMBERS, &numbers, &error))
        return error;
    if (read_product(call, numbers, &p) < 0)
        return failed(call, FFI_INVALID_ARGUMENT, "multiply_stored: the arrays do not fit each other");
    if (multiply(&p) < 0)
        return failed(call, FFI_EXHAUSTED, "multiply_stored: there is no memory");
    return NULL;
}

/* `numbers[0]` is 1 for the gradient of the weights. The others are those of `read_convolution`. */
static void *convolve_for_xla(FfiCall *call) {
    const int64_t *numbers;
    void *error;
    Convolution c;
    size_t sizes[3];
    if (!begin(call, 1 + CONVOLUTION_NUMBERS, &numbers, &error))
        return error;
    int for_weights = numbers[0] != 0, fits = call->arguments.count == 2 && call->results.count == 1;
    fits = fits && read_convolution(numbers + 1, &c, sizes) == 0;
    if (fits) {
        const FfiBuffer *all[] = {call->arguments.buffers[0], call->arguments.buffers[1], call->results.buffers[0]};
        for (int k = 0; k < 3; k++) {
            size_t size = sizes[k == 0 || !for_weights ? k : 3 - k];
            fits = fits && all[k]->dtype == FFI_FLOAT32 && size_of_buffer(all[k]) == size;
        }
    }
    if (!fits)
        return failed(call, FFI_INVALID_ARGUMENT, "convolve: the arrays do not fit each other");
    float *second = call->arguments.buffers[1]->data, *result = call->results.buffers[0]->data;
    if (convolve(&c, for_weights, call->arguments.buffers[0]->data, for_weights ? result : second,
                 for_weights ? second : result) < 0)
        return failed(call, FFI_EXHAUSTED, "convolve: there is no memory");
    return NULL;
}

/* Indices into the attribute of a call: flags, then members of `Attention`. */
enum {
    CAUSAL, PREFIX, MASKED, SINKS, BATCH, GROUPS, HEADS, QUERIES, KEYS, WIDTH, DEPTH, MASK_APART,
    ATTENTION_NUMBERS = MASK_APART + 4
};

/* Read the number of valid keys. Return -1 if the buffer has no such number. */
static int read_length(const FfiBuffer *buffer, size_t keys, size_t *length) {
    if (buffer->dtype != FFI_INT32 || size_of_buffer(buffer) != 1)
        return -1;
    int32_t valid = *(const int32_t *)buffer->data;
    *length = valid < 0 ? 0 : smaller((size_t)valid, keys);
    return 0;
}

/* Read the mask: bools or floats, whose elements are as far apart as the call says. */
static int read_mask(const FfiBuffer *buffer, size_t keys, Attention *a) {
    size_t heads = a->groups * (a->rows / a->queries), last = 0;
    const size_t sizes[] = {a->batch, heads, a->queries, keys};
    for (int k = 0; k < 4; k++)
        last += (sizes[k] - 1) * a->mask_apart[k];
    if (buffer->dtype == FFI_BOOL)
        a->seen = buffer->data;
    else
        a->terms = buffer->data;
    return (a->seen != NULL || buffer->dtype == FFI_FLOAT32) && last < size_of_buffer(buffer) ? 0 : -1;
}

/* The arguments are q, k, v, the scale, and, if present, the mask, the number of valid keys, and the sinks. */
static void *attend_for_xla(FfiCall *call) {
    const int64_t *n;
    void *error;
    if (!begin(call, ATTENTION_NUMBERS, &n, &error))
        return error;
    FfiBuffer *const *buffers = call->arguments.buffers, *const *others = buffers + 4;
    if (call->arguments.count != 4 + n[MASKED] + n[PREFIX] + n[SINKS] || call->results.count != 1 || n[QUERIES] < 1)
        return failed(call, FFI_INVALID_ARGUMENT, "attend: the call needs other arguments");
    const FfiBuffer *y = call->results.buffers[0];
    size_t keys = (size_t)n[KEYS], pairs = (size_t)(n[BATCH] * n[GROUPS]);
    Attention a = {.kind = kind_of(buffers[0]), .causal = n[CAUSAL] != 0, .batch = (size_t)n[BATCH],
                   .groups = (size_t)n[GROUPS], .rows = (size_t)(n[HEADS] * n[QUERIES]), .queries = (size_t)n[QUERIES],
                   .width = (size_t)n[WIDTH], .depth = (size_t)n[DEPTH], .length = keys, .q = buffers[0]->data,
                   .k = buffers[1]->data, .v = buffers[2]->data, .y = y->data};
    a.k_group = keys * a.width;
    a.v_group = keys * a.depth;
    a.k_batch = a.groups * a.k_group;
    a.v_batch = a.groups * a.v_group;
    for (int k = 0; k < 4; k++)
        a.mask_apart[k] = (size_t)n[MASK_APART + k];
    int fits = a.kind >= 0 && kind_of(buffers[1]) == a.kind && kind_of(buffers[2]) == a.kind && kind_of(y) == a.kind &&
               kind_of(buffers[3]) == FLOAT32 && size_of_buffer(buffers[3]) == 1 &&
               size_of_buffer(buffers[0]) == pairs * a.rows * a.width && size_of_buffer(buffers[1]) == pairs * a.k_group &&
               size_of_buffer(buffers[2]) == pairs * a.v_group && size_of_buffer(y) == pairs * a.rows * a.depth;
    if (fits && n[MASKED])
        fits = read_mask(*others++, keys, &a) == 0;
    if (fits && n[PREFIX])
        fits = read_length(*others++, keys, &a.length) == 0;
    if (fits && n[SINKS]) {
        a.sinks = (*others)->data;
        fits = kind_of(*others) == FLOAT32 && size_of_buffer(*others) == (size_t)(n[GROUPS] * n[HEADS]);
    }
    if (!fits)
        return failed(call, FFI_INVALID_ARGUMENT, "attend: the arrays do not fit each other");
    a.scale = *(const float *)buffers[3]->data;
    if (attend(&a) < 0)
        return failed(call, FFI_EXHAUSTED, "attend: there is no memory");
    return NULL;
}

/* The result is 1 if a signal asks loops to stop, else 0. */
static void *stop_for_xla(FfiCall *call) {
    const int64_t *numbers;
    void *error;
    if (!begin(call, 1, &numbers, &error))
        return error;
    if (call->results.count != 1 || call->results.buffers[0]->dtype != FFI_BOOL)
        return failed(call, FFI_INVALID_ARGUMENT, "stop: the result is one bool");
    *(uint8_t *)call->results.buffers[0]->data = (uint8_t)stop_requested();
    return NULL;
}

static int add(PyObject *module, const char *name, void *function) {
    PyObject *capsule = PyCapsule_New(function, NULL, NULL);
    int added = PyModule_AddObjectRef(module, name, capsule);
    Py_XDECREF(capsule);
    return added;
}

int add_ffi(PyObject *module) {
    if (add(module, "multiply_for_xla", (void *)multiply_for_xla) < 0)
        return -1;
    if (add(module, "convolve_for_xla", (void *)convolve_for_xla) < 0)
        return -1;
    if (add(module, "attend_for_xla", (void *)attend_for_xla) < 0)
        return -1;
    return add(module, "stop_for_xla", (void *)stop_for_xla);
}
