/* Products of bfloat16 by transposed matrices, with AMX: an instruction multiplies a tile of 16 rows of a matrix by 16
   rows of x. A processor without AMX uses the loops of `products.c`.

   The matrix is bfloat16, or the sum of two bfloat16 matrices, `matrix` and `rest`, which together hold 16 bits of each
   element. Sums are in float32. Subnormal operands and sums count as zeros. */
#include "kernels.h"
#include <string.h>

#if defined(__linux__) && defined(__x86_64__) && ((defined(__clang__) && __clang_major__ >= 12) || __GNUC__ >= 11)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TILED __attribute__((target("amx-tile,amx-bf16,avx512f")))
#define INLINE inline __attribute__((always_inline))

enum {
    PAIR_BYTES = 4,   /* bytes of two neighbouring elements, which AMX multiplies and adds together */
    REQUEST = 0x1023, /* ARCH_REQ_XCOMP_PERM: request permission to use a feature of the processor */
    TILE_DATA = 18    /* the number of that feature: the tiles */
};

int has_tiles(void) {
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d >> 22 & 1 && d >> 24 & 1 && b >> 16 & 1;
}

int tiles_allowed(void) {
    static int known; /* 1 if they are not allowed, 2 if they are */
    int found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (found == 0) {
        found = 1 + (has_tiles() && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0);
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found == 2;
}

size_t tile_steps(size_t inner) { return (inner + TILE_STEP - 1) / TILE_STEP; }

/* The operand of `_tile_loadconfig`: the numbers of rows, and of bytes of a row, of the eight tiles. */
typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} Shapes;

/* Configure the tiles: 0 to 3 are sums, 4 and 5 hold rows of the matrix, and 6 and 7 hold rows of x. */
TILED static void shape_tiles(const size_t *rows, const size_t *columns) {
    Shapes shapes = {.palette = 1};
    for (int k = 0; k < 4; k++) {
        if (rows[k / 2] == 0 || columns[k % 2] == 0)
            continue;
        shapes.rows[k] = (uint8_t)rows[k / 2];
        shapes.row_bytes[k] = (uint16_t)(columns[k % 2] * sizeof(float));
    }
    for (int k = 0; k < 2; k++) {
        shapes.rows[4 + k] = (uint8_t)rows[k];
        shapes.row_bytes[4 + k] = rows[k] > 0 ? TILE_STEP_BYTES : 0;
        shapes.rows[6 + k] = columns[k] > 0 ? TILE_EDGE : 0;
        shapes.row_bytes[6 + k] = (uint16_t)(columns[k] * PAIR_BYTES);
    }
    _tile_loadconfig(&shapes);
}

/* Load up to two tiles of a matrix, and add their products with the loaded tiles of x to the sums. */
TILED static INLINE void add_products(int tiles, int x_tiles, const uint8_t *rows, size_t rows_apart) {
    _tile_loadd(4, rows, rows_apart);
    _tile_dpbf16ps(0, 4, 6);
    if (x_tiles > 1)
        _tile_dpbf16ps(1, 4, 7);
    if (tiles > 1) {
        _tile_loadd(5, rows + TILE_EDGE * rows_apart, rows_apart);
        _tile_dpbf16ps(2, 5, 6);
        if (x_tiles > 1)
            _tile_dpbf16ps(3, 5, 7);
    }
}

/* Multiply `tiles` tiles of the matrix by `x_tiles` of x, and store the sums to `out`. `last` is a copy of the
   matrix's last step, padded with zeros, or NULL if the rows' length is a multiple of TILE_STEP. */
