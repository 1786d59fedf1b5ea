/* The loops of `kernels.c`, for the vectors that the macros V, LANES and their operations define. They are undefined at
   the end, for the next version. */

TARGET static INLINE void NAME(dot_of)(int kind, int bits, const Row *rows, size_t groups, size_t group, size_t most,
                                       size_t ahead, const float *x, float *out) {
    const uint8_t *from[AT_ONCE], *next = rows[0].bytes + ahead, *end = next;
    V sums[AT_ONCE];
    for (int r = 0; r < AT_ONCE; r++) {
        from[r] = rows[r].bytes;
        sums[r] = EACH(0);
    }
    for (size_t g = 0, left = most; g < groups; g++) {
        NAME(Units) units[AT_ONCE];
        for (int r = 0; r < AT_ONCE; r++)
            units[r] = NAME(prepare)(kind, bits, kind < BFLOAT16 ? rows[r].scales[g] : 0,
                                     kind < E2M1 ? rows[r].biases[g] : 0);
        for (end += AT_ONCE * group * bits / 8; next < end; next += LINE)
            PREFETCH(next);
        for (size_t k = 0; k < group; k += LANES, x += LANES)
            for (int r = 0; r < AT_ONCE; r++) {
                sums[r] = ADD_PRODUCT(NAME(decode)(kind, bits, from[r], units[r]), LOAD(x), sums[r]);
                from[r] += LANES * bits / 8;
            }
        if (--left == 0 || g + 1 == groups) {
            for (int r = 0; r < AT_ONCE; r++) {
                out[r] += TOTAL(sums[r]);
                sums[r] = EACH(0);
            }
            left = most;
        }
    }
}

TARGET static INLINE void NAME(unpack_of)(int kind, int bits, const Row *row, size_t groups, size_t group,
                                          size_t ahead, float *out) {
    const uint8_t *from = row->bytes;
    for (size_t g = 0; g < groups; g++) {
        NAME(Units) units = NAME(prepare)(kind, bits, kind < BFLOAT16 ? row->scales[g] : 0,
                                          kind < E2M1 ? row->biases[g] : 0);
        for (size_t k = 0; k < group * bits / 8; k += LINE)
            PREFETCH(from + k + ahead);
        for (size_t k = 0; k < group; k += LANES, from += LANES * bits / 8, out += LANES)
            STORE(out, NAME(decode)(kind, bits, from, units));
    }
}

TARGET static INLINE void NAME(add_of)(int kind, int bits, const Row *rows, size_t groups, size_t group, size_t ahead,
                                       const float *x, float *out) {
    const uint8_t *from[AT_ONCE];
    V factors[AT_ONCE];
    for (int r = 0; r < AT_ONCE; r++) {
        from[r] = rows[r].bytes;
        factors[r] = EACH(x[r]);
    }
    for (size_t g = 0; g < groups; g++) {
        NAME(Units) units[AT_ONCE];
        for (int r = 0; r < AT_ONCE; r++) {
            units[r] = NAME(prepare)(kind, bits, kind < BFLOAT16 ? rows[r].scales[g] : 0,
                                     kind < E2M1 ? rows[r].biases[g] : 0);
            for (size_t k = 0; k < group * bits / 8; k += LINE)
                PREFETCH(from[r] + k + ahead);
        }
        for (size_t k = 0; k < group; k += LANES, out += LANES) {
            V sum = LOAD(out);
            for (int r = 0; r < AT_ONCE; r++) {
                sum = ADD_PRODUCT(NAME(decode)(kind, bits, from[r], units[r]), factors[r], sum);
                from[r] += LANES * bits / 8;
            }
            STORE(out, sum);
        }
    }
}

