/* Casts between floats and elements that are stored in less than float32, and the error function. */
#include "kernels.h"
#include <string.h>

enum {
    OVER = 16,          /* maximum number of elements, or of bytes, that a kernel takes at a time */
    MOST_GROUP = 128,   /* maximum number of elements of a group for `unpack_all` */
    GROUPS = 16,        /* number of groups that are unpacked at a time */
    CAST_AT_ONCE = 1 << 14,
    UNPACKED_AT_ONCE = 1 << 15,
};

size_t bits_of(int kind) {
    static const uint8_t bits[] = {1, 2, 3, 4, 5, 6, 8, 4, 8, 16, 16, 32, 8};
    return bits[kind];
}

size_t item_size(int kind) { return bits_of(kind) / 8; }

void to_floats(int kind, const void *from, float *to, size_t count) {
    const Kernels *k = kernels();
    if (kind == FLOAT32) {
        memcpy(to, from, count * sizeof(float));
    } else if (kind == E8M0) {
        k->powers(from, to, count);
    } else if (kind == E4M3) {
        static const float one = 1;
        size_t whole = count - count % k->lanes;
        uint8_t rest[OVER] = {0};
        float last[OVER];
        k->unpack[E4M3](&(Row){from, &one, NULL}, 1, whole, 0, to);
        memcpy(rest, (const uint8_t *)from + whole, count - whole);
        k->unpack[E4M3](&(Row){rest, &one, NULL}, 1, k->lanes, 0, last);
        memcpy(to + whole, last, (count - whole) * sizeof(float));
    } else {
        k->widen[kind - BFLOAT16](from, to, count);
    }
}

void from_floats(int kind, const float *from, void *to, size_t count) {
    if (kind == FLOAT32)
        memcpy(to, from, count * sizeof(float));
    else
        kernels()->narrow[kind - BFLOAT16](from, to, count);
}

typedef struct {
    int kind, back;
    const uint8_t *from;
    uint8_t *to;
} Casting;

static void cast_some(void *context, size_t first, size_t last, size_t participant) {
    const Casting *c = context;
    size_t half = first * 2, whole = first * sizeof(float);
    (void)participant;
    if (c->back)
        from_floats(c->kind, (const float *)(c->from + whole), c->to + half, last - first);
    else
        to_floats(c->kind, c->from + half, (float *)(c->to + whole), last - first);
}

/* Cast from half precision to floats, or back if `back`. */
void cast_all(int kind, int back, const void *from, void *to, size_t count) {
    Casting casting = {kind, back, from, to};
    parallel_for(count, CAST_AT_ONCE, cast_some, &casting);
}

typedef struct {
    const float *from;
    float *to;
} Floats;

static void erf_of_some(void *context, size_t first, size_t last, size_t participant) {
    const Floats *f = context;
    (void)participant;
    kernels()->erf(f->from + first, f->to + first, last - first);
}

/* Compute the error function of floats. */
void erf_of_all(const float *from, float *to, size_t count) {
    parallel_for(count, CAST_AT_ONCE, erf_of_some, &(Floats){from, to});
}

static void unpack_groups(void *context, size_t first, size_t last, size_t participant) {
    const Unpacking *u = context;
    float ones[GROUPS], zeros[GROUPS] = {0};
    (void)participant;
    for (size_t k = 0; k < GROUPS; k++)
        ones[k] = 1;
    for (; first < last; first += GROUPS) {
        float scales[GROUPS], biases[GROUPS], out[GROUPS * MOST_GROUP];
        uint8_t bytes[GROUPS * MOST_GROUP + OVER];
        size_t count = smaller(GROUPS, last - first), length = count * u->group, bits = bits_of(u->kind);
        memcpy(bytes, (const uint8_t *)u->stored + first * u->group * bits / 8, length * bits / 8);
        to_floats(u->scale_kind, (const uint8_t *)u->scales + first * item_size(u->scale_kind), scales, count);
        Row row = {bytes, scales, NULL};
        if (u->kind < E2M1) { /* unpack the codes without scales: `rescale` applies the scales, with rounding */
            to_floats(u->bias_kind, (const uint8_t *)u->biases + first * item_size(u->bias_kind), biases, count);
            row = (Row){bytes, ones, zeros};
        } else {
            for (size_t k = 0; k < count; k++)
                scales[k] *= u->unit;
        }
        kernels()->unpack[u->kind](&row, count, u->group, 0, out);
        if (u->kind < E2M1)
            kernels()->rescale(u->step_kind, out, count, u->group, scales, biases);
        from_floats(u->out_kind, out, (uint8_t *)u->out + first * u->group * item_size(u->out_kind), length);
    }
}

void unpack_all(const Unpacking *unpacking) {
    parallel_for(unpacking->groups, UNPACKED_AT_ONCE / unpacking->group / GROUPS * GROUPS, unpack_groups,
                 (void *)unpacking);
}
