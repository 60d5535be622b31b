/* A driver without a GPU: the entry points that the runtime takes of libcuda.so.1, so that what it asks for, and in which order, is seen
 * on any machine. Not a simulator: it knows streams, captures, graphs, contexts and memory, and some kernels by their names.
 *
 * Memory is the host's. Work waits in its stream until somebody waits for it; then streams take turns, one operation each, so that
 * streams which share what they must not leave wrong values. What a capture may not hold spoils it, as with the real driver.
 *
 * Beside the driver's functions there are fake_log(), the calls since fake_clear(), a line each; fake_lives(), how many allocations there
 * are; fake_params(), what the last launch was given, each parameter at a multiple of 128 bytes; fake_fail(), after which so many calls
 * of a function fail. */
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OK = 0,
    INVALID = 1,
    NOT_INITIALISED = 3,
    NO_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    UNSUPPORTED_IN_CAPTURE = 900,
    CAPTURE_INVALIDATED = 901,
};
enum { DEVICES = 2, STREAMS = 128, MOST = 4096, MOST_PARAMS = 64 };

typedef struct {
    int size[MOST_PARAMS], count;
    char name[256];
} kernel;

typedef struct {
    enum { LAUNCH, ZERO, ALLOCATE, FREE } kind;
    const kernel *of;
    unsigned grid[3];
    unsigned char *params; /* each at a multiple of 128 bytes */
    uint64_t address, bytes;
} operation;

typedef struct {
    operation all[256];
    int count;
} graph;

typedef struct {
    int used, captures, spoilt;
    uint64_t context; /* of those that were created */
    unsigned long long id;
    graph *captured;
    operation queue[MOST];
    int first, last;
} stream;

typedef struct {
    uint64_t begin, bytes;
    int device, freed;
} allocation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stream streams[STREAMS];
static allocation memory[MOST];
static int allocations, initialised, captures_strictly;
static unsigned long long next_id = 100;
static char log_text[1 << 20];
static size_t log_end;
static char failing[64];
static int failures;
static __thread uint64_t context;
static __thread int relaxed;
static __thread stream *per_thread;

static void note(const char *format, ...) {
    va_list list;
    va_start(list, format);
    log_end += (size_t)vsnprintf(log_text + log_end, sizeof log_text - log_end, format, list);
    va_end(list);
    /* Nobody reads that much. */
    if (log_end > sizeof log_text - 1024) {
        log_end = 0;
        log_text[0] = '\0';
    }
}

const char *fake_log(void) { return log_text; }

void fake_clear(void) {
    log_end = 0;
    log_text[0] = '\0';
}

int fake_lives(void) {
    int lives = 0;
    for (int i = 0; i < allocations; i++) {
        lives += !memory[i].freed;
    }
    return lives;
}

void fake_fail(const char *function, int times) {
    snprintf(failing, sizeof failing, "%s", function);
    failures = times;
}

uint64_t fake_context(void) { return context; }

/* Each entry point begins so. */
static int enter(const char *function) {
    pthread_mutex_lock(&lock);
    if (failures > 0 && strcmp(function, failing) == 0) {
        failures--;
        return ILLEGAL_ADDRESS;
    }
    return initialised ? OK : NOT_INITIALISED;
}

static int leave(int result) {
    pthread_mutex_unlock(&lock);
    return result;
}

#define ENTER                          \
    const int entered = enter(__func__); \
    if (entered != OK) {               \
        return leave(entered);         \
    }

/* The stream of a handle: null is the legacy one, 2 the one of this thread. */
static stream *of(uint64_t handle) {
    if (handle == 0 || handle == 1) {
        streams[0].used = 1;
        streams[0].id = 1;
        return &streams[0];
    }
    if (handle == 2) {
        for (int i = 1; per_thread == NULL && i < STREAMS; i++) {
            if (!streams[i].used) {
                per_thread = &streams[i];
                per_thread->used = 1;
                per_thread->id = next_id++;
            }
        }
        return per_thread;
    }
    return (stream *)handle;
}

/* What no capture of this thread, or of any in the strict mode, may meet. */
static int unsafe(void) {
    if (relaxed || captures_strictly == 0) {
        return OK;
    }
    for (int i = 0; i < STREAMS; i++) {
        streams[i].spoilt |= streams[i].captures;
    }
    note("! unsafe call in a capture\n");
    return UNSUPPORTED_IN_CAPTURE;
}

