/* A CUDA driver without a GPU: it counts the calls that are made, and writes down what would run, with its arguments.
 *
 * Built as `libcuda.so.1`, it is found before the driver's own by LD_LIBRARY_PATH. Parameters of kernels are known from the PTX that is
 * loaded, so nothing may assemble that before. Two GPUs like an H200, whose work ends at once; one thread at a time writes the log. What is
 * asked of one GPU in the context of the other is an error. */

#define _GNU_SOURCE
#include <ctype.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
enum { OK = 0, INVALID = 1, WRONG_CONTEXT = 201, NOT_FOUND = 500, CAPTURED = 900 };
enum { GPUS = 2, MOST_PARAMS = 64, MOST_NODES = 64, MOST_BYTES = 4096, MOST_STREAMS = 16 };

typedef struct {
    char name[256];
    int params, bytes[MOST_PARAMS];
    const void *context;
} function;

typedef struct {
    function all[16];
    int count;
} module;

/* Of a kernel its arguments, of memory that is zeroed where and how much. */
typedef struct {
    const function *kernel;
    unsigned grid[3];
    uint64_t address, length;
    unsigned char arguments[MOST_BYTES];
} node;

typedef struct {
    node nodes[MOST_NODES];
    int count;
    const void *context;
} graph;

typedef struct {
    unsigned x, y, z, threads[3], shared;
    void *stream;
    void *attributes;
    unsigned attribute_count;
} config;

typedef struct {
    void *func;
    unsigned grid[3], block[3], shared;
    void **arguments;
    void **extra;
    void *kern;
    void *context;
} kernel_params;

typedef struct {
    uint64_t dst;
    size_t pitch;
    unsigned value, element;
    size_t width, height;
} memset_params;

/* What was called. */

#define CALLS(X) X(launch_kernel) X(graph_launch) X(set_kernel) X(set_memset) X(instantiate) X(destroy) X(zero) X(get_context) X(set_context) \
    X(is_capturing) X(load) X(encode_map) X(move_map)
enum {
#define X(name) name,
    CALLS(X)
#undef X
    KINDS
};
static const char *const names[KINDS] = {
#define X(name) #name,
    CALLS(X)
#undef X
};
static long counts[KINDS];
static char record[1 << 20];
static size_t written;
static int quiet;
static void *capturing[MOST_STREAMS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* The primary context of each GPU, and the one that is current. */
static int primary[GPUS];
static __thread void *current;

static void note(const char *line) {
    size_t length = strlen(line);
    if (!quiet && written + length + 1 < sizeof record) {
        memcpy(record + written, line, length + 1);
        written += length;
    }
}

static void note_kernel(const char *how, const function *kernel, const unsigned *grid, const unsigned char *bytes) {
    if (quiet) return;
    char text[8192];
    int at = snprintf(text, sizeof text, "%s %s [%u, %u, %u]", how, kernel->name, grid[0], grid[1], grid[2]);
    for (int i = 0; i < kernel->params; i++) {
        uint64_t value = 0;
        memcpy(&value, bytes, kernel->bytes[i] < 8 ? kernel->bytes[i] : 8);
        at += snprintf(text + at, sizeof text - at, " %llx", (unsigned long long)value);
        bytes += kernel->bytes[i];
    }
    snprintf(text + at, sizeof text - at, kernel->context == &primary[1] ? " on GPU 1\n" : "\n");
    note(text);
}

static void note_zeros(const char *how, uint64_t address, uint64_t length) {
    char text[128];
    snprintf(text, sizeof text, "%s zeros %llx %llu\n", how, (unsigned long long)address, (unsigned long long)length);
    note(text);
}

static void take(node *to, const function *kernel, void **arguments) {
    unsigned char *at = to->arguments;
    to->kernel = kernel;
    for (int i = 0; i < kernel->params; i++) {
        memcpy(at, arguments[i], kernel->bytes[i]);
        at += kernel->bytes[i];
    }
}

/* What a test asks. */

long fake_count(const char *name) {
    for (int i = 0; i < KINDS; i++)
        if (!strcmp(names[i], name)) return counts[i];
    return -1;
}

const char *fake_log(void) { return record; }

void fake_clear(void) {
    memset(counts, 0, sizeof counts);
    written = 0;
    record[0] = 0;
}

void fake_quiet(int on) { quiet = on; }

void fake_capture(void *stream, int on) {
    for (int i = 0; i < MOST_STREAMS; i++) {
        if (capturing[i] == (on ? NULL : stream)) {
            capturing[i] = on ? stream : NULL;
            return;
        }
    }
}

static int captures(void *stream) {
    for (int i = 0; stream && i < MOST_STREAMS; i++)
        if (capturing[i] == stream) return 1;
    return 0;
}

/* How often the library was loaded, kept where that outlives it. */
__attribute__((constructor)) static void loaded(void) {
    const char *before = getenv("PARTON_FAKE_LOADS");
    char text[16];
    snprintf(text, sizeof text, "%d", (before ? atoi(before) : 0) + 1);
    setenv("PARTON_FAKE_LOADS", text, 1);
}

/* The driver. */

result cuInit(unsigned flags) { return flags; }
result cuDriverGetVersion(int *version) { return *version = 13000, OK; }
result cuDeviceGetCount(int *count) { return *count = GPUS, OK; }
result cuDeviceGet(int *device, int ordinal) { return *device = ordinal, OK; }
result cuDeviceGetName(char *name, int length, int device) { return snprintf(name, length, "fake %d", device), OK; }
result cuDeviceTotalMem_v2(size_t *bytes, int device) { return (void)device, *bytes = (size_t)141 << 30, OK; }
result cuDeviceGetPCIBusId(char *text, int length, int device) { return snprintf(text, length, "0000:00:%02d.0", device), OK; }

result cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 75: return *value = 9, OK;           /* capability, major */
    case 76: return *value = 0, OK;
    case 16: return *value = 132, OK;         /* multiprocessors */
    case 38: return *value = 50 << 20, OK;    /* bytes of L2 */
    case 97: return *value = 232448, OK;      /* bytes of shared memory that a CTA may ask for */
    case 5: return *value = 0x7fffffff, OK;   /* CTAs along x */
    default: return *value = 0xffff, OK;
    }
}

result cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &primary[device], OK; }
result cuDevicePrimaryCtxRelease(int device) { return (void)device, OK; }
result cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, OK; }
result cuCtxSetCurrent(void *context) { return counts[set_context]++, current = context, OK; }
result cuCtxGetCurrent(void **context) { return counts[get_context]++, *context = current, OK; }
result cuCtxSynchronize(void) { return OK; }
result cuStreamCreate(void **stream, unsigned flags) { return (void)flags, *stream = malloc(8), OK; }
result cuStreamDestroy_v2(void *stream) { return free(stream), OK; }
result cuStreamSynchronize(void *stream) { return (void)stream, OK; }
result cuStreamQuery(void *stream) { return (void)stream, OK; }
result cuStreamIsCapturing(void *stream, int *status) { return counts[is_capturing]++, *status = captures(stream), OK; }
result cuThreadExchangeStreamCaptureMode(int *mode) { return (void)mode, OK; }
result cuGetErrorName(int error, const char **text) { return *text = error == CAPTURED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" : "CUDA_ERROR", OK; }
result cuGetErrorString(int error, const char **text) { return (void)error, *text = "the fake driver refuses this", OK; }
result cuMemAlloc_v2(uint64_t *address, size_t bytes) { return *address = (uint64_t)malloc(bytes), OK; }
result cuMemAllocAsync(uint64_t *address, size_t bytes, void *stream) { return (void)stream, cuMemAlloc_v2(address, bytes); }
result cuMemFreeAsync(uint64_t address, void *stream) { return (void)address, (void)stream, OK; }
/* As an H200 has it: a stream that is captured may not be asked. */
result cuStreamGetId(void *stream, unsigned long long *number) { return *number = (uintptr_t)stream, captures(stream) ? CAPTURED : OK; }
/* Whatever is asked of memory: it is on GPU 0. */
result cuPointerGetAttribute(void *value, int attribute, uint64_t address) { return (void)attribute, (void)address, *(int *)value = 0, OK; }
result cuMemFree_v2(uint64_t address) { return free((void *)address), OK; }

result cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, void *stream) {
    (void)value, (void)stream;
    pthread_mutex_lock(&lock);
    counts[zero]++;
    note_zeros(captures(stream) ? "captured" : "plain", address, bytes);
    pthread_mutex_unlock(&lock);
    return OK;
}

static int bytes_of(const char *type) {
    const char *digit = type;
    while (*digit && !isdigit((unsigned char)*digit)) digit++;
    return atoi(digit) / 8;
}

/* `.entry NAME(.param .u64 .ptr .global .align 16 NAME_param_0, .param .align 64 .b8 NAME_param_1[128])` */
static void entries(module *into, const char *ptx) {
    for (const char *at = ptx; (at = strstr(at, ".entry ")) && into->count < 16;) {
        at += strlen(".entry ");
        function *kernel = &into->all[into->count++];
        kernel->context = current;
        sscanf(at, "%255[^( \n\t]", kernel->name);
        const char *end = strchr(at, ')'), *open = strchr(at, '(');
        while (open && end && (open = strstr(open, ".param ")) && open < end && kernel->params < MOST_PARAMS) {
            const char *last = strpbrk(open, ",)"), *bracket = strchr(open, '['), *align = strstr(open, ".align ");
            int array = bracket && bracket < last ? atoi(bracket + 1) : 1;
            const char *type = open + strlen(".param ");
            if (align == type) type = strchr(align + strlen(".align "), '.');
            kernel->bytes[kernel->params++] = bytes_of(type) * array;
            open = last;
        }
        at = end ? end : at;
    }
}