#define STORED(kind, bits)                                                                                             \
    TARGET static void NAME(dot_##kind)(const Row *rows, size_t groups, size_t group, size_t most, size_t ahead,       \
                                        const float *x, float *out) {                                                  \
        NAME(dot_of)(kind, bits, rows, groups, group, most, ahead, x, out);                                            \
    }                                                                                                                  \
    TARGET static void NAME(add_##kind)(const Row *rows, size_t groups, size_t group, size_t ahead, const float *x,    \
                                        float *out) {                                                                  \
        NAME(add_of)(kind, bits, rows, groups, group, ahead, x, out);                                                  \
    }                                                                                                                  \
    TARGET static void NAME(unpack_##kind)(const Row *row, size_t groups, size_t group, size_t ahead, float *out) {    \
        NAME(unpack_of)(kind, bits, row, groups, group, ahead, out);                                                   \
    }

STORED(CODES_1, 1)
STORED(CODES_2, 2)
STORED(CODES_3, 3)
STORED(CODES_4, 4)
STORED(CODES_5, 5)
STORED(CODES_6, 6)
STORED(CODES_8, 8)
STORED(E2M1, 4)
STORED(E4M3, 8)
STORED(BFLOAT16, 16)
STORED(FLOAT16, 16)
#undef STORED

TARGET static INLINE void NAME(dots_of)(int count, const float *x, size_t x_apart, const float *y, size_t y_apart,
                                        size_t length, float *out, size_t out_apart) {
    V sums[AT_ONCE][AT_ONCE];
    for (int m = 0; m < count; m++)
        for (int n = 0; n < AT_ONCE; n++)
            sums[m][n] = EACH(0);
    for (size_t k = 0; k < length; k += LANES) {
        V left[AT_ONCE];
        for (int m = 0; m < count; m++)
            left[m] = LOAD(x + m * x_apart + k);
        for (int n = 0; n < AT_ONCE; n++) {
            V right = LOAD(y + n * y_apart + k);
            for (int m = 0; m < count; m++)
                sums[m][n] = ADD_PRODUCT(left[m], right, sums[m][n]);
        }
    }
    for (int m = 0; m < count; m++)
        for (int n = 0; n < AT_ONCE; n++)
            out[m * out_apart + n] += TOTAL(sums[m][n]);
}

TARGET static void NAME(dots)(const float *x, size_t x_apart, size_t count, const float *y, size_t y_apart,
                              size_t length, float *out, size_t out_apart) {
    for (; count >= 4; count -= 4, x += 4 * x_apart, out += 4 * out_apart)
        NAME(dots_of)(4, x, x_apart, y, y_apart, length, out, out_apart);
    switch (count) {
    case 3: NAME(dots_of)(3, x, x_apart, y, y_apart, length, out, out_apart); break;
    case 2: NAME(dots_of)(2, x, x_apart, y, y_apart, length, out, out_apart); break;
    case 1: NAME(dots_of)(1, x, x_apart, y, y_apart, length, out, out_apart); break;
    }
}

TARGET static INLINE void NAME(sums_of)(int count, int columns, const float *x, size_t x_apart, const float *y,
                                        size_t y_apart, size_t rows, float *out, size_t out_apart) {
    V sums[AT_ONCE][TILE_COLUMNS];
    for (int m = 0; m < count; m++)
        for (int n = 0; n < columns; n++)
            sums[m][n] = LOAD(out + m * out_apart + n * LANES);
    for (size_t k = 0; k < rows; k++) {
        V right[TILE_COLUMNS];
        for (int n = 0; n < columns; n++)
            right[n] = LOAD(y + k * y_apart + n * LANES);
        for (int m = 0; m < count; m++) {
            V left = EACH(x[m * x_apart + k]);
            for (int n = 0; n < columns; n++)
                sums[m][n] = ADD_PRODUCT(left, right[n], sums[m][n]);
        }
    }
    for (int m = 0; m < count; m++)
        for (int n = 0; n < columns; n++)
            STORE(out + m * out_apart + n * LANES, sums[m][n]);
}

#define ROWS(count)                                                                                                    \
    for (n = 0; n + TILE_COLUMNS * LANES <= length; n += TILE_COLUMNS * LANES)                                         \
        NAME(sums_of)(count, TILE_COLUMNS, x, x_apart, y + n, y_apart, rows, out + n, out_apart);                      \
    for (; n < length; n += LANES)                                                                                     \
        NAME(sums_of)(count, 1, x, x_apart, y + n, y_apart, rows, out + n, out_apart);

