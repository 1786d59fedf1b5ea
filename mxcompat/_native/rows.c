/* Reductions over rows of few elements, and scans: see `_graph/run/short_rows.py`. */
#include "in_c.h"
#include <stdint.h>

enum { ADD, MAXIMUM, MINIMUM, MULTIPLY };
enum { LINES = 4, WIDE = 8 };

#define PRODUCT(x, y) ((x) * (y))
#define SUM(x, y) ((x) + (y))
#define LARGER(x, y) (((x) >= (y)) | ((x) != (x)) ? (x) : (y))
#define SMALLER(x, y) (((x) <= (y)) | ((x) != (x)) ? (x) : (y))

/* So many columns, `WIDTH`, of rows that are `length` apart: each stays in a register. */
#define COLUMNS(type, combine, start, WIDTH)                                                                           \
    static void columns_##type##_##combine##_##WIDTH(type *to, const type *from, Py_ssize_t rows, Py_ssize_t length) { \
        type held[WIDTH];                                                                                              \
        for (int k = 0; k < WIDTH; k++)                                                                                \
            held[k] = start from[k];                                                                                   \
        for (Py_ssize_t row = 1; row < rows; row++) {                                                                  \
            from += length;                                                                                            \
            for (int k = 0; k < WIDTH; k++)                                                                            \
                held[k] = combine(held[k], from[k]);                                                                   \
        }                                                                                                              \
        for (int k = 0; k < WIDTH; k++)                                                                                \
            to[k] = held[k];                                                                                           \
    }

#define FOLD(type, combine, start)                                                                                     \
    COLUMNS(type, combine, start, 1)                                                                                   \
    COLUMNS(type, combine, start, 2)                                                                                   \
    COLUMNS(type, combine, start, 3)                                                                                   \
    COLUMNS(type, combine, start, 4)                                                                                   \
    static void fold_##type##_##combine(void *target, const void *source, Py_ssize_t blocks, Py_ssize_t rows,          \
                                        Py_ssize_t length) {                                                           \
        type *to = target;                                                                                             \
        const type *from = source;                                                                                     \
        for (; blocks > 0; blocks--, from += rows * length, to += length) {                                            \
            Py_ssize_t column = 0;                                                                                     \
            for (; column + 4 <= length; column += 4)                                                                  \
                columns_##type##_##combine##_4(to + column, from + column, rows, length);                              \
            switch (length - column) {                                                                                 \
            case 3: columns_##type##_##combine##_3(to + column, from + column, rows, length); break;                   \
            case 2: columns_##type##_##combine##_2(to + column, from + column, rows, length); break;                   \
            case 1: columns_##type##_##combine##_1(to + column, from + column, rows, length); break;                   \
            }                                                                                                          \
        }                                                                                                              \
    }

FOLD(float, SUM, 0 +) /* the sum of -0.0 is 0 */
FOLD(float, LARGER, )
FOLD(float, SMALLER, )
FOLD(double, SUM, 0 +)
FOLD(double, LARGER, )
FOLD(double, SMALLER, )
FOLD(uint32_t, SUM, 0 +) /* which wraps around, as int32 does */
FOLD(int32_t, LARGER, )
FOLD(int32_t, SMALLER, )
FOLD(float, PRODUCT, )
FOLD(double, PRODUCT, )
FOLD(uint32_t, PRODUCT, )
FOLD(uint8_t, LARGER, )
FOLD(uint8_t, SMALLER, )

/* So many lines, `WIDTH`, whose elements are `step` apart, and they themselves `apart`. */
#define SCANNED(type, combine, WIDTH)                                                                                  \
    static void scanned_##type##_##combine##_##WIDTH(type *to, const type *from, Py_ssize_t count, Py_ssize_t step,    \
                                                     Py_ssize_t apart) {                                               \
        type held[WIDTH];                                                                                              \
        for (int k = 0; k < WIDTH; k++)                                                                                \
            to[k * apart] = held[k] = from[k * apart];                                                                 \
        while (--count > 0) {                                                                                          \
            from += step, to += step;                                                                                  \
            for (int k = 0; k < WIDTH; k++)                                                                            \
                to[k * apart] = held[k] = combine(held[k], from[k * apart]);                                           \
        }                                                                                                              \
    }