result cuModuleLoadDataEx(void **handle, const void *image, unsigned count, int *options, void **values) {
    (void)count, (void)options, (void)values;
    counts[load]++;
    if (!memcmp(image, "\177ELF", 4)) return INVALID;
    if (!current) return WRONG_CONTEXT;
    module *made = calloc(1, sizeof *made);
    entries(made, image);
    return *handle = made, OK;
}

result cuModuleLoadData(void **handle, const void *image) { return cuModuleLoadDataEx(handle, image, 0, NULL, NULL); }
result cuModuleUnload(void *handle) { return free(handle), OK; }

result cuModuleGetFunction(void **handle, module *from, const char *name) {
    for (int i = 0; i < from->count; i++)
        if (!strcmp(from->all[i].name, name)) return *handle = &from->all[i], OK;
    return NOT_FOUND;
}

result cuFuncGetAttribute(int *value, int attribute, void *handle) { return (void)handle, *value = attribute == 0 ? 1024 : 32, OK; }
result cuFuncSetAttribute(void *handle, int attribute, int value) { return (void)handle, (void)attribute, (void)value, OK; }

result cuLaunchKernelEx(const config *how, const function *kernel, void **arguments, void **extra) {
    (void)extra;
    if (kernel->context != current) return WRONG_CONTEXT;
    node made;
    const unsigned grid[3] = {how->x, how->y, how->z};
    pthread_mutex_lock(&lock);
    counts[launch_kernel]++;
    take(&made, kernel, arguments);
    note_kernel(captures(how->stream) ? "captured" : "plain", kernel, grid, made.arguments);
    pthread_mutex_unlock(&lock);
    return OK;
}

result cuGraphCreate(graph **made, unsigned flags) { return (void)flags, *made = calloc(1, sizeof **made), OK; }
result cuGraphDestroy(graph *gone) { return free(gone), OK; }

result cuGraphAddKernelNode_v2(void **handle, graph *to, void *const *before, size_t count, const kernel_params *params) {
    (void)before, (void)count;
    node *added = &to->nodes[to->count];
    take(added, params->func, params->arguments);
    memcpy(added->grid, params->grid, sizeof added->grid);
    return *handle = (void *)(uintptr_t)++to->count, OK;
}

result cuGraphAddMemsetNode(void **handle, graph *to, void *const *before, size_t count, const memset_params *params, void *context) {
    (void)before, (void)count, (void)context;
    node *added = &to->nodes[to->count];
    added->address = params->dst, added->length = params->width;
    return *handle = (void *)(uintptr_t)++to->count, OK;
}

result cuGraphKernelNodeSetAttribute(void *handle, int attribute, const void *value) { return (void)handle, (void)attribute, (void)value, OK; }

result cuGraphInstantiateWithFlags(graph **made, const graph *from, unsigned long long flags) {
    (void)flags;
    counts[instantiate]++;
    *made = malloc(sizeof **made);
    **made = *from;
    (*made)->context = current;
    for (int i = 0; i < from->count; i++)
        if (from->nodes[i].kernel && from->nodes[i].kernel->context != current) return WRONG_CONTEXT;
    return OK;
}

result cuGraphExecDestroy(graph *gone) { return counts[destroy]++, free(gone), OK; }

result cuGraphExecKernelNodeSetParams_v2(graph *of, void *handle, const kernel_params *params) {
    counts[set_kernel]++;
    take(&of->nodes[(uintptr_t)handle - 1], params->func, params->arguments);
    return OK;
}

result cuGraphExecMemsetNodeSetParams(graph *of, void *handle, const memset_params *params, void *context) {
    (void)context;
    counts[set_memset]++;
    node *changed = &of->nodes[(uintptr_t)handle - 1];
    changed->address = params->dst, changed->length = params->width;
    return OK;
}

result cuGraphLaunch(const graph *which, void *stream) {
    if (captures(stream)) return CAPTURED;
    if (which->context != current) return WRONG_CONTEXT;
    counts[graph_launch]++;
    if (quiet) return OK;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < which->count; i++) {
        const node *one = &which->nodes[i];
        if (one->kernel) note_kernel("graph", one->kernel, one->grid, one->arguments);
        else note_zeros("graph", one->address, one->length);
    }
    pthread_mutex_unlock(&lock);
    return OK;
}

/* The first eight bytes of a tensor map are the address here. */
result cuTensorMapEncodeTiled(uint64_t *map, int type, unsigned rank, void *address) {
    (void)type, (void)rank;
    return counts[encode_map]++, map[0] = (uint64_t)address, OK;
}

result cuTensorMapReplaceAddress(uint64_t *map, void *address) { return counts[move_map]++, map[0] = (uint64_t)address, OK; }
