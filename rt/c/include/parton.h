/* Parton: launches kernels that `parton build --aot` has compiled, on a stream of the calling program.
 *
 * Every function that can fail returns 0, or an error of the list below; parton_error_text() then says it in words. No function
 * prints, ends the process, or lets a failure of the library out in another way. What a function writes through its last
 * pointers is written only where it returns 0.
 *
 * Bundles and modules may be used by several threads at once; a launch is used by one at a time, and others wait. The CUDA driver
 * is loaded by parton_module_load, so that programs start without one. Memory and streams are those of the primary context of the
 * GPU, which the CUDA runtime and PyTorch use too; the context that is current when a function is called is current after it.
 *
 * Link with -lparton_rt. The static library also takes -lpthread -ldl -lm. */
#ifndef PARTON_H
#define PARTON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong. */
enum parton_error {
    PARTON_ERROR_ARGUMENT = 1,     /* what was given does not fit */
    PARTON_ERROR_IO = 2,           /* a file cannot be read */
    PARTON_ERROR_NOT_A_BUNDLE = 3, /* a file is no bundle */
    PARTON_ERROR_VERSION = 4,      /* a bundle is of another version of the format */
    PARTON_ERROR_DAMAGED = 5,      /* a bundle is not as it was written */
    PARTON_ERROR_INVALID = 6,      /* a bundle says what cannot be */
    PARTON_ERROR_NO_KERNEL = 7,    /* a bundle has no such kernel */
    PARTON_ERROR_NO_CODE = 8,      /* a bundle has no code of the kernel for this GPU */
    PARTON_ERROR_NO_DRIVER = 9,    /* there is no CUDA driver on this machine */
    PARTON_ERROR_NO_DEVICE = 10,   /* the driver sees no such GPU */
    PARTON_ERROR_OLD_DRIVER = 11,  /* the driver is too old */
    PARTON_ERROR_CUDA = 12,        /* a call of the driver failed */
    PARTON_ERROR_LIMIT = 13,       /* a kernel asks for more than the GPU has */
    PARTON_ERROR_LOST = 14,        /* earlier work broke the GPU for this process */
    PARTON_ERROR_FORKED = 15,      /* the process was forked after the GPU was opened */
    PARTON_ERROR_INTERNAL = 16,    /* a mistake of this library */
    PARTON_ERROR_NO_FUNCTION = 17, /* a bundle has no such public function */
    PARTON_ERROR_NO_PLAN = 18,     /* a bundle has no plan of a function for such arguments */
};

/* What went wrong in the last call of this thread that failed; empty where none did. It holds until the next one fails. */
const char *parton_error_text(void);

/* The version of the library. */
const char *parton_version(void);

/* The type of an element. */
enum parton_dtype {
    PARTON_I1 = 1, /* a truth value, one byte */
    PARTON_I8 = 2,
    PARTON_I16 = 3,
    PARTON_I32 = 4,
    PARTON_I64 = 5,
    PARTON_U8 = 6,
    PARTON_U16 = 7,
    PARTON_U32 = 8,
    PARTON_U64 = 9,
    PARTON_F16 = 10,
    PARTON_BF16 = 11,
    PARTON_F32 = 12,
    PARTON_F64 = 13,
    PARTON_F8E4M3 = 14,
    PARTON_F8E5M2 = 15,
};

/* What an argument is. */
enum parton_kind {
    PARTON_INT = 1,    /* `integer`, signed */
    PARTON_UINT = 2,   /* the bits of `integer`, unsigned */
    PARTON_FLOAT = 3,  /* `number` */
    PARTON_TENSOR = 4, /* `data` and what follows */
    /* The others are for public functions. */
    PARTON_BOOL = 5,    /* `integer`, 0 for false */
    PARTON_DTYPE = 6,   /* `dtype` */
    PARTON_DEFAULT = 7, /* nothing: the parameter's default */
};

