/* The base class of arrays, which implements the buffer protocol: see `_array/handle.py`. */
#include "in_c.h"

static PyObject *s_value;
static const Name names[] = {{"value", &s_value}, {NULL, NULL}};
static PyObject *array_type; /* set by `connect_arrays` */

typedef struct {
    PyObject_HEAD PyObject *node;
} Handle;

static int handle_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Handle *)self)->node);
    return 0;
}

static int handle_clear(PyObject *self) {
    Py_CLEAR(((Handle *)self)->node);
    return 0;
}

static void handle_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    handle_clear(self);
    free_object(self);
}

/* Return a new array for this node. */
static PyObject *wrap(PyObject *Py_UNUSED(module), PyObject *node) {
    PyObject *array = PyType_GenericAlloc((PyTypeObject *)array_type, 0);
    if (array != NULL)
        ((Handle *)array)->node = Py_NewRef(node);
    return array;
}

static PyObject *handles(PyObject *module, PyObject *nodes) {
    if (!PyList_Check(nodes))
        return PyErr_Format(PyExc_TypeError, "handles(nodes): a list");
    PyObject *result = PyList_New(0);
    for (Py_ssize_t k = 0; result != NULL && k < PyList_Size(nodes); k++) {
        PyObject *array = wrap(module, PyList_GetItem(nodes, k));
        if (array == NULL || PyList_Append(result, array) < 0)
            Py_CLEAR(result);
        Py_XDECREF(array);
    }
    return result;
}

/* Return the node of an item of a list of arrays, a borrowed reference, or NULL with an error set. */
PyObject *node_of(PyObject *arrays, Py_ssize_t k) {
    PyObject *array = PyList_GetItem(arrays, k);
    if (array != NULL && !PyObject_TypeCheck(array, (PyTypeObject *)array_type))
        return PyErr_Format(PyExc_TypeError, "item %zd is no array", k);
    PyObject *node = array == NULL ? NULL : ((Handle *)array)->node;
    return node != NULL || PyErr_Occurred() ? node : PyErr_Format(PyExc_AttributeError, "_node");
}

static PyObject *nodes_of(PyObject *Py_UNUSED(module), PyObject *arrays) {
    if (!PyList_Check(arrays))
        return PyErr_Format(PyExc_TypeError, "nodes_of(arrays): a list");
    PyObject *nodes = PyList_New(0);
    for (Py_ssize_t k = 0; nodes != NULL && k < PyList_Size(arrays); k++) {
        PyObject *node = node_of(arrays, k);
        if (node == NULL || PyList_Append(nodes, node) < 0)
            Py_CLEAR(nodes);
    }
    return nodes;
}

static PyObject *exchange(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyList_Check(args[0]) || !PyList_Check(args[1]) || !PyList_Check(args[2]) ||
        PyList_Size(args[0]) != PyList_Size(args[1]) || PyList_Size(args[0]) != PyList_Size(args[2]))
        return PyErr_Format(PyExc_TypeError, "exchange(arrays, old, new): lists of one length");
    for (Py_ssize_t k = 0; k < PyList_Size(args[0]); k++) {
        PyObject *node = node_of(args[0], k), *old = PyList_GetItem(args[1], k), *new = PyList_GetItem(args[2], k);
        if (node == NULL || old == NULL || new == NULL)
            return NULL;
        if (node == old)
            set(&((Handle *)PyList_GetItem(args[0], k))->node, new);
    }
    return none();
}

/* Return the value of the array's node, and compute it if necessary. */
static PyObject *value_of(PyObject *array) {
    PyObject *node = ((Handle *)array)->node;
    if (node == NULL)
        return PyErr_Format(PyExc_AttributeError, "_node");
    PyObject *value = PyObject_GetAttr(node, s_value);
    if (value == Py_None) {
        Py_DECREF(value);
        value = PyObject_CallMethod(array, "_computed", NULL);
    }
    return value;
}

