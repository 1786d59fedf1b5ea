/* Following code back from its roots: see `_graph/ir/linearize.py`. */
#include "in_c.h"

static PyObject *s_value;
static const Name names[] = {{"value", &s_value}, {NULL, NULL}};
static PyObject *scalar, *traced, *item, *taken; /* what `connect_code` brings */

/* A list of so many None. */
static PyObject *nothing(Py_ssize_t size) {
    PyObject *list = PyList_New(size);
    for (Py_ssize_t k = 0; list != NULL && k < size; k++)
        PyList_SetItem(list, k, Py_NewRef(Py_None));
    return list;
}

/* What these functions return: 1, 0 if the nodes are not as the code says, or -1 with an error set. */

/* A slot, of which those below zero are counted from the end, gets a node, or has it already. */
static int put(PyObject *env, Py_ssize_t slot, PyObject *node) {
    if (slot < 0)
        slot += PyList_Size(env);
    PyObject *there = PyList_GetItem(env, slot);
    if (there == NULL)
        return -1;
    if (there == Py_None)
        return PyList_SetItem(env, slot, Py_NewRef(node)) < 0 ? -1 : 1;
    return there == node;
}

/* These slots get these nodes: two tuples, or lists. */
static int put_all(PyObject *env, PyObject *slots, PyObject *nodes) {
    Py_ssize_t n = PySequence_Size(slots);
    if (n < 0 || PySequence_Size(nodes) != n)
        return PyErr_Occurred() ? -1 : 0;
    int same = 1;
    for (Py_ssize_t k = 0; same == 1 && k < n; k++) {
        PyObject *slot = PySequence_GetItem(slots, k), *node = PySequence_GetItem(nodes, k);
        same = slot == NULL || node == NULL ? -1 : put(env, PyLong_AsSsize_t(slot), node);
        Py_XDECREF(slot);
        Py_XDECREF(node);
    }
    return same;
}

/* Whether a node in the environment is as a step says, whose inputs are put there. */
static int take_step(PyObject *step, PyObject *env, int in_capture) {
    Py_ssize_t slot = PyLong_AsSsize_t(PyTuple_GetItem(step, 0));
    PyObject *op = PyTuple_GetItem(step, 1), *params = PyTuple_GetItem(step, 2), *reads = PyTuple_GetItem(step, 3);
    PyObject *node = PyList_GetItem(env, slot);
    if (node == NULL || reads == NULL)
        return -1;
    Fields *f = (Fields *)node;
    if (!is_node(node) || f->op != op || (f->value != Py_None && !in_capture))
        return 0;
    if (f->params != params) {
        PyObject *own = Py_NewRef(f->params); /* to compare them may run anything */
        int same = PyObject_RichCompareBool(own, params, Py_EQ);
        Py_DECREF(own);
        if (same != 1)
            return same;
    }
    PyObject *inputs = Py_NewRef(f->inputs);
    int same = put_all(env, reads, inputs);
    Py_DECREF(inputs);
    return same;
}

/* Whether a node is a leaf of this kind. One that is no placeholder has a value, or is older than the capture. */
static int is_leaf(PyObject *node, PyObject *kind, int is_placeholder, PyObject *trace, int in_capture) {
    if (!is_node(node))
        return 0;
    Fields *f = (Fields *)node;
    if ((f->op == scalar || f->op == traced ? f->op : Py_None) != kind)
        return 0;
    if (is_placeholder)
        return 1;
    if (in_capture)
        return PyObject_RichCompareBool(f->trace, trace, Py_LT);
    PyObject *value = PyObject_GetAttr(node, s_value); /* which a subclass may have to find first */
    Py_XDECREF(value);
    if (value == NULL)
        return -1;
    if (value != Py_None)
        return 1;
    if (f->op != item)
        return 0;
    PyObject *has = PyObject_CallFunctionObjArgs(taken, node, NULL);
    int result = has == NULL ? -1 : has == Py_True;
    Py_XDECREF(has);
    return result;
}

/* (order, leaves, avals of the leaves), of an environment that is filled. */
static PyObject *followed(PyObject *env, Py_ssize_t count) {
    Py_ssize_t size = PyList_Size(env);
    PyObject *order = PyList_GetSlice(env, 0, count), *leaves = nothing(size - count), *avals = nothing(size - count);
    PyObject *result = NULL;
    if (order != NULL && leaves != NULL && avals != NULL) {
        for (Py_ssize_t k = 0; k < size - count; k++) {
            PyObject *node = PyList_GetItem(env, size - 1 - k);
            PyList_SetItem(leaves, k, Py_NewRef(node));
            PyList_SetItem(avals, k, Py_NewRef(((Fields *)node)->aval));
        }
        result = PyTuple_Pack(3, order, leaves, avals);
    }
    Py_XDECREF(order);
    Py_XDECREF(leaves);
    Py_XDECREF(avals);
    return result;
}

static PyObject *follow(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 6 || !PyList_Check(args[0]) || !PyList_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "follow(steps, kinds, slots, roots, placeholders, trace): two lists first");
    PyObject *steps = args[0], *kinds = args[1], *placeholders = args[4], *trace = args[5];
    Py_ssize_t steps_count = PyList_Size(steps), leaves = PyList_Size(kinds), given = PySequence_Size(placeholders);
    int in_capture = PyObject_IsTrue(trace);
    PyObject *env = given < 0 || in_capture < 0 ? NULL : nothing(steps_count + leaves);
    if (env == NULL)
        return NULL;
    int same = 1;
    for (Py_ssize_t k = 0; same == 1 && k < given; k++) {
        PyObject *node = PySequence_GetItem(placeholders, k);
        same = node == NULL ? -1 : put(env, ~k, node);
        Py_XDECREF(node);
    }
    if (same == 1)
        same = put_all(env, args[2], args[3]);
    for (Py_ssize_t k = 0; same == 1 && k < steps_count; k++)
        same = take_step(PyList_GetItem(steps, k), env, in_capture);
    for (Py_ssize_t k = 0; same == 1 && k < leaves; k++)
        same = is_leaf(
            PyList_GetItem(env, steps_count + leaves - 1 - k), PyList_GetItem(kinds, k), k < given, trace, in_capture);
    PyObject *result = same == 1 ? followed(env, steps_count) : same == 0 ? Py_NewRef(Py_None) : NULL;
    Py_DECREF(env);
    return result;
}

/* Keep the ops of numbers, of tracers, and of one result of several, and what gives that its value. */
static PyObject *connect_code(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *of_numbers, *of_tracers, *of_items, *function;
    if (!PyArg_ParseTuple(args, "OOOO", &of_numbers, &of_tracers, &of_items, &function))
        return NULL;
    set(&scalar, of_numbers);
    set(&traced, of_tracers);
    set(&item, of_items);
    set(&taken, function);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    FAST("follow", follow),
    {"connect_code", connect_code, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_code(PyObject *module) { return find_names(names) < 0 ? -1 : PyModule_AddFunctions(module, functions); }
