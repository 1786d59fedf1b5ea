/* What the files of `in_c` have in common. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#include <structmember.h>

#define FAST(name, function) {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}

typedef struct {
    const char *text;
    PyObject **name;
} Name;

typedef struct {
    PyObject_HEAD PyObject *op, *params, *inputs, *aval, *trace, *value, *where, *waiting;
} Fields; /* of a node */

/* A new reference to None. From Python 3.12 on, headers take None, True and False to be immortal: with these,
   Py_RETURN_NONE makes no reference, and a library built so takes None's last one from Python 3.11. (Their Py_INCREF and
   Py_DECREF count in 32 bits, which is the same for fewer than 2^31 references.) */
static inline PyObject *none(void) { return Py_NewRef(Py_None); }

#ifdef __GNUC__ /* what follows is for these files alone */
#pragma GCC visibility push(hidden)
#endif

/* of in_c.c */
int find_names(const Name *names);
int add_type(PyObject *module, const char *name, PyType_Spec *spec);
void set(PyObject **field, PyObject *value);
void free_object(PyObject *object);

/* of nodes.c */
int is_node(PyObject *x);
PyObject *leaf(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* of arrays.c */
PyObject *node_of(PyObject *arrays, Py_ssize_t k);

/* of trees.c */
int is_array(PyObject *x);
int is_plain_array(PyObject *x);
PyObject *walkable(PyObject *sequence);
Py_ssize_t size_of(PyObject *sequence);
PyObject *item_of(PyObject *sequence, Py_ssize_t k);
int append(PyObject *list, PyObject *item);

/* Each adds what a file has to the module. */
int add_nodes(PyObject *module);
int add_code(PyObject *module);
int add_numbers(PyObject *module);
int add_arrays(PyObject *module);
int add_trees(PyObject *module);
int add_modules(PyObject *module);
int add_layout(PyObject *module);
int add_rows(PyObject *module);
int add_random(PyObject *module);
int add_quantized(PyObject *module);
int add_ffi(PyObject *module);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
