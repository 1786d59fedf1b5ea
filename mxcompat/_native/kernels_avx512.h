/* Vectors for `kernels_of.h`: sixteen floats, with AVX-512. With VBMI, if MULTISHIFT is defined, one instruction moves
   codes to their lanes. */
#ifdef MULTISHIFT
#define INSTRUCTIONS "avx512vbmi"
#else
#define INSTRUCTIONS "avx512"
#endif
#define V __m512
#define LANES 16
#define TILE_COLUMNS 4
#define TILE_ROWS 8
#define EACH(value) _mm512_set1_ps(value)
#define LOAD(from) _mm512_loadu_ps(from)
#define STORE(to, x) _mm512_storeu_ps(to, x)
#define ADD(x, y) _mm512_add_ps(x, y)
#define MAXIMUM(x, y) _mm512_max_ps(x, y)
#define MULTIPLY(x, y) _mm512_mul_ps(x, y)
#define ADD_PRODUCT(x, y, z) _mm512_fmadd_ps(x, y, z)
#define TOTAL(x) _mm512_reduce_add_ps(x)
#define SELECT(x, indices) _mm512_permutexvar_ps(_mm512_loadu_si512(indices), x)

#ifndef SIXTEEN
#define OCTETS(bits, k) ((int)(0x80800000u | (BYTE_OF(bits, k) + 1) << 8 | BYTE_OF(bits, k)))
/* The bit at which the code of lane k begins, in the first eight bytes or in those with the second half of the codes. */
#define BEGINNING(bits, k) ((bits) * ((bits) > 4 ? (k) % 8 : (k)))
#define SIXTEEN(of, bits)                                                                                              \
    _mm512_setr_epi32(of(bits, 0), of(bits, 1), of(bits, 2), of(bits, 3), of(bits, 4), of(bits, 5), of(bits, 6),       \
                      of(bits, 7), of(bits, 8), of(bits, 9), of(bits, 10), of(bits, 11), of(bits, 12), of(bits, 13),   \
                      of(bits, 14), of(bits, 15))
#endif

/* A scale and a bias, or, for codes of up to five bits, a table of their scaled values. */
typedef struct {
    __m512 low, high;
} NAME(Units);

TARGET static INLINE NAME(Units) NAME(prepare)(int kind, int bits, float scale, float bias) {
    __m512 s = EACH(scale), b = EACH(bias);
    const __m512 codes = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    if (kind == E2M1)
        return (NAME(Units)){_mm512_mul_ps(_mm512_loadu_ps(E2M1_VALUES), s), s};
    if (kind >= BFLOAT16 || bits > 5)
        return (NAME(Units)){s, b};
    if (bits == 5)
        return (NAME(Units)){ADD_PRODUCT(codes, s, b), ADD_PRODUCT(_mm512_add_ps(codes, EACH(16)), s, b)};
    /* A lookup uses the lowest four bits. For shorter codes, the upper ones belong to the next code: repeat values. */
    __m512 values = bits == 4   ? codes
                    : bits == 3 ? _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7)
                    : bits == 2 ? _mm512_setr_ps(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3)
                                : _mm512_setr_ps(0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1);
    return (NAME(Units)){ADD_PRODUCT(values, s, b), b};
}

/* Move the codes of sixteen elements to the lowest bits of the lanes. The upper bits may hold parts of other codes. */
TARGET static INLINE __m512i NAME(spread)(int bits, const uint8_t *from) {
#ifdef MULTISHIFT
    /* the first operand has the bytes of the first half of the codes, the second those of the second half */
    int64_t first, second;
    memcpy(&first, from, 8);
    memcpy(&second, from + bits, 8);
    __m512i octets = _mm512_set1_epi64(first);
    if (bits > 4)
        octets = _mm512_mask_set1_epi64(octets, 0xF0, second);
    return _mm512_multishift_epi64_epi8(SIXTEEN(BEGINNING, bits), octets);
#else
    __m512i octets = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)from));
    return _mm512_srlv_epi32(_mm512_shuffle_epi8(octets, SIXTEEN(OCTETS, bits)), SIXTEEN(SHIFT_OF, bits));
#endif
}

TARGET static INLINE __m512 NAME(decode)(int kind, int bits, const uint8_t *from, NAME(Units) units) {
    if (kind == BFLOAT16) {
        __m256i halves = _mm256_loadu_si256((const __m256i *)from);
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
    }
    if (kind == FLOAT16)
        return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)from));
    __m128i octets = _mm_loadu_si128((const __m128i *)from);
    if (kind == E4M3) {
        __m256i wide = _mm256_cvtepi8_epi16(octets);
        __m256i halves = _mm256_andnot_si256(_mm256_set1_epi16(0x4000), _mm256_slli_epi16(wide, 7));
        const __m256i last = _mm256_set1_epi16(0x3F80);
        __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(halves, last), last);
        halves = _mm256_or_si256(halves, _mm256_and_si256(nan, _mm256_set1_epi16(0x7C00)));
        return _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtph_ps(halves), EACH(256)), units.low);
    }
    if (bits == 8)
        return ADD_PRODUCT(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(octets)), units.low, units.high);
    __m512i lanes = NAME(spread)(bits, from);
    if (bits < 5)
        return _mm512_permutexvar_ps(lanes, units.low);
    if (bits == 5)
        return _mm512_permutex2var_ps(units.low, lanes, units.high);
    lanes = _mm512_and_si512(lanes, _mm512_set1_epi32((1 << bits) - 1));
    return ADD_PRODUCT(_mm512_cvtepi32_ps(lanes), units.low, units.high);
}

TARGET static INLINE void NAME(to_halves)(int kind, __m512 x, uint16_t *to) {
    if (kind == FLOAT16) {
        _mm256_storeu_si256((__m256i *)to, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        return;
    }
    __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    up = _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet);
    _mm256_storeu_si256((__m256i *)to, _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16)));
}
