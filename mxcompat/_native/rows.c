/* Reductions before rows of few elements, and scans: see `_graph/run/short_rows.py`. */
#include "in_c.h"
#include <stdint.h>

enum { ADD, MAXIMUM, MINIMUM, MULTIPLY };
enum { LINES = 4, WIDE = 8 };

#define PRODUCT(x, y) ((x) * (y))
#define SUM(x, y) ((x) + (y))
#define LARGER(x, y) (((x) >= (y)) | ((x) != (x)) ? (x) : (y))
#define SMALLER(x, y) (((x) <= (y)) | ((x) != (x)) ? (x) : (y))

/* Reduce `WIDTH` columns of rows that are `length` elements apart. Each result stays in a register. */
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

FOLD(float, SUM, 0 +) /* sums start at 0, so the sum of -0.0 is 0 */
FOLD(float, LARGER, )
FOLD(float, SMALLER, )
FOLD(double, SUM, 0 +)
FOLD(double, LARGER, )
FOLD(double, SMALLER, )
FOLD(uint32_t, SUM, 0 +) /* unsigned sums wrap around; the bits are those of int32 */
FOLD(int32_t, LARGER, )
FOLD(int32_t, SMALLER, )
FOLD(float, PRODUCT, )
FOLD(double, PRODUCT, )
FOLD(uint32_t, PRODUCT, )
FOLD(uint8_t, LARGER, )
FOLD(uint8_t, SMALLER, )

/* Scan `WIDTH` lines at once. Lines are `apart` elements apart, and the elements of a line are `stride` apart. */
#define SCANNED(type, combine, WIDTH)                                                                                  \
    static void scanned_##type##_##combine##_##WIDTH(type *to, const type *from, Py_ssize_t count, Py_ssize_t stride,  \
                                                     Py_ssize_t apart) {                                               \
        type held[WIDTH];                                                                                              \
        for (int k = 0; k < WIDTH; k++)                                                                                \
            to[k * apart] = held[k] = from[k * apart];                                                                 \
        while (--count > 0) {                                                                                          \
            from += stride, to += stride;                                                                              \
            for (int k = 0; k < WIDTH; k++)                                                                            \
                to[k * apart] = held[k] = combine(held[k], from[k * apart]);                                           \
        }                                                                                                              \
    }

#define SCAN(type, combine)                                                                                            \
    SCANNED(type, combine, 1)                                                                                          \
    SCANNED(type, combine, 4)                                                                                          \
    static void lines_##type##_##combine(type *to, const type *from, Py_ssize_t lines, Py_ssize_t count,               \
                                         Py_ssize_t stride, Py_ssize_t apart) {                                        \
        for (; lines >= LINES; lines -= LINES, to += LINES * apart, from += LINES * apart)                             \
            scanned_##type##_##combine##_4(to, from, count, stride, apart);                                            \
        for (; lines > 0; lines--, to += apart, from += apart)                                                         \
            scanned_##type##_##combine##_1(to, from, count, stride, apart);                                            \
    }                                                                                                                  \
    static void scan_##type##_##combine(void *target, const void *source, Py_ssize_t blocks, Py_ssize_t rows,          \
                                        Py_ssize_t length, int reverse, int inclusive) {                               \
        Py_ssize_t stride = reverse ? -length : length, start = reverse ? (rows - 1) * length : 0;                     \
        Py_ssize_t count = inclusive ? rows : rows - 1;                                                                \
        type *to = (type *)target + start + (inclusive ? 0 : stride);                                                  \
        const type *from = (const type *)source + start;                                                               \
        if (count < 1)                                                                                                 \
            return;                                                                                                    \
        if (length == 1) {                                                                                             \
            lines_##type##_##combine(to, from, blocks, count, stride, rows);                                           \
            return;                                                                                                    \
        }                                                                                                              \
        for (; blocks > 0; blocks--, to += rows * length, from += rows * length) {                                     \
            if (length < WIDE) {                                                                                       \
                lines_##type##_##combine(to, from, length, count, stride, 1);                                          \
                continue;                                                                                              \
            }                                                                                                          \
            memcpy(to, from, (size_t)length * sizeof(type));                                                           \
            for (Py_ssize_t row = 1; row < count; row++) {                                                             \
                type *restrict now = to + row * stride;                                                                \
                const type *before = now - stride, *x = from + row * stride;                                           \
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

/* Get the buffers of the first two arguments: the result, and the operand. */
static int get_both(PyObject *const *args, Py_buffer *to, Py_buffer *from) {
    if (PyObject_GetBuffer(args[0], to, PyBUF_CONTIG) < 0)
        return -1;
    if (PyObject_GetBuffer(args[1], from, PyBUF_CONTIG_RO | PyBUF_FORMAT) < 0) {
        PyBuffer_Release(to);
        return -1;
    }
    return 0;
}

/* Release the buffers, and return `done` as a bool, or NULL with an error if the arrays do not fit. */
static PyObject *done_with(const char *name, Py_buffer *to, Py_buffer *from, int fits, int done) {
    PyBuffer_Release(to);
    PyBuffer_Release(from);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "%s: the arrays do not fit each other", name);
    return PyBool_FromLong(done);
}

/* reduce_rows(to, from, how): reduce `from`, which has three axes, along the second, in order. `how` is 0 for sums, 1
   for maxima, 2 for minima, and 3 for products. Both arrays are C-contiguous. Return True if it was done, and False for
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

/* scan_rows(to, from, how, reverse, inclusive): scan `from` along the second axis, from the end if `reverse`. If not
   `inclusive`, each result leaves its own element out, and the first of each line is not written. uint8 is not
   supported. */
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