#define SCAN(type, combine)                                                                                            \
    SCANNED(type, combine, 1)                                                                                          \
    SCANNED(type, combine, 4)                                                                                          \
    static void lines_##type##_##combine(type *to, const type *from, Py_ssize_t lines, Py_ssize_t count,               \
                                         Py_ssize_t step, Py_ssize_t apart) {                                          \
        for (; lines >= LINES; lines -= LINES, to += LINES * apart, from += LINES * apart)                             \
            scanned_##type##_##combine##_4(to, from, count, step, apart);                                              \
        for (; lines > 0; lines--, to += apart, from += apart)                                                         \
            scanned_##type##_##combine##_1(to, from, count, step, apart);                                              \
    }                                                                                                                  \
    static void scan_##type##_##combine(void *target, const void *source, Py_ssize_t blocks, Py_ssize_t rows,          \
                                        Py_ssize_t length, int reverse, int inclusive) {                               \
        Py_ssize_t step = reverse ? -length : length, start = reverse ? (rows - 1) * length : 0;                       \
        Py_ssize_t count = inclusive ? rows : rows - 1;                                                                \
        type *to = (type *)target + start + (inclusive ? 0 : step);                                                    \
        const type *from = (const type *)source + start;                                                               \
        if (count < 1)                                                                                                 \
            return;                                                                                                    \
        if (length == 1) {                                                                                             \
            lines_##type##_##combine(to, from, blocks, count, step, rows);                                             \
            return;                                                                                                    \
        }                                                                                                              \
        for (; blocks > 0; blocks--, to += rows * length, from += rows * length) {                                     \
            if (length < WIDE) {                                                                                       \
                lines_##type##_##combine(to, from, length, count, step, 1);                                            \
                continue;                                                                                              \
            }                                                                                                          \
            memcpy(to, from, (size_t)length * sizeof(type));                                                           \
            for (Py_ssize_t row = 1; row < count; row++) {                                                             \
                type *restrict now = to + row * step;                                                                  \
                const type *before = now - step, *x = from + row * step;                                               \
                for (Py_ssize_t k = 0; k < length; k++)                                                                \
                    now[k] = combine(before[k], x[k]);                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }

SCAN(float, SUM)
SCAN(float, LARGER)
SCAN(float, SMALLER)
SCAN(float, PRODUCT)
SCAN(double, SUM)
SCAN(double, LARGER)
SCAN(double, SMALLER)
SCAN(double, PRODUCT)
SCAN(uint32_t, SUM)
SCAN(int32_t, LARGER)
SCAN(int32_t, SMALLER)
SCAN(uint32_t, PRODUCT)

typedef void (*Fold)(void *, const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t);

static Fold fold_of(const char *format, long how) {
    static const Fold of_float[] = {fold_float_SUM, fold_float_LARGER, fold_float_SMALLER, fold_float_PRODUCT};
    static const Fold of_double[] = {fold_double_SUM, fold_double_LARGER, fold_double_SMALLER, fold_double_PRODUCT};
    static const Fold of_int[] = {fold_uint32_t_SUM, fold_int32_t_LARGER, fold_int32_t_SMALLER, fold_uint32_t_PRODUCT};
    static const Fold of_byte[] = {NULL, fold_uint8_t_LARGER, fold_uint8_t_SMALLER, NULL};
    if (how < ADD || how > MULTIPLY || format == NULL || strlen(format) != 1)
        return NULL;
    switch (*format) {
    case 'f': return of_float[how];
    case 'd': return of_double[how];
    case 'i': return of_int[how];
    case 'B': return of_byte[how];
    }
    return NULL;
}

typedef void (*Scan)(void *, const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t, int, int);

static Scan scan_of(const char *format, long how) {
    static const Scan of_float[] = {scan_float_SUM, scan_float_LARGER, scan_float_SMALLER, scan_float_PRODUCT};
    static const Scan of_double[] = {scan_double_SUM, scan_double_LARGER, scan_double_SMALLER, scan_double_PRODUCT};
    static const Scan of_int[] = {scan_uint32_t_SUM, scan_int32_t_LARGER, scan_int32_t_SMALLER, scan_uint32_t_PRODUCT};
    if (how < ADD || how > MULTIPLY || format == NULL || strlen(format) != 1)
        return NULL;
    return *format == 'f' ? of_float[how] : *format == 'd' ? of_double[how] : *format == 'i' ? of_int[how] : NULL;
}

/* The memory that is written to and that which is read, of the first two arguments. */
static int get_both(PyObject *const *args, Py_buffer *to, Py_buffer *from) {
    if (PyObject_GetBuffer(args[0], to, PyBUF_CONTIG) < 0)
        return -1;
    if (PyObject_GetBuffer(args[1], from, PyBUF_CONTIG_RO | PyBUF_FORMAT) < 0) {
        PyBuffer_Release(to);
        return -1;
    }
    return 0;
}

/* What a function of these returns: whether it was done, or NULL where they do not fit. */
static PyObject *done_with(const char *name, Py_buffer *to, Py_buffer *from, int fits, int done) {
    PyBuffer_Release(to);
    PyBuffer_Release(from);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "%s: the arrays do not fit each other", name);
    return PyBool_FromLong(done);
}

/* reduce_rows(to, from, how): reduce `from`, of three axes, along the second, one element after the other. `how`: 0 adds,
   1 and 2 find the largest and the smallest, 3 multiplies. Both lie in order. Returns whether that was done: not with
   types other than float32, float64 and int32, and uint8 for 1 and 2. */
static PyObject *reduce_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "reduce_rows(to, from, how)");
    long how = PyLong_AsLong(args[2]);
    Py_buffer to, from;
    if (PyErr_Occurred() || get_both(args, &to, &from) < 0)
        return NULL;
    int fits = to.ndim == 2 && from.ndim == 3 && to.itemsize == from.itemsize && to.shape[0] == from.shape[0] &&
               to.shape[1] == from.shape[2] && from.shape[1] > 0;
    Fold fold = fits ? fold_of(from.format, how) : NULL;
    if (fold != NULL) {
        Py_BEGIN_ALLOW_THREADS
        fold(to.buf, from.buf, from.shape[0], from.shape[1], from.shape[2]);
        Py_END_ALLOW_THREADS
    }
    return done_with("reduce_rows", &to, &from, fits, fold != NULL);
}

