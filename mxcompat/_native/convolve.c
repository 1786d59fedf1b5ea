/* Convolutions of float32 arrays with channels last, and their gradients.

   Each element of the kernel, a tap, multiplies a pixel of the input by a matrix. The inputs of each tap are found
   through pointers, so no patches are copied, and the inner loops do not depend on stride, padding, dilation and the
   number of axes. A pointer to zeros stands for padding. In a dilated input, some taps of an output fall into gaps.
   Outputs whose taps fall into the same gaps are computed together, and skip those taps. */
#include "kernels.h"
#include <stdlib.h>
#include <string.h>

enum {
    AXES = 3,
    /* number of output pixels that one thread computes at a time; they share the reads of the weights */
    PIXELS = 96,
    /* maximum number of products in a sum before the sum is added to the result; 2 * lanes * LENGTH floats of
       weights stay in the processor's second cache */
    LENGTH = 1536,
    CHANNELS = 512,      /* maximum number of channels in one sum */
    TAPS = 64,           /* maximum number of taps in one sum */
    MERGED_CHANNELS = 8, /* maximum number of input channels for merging the taps along the last axis into channels */
    SUMMED_PIXELS = 512, /* maximum number of pixels in a sum of the weights' gradient */
    /* number of channels that one thread takes for the weights' gradient if each channel is a group */
    RANGE = 64,
    TILES = 8,           /* number of tiles of channels that one thread takes for the weights' gradient */
    PARTS = 4,           /* minimum number of parts for each thread, if there is enough work */
    WORK = 1 << 18       /* number of products that justify another thread */
};

static const int64_t MOST_PADDING = (int64_t)1 << 40;

static size_t parts_of(size_t count, size_t size) { return (count + size - 1) / size; }

static const float zeros[CHANNELS];

typedef struct {
    Convolution of;
    const Kernels *kernels;
    const float *x;
    float *w, *y;          /* only the weights' gradient writes `w`; only the others write `y` */
    size_t columns;        /* number of outputs in a tile */
    size_t range;          /* number of channels computed at a time for the weights' gradient */
    size_t taps, pixels;   /* number of taps of a kernel; number of pixels of an output */
    /* number of tiles of outputs in a group; number of parts into which the threads divide them */
    size_t blocks, splits;
    size_t unmerged;       /* number of channels before the merge of taps, or after it if merged taps are adjacent in `w` */
    ptrdiff_t w_merged;    /* distance of merged taps in `w` */
    size_t step[AXES], image; /* distances of pixels along each axis, in elements; number of elements of an image */
    size_t (*tap)[AXES];      /* the coordinates of all taps along the axes */
    size_t *order[AXES];      /* the outputs of each axis, in the order of computation */
    ptrdiff_t *at[AXES];      /* the element that each output, in this order, reads at each tap, or -1 */
    float *packed;            /* the weights, in the order in which tiles read them */
    uint8_t *memory;          /* the memory of all threads */
    size_t each;              /* number of bytes in `memory` for each thread */
} Task;

static size_t divisor(size_t x, size_t y) { return y == 0 ? x : divisor(y, x % y); }

/* Find the order of the outputs of an axis, and what each of them reads. Return -1 if there is not enough memory. */
static int plan_axis(Task *task, int k) {
    const Convolution *c = &task->of;
    size_t out = c->out[k], kernel = c->kernel[k], spread = (size_t)c->spread[k];
    size_t period = spread / divisor((size_t)c->stride[k], spread), next = 0;
    size_t *order = task->order[k] = malloc((out + 1) * sizeof(size_t));
    ptrdiff_t *at = task->at[k] = malloc((out * kernel + 1) * sizeof(ptrdiff_t));
    if (order == NULL || at == NULL)
        return -1;
    for (size_t phase = 0; phase < period && phase < out; phase++)
        for (size_t o = phase; o < out; o += period)
            order[next++] = o;
    for (size_t n = 0; n < out; n++)
        for (size_t t = 0; t < kernel; t++) {
            ptrdiff_t place = (ptrdiff_t)order[n] * c->stride[k] + (ptrdiff_t)t * c->dilation[k] - c->low[k];
            int inside = place >= 0 && place % c->spread[k] == 0 && place / c->spread[k] < (ptrdiff_t)c->in[k];
            at[n * kernel + t] = inside ? place / c->spread[k] * (ptrdiff_t)task->step[k] : -1;
        }
    return 0;
}

