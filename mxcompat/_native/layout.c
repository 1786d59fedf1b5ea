/* The copy of a transposed array, in tiles: see `_graph/ir/layout.py`. */
#include "in_c.h"
#include <stdint.h>

enum { MOST_AXES = 64, TILE = 64, STEP = 4 };

/* A matrix whose elements lie one after the other along its columns, to one where they do along its rows. Of `STEP` by
   `STEP` elements all are read before they are written: compilers make vector instructions of that. Strides are in
   elements. */
#define COPY(type)                                                                                                     \
    static void copy_##type(char *to, const char *from, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t to_row,       \
                            Py_ssize_t from_column) {                                                                  \
        type *restrict t = (type *)to;                                                                                 \
        const type *restrict f = (const type *)from;                                                                   \
        for (Py_ssize_t top = 0; top < rows; top += TILE)                                                              \
            for (Py_ssize_t left = 0; left < columns; left += TILE) {                                                  \
                Py_ssize_t bottom = top + TILE < rows ? top + TILE : rows;                                             \
                Py_ssize_t right = left + TILE < columns ? left + TILE : columns;                                      \
                Py_ssize_t i = top;                                                                                    \
                for (; i + STEP <= bottom; i += STEP) {                                                                \
                    Py_ssize_t j = left;                                                                               \
                    for (; j + STEP <= right; j += STEP) {                                                             \
                        type block[STEP][STEP];                                                                        \
                        for (int q = 0; q < STEP; q++)                                                                 \
                            for (int p = 0; p < STEP; p++)                                                             \
                                block[p][q] = f[(j + q) * from_column + i + p];                                        \
                        for (int p = 0; p < STEP; p++)                                                                 \
                            for (int q = 0; q < STEP; q++)                                                             \
                                t[(i + p) * to_row + j + q] = block[p][q];                                             \
                    }                                                                                                  \
                    for (; j < right; j++)                                                                             \
                        for (int p = 0; p < STEP; p++)                                                                 \
                            t[(i + p) * to_row + j] = f[j * from_column + i + p];                                      \
                }                                                                                                      \
                for (; i < bottom; i++)                                                                                \
                    for (Py_ssize_t j = left; j < right; j++)                                                          \
                        t[i * to_row + j] = f[j * from_column + i];                                                    \
            }                                                                                                          \
    }

COPY(uint8_t)
COPY(uint16_t)
COPY(uint32_t)
COPY(uint64_t)

typedef void (*Copy)(char *, const char *, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t);

static Copy copy_of(Py_ssize_t size) {
    return size == 1 ? copy_uint8_t : size == 2 ? copy_uint16_t : size == 4 ? copy_uint32_t : copy_uint64_t;
}

/* Copy one matrix for each place along the other axes. */
static void copy_all(const Py_buffer *to, const Py_buffer *from, int inner) {
    Py_ssize_t size = to->itemsize, place[MOST_AXES] = {0};
    int last = to->ndim - 1, axis;
    char *t = to->buf;
    const char *f = from->buf;
    Copy copy = copy_of(size);
    do {
        copy(t, f, to->shape[inner], to->shape[last], to->strides[inner] / size, from->strides[last] / size);
        for (axis = last - 1; axis >= 0; axis--) {
            if (axis == inner)
                continue;
            t += to->strides[axis];
            f += from->strides[axis];
            if (++place[axis] < to->shape[axis])
                break;
            t -= to->strides[axis] * to->shape[axis];
            f -= from->strides[axis] * from->shape[axis];
            place[axis] = 0;
        }
    } while (axis >= 0);
}

/* copy_transposed(to, from, axis): `from`, whose elements lie one after the other along an axis that is not the last,
   to memory in which they do along the last. Integers of one size, by their bits; two shapes that are the same. */
static PyObject *copy_transposed(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "copy_transposed(to, from, axis)");
    Py_ssize_t axis = PyLong_AsSsize_t(args[2]);
    Py_buffer to, from;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &to, PyBUF_STRIDED) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[1], &from, PyBUF_STRIDED_RO) < 0) {
        PyBuffer_Release(&to);
        return NULL;
    }
    Py_ssize_t size = to.itemsize;
    int fits = to.ndim == from.ndim && to.ndim <= MOST_AXES && 0 <= axis && axis < to.ndim - 1 && to.len > 0 &&
               from.itemsize == size && (size == 1 || size == 2 || size == 4 || size == 8);
    for (int k = 0; fits && k < to.ndim; k++)
        fits = to.shape[k] == from.shape[k] && to.strides[k] % size == 0 && from.strides[k] % size == 0;
    fits = fits && from.strides[axis] == size && to.strides[to.ndim - 1] == size;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        copy_all(&to, &from, (int)axis);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&to);
    PyBuffer_Release(&from);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "copy_transposed: the arrays do not fit each other");
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {FAST("copy_transposed", copy_transposed), {NULL}};

int add_layout(PyObject *module) { return PyModule_AddFunctions(module, functions); }
