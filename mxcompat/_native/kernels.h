/* Products with matrices that are stored in less than float32, convolutions and attention: declarations shared by `pool.c`,
   `kernels.c`, `tiles.c`, `products.c`, `stored.c`, `quantized.c`, `convolve.c`, `few_pixels.c`, `attention.c` and
   `ffi.c`. They do not depend on Python. */
#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#pragma GCC visibility push(hidden)
#endif

static inline size_t smaller(size_t x, size_t y) { return x < y ? x : y; }

/* Round a number of floats up to a multiple of all numbers of lanes. */
static inline size_t padded(size_t count) { return (count + 15) / 16 * 16; }

/* pool.c */
typedef void (*Part)(void *context, size_t start, size_t stop, size_t participant);
size_t participants(void);
void parallel_for(size_t count, size_t grain, Part part, void *context);
int watch_forks(void);
void stop_threads(void);

/* Kinds of storage: integer codes with the given number of bits, small floats, half precision, float32, and scales. */
enum { CODES_1, CODES_2, CODES_3, CODES_4, CODES_5, CODES_6, CODES_8, E2M1, E4M3, BFLOAT16, FLOAT16, FLOAT32, E8M0 };
enum { STORED_KINDS = FLOAT16 + 1, AT_ONCE = 4, PADDING = 64 };

/* kernels.c. A row of the matrix. Its `bytes` can be read up to `PADDING` bytes beyond the end. It has `groups`
   groups of `group` elements; `group` is a multiple of `lanes`. Each group has a scale and a bias, if the kind has
   them. */
typedef struct {
    const uint8_t *bytes;
    const float *scales, *biases;
} Row;

/* out[r] += the dot product of row r and x, for `AT_ONCE` rows. Each partial sum has at most `most` groups. The kernel
   prefetches as many bytes as it reads, in the order of their addresses, from `ahead` bytes after the first row on. */
typedef void (*Dot)(const Row *rows, size_t groups, size_t group, size_t most, size_t ahead, const float *x, float *out);
/* out += the sum of x[r] * row r, over `AT_ONCE` rows. The kernel prefetches `ahead` bytes ahead in each row. */
typedef void (*Add)(const Row *rows, size_t groups, size_t group, size_t ahead, const float *x, float *out);
/* out = the elements of a row as floats. */
typedef void (*Unpack)(const Row *row, size_t groups, size_t group, size_t ahead, float *out);
/* out[m][n] += the dot product of x[m] and y[n], for `count` rows of x and AT_ONCE rows of y with `length` elements. */
typedef void (*Dots)(const float *x, size_t x_apart, size_t count, const float *y, size_t y_apart, size_t length,
                     float *out, size_t out_apart);
/* out[m] += the sum of x[m][k] * y[k], for `count` rows of x and `rows` rows of y. The rows of y have `length`
   elements, a multiple of `lanes`. */
typedef void (*Sums)(const float *x, size_t x_apart, size_t count, const float *y, size_t y_apart, size_t rows,
                     size_t length, float *out, size_t out_apart);
typedef void (*Cast)(const void *from, void *to, size_t count);
/* out = the result of an operation on the elements of x and y, or of x alone. `out` is no operand. */
typedef void (*Elementwise)(int operation, const float *x, const float *y, float *out, size_t count);
/* The order is that of `_IN_C` in `_ops/elementwise/elementwise_rules.py`. */
enum { PLUS, MINUS, TIMES, DIVIDED_BY, NEGATIVE, SQUARE, ROOT, INVERSE, INVERSE_ROOT, OPERATIONS };
/* x = exp(x - top), where `top` is the largest x. `count` is a multiple of `lanes`. Returns the sum. */
typedef float (*Exponentials)(float *x, size_t count, float *top);
/* x = x * scale + bias for each group. The product and the sum are each rounded to half precision if the kind says
   so. */
typedef void (*Rescale)(int kind, float *x, size_t groups, size_t group, const float *scales, const float *biases);