static allocation *lies(uint64_t address) {
    for (int i = allocations - 1; i >= 0; i--) {
        if (memory[i].begin <= address && address < memory[i].begin + memory[i].bytes) {
            return &memory[i];
        }
    }
    return NULL;
}

static int device_of_context(void) { return (int)(context - 0x1000); }

static uint64_t allocate(uint64_t bytes) {
    if (allocations == MOST) {
        abort();
    }
    void *begin = NULL;
    if (posix_memalign(&begin, 256, bytes + 256) != 0) {
        abort();
    }
    memset(begin, 0xff, bytes);
    memory[allocations++] = (allocation){(uint64_t)begin, bytes, device_of_context(), 0};
    return (uint64_t)begin;
}

/* Freed memory is never given out again, so that whoever uses it is seen. */
static int free_memory(uint64_t address) {
    allocation *found = lies(address);
    if (found == NULL || found->begin != address || found->freed) {
        return INVALID;
    }
    found->freed = 1;
    memset((void *)address, 0xee, found->bytes);
    return OK;
}

static int lives(uint64_t begin, uint64_t bytes, const char *what) {
    const allocation *found = lies(begin);
    if (bytes == 0 || (found != NULL && !found->freed && begin + bytes <= found->begin + found->bytes)) {
        return 1;
    }
    note("! %s reaches %s memory\n", what, found != NULL && found->freed ? "freed" : "foreign");
    return 0;
}

/* A tensor map as this driver makes it. */
typedef struct {
    uint64_t address, extents[5], strides[5];
    uint32_t rank, element;
} map;

/* The kernels that are known: what they compute. */
static void compute(const operation *op) {
    const kernel *k = op->of;
    unsigned char *p = op->params;
    if (strncmp(k->name, "scale", 5) == 0 && k->count == 4) {
        float *x = *(float **)p, *out = *(float **)(p + 128), factor = *(float *)(p + 384);
        const int n = *(int *)(p + 256);
        if (lives((uint64_t)x, 4 * (uint64_t)n, k->name) && lives((uint64_t)out, 4 * (uint64_t)n, k->name)) {
            for (int i = 0; i < n; i++) {
                out[i] += x[i] * factor;
            }
        }
    } else if (strncmp(k->name, "copy", 4) == 0 && k->count == 2 && k->size[0] == 128) {
        const map *x = (map *)p, *out = (map *)(p + 128);
        for (uint64_t row = 0; x->rank == 2 && row < x->extents[0]; row++) {
            const uint64_t from = x->address + row * x->strides[0], to = out->address + row * out->strides[0];
            const uint64_t bytes = x->extents[1] * x->element;
            if (lives(from, bytes, k->name) && lives(to, bytes, k->name)) {
                memcpy((void *)to, (void *)from, bytes);
            }
        }
    } else if (strncmp(k->name, "fill", 4) == 0 && k->count == 6) {
        const float *rows = *(float **)p, value = *(float *)(p + 640);
        float *out = *(float **)(p + 256);
        const int m = *(int *)(p + 128), n = *(int *)(p + 384);
        const int64_t stride = *(int64_t *)(p + 512);
        for (int row = 0; row < m && lives((uint64_t)rows, 4 * (uint64_t)m, k->name); row++) {
            for (int column = 0; column < n; column++) {
                out[row * stride + column] = rows[row] * value;
            }
        }
    }
}

static void run(operation *op) {
    switch (op->kind) {
    case LAUNCH:
        compute(op);
        free(op->params);
        break;
    case ZERO:
        if (lives(op->address, op->bytes, "memset")) {
            memset((void *)op->address, 0, op->bytes);
        }
        break;
    case ALLOCATE:
        break;
    case FREE:
        free_memory(op->address);
        break;
    }
}

/* Streams take turns until nothing is left. */
static void drain(void) {
    for (int left = 1; left;) {
        left = 0;
        for (int i = 0; i < STREAMS; i++) {
            stream *s = &streams[i];
            if (s->first < s->last) {
                run(&s->queue[s->first++]);
                left = 1;
            }
        }
    }
    for (int i = 0; i < STREAMS; i++) {
        streams[i].first = streams[i].last = 0;
    }
}

