/* Copy a transposed array in tiles: see `_graph/run/layout.py`. */
#include "in_c.h"
#include <stdint.h>

enum { MOST_AXES = 64, TILE = 64, SIDE = 4, LINE_BYTES = 64, SAME_SETS = 2048, TALL = 256 };

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define VECTORS
#endif
#endif

/* The elements of a block in `from` and in `to`. Rows are contiguous in `to`, columns in `from`. */
#define FROM(row, column) from[(column) * from_column + (row)]
#define TO(row, column) to[(row) * to_row + (column)]

/* Copy a block of `SIDE` by `SIDE` elements. All are read before any is written. */
#define BLOCK(type)                                                                                                    \
    static inline void block_##type(type *restrict to, const type *restrict from, Py_ssize_t to_row,                  \
                                    Py_ssize_t from_column) {                                                          \
        type block[SIDE][SIDE];                                                                                        \
        for (int column = 0; column < SIDE; column++)                                                                  \
            for (int row = 0; row < SIDE; row++)                                                                       \
                block[row][column] = FROM(row, column);                                                                \
        for (int row = 0; row < SIDE; row++)                                                                           \
            for (int column = 0; column < SIDE; column++)                                                              \
                TO(row, column) = block[row][column];                                                                  \
    }

BLOCK(uint8_t)
BLOCK(uint16_t)
BLOCK(uint64_t)

#ifdef VECTORS
typedef uint32_t Vector __attribute__((vector_size(SIDE * 4)));
#define MIXED(x, y, ...) __builtin_shufflevector(x, y, __VA_ARGS__)

static inline void block_uint32_t(uint32_t *restrict to, const uint32_t *restrict from, Py_ssize_t to_row,
                                  Py_ssize_t from_column) {
    Vector c[SIDE], r[SIDE];
    for (int column = 0; column < SIDE; column++)
        memcpy(&c[column], &FROM(0, column), sizeof(Vector));
    Vector low = MIXED(c[0], c[1], 0, 4, 1, 5), high = MIXED(c[0], c[1], 2, 6, 3, 7);
    Vector low_too = MIXED(c[2], c[3], 0, 4, 1, 5), high_too = MIXED(c[2], c[3], 2, 6, 3, 7);
    r[0] = MIXED(low, low_too, 0, 1, 4, 5), r[1] = MIXED(low, low_too, 2, 3, 6, 7);
    r[2] = MIXED(high, high_too, 0, 1, 4, 5), r[3] = MIXED(high, high_too, 2, 3, 6, 7);
    for (int row = 0; row < SIDE; row++)
        memcpy(&TO(row, 0), &r[row], sizeof(Vector));
}
#else
BLOCK(uint32_t)
#endif

/* Copy a matrix tile by tile, so that a cache line is read completely before it is evicted. If the columns of `from`
   are a power of two apart, their lines map to the same few cache sets, and a tile does not fit. Then whole lines are
   read, `TALL` rows at a time. Strides are in elements. */
#define COPY(type)                                                                                                     \
    static void tiles_##type(type *restrict to, const type *restrict from, Py_ssize_t rows, Py_ssize_t columns,       \
                             Py_ssize_t to_row, Py_ssize_t from_column) {                                              \
        for (Py_ssize_t left = 0; left < columns; left += TILE)                                                        \
            for (Py_ssize_t top = 0; top < rows; top += TILE) {                                                        \
                Py_ssize_t bottom = top + TILE < rows ? top + TILE : rows, row = top;                                  \
                Py_ssize_t right = left + TILE < columns ? left + TILE : columns;                                      \
                for (; row + SIDE <= bottom; row += SIDE) {                                                            \
                    Py_ssize_t column = left;                                                                          \
                    for (; column + SIDE <= right; column += SIDE)                                                     \
                        block_##type(&TO(row, column), &FROM(row, column), to_row, from_column);                       \
                    for (; column < right; column++)                                                                   \
                        for (int k = 0; k < SIDE; k++)                                                                 \
                            TO(row + k, column) = FROM(row + k, column);                                               \
                }                                                                                                      \
                for (; row < bottom; row++)                                                                            \
                    for (Py_ssize_t column = left; column < right; column++)                                           \
                        TO(row, column) = FROM(row, column);                                                           \
            }                                                                                                          \
    }                                                                                                                  \
                                                                                                                       \
    static void lines_##type(type *restrict to, const type *restrict from, Py_ssize_t rows, Py_ssize_t columns,       \
                             Py_ssize_t to_row, Py_ssize_t from_column) {                                              \
        enum { LINE = LINE_BYTES / sizeof(type) };                                                                     \
        type lines[LINE * LINE];                                                                                       \
        for (Py_ssize_t column = 0; column < columns; column += LINE)                                                  \
            for (Py_ssize_t row = 0; row < rows; row += LINE) {                                                        \
                for (int k = 0; k < LINE; k++)                                                                         \
                    memcpy(lines + k * LINE, &FROM(row, column + k), LINE_BYTES);                                      \
                for (int r = 0; r < LINE; r += SIDE)                                                                   \
                    for (int c = 0; c < LINE; c += SIDE)                                                               \
                        block_##type(&TO(row + r, column + c), lines + c * LINE + r, to_row, LINE);                    \
            }                                                                                                          \
    }                                                                                                                  \
                                                                                                                       \
    static void copy_##type(char *target, const char *source, Py_ssize_t rows, Py_ssize_t columns, Py_ssize_t to_row, \
                            Py_ssize_t from_column) {                                                                  \
        enum { LINE = LINE_BYTES / sizeof(type) };                                                                     \
        type *restrict to = (type *)target;                                                                            \
        const type *restrict from = (const type *)source;                                                              \
        int collides = from_column * (Py_ssize_t)sizeof(type) % SAME_SETS == 0;                                        \
        Py_ssize_t right = collides ? columns / LINE * LINE : 0, bottom = right ? rows / LINE * LINE : 0;              \
        for (Py_ssize_t top = 0; top < bottom; top += TALL)                                                            \
            lines_##type(&TO(top, 0), &FROM(top, 0), top + TALL < bottom ? TALL : bottom - top, right, to_row,         \
                         from_column);                                                                                 \
        tiles_##type(&TO(bottom, 0), &FROM(bottom, 0), rows - bottom, right, to_row, from_column);                     \
        tiles_##type(&TO(0, right), &FROM(0, right), rows, columns - right, to_row, from_column);                      \
    }

