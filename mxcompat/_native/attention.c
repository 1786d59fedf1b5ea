/* Attention: for each query, the mean of the values, weighted by the exponentials of its scores with the keys.

   A thread takes a block of the queries of a group of heads, and goes through the keys in chunks: it computes the scores
   of the block with a chunk, their exponentials, and adds the weighted values. No more scores than these are in memory.
   For few queries, such as those of one token, each chunk is a part of its own, so that several threads can share them,
   and the sums of the parts are added at the end. The result depends neither on the number of threads, nor on the keys
   after `length`. */
#include "kernels.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 128,    /* number of keys in a chunk; a multiple of all numbers of lanes */
    BLOCK = 64,     /* number of queries in a block */
    FEW = 16,       /* maximum number of queries for which keys are read as they are stored, and not transposed */
    CONVERTED = 32, /* number of keys or values that are converted to floats at a time */
    WORK = 1 << 16  /* minimum number of multiplications that a thread takes at a time */
};

typedef struct {
    const Attention *of;
    const Kernels *kernels;
    size_t blocks, chunks; /* numbers for each group */
    size_t parts;          /* number of parts into which the chunks are divided: 1 or `chunks` */
    size_t width, depth;   /* those of `of`, rounded up to whole vectors */
    size_t sum, scratch;   /* number of floats of the sums of a part, and of a thread's memory */
    float *keys;           /* the transposed chunks of keys, or NULL for few queries */
    float *sums, *memory;
} Task;

/* The sums of a part: for each query, the weighted sum of values, the largest score, and the sum of weights. */
typedef struct {
    float *values, *tops, *totals;
} Sum;

static Sum sum_of(const Task *task, size_t index) {
    float *values = task->sums + index * task->sum;
    float *tops = values + smaller(task->of->rows, BLOCK) * task->depth;
    return (Sum){values, tops, tops + smaller(task->of->rows, BLOCK)};
}

static size_t padded(size_t count) { return (count + 15) / 16 * 16; }

/* Copy rows to floats, `to_apart` apart, and fill them up with zeros. */
static void copy_rows(int kind, const void *from, size_t rows, size_t length, float *to, size_t to_apart) {
    size_t size = item_size(kind);
    if (to_apart == length) {
        to_floats(kind, from, to, rows * length);
        return;
    }
    for (size_t r = 0; r < rows; r++) {
        to_floats(kind, (const uint8_t *)from + r * length * size, to + r * to_apart, length);
        memset(to + r * to_apart + length, 0, (to_apart - length) * sizeof(float));
    }
}

/* Return rows as floats that are `padded` apart: in place if they are stored so, and else copied to `to`. */
static const float *rows_of(int kind, const void *all, size_t first, size_t rows, size_t length, size_t padded,
                            float *to) {
    const uint8_t *from = (const uint8_t *)all + first * length * item_size(kind);
    if (kind == FLOAT32 && length == padded)
        return (const float *)from;
    copy_rows(kind, from, rows, length, to, padded);
    return to;
}

static const void *group_of(const void *all, int kind, size_t batch, size_t batch_apart, size_t group,
                            size_t group_apart) {
    return (const uint8_t *)all + (batch * batch_apart + group * group_apart) * item_size(kind);
}

static const void *keys_of(const Attention *a, size_t pair) {
    return group_of(a->k, a->kind, pair / a->groups, a->k_batch, pair % a->groups, a->k_group);
}

static const void *values_of(const Attention *a, size_t pair) {
    return group_of(a->v, a->kind, pair / a->groups, a->v_batch, pair % a->groups, a->v_group);
}

/* Transpose some chunks of keys. A chunk with fewer keys is filled up with zeros. */
static void transpose_keys(void *context, size_t start, size_t stop, size_t participant) {
    const Task *task = context;
    const Attention *a = task->of;
    float *copies = task->memory + participant * task->scratch;
    for (size_t index = start; index < stop; index++) {
        size_t first = index % task->chunks * CHUNK, count = smaller(CHUNK, a->length - first);
        float *to = task->keys + index * a->width * CHUNK;
        for (size_t k = 0; k < CHUNK; k += CONVERTED) {
            size_t rows = k < count ? smaller(CONVERTED, count - k) : 0;
            const float *from = copies;
            if (rows > 0)
                from = rows_of(a->kind, keys_of(a, index / task->chunks), first + k, rows, a->width, a->width, copies);
            for (size_t c = 0; c < a->width; c++) {
                for (size_t r = 0; r < rows; r++)
                    to[c * CHUNK + k + r] = from[r * a->width + c];
                memset(to + c * CHUNK + k + rows, 0, (CONVERTED - rows) * sizeof(float));
            }
        }
    }
}