/* Get a buffer of a value without a copy, if it is a NumPy array, or a JAX array in this process's memory. Return 1 if
   that is possible; no error is set. */
static int is_shared(PyObject *value, Py_buffer *buffer, int flags) {
    if (!PyObject_CheckBuffer(value))
        return 0;
    if (PyObject_GetBuffer(value, buffer, flags & ~PyBUF_WRITABLE) < 0) {
        PyErr_Clear();
        return 0;
    }
    if (buffer->ndim == 0 || buffer->len == 0) { /* arrays may share this memory, so `_memory` copies it */
        PyBuffer_Release(buffer);
        return 0;
    }
    if (buffer->format != NULL) { /* replace the format by the letters that MLX uses */
        if (buffer->format[0] == '=')
            buffer->format += 1;
        if (buffer->itemsize == 8 && buffer->format[0] == 'l')
            buffer->format = "q";
        if (buffer->itemsize == 8 && buffer->format[0] == 'L')
            buffer->format = "Q";
    }
    buffer->readonly = 0;
    return 1;
}

/* Get a buffer of the array that `_memory` returns. If Python has no format for the dtype, use the name of the
   dtype. */
static int get_other(PyObject *array, Py_buffer *buffer, int flags) {
    PyObject *view, *kind, *pair = PyObject_CallMethod(array, "_memory", "i", flags);
    int failed = pair == NULL || !PyArg_ParseTuple(pair, "OO", &view, &kind) ||
                 PyObject_GetBuffer(view, buffer, flags) < 0;
    if (!failed && kind != Py_None && buffer->format != NULL)
        buffer->format = "bfloat16";
    Py_XDECREF(pair); /* the buffer keeps a reference to the view */
    return failed ? -1 : 0;
}

/* Get a buffer of an array. It keeps the array alive, as in MLX, and also the buffer of its value, because the array
   may have another value later. */
static int get_buffer(PyObject *array, Py_buffer *buffer, int flags) {
    PyObject *value = value_of(array);
    Py_buffer *held = PyMem_Malloc(sizeof(Py_buffer));
    buffer->obj = NULL;
    if (value == NULL || held == NULL) {
        Py_XDECREF(value);
        PyMem_Free(held);
        return PyErr_Occurred() ? -1 : (PyErr_NoMemory(), -1);
    }
    int failed = is_shared(value, held, flags) ? 0 : get_other(array, held, flags);
    Py_DECREF(value);
    if (failed) {
        PyMem_Free(held);
        return -1;
    }
    *buffer = *held;
    buffer->obj = Py_NewRef(array);
    buffer->internal = held;
    return 0;
}

static void release_buffer(PyObject *Py_UNUSED(array), Py_buffer *buffer) {
    PyBuffer_Release(buffer->internal);
    PyMem_Free(buffer->internal);
}

static PyMemberDef handle_members[] = {
    {"_node", T_OBJECT_EX, offsetof(Handle, node), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot handle_slots[] = {
    {Py_tp_doc, "The base of arrays: a node, and what offers its memory."},
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_traverse, handle_traverse},
    {Py_tp_clear, handle_clear},
    {Py_tp_members, handle_members},
    {Py_bf_getbuffer, get_buffer},
    {Py_bf_releasebuffer, release_buffer},
    {0, NULL},
};

static PyType_Spec handle_spec = {
    .name = "mxcompat._native.in_c.Handle",
    .basicsize = sizeof(Handle),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = handle_slots,
};

/* Set the class of arrays. */
static PyObject *connect_arrays(PyObject *Py_UNUSED(module), PyObject *array) {
    set(&array_type, array);
    return none();
}

static PyMethodDef functions[] = {
    {"wrap", wrap, METH_O, NULL},
    {"handles", handles, METH_O, NULL},
    {"nodes_of", nodes_of, METH_O, NULL},
    FAST("exchange", exchange),
    {"connect_arrays", connect_arrays, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int add_arrays(PyObject *module) {
    if (find_names(names) < 0 || add_type(module, "Handle", &handle_spec) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
