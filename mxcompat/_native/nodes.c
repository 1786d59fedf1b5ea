/* The fields of a node, and functions that make nodes and give them values: see `_graph/ir/node.py`. */
#include "in_c.h"

static PyObject *s_memo, *s_infer, *s_filename, *s_lasti, *s_back, *s_smallest, *s_count, *s_nbytes, *s_value;
static const Name names[] = {
    {"memo", &s_memo}, {"infer", &s_infer}, {"co_filename", &s_filename}, {"f_lasti", &s_lasti}, {"f_back", &s_back},
    {"smallest", &s_smallest}, {"count", &s_count}, {"nbytes", &s_nbytes},
    {"value", &s_value}, {NULL, NULL},
};
static PyObject *zero, *no_params;
static PyObject *node_type, *created, *buffers, *own, *item, *indices, *scalar, *getframe; /* set by `connect_nodes` */

static int fields_traverse(PyObject *self, visitproc visit, void *arg) {
    Fields *f = (Fields *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(f->op);
    Py_VISIT(f->params);
    Py_VISIT(f->inputs);
    Py_VISIT(f->aval);
    Py_VISIT(f->trace);
    Py_VISIT(f->value);
    Py_VISIT(f->where);
    Py_VISIT(f->waiting);
    return 0;
}

static int fields_clear(PyObject *self) {
    Fields *f = (Fields *)self;
    Py_CLEAR(f->op);
    Py_CLEAR(f->params);
    Py_CLEAR(f->inputs);
    Py_CLEAR(f->aval);
    Py_CLEAR(f->trace);
    Py_CLEAR(f->value);
    Py_CLEAR(f->where);
    Py_CLEAR(f->waiting);
    return 0;
}

/* Called only through the subclass in Python, which keeps long chains of nodes from overflowing the stack. */
static void fields_dealloc(PyObject *self) {
    PyObject_GC_UnTrack(self);
    fields_clear(self);
    free_object(self);
}

/* Call the observers of new nodes. */
static int announce(PyObject *node) {
    for (Py_ssize_t k = 0; k < PyList_Size(created); k++) {
        PyObject *observe = Py_NewRef(PyList_GetItem(created, k));
        PyObject *done = PyObject_CallFunctionObjArgs(observe, node, NULL);
        Py_DECREF(observe);
        if (done == NULL)
            return -1;
        Py_DECREF(done);
    }
    return 0;
}

static int fields_init(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"op", "params", "inputs", "aval", "trace", "value", "where", NULL};
    Fields *f = (Fields *)self;
    PyObject *op, *params, *inputs, *aval, *trace, *value = Py_None, *where = Py_None;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "OOOOO|OO", names, &op, &params, &inputs, &aval, &trace, &value, &where))
        return -1;
    set(&f->op, op);
    set(&f->params, params);
    set(&f->inputs, inputs);
    set(&f->aval, aval);
    set(&f->trace, trace);
    set(&f->value, value);
    set(&f->where, where);
    return announce(self);
}

/* Return Node(...). The references to `aval` and `where` are stolen. */
static PyObject *new_node(
    PyObject *op, PyObject *params, PyObject *inputs, PyObject *aval, PyObject *trace, PyObject *value, PyObject *where) {
    PyObject *node = PyType_GenericAlloc((PyTypeObject *)node_type, 0);
    if (node == NULL) {
        Py_DECREF(aval);
        Py_DECREF(where);
        return NULL;
    }
    Fields *f = (Fields *)node;
    f->op = Py_NewRef(op);
    f->params = Py_NewRef(params);
    f->inputs = Py_NewRef(inputs);
    f->aval = aval;
    f->trace = Py_NewRef(trace);
    f->value = Py_NewRef(value);
    f->where = where;
    if (PyList_Size(created) && announce(node) < 0)
        Py_CLEAR(node);
    return node;
}