COPY(uint8_t)
COPY(uint16_t)
COPY(uint32_t)
COPY(uint64_t)

typedef void (*Copy)(char *, const char *, Py_ssize_t, Py_ssize_t, Py_ssize_t, Py_ssize_t);

static Copy copy_of(Py_ssize_t size) {
    return size == 1 ? copy_uint8_t : size == 2 ? copy_uint16_t : size == 4 ? copy_uint32_t : copy_uint64_t;
}

/* Copy one matrix for each index of the other axes. */
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

/* Return the contiguous axis of `from`, if it is not the last one and both axes are long enough; otherwise -1. */
static int axis_for_tiles(const Py_buffer *from, Py_ssize_t least) {
    int last = from->ndim - 1, axis = 0;
    if (last < 1 || from->strides[last] == from->itemsize || from->shape[last] < least)
        return -1;
    while (axis < last && (from->strides[axis] != from->itemsize || from->shape[axis] == 1))
        axis++;
    if (axis == last || from->shape[axis] < least)
        return -1;
    for (int k = 0; k <= last; k++)
        if (from->strides[k] % from->itemsize)
            return -1;
    return axis;
}

/* copy_transposed(to, from, least): copy `from`, which is contiguous along an axis other than the last, to `to`, which
   is contiguous along the last axis. Both have one shape, and integers of one size. Return True if the copy was done,
   and False for another layout, for unaligned addresses, or if one of the two axes has fewer than `least` elements. */
static PyObject *copy_transposed(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "copy_transposed(to, from, least)");
    Py_ssize_t least = PyLong_AsSsize_t(args[2]);
    Py_buffer to, from;
    if (PyErr_Occurred() || PyObject_GetBuffer(args[0], &to, PyBUF_STRIDED) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[1], &from, PyBUF_STRIDED_RO) < 0) {
        PyBuffer_Release(&to);
        return NULL;
    }
    Py_ssize_t size = to.itemsize;
    int fits = to.ndim == from.ndim && 0 < to.ndim && to.ndim <= MOST_AXES && from.itemsize == size &&
               (size == 1 || size == 2 || size == 4 || size == 8) && to.strides[to.ndim - 1] == size;
    for (int k = 0; fits && k < to.ndim; k++)
        fits = to.shape[k] == from.shape[k] && to.strides[k] % size == 0;
    int aligned = ((uintptr_t)to.buf | (uintptr_t)from.buf) % (uintptr_t)(fits ? size : 1) == 0;
    int axis = fits && aligned && to.len > 0 ? axis_for_tiles(&from, least) : -1;
    if (axis >= 0) {
        Py_BEGIN_ALLOW_THREADS
        copy_all(&to, &from, axis);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&to);
    PyBuffer_Release(&from);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "copy_transposed: the arrays do not fit each other");
    return PyBool_FromLong(axis >= 0);
}

static PyMethodDef functions[] = {FAST("copy_transposed", copy_transposed), {NULL}};

int add_layout(PyObject *module) { return PyModule_AddFunctions(module, functions); }
