/* The Python functions of `products.c`, `stored.c`, `convolve.c` and `attention.c`, see `_ops/products/stored.py`,
   `_ops/conv/primitive_rules.py` and `_ops/fast/few_queries.py`. */
#include "in_c.h"
#include "kernels.h"

enum { QUIET_WORK = 1 << 16 }; /* maximum number of elements for which the interpreter's lock is kept */

_Thread_local double in_kernels;

double thread_seconds(void) {
    struct timespec now;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0 ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec : 0;
}

/* seconds_in_kernels(): return the CPU seconds of this thread in kernels that XLA's programs call, too. */
static PyObject *seconds_in_kernels(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(unused)) {
    return PyFloat_FromDouble(in_kernels);
}

/* The buffers of arguments. Each argument is C-contiguous, or None. */
typedef struct {
    Py_buffer views[8];
    size_t count;
} Views;

static void release(Views *views) {
    while (views->count > 0) {
        Py_buffer *view = &views->views[--views->count];
        if (view->obj != NULL)
            PyBuffer_Release(view);
    }
}

/* Get the buffers of arguments. The first one must be writable. */
static int see(Views *views, PyObject *const *args, size_t count) {
    for (views->count = 0; views->count < count; views->count++) {
        Py_buffer *view = &views->views[views->count];
        PyObject *arg = args[views->count];
        if (Py_IsNone(arg)) {
            memset(view, 0, sizeof *view);
        } else if (PyObject_GetBuffer(arg, view, views->count == 0 ? PyBUF_WRITABLE : PyBUF_SIMPLE) < 0) {
            release(views);
            return -1;
        }
    }
    return 0;
}

/* Read `count` numbers that are not negative. */
static int read_numbers(PyObject *const *args, size_t *numbers, size_t count) {
    for (size_t k = 0; k < count; k++)
        if ((numbers[k] = PyLong_AsSize_t(args[k])) == (size_t)-1 && PyErr_Occurred())
            return -1;
    return 0;
}

/* Read the kinds of the elements, scales, biases and others from a bytes object. */
static int read_kinds(PyObject *arg, uint8_t *kinds, Py_ssize_t count) {
    char *text;
    Py_ssize_t length;
    if (PyBytes_AsStringAndSize(arg, &text, &length) < 0)
        return -1;
    int fits = length == count && text[0] <= FLOAT16;
    for (Py_ssize_t k = 0; fits && k < count; k++)
        fits = text[k] >= 0 && text[k] <= E8M0 && (k == 0 || text[k] >= E4M3);
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "there are no such kinds of elements");
        return -1;
    }
    memcpy(kinds, text, (size_t)count);
    return 0;
}

static int is_float(int kind) { return kind == FLOAT32 || kind == BFLOAT16 || kind == FLOAT16; }

/* Return 1 if a view has x * y elements, without an overflow, or if there is no view and it is optional. */
static int holds(const Py_buffer *view, size_t x, size_t y, size_t bits, int optional) {
    if (view->obj == NULL)
        return optional;
    size_t most = (size_t)PY_SSIZE_T_MAX / 64;
    if (y > 0 && x > most / y)
        return 0;
    return (size_t)view->len == x * y * bits / 8;
}

/* multiply_stored(y, x, stored, scales, biases, units, lhs, rhs, kinds, transposed, group, inner, outer, matrices,
   x_matrices, products, rows): fill y with the products that `Product` in kernels.h describes. `kinds` are the kinds of
   the matrix, its scales, its biases, x and y. */