TILED static INLINE void multiply_with(int tiles, int x_tiles, const TileProduct *p, const uint8_t *last,
                                       const uint8_t *const *x, const size_t *columns,
                                       float out[4][TILE_EDGE * TILE_EDGE]) {
    size_t apart[2] = {columns[0] * PAIR_BYTES, columns[1] * PAIR_BYTES}, steps = tile_steps(p->inner);
    _tile_zero(0);
    if (x_tiles > 1)
        _tile_zero(1);
    if (tiles > 1)
        _tile_zero(2);
    if (tiles > 1 && x_tiles > 1)
        _tile_zero(3);
    for (size_t step = 0; step < steps; step++) {
        _tile_loadd(6, x[0] + (p->x_step + step) * TILE_EDGE * apart[0], apart[0]);
        if (x_tiles > 1)
            _tile_loadd(7, x[1] + (p->x_step + step) * TILE_EDGE * apart[1], apart[1]);
        if (last != NULL && step + 1 == steps)
            add_products(tiles, x_tiles, last, TILE_STEP_BYTES);
        else
            add_products(tiles, x_tiles, p->matrix + step * TILE_STEP_BYTES, p->row_bytes);
        if (p->rest != NULL)
            add_products(tiles, x_tiles, p->rest + step * TILE_STEP_BYTES, p->row_bytes);
    }
    _tile_stored(0, out[0], TILE_EDGE * sizeof(float));
    if (x_tiles > 1)
        _tile_stored(1, out[1], TILE_EDGE * sizeof(float));
    if (tiles > 1)
        _tile_stored(2, out[2], TILE_EDGE * sizeof(float));
    if (tiles > 1 && x_tiles > 1)
        _tile_stored(3, out[3], TILE_EDGE * sizeof(float));
}

/* Add the first `columns` columns of a tile to the first rows of `out`. */
TILED static void add_transposed(const float *tile, size_t columns, float *out, size_t out_apart) {
    __m512 a[TILE_EDGE], b[TILE_EDGE];
    for (int k = 0; k < TILE_EDGE; k++)
        a[k] = _mm512_loadu_ps(tile + k * TILE_EDGE);
    for (int k = 0; k < TILE_EDGE; k += 2) {
        b[k] = _mm512_unpacklo_ps(a[k], a[k + 1]);
        b[k + 1] = _mm512_unpackhi_ps(a[k], a[k + 1]);
    }
    for (int k = 0; k < TILE_EDGE; k += 4)
        for (int i = 0; i < 2; i++) { /* lane l of a[k + c] then has column 4 * l + c of rows k to k + 3 */
            __m512d low = _mm512_castps_pd(b[k + i]), high = _mm512_castps_pd(b[k + 2 + i]);
            a[k + 2 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            a[k + 2 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    for (int c = 0; c < 4; c++) {
        __m512 even = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x88), odd = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xDD);
        __m512 more = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x88);
        __m512 most = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xDD);
        b[c] = _mm512_shuffle_f32x4(even, more, 0x88);
        b[8 + c] = _mm512_shuffle_f32x4(even, more, 0xDD);
        b[4 + c] = _mm512_shuffle_f32x4(odd, most, 0x88);
        b[12 + c] = _mm512_shuffle_f32x4(odd, most, 0xDD);
    }
    for (size_t k = 0; k < columns; k++)
        _mm512_storeu_ps(out + k * out_apart, _mm512_add_ps(_mm512_loadu_ps(out + k * out_apart), b[k]));
}

