/* Products with matrices that are stored in less than float32, see `_ops/products/stored.py`.

   No matrix is unpacked as a whole. For one or two rows of x, elements are unpacked as the matrix is read. For more
   rows, a tile of the matrix that fits into the processor's cache is unpacked, and multiplied by all rows. Sums are in
   float32, and are rounded once. */
#include "kernels.h"
#include <stdlib.h>
#include <string.h>

enum {
    FEW_ROWS = 2,      /* maximum number of rows of x that each read the whole matrix */
    /* maximum number of rows of x for each matrix with which codes are multiplied without AMX (4864x4096, 4 bits, ms of
       processor time without AMX and with it: 3 rows 4.4, 5.8; 8 5.7, 5.9; 32 15.8, 6.9; 128 54, 19; 512 283, 85) */
    UNTILED_ROWS = 8,
    MOST_ROWS = 128,   /* maximum number of rows of x that share an unpacked tile */
    WAVE_ROWS = 256,   /* maximum number of rows of x that are converted to floats at a time */
    PANEL_ROWS = 32,   /* number of rows of a transposed matrix that one thread multiplies at a time */
    TILE_LENGTH = 1024, /* number of elements of these rows that are unpacked at a time */
    PANEL_COLUMNS = 512, /* number of columns that one thread takes at a time, for a matrix that is not transposed */
    TILE_ROWS = 32, /* number of rows of these columns that are unpacked at a time */
    WORK = 1 << 18, /* minimum work that a thread takes at a time, in elements and products */
    NEXT_ROWS = 4, /* number of rows in a tile between the unpacked row and the prefetched one */
    /* maximum number of bytes that a kernel reads beyond a row, and of elements that it takes at a time */
    OVER = 16
};

/* Rows of x that are multiplied by one matrix. */
typedef struct {
    size_t matrix, first, rows; /* `first` is an index into the lines of the current wave */
} Block;

/* The state of a call of `multiply`, shared by its threads. */
typedef struct {
    const Product *of;
    const Kernels *kernels;
    int tiled, special; /* 1 to use `multiply_tiles`; 1 if packed rows of x contain infinity or NaN */
    size_t columns, row_bytes, matrix_rows, groups; /* the sizes of a stored matrix */
    size_t most_rows; /* maximum number of rows of a block */
    size_t x_apart, panels, tile, sums, scratch; /* the last three are sizes of a thread's memory, in floats */
    const uint8_t *end;  /* the end of all matrices */
    size_t *lines;       /* for each row of the current wave, its number in x; after these, its number in y */
    float *x, *memory;   /* the rows of x, converted to floats or packed for tiles; and the memory of all threads */
    const Block *blocks;
    size_t count;        /* number of blocks */
} Task;

/* The memory of a thread: scales and biases of some rows, copies of these rows, a tile, and sums. If
   `multiply_tiles` gets codes, the tile has the `high` and `rest` of its rows in bfloat16, and one row of floats. */
typedef struct {
    float *scales, *biases, *tile, *sums;
    uint8_t *copies;
} Memory;

static size_t copy_bytes(const Task *task) { return padded(task->row_bytes + OVER); }

static Memory memory_of(const Task *task, size_t participant) {
    float *scales = task->memory + participant * task->scratch, *biases = scales + padded(AT_ONCE * task->groups);
    float *sums = biases + padded(AT_ONCE * task->groups), *tile = sums + task->sums;
    return (Memory){scales, biases, tile, sums, (uint8_t *)(tile + task->tile)};
}

/* Compute the sizes of each thread's memory. */
static void plan_memory(Task *task, size_t lines) {
    int transposed = task->of->transposed;
    task->sums = smaller(lines, task->most_rows) * (transposed ? PANEL_ROWS : PANEL_COLUMNS);
    task->tile = !transposed ? TILE_ROWS * PANEL_COLUMNS : lines > FEW_ROWS ? (PANEL_ROWS + 1) * TILE_LENGTH : 0;
    task->scratch = 2 * padded(AT_ONCE * task->groups) + task->sums + task->tile +
                    AT_ONCE * copy_bytes(task) / sizeof(float);
}

/* Return `count` scales or biases from `start` on as floats, multiplied by `unit` if there is one. They are in place if
   nothing has to be converted, and else in `to`. */
static const float *floats_of(int kind, const void *from, size_t start, size_t count, float *to, const float *unit) {
    from = (const uint8_t *)from + start * item_size(kind);
    if (kind == FLOAT32 && unit == NULL)
        return from;
    to_floats(kind, from, to, count);
    if (unit != NULL)
        for (size_t k = 0; k < count; k++)
            to[k] *= *unit;
    return to;
}

