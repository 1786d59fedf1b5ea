/* Find the subgraph behind roots, by walking the graph or by following known code: see `_graph/ir/linearize.py`. */
#include "in_c.h"

static PyObject *s_value;
static const Name names[] = {{"value", &s_value}, {NULL, NULL}};
static PyObject *scalar, *traced, *item, *try_resolve_item; /* set by `connect_code` */

/* An instruction: op and params, borrowed from `code`, and the slots that it reads. */
typedef struct {
    PyObject *op, *params;
    Py_ssize_t count;
    const Py_ssize_t *reads;
} Instruction;

/* A path to follow: a Code, and the slots of its roots. */
typedef struct {
    PyObject_HEAD PyObject *code; /* the instructions and the kinds of the leaves */
    Py_ssize_t instructions, leaves, roots;
    Instruction *instruction;
    PyObject **kind;
    Py_ssize_t *slots; /* the slots that the instructions read, then the slots of the roots */
    const Py_ssize_t *root;
} Path;

static int path_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Path *)self)->code);
    return 0;
}

static int path_clear(PyObject *self) {
    Path *path = (Path *)self;
    /* the destructors of the dropped objects may read these counts */
    path->instructions = path->leaves = path->roots = 0;
    Py_CLEAR(path->code);
    return 0;
}

static void path_dealloc(PyObject *self) {
    Path *path = (Path *)self;
    PyObject_GC_UnTrack(self);
    path_clear(self);
    PyMem_Free(path->instruction);
    PyMem_Free(path->kind);
    PyMem_Free(path->slots);
    free_object(self);
}

/* Write the slots of a tuple to `to`. Each must be in [-size, size). Return the place for the next slot, or NULL. */
static Py_ssize_t *read_slots(PyObject *slots, Py_ssize_t *to, Py_ssize_t size) {
    for (Py_ssize_t k = 0; k < PyTuple_Size(slots); k++) {
        Py_ssize_t slot = PyLong_AsSsize_t(PyTuple_GetItem(slots, k));
        if (PyErr_Occurred())
            return NULL;
        if (slot < -size || slot >= size) {
            PyErr_Format(PyExc_ValueError, "Path: no such slot: %zd", slot);
            return NULL;
        }
        *to++ = slot < 0 ? slot + size : slot;
    }
    return to;
}

static Py_ssize_t slots_in(PyObject *instructions, PyObject *roots) {
    Py_ssize_t count = PyTuple_Size(roots);
    for (Py_ssize_t k = 0; count >= 0 && k < PyTuple_Size(instructions); k++) {
        PyObject *instruction = PyTuple_GetItem(instructions, k);
        if (!PyTuple_Check(instruction) || PyTuple_Size(instruction) != 3 || !PyTuple_Check(PyTuple_GetItem(instruction, 2)))
            return -1;
        count += PyTuple_Size(PyTuple_GetItem(instruction, 2));
    }
    return count;
}

