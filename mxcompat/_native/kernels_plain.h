/* Vectors for `kernels_of.h`, for any processor: eight floats, which the compiler maps to the processor's vectors. */
#define INSTRUCTIONS "plain"
#define V Eight
#define LANES 8
#define TILE_COLUMNS 2
#define TILE_ROWS 4
#define EACH(value) eight_of(value)
#define LOAD(from) load_eight(from)
#define STORE(to, x) store_eight(to, x)
#define ADD(x, y) add_eight(x, y)
#define MAXIMUM(x, y) maximum_of_eight(x, y)
#define MULTIPLY(x, y) multiply_eight(x, y)
#define ADD_PRODUCT(x, y, z) add_eight(multiply_eight(x, y), z)
#define TOTAL(x) total_of_eight(x)
#define SELECT(x, indices) eight_at(x, indices)

typedef struct {
    float at[8];
} Eight;

static INLINE Eight eight_of(float value) {
    Eight out;
    for (int k = 0; k < 8; k++)
        out.at[k] = value;
    return out;
}

static INLINE Eight load_eight(const float *from) {
    Eight out;
    memcpy(out.at, from, sizeof out.at);
    return out;
}

static INLINE void store_eight(float *to, Eight x) { memcpy(to, x.at, sizeof x.at); }

static INLINE Eight add_eight(Eight x, Eight y) {
    for (int k = 0; k < 8; k++)
        x.at[k] += y.at[k];
    return x;
}

/* Where x is NaN, the result is y. */
static INLINE Eight maximum_of_eight(Eight x, Eight y) {
    for (int k = 0; k < 8; k++)
        x.at[k] = x.at[k] > y.at[k] ? x.at[k] : y.at[k];
    return x;
}

static INLINE Eight multiply_eight(Eight x, Eight y) {
    for (int k = 0; k < 8; k++)
        x.at[k] *= y.at[k];
    return x;
}

static INLINE Eight eight_at(Eight x, const int32_t *indices) {
    Eight out;
    for (int k = 0; k < 8; k++)
        out.at[k] = x.at[indices[k]];
    return out;
}

static INLINE float total_of_eight(Eight x) {
    return ((x.at[0] + x.at[4]) + (x.at[2] + x.at[6])) + ((x.at[1] + x.at[5]) + (x.at[3] + x.at[7]));
}

typedef struct {
    float scale, bias;
} NAME(Units);

static INLINE NAME(Units) NAME(prepare)(int kind, int bits, float scale, float bias) {
    (void)kind, (void)bits;
    return (NAME(Units)){scale, bias};
}

static INLINE Eight NAME(decode)(int kind, int bits, const uint8_t *from, NAME(Units) units) {
    Eight out;
    uint16_t halves[8];
    if (kind == BFLOAT16 || kind == FLOAT16)
        memcpy(halves, from, sizeof halves);
    for (int k = 0; k < 8; k++) {
        if (kind == BFLOAT16) {
            out.at[k] = brain_of(halves[k]);
        } else if (kind == FLOAT16) {
            out.at[k] = half_of(halves[k]);
        } else if (kind == E4M3) {
            out.at[k] = e4m3_values[from[k]] * units.scale;
        } else {
            uint32_t code = from[BYTE_OF(bits, k)] >> SHIFT_OF(bits, k);
            if (SHIFT_OF(bits, k) + bits > 8)
                code |= (uint32_t)from[BYTE_OF(bits, k) + 1] << (8 - SHIFT_OF(bits, k));
            code &= (1u << bits) - 1;
            if (kind == E2M1)
                out.at[k] = E2M1_VALUES[code] * units.scale;
            else
                out.at[k] = (float)(int)code * units.scale + units.bias;
        }
    }
    return out;
}

static INLINE void NAME(to_halves)(int kind, Eight x, uint16_t *to) {
    for (int k = 0; k < 8; k++)
        to[k] = kind == FLOAT16 ? to_half(x.at[k]) : to_brain(x.at[k]);
}