/* One part of a tile's sums: pointers to the rows of the left side, and the offset of the right side in `b`. */
enum { MOST_TILE_ROWS = 8, LEAST_TILE_ROWS = 4, MOST_TILE_COLUMNS = 32 };
typedef struct {
    const float *a[MOST_TILE_ROWS];
    size_t b;
} Piece;

/* out[m][n] = (or += if `add`) the sum over all pieces and k of a[m][k * apart] * b[k][n]: `tile_rows` rows, and
   `columns` columns, which is `lanes` or 2 * `lanes`. */
typedef void (*Tile)(const Piece *pieces, size_t count, size_t length, size_t apart, size_t columns, const float *b,
                     float *const *out, int add);
/* out[n] += the sum of a[k][n] * b[k][n] over `count` values of k, for `width` values of n. */
typedef void (*Depth)(const float *const *a, const float *const *b, size_t count, size_t width, float *out);

/* out[m][n] = (or += if `add`) the sum over taps t and channels c < `channels` of a[t][m][n - n % channels + c] *
   w[t][c][n]: `tile_rows` rows, and `lanes` columns, a multiple of `channels`. indices[c][n] = n - n % channels + c. */
typedef void (*Grouped)(const Piece *pieces, size_t taps, size_t channels, const int32_t *indices, const float *w,
                        float *const *out, int add);

typedef struct {
    const char *name;
    int tiled; /* 1 to use `multiply_tiles` */
    size_t lanes, tile_rows;
    Dot dot[STORED_KINDS];
    Add add[STORED_KINDS];
    Unpack unpack[STORED_KINDS];
    Dots dots;
    Sums sums;
    Cast widen[2], narrow[2]; /* casts from and to BFLOAT16 and FLOAT16 */
    Cast powers;              /* cast from E8M0 to floats */
    Cast erf;                 /* the error function of floats */
    Elementwise elementwise;
    Rescale rescale;
    Exponentials exponentials;
    Tile tile;
    Depth depth;
    Grouped grouped;
} Kernels;

void find_kernels(void);
const Kernels *kernels(void);
int choose_kernels(const char *name);

/* tiles.c. Sizes of an AMX tile: its rows, the elements of a row (a step), and their bytes in bfloat16. */
enum { TILE_EDGE = 16, TILE_STEP = 32, TILE_STEP_BYTES = 64 };

/* has_tiles: return 1 if the processor has AMX. tiles_allowed: return 1 if the process may use AMX; the first call asks
   the kernel for permission. */
int has_tiles(void);
int tiles_allowed(void);

/* sums[m][n] += the dot product of x[m] and row n of a matrix of bfloat16, or of the sum of two matrices.

   x has `rows` rows of `columns` elements, packed by `pack_line`; the product begins at its step `x_step`. A matrix has
   `count` rows, at most 32, of `inner` elements, `row_bytes` apart. If there is a second one, `rest`, then `inner` is a
   multiple of TILE_STEP. The sums have room for 32 columns. */
typedef struct {
    const uint8_t *matrix, *rest, *x;
    size_t count, inner, row_bytes, rows, columns, x_step, sums_apart;
    float *sums;
} TileProduct;

void multiply_tiles(const TileProduct *product);

/* Split floats into sums of two bfloat16, `high` and `rest`, which keep 16 bits. `count` is a multiple of TILE_EDGE. */
void split_floats(const float *from, size_t count, uint8_t *high, uint8_t *rest);

/* Copy a row of x into tiles: steps `first` to `last` of its `tile_steps(inner)`. The row has number `row` of `rows`
   rows. Each step of a row takes TILE_STEP_BYTES. */
void pack_line(const uint8_t *line, size_t inner, size_t first, size_t last, size_t rows, size_t row, uint8_t *packed);
size_t tile_steps(size_t inner);