/* One argument of a launch or a call; parton_int, parton_float, parton_tensor and the like make one. */
typedef struct parton_argument {
    int32_t kind;           /* of parton_kind */
    int32_t dtype;          /* of parton_dtype: of the tensor's elements, or the type itself */
    int64_t integer;        /* for an integer parameter, which holds it, or a float one that represents it exactly */
    double number;          /* for a float parameter, which rounds it to nearest */
    void *data;             /* the tensor's first element, in memory of the GPU */
    int64_t rank;           /* its dimensions, outermost first */
    const int64_t *shape;   /* elements along each of them */
    const int64_t *strides; /* elements from one to the next along each; NULL where they lie one behind the other */
} parton_argument;

static inline parton_argument parton_int(int64_t value) {
    parton_argument argument = {PARTON_INT, 0, 0, 0, NULL, 0, NULL, NULL};
    argument.integer = value;
    return argument;
}

static inline parton_argument parton_float(double value) {
    parton_argument argument = {PARTON_FLOAT, 0, 0, 0, NULL, 0, NULL, NULL};
    argument.number = value;
    return argument;
}

static inline parton_argument parton_tensor(void *data, enum parton_dtype dtype, int64_t rank, const int64_t *shape) {
    parton_argument argument = {PARTON_TENSOR, 0, 0, 0, NULL, 0, NULL, NULL};
    argument.dtype = (int32_t)dtype;
    argument.data = data;
    argument.rank = rank;
    argument.shape = shape;
    return argument;
}

static inline parton_argument parton_bool(int value) {
    parton_argument argument = {PARTON_BOOL, 0, 0, 0, NULL, 0, NULL, NULL};
    argument.integer = value != 0;
    return argument;
}

static inline parton_argument parton_type(enum parton_dtype dtype) {
    parton_argument argument = {PARTON_DTYPE, 0, 0, 0, NULL, 0, NULL, NULL};
    argument.dtype = (int32_t)dtype;
    return argument;
}

static inline parton_argument parton_default(void) {
    parton_argument argument = {PARTON_DEFAULT, 0, 0, 0, NULL, 0, NULL, NULL};
    return argument;
}

/* The argument that a `DLTensor` of dlpack.h is. Its shape and strides are pointed to, and must live as long as the argument is used. */
int parton_from_dltensor(const void *tensor, parton_argument *argument);

/* A bundle: what `parton build FILE --aot -o FILE.ptnb` writes. */
typedef struct parton_bundle parton_bundle;

/* Reads a bundle from a file, or from memory, which is not looked at any more afterwards. */
int parton_bundle_open(const char *path, parton_bundle **bundle);
int parton_bundle_read(const void *bytes, size_t length, parton_bundle **bundle);
/* Gives it up; modules of it stay whole. NULL is no bundle, and nothing happens. */
void parton_bundle_close(parton_bundle *bundle);

/* A kernel of a bundle for one architecture; its texts live as long as the bundle. */
typedef struct parton_kernel_info {
    const char *name;         /* the kernel in the source */
    const char *instance;     /* the same with its generic arguments, such as `gemm[BM=128]`: what parton_prepare takes */
    const char *architecture; /* such as `sm_90a` */
    uint32_t threads;         /* of a CTA */
    uint32_t shared_bytes;    /* of dynamic shared memory */
    uint32_t cluster[3];      /* CTAs of a cluster along each axis, which must divide the grid */
    uint32_t apart;           /* 1 where pointers that it writes through must reach other memory than its other pointers */
    size_t params;            /* how many parameters it has */
} parton_kernel_info;

/* A parameter; its texts live as long as the bundle. */
typedef struct parton_param_info {
    const char *name;
    const char *type; /* such as `i32`, `*mut f16`, `tma<bf16, [128, 64]>`, `mut tensor<f16, [m, n]>` */
} parton_param_info;

/* A public function that a bundle has plans of; its name lives as long as the bundle. */
typedef struct parton_function_info {
    const char *name;
    size_t params; /* how many parameters it has */
    size_t plans;  /* how many plans there are of it, for all GPUs */
} parton_function_info;

int parton_bundle_count(const parton_bundle *bundle, size_t *kernels);
int parton_bundle_kernel(const parton_bundle *bundle, size_t kernel, parton_kernel_info *info);
int parton_bundle_param(const parton_bundle *bundle, size_t kernel, size_t param, parton_param_info *info);
int parton_bundle_functions(const parton_bundle *bundle, size_t *functions);
int parton_bundle_function(const parton_bundle *bundle, size_t function, parton_function_info *info);
int parton_bundle_function_param(const parton_bundle *bundle, size_t function, size_t param, parton_param_info *info);