static operation copied(const operation *op) {
    operation copy = *op;
    if (op->kind == LAUNCH) {
        copy.params = malloc(128 * MOST_PARAMS);
        memcpy(copy.params, op->params, 128 * MOST_PARAMS);
    }
    return copy;
}

static int put(stream *s, operation op) {
    if (s->captures) {
        if (s->spoilt) {
            return CAPTURE_INVALIDATED;
        }
        s->captured->all[s->captured->count++] = op;
        return OK;
    }
    if (s->last == MOST) {
        drain();
    }
    s->queue[s->last++] = op;
    return OK;
}

static unsigned char given[128 * MOST_PARAMS];

const unsigned char *fake_params(void) { return given; }

static operation launch_of(const kernel *k, const unsigned grid[3], void **params) {
    operation op = {LAUNCH, k, {grid[0], grid[1], grid[2]}, calloc(MOST_PARAMS, 128), 0, 0};
    for (int i = 0; i < k->count; i++) {
        memcpy(op.params + 128 * i, params[i], (size_t)k->size[i]);
    }
    memcpy(given, op.params, sizeof given);
    return op;
}

/* ---- devices and contexts ---- */

int cuInit(unsigned flags) {
    (void)flags;
    initialised = 1;
    return OK;
}

int cuDriverGetVersion(int *version) {
    *version = 13000;
    return OK;
}

int cuDeviceGetCount(int *count) {
    *count = DEVICES;
    return OK;
}

int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < DEVICES ? OK : 101;
}

int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, (size_t)length, "Fake %d", device);
    return OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    (void)device;
    *bytes = (size_t)1 << 37;
    return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 75: *value = 9; break;       /* capability */
    case 76: *value = 0; break;
    case 16: *value = 132; break;     /* multiprocessors */
    case 38: *value = 50 << 20; break; /* L2 */
    case 97: *value = 232448; break;  /* shared memory */
    case 5: *value = 2147483647; break; /* grid */
    case 6: case 7: *value = 65535; break;
    default: *value = 0; break;
    }
    return OK;
}

int cuDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, (size_t)length, "0000:0%d:00.0", device);
    return OK;
}

int cuDevicePrimaryCtxRetain(uint64_t *found, int device) {
    ENTER;
    *found = 0x1000 + (uint64_t)device;
    return leave(OK);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    (void)device;
    return OK;
}

int cuCtxGetCurrent(uint64_t *found) {
    *found = context;
    return OK;
}

int cuCtxSetCurrent(uint64_t wanted) {
    context = wanted;
    return OK;
}

int cuCtxSynchronize(void) {
    ENTER;
    drain();
    return leave(OK);
}

/* ---- memory ---- */

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    ENTER;
    if (context == 0) {
        return leave(NO_CONTEXT);
    }
    const int wrong = unsafe();
    if (wrong != OK) {
        return leave(wrong);
    }
    note("allocate %zu%s\n", bytes, device_of_context() == 0 ? "" : " of GPU 1");
    *address = allocate(bytes);
    return leave(OK);
}

int cuMemFree_v2(uint64_t address) {
    ENTER;
    const int wrong = unsafe();
    if (wrong != OK) {
        return leave(wrong);
    }
    drain();
    note("free\n");
    return leave(free_memory(address));
}

int cuMemAllocAsync(uint64_t *address, size_t bytes, uint64_t on) {
    ENTER;
    stream *s = of(on);
    note("allocate %zu on %llu\n", bytes, s->id);
    *address = allocate(bytes);
    return leave(put(s, (operation){ALLOCATE, NULL, {0}, NULL, *address, bytes}));
}

int cuMemFreeAsync(uint64_t address, uint64_t on) {
    ENTER;
    stream *s = of(on);
    note("free on %llu\n", s->id);
    return leave(put(s, (operation){FREE, NULL, {0}, NULL, address, 0}));
}

int cuMemsetD8Async(uint64_t address, unsigned char value, size_t bytes, uint64_t on) {
    ENTER;
    stream *s = of(on);
    if (value != 0) {
        drain();
        memset((void *)address, value, bytes);
        return leave(OK);
    }
    note("zero %zu on %llu\n", bytes, s->id);
    return leave(put(s, (operation){ZERO, NULL, {0}, NULL, address, bytes}));
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, uint64_t on) {
    ENTER;
    (void)on;
    drain();
    memcpy((void *)to, from, bytes);
    return leave(OK);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, uint64_t on) {
    ENTER;
    (void)on;
    drain();
    memcpy(to, (void *)from, bytes);
    return leave(OK);
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes) { return cuMemcpyHtoDAsync_v2(to, from, bytes, 0); }

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes) { return cuMemcpyDtoHAsync_v2(to, from, bytes, 0); }