/* products.c. Products with stored matrices: y[p] = x[lhs[p]] @ matrix[rhs[p]], with `rows` rows each. If `transposed`,
   the transposes of the matrices are stored. Without `lhs` or `rhs`, the index is p, or 0 if there is only one. All
   arrays are C-contiguous. */
typedef struct {
    int kind, scale_kind, bias_kind, x_kind, y_kind, transposed;
    size_t inner, outer; /* number of columns of x, and of y */
    size_t group;        /* the number of elements of a row that share a scale */
    const void *stored, *scales, *biases, *x;
    const float *units; /* a factor for the scales of each matrix, or NULL */
    void *y;
    size_t matrices, x_matrices, products, rows;
    const int32_t *lhs, *rhs;
} Product;

/* Compute the products. Return -1 if there is not enough memory. */
int multiply(const Product *product);

/* stored.c */
size_t bits_of(int kind);
size_t item_size(int kind);
void to_floats(int kind, const void *from, float *to, size_t count);
void from_floats(int kind, const float *from, void *to, size_t count);
void cast_all(int kind, int back, const void *from, void *to, size_t count);
void erf_of_all(const float *from, float *to, size_t count);

/* Unpack groups of elements to `out`. Integer codes are multiplied by their scale and added to their bias, each rounded
   to `step_kind`. Elements of other kinds are multiplied by their scale and `unit`. */
typedef struct {
    int kind, scale_kind, bias_kind, step_kind, out_kind;
    size_t groups, group;
    const void *stored, *scales, *biases;
    float unit;
    void *out;
} Unpacking;

void unpack_all(const Unpacking *unpacking);

/* convolve.c. Inputs (images, *in, groups * channels), outputs (images, *out, groups * outputs). Output o of an axis
   reads input (o * stride + tap * dilation - low) / spread, if this is an integer and inside. The index of a weight is
   w_start + group * w_group + output * w_output + channel * w_channel + (the sum over the axes of tap * w_tap). */
typedef struct {
    size_t images, groups, channels, outputs; /* number of channels and of outputs in each group */
    size_t in[3], out[3], kernel[3];
    ptrdiff_t stride[3], low[3], dilation[3], spread[3];
    ptrdiff_t w_start, w_group, w_output, w_channel, w_tap[3];
} Convolution;
enum { CONVOLUTION_NUMBERS = 32 };

int read_convolution(const int64_t *numbers, Convolution *convolution, size_t sizes[3]);

/* Compute y, or, with `for_weights`, the gradient of the weights from x and the cotangent y. Return -1 if there is not
   enough memory. */
int convolve(const Convolution *convolution, int for_weights, const float *x, float *w, float *y);

/* few_pixels.c. Compute y if the output has few pixels, and the weights of each output are adjacent in memory. Return 1
   if y was computed, 0 if not, or -1 if there is not enough memory. */
int convolve_few(const Convolution *convolution, const float *x, const float *w, float *y);

/* attention.c. Arrays q (batch, groups, rows, width), k (batch, groups, keys, width), v (batch, groups, keys, depth) and
   y (batch, groups, rows, depth). The rows of a group are the queries of the heads that share its keys, `queries` for
   each head. The groups and batches of k and v are as many elements apart as the members say; q and y are C-contiguous.
   Only the first `length` keys count. If `causal`, query i sees the keys before length - queries + i + 1. A mask is
   added to the scores (`terms`), or is 1 for keys that are seen (`seen`). Its elements of neighbouring batches, heads,
   queries and keys are `mask_apart` elements apart. `sinks` has a score for each head, or is NULL. */
typedef struct {
    int kind, causal;
    size_t batch, groups, rows, queries, width, depth, length;
    size_t k_batch, k_group, v_batch, v_group;
    float scale;
    const void *q, *k, *v;
    const uint8_t *seen;
    const float *terms;
    size_t mask_apart[4];
    const float *sinks;
    void *y;
} Attention;

/* Compute y. Return -1 if there is not enough memory. */
int attend(const Attention *attention);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
