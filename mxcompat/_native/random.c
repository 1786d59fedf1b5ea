/* Random words: threefry 2x32 with 20 rounds, see `_ops/random/threefry.py`. */
#include "in_c.h"
#include <stdint.h>

#ifdef __GNUC__ /* the compiler maps this type to the processor's vectors */
typedef uint32_t Lanes __attribute__((vector_size(32)));
#else
typedef uint32_t Lanes;
#endif
enum { LANES = sizeof(Lanes) / sizeof(uint32_t), GROUPS = 5, TURNS = 4 };

static const uint32_t PARITY = 0x1BD11BDA;
static const int ROTATIONS[2][TURNS] = {{13, 15, 26, 6}, {17, 29, 16, 24}};

/* Write the words of one key. Pair k of counters is k and the number of pairs + k. The first words of all pairs come
   first, then the second ones. If the number of words is odd, the last counter is 0. */
static void fill(uint32_t *words, Py_ssize_t pairs, int odd, const uint32_t *key) {
    const uint32_t keys[3] = {key[0], key[1], key[0] ^ key[1] ^ PARITY};
    for (Py_ssize_t start = 0; start < pairs; start += LANES) {
        uint32_t low[LANES], high[LANES];
        for (int k = 0; k < LANES; k++) {
            low[k] = (uint32_t)(start + k);
            high[k] = odd && start + k == pairs - 1 ? 0 : (uint32_t)(pairs + start + k);
        }
        Lanes x, y;
        memcpy(&x, low, sizeof(Lanes));
        memcpy(&y, high, sizeof(Lanes));
        x += keys[0];
        y += keys[1];
        for (int group = 0; group < GROUPS; group++) {
            for (int turn = 0; turn < TURNS; turn++) {
                int places = ROTATIONS[group & 1][turn];
                x += y;
                y = x ^ (y << places | y >> (32 - places));
            }
            x += keys[(group + 1) % 3];
            y += keys[(group + 2) % 3] + (uint32_t)(group + 1);
        }
        size_t count = (size_t)(pairs - start < LANES ? pairs - start : LANES) * sizeof(uint32_t);
        memcpy(words + start, &x, count);
        memcpy(words + pairs + start, &y, count);
    }
}

/* random_words(words, keys, odd): fill each row of `words` (2 * pairs words) with the random words of a row of `keys`
   (2 words). Both have 32 bits, and are C-contiguous. */
static PyObject *random_words(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count) {
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "random_words(words, keys, odd)");
    int odd = PyObject_IsTrue(args[2]);
    Py_buffer words, keys;
    if (odd < 0 || PyObject_GetBuffer(args[0], &words, PyBUF_CONTIG) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[1], &keys, PyBUF_CONTIG_RO) < 0) {
        PyBuffer_Release(&words);
        return NULL;
    }
    int fits = words.ndim == 2 && keys.ndim == 2 && words.itemsize == 4 && keys.itemsize == 4 &&
               words.shape[0] == keys.shape[0] && words.shape[1] % 2 == 0 && keys.shape[1] == 2;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t row = 0; row < words.shape[0]; row++) {
            uint32_t key[2];
            memcpy(key, (const char *)keys.buf + row * (Py_ssize_t)sizeof(key), sizeof(key));
            fill((uint32_t *)words.buf + row * words.shape[1], words.shape[1] / 2, odd, key);
        }
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&words);
    PyBuffer_Release(&keys);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "random_words: the arrays do not fit each other");
    return none();
}

static PyMethodDef functions[] = {FAST("random_words", random_words), {NULL}};

int add_random(PyObject *module) { return PyModule_AddFunctions(module, functions); }
