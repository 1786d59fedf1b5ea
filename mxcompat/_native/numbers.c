/* Read numbers: from nested lists, see `_array/nest.py`, and from buffers of one number, see `_array/convert.py`. */
#include "in_c.h"

static PyObject *empty, *avals, *make_aval, *kinds; /* set by `connect_numbers` */

#define RETURN_NONE_IF(condition) \
    if (condition) \
    return none()

enum { FLOATS, INTS, BOOLS };
#define MOST_AXES 32

static int is_sequence(PyObject *x) { return PyList_CheckExact(x) || PyTuple_CheckExact(x); }

static Py_ssize_t length(PyObject *x) { return PyList_CheckExact(x) ? PyList_Size(x) : PyTuple_Size(x); }

static PyObject *item(PyObject *x, Py_ssize_t k) {
    return PyList_CheckExact(x) ? PyList_GetItem(x, k) : PyTuple_GetItem(x, k);
}

/* Return 1 if `values` is a nested sequence of plain numbers with this shape. Set a bit of `present` for each kind of
   number. No error is set. */
static int scan(PyObject *values, const Py_ssize_t *shape, int ndim, int *present) {
    if (!is_sequence(values) || length(values) != shape[0])
        return 0;
    for (Py_ssize_t k = 0; k < shape[0]; k++) {
        PyObject *x = item(values, k);
        if (ndim > 1) {
            if (!scan(x, shape + 1, ndim - 1, present))
                return 0;
        } else if (PyFloat_CheckExact(x))
            *present |= 1 << FLOATS;
        else if (PyBool_Check(x))
            *present |= 1 << BOOLS;
        else if (PyLong_CheckExact(x)) {
            int overflow;
            long long n = PyLong_AsLongLongAndOverflow(x, &overflow);
            if (overflow || n < INT32_MIN || n > INT32_MAX)
                return 0;
            *present |= 1 << INTS;
        } else
            return 0;
    }
    return 1;
}

/* Write the numbers to memory, and return its end. Return NULL if the sequence has changed since `scan`: making objects
   may run the garbage collector, which may run any code. No error is set. */
static char *fill(PyObject *values, const Py_ssize_t *shape, int ndim, int kind, char *to) {
    if (!is_sequence(values) || length(values) != shape[0])
        return NULL;
    for (Py_ssize_t k = 0; k < shape[0]; k++) {
        PyObject *x = item(values, k);
        if (ndim > 1) {
            if ((to = fill(x, shape + 1, ndim - 1, kind, to)) == NULL)
                return NULL;
        } else if (kind == FLOATS && PyFloat_CheckExact(x)) {
            float number = (float)PyFloat_AsDouble(x);
            memcpy(to, &number, 4);
            to += 4;
        } else if (PyLong_CheckExact(x) || PyBool_Check(x)) {
            int overflow;
            long long n = PyLong_AsLongLongAndOverflow(x, &overflow);
            if (overflow || n < INT32_MIN || n > INT32_MAX)
                return NULL;
            int32_t number = (int32_t)n;
            float same = (float)number;
            if (kind == BOOLS)
                *to++ = number != 0;
            else {
                memcpy(to, kind == FLOATS ? (void *)&same : (void *)&number, 4);
                to += 4;
            }
        } else
            return NULL;
    }
    return to;
}