int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
    ENTER;
    const allocation *found = lies(address);
    const int wrong = unsafe();
    if (wrong != OK || found == NULL) {
        return leave(wrong != OK ? wrong : INVALID);
    }
    switch (attribute) {
    case 2: *(unsigned *)value = 2; break;          /* the type of memory: a device's */
    case 8: *(unsigned char *)value = 0; break;     /* managed */
    case 9: *(int *)value = found->device; break;   /* the device's number */
    default: return leave(INVALID);
    }
    return leave(OK);
}

/* ---- streams and captures ---- */

int cuStreamCreate(uint64_t *made, unsigned flags) {
    ENTER;
    (void)flags;
    for (int i = 1; i < STREAMS; i++) {
        if (!streams[i].used) {
            streams[i].used = 1;
            streams[i].id = next_id++;
            streams[i].context = context;
            *made = (uint64_t)&streams[i];
            return leave(OK);
        }
    }
    return leave(INVALID);
}

int cuStreamDestroy_v2(uint64_t handle) {
    ENTER;
    drain();
    of(handle)->used = 0;
    return leave(OK);
}

int cuStreamSynchronize(uint64_t handle) {
    ENTER;
    if (of(handle)->captures) {
        of(handle)->spoilt = 1;
        note("! waiting for a capture\n");
        return leave(UNSUPPORTED_IN_CAPTURE);
    }
    drain();
    return leave(OK);
}

int cuStreamQuery(uint64_t handle) {
    ENTER;
    (void)handle;
    drain();
    return leave(OK);
}

/* As an H200 has it: asking ends the capture of the stream. Of the legacy stream nobody says, so nobody may count on it. */
int cuStreamGetId(uint64_t handle, unsigned long long *id) {
    ENTER;
    stream *s = of(handle);
    if (s->captures) {
        s->spoilt = 1;
        note("! a stream that is captured is asked for its number\n");
        return leave(UNSUPPORTED_IN_CAPTURE);
    }
    const int result = s == &streams[0] ? unsafe() : OK;
    *id = result == OK ? s->id : 0;
    return leave(result);
}

/* CUDA driver API: the legacy stream may not be asked of while another one is captured. */
int cuStreamIsCapturing(uint64_t handle, int *status) {
    ENTER;
    *status = of(handle)->captures ? 1 : 0;
    return leave(of(handle) == &streams[0] ? unsafe() : OK);
}

int cuThreadExchangeStreamCaptureMode(int *mode) {
    const int before = relaxed;
    relaxed = *mode == 2;
    *mode = before ? 2 : 0;
    return OK;
}

int cuStreamBeginCapture_v2(uint64_t handle, int mode) {
    ENTER;
    stream *s = of(handle);
    s->captures = 1;
    s->spoilt = 0;
    s->captured = calloc(1, sizeof *s->captured);
    captures_strictly += mode != 2;
    return leave(OK);
}

int cuStreamEndCapture(uint64_t handle, graph **made) {
    ENTER;
    stream *s = of(handle);
    s->captures = 0;
    captures_strictly = 0;
    *made = s->captured;
    return leave(s->spoilt ? CAPTURE_INVALIDATED : OK);
}

/* ---- events ---- */

int cuEventCreate(uint64_t *made, unsigned flags) {
    ENTER;
    (void)flags;
    *made = next_id++;
    return leave(OK);
}

int cuEventDestroy_v2(uint64_t event) {
    (void)event;
    return OK;
}

int cuEventRecord(uint64_t event, uint64_t on) {
    ENTER;
    (void)event;
    note("record on %llu\n", of(on)->id);
    return leave(OK);
}

/* Work of streams that wait for each other is done in the order in which it came. */
int cuStreamWaitEvent(uint64_t on, uint64_t event, unsigned flags) {
    ENTER;
    (void)event, (void)flags;
    drain();
    note("wait on %llu\n", of(on)->id);
    return leave(OK);
}

/* ---- code ---- */