TARGET static void NAME(sums)(const float *x, size_t x_apart, size_t count, const float *y, size_t y_apart,
                              size_t rows, size_t length, float *out, size_t out_apart) {
    size_t n;
    for (; count >= 4; count -= 4, x += 4 * x_apart, out += 4 * out_apart) {
        ROWS(4)
    }
    switch (count) {
    case 3: ROWS(3) break;
    case 2: ROWS(2) break;
    case 1: ROWS(1) break;
    }
}
#undef ROWS

/* Casts to and from half precision. The last elements, which do not fill a vector, are cast individually. */
#define CAST(kind, of, to)                                                                                             \
    TARGET static void NAME(widen_##kind)(const void *source, void *target, size_t count) {                            \
        const uint16_t *from = source;                                                                                 \
        float *out = target;                                                                                           \
        for (; count >= LANES; count -= LANES, from += LANES, out += LANES)                                            \
            STORE(out, NAME(decode)(kind, 16, (const uint8_t *)from, NAME(prepare)(kind, 16, 0, 0)));                  \
        for (; count > 0; count--)                                                                                     \
            *out++ = of(*from++);                                                                                      \
    }                                                                                                                  \
    TARGET static void NAME(narrow_##kind)(const void *source, void *target, size_t count) {                           \
        const float *from = source;                                                                                    \
        uint16_t *out = target;                                                                                        \
        for (; count >= LANES; count -= LANES, from += LANES, out += LANES)                                            \
            NAME(to_halves)(kind, LOAD(from), out);                                                                    \
        for (; count > 0; count--)                                                                                     \
            *out++ = to(*from++);                                                                                      \
    }

CAST(BFLOAT16, brain_of, to_brain)
CAST(FLOAT16, half_of, to_half)
#undef CAST

/* Convert E8M0 codes to powers of two. */
TARGET static void NAME(powers)(const void *source, void *target, size_t count) {
    const uint8_t *from = source;
    uint32_t *out = target;
    for (size_t k = 0; k < count; k++)
        out[k] = from[k] == 0 ? 1u << 22 : (uint32_t)from[k] << 23;
}

/* Compute the error function: x times a rational function of x squared, see `_ops/elementwise/erf.py`. */
TARGET static void NAME(erf)(const void *source, void *target, size_t count) {
    const uint32_t *from = source;
    float *out = target;
    for (size_t k = 0; k < count; k++) { /* GCC makes vectors of it only if the comparisons are those of integers */
        uint32_t size = from[k] & 0x7FFFFFFF, limited = size < ERF_LIMIT ? size : ERF_LIMIT;
        double x = float_of((from[k] & 0x80000000) | (size > 0x7F800000 ? size : limited)), square = x * x, above, below;
        above = ERF_ABOVE[0];
        for (size_t i = 1; i < sizeof ERF_ABOVE / sizeof *ERF_ABOVE; i++)
            above = above * square + ERF_ABOVE[i];
        below = ERF_BELOW[0];
        for (size_t i = 1; i < sizeof ERF_BELOW / sizeof *ERF_BELOW; i++)
            below = below * square + ERF_BELOW[i];
        out[k] = (float)(x * above / below);
    }
}

#define FOR_EACH(result)                                                                                               \
    for (size_t k = 0; k < count; k++)                                                                                 \
        out[k] = result;                                                                                               \
    break

TARGET static void NAME(elementwise)(int operation, const float *restrict x, const float *restrict y,
                                     float *restrict out, size_t count) {
    switch (operation) {
    case PLUS: FOR_EACH(x[k] + y[k]);
    case MINUS: FOR_EACH(x[k] - y[k]);
    case TIMES: FOR_EACH(x[k] * y[k]);
    case DIVIDED_BY: FOR_EACH(x[k] / y[k]);
    case NEGATIVE: FOR_EACH(-x[k]);
    case SQUARE: FOR_EACH(x[k] * x[k]);
    case ROOT: FOR_EACH(sqrtf(x[k]));
    case INVERSE: FOR_EACH(1 / x[k]);
    case INVERSE_ROOT: FOR_EACH(1 / sqrtf(x[k]));
    }
}
#undef FOR_EACH