/* An output pixel: its rows of `at`, the offset of its input image, and its own offset. */
typedef struct {
    const ptrdiff_t *at[AXES];
    size_t image, place;
} Pixel;

static Pixel pixel_of(const Task *task, size_t number) {
    const Convolution *c = &task->of;
    size_t n[AXES], rest = number % task->pixels;
    Pixel pixel = {.image = number / task->pixels * task->image, .place = number / task->pixels};
    for (int k = AXES; k-- > 0; rest /= c->out[k])
        n[k] = rest % c->out[k];
    for (int k = 0; k < AXES; k++) {
        pixel.at[k] = task->at[k] + n[k] * c->kernel[k];
        pixel.place = pixel.place * c->out[k] + task->order[k][n[k]];
    }
    return pixel;
}

/* Return the input of a tap, or NULL in the padding. */
static const float *input_of(const Task *task, const Pixel *pixel, const size_t *tap) {
    ptrdiff_t a = pixel->at[0][tap[0]], b = pixel->at[1][tap[1]], c = pixel->at[2][tap[2]];
    return a < 0 || b < 0 || c < 0 ? NULL : task->x + pixel->image + a + b + c;
}

/* Find the coordinates of all taps. Return -1 if there is not enough memory. */
static int plan_taps(Task *task) {
    const size_t *kernel = task->of.kernel;
    task->taps = kernel[0] * kernel[1] * kernel[2];
    if ((task->tap = malloc(task->taps * sizeof *task->tap)) == NULL)
        return -1;
    for (size_t t = 0; t < task->taps; t++)
        for (size_t k = AXES, rest = t; k-- > 0; rest /= kernel[k])
            task->tap[t][k] = rest % kernel[k];
    return 0;
}

/* Return the index of a weight in `w`. */
static ptrdiff_t weight_of(const Task *task, size_t group, size_t output, size_t number, size_t channel) {
    const Convolution *c = &task->of;
    const size_t *tap = task->tap[number];
    ptrdiff_t place = c->w_start + (ptrdiff_t)group * c->w_group + (ptrdiff_t)output * c->w_output +
                      (ptrdiff_t)(channel % task->unmerged) * c->w_channel +
                      (ptrdiff_t)(channel / task->unmerged) * task->w_merged;
    for (int k = 0; k < AXES; k++)
        place += (ptrdiff_t)tap[k] * c->w_tap[k];
    return place;
}

/* Pack the weights of some blocks of outputs, as [block][channels, at most CHANNELS][tap][channel][output]. */
static void pack(void *context, size_t first, size_t last, size_t participant) {
    enum { SQUARE = 16 };
    const Task *task = context;
    const Convolution *c = &task->of;
    (void)participant;
    for (; first < last; first++) {
        size_t start = first % task->blocks * task->columns, count = smaller(task->columns, c->outputs - start);
        size_t group = first / task->blocks;
        float *to = task->packed + first * c->channels * task->taps * task->columns;
        if (count < task->columns)
            memset(to, 0, c->channels * task->taps * task->columns * sizeof(float));
        for (size_t channel = 0, length; channel < c->channels; channel += length) {
            length = smaller(CHANNELS, c->channels - channel);
            for (size_t t = 0; t < task->taps; t++, to += length * task->columns)
                for (size_t k = 0; k < length; k += SQUARE)
                    for (size_t n = 0; n < count; n++) {
                        const float *from = task->w + weight_of(task, group, start + n, t, channel + k);
                        for (size_t i = k; i < smaller(k + SQUARE, length); i++, from += c->w_channel) {
                            if (task->unmerged < c->channels)
                                from = task->w + weight_of(task, group, start + n, t, channel + i);
                            to[i * task->columns + n] = *from;
                        }
                    }
        }
    }
}

/* The memory of a thread: the pieces of all tiles, and rows for tiles that are narrower than `columns`. After the
   structure come the numbers of the taps that read an input. */
typedef struct {
    Piece pieces[TAPS * (PIXELS / LEAST_TILE_ROWS)];
    size_t counts[PIXELS / LEAST_TILE_ROWS];
    Pixel pixels[PIXELS];
    float rows[MOST_TILE_ROWS * MOST_TILE_COLUMNS];
} Tiles;

/* Find the taps that read at least one input for some pixels, and return how many there are. */
static size_t find_taps(const Task *task, const Pixel *pixels, size_t count, size_t *numbers) {
    size_t taps = 0;
    for (size_t t = 0; t < task->taps; t++) {
        size_t m = 0;
        while (m < count && input_of(task, &pixels[m], task->tap[t]) == NULL)
            m++;
        numbers[taps] = t;
        taps += m < count;
    }
    return taps;
}