static PyObject *multiply_stored(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    size_t n[8];
    uint8_t kinds[5];
    Views views;
    if (count != 17)
        return PyErr_Format(PyExc_TypeError, "multiply_stored takes 17 arguments");
    if (read_kinds(args[8], kinds, 5) < 0 || read_numbers(args + 9, n, 8) < 0 || see(&views, args, 8) < 0)
        return NULL;
    const Py_buffer *v = views.views;
    Product p = {.kind = kinds[0], .scale_kind = kinds[1], .bias_kind = kinds[2], .x_kind = kinds[3],
                 .y_kind = kinds[4], .transposed = n[0] != 0, .group = n[1], .inner = n[2], .outer = n[3],
                 .matrices = n[4], .x_matrices = n[5], .products = n[6], .rows = n[7],
                 .y = v[0].buf, .x = v[1].buf, .stored = v[2].buf, .scales = v[3].buf, .biases = v[4].buf,
                 .units = v[5].buf, .lhs = v[6].buf, .rhs = v[7].buf};
    size_t columns = p.transposed ? p.inner : p.outer, rows = p.transposed ? p.outer : p.inner;
    int codes = p.kind < E2M1, scaled = p.kind < BFLOAT16;
    int fits = is_float(p.x_kind) && is_float(p.y_kind) && (!codes || (is_float(p.scale_kind) && is_float(p.bias_kind)));
    fits = fits && (!scaled || (p.group > 0 && p.group % 16 == 0 && columns % p.group == 0));
    size_t groups = fits && scaled ? columns / p.group : 0;
    fits = fits && rows < PY_SSIZE_T_MAX / 64 / (p.matrices + 1) && p.rows < PY_SSIZE_T_MAX / 64 / (p.products + 1) &&
           holds(&v[0], p.products * p.rows, p.outer, bits_of(p.y_kind), 0) &&
           p.rows < PY_SSIZE_T_MAX / 64 / (p.x_matrices + 1) &&
           holds(&v[1], p.x_matrices * p.rows, p.inner, bits_of(p.x_kind), 0) &&
           holds(&v[2], p.matrices * rows, columns, bits_of(p.kind), 0) &&
           holds(&v[3], p.matrices * rows, groups, bits_of(p.scale_kind), !scaled) &&
           holds(&v[4], p.matrices * rows, groups, bits_of(p.bias_kind), !codes) &&
           holds(&v[5], p.matrices, 1, 32, 1) && holds(&v[6], p.products, 1, 32, 1) &&
           holds(&v[7], p.products, 1, 32, 1) && (p.products == 0 || (p.matrices > 0 && p.x_matrices > 0)) &&
           (p.lhs != NULL || p.x_matrices == 1 || p.x_matrices == p.products) &&
           (p.rhs != NULL || p.matrices == 1 || p.matrices == p.products);
    int failed = 0;
    if (fits && p.outer * p.rows * p.products < QUIET_WORK / (p.inner + 1)) {
        failed = multiply(&p);
    } else if (fits) {
        COMPUTE(failed = multiply(&p));
    }
    release(&views);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "multiply_stored: the arrays do not fit each other");
    return failed ? PyErr_NoMemory() : Py_NewRef(Py_None);
}

/* unpack_stored(out, stored, scales, biases, unit, kinds, group): unpack groups of elements to `out`. `kinds` are
   the kinds of the elements, scales, biases, rounding steps and `out`, see `Unpacking` in kernels.h. */
