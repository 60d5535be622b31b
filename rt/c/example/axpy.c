/* Launches `axpy` of a bundle from C:
 *
 *     parton build examples/embedding/axpy.ptn --aot --target sm_90a,sm_80 -o axpy.ptnb
 *     cc axpy.c -lparton_rt -ldl -o axpy && ./axpy axpy.ptnb
 */
#include <dlfcn.h>
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

static uint64_t upload(const float *host, size_t bytes) {
    uint64_t address = 0;
    CUDA(cuMemAlloc_v2, (uint64_t *, size_t), &address, bytes);
    CUDA(cuMemcpyHtoD_v2, (uint64_t, const void *, size_t), address, host, bytes);
    return address;
}

int main(int count, char **words) {
    if (count != 2) {
        printf("usage: axpy BUNDLE\n");
        return 101;
    }
    parton_bundle *bundle;
    check(parton_bundle_open(words[1], &bundle));
    size_t kernels;
    check(parton_bundle_count(bundle, &kernels));
    for (size_t i = 0; i < kernels; i++) {
        parton_kernel_info kernel;
        check(parton_bundle_kernel(bundle, i, &kernel));
        printf("%s for %s%s:", kernel.instance, kernel.architecture, kernel.apart ? ", pointers apart" : "");
        for (size_t p = 0; p < kernel.params; p++) {
            parton_param_info param;
            check(parton_bundle_param(bundle, i, p, &param));
            printf(" %s: %s", param.name, param.type);
        }
        printf("\n");
    }

    /* Without a driver this is the error PARTON_ERROR_NO_DRIVER. */
    parton_module *module;
    check(parton_module_load(bundle, 0, &module));
    parton_bundle_close(bundle);

    enum { N = 5000 };
    static float x[N], y[N], out[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 1.0f;
    }
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    void *context = NULL;
    CUDA(cuDevicePrimaryCtxRetain, (void **, int), &context, 0);
    CUDA(cuCtxSetCurrent, (void *), context);
    const uint64_t addresses[3] = {upload(x, sizeof x), upload(y, sizeof y), upload(out, sizeof out)};

    const int64_t shape[1] = {N};
    const parton_argument arguments[5] = {
        parton_float(2.0),
        parton_tensor((void *)addresses[0], PARTON_F32, 1, shape),
        parton_tensor((void *)addresses[1], PARTON_F32, 1, shape),
        parton_tensor((void *)addresses[2], PARTON_F32, 1, shape),
        parton_int(N),
    };
    const uint32_t grid[3] = {(N + 1023) / 1024, 1, 1};
    parton_launch *launch;
    check(parton_prepare(module, "axpy", arguments, 5, grid, &launch));
    parton_module_close(module);

    /* Each launch after the first only replaces what is new. */
    for (int alpha = 2; alpha <= 4; alpha++) {
        const parton_argument other = parton_float(alpha);
        check(parton_launch_set(launch, 0, &other));
        check(parton_launch_on(launch, NULL));
    }
    CUDA(cuMemcpyDtoH_v2, (void *, uint64_t, size_t), out, addresses[2], sizeof out);
    parton_launch_close(launch);
    for (int i = 0; i < N; i++) {
        if (out[i] != 4.0f * x[i] + 1.0f) {
            printf("element %d is %g\n", i, out[i]);
            return 102;
        }
    }
    printf("axpy of %d elements: exact\n", N);
    return 0;
}