/* Round floats to half precision. */
TARGET static INLINE V NAME(rounded)(int kind, V x) {
    uint16_t halves[LANES];
    NAME(to_halves)(kind, x, halves);
    return NAME(decode)(kind, 16, (const uint8_t *)halves, NAME(prepare)(kind, 16, 0, 0));
}

TARGET static INLINE void NAME(rescale_in)(int kind, float *x, size_t groups, size_t group, const float *scales,
                                           const float *biases) {
    for (size_t g = 0; g < groups; g++) {
        V scale = EACH(scales[g]), bias = EACH(biases[g]);
        for (size_t k = 0; k < group; k += LANES, x += LANES) {
            V product = MULTIPLY(LOAD(x), scale);
            product = ADD(kind == FLOAT32 ? product : NAME(rounded)(kind, product), bias);
            STORE(x, kind == FLOAT32 ? product : NAME(rounded)(kind, product));
        }
    }
}

TARGET static void NAME(rescale)(int kind, float *x, size_t groups, size_t group, const float *scales,
                                 const float *biases) {
    switch (kind) {
    case BFLOAT16: NAME(rescale_in)(BFLOAT16, x, groups, group, scales, biases); break;
    case FLOAT16: NAME(rescale_in)(FLOAT16, x, groups, group, scales, biases); break;
    default: NAME(rescale_in)(FLOAT32, x, groups, group, scales, biases);
    }
}

TARGET static float NAME(exponentials)(float *x, size_t count, float *top) {
    V most = EACH(-INFINITY);
    for (size_t k = 0; k < count; k += LANES)
        most = MAXIMUM(LOAD(x + k), most); /* NaN is ignored here; the sum is NaN then */
    float tops[LANES], largest = -INFINITY;
    STORE(tops, most);
    for (size_t n = 0; n < LANES; n++)
        largest = tops[n] > largest ? tops[n] : largest;
    *top = largest;
    if (largest == -INFINITY) /* then the sum is 0, unless x has NaN */
        largest = 0;
    for (size_t k = 0; k < count; k++)
        x[k] = exponential(x[k] - largest);
    V sum = EACH(0);
    for (size_t k = 0; k < count; k += LANES)
        sum = ADD(sum, LOAD(x + k));
    return TOTAL(sum);
}

/* These kernels are described in `kernels.h`. */
TARGET static INLINE void NAME(tile_of)(int vectors, const Piece *pieces, size_t count, size_t length, size_t apart,
                                        const float *b, float *const *out, int add) {
    V sums[TILE_ROWS][2];
    for (int m = 0; m < TILE_ROWS; m++)
        for (int n = 0; n < vectors; n++)
            sums[m][n] = EACH(0);
    for (; count > 0; count--, pieces++) {
        const float *a[TILE_ROWS], *right = b + pieces->b;
        for (int m = 0; m < TILE_ROWS; m++)
            a[m] = pieces->a[m];
        for (size_t k = 0; k < length; k++, right += vectors * LANES) {
            V all[2];
            for (int n = 0; n < vectors; n++)
                all[n] = LOAD(right + n * LANES);
            for (int m = 0; m < TILE_ROWS; m++) {
                V left = EACH(a[m][k * apart]);
                for (int n = 0; n < vectors; n++)
                    sums[m][n] = ADD_PRODUCT(left, all[n], sums[m][n]);
            }
        }
    }
    for (int m = 0; m < TILE_ROWS; m++)
        for (int n = 0; n < vectors; n++) {
            float *to = out[m] + n * LANES;
            STORE(to, add ? ADD(LOAD(to), sums[m][n]) : sums[m][n]);
        }
}