/* Find the scales and biases of `count` rows, from `start` on. Those of whole rows are contiguous. */
static void find_scales(const Task *task, const Memory *memory, size_t matrix, size_t row, size_t start, size_t length,
                        size_t count, Row *rows) {
    const Product *p = task->of;
    const float *unit = p->units == NULL ? NULL : p->units + matrix;
    size_t together = length == task->columns ? count : 1, size = together * length / p->group;
    for (size_t r = 0; r < count; r++) {
        size_t first = (matrix * task->matrix_rows + row + r) * task->groups + start / p->group, place = r * task->groups;
        if (r % together > 0) {
            rows[r] = (Row){NULL, rows[r - 1].scales + task->groups, NULL};
            if (p->kind < E2M1)
                rows[r].biases = rows[r - 1].biases + task->groups;
            continue;
        }
        rows[r] = (Row){NULL, floats_of(p->scale_kind, p->scales, first, size, memory->scales + place, unit), NULL};
        if (p->kind < E2M1)
            rows[r].biases = floats_of(p->bias_kind, p->biases, first, size, memory->biases + place, NULL);
    }
}

/* Find `length` elements from `start` on of up to AT_ONCE rows of a matrix. The thread's memory holds converted scales
   and biases, and copies of the elements if a kernel would read beyond the matrices. */
static void find_rows(const Task *task, const Memory *memory, size_t matrix, size_t row, size_t start, size_t length,
                      size_t count, Row *rows) {
    const Product *p = task->of;
    size_t bytes = length * bits_of(p->kind) / 8;
    if (p->kind < BFLOAT16)
        find_scales(task, memory, matrix, row, start, length, count, rows);
    for (size_t r = 0; r < count; r++) {
        size_t number = matrix * task->matrix_rows + row + r;
        rows[r].bytes = (const uint8_t *)p->stored + number * task->row_bytes + start * bits_of(p->kind) / 8;
        if (rows[r].bytes + bytes + OVER > task->end) {
            uint8_t *copy = memory->copies + r * copy_bytes(task);
            memcpy(copy, rows[r].bytes, bytes);
            rows[r].bytes = copy;
        }
    }
}

/* Return the number of elements to take next, if `rest` are left: a multiple of OVER, or the last few elements. */
static size_t together(size_t rest, size_t most) {
    size_t length = smaller(rest, most);
    return length < OVER ? length : length - length % OVER;
}

/* Return the number of elements that share a scale, or `length` without scales. */
static size_t group_of(const Task *task, size_t length) {
    return task->of->kind < BFLOAT16 ? task->of->group : length;
}

/* Unpack some elements of a row, and pad them with zeros. */
static void unpack_row(const Task *task, const Memory *memory, size_t matrix, size_t row, size_t start, size_t length,
                       float *out) {
    Row from;
    find_rows(task, memory, matrix, row, start, length, 1, &from);
    size_t group = group_of(task, length);
    if (length % OVER == 0) {
        task->kernels->unpack[task->of->kind](&from, length / group, group, NEXT_ROWS * task->row_bytes, out);
        return;
    }
    to_floats(task->of->kind, from.bytes, out, length);
    for (size_t k = length; k < padded(length); k++)
        out[k] = 0;
}

/* Multiply a row of x by rows of a matrix, with the same order of sums as `multiply_rows`. */
static void multiply_row(const Task *task, const Memory *memory, size_t matrix, size_t start, size_t count,
                         const float *x, float *sums) {
    for (size_t n = 0; n < count; n += AT_ONCE) {
        float total[AT_ONCE] = {0};
        for (size_t k = 0, length; k < task->columns; k += length) {
            length = task->groups > 0 ? task->columns : together(task->columns - k, TILE_LENGTH);
            if (length % OVER != 0) {
                float rest[AT_ONCE * OVER] = {0};
                for (size_t r = 0; r < AT_ONCE && n + r < count; r++)
                    unpack_row(task, memory, matrix, start + n + r, k, length, rest + r * OVER);
                task->kernels->dots(x + k, 0, 1, rest, OVER, OVER, total, AT_ONCE);
                continue;
            }
            Row rows[AT_ONCE];
            size_t group = group_of(task, length), there = smaller(AT_ONCE, count - n);
            find_rows(task, memory, matrix, start + n, k, length, there, rows);
            for (size_t r = there; r < AT_ONCE; r++)
                rows[r] = rows[0];
            size_t before = (AT_ONCE - 1) * k * bits_of(task->of->kind) / 8; /* number of bytes already prefetched */
            task->kernels->dot[task->of->kind](rows, length / group, group, TILE_LENGTH / group,
                                               AT_ONCE * task->row_bytes + before, x + k, total);
        }
        memcpy(sums + n, total, smaller(AT_ONCE, count - n) * sizeof(float));
    }
}

