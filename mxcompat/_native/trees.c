/* Walks over trees: see `_transforms/trees.py`. Each raises RecursionError if a tree has too many levels. */
#include "in_c.h"

static PyObject *array_type, *leaf_type, *like_tuple; /* set by `connect_trees` */

int is_array(PyObject *x) { return PyObject_TypeCheck(x, (PyTypeObject *)array_type); }
int is_plain_array(PyObject *x) { return Py_TYPE(x) == (PyTypeObject *)array_type; }
static int is_leaf(PyObject *x) { return is_array(x) || Py_TYPE(x) == (PyTypeObject *)leaf_type; }

/* Return the list or tuple to walk: the sequence itself, or a new list of the items of a list of a subclass. */
PyObject *walkable(PyObject *sequence) {
    return PyList_Check(sequence) && !PyList_CheckExact(sequence) ? PySequence_List(sequence) : Py_NewRef(sequence);
}

/* Size, and borrowed items, of a list or tuple. A list may shrink during a walk, so its size is read each time. */
Py_ssize_t size_of(PyObject *sequence) {
    return PyList_Check(sequence) ? PyList_Size(sequence) : PyTuple_Size(sequence);
}

PyObject *item_of(PyObject *sequence, Py_ssize_t k) {
    return PyList_Check(sequence) ? PyList_GetItem(sequence, k) : PyTuple_GetItem(sequence, k);
}

/* Walks return 1, or 0 if a leaf should have been an array, or -1 with an error set. */

static int flatten_item(PyObject *item, PyObject *out, int require_array);

static int flatten_items(PyObject *tree, PyObject *out, int require_array) {
    PyObject *items = walkable(tree);
    int going = items == NULL ? -1 : 1;
    for (Py_ssize_t k = 0; going == 1 && k < size_of(items); k++)
        going = flatten_item(item_of(items, k), out, require_array);
    Py_XDECREF(items);
    return going;
}

static int flatten_dict(PyObject *tree, PyObject *out, int require_array) {
    PyObject *key, *item;
    Py_ssize_t position = 0;
    int going = 1;
    while (going == 1 && PyDict_Next(tree, &position, &key, &item))
        going = flatten_item(item, out, require_array);
    return going;
}

static int flatten_item(PyObject *item, PyObject *out, int require_array) {
    if (is_array(item))
        return PyList_Append(out, item) < 0 ? -1 : 1;
    int is_dict = PyDict_Check(item);
    if (!is_dict && !PyList_Check(item) && !PyTuple_Check(item))
        return !require_array;
    if (Py_EnterRecursiveCall(" while a tree is flattened"))
        return -1;
    Py_INCREF(item); /* the walk may run code that changes the tree, so keep the item alive */
    int going = is_dict ? flatten_dict(item, out, require_array) : flatten_items(item, out, require_array);
    Py_DECREF(item);
    Py_LeaveRecursiveCall();
    return going;
}

static PyObject *flatten(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyList_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "flatten(tree, out, require_array): out is a list");
    int going = flatten_item(args[0], args[1], args[2] == Py_True);
    return going < 0 ? NULL : PyBool_FromLong(going);
}

static PyObject *rebuild_item(PyObject *item, PyObject *leaves);

/* Return a list of the rebuilt items of a list or tuple. */
static PyObject *rebuild_items(PyObject *sequence, PyObject *leaves) {
    PyObject *items = walkable(sequence), *result = items == NULL ? NULL : PyList_New(0);
    for (Py_ssize_t k = 0; result != NULL && k < size_of(items); k++) {
        PyObject *item = Py_NewRef(item_of(items, k)), *other = rebuild_item(item, leaves);
        Py_DECREF(item);
        if (other == NULL || PyList_Append(result, other) < 0)
            Py_CLEAR(result);
        Py_XDECREF(other);
    }
    Py_XDECREF(items);
    return result;
}

static PyObject *rebuild_dict(PyObject *dict, PyObject *leaves) {
    PyObject *result = PyDict_New(), *key, *item;
    Py_ssize_t position = 0;
    while (result != NULL && PyDict_Next(dict, &position, &key, &item)) {
        Py_INCREF(key);
        Py_INCREF(item);
        PyObject *other = rebuild_item(item, leaves);
        if (other == NULL || PyDict_SetItem(result, key, other) < 0)
            Py_CLEAR(result);
        Py_XDECREF(other);
        Py_DECREF(item);
        Py_DECREF(key);
    }
    return result;
}

static PyObject *rebuild_tuple(PyObject *tuple, PyObject *leaves) {
    PyObject *items = rebuild_items(tuple, leaves), *result = NULL;
    if (items != NULL)
        result = PyTuple_CheckExact(tuple) ? PyList_AsTuple(items)
                                         : PyObject_CallFunctionObjArgs(like_tuple, tuple, items, NULL);
    Py_XDECREF(items);
    return result;
}