/* Find the pieces of all tiles for some pixels, for `taps` taps, and channels from `channel` on. */
static void find_pieces(const Task *task, Tiles *tiles, size_t group, size_t count, const size_t *first, size_t taps,
                        size_t channel, size_t length) {
    size_t rows = task->kernels->tile_rows, start = group * task->of.channels + channel;
    for (size_t block = 0; block * rows < count; block++) {
        const Pixel *pixels = tiles->pixels + block * rows;
        size_t used = smaller(rows, count - block * rows), found = 0;
        for (size_t t = 0; t < taps; t++) {
            Piece *piece = tiles->pieces + block * TAPS + found;
            const size_t *tap = task->tap[first[t]];
            size_t inside = 0;
            for (size_t m = 0; m < rows; m++) {
                const float *from = m < used ? input_of(task, &pixels[m], tap) : NULL;
                inside += from != NULL;
                piece->a[m] = from == NULL ? zeros : from + start;
            }
            piece->b = first[t] * length * task->columns;
            found += inside > 0;
        }
        tiles->counts[block] = found;
    }
}

/* Compute a tile, and store its first `used` rows and `width` columns, or add them to the output. */
static void store_tile(const Task *task, Tiles *tiles, size_t block, size_t used, size_t length, const float *b,
                       float *y, size_t width, int add) {
    size_t rows = task->kernels->tile_rows, all = task->of.groups * task->of.outputs;
    float *out[MOST_TILE_ROWS];
    int direct = width == task->columns;
    for (size_t m = 0; m < rows; m++)
        out[m] = direct && m < used ? y + tiles->pixels[block * rows + m].place * all : tiles->rows + m * task->columns;
    task->kernels->tile(tiles->pieces + block * TAPS, tiles->counts[block], length, 1, task->columns, b, out,
                        direct && add);
    for (size_t m = 0; !direct && m < used; m++) {
        float *to = y + tiles->pixels[block * rows + m].place * all;
        for (size_t n = 0; n < width; n++)
            to[n] = add ? to[n] + out[m][n] : out[m][n];
    }
}

static void convolve_parts(void *context, size_t first, size_t last, size_t participant) {
    const Task *task = context;
    const Convolution *c = &task->of;
    Tiles *tiles = (Tiles *)(task->memory + participant * task->each);
    size_t all = c->images * task->pixels, parts = parts_of(all, PIXELS), each = parts_of(task->blocks, task->splits);
    for (; first < last; first++) {
        size_t split = first % task->splits, pixel = first / task->splits % parts * PIXELS;
        size_t group = first / task->splits / parts, count = smaller(PIXELS, all - pixel);
        size_t end = smaller((split + 1) * each, task->blocks);
        for (size_t m = 0; m < count; m++)
            tiles->pixels[m] = pixel_of(task, pixel + m);
        size_t *active = (size_t *)(tiles + 1), all_taps = find_taps(task, tiles->pixels, count, active);
        int add = 0;
        for (size_t channel = 0, length; channel < c->channels; channel += length) {
            length = smaller(CHANNELS, c->channels - channel);
            size_t most = smaller(TAPS, LENGTH / length); /* end the sums of all pixels at the same taps */
            /* without taps, run once to write zeros */
            for (size_t tap = 0, taps; tap < all_taps || !add; tap += taps, add = 1) {
                size_t first = tap < all_taps ? active[tap] / most : 0;
                for (taps = 0; tap + taps < all_taps && active[tap + taps] / most == first;)
                    taps++;
                find_pieces(task, tiles, group, count, active + tap, taps, channel, length);
                for (size_t n = split * each; n < end; n++) {
                    const float *b = task->packed + ((group * task->blocks + n) * c->channels + channel) * task->taps *
                                                        task->columns;
                    float *y = task->y + group * c->outputs + n * task->columns;
                    size_t width = smaller(task->columns, c->outputs - n * task->columns), rows = task->kernels->tile_rows;
                    for (size_t block = 0; block * rows < count; block++)
                        store_tile(task, tiles, block, smaller(rows, count - block * rows), length, b, y, width, add);
                }
            }
        }
    }
}

/* Return 1 if a vector of outputs reads as many inputs as it has outputs, because groups are small and have as many
   outputs as channels. */
static int is_grouped(const Task *task) {
    const Convolution *c = &task->of;
    size_t lanes = task->kernels->lanes;
    return c->groups > 1 && c->channels > 1 && c->channels == c->outputs && lanes % c->channels == 0 &&
           c->groups * c->channels % lanes == 0;
}