/* Multiply several rows of x by rows of a matrix, in tiles. */
static void multiply_rows(const Task *task, const Memory *memory, const Block *block, size_t start, size_t count,
                          const float *x) {
    memset(memory->sums, 0, block->rows * PANEL_ROWS * sizeof(float));
    for (size_t k = 0, length; k < task->columns; k += length) {
        length = together(task->columns - k, TILE_LENGTH);
        for (size_t n = 0; n < count; n++)
            unpack_row(task, memory, block->matrix, start + n, k, length, memory->tile + n * TILE_LENGTH);
        for (size_t n = 0; n < count; n += AT_ONCE)
            task->kernels->dots(x + k, task->x_apart, block->rows, memory->tile + n * TILE_LENGTH, TILE_LENGTH,
                                padded(length), memory->sums + n, PANEL_ROWS);
    }
}

/* Add the products of a row of x with columns of a matrix that is not transposed to `sums`. Up to AT_ONCE - 1 rows of
   the matrix at its end are left out. Return the number of rows that were used. */
static size_t add_up(const Task *task, const Memory *memory, size_t matrix, size_t start, size_t count, const float *x,
                     float *sums) {
    size_t group = group_of(task, count), k = 0;
    for (; k + AT_ONCE <= task->of->inner; k += AT_ONCE) {
        Row rows[AT_ONCE];
        find_rows(task, memory, matrix, k, start, count, AT_ONCE, rows);
        task->kernels->add[task->of->kind](rows, count / group, group, AT_ONCE * task->row_bytes, x + k, sums);
    }
    return k;
}

/* Multiply rows of x by columns of a matrix that is not transposed. If there are few rows, the matrix is read once for
   each of them. Otherwise they share unpacked tiles. */
static void multiply_columns(const Task *task, const Memory *memory, const Block *block, size_t start, size_t count,
                             const float *x, float *sums) {
    size_t k = 0;
    if (block->rows <= FEW_ROWS && count % OVER == 0)
        for (size_t m = 0; m < block->rows; m++)
            k = add_up(task, memory, block->matrix, start, count, x + m * task->x_apart, sums + m * PANEL_COLUMNS);
    for (; k < task->of->inner; k += TILE_ROWS) {
        size_t rows = smaller(TILE_ROWS, task->of->inner - k);
        for (size_t r = 0; r < rows; r++)
            unpack_row(task, memory, block->matrix, k + r, start, count, memory->tile + r * PANEL_COLUMNS);
        task->kernels->sums(x + k, task->x_apart, block->rows, memory->tile, PANEL_COLUMNS, rows, padded(count), sums,
                            PANEL_COLUMNS);
    }
}

/* Return the packed rows of x of a block. */
static uint8_t *packed_block(const Task *task, const Block *block) {
    return (uint8_t *)task->x + block->first * tile_steps(task->of->inner) * TILE_STEP_BYTES;
}

/* Multiply rows of x by rows of a matrix with `multiply_tiles`. Codes are unpacked in tiles. */
static void multiply_packed(const Task *task, const Memory *memory, const Block *block, size_t start, size_t count) {
    const Product *p = task->of;
    TileProduct tiles = {.x = packed_block(task, block), .count = count, .inner = p->inner, .rows = block->rows,
                         .row_bytes = task->row_bytes, .columns = p->inner, .sums = memory->sums,
                         .sums_apart = PANEL_ROWS};
    memset(memory->sums, 0, block->rows * PANEL_ROWS * sizeof(float));
    if (p->kind == BFLOAT16) {
        tiles.matrix = (const uint8_t *)p->stored + (block->matrix * task->matrix_rows + start) * task->row_bytes;
        multiply_tiles(&tiles);
        return;
    }
    uint8_t *high = (uint8_t *)memory->tile, *rest = high + PANEL_ROWS * TILE_LENGTH * 2;
    float *row = memory->tile + PANEL_ROWS * TILE_LENGTH;
    tiles.matrix = high, tiles.rest = rest, tiles.row_bytes = TILE_LENGTH * 2;
    for (size_t k = 0; k < task->columns; k += TILE_LENGTH) {
        size_t length = smaller(task->columns - k, TILE_LENGTH);
        tiles.inner = tile_steps(length) * TILE_STEP, tiles.x_step = k / TILE_STEP;
        memset(row + length, 0, (tiles.inner - length) * sizeof(float));
        for (size_t n = 0; n < count; n++) {
            unpack_row(task, memory, block->matrix, start + n, k, length, row);
            split_floats(row, tiles.inner, high + n * tiles.row_bytes, rest + n * tiles.row_bytes);
        }
        multiply_tiles(&tiles);
    }
}