/* Return 1 if a frame runs a function of mxcompat's core, and -1 with an error set. */
static int is_own(PyObject *frame) {
    PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
    PyObject *name = PyObject_GetAttr(code, s_filename);
    PyObject *answer = name == NULL ? NULL : PyObject_GetItem(own, name);
    int result = answer == NULL ? -1 : answer == Py_True;
    Py_DECREF(code);
    Py_XDECREF(name);
    Py_XDECREF(answer);
    return result;
}

/* Return the place in the user's code that calls an op: (code, instruction), or None if Python has no frames. The
   caller of `apply` is a function of mxcompat. */
static PyObject *caller(void) {
    if (getframe == Py_None)
        return Py_NewRef(Py_None);
    /* `sys._getframe` would call audit hooks: a hook that JAX imports (of filelock) doubles the time of an op */
    PyObject *callee = (PyObject *)PyEval_GetFrame();
    if (callee == NULL)
        return none();
    PyObject *frame = PyObject_GetAttr(callee, s_back);
    if (frame == Py_None) { /* the function at the bottom of the stack has no caller */
        Py_DECREF(frame);
        frame = Py_NewRef(callee);
    }
    int ours = -1;
    while (frame != NULL && (ours = is_own(frame)) == 1) {
        PyObject *back = PyObject_GetAttr(frame, s_back);
        if (back == Py_None) {
            Py_DECREF(back);
            break;
        }
        Py_DECREF(frame);
        frame = back;
    }
    if (frame == NULL || ours < 0) {
        Py_XDECREF(frame);
        return NULL;
    }
    PyObject *where = NULL, *instruction = PyObject_GetAttr(frame, s_lasti);
    if (instruction != NULL) {
        PyObject *code = (PyObject *)PyFrame_GetCode((PyFrameObject *)frame);
        where = PyTuple_Pack(2, code, instruction);
        Py_DECREF(code);
        Py_DECREF(instruction);
    }
    Py_DECREF(frame);
    return where;
}

int is_node(PyObject *x) { return PyObject_TypeCheck(x, (PyTypeObject *)node_type); }

/* Return the larger of two traces, a borrowed reference, or NULL with an error set. */
static PyObject *larger(PyObject *trace, PyObject *other) {
    if (other == trace || other == zero)
        return trace;
    int is_larger = PyObject_RichCompareBool(other, trace, Py_GT);
    return is_larger < 0 ? NULL : is_larger ? other : trace;
}

/* Return a tuple of the params and the inputs' avals, and set `trace` to the largest. NULL with an error set. */
static PyObject *key_of(PyObject *params, PyObject *inputs, PyObject **trace) {
    Py_ssize_t n = PyTuple_Size(inputs);
    PyObject *key = PyTuple_New(n + 1);
    if (key != NULL)
        PyTuple_SetItem(key, 0, Py_NewRef(params));
    for (Py_ssize_t k = 0; key != NULL && k < n; k++) {
        PyObject *input = PyTuple_GetItem(inputs, k);
        if (!is_node(input)) {
            Py_DECREF(key);
            return PyErr_Format(PyExc_TypeError, "apply: input %zd is no node", k);
        }
        PyTuple_SetItem(key, k + 1, Py_NewRef(((Fields *)input)->aval));
        if ((*trace = larger(*trace, ((Fields *)input)->trace)) == NULL)
            Py_CLEAR(key);
    }
    return key;
}

/* Return a node with its place in the user's code. The reference to `aval` is stolen. */
static PyObject *asked_for(PyObject *op, PyObject *params, PyObject *inputs, PyObject *aval, PyObject *trace) {
    PyObject *where = caller();
    if (where == NULL) {
        Py_DECREF(aval);
        return NULL;
    }
    return new_node(op, params, inputs, aval, trace, Py_None, where);
}

static PyObject *apply(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count < 2 || count > 3 || !PyTuple_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "apply(op, inputs, params=()): inputs are a tuple");
    PyObject *op = args[0], *inputs = args[1], *params = count == 3 ? args[2] : no_params, *trace = zero;
    PyObject *key = key_of(params, inputs, &trace), *memo = key == NULL ? NULL : PyObject_GetAttr(op, s_memo);
    PyObject *aval = memo == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(memo, key));
    if (aval == NULL && !PyErr_Occurred())
        aval = PyObject_CallMethodObjArgs(op, s_infer, key, NULL);
    Py_XDECREF(memo);
    Py_XDECREF(key);
    return aval == NULL ? NULL : asked_for(op, params, inputs, aval, trace);
}

