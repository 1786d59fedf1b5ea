/* The base of arrays, by which they offer their memory: see exporter.py. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject *node_name, *value_name;

/* What the array's node has as its value, computed if need be. */
static PyObject *value_of(PyObject *array) {
    PyObject *node = PyObject_GetAttr(array, node_name);
    PyObject *value = node == NULL ? NULL : PyObject_GetAttr(node, value_name);
    Py_XDECREF(node);
    if (value == Py_None) {
        Py_DECREF(value);
        value = PyObject_CallMethod(array, "_computed", NULL);
    }
    return value;
}

/* The memory of a value as it is: of an array of NumPy's, or of JAX's in this process's memory. Returns whether that is
   possible; no error is set. */
static int is_shared(PyObject *value, Py_buffer *buffer, int flags) {
    if (!PyObject_CheckBuffer(value))
        return 0;
    if (PyObject_GetBuffer(value, buffer, flags & ~PyBUF_WRITABLE) < 0) {
        PyErr_Clear();
        return 0;
    }
    if (buffer->ndim == 0 || buffer->len == 0) { /* others may have it too: `_memory` copies it */
        PyBuffer_Release(buffer);
        return 0;
    }
    if (buffer->format != NULL) { /* as MLX writes them */
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

/* The memory that `_memory` gives, with the format that it names if Python has none for the elements. */
static int get_other(PyObject *array, Py_buffer *buffer, int flags) {
    PyObject *view, *kind, *found = PyObject_CallMethod(array, "_memory", "i", flags);
    int failed = found == NULL || !PyArg_ParseTuple(found, "OO", &view, &kind) ||
                 PyObject_GetBuffer(view, buffer, flags) < 0;
    if (!failed && kind != Py_None && buffer->format != NULL)
        buffer->format = "bfloat16";
    Py_XDECREF(found); /* the buffer holds the view */
    return failed ? -1 : 0;
}

static int get_buffer(PyObject *array, Py_buffer *buffer, int flags) {
    PyObject *value = value_of(array);
    buffer->obj = NULL;
    if (value == NULL)
        return -1;
    int result = is_shared(value, buffer, flags) ? 0 : get_other(array, buffer, flags);
    Py_DECREF(value);
    return result;
}

/* Never called, since the buffer is the memoryview's. That there is one makes `numpy.frombuffer` hold the buffer, and
   not the array alone, which may have other memory later. */
static void release_buffer(PyObject *Py_UNUSED(array), Py_buffer *Py_UNUSED(buffer)) {}

static PyType_Slot slots[] = {
    {Py_tp_doc, "The base of arrays: what offers its memory."},
    {Py_bf_getbuffer, get_buffer},
    {Py_bf_releasebuffer, release_buffer},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "mxcompat._array._buffer.Exporter",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

static int execute(PyObject *module) {
    node_name = PyUnicode_InternFromString("_node");
    value_name = PyUnicode_InternFromString("value");
    if (node_name == NULL || value_name == NULL)
        return -1;
    PyObject *type = PyType_FromSpec(&spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, "Exporter", type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {{Py_mod_exec, execute}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_buffer",
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__buffer(void) { return PyModuleDef_Init(&definition); }