/* Pack the weights of small groups, as [vector of outputs][tap][channel][output]. */
static void pack_grouped(void *context, size_t first, size_t last, size_t participant) {
    const Task *task = context;
    size_t lanes = task->kernels->lanes, channels = task->of.channels;
    (void)participant;
    for (; first < last; first++) {
        float *to = task->packed + first * task->taps * channels * lanes;
        for (size_t t = 0; t < task->taps; t++)
            for (size_t c = 0; c < channels; c++)
                for (size_t n = first * lanes; n < (first + 1) * lanes; n++)
                    *to++ = task->w[weight_of(task, n / channels, n % channels, t, c)];
    }
}

/* Compute all outputs of some tiles of pixels, for small groups. */
static void convolve_grouped(void *context, size_t first, size_t last, size_t participant) {
    const Task *task = context;
    const Convolution *c = &task->of;
    size_t rows = task->kernels->tile_rows, lanes = task->kernels->lanes, channels = c->channels;
    size_t width = c->groups * channels, all = c->images * task->pixels;
    int32_t indices[MOST_TILE_COLUMNS * MOST_TILE_COLUMNS];
    float unused[MOST_TILE_COLUMNS];
    (void)participant;
    for (size_t k = 0; k < channels * lanes; k++)
        indices[k] = (int32_t)(k % lanes - k % lanes % channels + k / lanes);
    for (; first < last; first++) {
        size_t used = smaller(rows, all - first * rows);
        Pixel pixels[MOST_TILE_ROWS];
        for (size_t m = 0; m < used; m++)
            pixels[m] = pixel_of(task, first * rows + m);
        for (size_t t = 0, taps; t < task->taps; t += taps) {
            Piece pieces[TAPS], moved[TAPS];
            taps = smaller(TAPS, task->taps - t);
            for (size_t k = 0; k < taps; k++)
                for (size_t m = 0; m < rows; m++)
                    pieces[k].a[m] = m < used ? input_of(task, &pixels[m], task->tap[t + k]) : NULL;
            for (size_t n = 0; n < width; n += lanes) {
                float *out[MOST_TILE_ROWS];
                for (size_t m = 0; m < rows; m++)
                    out[m] = m < used ? task->y + pixels[m].place * width + n : unused;
                for (size_t k = 0; k < taps; k++) {
                    moved[k].b = (n * task->taps + (t + k) * lanes) * channels;
                    for (size_t m = 0; m < rows; m++)
                        moved[k].a[m] = pieces[k].a[m] == NULL ? zeros : pieces[k].a[m] + n;
                }
                task->kernels->grouped(moved, taps, channels, indices, task->packed, out, t > 0);
            }
        }
    }
}

/* Compute outputs that each read one channel. The weights are packed as [tap][channel]. */
static void convolve_depth(void *context, size_t first, size_t last, size_t participant) {
    const Task *task = context;
    const float *a[TAPS], *b[TAPS];
    (void)participant;
    for (; first < last; first++) {
        Pixel pixel = pixel_of(task, first);
        float *y = task->y + pixel.place * task->of.groups;
        memset(y, 0, task->of.groups * sizeof(float));
        for (size_t t = 0; t < task->taps;) {
            size_t count = 0;
            for (; t < task->taps && count < TAPS; t++) {
                a[count] = input_of(task, &pixel, task->tap[t]);
                b[count] = task->packed + t * task->of.groups;
                count += a[count] != NULL;
            }
            task->kernels->depth(a, b, count, task->of.groups, y);
        }
    }
}

/* A range of outputs along the last axis for which a tap reads the input: the positions in `order` from `start` to
   `stop`. The inputs of neighbouring outputs are `apart` elements apart. */
typedef struct {
    size_t start, stop, apart;
} Span;

static Span span_of(const Task *task, size_t tap, size_t start, size_t stop) {
    size_t kernel = task->of.kernel[2];
    const ptrdiff_t *at = task->at[2];
    while (start < stop && at[start * kernel + tap] < 0)
        start++;
    size_t end = start;
    while (end < stop && at[end * kernel + tap] >= 0)
        end++;
    size_t apart = end - start > 1 ? (size_t)(at[(start + 1) * kernel + tap] - at[start * kernel + tap]) : 0;
    return (Span){start, end, apart};
}

/* Some rows of output pixels, or a segment of one row, that are added up at a time for the weights' gradient. */
typedef struct {
    size_t row, rows, start, stop;
} Rows;