static PyObject *apply_as(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !PyTuple_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "apply_as(op, inputs, params, aval): inputs are a tuple");
    PyObject *inputs = args[1], *trace = zero;
    for (Py_ssize_t k = 0; k < PyTuple_Size(inputs); k++) {
        PyObject *input = PyTuple_GetItem(inputs, k);
        if (!is_node(input))
            return PyErr_Format(PyExc_TypeError, "apply_as: input %zd is no node", k);
        if ((trace = larger(trace, ((Fields *)input)->trace)) == NULL)
            return NULL;
    }
    return asked_for(args[0], args[2], inputs, Py_NewRef(args[3]), trace);
}

static PyObject *aliases(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyList_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "aliases(op, nodes, trace): nodes are a list");
    PyObject *result = PyList_New(0);
    for (Py_ssize_t k = 0; result != NULL && k < PyList_Size(args[1]); k++) {
        PyObject *node = PyList_GetItem(args[1], k), *inputs = NULL, *one = NULL;
        if (!is_node(node))
            PyErr_Format(PyExc_TypeError, "aliases: item %zd is no node", k);
        else if ((inputs = PyTuple_Pack(1, node)) != NULL) {
            Fields *f = (Fields *)node;
            one = new_node(args[0], no_params, inputs, Py_NewRef(f->aval), args[2], f->value, none());
        }
        if (one == NULL || PyList_Append(result, one) < 0)
            Py_CLEAR(result);
        Py_XDECREF(one);
        Py_XDECREF(inputs);
    }
    return result;
}

static PyObject *items(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count < 1 || count > 2 || !is_node(args[0]) || !PyTuple_Check(((Fields *)args[0])->aval))
        return PyErr_Format(PyExc_TypeError, "items(of, first=0): of a node with several results");
    Fields *of = (Fields *)args[0];
    PyObject *avals = of->aval, *result = PyList_New(0);
    Py_ssize_t n = PyTuple_Size(avals), first = count == 2 ? PyLong_AsSsize_t(args[1]) : 0;
    if (first < 0 && !PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "items: the first is %zd", first);
    if (first < 0)
        Py_CLEAR(result);
    for (Py_ssize_t k = first; result != NULL && k < n; k++) {
        PyObject *index = PyLong_FromSsize_t(k), *params = index == NULL ? NULL : PyObject_GetItem(indices, index);
        PyObject *inputs = params == NULL ? NULL : PyTuple_Pack(1, args[0]), *one = NULL;
        if (inputs != NULL)
            one = new_node(
                item, params, inputs, Py_NewRef(PyTuple_GetItem(avals, k)), of->trace, Py_None, none());
        if (one == NULL || PyList_Append(result, one) < 0)
            Py_CLEAR(result);
        Py_XDECREF(one);
        Py_XDECREF(inputs);
        Py_XDECREF(params);
        Py_XDECREF(index);
    }
    return result;
}

/* Count the memory of a value, if it is large enough. */
static int count_memory(PyObject *value, PyObject *aval) {
    if (!PyTuple_Check(aval)) {
        PyObject *smallest = PyDict_GetItemWithError(buffers, s_smallest), *nbytes = PyObject_GetAttr(aval, s_nbytes);
        int large = smallest == NULL || nbytes == NULL ? -1 : PyObject_RichCompareBool(nbytes, smallest, Py_GE);
        Py_XDECREF(nbytes);
        if (large < 1)
            return large;
    }
    PyObject *done = PyObject_CallFunctionObjArgs(PyDict_GetItem(buffers, s_count), value, aval, NULL);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

PyObject *leaf(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "leaf(value, aval)");
    if (count_memory(args[0], args[1]) < 0)
        return NULL;
    return new_node(Py_None, no_params, no_params, Py_NewRef(args[1]), zero, args[0], none());
}

