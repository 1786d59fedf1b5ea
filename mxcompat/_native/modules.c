/* Walks over modules, and over the gradients and states of an optimizer: see `nn/layers/_walk.py` and
   `optimizers/_walk.py`. */
#include "in_c.h"

static PyObject *s_class, *s_no_grad, *s_startswith, *s_underscore;
static const Name names[] = {
    {"__class__", &s_class}, {"_no_grad", &s_no_grad}, {"startswith", &s_startswith}, {"_", &s_underscore}, {NULL, NULL},
};
static PyObject *module_type; /* set by `connect_modules` */

static int is_module(PyObject *x) { return PyObject_TypeCheck(x, (PyTypeObject *)module_type); }
static int is_tree(PyObject *x) { return PyDict_Check(x) || PyList_Check(x) || PyTuple_Check(x); }

/* Functions without an object as result return 1 for yes, 0 for no, or -1 with an error set, unless stated
   otherwise. */

static int is_private(PyObject *name) {
    if (PyUnicode_Check(name))
        return PyUnicode_GetLength(name) > 0 && PyUnicode_ReadChar(name, 0) == '_';
    PyObject *answer = PyObject_CallMethodObjArgs(name, s_startswith, s_underscore, NULL);
    int result = answer == NULL ? -1 : PyObject_IsTrue(answer);
    Py_XDECREF(answer);
    return result;
}

/* Return -1 if a value is a dictionary or a list by its `__class__` only, and otherwise 0. No error is set with -1,
   except MemoryError. */
static int stands_for_others(PyObject *value) {
    PyObject *class = PyObject_GetAttr(value, s_class);
    if (class == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_MemoryError))
            PyErr_Clear();
        return -1;
    }
    int stands = PyType_Check(class) && (PyType_IsSubtype((PyTypeObject *)class, &PyDict_Type) ||
                                         PyType_IsSubtype((PyTypeObject *)class, &PyList_Type));
    Py_DECREF(class);
    return stands ? -1 : 0;
}

/* Return 1 if an entry is, or may contain, parameters that are not in `frozen` (names, or NULL). Return -1 without an
 * error if the walk must be done in Python: a compiled module imitates a module by its `__class__` and attributes. */
static int passes(PyObject *name, PyObject *value, PyObject *frozen) {
    if (!is_array(value) && !PyDict_Check(value) && !PyList_Check(value))
        return stands_for_others(value);
    int private = is_private(name);
    if (private)
        return private < 0 ? -1 : 0;
    if (frozen == NULL)
        return 1;
    int is_frozen = PySequence_Contains(frozen, name);
    return is_frozen < 0 ? -1 : !is_frozen;
}

static PyObject *parameters_of(PyObject *module, int trainable);

/* Return the parameters in `value`, the entry `name` of a module, for which `passes` is true. */
static PyObject *parameters_in(PyObject *name, PyObject *value, PyObject *frozen, int trainable);

/* Return the parameters in an item of a list or dictionary, or an empty dictionary if the item does not pass. */
static PyObject *parameters_below(PyObject *name, PyObject *key, PyObject *item, PyObject *frozen, int trainable) {
    PyObject *below = frozen == NULL ? Py_NewRef(name) : PyUnicode_FromFormat("%S.%S", name, key), *result = NULL;
    int passed = below == NULL ? -1 : passes(below, item, frozen);
    if (passed >= 0)
        result = passed ? parameters_in(below, item, frozen, trainable) : PyDict_New();
    Py_XDECREF(below);
    return result;
}

static PyObject *parameters_in_list(PyObject *name, PyObject *list, PyObject *frozen, int trainable) {
    PyObject *items = walkable(list), *result = items == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t k = 0; result != NULL && k < size_of(items); k++) {
        PyObject *key = PyLong_FromSsize_t(k), *item = Py_NewRef(item_of(items, k));
        PyObject *inner = key == NULL ? NULL : parameters_below(name, key, item, frozen, trainable);
        if (inner == NULL || PyList_Append(result, inner) < 0)
            Py_CLEAR(result);
        Py_XDECREF(inner);
        Py_DECREF(item);
        Py_XDECREF(key);
    }
    Py_XDECREF(items);
    return result;
}