static PyObject *unpack_stored(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    uint8_t kinds[5];
    Views views;
    if (count != 7)
        return PyErr_Format(PyExc_TypeError, "unpack_stored takes 7 arguments");
    double unit = PyFloat_AsDouble(args[4]);
    size_t group;
    if (PyErr_Occurred() || read_kinds(args[5], kinds, 5) < 0 || read_numbers(args + 6, &group, 1) < 0 ||
        see(&views, args, 4) < 0)
        return NULL;
    const Py_buffer *v = views.views;
    int codes = kinds[0] < E2M1;
    int fits = kinds[0] < BFLOAT16 && is_float(kinds[3]) && is_float(kinds[4]) && group > 0 && group <= 128 &&
               group % 16 == 0 && v[2].obj != NULL && (!codes || (is_float(kinds[1]) && is_float(kinds[2])));
    size_t groups = fits ? (size_t)v[2].len / item_size(kinds[1]) : 0;
    fits = fits && holds(&v[0], groups, group, bits_of(kinds[4]), 0) &&
           holds(&v[1], groups, group, bits_of(kinds[0]), 0) && holds(&v[2], groups, 1, bits_of(kinds[1]), 0) &&
           holds(&v[3], groups, 1, bits_of(kinds[2]), !codes);
    if (fits) {
        Unpacking u = {kinds[0], kinds[1], kinds[2],  kinds[3],  kinds[4],    groups,
                       group,    v[1].buf, v[2].buf, v[3].buf, (float)unit, v[0].buf};
        Py_BEGIN_ALLOW_THREADS
        unpack_all(&u);
        Py_END_ALLOW_THREADS
    }
    release(&views);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "unpack_stored: the arrays do not fit each other");
    return Py_NewRef(Py_None);
}

/* cast_halves(to, from, kind, back): cast from a kind of half precision to float32, or back if `back`. */
static PyObject *cast_halves(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    size_t n[2];
    Views views;
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "cast_halves takes 4 arguments");
    if (read_numbers(args + 2, n, 2) < 0 || see(&views, args, 2) < 0)
        return NULL;
    const Py_buffer *v = views.views, *halves = &v[n[1] ? 0 : 1], *floats = &v[n[1] ? 1 : 0];
    size_t length = (size_t)halves->len / 2;
    int fits = (n[0] == BFLOAT16 || n[0] == FLOAT16) && holds(halves, length, 1, 16, 0) && holds(floats, length, 1, 32, 0);
    if (fits && length < QUIET_WORK) {
        cast_all((int)n[0], n[1] != 0, v[1].buf, v[0].buf, length);
    } else if (fits) {
        Py_BEGIN_ALLOW_THREADS
        cast_all((int)n[0], n[1] != 0, v[1].buf, v[0].buf, length);
        Py_END_ALLOW_THREADS
    }
    release(&views);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "cast_halves: the arrays do not fit each other");
    return Py_NewRef(Py_None);
}

/* erf(to, from): compute the error function of float32. */
static PyObject *erf_in_c(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    Views views;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "erf takes 2 arguments");
    if (see(&views, args, 2) < 0)
        return NULL;
    const Py_buffer *v = views.views;
    size_t length = (size_t)v[0].len / sizeof(float);
    int fits = holds(&v[0], length, 1, 32, 0) && holds(&v[1], length, 1, 32, 0);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        erf_of_all(v[1].buf, v[0].buf, length);
        Py_END_ALLOW_THREADS
    }
    release(&views);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "erf: the arrays do not fit each other");
    return Py_NewRef(Py_None);
}

/* convolve(out, x, other, numbers): fill `out` with a convolution, or with the gradient of its weights. `numbers` is a
   buffer of 64-bit integers, as for `convolve_for_xla`. All arrays are float32. */
static PyObject *convolve_arrays(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    int64_t numbers[1 + CONVOLUTION_NUMBERS];
    size_t sizes[3];
    Convolution c;
    Views views;
    if (count != 4)
        return PyErr_Format(PyExc_TypeError, "convolve takes 4 arguments");
    if (see(&views, args, 4) < 0)
        return NULL;
    const Py_buffer *v = views.views;
    int fits = v[3].len == sizeof numbers && v[0].obj != NULL && v[1].obj != NULL && v[2].obj != NULL;
    if (fits)
        memcpy(numbers, v[3].buf, sizeof numbers);
    fits = fits && read_convolution(numbers + 1, &c, sizes) == 0;
    int for_weights = fits && numbers[0] != 0, failed = 0;
    fits = fits && holds(&v[0], sizes[for_weights ? 1 : 2], 1, 32, 0) && holds(&v[1], sizes[0], 1, 32, 0) &&
           holds(&v[2], sizes[for_weights ? 2 : 1], 1, 32, 0);
    if (fits) {
        COMPUTE(failed = convolve(&c, for_weights, v[1].buf, v[for_weights ? 0 : 2].buf, v[for_weights ? 2 : 0].buf));
    }
    release(&views);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "convolve: the arrays do not fit each other");
    return failed ? PyErr_NoMemory() : Py_NewRef(Py_None);
}

