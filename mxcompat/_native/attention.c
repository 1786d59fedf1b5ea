/* Attention of few queries, such as those of one token. Each key and value is read once, as it is stored.

   The keys are cut into chunks. A thread computes the scores of all queries of a group of heads with the keys of a
   chunk, and the sum of the chunk's values, weighted by the exponentials of the scores. At the end, the sums of all
   chunks are added. The result depends neither on the number of threads, nor on the keys after `length`. */
#include "kernels.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK = 128,   /* number of keys in a chunk; a multiple of all numbers of lanes */
    CONVERTED = 32, /* number of keys or values that are converted to floats at a time */
    WORK = 1 << 16 /* minimum number of multiplications that a thread takes at a time */
};

typedef struct {
    const Attention *of;
    const Kernels *kernels;
    size_t chunks;        /* number of chunks of each group */
    size_t width, depth;  /* those of `of`, rounded up to whole vectors */
    size_t part, scratch; /* number of floats of the sums of a chunk, and of a thread's memory */
    float *parts, *memory;
} Task;

/* The sums of one chunk: for each query, the weighted sum of values, the largest score, and the sum of weights. */
typedef struct {
    float *values, *tops, *totals;
} Sum;

static Sum sum_of(const Task *task, size_t index) {
    float *values = task->parts + index * task->part;
    float *tops = values + task->of->rows * task->depth;
    return (Sum){values, tops, tops + task->of->rows};
}

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

/* Add the products of all queries with `count` keys, from `start` on, to the scores. */
static void add_scores(const Task *task, const float *q, const void *keys, size_t start, size_t count, float *copies,
                       float *scores) {
    const Attention *a = task->of;
    for (size_t first = 0; first < count; first += CONVERTED) {
        size_t rows = smaller(CONVERTED, count - first), whole = rows / AT_ONCE * AT_ONCE;
        const float *some = rows_of(a->kind, keys, start + first, rows, a->width, task->width, copies);
        for (size_t r = 0; r < whole; r += AT_ONCE)
            task->kernels->dots(q, task->width, a->rows, some + r * task->width, task->width, task->width,
                                scores + first + r, CHUNK);
        if (whole < rows) { /* the kernel reads AT_ONCE rows */
            size_t rest = (rows - whole) * task->width;
            float *last = copies + CONVERTED * task->width;
            memcpy(last, some + whole * task->width, rest * sizeof(float));
            memset(last + rest, 0, (AT_ONCE * task->width - rest) * sizeof(float));
            task->kernels->dots(q, task->width, a->rows, last, task->width, task->width, scores + first + whole, CHUNK);
        }
    }
}

/* Add the mask to the scores of one query with `count` keys, from `start` on. The score of a key that is not seen is
   finite, so that a query that sees no key gets the mean of all values. */