static PyObject *parameters_in_dict(PyObject *name, PyObject *dict, PyObject *frozen, int trainable) {
    PyObject *result = PyDict_New(), *key, *item;
    Py_ssize_t position = 0;
    while (result != NULL && PyDict_Next(dict, &position, &key, &item)) {
        Py_INCREF(key); /* formatting a key as a name may run any code */
        Py_INCREF(item);
        PyObject *inner = parameters_below(name, key, item, frozen, trainable);
        if (inner == NULL || PyDict_SetItem(result, key, inner) < 0)
            Py_CLEAR(result);
        Py_XDECREF(inner);
        Py_DECREF(item);
        Py_DECREF(key);
    }
    return result;
}

static PyObject *parameters_in(PyObject *name, PyObject *value, PyObject *frozen, int trainable) {
    if (is_array(value))
        return Py_NewRef(value);
    if (Py_EnterRecursiveCall(" while the parameters of a module are collected"))
        return NULL;
    PyObject *result = is_module(value)      ? parameters_of(value, trainable)
                     : PyDict_Check(value) ? parameters_in_dict(name, value, frozen, trainable)
                                           : parameters_in_list(name, value, frozen, trainable);
    Py_LeaveRecursiveCall();
    return result;
}

static PyObject *parameters_of(PyObject *module, int trainable) {
    PyObject *frozen = trainable ? PyObject_GetAttr(module, s_no_grad) : NULL;
    if (trainable && frozen == NULL)
        return NULL;
    if (trainable && PyAnySet_Check(frozen) && PySet_Size(frozen) == 0)
        Py_CLEAR(frozen);
    PyObject *result = PyDict_New(), *key, *value;
    Py_ssize_t position = 0;
    while (result != NULL && PyDict_Next(module, &position, &key, &value)) {
        Py_INCREF(key);
        Py_INCREF(value);
        int passed = passes(key, value, frozen);
        PyObject *inner = passed == 1 ? parameters_in(key, value, frozen, trainable) : NULL;
        if (passed && (inner == NULL || PyDict_SetItem(result, key, inner) < 0))
            Py_CLEAR(result);
        Py_XDECREF(inner);
        Py_DECREF(value);
        Py_DECREF(key);
    }
    Py_XDECREF(frozen);
    return result;
}

static PyObject *parameters(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !is_module(args[0]))
        return PyErr_Format(PyExc_TypeError, "parameters(module, trainable)");
    PyObject *result = parameters_of(args[0], args[1] == Py_True);
    return result == NULL && !PyErr_Occurred() ? none() : result;
}

static int put_over(PyObject *target, PyObject *new, int write);

/* Replace the value under a key: an array by an array, or a tree by a tree. */
static int put_one_over(PyObject *target, PyObject *key, PyObject *current, PyObject *value, int write) {
    if (is_plain_array(value) && is_plain_array(current))
        return !write ? 1 : PyObject_SetItem(target, key, value) < 0 ? -1 : 1;
    return is_array(current) ? 0 : put_over(current, value, write);
}

static int put_dict_over(PyObject *target, PyObject *new, int write) {
    PyObject *key, *value;
    Py_ssize_t position = 0;
    int going = 1;
    while (going == 1 && PyDict_Next(new, &position, &key, &value)) {
        Py_INCREF(key);
        Py_INCREF(value);
        PyObject *current = Py_XNewRef(PyDict_GetItemWithError(target, key));
        going = current != NULL ? put_one_over(target, key, current, value, write) : PyErr_Occurred() ? -1 : 0;
        Py_XDECREF(current);
        Py_DECREF(value);
        Py_DECREF(key);
    }
    return going;
}

static int put_list_over(PyObject *target, PyObject *new, int write) {
    int going = 1;
    for (Py_ssize_t k = 0; going == 1 && k < PyList_Size(new); k++) {
        if (k >= PyList_Size(target))
            return 0;
        PyObject *key = PyLong_FromSsize_t(k);
        PyObject *value = Py_NewRef(PyList_GetItem(new, k)), *current = Py_NewRef(PyList_GetItem(target, k));
        going = key == NULL ? -1 : put_one_over(target, key, current, value, write);
        Py_DECREF(current);
        Py_DECREF(value);
        Py_XDECREF(key);
    }
    return going;
}

