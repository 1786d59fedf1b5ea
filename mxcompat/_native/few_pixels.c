/* Convolutions with few output pixels, such as those of streaming audio models.

   `convolve.c` packs the weights first, which takes longer than a few products with each of them. Here the input
   patches are copied instead, and multiplied by the weights in the layout in which these are stored. */
#include "kernels.h"
#include <stdlib.h>
#include <string.h>

enum {
    AXES = 3,
    FEW_PIXELS = 32,   /* largest number of output pixels of all images; with more, packed weights are as fast */
    OVER = 16,         /* largest number of elements that a kernel reads at a time */
    LENGTH = 1024,     /* largest number of products in a partial sum; a multiple of OVER */
    WORK = 1 << 18     /* number of products from which another thread pays off */
};

typedef struct {
    const Convolution *of;
    const Kernels *kernels;
    const float *x, *w;
    float *y, *patches;
    size_t count, length, apart; /* number of pixels, of elements of a patch, of elements between patches */
} Task;

/* Return 1 if the weights of an output are adjacent in memory, forward or backward along each axis. Store in `step` the
   number of elements from one tap to the next along each axis, and in `backward` which axes are backward. */
static int is_stored_by_output(const Convolution *c, size_t step[AXES], int backward[AXES]) {
    size_t length = c->channels;
    ptrdiff_t start = 0;
    for (int k = AXES; k-- > 0; length *= c->kernel[k]) {
        ptrdiff_t whole = (ptrdiff_t)length;
        step[k] = length;
        backward[k] = c->kernel[k] > 1 && c->w_tap[k] == -whole;
        if (c->spread[k] != 1 || (c->kernel[k] > 1 && c->w_tap[k] != whole && !backward[k]))
            return 0;
        start += backward[k] ? whole * (ptrdiff_t)(c->kernel[k] - 1) : 0;
    }
    return c->w_start == start && (c->channels == 1 || c->w_channel == 1) && c->w_output == (ptrdiff_t)length;
}

/* Copy the input patch of an output pixel of a group, in the order of the weights. Padding stays zero. */
static void copy_patch(const Task *task, const size_t step[AXES], const int backward[AXES], size_t pixel, size_t group,
                       float *to) {
    const Convolution *c = task->of;
    size_t image = pixel, place[AXES], tap[AXES], all = c->groups * c->channels;
    for (int k = AXES; k-- > 0; image /= c->out[k])
        place[k] = image % c->out[k];
    for (size_t t = 0; t < task->length / c->channels; t++) {
        size_t rest = t, from = image, offset = 0;
        int inside = 1;
        for (int k = AXES; k-- > 0; rest /= c->kernel[k])
            tap[k] = rest % c->kernel[k];
        for (int k = 0; k < AXES; k++) {
            ptrdiff_t at = (ptrdiff_t)place[k] * c->stride[k] + (ptrdiff_t)tap[k] * c->dilation[k] - c->low[k];
            inside = inside && at >= 0 && at < (ptrdiff_t)c->in[k];
            from = from * c->in[k] + (inside ? (size_t)at : 0);
            offset += (backward[k] ? c->kernel[k] - 1 - tap[k] : tap[k]) * step[k];
        }
        if (inside)
            memcpy(to + offset, task->x + from * all + group * c->channels, c->channels * sizeof(float));
    }
}

/* Multiply all patches by AT_ONCE rows of weights, or by one. The kernel always takes AT_ONCE rows, so a single row is
   passed to it AT_ONCE times. */
static void multiply_rows(const Task *task, const float *patches, const float *w, size_t count,
                          float sums[FEW_PIXELS][AT_ONCE]) {
    size_t apart = count == AT_ONCE ? task->length : 0, whole = task->length - task->length % OVER;
    for (size_t k = 0, length; k < whole; k += length) {
        length = smaller(LENGTH, whole - k);
        task->kernels->dots(patches + k, task->apart, task->count, w + k, apart, length, sums[0], AT_ONCE);
    }
    if (whole < task->length) {
        float rest[AT_ONCE * OVER] = {0};
        for (size_t n = 0; n < AT_ONCE; n++)
            memcpy(rest + n * OVER, w + n * apart + whole, (task->length - whole) * sizeof(float));
        task->kernels->dots(patches + whole, task->apart, task->count, rest, OVER, OVER, sums[0], AT_ONCE);
    }
}

/* Compute all pixels of some blocks of AT_ONCE outputs. */
static void compute(void *context, size_t first, size_t last, size_t participant) {
    const Task *task = context;
    const Convolution *c = task->of;
    size_t blocks = (c->outputs + AT_ONCE - 1) / AT_ONCE, all = c->groups * c->outputs;
    (void)participant;
    for (; first < last; first++) {
        size_t group = first / blocks, start = first % blocks * AT_ONCE, width = smaller(AT_ONCE, c->outputs - start);
        const float *patches = task->patches + group * task->count * task->apart;
        const float *w = task->w + (ptrdiff_t)group * c->w_group + (ptrdiff_t)start * c->w_output;
        size_t together = width == AT_ONCE ? AT_ONCE : 1;
        for (size_t n = 0; n < width; n += together) {
            float sums[FEW_PIXELS][AT_ONCE] = {{0}};
            multiply_rows(task, patches, w + n * task->length, together, sums);
            for (size_t m = 0; m < task->count; m++)
                memcpy(task->y + m * all + group * c->outputs + start + n, sums[m], together * sizeof(float));
        }
    }
}

int convolve_few(const Convolution *c, const float *x, const float *w, float *y) {
    Task task = {.of = c, .kernels = kernels(), .x = x, .w = w, .y = y};
    size_t step[AXES], blocks = c->groups * ((c->outputs + AT_ONCE - 1) / AT_ONCE);
    int backward[AXES];
    task.count = c->images * c->out[0] * c->out[1] * c->out[2];
    task.length = c->channels * c->kernel[0] * c->kernel[1] * c->kernel[2];
    if (task.count > FEW_PIXELS || task.length < OVER || (c->groups > 1 && c->outputs < AT_ONCE) ||
        !is_stored_by_output(c, step, backward))
        return 0;
    task.apart = (task.length + OVER - 1) / OVER * OVER;
    if ((task.patches = calloc(c->groups * task.count * task.apart, sizeof(float))) == NULL)
        return -1;
    for (size_t group = 0; group < c->groups; group++)
        for (size_t m = 0; m < task.count; m++)
            copy_patch(&task, step, backward, m, group, task.patches + (group * task.count + m) * task.apart);
    parallel_for(blocks, 1 + WORK / (AT_ONCE * task.length * task.count), compute, &task);
    free(task.patches);
    return 1;
}