/* scan_rows(to, from, how, reverse, inclusive): the same of all elements up to each, from the other end if `reverse`.
   If not `inclusive` without the element itself: the first of each line is left as it is. Not of uint8. */
static PyObject *scan_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 5)
        return PyErr_Format(PyExc_TypeError, "scan_rows(to, from, how, reverse, inclusive)");
    long how = PyLong_AsLong(args[2]);
    int reverse = PyObject_IsTrue(args[3]), inclusive = PyObject_IsTrue(args[4]);
    Py_buffer to, from;
    if (PyErr_Occurred() || get_both(args, &to, &from) < 0)
        return NULL;
    int fits = to.ndim == 3 && from.ndim == 3 && to.itemsize == from.itemsize;
    for (int k = 0; fits && k < 3; k++)
        fits = to.shape[k] == from.shape[k];
    Scan scan = fits ? scan_of(from.format, how) : NULL;
    if (scan != NULL) {
        Py_BEGIN_ALLOW_THREADS
        scan(to.buf, from.buf, from.shape[0], from.shape[1], from.shape[2], reverse, inclusive);
        Py_END_ALLOW_THREADS
    }
    return done_with("scan_rows", &to, &from, fits, scan != NULL);
}

static PyMethodDef functions[] = {FAST("reduce_rows", reduce_rows), FAST("scan_rows", scan_rows), {NULL}};

int add_rows(PyObject *module) { return PyModule_AddFunctions(module, functions); }
