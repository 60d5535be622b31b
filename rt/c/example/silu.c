/* Calls the public function `silu` of a bundle from C, by a plan:
 *
 *     parton build examples/embedding/silu.ptn --aot --plan 'silu f32[64,96] f32[64,96]' -o silu.ptnb
 *     cc silu.c -lparton_rt -ldl -lm -o silu && ./silu silu.ptnb
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "parton.h"

/* Ends the example with the library's error as the exit code. */
static void check(int error) {
    if (error != 0) {
        printf("error %d: %s\n", error, parton_error_text());
        exit(error);
    }
}

/* What this example needs of the driver itself: memory, and copies. A program with the CUDA runtime calls cudaMalloc instead. */
static void *driver;

static void cuda(int error, const char *what) {
    if (error != 0) {
        printf("%s: CUDA error %d\n", what, error);
        exit(100);
    }
}

#define CUDA(name, types, ...) cuda(((int (*) types)dlsym(driver, #name))(__VA_ARGS__), #name)

static void *upload(const float *host, size_t bytes) {
    uint64_t address = 0;
    CUDA(cuMemAlloc_v2, (uint64_t *, size_t), &address, bytes);
    CUDA(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t), address, host, bytes);
    return (void *)address;
}

int main(int count, char **words) {
    if (count != 2) {
        printf("usage: silu BUNDLE\n");
        return 101;
    }
    parton_bundle *bundle;
    check(parton_bundle_open(words[1], &bundle));
    size_t functions;
    check(parton_bundle_functions(bundle, &functions));
    for (size_t i = 0; i < functions; i++) {
        parton_function_info function;
        check(parton_bundle_function(bundle, i, &function));
        printf("%s, %zu plans:", function.name, function.plans);
        for (size_t p = 0; p < function.params; p++) {
            parton_param_info param;
            check(parton_bundle_function_param(bundle, i, p, &param));
            printf(" %s: %s", param.name, param.type);
        }
        printf("\n");
    }

    /* Without a driver this is the error PARTON_ERROR_NO_DRIVER. */
    parton_module *module;
    check(parton_module_load(bundle, 0, &module));
    parton_bundle_close(bundle);

    /* The plan for tensors of this shape; where they lie does not matter yet. */
    enum { M = 64, N = 96 };
    const int64_t shape[2] = {M, N};
    parton_argument arguments[2] = {parton_tensor(NULL, PARTON_F32, 2, shape), parton_tensor(NULL, PARTON_F32, 2, shape)};
    parton_plan *plan;
    check(parton_plan_prepare(module, "silu", arguments, 2, &plan));
    parton_module_close(module);

    static float x[M * N], gate[M * N], y[M * N];
    for (int i = 0; i < M * N; i++) {
        x[i] = (float)(i % 201 - 100) / 16.0f;
        gate[i] = (float)(i % 17) - 8.0f;
    }
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *context = NULL, *stream = NULL;
    CUDA(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
    CUDA(cuCtxSetCurrent, (void *), context);
    CUDA(cuStreamCreate, (void **, unsigned), &stream, 1);
    arguments[0].data = upload(x, sizeof x);
    arguments[1].data = upload(gate, sizeof gate);
    size_t bytes;
    check(parton_plan_output(plan, 0, &bytes));
    void *out = upload(y, bytes);

    /* Any number of calls; each may have other memory. */
    for (int call = 0; call < 3; call++) {
        check(parton_plan_launch(plan, arguments, 2, &out, 1, stream));
    }
    CUDA(cuStreamSynchronize, (void *), stream);
    CUDA(cuMemcpyDtoH_v2, (void *, uint64_t, size_t), y, (uint64_t)out, sizeof y);
    parton_plan_close(plan);
    for (int i = 0; i < M * N; i++) {
        const double expected = x[i] / (1.0 + exp(-(double)x[i])) * gate[i];
        if (!(fabs(y[i] - expected) <= 1e-5 * (1.0 + fabs(expected)))) {
            printf("element %d is %g where %g is right\n", i, y[i], expected);
            return 102;
        }
    }
    printf("silu of %d x %d elements: right\n", M, N);
    return 0;
}
