/* The module `mxcompat._native.in_c`, see __init__.py: nodes, lists of numbers, the memory of arrays, trees,
   modules, reductions, and random words. */
#include "in_c.h"

/* Intern names, up to an entry without a text. */
int find_names(const Name *names) {
    for (; names->text != NULL; names++)
        if ((*names->name = PyUnicode_InternFromString(names->text)) == NULL)
            return -1;
    return 0;
}

int add_type(PyObject *module, const char *name, PyType_Spec *spec) {
    PyObject *type = PyType_FromSpec(spec);
    int failed = type == NULL || PyModule_AddObjectRef(module, name, type) < 0;
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

/* Set a field to a value. */
void set(PyObject **field, PyObject *value) {
    PyObject *before = *field;
    *field = Py_NewRef(value);
    Py_XDECREF(before);
}

/* Free an unreferenced object of a subclass written in Python. */
void free_object(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_nodes},
    {Py_mod_exec, add_code},
    {Py_mod_exec, add_numbers},
    {Py_mod_exec, add_arrays},
    {Py_mod_exec, add_trees},
    {Py_mod_exec, add_modules},
    {Py_mod_exec, add_layout},
    {Py_mod_exec, add_memory},
    {Py_mod_exec, add_rows},
    {Py_mod_exec, add_random},
    {Py_mod_exec, add_quantized},
    {Py_mod_exec, add_elementwise},
    {Py_mod_exec, add_interrupts},
    {Py_mod_exec, add_ffi},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "in_c",
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_in_c(void) { return PyModuleDef_Init(&definition); }