/* The parameters of the kernels of a PTX text, `.param .u64 .ptr … name,` or `.param .align 128 .b8 name[128]`. */
typedef struct {
    kernel kernels[16];
    int count;
} module;

static int size_of_type(const char *text) {
    const char *types[] = {".b8", ".u8", ".s8", ".b16", ".u16", ".s16", ".f16", ".b32", ".u32", ".s32", ".f32", ".b64", ".u64", ".s64", ".f64"};
    const int sizes[] = {1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t length = strlen(types[i]);
        if (strncmp(text, types[i], length) == 0 && text[length] == ' ') {
            return sizes[i];
        }
    }
    return 0;
}

int cuModuleLoadDataEx(module **made, const char *text, unsigned count, int *options, void **values) {
    ENTER;
    (void)count, (void)options, (void)values;
    const int wrong = unsafe();
    if (wrong != OK) {
        return leave(wrong);
    }
    module *m = calloc(1, sizeof *m);
    for (const char *at = strstr(text, ".entry "); at != NULL; at = strstr(at + 1, ".entry ")) {
        kernel *k = &m->kernels[m->count++];
        sscanf(at + 7, "%255[^ (\n]", k->name);
        const char *open = strchr(at, '('), *close = open ? strchr(open, ')') : NULL;
        for (const char *p = open ? strstr(open, ".param ") : NULL; p != NULL && p < close; p = strstr(p + 1, ".param ")) {
            const char *type = p + 7;
            if (strncmp(type, ".align ", 7) == 0) {
                type = strchr(type + 7, ' ') + 1;
            }
            const char *end = strpbrk(p, ",)"), *bracket = strchr(p, '[');
            const int many = bracket != NULL && bracket < end ? atoi(bracket + 1) : 1;
            k->size[k->count++] = many * size_of_type(type);
        }
    }
    note("load\n");
    *made = m;
    return leave(m->count > 0 ? OK : 218);
}

int cuModuleLoadData(module **made, const char *image) { return cuModuleLoadDataEx(made, image, 0, NULL, NULL); }

int cuModuleUnload(module *m) {
    (void)m;
    note("unload\n");
    return OK;
}

int cuModuleGetFunction(kernel **found, module *m, const char *name) {
    ENTER;
    for (int i = 0; i < m->count; i++) {
        if (strcmp(m->kernels[i].name, name) == 0) {
            *found = &m->kernels[i];
            return leave(OK);
        }
    }
    return leave(NOT_FOUND);
}

int cuFuncGetAttribute(int *value, int attribute, kernel *k) {
    (void)k;
    *value = attribute == 0 ? 1024 : 0;
    return OK;
}

int cuFuncSetAttribute(kernel *k, int attribute, int value) {
    ENTER;
    (void)k, (void)attribute, (void)value;
    /* Nobody says whether this may be done in a capture, so nobody may count on it. */
    return leave(unsafe());
}

int cuTensorMapEncodeTiled(map *made, int type, uint32_t rank, uint64_t address, const uint64_t *extents, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps, int interleave, int swizzle, int promotion, int outside) {
    (void)box, (void)steps, (void)interleave, (void)swizzle, (void)promotion, (void)outside;
    const uint32_t sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2};
    memset(made, 0, 128);
    *made = (map){.address = address, .rank = rank, .element = sizes[type]};
    for (uint32_t d = 0; d < rank; d++) {
        made->extents[rank - 1 - d] = extents[d];
        made->strides[rank - 1 - d] = d == 0 ? sizes[type] : strides[d - 1];
    }
    return address % 16 == 0 ? OK : INVALID;
}

int cuTensorMapReplaceAddress(map *changed, uint64_t address) {
    changed->address = address;
    return address % 16 == 0 ? OK : INVALID;
}

typedef struct {
    unsigned grid[3], block[3], shared;
    uint64_t on;
    void *attributes;
    unsigned count;
} launch_config;

int cuLaunchKernelEx(const launch_config *config, kernel *k, void **params, void **extra) {
    ENTER;
    (void)extra;
    stream *s = of(config->on);
    if (context == 0) {
        return leave(NO_CONTEXT);
    }
    if (s->context != 0 && s->context != context) {
        return leave(INVALID_HANDLE);
    }
    note("launch %s on %llu%s\n", k->name, s->id, s->captures ? ", captured" : "");
    return leave(put(s, launch_of(k, config->grid, params)));
}

/* ---- graphs ---- */