static void mask_scores(const Attention *a, size_t pair, size_t row, size_t start, size_t count, float *scores) {
    if (a->causal) {
        size_t seen = a->length + row % a->queries + 1;
        for (size_t k = 0; k < count; k++)
            if (start + k + a->queries >= seen)
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

/* Compute the sums of some chunks. */
static void sum_chunks(void *context, size_t start, size_t stop, size_t participant) {
    const Task *task = context;
    const Attention *a = task->of;
    size_t size = item_size(a->kind);
    float *q = task->memory + participant * task->scratch, *scores = q + a->rows * task->width;
    float *copies = scores + a->rows * CHUNK;
    for (size_t index = start; index < stop; index++) {
        size_t pair = index / task->chunks, batch = pair / a->groups, group = pair % a->groups;
        size_t first = index % task->chunks * CHUNK, count = smaller(CHUNK, a->length - first);
        size_t filled = padded(count);
        const uint8_t *keys = (const uint8_t *)a->k + (batch * a->k_batch + group * a->k_group) * size;
        const uint8_t *values = (const uint8_t *)a->v + (batch * a->v_batch + group * a->v_group) * size;
        Sum sum = sum_of(task, index);
        copy_rows(a->kind, (const uint8_t *)a->q + pair * a->rows * a->width * size, a->rows, a->width, q, task->width);
        for (size_t k = 0; k < a->rows * task->width; k++)
            q[k] *= a->scale;
        memset(scores, 0, a->rows * CHUNK * sizeof(float));
        add_scores(task, q, keys, first, count, copies, scores);
        for (size_t r = 0; r < a->rows; r++) {
            float *row = scores + r * CHUNK;
            mask_scores(a, pair, r, first, count, row);
            for (size_t k = count; k < filled; k++)
                row[k] = -INFINITY;
            sum.totals[r] = task->kernels->exponentials(row, filled, &sum.tops[r]);
        }
        memset(sum.values, 0, a->rows * task->depth * sizeof(float));
        for (size_t k = 0; k < count; k += CONVERTED) {
            size_t rows = smaller(CONVERTED, count - k);
            const float *some = rows_of(a->kind, values, first + k, rows, a->depth, task->depth, copies);
            task->kernels->sums(scores + k, CHUNK, a->rows, some, task->depth, rows, task->depth, sum.values,
                                task->depth);
        }
    }
}

/* Add the sums of all chunks for the queries of some groups, and divide by the sum of the weights. */
static void add_chunks(void *context, size_t start, size_t stop, size_t participant) {
    const Task *task = context;
    const Attention *a = task->of;
    float *out = task->memory + participant * task->scratch;
    for (size_t pair = start; pair < stop; pair++)
        for (size_t r = 0; r < a->rows; r++) {
            size_t head = pair % a->groups * (a->rows / a->queries) + r / a->queries;
            float top = a->sinks == NULL ? -INFINITY : a->sinks[head];
            for (size_t c = 0; c < task->chunks; c++)
                top = fmaxf(top, sum_of(task, pair * task->chunks + c).tops[r]);
            float total = a->sinks == NULL ? 0 : expf(a->sinks[head] - top);
            memset(out, 0, task->depth * sizeof(float));
            for (size_t c = 0; c < task->chunks; c++) {
                Sum sum = sum_of(task, pair * task->chunks + c);
                float factor = expf(sum.tops[r] - top);
                total += factor * sum.totals[r];
                for (size_t k = 0; k < task->depth; k++)
                    out[k] += factor * sum.values[r * task->depth + k];
            }
            for (size_t k = 0; k < task->depth; k++)
                out[k] /= total;
            size_t place = (pair * a->rows + r) * a->depth;
            from_floats(a->kind, out, (uint8_t *)a->y + place * item_size(a->kind), a->depth);
        }
}

int attend(const Attention *attention) {
    const Attention *a = attention;
    Task task = {.of = a, .kernels = kernels(), .chunks = (a->length + CHUNK - 1) / CHUNK};
    task.width = padded(a->width);
    task.depth = padded(a->depth);
    size_t wider = task.width > task.depth ? task.width : task.depth;
    size_t pairs = a->batch * a->groups, work = a->rows * (task.width + task.depth);
    task.part = a->rows * (task.depth + 2);
    task.scratch = padded(a->rows * (task.width + CHUNK) + (CONVERTED + AT_ONCE) * wider);
    if (pairs == 0 || a->rows == 0 || a->depth == 0)
        return 0;
    size_t scratches = participants() * task.scratch;
    float *memory = malloc((scratches + pairs * task.chunks * task.part) * sizeof(float));
    if (memory == NULL)
        return -1;
    task.memory = memory;
    task.parts = memory + scratches;
    parallel_for(pairs * task.chunks, 1 + WORK / (work * smaller(CHUNK, a->length) + 1), sum_chunks, &task);
    parallel_for(pairs, 1 + WORK / (work * task.chunks + 1), add_chunks, &task);
    free(memory);
    return 0;
}