/* Return the next rows after `last`: at least one, and as many as have SUMMED_PIXELS pixels or fewer together. */
static Rows rows_after(const Task *task, Rows last) {
    const Convolution *c = &task->of;
    size_t all = c->images * c->out[0] * c->out[1], width = c->out[2];
    size_t start = last.stop % width, row = start == 0 ? last.row + last.rows : last.row;
    size_t rows = width > SUMMED_PIXELS ? 1 : smaller(SUMMED_PIXELS / width, all - row);
    return (Rows){row, smaller(rows, all - row), start, smaller(width, start + SUMMED_PIXELS)};
}

/* Return the input row that a tap reads for an output row, or NULL in the padding. The place is the number of the
   output row. */
static const float *input_row(const Task *task, size_t row, const size_t *tap, size_t *place) {
    const Convolution *c = &task->of;
    size_t n1 = row % c->out[1], n0 = row / c->out[1] % c->out[0], image = row / c->out[1] / c->out[0];
    ptrdiff_t a = task->at[0][n0 * c->kernel[0] + tap[0]], b = task->at[1][n1 * c->kernel[1] + tap[1]];
    *place = (image * c->out[0] + task->order[0][n0]) * c->out[1] + task->order[1][n1];
    return a < 0 || b < 0 ? NULL : task->x + image * task->image + a + b;
}

/* The memory of a thread for the weights' gradient. */
typedef struct {
    float g[SUMMED_PIXELS * MOST_TILE_COLUMNS], rows[MOST_TILE_ROWS * MOST_TILE_COLUMNS];
    Piece pieces[SUMMED_PIXELS];
    const float *a[SUMMED_PIXELS], *b[SUMMED_PIXELS];
} Scratch;

/* Copy the outputs of some rows to an array indexed by [pixel in the order of `order`][output]. */
static void pack_outputs(const Task *task, float *to, Rows rows, size_t output, size_t count) {
    const Convolution *c = &task->of;
    size_t all = c->groups * c->outputs, place;
    if (count < task->columns)
        memset(to, 0, rows.rows * (rows.stop - rows.start) * task->columns * sizeof(float));
    for (size_t row = rows.row; row < rows.row + rows.rows; row++) {
        input_row(task, row, task->tap[0], &place);
        for (size_t n = rows.start; n < rows.stop; n++, to += task->columns)
            memcpy(to, task->y + (place * c->out[2] + task->order[2][n]) * all + output, count * sizeof(float));
    }
}

/* Add the sum over some rows to the gradient of a tap's weights: `count` channels from `channel` on. `sums` has a row of
   outputs for each channel. */
static void sum_tap(const Task *task, Scratch *memory, Rows rows, size_t number, size_t channel, size_t count,
                    float *sums) {
    const size_t *tap = task->tap[number];
    size_t pieces = 0, width = rows.stop - rows.start, tile_rows = task->kernels->tile_rows;
    Span span = span_of(task, tap[2], rows.start, rows.stop);
    if (span.start == span.stop)
        return;
    ptrdiff_t column = task->at[2][span.start * task->of.kernel[2] + tap[2]];
    for (size_t row = 0; row < rows.rows; row++) {
        size_t place;
        const float *from = input_row(task, rows.row + row, tap, &place);
        memory->pieces[pieces].a[0] = from == NULL ? NULL : from + column + channel;
        memory->pieces[pieces].b = (row * width + span.start - rows.start) * task->columns;
        pieces += from != NULL;
    }
    for (size_t c = 0; c < count; c += tile_rows) {
        size_t used = smaller(tile_rows, count - c);
        float *out[MOST_TILE_ROWS];
        for (size_t m = 0; m < tile_rows; m++)
            out[m] = m < used ? sums + (c + m) * task->columns : memory->rows + m * task->columns;
        for (size_t k = 0; k < pieces; k++) {
            Piece *piece = memory->pieces + k;
            for (size_t m = 1; m < tile_rows; m++)
                piece->a[m] = piece->a[0] + smaller(m, used - 1);
        }
        task->kernels->tile(memory->pieces, pieces, span.stop - span.start, span.apart, task->columns, memory->g, out,
                            1);
        for (size_t k = 0; k < pieces; k++)
            memory->pieces[k].a[0] += tile_rows;
    }
}

static size_t ranges_of(const Task *task) { return parts_of(task->of.channels, task->range); }