/* Add the products of `rows` queries with `count` keys, from `start` on, to the scores. The keys are not transposed. */
static void add_scores(const Task *task, const float *q, size_t rows, const void *keys, size_t start, size_t count,
                       float *copies, float *scores) {
    const Attention *a = task->of;
    for (size_t first = 0; first < count; first += CONVERTED) {
        size_t some = smaller(CONVERTED, count - first), whole = some / AT_ONCE * AT_ONCE;
        const float *y = rows_of(a->kind, keys, start + first, some, a->width, task->width, copies);
        for (size_t r = 0; r < whole; r += AT_ONCE)
            task->kernels->dots(q, task->width, rows, y + r * task->width, task->width, task->width,
                                scores + first + r, CHUNK);
        if (whole < some) { /* the kernel reads AT_ONCE rows */
            size_t rest = (some - whole) * task->width;
            float *last = copies + CONVERTED * task->width;
            memcpy(last, y + whole * task->width, rest * sizeof(float));
            memset(last + rest, 0, (AT_ONCE * task->width - rest) * sizeof(float));
            task->kernels->dots(q, task->width, rows, last, task->width, task->width, scores + first + whole, CHUNK);
        }
    }
}

/* Return the number of keys that a query sees if attention is causal: none if it is negative. */
static ptrdiff_t seen_by(const Attention *a, size_t row) {
    return (ptrdiff_t)a->length - (ptrdiff_t)a->queries + (ptrdiff_t)(row % a->queries) + 1;
}

/* Add the mask to the scores of one query with `count` keys, from `start` on. The score of a key that is not seen is
   finite, so that a query that sees no key gets the mean of all values. */
static void mask_scores(const Attention *a, size_t pair, size_t row, size_t start, size_t count, float *scores) {
    if (a->causal) {
        ptrdiff_t seen = seen_by(a, row) - (ptrdiff_t)start;
        for (size_t k = seen > 0 ? (size_t)seen : 0; k < count; k++)
            scores[k] = -FLT_MAX;
    }
    size_t head = pair % a->groups * (a->rows / a->queries) + row / a->queries, apart = a->mask_apart[3];
    size_t place = pair / a->groups * a->mask_apart[0] + head * a->mask_apart[1] +
                   row % a->queries * a->mask_apart[2] + start * apart;
    if (a->seen != NULL)
        for (size_t k = 0; k < count; k++)
            scores[k] = a->seen[place + k * apart] ? scores[k] : -FLT_MAX;
    if (a->terms != NULL)
        for (size_t k = 0; k < count; k++)
            scores[k] += a->terms[place + k * apart];
}

/* Add the sums of a query for one more chunk: `top` is its largest score, `total` the sum of `weights`. The weights are
   relative to `top`, and the sums relative to the largest score so far. */
static void add_chunk(const Task *task, Sum sum, size_t row, float top, float total, float *weights) {
    if (top == -INFINITY) { /* all weights are 0, or some are NaN */
        sum.totals[row] += total;
        return;
    }
    float change = expf(-fabsf(top - sum.tops[row]));
    if (top > sum.tops[row]) {
        for (size_t k = 0; k < task->depth; k++)
            sum.values[row * task->depth + k] *= change;
        sum.totals[row] = sum.totals[row] * change + total;
        sum.tops[row] = top;
    } else {
        for (size_t k = 0; k < CHUNK; k++)
            weights[k] *= change;
        sum.totals[row] += total * change;
    }
}

/* Return the number of chunks that some of `rows` queries see. If one of them sees no key, it needs all values. */
static size_t seen_chunks(const Task *task, size_t first_row, size_t rows) {
    const Attention *a = task->of;
    if (!a->causal || a->length < a->queries)
        return task->chunks;
    size_t last = first_row / a->queries == (first_row + rows - 1) / a->queries ? first_row + rows - 1 : a->queries - 1;
    return smaller(task->chunks, ((size_t)seen_by(a, last) + CHUNK - 1) / CHUNK);
}