TARGET static void NAME(tile)(const Piece *pieces, size_t count, size_t length, size_t apart, size_t columns,
                              const float *b, float *const *out, int add) {
    if (columns == LANES)
        NAME(tile_of)(1, pieces, count, length, apart, b, out, add);
    else
        NAME(tile_of)(2, pieces, count, length, apart, b, out, add);
}

TARGET static void NAME(grouped)(const Piece *pieces, size_t taps, size_t channels, const int32_t *indices,
                                 const float *w, float *const *out, int add) {
    V sums[TILE_ROWS];
    for (int m = 0; m < TILE_ROWS; m++)
        sums[m] = EACH(0);
    for (; taps > 0; taps--, pieces++) {
        V left[TILE_ROWS];
        for (int m = 0; m < TILE_ROWS; m++)
            left[m] = LOAD(pieces->a[m]);
        const float *right = w + pieces->b;
        for (size_t c = 0; c < channels; c++, right += LANES)
            for (int m = 0; m < TILE_ROWS; m++)
                sums[m] = ADD_PRODUCT(SELECT(left[m], indices + c * LANES), LOAD(right), sums[m]);
    }
    for (int m = 0; m < TILE_ROWS; m++)
        STORE(out[m], add ? ADD(LOAD(out[m]), sums[m]) : sums[m]);
}

TARGET static void NAME(depth)(const float *const *a, const float *const *b, size_t count, size_t width, float *out) {
    size_t n = 0;
    for (; n + 4 * LANES <= width; n += 4 * LANES) {
        V sums[4] = {EACH(0), EACH(0), EACH(0), EACH(0)};
        for (size_t k = 0; k < count; k++)
            for (int i = 0; i < 4; i++)
                sums[i] = ADD_PRODUCT(LOAD(a[k] + n + i * LANES), LOAD(b[k] + n + i * LANES), sums[i]);
        for (int i = 0; i < 4; i++)
            STORE(out + n + i * LANES, ADD(LOAD(out + n + i * LANES), sums[i]));
    }
    for (; n + LANES <= width; n += LANES) {
        V sum = EACH(0);
        for (size_t k = 0; k < count; k++)
            sum = ADD_PRODUCT(LOAD(a[k] + n), LOAD(b[k] + n), sum);
        STORE(out + n, ADD(LOAD(out + n), sum));
    }
    for (; n < width; n++) {
        float sum = 0;
        for (size_t k = 0; k < count; k++)
            sum += a[k][n] * b[k][n];
        out[n] += sum;
    }
}

#define ALL(what)                                                                                                      \
    {                                                                                                                  \
        NAME(what##_CODES_1), NAME(what##_CODES_2), NAME(what##_CODES_3), NAME(what##_CODES_4), NAME(what##_CODES_5),  \
            NAME(what##_CODES_6), NAME(what##_CODES_8), NAME(what##_E2M1), NAME(what##_E4M3), NAME(what##_BFLOAT16),   \
            NAME(what##_FLOAT16)                                                                                       \
    }

static const Kernels NAME(kernels) = {
    .name = INSTRUCTIONS,
    .lanes = LANES,
    .dot = ALL(dot),
    .add = ALL(add),
    .unpack = ALL(unpack),
    .dots = NAME(dots),
    .sums = NAME(sums),
    .widen = {NAME(widen_BFLOAT16), NAME(widen_FLOAT16)},
    .narrow = {NAME(narrow_BFLOAT16), NAME(narrow_FLOAT16)},
    .powers = NAME(powers),
    .erf = NAME(erf),
    .elementwise = NAME(elementwise),
    .rescale = NAME(rescale),
    .exponentials = NAME(exponentials),
    .tile_rows = TILE_ROWS,
    .tile = NAME(tile),
    .depth = NAME(depth),
    .grouped = NAME(grouped),
};
#undef ALL

#undef INSTRUCTIONS
#undef V
#undef LANES
#undef TILE_COLUMNS
#undef TILE_ROWS
#undef EACH
#undef LOAD
#undef STORE
#undef ADD
#undef MAXIMUM
#undef MULTIPLY
#undef ADD_PRODUCT
#undef TOTAL
#undef SELECT