/* Compute the gradients of the weights of some blocks of outputs, and some ranges of channels. */
static void sum_weights(void *context, size_t first, size_t last, size_t participant) {
    const Task *task = context;
    const Convolution *c = &task->of;
    float *sums = (float *)(task->memory + participant * task->each + sizeof(Scratch));
    Scratch *memory = (Scratch *)(task->memory + participant * task->each);
    size_t all = c->images * c->out[0] * c->out[1];
    for (; first < last; first++) {
        size_t channel = first % ranges_of(task) * task->range, count = smaller(task->range, c->channels - channel);
        size_t block = first / ranges_of(task), group = block / task->blocks;
        size_t output = block % task->blocks * task->columns, width = smaller(task->columns, c->outputs - output);
        memset(sums, 0, task->taps * count * task->columns * sizeof(float));
        for (Rows rows = rows_after(task, (Rows){0}); rows.row < all; rows = rows_after(task, rows)) {
            pack_outputs(task, memory->g, rows, group * c->outputs + output, width);
            for (size_t t = 0; t < task->taps; t++)
                sum_tap(task, memory, rows, t, group * c->channels + channel, count, sums + t * count * task->columns);
        }
        for (size_t t = 0; t < task->taps; t++)
            for (size_t k = 0; k < count; k++)
                for (size_t n = 0; n < width; n++)
                    task->w[weight_of(task, group, output + n, t, channel + k)] =
                        sums[(t * count + k) * task->columns + n];
    }
}

/* Compute the gradients of weights that each multiply one channel, for ranges of channels. */
static void sum_depth(void *context, size_t first, size_t last, size_t participant) {
    const Task *task = context;
    const Convolution *c = &task->of;
    Scratch *memory = (Scratch *)(task->memory + participant * task->each);
    size_t all = c->images * c->out[0] * c->out[1];
    for (; first < last; first++) {
        size_t channel = first * RANGE, count = smaller(RANGE, c->groups - channel);
        for (size_t t = 0; t < task->taps; t++) {
            float sums[RANGE] = {0};
            const size_t *tap = task->tap[t];
            size_t place;
            for (size_t row = 0; row < all; row++) {
                const float *from = input_row(task, row, tap, &place);
                for (size_t start = 0; from != NULL && start < c->out[2]; start += SUMMED_PIXELS) {
                    Span span = span_of(task, tap[2], start, smaller(start + SUMMED_PIXELS, c->out[2]));
                    for (size_t n = span.start; n < span.stop; n++) {
                        memory->a[n - span.start] = from + task->at[2][n * c->kernel[2] + tap[2]] + channel;
                        memory->b[n - span.start] = task->y + (place * c->out[2] + task->order[2][n]) * c->groups + channel;
                    }
                    task->kernels->depth(memory->a, memory->b, span.stop - span.start, count, sums);
                }
            }
            for (size_t k = 0; k < count; k++)
                task->w[weight_of(task, channel + k, 0, t, 0)] = sums[k];
        }
    }
}

/* Return 1 if the taps along the last axis can be treated as channels. The channels of neighbouring pixels are adjacent
   in memory, so few long sums replace many short ones. */
static int can_merge(const Convolution *c) {
    return c->groups == 1 && c->channels <= MERGED_CHANNELS && c->kernel[2] > 1 && c->dilation[2] == 1 &&
           c->spread[2] == 1 && (c->out[2] - 1) * (size_t)c->stride[2] <= 2 * (c->in[2] + c->kernel[2]);
}

/* Merge taps and channels. Copy the input with its padding along the last axis to `*copy`, if it has any. */
static int merge(Task *task, float **copy) {
    Convolution *c = &task->of;
    size_t lines = c->images * c->in[0] * c->in[1], starts = (c->out[2] - 1) * (size_t)c->stride[2] + 1;
    size_t width = starts - 1 + c->kernel[2], channels = c->channels;
    if (c->low[2] != 0 || width > c->in[2]) {
        if ((*copy = calloc(lines * width * channels + 1, sizeof(float))) == NULL)
            return -1;
        size_t to = c->low[2] > 0 ? (size_t)c->low[2] : 0, from = c->low[2] < 0 ? (size_t)-c->low[2] : 0;
        size_t count = to < width && from < c->in[2] ? smaller(width - to, c->in[2] - from) : 0;
        for (size_t line = 0; line < lines; line++)
            memcpy(*copy + (line * width + to) * channels, task->x + (line * c->in[2] + from) * channels,
                   count * channels * sizeof(float));
        task->x = *copy;
        task->step[1] = width * channels;
        task->step[0] = task->step[1] * c->in[1];
        task->image = task->step[0] * c->in[0];
    }
    task->w_merged = c->w_tap[2];
    c->channels *= c->kernel[2];
    if (task->w_merged == (ptrdiff_t)channels * c->w_channel)
        task->unmerged = c->channels; /* so packing reads the weights in the order of memory */
    c->in[2] = starts;
    c->low[2] = 0;
    c->kernel[2] = 1;
    return 0;
}