/* Compute the sums of some parts. */
static void sum_parts(void *context, size_t start, size_t stop, size_t participant) {
    const Task *task = context;
    const Attention *a = task->of;
    size_t size = item_size(a->kind), most = smaller(a->rows, BLOCK);
    float *q = task->memory + participant * task->scratch, *scores = q + most * task->width;
    float *copies = scores + most * CHUNK;
    for (size_t index = start; index < stop; index++) {
        size_t pair = index / (task->blocks * task->parts), part = index % task->parts;
        size_t first_row = index / task->parts % task->blocks * BLOCK, rows = smaller(BLOCK, a->rows - first_row);
        size_t chunk = task->parts == 1 ? 0 : part, end = task->parts == 1 ? seen_chunks(task, first_row, rows) : part + 1;
        Sum sum = sum_of(task, index);
        copy_rows(a->kind, (const uint8_t *)a->q + (pair * a->rows + first_row) * a->width * size, rows, a->width, q,
                  task->width);
        for (size_t k = 0; k < rows * task->width; k++)
            q[k] *= a->scale;
        memset(sum.values, 0, rows * task->depth * sizeof(float));
        for (size_t r = 0; r < rows; r++) {
            sum.tops[r] = -INFINITY;
            sum.totals[r] = 0;
        }
        for (; chunk < end; chunk++) {
            size_t first = chunk * CHUNK, count = smaller(CHUNK, a->length - first), filled = padded(count);
            memset(scores, 0, rows * CHUNK * sizeof(float));
            if (task->keys == NULL)
                add_scores(task, q, rows, keys_of(a, pair), first, count, copies, scores);
            else
                task->kernels->sums(q, task->width, rows, task->keys + (pair * task->chunks + chunk) * a->width * CHUNK,
                                    CHUNK, a->width, filled, scores, CHUNK);
            for (size_t r = 0; r < rows; r++) {
                float *row = scores + r * CHUNK, top;
                mask_scores(a, pair, first_row + r, first, count, row);
                for (size_t k = count; k < filled; k++)
                    row[k] = -INFINITY;
                float total = task->kernels->exponentials(row, filled, &top);
                add_chunk(task, sum, r, top, total, row);
            }
            for (size_t k = 0; k < count; k += CONVERTED) {
                size_t some = smaller(CONVERTED, count - k);
                const float *y = rows_of(a->kind, values_of(a, pair), first + k, some, a->depth, task->depth, copies);
                task->kernels->sums(scores + k, CHUNK, rows, y, task->depth, some, task->depth, sum.values, task->depth);
            }
        }
    }
}

/* Add the sums of all parts for the queries of some blocks, and divide by the sum of the weights. */
static void add_parts(void *context, size_t start, size_t stop, size_t participant) {
    const Task *task = context;
    const Attention *a = task->of;
    float *out = task->memory + participant * task->scratch;
    for (size_t block = start; block < stop; block++) {
        size_t pair = block / task->blocks, first_row = block % task->blocks * BLOCK;
        for (size_t r = 0; r < smaller(BLOCK, a->rows - first_row); r++) {
            size_t row = first_row + r, head = pair % a->groups * (a->rows / a->queries) + row / a->queries;
            float top = a->sinks == NULL ? -INFINITY : a->sinks[head];
            for (size_t p = 0; p < task->parts; p++)
                top = fmaxf(top, sum_of(task, block * task->parts + p).tops[r]);
            float total = a->sinks == NULL ? 0 : expf(a->sinks[head] - top);
            memset(out, 0, task->depth * sizeof(float));
            for (size_t p = 0; p < task->parts; p++) {
                Sum sum = sum_of(task, block * task->parts + p);
                float factor = expf(sum.tops[r] - top);
                total += factor * sum.totals[r];
                for (size_t k = 0; k < task->depth; k++)
                    out[k] += factor * sum.values[r * task->depth + k];
            }
            for (size_t k = 0; k < task->depth; k++)
                out[k] /= total;
            size_t place = (pair * a->rows + row) * a->depth;
            from_floats(a->kind, out, (uint8_t *)a->y + place * item_size(a->kind), a->depth);
        }
    }
}

int attend(const Attention *attention) {
    const Attention *a = attention;
    size_t pairs = a->batch * a->groups, rows = smaller(a->rows, BLOCK);
    if (pairs == 0 || rows == 0 || a->depth == 0)
        return 0;
    Task task = {.of = a, .kernels = kernels(), .blocks = (a->rows + BLOCK - 1) / BLOCK};
    int few = a->rows <= FEW;
    task.chunks = (a->length + CHUNK - 1) / CHUNK;
    task.parts = few ? task.chunks : 1;
    task.width = padded(a->width);
    task.depth = padded(a->depth);
    size_t wider = task.width > task.depth ? task.width : task.depth, blocks = pairs * task.blocks;
    size_t work = rows * (task.width + task.depth) * smaller(a->length, few ? CHUNK : a->length);
    task.sum = rows * (task.depth + 2);
    task.scratch = padded(rows * (task.width + CHUNK) + (CONVERTED + AT_ONCE) * wider);
    size_t keys = few ? 0 : pairs * task.chunks * CHUNK * a->width;
    float *memory = malloc((keys + blocks * task.parts * task.sum + participants() * task.scratch) * sizeof(float));
    if (memory == NULL)
        return -1;
    task.keys = few ? NULL : memory;
    task.memory = memory + keys;
    task.sums = task.memory + participants() * task.scratch;
    if (!few)
        parallel_for(pairs * task.chunks, 1 + WORK / (CHUNK * a->width + 1), transpose_keys, &task);
    parallel_for(blocks * task.parts, 1 + WORK / (work + 1), sum_parts, &task);
    parallel_for(blocks, 1 + WORK / (rows * task.depth * task.parts + 1), add_parts, &task);
    free(memory);
    return 0;
}
