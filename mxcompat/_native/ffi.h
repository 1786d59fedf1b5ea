/* XLA's C interface for foreign functions, version 0: the parts that `ffi.c` reads, declared independently. Each
   structure begins with its size in the version of its creator. `tests/test_ffi.py` compares them with jaxlib's
   header. */
#include <stddef.h>
#include <stdint.h>

enum { FFI_MAJOR = 0, FFI_METADATA = 1, FFI_EXECUTE = 3, FFI_ARRAY = 1, FFI_INVALID_ARGUMENT = 3, FFI_EXHAUSTED = 8 };
enum { FFI_BOOL = 1, FFI_INT32 = 4, FFI_INT64 = 5, FFI_UINT8 = 6, FFI_FLOAT16 = 10, FFI_FLOAT32 = 11, FFI_BFLOAT16 = 16 };

typedef struct FfiExtension {
    size_t size;
    int kind;
    struct FfiExtension *next;
} FfiExtension;

typedef struct {
    size_t size;
    FfiExtension *extension;
    int major, minor;
} FfiVersion;

typedef struct {
    size_t size;
    FfiVersion version;
    uint32_t traits;
} FfiMetadata;

typedef struct {
    FfiExtension base;
    FfiMetadata *metadata;
} FfiMetadataExtension;

typedef struct {
    size_t size;
    FfiExtension *extension;
    const char *message;
    int code;
} FfiError;

typedef struct {
    size_t size;
    FfiExtension *extension;
    FfiVersion version;
    const void *internal;
    void *(*make_error)(FfiError *error);
} FfiFunctions;

typedef struct {
    size_t size;
    FfiExtension *extension;
    int dtype;
    void *data;
    int64_t rank;
    const int64_t *shape;
} FfiBuffer;

typedef struct { /* the arguments, or the results */
    size_t size;
    FfiExtension *extension;
    int64_t count;
    const int *kinds;
    FfiBuffer *const *buffers;
} FfiBuffers;

typedef struct {
    int dtype;
    size_t count;
    const void *data;
} FfiArray;

typedef struct {
    size_t size;
    FfiExtension *extension;
    int64_t count;
    const int *kinds;
    const void *const *names;
    const void *const *values;
} FfiAttributes;

typedef struct {
    size_t size;
    FfiExtension *extension;
    const FfiFunctions *functions;
    void *context;
    int stage;
    FfiBuffers arguments, results;
    FfiAttributes attributes;
} FfiCall;