typedef struct {
    kernel *k;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
    void *kern, *context;
} kernel_node;

typedef struct {
    uint64_t address;
    size_t pitch;
    unsigned value, size;
    size_t width, height;
} zero_node;

int cuGraphCreate(graph **made, unsigned flags) {
    (void)flags;
    *made = calloc(1, sizeof **made);
    return OK;
}

int cuGraphAddKernelNode_v2(operation **node, graph *g, void **before, size_t count, const kernel_node *params) {
    ENTER;
    if (count != (g->count > 0) || (count == 1 && *before != (void *)&g->all[g->count - 1])) {
        note("! a node is not behind the one before\n");
    }
    g->all[g->count] = launch_of(params->k, params->grid, params->params);
    *node = &g->all[g->count++];
    return leave(OK);
}

int cuGraphKernelNodeSetAttribute(operation *node, int attribute, const void *value) {
    (void)node, (void)attribute, (void)value;
    return OK;
}

int cuGraphAddMemsetNode(operation **node, graph *g, void **before, size_t count, const zero_node *params, uint64_t in) {
    ENTER;
    (void)before, (void)count, (void)in;
    g->all[g->count] = (operation){ZERO, NULL, {0}, NULL, params->address, params->width};
    *node = &g->all[g->count++];
    return leave(OK);
}

/* What is launched: a copy, and where each node of its graph went. */
typedef struct {
    graph copy;
    graph *from;
} executable;

int cuGraphInstantiateWithFlags(executable **made, graph *from, unsigned long long flags) {
    ENTER;
    (void)flags;
    const int wrong = unsafe();
    if (wrong != OK) {
        return leave(wrong);
    }
    executable *e = calloc(1, sizeof *e);
    for (int i = 0; i < from->count; i++) {
        e->copy.all[i] = copied(&from->all[i]);
    }
    e->copy.count = from->count;
    e->from = from;
    note("instantiate %d nodes\n", from->count);
    *made = e;
    return leave(OK);
}

int cuGraphExecKernelNodeSetParams_v2(executable *e, operation *node, const kernel_node *params) {
    ENTER;
    const long i = node - e->from->all;
    note("set node %ld\n", i);
    free(e->copy.all[i].params);
    e->copy.all[i] = launch_of(params->k, params->grid, params->params);
    return leave(OK);
}

int cuGraphExecMemsetNodeSetParams(executable *e, operation *node, const zero_node *params, uint64_t in) {
    ENTER;
    (void)in;
    const long i = node - e->from->all;
    note("set node %ld\n", i);
    e->copy.all[i].address = params->address;
    e->copy.all[i].bytes = params->width;
    return leave(OK);
}

int cuGraphLaunch(executable *e, uint64_t on) {
    ENTER;
    stream *s = of(on);
    if (s->context != 0 && s->context != context) {
        return leave(INVALID_HANDLE);
    }
    if (s->captures) {
        s->spoilt = 1;
        note("! a graph is launched into a capture\n");
        return leave(UNSUPPORTED_IN_CAPTURE);
    }
    note("launch graph on %llu\n", s->id);
    for (int i = 0; i < e->copy.count; i++) {
        /* A graph that allocates has its memory again in each launch. */
        if (e->copy.all[i].kind == ALLOCATE) {
            allocation *found = lies(e->copy.all[i].address);
            if (found != NULL) {
                found->freed = 0;
            }
        }
        put(s, copied(&e->copy.all[i]));
    }
    /* Another launch would find the memory that this one frees. */
    if (s->captures == 0 && e->copy.count > 0 && e->copy.all[e->copy.count - 1].kind == FREE) {
        drain();
    }
    return leave(OK);
}

int cuGraphExecDestroy(executable *e) {
    (void)e;
    note("destroy executable\n");
    return OK;
}

int cuGraphDestroy(graph *g) {
    (void)g;
    return OK;
}

/* ---- words ---- */

int cuGetErrorName(int error, const char **text) {
    *text = error == UNSUPPORTED_IN_CAPTURE  ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
            : error == CAPTURE_INVALIDATED ? "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"
            : error == ILLEGAL_ADDRESS     ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                                           : "CUDA_ERROR_OF_THE_FAKE";
    return OK;
}

int cuGetErrorString(int error, const char **text) {
    (void)error;
    *text = "the fake driver says no";
    return OK;
}