/* Return the tree with each array, or each LEAF, replaced by the next of `leaves`. */
static PyObject *rebuild_item(PyObject *item, PyObject *leaves) {
    PyObject *result = NULL;
    if (is_leaf(item)) {
        result = PyIter_Next(leaves);
        if (result == NULL && !PyErr_Occurred())
            PyErr_SetNone(PyExc_StopIteration);
        return result;
    }
    int is_dict = PyDict_Check(item), is_list = PyList_Check(item);
    if (!is_dict && !is_list && !PyTuple_Check(item))
        return Py_NewRef(item);
    if (Py_EnterRecursiveCall(" while a tree is rebuilt"))
        return NULL;
    result = is_dict ? rebuild_dict(item, leaves) : is_list ? rebuild_items(item, leaves) : rebuild_tuple(item, leaves);
    Py_LeaveRecursiveCall();
    return result;
}

static PyObject *rebuild(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyIter_Check(args[1]))
        return PyErr_Format(PyExc_TypeError, "rebuild(tree, leaves): leaves are an iterator");
    return rebuild_item(args[0], args[1]);
}

/* The results of `find`: the arrays, (container, key) of each array, and (container, key, tuple, items) of each tuple
   that contains arrays. */
typedef struct {
    PyObject *arrays, *slots, *tuples;
    int require_array;
} Results;

static int find_item(PyObject *container, PyObject *key, PyObject *item, Results *results);

/* Append a new item to a list, and steal the reference to it. */
int append(PyObject *list, PyObject *item) {
    int failed = item == NULL || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return failed ? -1 : 1;
}

/* Search the items of `sequence`, which are also the items of `container`. */
static int find_items(PyObject *container, PyObject *sequence, Results *results) {
    int going = 1;
    for (Py_ssize_t k = 0; going == 1 && k < size_of(sequence); k++) {
        PyObject *key = PyLong_FromSsize_t(k);
        going = key == NULL ? -1 : find_item(container, key, item_of(sequence, k), results);
        Py_XDECREF(key);
    }
    return going;
}

static int find_in_dict(PyObject *dict, Results *results) {
    PyObject *key, *item;
    Py_ssize_t position = 0;
    int going = 1;
    while (going == 1 && PyDict_Next(dict, &position, &key, &item))
        going = find_item(dict, key, item, results);
    return going;
}

static int find_in_list(PyObject *list, Results *results) {
    PyObject *items = walkable(list);
    int going = items == NULL ? -1 : find_items(list, items, results);
    Py_XDECREF(items);
    return going;
}

static int find_in_tuple(PyObject *container, PyObject *key, PyObject *tuple, Results *results) {
    PyObject *content = PySequence_List(tuple);
    Py_ssize_t before = PyList_Size(results->arrays);
    int going = content == NULL ? -1 : find_items(content, tuple, results);
    if (going == 1 && PyList_Size(results->arrays) > before)
        going = append(results->tuples, PyTuple_Pack(4, container, key, tuple, content));
    Py_XDECREF(content);
    return going;
}

/* Return 1 if a list or tuple contains only int and float, as settings of a layer do. */
static int has_numbers_only(PyObject *sequence) {
    if (PyList_Check(sequence) && !PyList_CheckExact(sequence))
        return 0; /* a list of a subclass is always walked */
    for (Py_ssize_t k = 0; k < size_of(sequence); k++) {
        PyObject *item = item_of(sequence, k);
        if (!PyFloat_CheckExact(item) && !PyLong_CheckExact(item))
            return 0;
    }
    return 1;
}

static int find_item(PyObject *container, PyObject *key, PyObject *item, Results *results) {
    if (is_array(item))
        return PyList_Append(results->arrays, item) < 0 ? -1 : append(results->slots, PyTuple_Pack(2, container, key));
    int is_dict = PyDict_Check(item), is_list = PyList_Check(item), is_tuple = PyTuple_Check(item);
    if (!is_dict && !is_list && !is_tuple)
        return !results->require_array;
    if (!is_dict && !results->require_array && has_numbers_only(item))
        return 1;
    if (Py_EnterRecursiveCall(" while arrays are looked for in a tree"))
        return -1;
    Py_INCREF(key); /* the walk may run code that changes the tree, so keep the item alive */
    Py_INCREF(item);
    int going = is_dict   ? find_in_dict(item, results)
                : is_list ? find_in_list(item, results)
                          : find_in_tuple(container, key, item, results);
    Py_DECREF(item);
    Py_DECREF(key);
    Py_LeaveRecursiveCall();
    return going;
}

/* Search the item under one key of the outermost container. If the key is in `wanted`, append its arrays' positions to
   `noted`. */