/* choose_instructions(name): use the instruction set "amx", "avx512vbmi", "avx512", "avx2" or "plain". Return the name of
   the previous one. */
static PyObject *choose_instructions(PyObject *Py_UNUSED(module), PyObject *name) {
    const char *before = kernels()->name;
    Py_ssize_t length;
    const char *text = PyUnicode_AsUTF8AndSize(name, &length);
    if (text == NULL)
        return NULL;
    if (choose_kernels(text) < 0)
        return PyErr_Format(PyExc_ValueError, "this processor lacks the instructions %s", text);
    return PyUnicode_FromString(before);
}

/* uses_tiles(): return True if `multiply_tiles` multiplies bfloat16 by transposed bfloat16 matrices. */
static PyObject *uses_tiles(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    return PyBool_FromLong(kernels()->tiled && tiles_allowed());
}

/* Get the buffer of an array with four axes. `flags` say if it must be contiguous. */
static int see_axes(Views *views, PyObject *arg, int flags) {
    Py_buffer *view = &views->views[views->count];
    if (PyObject_GetBuffer(arg, view, flags) < 0)
        return -1;
    views->count++;
    int fits = view->ndim == 4;
    for (int k = 0; fits && k < 4 && view->strides != NULL; k++)
        fits = view->strides[k] >= 0 && view->strides[k] % view->itemsize == 0;
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "attend: an array has other axes");
    return fits ? 0 : -1;
}

/* Return 1 if the last two axes of a view are contiguous. */
static int has_rows(const Py_buffer *view) {
    const Py_ssize_t *shape = view->shape, *strides = view->strides;
    return (shape[3] < 2 || strides[3] == view->itemsize) && (shape[2] < 2 || strides[2] == shape[3] * view->itemsize);
}

/* Read the mask: an array of bools or floats with an element for each score. */
static int read_mask(Views *views, PyObject *arg, const Py_ssize_t *q_shape, Py_ssize_t keys, Attention *a) {
    const Py_buffer *mask = &views->views[views->count];
    if (see_axes(views, arg, PyBUF_STRIDES) < 0)
        return -1;
    int fits = mask->itemsize == 1 || mask->itemsize == sizeof(float);
    for (int k = 0; fits && k < 4; k++) {
        fits = mask->shape[k] == (k < 3 ? q_shape[k] : keys);
        a->mask_apart[k] = (size_t)(mask->strides[k] / mask->itemsize);
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "attend: the mask does not fit the scores");
        return -1;
    }
    if (mask->itemsize == 1)
        a->seen = mask->buf;
    else
        a->terms = mask->buf;
    return 0;
}