static void multiply_panels(void *context, size_t first, size_t last, size_t participant) {
    const Task *task = context;
    const Product *p = task->of;
    Memory memory = memory_of(task, participant);
    for (; first < last; first++) {
        const Block *block = task->blocks + first / task->panels;
        size_t width = p->transposed ? PANEL_ROWS : PANEL_COLUMNS;
        size_t start = first % task->panels * width, count = smaller(width, p->outer - start);
        const float *x = task->x + block->first * task->x_apart;
        if (task->tiled) {
            multiply_packed(task, &memory, block, start, count);
        } else if (!p->transposed) {
            memset(memory.sums, 0, block->rows * PANEL_COLUMNS * sizeof(float));
            for (size_t n = 0, length; n < count; n += length) {
                length = together(count - n, PANEL_COLUMNS);
                multiply_columns(task, &memory, block, start + n, length, x, memory.sums + n);
            }
        } else if (block->rows <= FEW_ROWS)
            for (size_t m = 0; m < block->rows; m++)
                multiply_row(task, &memory, block->matrix, start, count, x + m * task->x_apart, memory.sums + m * width);
        else
            multiply_rows(task, &memory, block, start, count, x);
        for (size_t m = 0; m < block->rows; m++) {
            size_t place = task->lines[WAVE_ROWS + block->first + m] * p->outer + start;
            from_floats(p->y_kind, memory.sums + m * width, (uint8_t *)p->y + place * item_size(p->y_kind), count);
        }
    }
}

static void widen_lines(void *context, size_t first, size_t last, size_t participant) {
    const Task *task = context;
    const Product *p = task->of;
    (void)participant;
    for (; first < last; first++) {
        float *to = task->x + first * task->x_apart;
        const uint8_t *from = (const uint8_t *)p->x + task->lines[first] * p->inner * item_size(p->x_kind);
        to_floats(p->x_kind, from, to, p->inner);
        for (size_t k = p->inner; k < task->x_apart; k++)
            to[k] = 0;
    }
}

/* Return 1 if some elements of bfloat16 are infinity or NaN. */
static int has_special(const uint8_t *halves, size_t count) {
    int special = 0;
    for (size_t k = 0; k < count; k++) {
        uint16_t half;
        memcpy(&half, halves + 2 * k, 2);
        special |= (half & 0x7F80) == 0x7F80;
    }
    return special;
}

/* Copy some steps of all rows of x into tiles, and note if they contain infinity or NaN. */
static void pack_lines(void *context, size_t first, size_t last, size_t participant) {
    Task *task = context;
    const Product *p = task->of;
    size_t start = first * TILE_STEP, stop = smaller(last * TILE_STEP, p->inner);
    (void)participant;
    for (size_t k = 0; k < task->count; k++) {
        const Block *block = &task->blocks[k];
        for (size_t m = 0; m < block->rows; m++) {
            const uint8_t *line = (const uint8_t *)p->x + task->lines[block->first + m] * p->inner * 2;
            pack_line(line, p->inner, first, last, block->rows, m, packed_block(task, block));
            if (p->kind < BFLOAT16 && has_special(line + 2 * start, stop - start))
                __atomic_store_n(&task->special, 1, __ATOMIC_RELAXED);
        }
    }
}

static size_t number_of(const int32_t *numbers, size_t product, size_t count) {
    if (numbers == NULL)
        return count == 1 ? 0 : product;
    if (numbers[product] < 0)
        return 0;
    return smaller((size_t)numbers[product], count - 1);
}

/* Sort the products by their matrices. */
static void in_order(const Product *p, size_t *order, size_t *ends) {
    for (size_t k = 0; k < p->products; k++)
        ends[number_of(p->rhs, k, p->matrices) + 1]++;
    for (size_t k = 0; k < p->matrices; k++)
        ends[k + 1] += ends[k];
    for (size_t k = 0; k < p->products; k++)
        order[ends[number_of(p->rhs, k, p->matrices)]++] = k;
}

