/* Products with matrices that are stored in less than float32: what `pool.c`, `kernels.c`, `products.c`, `packed.c` and
   `ffi.c` have in common. Nothing here knows of Python. */
#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#pragma GCC visibility push(hidden)
#endif

/* of pool.c */
typedef void (*Part)(void *context, size_t start, size_t stop, size_t participant);
size_t participants(void);
void parallel_for(size_t count, size_t grain, Part part, void *context);
int watch_forks(void);
void stop_threads(void);

/* How elements are stored: codes of so many bits, small floats, or half precision. */
enum { CODES_1, CODES_2, CODES_3, CODES_4, CODES_5, CODES_6, CODES_8, E2M1, E4M3, BFLOAT16, FLOAT16, FLOAT32, E8M0 };
enum { STORED_KINDS = FLOAT16 + 1, AT_ONCE = 4, PADDING = 64 };

/* of kernels.c. A row of the matrix is `bytes`, of which so many as `PADDING` can be read beyond its end, in `groups` of
   `group` elements, each with a scale and a bias (if its kind has them). `group` is a multiple of `lanes`. */
typedef struct {
    const uint8_t *bytes;
    const float *scales, *biases;
} Row;

/* out[r] += the product of row r, of `AT_ONCE`, and x: of `most` groups at a time. What is `ahead` bytes behind will be
   read next. */
typedef void (*Dot)(const Row *rows, size_t groups, size_t group, size_t most, size_t ahead, const float *x, float *out);
/* out += the sum of all x[r] * row r. */
typedef void (*Add)(const Row *rows, size_t groups, size_t group, size_t ahead, const float *x, float *out);
/* out = the elements of a row as floats. */
typedef void (*Unpack)(const Row *row, size_t groups, size_t group, size_t ahead, float *out);
/* out[m][n] += the product of x[m] and y[n]: `count` rows of x, AT_ONCE of y, `length` elements. */
typedef void (*Dots)(const float *x, size_t x_apart, size_t count, const float *y, size_t y_apart, size_t length,
                     float *out, size_t out_apart);
/* out[m] += the sum of x[m][k] * y[k]: `count` rows of x, `rows` of y, of `length` elements, a multiple of `lanes`. */
typedef void (*Sums)(const float *x, size_t x_apart, size_t count, const float *y, size_t y_apart, size_t rows,
                     size_t length, float *out, size_t out_apart);
typedef void (*Cast)(const void *from, void *to, size_t count);
/* x = x * scale + bias for each group, both steps rounded to a kind. */
typedef void (*Rescale)(int kind, float *x, size_t groups, size_t group, const float *scales, const float *biases);

typedef struct {
    const char *name;
    size_t lanes;
    Dot dot[STORED_KINDS];
    Add add[STORED_KINDS];
    Unpack unpack[STORED_KINDS];
    Dots dots;
    Sums sums;
    Cast widen[2], narrow[2]; /* of BFLOAT16 and FLOAT16 */
    Cast powers;              /* of E8M0, as floats */
    Rescale rescale;
} Kernels;

void find_kernels(void);
const Kernels *kernels(void);
int choose_kernels(const char *name);

/* of products.c. Products of `rows` rows of x each with a stored matrix: y[p] = x[lhs[p]] @ matrix[rhs[p]], of which the
   transpose is stored if `transposed`. Without `lhs` and `rhs` p itself, or the only one there is. All lie in order. */
typedef struct {
    int kind, scale_kind, bias_kind, x_kind, y_kind, transposed;
    size_t inner, outer; /* x is of `inner` columns, y of `outer` */
    size_t group;        /* the number of elements of a row that share a scale */
    const void *stored, *scales, *biases, *x;
    const float *units; /* a number for each matrix that its scales are multiplied by; or NULL */
    void *y;
    size_t matrices, x_matrices, products, rows;
    const int32_t *lhs, *rhs;
} Product;

/* Returns -1 if there is no memory. */
int multiply(const Product *product);

/* of stored.c */
size_t bits_of(int kind);
size_t item_size(int kind);
void to_floats(int kind, const void *from, float *to, size_t count);
void from_floats(int kind, const float *from, void *to, size_t count);
void cast_all(int kind, int back, const void *from, void *to, size_t count);

/* out = the elements of groups, each scaled and, of codes, with its bias, rounded after both steps to `step_kind`. The
   scales of other kinds are multiplied by `unit`. */
typedef struct {
    int kind, scale_kind, bias_kind, step_kind, out_kind;
    size_t groups, group;
    const void *stored, *scales, *biases;
    float unit;
    void *out;
} Unpacking;

void unpack_all(const Unpacking *unpacking);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