/* Replace arrays of `target` by those of `new`. Without `write`, only check that `target` has each of them. */
static int put_over(PyObject *target, PyObject *new, int write) {
    int dicts = PyDict_Check(target) && PyDict_Check(new);
    if (PyDict_Check(new) && PyDict_Size(new) == 0)
        return 1; /* there is nothing to replace, and the target may be no tree, for example a function among layers */
    if (!dicts && !(PyList_CheckExact(target) && PyList_CheckExact(new)))
        return 0;
    if (Py_EnterRecursiveCall(" while parameters are replaced"))
        return -1;
    int going = dicts ? put_dict_over(target, new, write) : put_list_over(target, new, write);
    Py_LeaveRecursiveCall();
    return going;
}

static PyObject *replace(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "replace(target, new)");
    int going = put_over(args[0], args[1], 0);
    if (going == 1)
        going = put_over(args[0], args[1], 1);
    return going < 0 ? NULL : PyBool_FromLong(going);
}

/* The results of `gather`; `places` is NULL if places are not requested. */
typedef struct {
    PyObject *leaves, *places;
} Gathered;

static int gather_tree(PyObject *gradients, PyObject *parameters, PyObject *state, Gathered *gathered);

static int gather_one(
    PyObject *key, PyObject *gradient, PyObject *parameters, PyObject *states, Gathered *gathered) {
    PyObject *parameter = PyObject_GetItem(parameters, key);
    PyObject *state = parameter == NULL ? NULL : PyObject_GetItem(states, key);
    int failed = state == NULL ? -1 : 0;
    if (!failed && is_tree(gradient))
        failed = gather_tree(gradient, parameter, state, gathered);
    else if (!failed) {
        failed = append(gathered->leaves, PyTuple_Pack(3, gradient, parameter, state)) < 0;
        if (!failed && gathered->places != NULL)
            failed = append(gathered->places, PyTuple_Pack(2, parameters, key)) < 0;
    }
    Py_XDECREF(state);
    Py_XDECREF(parameter);
    return failed;
}

static int gather_dict(PyObject *gradients, PyObject *parameters, PyObject *state, Gathered *gathered) {
    PyObject *key, *gradient;
    Py_ssize_t position = 0;
    int failed = 0;
    while (!failed && PyDict_Next(gradients, &position, &key, &gradient)) {
        Py_INCREF(key);
        Py_INCREF(gradient);
        failed = gather_one(key, gradient, parameters, state, gathered);
        Py_DECREF(gradient);
        Py_DECREF(key);
    }
    return failed;
}

/* Set the error for a value of a type that modules cannot contain. */
static int invalid_type(PyObject *value) {
    PyObject *name = PyType_GetName(Py_TYPE(value));
    if (name != NULL)
        PyErr_Format(PyExc_ValueError, "Received invalid type: %U.", name);
    Py_XDECREF(name);
    return -1;
}

static int gather_items(PyObject *gradients, PyObject *parameters, PyObject *state, Gathered *gathered) {
    if (gathered->places != NULL && PyTuple_Check(gradients))
        return invalid_type(gradients);
    PyObject *items = walkable(gradients);
    int failed = items == NULL ? -1 : 0;
    for (Py_ssize_t k = 0; !failed && k < size_of(items); k++) {
        PyObject *key = PyLong_FromSsize_t(k), *gradient = Py_NewRef(item_of(items, k));
        failed = key == NULL ? -1 : gather_one(key, gradient, parameters, state, gathered);
        Py_DECREF(gradient);
        Py_XDECREF(key);
    }
    Py_XDECREF(items);
    return failed;
}

static int gather_tree(PyObject *gradients, PyObject *parameters, PyObject *state, Gathered *gathered) {
    if (Py_EnterRecursiveCall(" while gradients are gathered"))
        return -1;
    int failed = PyDict_Check(gradients) ? gather_dict(gradients, parameters, state, gathered)
                                         : gather_items(gradients, parameters, state, gathered);
    Py_LeaveRecursiveCall();
    return failed;
}