/* Return a leaf node for a nest of lists and tuples of plain Python numbers, or None for other values. */
static PyObject *numbers(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "numbers(values, dtype)");
    Py_ssize_t shape[MOST_AXES];
    int ndim = 0, present = 0;
    for (PyObject *first = args[0]; is_sequence(first); first = item(first, 0)) {
        Py_ssize_t n = length(first);
        RETURN_NONE_IF(n == 0 || ndim == MOST_AXES);
        shape[ndim++] = n;
    }
    RETURN_NONE_IF(ndim == 0 || !scan(args[0], shape, ndim, &present));
    int kind = present & 1 << FLOATS ? FLOATS : present & 1 << INTS ? INTS : BOOLS;
    if (args[1] != Py_None && args[1] != PyTuple_GetItem(PyTuple_GetItem(kinds, kind), 0)) {
        RETURN_NONE_IF(args[1] != PyTuple_GetItem(PyTuple_GetItem(kinds, FLOATS), 0));
        kind = FLOATS;
    }
    PyObject *dtype = PyTuple_GetItem(PyTuple_GetItem(kinds, kind), 0);
    PyObject *numpy = PyTuple_GetItem(PyTuple_GetItem(kinds, kind), 1);

    PyObject *sizes = PyTuple_New(ndim), *aval = NULL, *node = NULL;
    for (int k = 0; sizes != NULL && k < ndim; k++) {
        PyObject *size = PyLong_FromSsize_t(shape[k]);
        if (size == NULL || PyTuple_SetItem(sizes, k, size) < 0)
            Py_CLEAR(sizes);
    }
    if (sizes == NULL)
        return NULL;
    PyObject *key = PyTuple_Pack(2, sizes, dtype);
    if (key != NULL)
        aval = Py_XNewRef(PyDict_GetItemWithError(avals, key));
    if (key != NULL && aval == NULL && !PyErr_Occurred())
        aval = PyObject_CallFunctionObjArgs(make_aval, sizes, dtype, NULL);
    PyObject *data = aval == NULL ? NULL : PyObject_CallFunctionObjArgs(empty, sizes, numpy, NULL);
    Py_buffer memory;
    if (data != NULL && PyObject_GetBuffer(data, &memory, PyBUF_WRITABLE) == 0) {
        int done = fill(args[0], shape, ndim, kind, memory.buf) != NULL;
        PyBuffer_Release(&memory);
        PyObject *both[] = {data, aval};
        node = done ? leaf(NULL, both, 2) : none();
    }
    Py_XDECREF(data);
    Py_XDECREF(aval);
    Py_XDECREF(key);
    Py_DECREF(sizes);
    return node;
}

/* Set the objects that `numbers` needs: `numpy.empty`, the table of avals and the function that makes one, and the
   dtypes of floats, integers and bools, in mxcompat and in NumPy. */
static PyObject *connect_numbers(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *allocate, *table, *make, *dtypes;
    if (!PyArg_ParseTuple(args, "OO!OO!", &allocate, &PyDict_Type, &table, &make, &PyTuple_Type, &dtypes))
        return NULL;
    set(&empty, allocate);
    set(&avals, table);
    set(&make_aval, make);
    set(&kinds, dtypes);
    return none();
}

/* Return the number at an address, by the letter of its type, or None for types that C does not have. */
static PyObject *number_at(const void *at, char letter) {
    switch (letter) {
    case '?':
        return PyBool_FromLong(*(const unsigned char *)at);
    case 'f':
        return PyFloat_FromDouble(*(const float *)at);
    case 'd':
        return PyFloat_FromDouble(*(const double *)at);
    case 'b':
        return PyLong_FromLong(*(const signed char *)at);
    case 'B':
        return PyLong_FromLong(*(const unsigned char *)at);
    case 'h':
        return PyLong_FromLong(*(const short *)at);
    case 'H':
        return PyLong_FromLong(*(const unsigned short *)at);
    case 'i':
        return PyLong_FromLong(*(const int *)at);
    case 'I':
        return PyLong_FromUnsignedLong(*(const unsigned int *)at);
    case 'q':
        return PyLong_FromLongLong(*(const long long *)at);
    case 'Q':
        return PyLong_FromUnsignedLongLong(*(const unsigned long long *)at);
    }
    return none();
}

/* Return the number in a buffer with a single one, or None for other values. */
static PyObject *number(PyObject *Py_UNUSED(module), PyObject *value) {
    Py_buffer memory;
    if (!PyObject_CheckBuffer(value))
        return none();
    if (PyObject_GetBuffer(value, &memory, PyBUF_FULL_RO) < 0) {
        if (PyErr_ExceptionMatches(PyExc_MemoryError))
            return NULL;
        PyErr_Clear();
        return none();
    }
    const char *format = memory.format == NULL ? "" : memory.format + (memory.format[0] == '=');
    int single = memory.len == memory.itemsize && format[0] != 0 && format[1] == 0;
    char letter = format[0];
    if (letter == 'l') /* a long has 4 or 8 bytes, depending on the platform, or 4 if the format begins with '=' */
        letter = memory.itemsize == 8 ? 'q' : 'i';
    if (letter == 'L')
        letter = memory.itemsize == 8 ? 'Q' : 'I';
    PyObject *result = single ? number_at(memory.buf, letter) : none();
    PyBuffer_Release(&memory);
    return result;
}

static PyMethodDef functions[] = {
    FAST("numbers", numbers),
    {"number", number, METH_O, NULL},
    {"connect_numbers", connect_numbers, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_numbers(PyObject *module) { return PyModule_AddFunctions(module, functions); }