/* Return Node(op, params, inputs, aval, trace, value=None), faster than the class does. */
static PyObject *node(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count < 5 || count > 6)
        return PyErr_Format(PyExc_TypeError, "node(op, params, inputs, aval, trace, value=None)");
    return new_node(
        args[0], args[1], args[2], Py_NewRef(args[3]), args[4], count == 6 ? args[5] : Py_None, none());
}

/* Give a node a value. Its op and inputs are dropped, unless a capture in progress may need them. */
static int give(PyObject *node, PyObject *value, PyObject *oldest) {
    Fields *f = (Fields *)node;
    int older = f->trace == zero ? 1 : PyObject_RichCompareBool(f->trace, oldest, Py_LT);
    if (older < 0)
        return -1;
    set(&f->value, value);
    if (older) {
        set(&f->op, Py_None);
        set(&f->params, no_params);
        set(&f->inputs, no_params);
    }
    return 0;
}

static PyObject *store(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "store(nodes, values, oldest)");
    PyObject *nodes = PySequence_Tuple(args[0]), *values = nodes == NULL ? NULL : PySequence_Tuple(args[1]);
    PyObject *waiting = values == NULL ? NULL : PyList_New(0);
    Py_ssize_t n = values == NULL ? 0 : PyTuple_Size(nodes);
    int failed = waiting == NULL;
    if (!failed && PyTuple_Size(values) < n)
        n = PyTuple_Size(values);
    for (Py_ssize_t k = 0; !failed && k < n; k++) {
        PyObject *node = PyTuple_GetItem(nodes, k);
        if (Py_TYPE(node) != (PyTypeObject *)node_type) {
            PyErr_Format(PyExc_TypeError, "store: nodes");
            failed = 1;
        } else
            failed = give(node, PyTuple_GetItem(values, k), args[2]) < 0;
        if (!failed && ((Fields *)node)->waiting != NULL && ((Fields *)node)->waiting != Py_None)
            failed = PyList_Append(waiting, node) < 0;
    }
    for (Py_ssize_t k = 0; !failed && k < n; k++)
        failed = count_memory(PyTuple_GetItem(values, k), ((Fields *)PyTuple_GetItem(nodes, k))->aval) < 0;
    Py_XDECREF(nodes);
    Py_XDECREF(values);
    if (failed)
        Py_CLEAR(waiting);
    return waiting;
}

/* Return a list or tuple of the items of an iterable. */
static PyObject *listed(PyObject *iterable) {
    return PyList_CheckExact(iterable) || PyTuple_Check(iterable) ? Py_NewRef(iterable) : PySequence_Tuple(iterable);
}

/* Return an item of a list or tuple, which must be a node, as a borrowed reference, or NULL with an error set. */
static PyObject *node_in(PyObject *nodes, Py_ssize_t k) {
    PyObject *node = item_of(nodes, k);
    if (node != NULL && !is_node(node)) {
        PyErr_Format(PyExc_TypeError, "item %zd is no node", k);
        return NULL;
    }
    return node;
}

/* Return the value of a node. A subclass in Python may compute it at this access. */
static PyObject *value_of(PyObject *node) {
    if (Py_TYPE(node) == (PyTypeObject *)node_type)
        return Py_NewRef(((Fields *)node)->value);
    return PyObject_GetAttr(node, s_value);
}

static PyObject *unevaluated(PyObject *Py_UNUSED(module), PyObject *iterable) {
    PyObject *nodes = listed(iterable), *result = nodes == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t k = 0; result != NULL && k < size_of(nodes); k++) {
        PyObject *node = Py_XNewRef(node_in(nodes, k)), *value = node == NULL ? NULL : value_of(node);
        if (value == NULL || (value == Py_None && PyList_Append(result, node) < 0))
            Py_CLEAR(result);
        Py_XDECREF(value);
        Py_XDECREF(node);
    }
    Py_XDECREF(nodes);
    return result;
}