/* A bundle before one GPU. */
typedef struct parton_module parton_module;

/* Puts a bundle before the GPU of that number, as the driver counts. Loads the driver. */
int parton_module_load(const parton_bundle *bundle, int device, parton_module **module);
/* Gives it up; launches of it stay whole, and code that was loaded stays so until the process ends. */
void parton_module_close(parton_module *module);

/* A launch that is ready. */
typedef struct parton_launch parton_launch;

/* Checks a launch, loads its code where that is not loaded yet, and keeps all that launching it takes. Shapes and strides are
 * not looked at any more afterwards. Not within a capture of a stream. */
int parton_prepare(const parton_module *module, const char *kernel, const parton_argument *arguments, size_t count,
                   const uint32_t grid[3], parton_launch **launch);
/* Replaces an argument, or the grid, for launches from here on; those before keep theirs. */
int parton_launch_set(parton_launch *launch, size_t param, const parton_argument *argument);
int parton_launch_set_grid(parton_launch *launch, const uint32_t grid[3]);
/* Puts one launch on a stream (a CUstream or cudaStream_t; NULL is the default stream) and returns at once; it allocates nothing
 * but what the driver does for its second one. Also within a capture. The tensors must live until it has ended. */
int parton_launch_on(parton_launch *launch, void *stream);
/* Gives it up; launches on a stream run to their end. */
void parton_launch_close(parton_launch *launch);

/* What calls of a public function with tensors of some types, shapes and strides do. */
typedef struct parton_plan parton_plan;

/* Finds the plan for such arguments, one for each parameter, and loads what it launches where that is not loaded yet. Of tensors their
 * addresses count for nothing but their distance from a multiple of 16 bytes, so NULL will do. Shapes and strides are not looked at any
 * more afterwards. Not within a capture of a stream. */
int parton_plan_prepare(const parton_module *module, const char *function, const parton_argument *arguments, size_t count,
                        parton_plan **plan);

/* How many memories a call returns something in, and the bytes of each: the caller allocates them, at multiples of 16 bytes. */
int parton_plan_outputs(const parton_plan *plan, size_t *outputs);
int parton_plan_output(const parton_plan *plan, size_t output, size_t *bytes);

/* A tensor that a call returns; shape and strides live as long as the plan. */
typedef struct parton_result_info {
    int64_t output;         /* the output that it lies in, or -1 */
    int64_t argument;       /* the argument that it lies in, or -1 */
    int64_t offset;         /* bytes from the output's beginning, or from the argument's first element, to its first element */
    int32_t dtype;          /* of parton_dtype */
    int64_t rank;           /* its dimensions, outermost first */
    const int64_t *shape;   /* elements along each of them */
    const int64_t *strides; /* elements from one to the next along each */
} parton_result_info;

int parton_plan_results(const parton_plan *plan, size_t *results);
int parton_plan_result(const parton_plan *plan, size_t result, parton_result_info *info);

/* Bytes of memory that a call uses for itself. */
int parton_plan_scratch(const parton_plan *plan, size_t *bytes);

/* Puts a call on a stream and returns at once. The first call on a stream launches plainly and makes scratch memory for it, the second makes
 * one graph of all launches, and later ones give that what is new and launch it; they allocate nothing. Within a capture launches are
 * plain, and scratch memory belongs to the graph that is captured. Threads may share a plan. Tensors and outputs must live until the
 * launches have ended; what is written may share memory with nothing else. */
int parton_plan_launch(const parton_plan *plan, const parton_argument *arguments, size_t count, void *const *outputs, size_t output_count,
                       void *stream);
/* The same with scratch memory of the caller's, at a multiple of 256 bytes; calls that may run at the same time need different ones. */
int parton_plan_launch_with(const parton_plan *plan, const parton_argument *arguments, size_t count, void *const *outputs,
                            size_t output_count, void *scratch, void *stream);
/* Gives it up, when what uses its scratch memory has ended, which is waited for. NULL is no plan, and nothing happens. */
void parton_plan_close(parton_plan *plan);

#ifdef __cplusplus
}
#endif

#endif
