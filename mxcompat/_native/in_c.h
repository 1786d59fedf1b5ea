/* Declarations shared by the files of `in_c`. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>
#include <structmember.h>
#include <time.h>

#define FAST(name, function) {name, (PyCFunction)(void (*)(void))function, METH_FASTCALL, NULL}

typedef struct {
    const char *text;
    PyObject **name;
} Name;

typedef struct {
    PyObject_HEAD PyObject *op, *params, *inputs, *aval, *trace, *value, *where, *waiting;
} Fields; /* the fields of a node */

/* Return a new reference to None. In headers from Python 3.12 on, None, True and False are immortal, and Py_RETURN_NONE
   takes no reference. Built so, a library would free None under Python 3.11. (Py_INCREF and Py_DECREF of these headers
   count in 32 bits, which makes no difference below 2^31 references.) */
static inline PyObject *none(void) { return Py_NewRef(Py_None); }

#ifdef __GNUC__ /* the declarations below are private to the module */
#pragma GCC visibility push(hidden)
#endif

/* in_c.c */
int find_names(const Name *names);
int add_type(PyObject *module, const char *name, PyType_Spec *spec);
void set(PyObject **field, PyObject *value);
void free_object(PyObject *object);

/* nodes.c */
int is_node(PyObject *x);
PyObject *leaf(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* arrays.c */
PyObject *node_of(PyObject *arrays, Py_ssize_t k);

/* trees.c */
int is_array(PyObject *x);
int is_plain_array(PyObject *x);
PyObject *walkable(PyObject *sequence);
Py_ssize_t size_of(PyObject *sequence);
PyObject *item_of(PyObject *sequence, Py_ssize_t k);
int append(PyObject *list, PyObject *item);

/* quantized.c. The CPU time of this thread in kernels that are as fast as XLA's code. */
extern _Thread_local double in_kernels;
double thread_seconds(void);

/* Run a statement that calls such a kernel, without the interpreter's lock. */
#define COMPUTE(statement)                                                                                            \
    do {                                                                                                              \
        double start = thread_seconds();                                                                              \
        Py_BEGIN_ALLOW_THREADS                                                                                        \
        statement;                                                                                                    \
        Py_END_ALLOW_THREADS                                                                                          \
        in_kernels += thread_seconds() - start;                                                                       \
    } while (0)

/* interrupts.c */
int stop_requested(void);

/* Each function adds the functions and types of one file to the module. */
int add_nodes(PyObject *module);
int add_code(PyObject *module);
int add_numbers(PyObject *module);
int add_arrays(PyObject *module);
int add_trees(PyObject *module);
int add_modules(PyObject *module);
int add_layout(PyObject *module);
int add_memory(PyObject *module);
int add_rows(PyObject *module);
int add_random(PyObject *module);
int add_quantized(PyObject *module);
int add_elementwise(PyObject *module);
int add_interrupts(PyObject *module);
int add_ffi(PyObject *module);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