static size_t grain(size_t work) { return 1 + WORK / (work + 1); }

/* Compute the blocks of the current wave. If x has infinity or NaN, codes are not multiplied with `multiply_tiles`: an
   element is split into `high` and `rest`, `rest` may be 0, and infinity times 0 is NaN. */
static void finish(Task *task, const Block *blocks, size_t count, size_t rows) {
    const Product *p = task->of;
    size_t width = p->transposed ? PANEL_ROWS : PANEL_COLUMNS;
    int tiled = task->tiled;
    task->blocks = blocks;
    task->count = count;
    task->special = 0;
    if (tiled)
        parallel_for(tile_steps(p->inner), grain(rows * TILE_STEP), pack_lines, task);
    task->tiled = tiled && !(task->special);
    if (!task->tiled)
        parallel_for(rows, grain(p->inner), widen_lines, task);
    size_t together = 2 + rows / count / (task->tiled ? TILE_EDGE : 1);
    parallel_for(count * task->panels, grain(p->inner * smaller(width, p->outer) * together), multiply_panels, task);
    task->tiled = tiled;
}

static void in_waves(Task *task, const size_t *order, Block *blocks) {
    const Product *p = task->of;
    size_t count = 0, rows = 0, total = p->products * p->rows;
    for (size_t line = 0; line < total; line++) {
        size_t product = order[line / p->rows], row = line % p->rows, matrix = number_of(p->rhs, product, p->matrices);
        if (rows == WAVE_ROWS) {
            finish(task, blocks, count, rows);
            count = rows = 0;
        }
        if (count == 0 || blocks[count - 1].matrix != matrix || blocks[count - 1].rows == task->most_rows)
            blocks[count++] = (Block){matrix, rows, 0};
        blocks[count - 1].rows++;
        task->lines[rows] = number_of(p->lhs, product, p->x_matrices) * p->rows + row;
        task->lines[WAVE_ROWS + rows++] = product * p->rows + row;
    }
    finish(task, blocks, count, rows);
}

/* Return 1 to use `multiply_tiles`: for bfloat16, and for codes if each matrix has more than a few rows of x. */
static int is_tiled(const Product *p) {
    if (!kernels()->tiled || !p->transposed || p->x_kind != BFLOAT16 || !tiles_allowed())
        return 0;
    return p->kind == BFLOAT16 || (p->kind < BFLOAT16 && p->products * p->rows > UNTILED_ROWS * p->matrices);
}

int multiply(const Product *p) {
    if (p->products * p->rows * p->outer == 0)
        return 0;
    if (p->inner == 0) {
        memset(p->y, 0, p->products * p->rows * p->outer * item_size(p->y_kind));
        return 0;
    }
    size_t columns = p->transposed ? p->inner : p->outer, width = p->transposed ? PANEL_ROWS : PANEL_COLUMNS;
    Task task = {.of = p,
                 .kernels = kernels(),
                 .tiled = is_tiled(p),
                 .columns = columns,
                 .row_bytes = columns * bits_of(p->kind) / 8,
                 .matrix_rows = p->transposed ? p->outer : p->inner,
                 .groups = p->kind < BFLOAT16 ? columns / p->group : 0,
                 .x_apart = padded(p->inner),
                 .panels = (p->outer + width - 1) / width};
    size_t lines = smaller(p->products * p->rows, WAVE_ROWS);
    task.most_rows = task.tiled ? WAVE_ROWS : MOST_ROWS;
    task.end = (const uint8_t *)p->stored + p->matrices * task.matrix_rows * task.row_bytes;
    plan_memory(&task, lines);
    task.lines = malloc(2 * WAVE_ROWS * sizeof(size_t));
    task.x = malloc(lines * (task.x_apart + TILE_STEP_BYTES / sizeof(float)) * sizeof(float));
    task.memory = malloc(participants() * task.scratch * sizeof(float));
    size_t *order = malloc(p->products * sizeof(size_t)), *ends = calloc(p->matrices + 1, sizeof(size_t));
    Block *blocks = malloc(lines * sizeof(Block));
    int fits = task.lines != NULL && task.x != NULL && task.memory != NULL && order != NULL && ends != NULL &&
               blocks != NULL;
    if (fits) {
        in_order(p, order, ends);
        in_waves(&task, order, blocks);
    }
    free(task.lines), free(task.x), free(task.memory), free(order), free(ends), free(blocks);
    return fits ? 0 : -1;
}