static PyObject *arrays_of(PyObject *Py_UNUSED(module), PyObject *iterable) {
    PyObject *nodes = listed(iterable), *result = nodes == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t k = 0; result != NULL && k < size_of(nodes); k++) {
        PyObject *node = node_in(nodes, k), *value = NULL;
        if (node != NULL && ((Fields *)node)->op == scalar)
            continue;
        if (node == NULL || (value = value_of(node)) == NULL || PyList_Append(result, value) < 0)
            Py_CLEAR(result);
        Py_XDECREF(value);
    }
    Py_XDECREF(nodes);
    return result;
}

static PyObject *avals_of(PyObject *Py_UNUSED(module), PyObject *iterable) {
    PyObject *nodes = listed(iterable), *result = nodes == NULL ? NULL : PyTuple_New(size_of(nodes));
    for (Py_ssize_t k = 0; result != NULL && k < size_of(nodes); k++) {
        PyObject *node = node_in(nodes, k);
        if (node == NULL || PyTuple_SetItem(result, k, Py_NewRef(((Fields *)node)->aval)) < 0)
            Py_CLEAR(result);
    }
    Py_XDECREF(nodes);
    return result;
}

static PyMemberDef fields_members[] = {
    {"op", T_OBJECT_EX, offsetof(Fields, op), 0, NULL},
    {"params", T_OBJECT_EX, offsetof(Fields, params), 0, NULL},
    {"inputs", T_OBJECT_EX, offsetof(Fields, inputs), 0, NULL},
    {"aval", T_OBJECT_EX, offsetof(Fields, aval), 0, NULL},
    {"trace", T_OBJECT_EX, offsetof(Fields, trace), 0, NULL},
    {"value", T_OBJECT_EX, offsetof(Fields, value), 0, NULL},
    {"where", T_OBJECT_EX, offsetof(Fields, where), 0, NULL},
    {"waiting", T_OBJECT, offsetof(Fields, waiting), 0, NULL}, /* this field is None by default */
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot fields_slots[] = {
    {Py_tp_doc, "What a node consists of."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, fields_init},
    {Py_tp_dealloc, fields_dealloc},
    {Py_tp_traverse, fields_traverse},
    {Py_tp_clear, fields_clear},
    {Py_tp_members, fields_members},
    {0, NULL},
};

static PyType_Spec fields_spec = {
    .name = "mxcompat._native.in_c.Fields",
    .basicsize = sizeof(Fields),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = fields_slots,
};

/* Set the objects that `nodes.c` needs: the class of nodes; the observers of new nodes; the variables of `buffers`;
   `own`, which tells if a file is part of the core; the op ITEM and its params; the op SCALAR; and
   `sys._getframe`, or None if Python has no frames to read (the function itself is not called, see `caller`). */
static PyObject *connect_nodes(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *node, *observers, *variables, *files, *op, *params, *number, *frame;
    if (!PyArg_ParseTuple(
            args, "OO!O!OOOOO", &node, &PyList_Type, &observers, &PyDict_Type, &variables, &files, &op, &params, &number,
            &frame))
        return NULL;
    set(&node_type, node);
    set(&created, observers);
    set(&buffers, variables);
    set(&own, files);
    set(&item, op);
    set(&indices, params);
    set(&scalar, number);
    set(&getframe, frame);
    return none();
}

static PyMethodDef functions[] = {
    FAST("apply", apply),
    FAST("apply_as", apply_as),
    FAST("aliases", aliases),
    FAST("leaf", leaf),
    FAST("node", node),
    FAST("items", items),
    FAST("store", store),
    {"unevaluated", unevaluated, METH_O, NULL},
    {"avals_of", avals_of, METH_O, NULL},
    {"arrays_of", arrays_of, METH_O, NULL},
    {"connect_nodes", connect_nodes, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_nodes(PyObject *module) {
    zero = PyLong_FromLong(0);
    no_params = PyTuple_New(0);
    if (zero == NULL || no_params == NULL || find_names(names) < 0)
        return -1;
    return add_type(module, "Fields", &fields_spec) < 0 ? -1 : PyModule_AddFunctions(module, functions);
}