/* Return the number of parts that a thread takes at a time, if there are `count` parts with `work` products each. */
static size_t grain(size_t count, size_t work) {
    return smaller(1 + WORK / (work + 1), 1 + count / (PARTS * participants()));
}

static int is_depthwise(const Convolution *c) { return c->groups > 1 && c->channels == 1 && c->outputs == 1; }

/* Compute the output from packed weights. */
static int run_forward(Task *task) {
    const Convolution *c = &task->of;
    size_t all = c->images * task->pixels;
    if (is_depthwise(c)) {
        if ((task->packed = malloc(task->taps * c->groups * sizeof(float))) == NULL)
            return -1;
        for (size_t t = 0; t < task->taps; t++)
            for (size_t g = 0; g < c->groups; g++)
                task->packed[t * c->groups + g] = task->w[weight_of(task, g, 0, t, 0)];
        parallel_for(all, grain(all, task->taps * c->groups), convolve_depth, task);
        return 0;
    }
    size_t length = c->channels * task->taps, width = c->groups * c->outputs;
    if (is_grouped(task)) {
        size_t tiles = parts_of(all, task->kernels->tile_rows), lanes = task->kernels->lanes;
        if ((task->packed = malloc(width * length * sizeof(float))) == NULL)
            return -1;
        parallel_for(width / lanes, grain(width / lanes, lanes * length), pack_grouped, task);
        parallel_for(tiles, grain(tiles, task->kernels->tile_rows * width * length), convolve_grouped, task);
        return 0;
    }
    size_t parts = parts_of(all, PIXELS) * c->groups, each = task->columns * length;
    task->splits = smaller(parts_of(PARTS * participants(), parts), task->blocks);
    task->each = sizeof(Tiles) + (task->taps * sizeof(size_t) + 63) / 64 * 64;
    task->packed = malloc(c->groups * task->blocks * each * sizeof(float));
    task->memory = calloc(participants(), task->each);
    if (task->packed == NULL || task->memory == NULL)
        return -1;
    parallel_for(c->groups * task->blocks, grain(c->groups * task->blocks, each), pack, task);
    parts *= task->splits;
    parallel_for(parts, grain(parts, smaller(all, PIXELS) * length * parts_of(c->outputs, task->splits)),
                 convolve_parts, task);
    return 0;
}

/* Compute the gradient of the weights. */
static int run_weights(Task *task) {
    const Convolution *c = &task->of;
    size_t all = c->images * task->pixels, sums = 0, blocks = c->groups * task->blocks;
    if (!is_depthwise(c)) {
        task->range = TILES * task->kernels->tile_rows;
        while (task->range > task->kernels->tile_rows && blocks * ranges_of(task) < PARTS * participants())
            task->range /= 2;
        sums = task->taps * smaller(task->range, c->channels) * task->columns * sizeof(float);
    }
    task->each = (sizeof(Scratch) + sums + 63) / 64 * 64;
    if ((task->memory = calloc(participants(), task->each)) == NULL)
        return -1;
    if (is_depthwise(c)) {
        size_t ranges = parts_of(c->groups, RANGE);
        parallel_for(ranges, grain(ranges, all * task->taps * RANGE), sum_depth, task);
    } else {
        size_t ranges = blocks * ranges_of(task);
        parallel_for(ranges, grain(ranges, all * task->taps * task->range * task->columns), sum_weights, task);
    }
    return 0;
}

