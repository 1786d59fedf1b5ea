/* Chains of elementwise operations on floats, see `_graph/run/chains.py`. Each block of the arrays passes through all
   operations while it is in a cache. */
#include "in_c.h"
#include "kernels.h"
#include <stdlib.h>

enum { BLOCK = 512, BLOCKS_AT_ONCE = 32, TEMPORARIES = 16, MOST_ARRAYS = 32 };

typedef struct {
    int32_t operation, x, y, out; /* the last three are numbers of registers */
} Instruction;

/* The registers are the inputs and `TEMPORARIES`. An input of one element has a block of copies in `constants`. */
typedef struct {
    const Instruction *instructions;
    const int32_t *sources; /* the register of each output */
    size_t count, input_count, output_count, length;
    const float *inputs[MOST_ARRAYS], *constants[MOST_ARRAYS];
    float *outputs[MOST_ARRAYS];
} Chain;

static void compute_blocks(void *context, size_t first, size_t last, size_t participant) {
    const Chain *c = context;
    float temporaries[TEMPORARIES][BLOCK];
    const float *registers[MOST_ARRAYS + TEMPORARIES];
    Elementwise compute = kernels()->elementwise;
    (void)participant;
    for (size_t k = 0; k < TEMPORARIES; k++)
        registers[c->input_count + k] = temporaries[k];
    for (; first < last; first++) {
        size_t start = first * BLOCK, count = smaller(BLOCK, c->length - start);
        for (size_t k = 0; k < c->input_count; k++)
            registers[k] = c->constants[k] != NULL ? c->constants[k] : c->inputs[k] + start;
        for (const Instruction *i = c->instructions; i < c->instructions + c->count; i++)
            compute(i->operation, registers[i->x], registers[i->y], temporaries[i->out - (int32_t)c->input_count], count);
        for (size_t k = 0; k < c->output_count; k++)
            memcpy(c->outputs[k] + start, registers[c->sources[k]], count * sizeof(float));
    }
}

/* Read the numbers of `run_chain`. Return 0 if they are not valid. */
static int read_chain(Chain *c, const char *code, size_t bytes) {
    const int32_t *numbers = (const int32_t *)(const void *)code;
    if (bytes < 3 * sizeof *numbers)
        return 0;
    size_t inputs = (size_t)numbers[0], outputs = (size_t)numbers[1], count = (size_t)numbers[2];
    if (inputs > MOST_ARRAYS || outputs == 0 || outputs > MOST_ARRAYS || count > bytes ||
        bytes != (3 + 4 * count + outputs) * sizeof *numbers)
        return 0;
    *c = (Chain){.instructions = (const Instruction *)(numbers + 3), .sources = numbers + 3 + 4 * count, .count = count,
                 .input_count = inputs, .output_count = outputs};
    int32_t first = (int32_t)inputs, most = first + TEMPORARIES;
    for (const Instruction *i = c->instructions; i < c->instructions + count; i++)
        if (i->operation < 0 || i->operation >= OPERATIONS || i->x < 0 || i->x >= most || i->y < 0 || i->y >= most ||
            i->out < first || i->out >= most || i->out == i->x || i->out == i->y)
            return 0;
    for (size_t k = 0; k < outputs; k++)
        if (c->sources[k] < first || c->sources[k] >= most)
            return 0;
    return 1;
}

/* Set the arrays of a chain. `constants` has room for a block for each input. Return 0 if they do not fit. */
static int set_arrays(Chain *c, const Py_buffer *views, float *constants) {
    size_t bytes = (size_t)views[c->input_count].len;
    c->length = bytes / sizeof(float);
    for (size_t k = 0; k < c->input_count; k++) {
        c->inputs[k] = views[k].buf;
        if ((size_t)views[k].len == sizeof(float)) {
            for (size_t n = 0; n < BLOCK; n++)
                constants[k * BLOCK + n] = *c->inputs[k];
            c->constants[k] = constants + k * BLOCK;
        } else if ((size_t)views[k].len != bytes) {
            return 0;
        }
    }
    for (size_t k = 0; k < c->output_count; k++) {
        if ((size_t)views[c->input_count + k].len != bytes)
            return 0;
        c->outputs[k] = views[c->input_count + k].buf;
    }
    return bytes % sizeof(float) == 0;
}

/* run_chain(code, *inputs, *outputs): fill the outputs with results of elementwise operations on float32 arrays of one
   memory order. An input may have one element, and an output may be an input. The code is an array of int32: the numbers
   of inputs, outputs and instructions; the operation of each instruction, and the registers of its operands and
   result; and the register of each output. */
static PyObject *run_chain(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    char *code;
    Py_ssize_t bytes;
    Chain chain;
    Py_buffer views[2 * MOST_ARRAYS];
    size_t seen = 0;
    if (count < 1)
        return PyErr_Format(PyExc_TypeError, "run_chain takes code and arrays");
    if (PyBytes_AsStringAndSize(args[0], &code, &bytes) < 0)
        return NULL;
    if (!read_chain(&chain, code, (size_t)bytes) || (size_t)count != 1 + chain.input_count + chain.output_count)
        return PyErr_Format(PyExc_ValueError, "run_chain: the code is not valid, or not that of these arrays");
    for (; seen < (size_t)count - 1; seen++)
        if (PyObject_GetBuffer(args[1 + seen], &views[seen],
                               seen < chain.input_count ? PyBUF_ANY_CONTIGUOUS : PyBUF_ANY_CONTIGUOUS | PyBUF_WRITABLE) < 0)
            break;
    int fits = 0;
    float *constants = NULL;
    if (seen == (size_t)count - 1) {
        constants = malloc((chain.input_count + 1) * BLOCK * sizeof(float));
        fits = constants != NULL && set_arrays(&chain, views, constants);
        if (constants == NULL)
            PyErr_NoMemory();
        else if (!fits)
            PyErr_Format(PyExc_ValueError, "run_chain: the arrays do not fit each other");
        if (fits)
            COMPUTE(parallel_for((chain.length + BLOCK - 1) / BLOCK, BLOCKS_AT_ONCE, compute_blocks, &chain));
    }
    free(constants);
    while (seen > 0)
        PyBuffer_Release(&views[--seen]);
    return fits ? none() : NULL;
}

static PyMethodDef functions[] = {
    FAST("run_chain", run_chain),
    {NULL, NULL, 0, NULL},
};

int add_elementwise(PyObject *module) { return PyModule_AddFunctions(module, functions); }