static int path_init(PyObject *self, PyObject *args, PyObject *Py_UNUSED(kwargs)) {
    Path *path = (Path *)self;
    PyObject *instructions, *kinds, *roots;
    if (!PyArg_ParseTuple(
            args, "O!O!O!", &PyTuple_Type, &instructions, &PyTuple_Type, &kinds, &PyTuple_Type, &roots))
        return -1;
    Py_ssize_t count = slots_in(instructions, roots);
    if (count < 0 || path->code != NULL) {
        PyErr_Format(PyExc_TypeError, "Path(instructions, kinds, roots), once: tuples of (op, params, slots)");
        return -1;
    }
    Py_ssize_t total = PyTuple_Size(instructions), leaves = PyTuple_Size(kinds);
    path->code = PyTuple_Pack(2, instructions, kinds);
    path->instruction = PyMem_Calloc(total + 1, sizeof(Instruction));
    path->kind = PyMem_Calloc(leaves + 1, sizeof(PyObject *));
    path->slots = PyMem_Calloc(count + 1, sizeof(Py_ssize_t));
    if (path->code == NULL || path->instruction == NULL || path->kind == NULL || path->slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t *next = path->slots;
    for (Py_ssize_t k = 0; k < total; k++) {
        PyObject *instruction = PyTuple_GetItem(instructions, k), *reads = PyTuple_GetItem(instruction, 2);
        path->instruction[k] = (Instruction){
            PyTuple_GetItem(instruction, 0), PyTuple_GetItem(instruction, 1), PyTuple_Size(reads), next};
        if ((next = read_slots(reads, next, total + leaves)) == NULL)
            return -1;
    }
    for (Py_ssize_t k = 0; k < leaves; k++)
        path->kind[k] = PyTuple_GetItem(kinds, k);
    if (read_slots(roots, next, total + leaves) == NULL)
        return -1;
    path->root = next;
    path->instructions = total;
    path->leaves = leaves;
    path->roots = PyTuple_Size(roots);
    return 0;
}

/* The functions of a path return 1, 0 if the nodes do not match the code, or -1 with an error set. The environment
   has a node or NULL for each slot. Slot ~k, counted from the end, is leaf k. */

static int put(PyObject **env, Py_ssize_t slot, PyObject *node) {
    if (env[slot] == NULL) {
        env[slot] = Py_NewRef(node);
        return 1;
    }
    return env[slot] == node;
}

/* Check that a node in the environment matches an instruction, and put the node's inputs into the environment. */
static int follow_instruction(const Instruction *instruction, PyObject **env, PyObject *node, int in_capture) {
    Fields *f = (Fields *)node;
    if (node == NULL || !is_node(node) || f->op != instruction->op || (f->value != Py_None && !in_capture))
        return 0;
    if (f->params != instruction->params) {
        PyObject *own = Py_NewRef(f->params); /* comparing them may run any code */
        int same = PyObject_RichCompareBool(own, instruction->params, Py_EQ);
        Py_DECREF(own);
        if (same != 1)
            return same;
    }
    PyObject *inputs = f->inputs;
    if (PyTuple_Size(inputs) != instruction->count)
        return 0;
    int same = 1;
    for (Py_ssize_t k = 0; same && k < instruction->count; k++)
        same = put(env, instruction->reads[k], PyTuple_GetItem(inputs, k));
    return same;
}

/* Give an ITEM its value if the node with several results has its values. Return 1 if so. */
static int resolves(PyObject *node) {
    PyObject *has = PyObject_CallFunctionObjArgs(try_resolve_item, node, NULL);
    int result = has == NULL ? -1 : has == Py_True;
    Py_XDECREF(has);
    return result;
}

/* Check that a node is a leaf of this kind: a placeholder, a node with a value, or one older than the capture. */
static int is_leaf(PyObject *node, PyObject *kind, int is_placeholder, PyObject *trace, int in_capture) {
    if (node == NULL || !is_node(node))
        return 0;
    Fields *f = (Fields *)node;
    if ((f->op == scalar || f->op == traced ? f->op : Py_None) != kind)
        return 0;
    if (is_placeholder)
        return 1;
    if (in_capture)
        return PyObject_RichCompareBool(f->trace, trace, Py_LT);
    PyObject *value = PyObject_GetAttr(node, s_value); /* this may compute the value, in a subclass */
    Py_XDECREF(value);
    if (value == NULL)
        return -1;
    if (value != Py_None)
        return 1;
    return f->op == item ? resolves(node) : 0;
}

/* Return (order, leaves, avals of the leaves) of a filled environment, and steal its references. */
static PyObject *followed(PyObject **env, Py_ssize_t instructions, Py_ssize_t count) {
    PyObject *order = PyList_New(instructions), *leaves = PyList_New(count), *avals = PyList_New(count), *result = NULL;
    if (order != NULL && leaves != NULL && avals != NULL) {
        for (Py_ssize_t k = 0; k < instructions; k++) {
            PyList_SetItem(order, k, env[k]);
            env[k] = NULL;
        }
        for (Py_ssize_t k = 0; k < count; k++) {
            PyObject **node = &env[instructions + count - 1 - k];
            PyList_SetItem(avals, k, Py_NewRef(((Fields *)*node)->aval));
            PyList_SetItem(leaves, k, *node);
            *node = NULL;
        }
        result = PyTuple_Pack(3, order, leaves, avals);
    }
    Py_XDECREF(order);
    Py_XDECREF(leaves);
    Py_XDECREF(avals);
    return result;
}

/* Fill an environment, from the roots back to the leaves. */
static int follow_back(Path *path, PyObject **env, PyObject *roots, PyObject *placeholders, PyObject *trace) {
    Py_ssize_t instructions = path->instructions, leaves = path->leaves, count = PyTuple_Size(placeholders);
    int same = count <= leaves && PyTuple_Size(roots) == path->roots, in_capture = PyObject_IsTrue(trace);
    if (in_capture < 0)
        return -1;
    for (Py_ssize_t k = 0; same == 1 && k < count; k++)
        same = put(env, instructions + leaves - 1 - k, PyTuple_GetItem(placeholders, k));
    for (Py_ssize_t k = 0; same == 1 && k < path->roots; k++)
        same = put(env, path->root[k], PyTuple_GetItem(roots, k));
    for (Py_ssize_t k = instructions; same == 1 && k-- > 0;)
        same = follow_instruction(&path->instruction[k], env, env[k], in_capture);
    for (Py_ssize_t k = 0; same == 1 && k < leaves; k++)
        same = is_leaf(env[instructions + leaves - 1 - k], path->kind[k], k < count, trace, in_capture);
    return same;
}

/* follow(roots, placeholders, trace) */
static PyObject *follow(PyObject *self, PyObject *const *args, Py_ssize_t count) {
    Path *path = (Path *)self;
    if (count != 3 || path->code == NULL)
        return PyErr_Format(PyExc_TypeError, "follow(roots, placeholders, trace)");
    PyObject *roots = PySequence_Tuple(args[0]), *placeholders = roots == NULL ? NULL : PySequence_Tuple(args[1]);
    Py_ssize_t size = path->instructions + path->leaves;
    PyObject **env = placeholders == NULL ? NULL : PyMem_Calloc(size + 1, sizeof(PyObject *)), *result = NULL;
    if (env != NULL) {
        int same = follow_back(path, env, roots, placeholders, args[2]);
        if (same >= 0)
            result = same ? followed(env, path->instructions, path->leaves) : none();
        for (Py_ssize_t k = 0; k < size; k++)
            Py_XDECREF(env[k]);
        PyMem_Free(env);
    } else if (placeholders != NULL)
        PyErr_NoMemory();
    Py_XDECREF(placeholders);
    Py_XDECREF(roots);
    return result;
}

static PyMethodDef path_methods[] = {FAST("follow", follow), {NULL, NULL, 0, NULL}};

static PyType_Slot path_slots[] = {
    {Py_tp_doc, "How to follow code back from its roots."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, path_init},
    {Py_tp_dealloc, path_dealloc},
    {Py_tp_traverse, path_traverse},
    {Py_tp_clear, path_clear},
    {Py_tp_methods, path_methods},
    {0, NULL},
};

static PyType_Spec path_spec = {
    .name = "mxcompat._native.in_c.Path",
    .basicsize = sizeof(Path),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = path_slots,
};

/* The state of a walk: the slots of the visited nodes, the nodes to compute with their instructions, the leaves, and
   the stack of nodes to visit. */
typedef struct {
    PyObject *slots, *order, *instructions, *leaves, **stack;
    Py_ssize_t height, room;
    long long trace;
} Walk;

static int push(Walk *walk, PyObject *node) {
    if (walk->height == walk->room) {
        Py_ssize_t room = 2 * walk->room + 64;
        PyObject **stack = PyMem_Realloc(walk->stack, room * sizeof(PyObject *));
        if (stack == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        walk->stack = stack;
        walk->room = room;
    }
    walk->stack[walk->height++] = Py_NewRef(node);
    return 0;
}

/* Return the slot of a node, a borrowed reference. Return NULL if it has none yet, or with an error set. */
static PyObject *slot_of(Walk *walk, PyObject *node) { return PyDict_GetItemWithError(walk->slots, node); }

static int set_slot(Walk *walk, PyObject *node, Py_ssize_t slot) {
    PyObject *number = PyLong_FromSsize_t(slot);
    int failed = number == NULL || PyDict_SetItem(walk->slots, node, number) < 0;
    Py_XDECREF(number);
    return failed ? -1 : 0;
}

static int add_leaf(Walk *walk, PyObject *node) {
    Py_ssize_t slot = ~PyList_Size(walk->leaves);
    return PyList_Append(walk->leaves, node) < 0 ? -1 : set_slot(walk, node, slot);
}

/* Return 1 if the graph ends at a node: in a capture, at an older node; otherwise, at a node with a value, which a
   subclass may compute first. */
static int ends_at(Walk *walk, PyObject *node) {
    if (!is_node(node)) {
        PyErr_Format(PyExc_TypeError, "walk: not a node");
        return -1;
    }
    Fields *f = (Fields *)node;
    if (walk->trace) {
        long long trace = PyLong_AsLongLong(f->trace);
        return trace == -1 && PyErr_Occurred() ? -1 : trace < walk->trace;
    }
    if (f->value != Py_None || f->op != Py_None)
        return f->value != Py_None;
    PyObject *value = PyObject_GetAttr(node, s_value);
    Py_XDECREF(value);
    return value == NULL ? -1 : value != Py_None;
}

/* Return a tuple of the slots of a node's inputs. If some inputs are not visited yet, push these and return None. */
static PyObject *reads_of(Walk *walk, PyObject *inputs) {
    Py_ssize_t count = PyTuple_Size(inputs);
    PyObject *reads = PyTuple_New(count);
    int ready = 1;
    for (Py_ssize_t k = 0; reads != NULL && k < count; k++) {
        PyObject *input = PyTuple_GetItem(inputs, k), *slot = slot_of(walk, input);
        if (slot == NULL && !PyErr_Occurred()) {
            int ends = ends_at(walk, input);
            if (ends == 1 ? add_leaf(walk, input) < 0 : ends < 0 || push(walk, input) < 0)
                break;
            ready &= ends;
            slot = ends ? slot_of(walk, input) : Py_None;
        }
        if (slot == NULL)
            break;
        PyTuple_SetItem(reads, k, Py_NewRef(slot));
    }
    if (PyErr_Occurred())
        Py_CLEAR(reads);
    if (reads != NULL && !ready) {
        Py_DECREF(reads);
        return none();
    }
    return reads;
}

/* Append an instruction for a node that reads these slots. */
static int add_step(Walk *walk, PyObject *node, PyObject *reads) {
    Fields *f = (Fields *)node;
    PyObject *instruction = PyTuple_Pack(3, f->op, f->params, reads);
    Py_ssize_t slot = PyList_Size(walk->order);
    int failed = instruction == NULL || PyList_Append(walk->instructions, instruction) < 0 ||
                 PyList_Append(walk->order, node) < 0 || set_slot(walk, node, slot) < 0;
    Py_XDECREF(instruction);
    return failed ? -1 : 0;
}

/* Visit the node on top of the stack. Return 1 if it is finished, 0 if its inputs come first, or -1. */
static int go_to(Walk *walk, PyObject *node) {
    Fields *f = (Fields *)node;
    if (slot_of(walk, node) != NULL)
        return 1;
    if (PyErr_Occurred())
        return -1;
    if (f->op == item && !walk->trace) {
        int has = resolves(node);
        if (has)
            return has < 0 || add_leaf(walk, node) < 0 ? -1 : 1;
    }
    PyObject *inputs = Py_NewRef(f->inputs), *reads = reads_of(walk, inputs);
    int done = reads == NULL ? -1 : reads != Py_None;
    if (done == 1 && add_step(walk, node, reads) < 0)
        done = -1;
    Py_XDECREF(reads);
    Py_DECREF(inputs);
    return done;
}

static int walk_from(Walk *walk, PyObject *root) {
    if (slot_of(walk, root) != NULL || PyErr_Occurred())
        return PyErr_Occurred() ? -1 : 0;
    int ends = ends_at(walk, root);
    if (ends)
        return ends < 0 ? -1 : add_leaf(walk, root);
    if (push(walk, root) < 0)
        return -1;
    while (walk->height) {
        Py_ssize_t top = walk->height - 1;
        int done = go_to(walk, walk->stack[top]);
        if (done < 0)
            return -1;
        if (done) {
            walk->height = top;
            Py_DECREF(walk->stack[top]);
        }
    }
    return 0;
}

/* Return (instructions, slots of the roots, order, leaves) of a finished walk. */
static PyObject *walked(Walk *walk, PyObject *roots) {
    Py_ssize_t count = PyTuple_Size(roots);
    PyObject *slots = PyTuple_New(count), *instructions = PyList_AsTuple(walk->instructions), *result = NULL;
    for (Py_ssize_t k = 0; slots != NULL && k < count; k++) {
        PyObject *slot = slot_of(walk, PyTuple_GetItem(roots, k));
        if (slot == NULL)
            Py_CLEAR(slots);
        else
            PyTuple_SetItem(slots, k, Py_NewRef(slot));
    }
    if (slots != NULL && instructions != NULL)
        result = PyTuple_Pack(4, instructions, slots, walk->order, walk->leaves);
    Py_XDECREF(slots);
    Py_XDECREF(instructions);
    return result;
}

/* walk(roots, trace, placeholders) */
static PyObject *walk_graph(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "walk(roots, trace, placeholders)");
    Walk walk = {.trace = PyLong_AsLongLong(args[1])};
    if (walk.trace == -1 && PyErr_Occurred())
        return NULL;
    PyObject *roots = PySequence_Tuple(args[0]), *result = NULL;
    PyObject *placeholders = roots == NULL ? NULL : PySequence_Tuple(args[2]);
    walk.slots = PyDict_New();
    walk.order = PyList_New(0);
    walk.instructions = PyList_New(0);
    walk.leaves = PyList_New(0);
    int failed = roots == NULL || placeholders == NULL || walk.slots == NULL || walk.order == NULL ||
                 walk.instructions == NULL || walk.leaves == NULL;
    for (Py_ssize_t k = 0; !failed && k < PyTuple_Size(placeholders); k++)
        failed = add_leaf(&walk, PyTuple_GetItem(placeholders, k)) < 0;
    for (Py_ssize_t k = 0; !failed && k < PyTuple_Size(roots); k++)
        failed = walk_from(&walk, PyTuple_GetItem(roots, k)) < 0;
    if (!failed)
        result = walked(&walk, roots);
    while (walk.height)
        Py_DECREF(walk.stack[--walk.height]);
    PyMem_Free(walk.stack);
    Py_XDECREF(walk.slots);
    Py_XDECREF(walk.order);
    Py_XDECREF(walk.instructions);
    Py_XDECREF(walk.leaves);
    Py_XDECREF(roots);
    Py_XDECREF(placeholders);
    return result;
}

/* Set the ops of scalars, of tracers and of items, and the function that gives an item its value. */
static PyObject *connect_code(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *of_numbers, *of_tracers, *of_items, *function;
    if (!PyArg_ParseTuple(args, "OOOO", &of_numbers, &of_tracers, &of_items, &function))
        return NULL;
    set(&scalar, of_numbers);
    set(&traced, of_tracers);
    set(&item, of_items);
    set(&try_resolve_item, function);
    return none();
}

static PyMethodDef functions[] = {
    {"connect_code", connect_code, METH_VARARGS, NULL},
    FAST("walk", walk_graph),
    {NULL, NULL, 0, NULL},
};

int add_code(PyObject *module) {
    if (find_names(names) < 0 || add_type(module, "Path", &path_spec) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
