/* Reductions over rows of few elements: see `_graph/run/short_rows.py`. */
#include "in_c.h"
#include <stdint.h>

enum { ADD, MAXIMUM, MINIMUM };

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

typedef void (*Fold)(void *, const void *, Py_ssize_t, Py_ssize_t, Py_ssize_t);

static Fold fold_of(const char *format, long how) {
    static const Fold of_float[] = {fold_float_SUM, fold_float_LARGER, fold_float_SMALLER};
    static const Fold of_double[] = {fold_double_SUM, fold_double_LARGER, fold_double_SMALLER};
    static const Fold of_int[] = {fold_uint32_t_SUM, fold_int32_t_LARGER, fold_int32_t_SMALLER};
    if (how < ADD || how > MINIMUM || format == NULL || strlen(format) != 1)
        return NULL;
    return *format == 'f' ? of_float[how] : *format == 'd' ? of_double[how] : *format == 'i' ? of_int[how] : NULL;
}

/* reduce_rows(to, from, how): reduce `from`, of three axes, along the second, one element after the other. `how`: 0 adds,
   1 and 2 find the largest and the smallest. Both lie in order. Returns whether that was done: not with types other than
   float32, float64 and int32. */
static PyObject *reduce_rows(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "reduce_rows(to, from, how)");
    long how = PyLong_AsLong(args[2]);
    Py_buffer to, from;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &to, PyBUF_CONTIG) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[1], &from, PyBUF_CONTIG_RO | PyBUF_FORMAT) < 0) {
        PyBuffer_Release(&to);
        return NULL;
    }
    int fits = to.ndim == 2 && from.ndim == 3 && to.itemsize == from.itemsize && to.shape[0] == from.shape[0] &&
               to.shape[1] == from.shape[2] && from.shape[1] > 0;
    Fold fold = fits ? fold_of(from.format, how) : NULL;
    if (fold != NULL) {
        Py_BEGIN_ALLOW_THREADS
        fold(to.buf, from.buf, from.shape[0], from.shape[1], from.shape[2]);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&to);
    PyBuffer_Release(&from);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "reduce_rows: the arrays do not fit each other");
    return PyBool_FromLong(fold != NULL);
}

static PyMethodDef functions[] = {FAST("reduce_rows", reduce_rows), {NULL}};

int add_rows(PyObject *module) { return PyModule_AddFunctions(module, functions); }