int convolve(const Convolution *c, int for_weights, const float *x, float *w, float *y) {
    Task task = {.of = *c, .kernels = kernels(), .x = x, .w = w, .y = y, .unmerged = c->channels};
    float *copy = NULL;
    task.step[2] = c->groups * c->channels;
    task.step[1] = task.step[2] * c->in[2];
    task.step[0] = task.step[1] * c->in[1];
    task.image = task.step[0] * c->in[0];
    task.pixels = c->out[0] * c->out[1] * c->out[2];
    task.columns = c->outputs <= task.kernels->lanes ? task.kernels->lanes : 2 * task.kernels->lanes;
    task.blocks = parts_of(c->outputs, task.columns);
    size_t outputs = c->images * task.pixels * c->groups * c->outputs;
    if (!for_weights && (outputs == 0 || c->channels == 0)) {
        if (outputs > 0)
            memset(y, 0, outputs * sizeof(float));
        return 0;
    }
    size_t weights = c->groups * c->outputs * c->channels * c->kernel[0] * c->kernel[1] * c->kernel[2];
    if (weights == 0 || outputs == 0) {
        memset(w, 0, weights * sizeof(float));
        return 0;
    }
    int few = for_weights ? 0 : convolve_few(c, x, w, y);
    if (few != 0)
        return few > 0 ? 0 : -1;
    int failed = can_merge(c) ? merge(&task, &copy) : 0;
    failed = failed ? failed : plan_taps(&task);
    for (int k = 0; k < AXES && !failed; k++)
        failed = plan_axis(&task, k);
    if (!failed)
        failed = for_weights ? run_weights(&task) : run_forward(&task);
    for (int k = 0; k < AXES; k++)
        free(task.order[k]), free(task.at[k]);
    free(task.tap), free(task.packed), free(task.memory), free(copy);
    return failed;
}

/* Multiply sizes, and return 0 if the product is too large. */
static int times(size_t *total, size_t by) {
    if (by > 0 && *total > ((size_t)1 << 56) / by)
        return 0;
    *total *= by;
    return 1;
}

/* Read a convolution from CONVOLUTION_NUMBERS numbers. Return the numbers of elements of x, w and y in `sizes`, or -1 if
   the numbers do not describe a convolution. */
int read_convolution(const int64_t *n, Convolution *c, size_t sizes[3]) {
    size_t *const wholes[] = {&c->images, &c->groups, &c->channels, &c->outputs};
    for (size_t k = 0; k < 4; k++, n++) {
        if (*n < 0)
            return -1;
        *wholes[k] = (size_t)*n;
    }
    for (int k = 0; k < AXES; k++, n++) {
        if (n[0] < 0 || n[3] < 0 || n[6] < 1 || n[9] < 1 || n[15] < 1 || n[18] < 1 || n[12] < -MOST_PADDING)
            return -1;
        for (int i = 0; i < 21; i += 3)
            if (n[i] > (i == 12 ? MOST_PADDING : INT32_MAX))
                return -1;
        c->in[k] = (size_t)n[0], c->out[k] = (size_t)n[3], c->kernel[k] = (size_t)n[6];
        c->stride[k] = n[9], c->low[k] = n[12], c->dilation[k] = n[15], c->spread[k] = n[18];
    }
    n += 18;
    c->w_start = n[0], c->w_group = n[1], c->w_output = n[2], c->w_channel = n[3];
    for (int k = 0; k < AXES; k++)
        c->w_tap[k] = n[4 + k];
    for (int k = 0; k < 3; k++)
        sizes[k] = c->groups;
    int fits = times(&sizes[0], c->images) && times(&sizes[0], c->channels) && times(&sizes[2], c->images) &&
               times(&sizes[2], c->outputs) && times(&sizes[1], c->outputs) && times(&sizes[1], c->channels);
    for (int k = 0; k < AXES && fits; k++)
        fits = times(&sizes[0], c->in[k]) && times(&sizes[1], c->kernel[k]) && times(&sizes[2], c->out[k]);
    if (!fits)
        return -1;
    /* check that the least and the largest index of a weight are inside w */
    ptrdiff_t least = c->w_start, most = c->w_start;
    if (least < 0 || least > (ptrdiff_t)sizes[1])
        return -1;
    const size_t counts[] = {c->groups, c->outputs, c->channels, c->kernel[0], c->kernel[1], c->kernel[2]};
    const ptrdiff_t steps[] = {c->w_group, c->w_output, c->w_channel, c->w_tap[0], c->w_tap[1], c->w_tap[2]};
    for (int k = 0; k < 6 && sizes[1] > 0; k++) {
        size_t span = counts[k] - 1;
        if (steps[k] > (ptrdiff_t)sizes[1] || steps[k] < -(ptrdiff_t)sizes[1] ||
            !times(&span, (size_t)(steps[k] < 0 ? -steps[k] : steps[k])))
            return -1;
        *(steps[k] < 0 ? &least : &most) += steps[k] < 0 ? -(ptrdiff_t)span : (ptrdiff_t)span;
    }
    return sizes[1] > 0 && (least < 0 || most >= (ptrdiff_t)sizes[1]) ? -1 : 0;
}