static PyObject *gather(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !is_tree(args[0]) || !PyList_Check(args[3]) || (args[4] != Py_None && !PyList_Check(args[4])))
        return PyErr_Format(PyExc_TypeError, "gather(gradients, parameters, state, leaves, places): lists at the end");
    Gathered gathered = {args[3], args[4] == Py_None ? NULL : args[4]};
    return gather_tree(args[0], args[1], args[2], &gathered) ? NULL : none();
}

static int add_operand(PyObject *list, PyObject *x) {
    return !is_plain_array(x) ? 0 : PyList_Append(list, x) < 0 ? -1 : 1;
}

/* Append a gradient, its parameter and the arrays of its state to `arrays`, and the names of the state to `slots`. */
static int add_operands(PyObject *leaf, PyObject *arrays, PyObject *slots) {
    PyObject *state = PyTuple_GetItem(leaf, 2), *name, *value;
    if (state == NULL)
        return -1;
    if (!PyDict_Check(state))
        return 0;
    int going = add_operand(arrays, PyTuple_GetItem(leaf, 0));
    if (going == 1)
        going = add_operand(arrays, PyTuple_GetItem(leaf, 1));
    Py_ssize_t position = 0;
    while (going == 1 && PyDict_Next(state, &position, &name, &value))
        going = add_operand(arrays, value);
    if (going != 1)
        return going;
    PyObject *list = PyDict_Keys(state), *names = list == NULL ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    return append(slots, names);
}

static PyObject *operands(PyObject *Py_UNUSED(module), PyObject *leaves) {
    if (!PyList_Check(leaves))
        return PyErr_Format(PyExc_TypeError, "operands(leaves): a list");
    PyObject *arrays = PyList_New(0), *slots = arrays == NULL ? NULL : PyList_New(0), *result = NULL;
    int going = slots == NULL ? -1 : 1;
    for (Py_ssize_t k = 0; going == 1 && k < PyList_Size(leaves); k++)
        going = add_operands(PyList_GetItem(leaves, k), arrays, slots);
    if (going == 1) {
        PyObject *names = PyList_AsTuple(slots);
        if (names != NULL)
            result = PyTuple_Pack(2, arrays, names);
        Py_XDECREF(names);
    } else if (going == 0)
        result = none();
    Py_XDECREF(slots);
    Py_XDECREF(arrays);
    return result;
}

/* Assign the next results to the names of a state. */
static int assign_state(PyObject *state, PyObject *results, Py_ssize_t *position) {
    PyObject *name, *before;
    Py_ssize_t place = 0;
    while (PyDict_Next(state, &place, &name, &before)) {
        PyObject *result = PyList_GetItem(results, (*position)++);
        if (result == NULL || PyDict_SetItem(state, name, result) < 0)
            return -1;
    }
    return 0;
}

static PyObject *assign(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyList_Check(args[0]) || !PyList_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "assign(leaves, results): lists");
    PyObject *gradients = PyList_New(0);
    Py_ssize_t position = 0;
    for (Py_ssize_t k = 0; gradients != NULL && k < PyList_Size(args[0]); k++) {
        PyObject *state = PyTuple_GetItem(PyList_GetItem(args[0], k), 2);
        PyObject *result = PyList_GetItem(args[1], position++);
        if (state == NULL || result == NULL || PyList_Append(gradients, result) < 0 ||
            assign_state(state, args[1], &position) < 0)
            Py_CLEAR(gradients);
    }
    return gradients;
}

/* Set the class of modules. */
static PyObject *connect_modules(PyObject *Py_UNUSED(module), PyObject *type) {
    set(&module_type, type);
    return none();
}

static PyMethodDef functions[] = {
    FAST("parameters", parameters),
    FAST("replace", replace),
    FAST("gather", gather),
    FAST("assign", assign),
    {"operands", operands, METH_O, NULL},
    {"connect_modules", connect_modules, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

int add_modules(PyObject *module) { return find_names(names) < 0 ? -1 : PyModule_AddFunctions(module, functions); }
