/* The inner loops of products with stored matrices and of convolutions, for each instruction set. Each version includes
   `kernels_of.h` with other vectors. The processor's instruction sets are determined at the first use. */
#include "kernels.h"
#include <math.h>
#include <string.h>

#ifdef __GNUC__
#define INLINE inline __attribute__((always_inline))
#define PREFETCH(from) __builtin_prefetch(from)
#else
#define INLINE inline
#define PREFETCH(from) (void)(from)
#endif
enum { LINE = 64 }; /* bytes of a cache line */

static INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* The exponential of x <= 0: 2^n * exp(rest), where the rest is at most ln(2) / 2 and exp(rest) is a polynomial. The
   error is at most 2 units in the last place. Results below 2^-126 are 0. */
static INLINE float exponential(float x) {
    const float least = -87.33f, integers = 0x1.8p23f; /* adding `integers` rounds to an integer, in the lowest bits */
    float clipped = x < least ? least : x, shifted = clipped * 1.44269504f + integers, n = shifted - integers;
    float rest = clipped - n * 0.693359375f + n * 2.12194440e-4f;
    float sum = 1.9875691500e-4f;
    sum = sum * rest + 1.3981999507e-3f;
    sum = sum * rest + 8.3334519073e-3f;
    sum = sum * rest + 4.1665795894e-2f;
    sum = sum * rest + 1.6666665459e-1f;
    sum = sum * rest + 5.0000001201e-1f;
    uint32_t bits;
    memcpy(&bits, &shifted, 4);
    float power = float_of((bits + 127) << 23);
    return x < least ? 0 : (sum * rest * rest + rest + 1) * power;
}

#ifdef __aarch64__
static INLINE float half_of(uint32_t half) {
    uint16_t bits = (uint16_t)half;
    __fp16 value;
    memcpy(&value, &bits, 2);
    return value;
}
#else
static float half_of(uint32_t half) {
    uint32_t sign = (half & 0x8000) << 16, size = half & 0x7FFF;
    if (size < 0x400) /* subnormal numbers are multiples of 2^-24 */
        return sign ? (float)size * -0x1p-24f : (float)size * 0x1p-24f;
    return float_of(sign | ((size << 13) + (size < 0x7C00 ? 112u << 23 : 224u << 23)));
}
#endif

static float e4m3_values[256];

static void find_e4m3_values(void) {
    for (uint32_t code = 0; code < 256; code++) {
        uint32_t sign = (code & 0x80) << 24, size = code & 0x7F;
        float tiny = (float)size * (sign ? -0x1p-9f : 0x1p-9f);
        e4m3_values[code] = size < 8 ? tiny : size == 0x7F ? NAN : float_of(sign | ((size << 20) + (120u << 23)));
    }
}

static uint16_t to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000)
        return (uint16_t)(sign | 0x7E00 | (size >> 13 & 0x3FF));
    if (size >= 0x477FF000) /* round to infinity if the value exceeds the largest half by half a step */
        return (uint16_t)(sign | 0x7C00);
    if (size < 0x38800000) { /* adding 1/2 rounds to a multiple of 2^-24 */
        float small;
        memcpy(&small, &size, 4);
        small += 0.5f;
        memcpy(&size, &small, 4);
        return (uint16_t)(sign | (size - 0x3F000000));
    }
    return (uint16_t)(sign | ((size + 0xFFF + (size >> 13 & 1) - (112u << 23)) >> 13));
}

static INLINE float brain_of(uint32_t brain) { return float_of(brain << 16); }

static uint16_t to_brain(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7FFFFFFF) > 0x7F800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static const float E2M1_VALUES[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

/* The coefficients of the error function in `_ops/elementwise/erf.py`, and the bits of the float 3.95. */
static const uint32_t ERF_LIMIT = 0x407CCCCD;
static const double ERF_ABOVE[] = {
    -1.2966840607434883e-08, 4.640390388967881e-06,  3.779354020568983e-04, 3.8433735390767435e-03,
    5.427475616584058e-02,   1.8516924416423225e-01, 1.1283791692258276};
static const double ERF_BELOW[] = {6.269209189743629e-05,  1.3040612723177157e-03, 1.5443718772419589e-02,
                                   1.1391104588569873e-01, 4.9743537910476743e-01, 1.0};

/* Find the byte in which code k begins, and the code's shift in this byte. Both repeat for every eight codes. */
#define BYTE_OF(bits, k) ((k) * (bits) / 8)
#define SHIFT_OF(bits, k) ((k) * (bits) % 8)

#if defined(__GNUC__) && defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512vbmi,avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define NAME(name) name##_avx512vbmi
#define MULTISHIFT
#include "kernels_avx512.h"
#include "kernels_of.h"
#undef MULTISHIFT
#undef TARGET
#undef NAME

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,f16c")))
#define NAME(name) name##_avx512
#include "kernels_avx512.h"
#include "kernels_of.h"
#undef TARGET
#undef NAME

#define TARGET __attribute__((target("avx2,fma,f16c")))
#define NAME(name) name##_avx2
#include "kernels_avx2.h"
#include "kernels_of.h"
#undef TARGET
#undef NAME
#endif

#define TARGET
#define NAME(name) name##_plain
#include "kernels_plain.h"
#include "kernels_of.h"

static Kernels kernels_amx = {.name = "amx", .tiled = 1}; /* otherwise those of avx512vbmi */

static const Kernels *const all[] = {
#if defined(__GNUC__) && defined(__x86_64__)
    &kernels_amx,        &kernels_avx512vbmi, &kernels_avx512, &kernels_avx2,
#endif
    &kernels_plain};
enum { ALL_KERNELS = sizeof all / sizeof *all };

static const Kernels *chosen;

/* Return 1 if this processor has the instructions for a version. */
static int runs(const Kernels *some) {
#if defined(__GNUC__) && defined(__x86_64__)
    __builtin_cpu_init();
    if (some != &kernels_plain &&
        !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")))
        return 0;
    if (some == &kernels_plain || some == &kernels_avx2)
        return 1;
    if (some == &kernels_amx && !has_tiles())
        return 0;
    return (some == &kernels_avx512 || __builtin_cpu_supports("avx512vbmi")) && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
#else
    (void)some;
    return 1;
#endif
}

/* Find the fastest version for this processor. Called once, before all other functions of this file. */
void find_kernels(void) {
    find_e4m3_values();
#if defined(__GNUC__) && defined(__x86_64__)
    kernels_amx = kernels_avx512vbmi;
    kernels_amx.name = "amx";
    kernels_amx.tiled = 1;
#endif
    for (int k = 0; chosen == NULL; k++)
        if (runs(all[k]))
            chosen = all[k];
}

const Kernels *kernels(void) { return chosen; }

/* Choose a version by name, for tests. Return -1 if there is none of that name for this processor. */
int choose_kernels(const char *name) {
    for (int k = 0; k < ALL_KERNELS; k++)
        if (strcmp(all[k]->name, name) == 0 && runs(all[k])) {
            chosen = all[k];
            return 0;
        }
    return -1;
}