static int find_under(
    PyObject *container, PyObject *key, PyObject *item, PyObject *wanted, Results *results, PyObject *noted) {
    Py_ssize_t before = PyList_Size(results->arrays);
    int going = results->require_array = PySequence_Contains(wanted, key);
    if (going >= 0)
        going = find_item(container, key, item, results);
    for (Py_ssize_t k = before; going == 1 && results->require_array && k < PyList_Size(results->arrays); k++)
        going = append(noted, PyLong_FromSsize_t(k));
    return going;
}

static PyObject *find(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 5 || !(PyList_Check(args[0]) || PyDict_Check(args[0])) || !PyList_Check(args[2]) ||
        !PyList_Check(args[3]) || !PyList_Check(args[4]))
        return PyErr_Format(PyExc_TypeError, "find(container, wanted, arrays, slots, tuples): lists");
    Results results = {args[2], args[3], args[4], 0};
    PyObject *container = args[0], *wanted = args[1], *noted = PyList_New(0), *key, *item;
    Py_ssize_t position = 0;
    int going = noted == NULL ? -1 : 1;
    if (PyDict_Check(container)) {
        while (going == 1 && PyDict_Next(container, &position, &key, &item)) {
            Py_INCREF(key); /* the comparison with the wanted keys may run any code */
            Py_INCREF(item);
            going = find_under(container, key, item, wanted, &results, noted);
            Py_DECREF(item);
            Py_DECREF(key);
        }
    } else
        for (Py_ssize_t k = 0; going == 1 && k < PyList_Size(container); k++) {
            key = PyLong_FromSsize_t(k);
            item = Py_NewRef(PyList_GetItem(container, k));
            going = key == NULL ? -1 : find_under(container, key, item, wanted, &results, noted);
            Py_XDECREF(key);
            Py_DECREF(item);
        }
    if (going == 1)
        return noted;
    Py_XDECREF(noted);
    return going < 0 ? NULL : none();
}

/* Return 1 if both arguments are lists of the same length. */
static int fits(PyObject *slots, PyObject *leaves) {
    return PyList_Check(slots) && PyList_Check(leaves) && PyList_Size(slots) == PyList_Size(leaves);
}

static PyObject *fill(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !fits(args[0], args[1]))
        return PyErr_Format(PyExc_TypeError, "fill(slots, leaves): two lists of one length");
    for (Py_ssize_t k = 0; k < PyList_Size(args[0]); k++) {
        PyObject *slot = Py_NewRef(PyList_GetItem(args[0], k)), *leaf = Py_NewRef(PyList_GetItem(args[1], k));
        int failed = PyObject_SetItem(PyTuple_GetItem(slot, 0), PyTuple_GetItem(slot, 1), leaf) < 0;
        Py_DECREF(slot);
        Py_DECREF(leaf);
        if (failed)
            return NULL;
    }
    return none();
}

/* Put an array back if its leaf is still there. Items that the function has removed stay removed. */
static int put_back_one(PyObject *container, PyObject *key, PyObject *array, PyObject *leaf) {
    PyObject *there = PyObject_GetItem(container, key);
    if (there == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_LookupError))
            return -1;
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(there);
    return there == leaf ? PyObject_SetItem(container, key, array) : 0;
}

static PyObject *put_back(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 4 || !fits(args[0], args[1]) || !fits(args[0], args[2]) ||
        !(args[3] == Py_None || fits(args[0], args[3])))
        return PyErr_Format(PyExc_TypeError, "put_back(slots, arrays, leaves, nodes): lists of one length");
    int any_written = 0;
    for (Py_ssize_t k = 0; k < PyList_Size(args[0]); k++) {
        if (args[3] != Py_None) {
            PyObject *node = node_of(args[2], k);
            if (node == NULL)
                return NULL;
            if (node != PyList_GetItem(args[3], k)) {
                any_written = 1;
                continue;
            }
        }
        PyObject *slot = PyList_GetItem(args[0], k);
        if (put_back_one(PyTuple_GetItem(slot, 0), PyTuple_GetItem(slot, 1), PyList_GetItem(args[1], k),
                         PyList_GetItem(args[2], k)) < 0)
            return NULL;
    }
    return PyBool_FromLong(any_written);
}

/* connect_trees(array, place, function): set the classes of arrays and of LEAF, and the function that makes a tuple of
   another tuple's class. */
static PyObject *connect_trees(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *array, *place, *function;
    if (!PyArg_ParseTuple(args, "OOO", &array, &place, &function))
        return NULL;
    set(&array_type, array);
    set(&leaf_type, place);
    set(&like_tuple, function);
    return none();
}

static PyMethodDef functions[] = {
    FAST("flatten", flatten),
    FAST("rebuild", rebuild),
    FAST("find", find),
    FAST("fill", fill),
    FAST("put_back", put_back),
    {"connect_trees", connect_trees, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

int add_trees(PyObject *module) { return PyModule_AddFunctions(module, functions); }