TILED void multiply_tiles(const TileProduct *p) {
    size_t all_steps = tile_steps(p->columns), count = p->count, over = p->inner * 2 % TILE_STEP_BYTES;
    size_t heights[2] = {smaller(count, TILE_EDGE), count - smaller(count, TILE_EDGE)};
    float out[4][TILE_EDGE * TILE_EDGE] = {{0}};
    uint8_t padded[2 * TILE_EDGE * TILE_STEP_BYTES] = {0};
    for (size_t k = 0; over > 0 && k < count; k++)
        memcpy(padded + k * TILE_STEP_BYTES, p->matrix + k * p->row_bytes + p->inner * 2 - over, over);
    const uint8_t *last = over > 0 ? padded : NULL;
    for (size_t first = 0; first < p->rows; first += 2 * TILE_EDGE) {
        size_t left = p->rows - first, width = smaller(left, TILE_EDGE);
        size_t columns[2] = {width, smaller(left - width, TILE_EDGE)};
        const uint8_t *start = p->x + first * all_steps * TILE_STEP_BYTES;
        const uint8_t *both[2] = {start, start + TILE_EDGE * all_steps * TILE_STEP_BYTES};
        shape_tiles(heights, columns);
        if (heights[1] > 0 && columns[1] > 0)
            multiply_with(2, 2, p, last, both, columns, out);
        else if (heights[1] > 0)
            multiply_with(2, 1, p, last, both, columns, out);
        else if (columns[1] > 0)
            multiply_with(1, 2, p, last, both, columns, out);
        else
            multiply_with(1, 1, p, last, both, columns, out);
        for (size_t k = 0; k < 4; k++)
            if (heights[k / 2] > 0 && columns[k % 2] > 0)
                add_transposed(out[k], columns[k % 2],
                               p->sums + (first + k % 2 * TILE_EDGE) * p->sums_apart + k / 2 * TILE_EDGE,
                               p->sums_apart);
    }
    _tile_release();
}

TILED void split_floats(const float *from, size_t count, uint8_t *high, uint8_t *rest) {
    const __m512i exponent = _mm512_set1_epi32(0x7F800000), half = _mm512_set1_epi32(0x8000);
    for (size_t k = 0; k < count; k += TILE_EDGE) {
        __m512i bits = _mm512_loadu_si512(from + k), top = _mm512_and_si512(bits, _mm512_set1_epi32(-0x10000));
        __mmask16 finite = _mm512_cmpneq_epi32_mask(_mm512_and_si512(bits, exponent), exponent);
        __m512i below = _mm512_castps_si512(
            _mm512_maskz_sub_ps(finite, _mm512_castsi512_ps(bits), _mm512_castsi512_ps(top)));
        below = _mm512_srli_epi32(_mm512_add_epi32(below, half), 16);
        _mm256_storeu_si256((__m256i *)(high + 2 * k), _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
        _mm256_storeu_si256((__m256i *)(rest + 2 * k), _mm512_cvtepi32_epi16(below));
    }
}

void pack_line(const uint8_t *line, size_t inner, size_t first, size_t last, size_t rows, size_t row, uint8_t *packed) {
    size_t tile = row / TILE_EDGE * TILE_EDGE, width = smaller(rows - tile, TILE_EDGE), bytes = inner * 2;
    uint8_t *to = packed + tile * tile_steps(inner) * TILE_STEP_BYTES + (row - tile) * PAIR_BYTES;
    for (size_t pair = first * TILE_EDGE; pair < last * TILE_EDGE; pair++) {
        size_t start = pair * PAIR_BYTES, length = start < bytes ? smaller(bytes - start, PAIR_BYTES) : 0;
        uint8_t two[PAIR_BYTES] = {0};
        if (length == PAIR_BYTES)
            memcpy(two, line + start, PAIR_BYTES);
        else if (length > 0)
            memcpy(two, line + start, 2);
        memcpy(to + pair * width * PAIR_BYTES, two, PAIR_BYTES);
    }
}

#else

int has_tiles(void) { return 0; }

int tiles_allowed(void) { return 0; }

void multiply_tiles(const TileProduct *p) { (void)p; }

void split_floats(const float *from, size_t count, uint8_t *high, uint8_t *rest) {
    (void)from, (void)count, (void)high, (void)rest;
}

size_t tile_steps(size_t inner) { return inner; }

void pack_line(const uint8_t *line, size_t inner, size_t first, size_t last, size_t rows, size_t row, uint8_t *packed) {
    (void)line, (void)inner, (void)first, (void)last, (void)rows, (void)row, (void)packed;
}
#endif
