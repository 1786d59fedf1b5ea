/* Vectors for `kernels_of.h`: eight floats, with AVX2. */
#define INSTRUCTIONS "avx2"
#define V __m256
#define LANES 8
#define TILE_COLUMNS 2
#define TILE_ROWS 6
#define EACH(value) _mm256_set1_ps(value)
#define LOAD(from) _mm256_loadu_ps(from)
#define STORE(to, x) _mm256_storeu_ps(to, x)
#define ADD(x, y) _mm256_add_ps(x, y)
#define MAXIMUM(x, y) _mm256_max_ps(x, y)
#define MULTIPLY(x, y) _mm256_mul_ps(x, y)
#define ADD_PRODUCT(x, y, z) _mm256_fmadd_ps(x, y, z)
#define TOTAL(x) NAME(total)(x)
#define SELECT(x, indices) _mm256_permutevar8x32_ps(x, _mm256_loadu_si256((const __m256i *)(indices)))

#define EIGHT(of, bits)                                                                                                \
    _mm256_setr_epi32(of(bits, 0), of(bits, 1), of(bits, 2), of(bits, 3), of(bits, 4), of(bits, 5), of(bits, 6),       \
                      of(bits, 7))

TARGET static INLINE float NAME(total)(__m256 x) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

typedef struct {
    __m256 low, high;
} NAME(Units);

TARGET static INLINE NAME(Units) NAME(prepare)(int kind, int bits, float scale, float bias) {
    __m256 s = EACH(scale), b = EACH(bias);
    if (kind == E2M1)
        return (NAME(Units)){_mm256_mul_ps(_mm256_loadu_ps(E2M1_VALUES), s), s};
    if (kind >= BFLOAT16 || bits > 3)
        return (NAME(Units)){s, b};
    __m256 values = bits == 3   ? _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7)
                    : bits == 2 ? _mm256_setr_ps(0, 1, 2, 3, 0, 1, 2, 3)
                                : _mm256_setr_ps(0, 1, 0, 1, 0, 1, 0, 1);
    return (NAME(Units)){ADD_PRODUCT(values, s, b), b};
}

TARGET static INLINE __m256 NAME(decode)(int kind, int bits, const uint8_t *from, NAME(Units) units) {
    if (kind == BFLOAT16) {
        __m128i halves = _mm_loadu_si128((const __m128i *)from);
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    }
    if (kind == FLOAT16)
        return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
    __m128i octets = _mm_loadl_epi64((const __m128i *)from);
    if (kind == E4M3) {
        __m128i halves = _mm_andnot_si128(_mm_set1_epi16(0x4000), _mm_slli_epi16(_mm_cvtepi8_epi16(octets), 7));
        const __m128i last = _mm_set1_epi16(0x3F80);
        __m128i nan = _mm_cmpeq_epi16(_mm_and_si128(halves, last), last);
        halves = _mm_or_si128(halves, _mm_and_si128(nan, _mm_set1_epi16(0x7C00)));
        return _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtph_ps(halves), EACH(256)), units.low);
    }
    if (bits == 8)
        return ADD_PRODUCT(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(octets)), units.low, units.high);
    __m256i lanes = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(octets), EIGHT(OCTETS, bits));
    lanes = _mm256_srlv_epi32(lanes, EIGHT(SHIFT_OF, bits));
    if (kind == E2M1) {
        __m256 negative = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(lanes, 3), 31));
        return _mm256_xor_ps(_mm256_permutevar8x32_ps(units.low, lanes), negative);
    }
    if (bits < 4)
        return _mm256_permutevar8x32_ps(units.low, lanes);
    lanes = _mm256_and_si256(lanes, _mm256_set1_epi32((1 << bits) - 1));
    return ADD_PRODUCT(_mm256_cvtepi32_ps(lanes), units.low, units.high);
}

TARGET static INLINE void NAME(to_halves)(int kind, __m256 x, uint16_t *to) {
    if (kind == FLOAT16) {
        _mm_storeu_si128((__m128i *)to, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        return;
    }
    __m256i bits = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    up = _mm256_blendv_epi8(up, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
    up = _mm256_packus_epi32(_mm256_srli_epi32(up, 16), _mm256_setzero_si256());
    _mm_storeu_si128((__m128i *)to, _mm256_castsi256_si128(_mm256_permute4x64_epi64(up, 8)));
}