/* Read the arrays of `attend_in_c`. */
static int read_attention(Views *views, PyObject *const *args, Attention *a) {
    if (see_axes(views, args[0], PyBUF_ND | PyBUF_WRITABLE) < 0 || see_axes(views, args[1], PyBUF_ND) < 0 ||
        see_axes(views, args[2], PyBUF_STRIDES) < 0 || see_axes(views, args[3], PyBUF_STRIDES) < 0)
        return -1;
    size_t size = item_size(a->kind);
    const Py_buffer *y = views->views, *q = y + 1, *k = y + 2, *v = y + 3;
    Py_ssize_t heads = q->shape[1], groups = k->shape[1];
    int fits = groups > 0 && heads > 0 && heads % groups == 0 && q->shape[2] > 0 && q->shape[0] == k->shape[0] &&
               q->shape[0] == v->shape[0] && q->shape[0] == y->shape[0] && groups == v->shape[1] &&
               heads == y->shape[1] && q->shape[2] == y->shape[2] && k->shape[2] == v->shape[2] &&
               q->shape[3] == k->shape[3] && v->shape[3] == y->shape[3] && a->length <= (size_t)k->shape[2] &&
               has_rows(k) && has_rows(v);
    for (int n = 0; n < 4; n++)
        fits = fits && (size_t)y[n].itemsize == size;
    if (fits && !Py_IsNone(args[4]) && read_mask(views, args[4], q->shape, k->shape[2], a) < 0)
        return -1;
    if (fits && !Py_IsNone(args[5])) {
        Py_buffer *sinks = &views->views[views->count];
        if (PyObject_GetBuffer(args[5], sinks, PyBUF_SIMPLE) < 0)
            return -1;
        views->count++;
        a->sinks = sinks->buf;
        fits = sinks->len == heads * (Py_ssize_t)sizeof(float);
    }
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "attend: the arrays do not fit each other");
        return -1;
    }
    a->batch = (size_t)q->shape[0];
    a->groups = (size_t)groups;
    a->queries = (size_t)q->shape[2];
    a->rows = (size_t)(heads / groups) * a->queries;
    a->width = (size_t)q->shape[3];
    a->depth = (size_t)v->shape[3];
    a->k_batch = (size_t)k->strides[0] / size;
    a->k_group = (size_t)k->strides[1] / size;
    a->v_batch = (size_t)v->strides[0] / size;
    a->v_group = (size_t)v->strides[1] / size;
    a->q = q->buf;
    a->k = k->buf;
    a->v = v->buf;
    a->y = y->buf;
    return 0;
}

/* attend(y, q, k, v, mask, sinks, kind, causal, length, scale): fill y with the attention that `Attention` in kernels.h
   describes. The arrays have four axes; q and y have heads instead of groups. The mask (of bools or float32, for all
   scores) and the sinks may be None. */
static PyObject *attend_in_c(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    size_t n[3];
    if (count != 10)
        return PyErr_Format(PyExc_TypeError, "attend takes 10 arguments");
    double scale = PyFloat_AsDouble(args[9]);
    if (PyErr_Occurred() || read_numbers(args + 6, n, 3) < 0)
        return NULL;
    if (n[0] > FLOAT32 || !is_float((int)n[0]))
        return PyErr_Format(PyExc_ValueError, "there are no such kinds of elements");
    Attention a = {.kind = (int)n[0], .causal = n[1] != 0, .length = n[2], .scale = (float)scale};
    Views views = {.count = 0};
    int failed = read_attention(&views, args, &a);
    if (!failed) {
        if (a.batch * a.groups * a.rows * a.length < QUIET_WORK / (a.width + a.depth + 1)) {
            failed = attend(&a);
        } else {
            COMPUTE(failed = attend(&a));
        }
        if (failed)
            PyErr_NoMemory();
    }
    release(&views);
    return failed ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    FAST("multiply_stored", multiply_stored),
    FAST("unpack_stored", unpack_stored),
    FAST("cast_halves", cast_halves),
    FAST("erf", erf_in_c),
    FAST("convolve", convolve_arrays),
    FAST("attend", attend_in_c),
    {"choose_instructions", choose_instructions, METH_O, NULL},
    {"uses_tiles", uses_tiles, METH_NOARGS, NULL},
    {"seconds_in_kernels", seconds_in_kernels, METH_NOARGS, NULL},
    {NULL},
};

int add_quantized(PyObject *module) {
    static int watched;
    if (!watched && (watch_forks() != 0 || Py_AtExit(stop_threads) < 0)) {
        PyErr_SetString(PyExc_ImportError, "the pool of threads cannot be looked after");
        return -1;
    }
    if (!watched)
        find_kernels();
    watched = 1;
    return PyModule_AddFunctions(module, functions);
}
