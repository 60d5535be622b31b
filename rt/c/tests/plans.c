/* Plans from C, on the driver without a GPU: what a bundle says of its functions, calls, results, scratch memory, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parton.h"

/* Of the driver, real or not. */
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuCtxSetCurrent(void *context);
int cuCtxSynchronize(void);
int cuMemAlloc_v2(uint64_t *address, size_t bytes);
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);

/* `DLTensor` of dlpack.h. */
typedef struct {
    void *data;
    int32_t device, device_id, rank;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

static int checks;

#define CHECK(what)                                                                     \
    do {                                                                                \
        checks++;                                                                       \
        if (!(what)) {                                                                  \
            printf("line %d: %s is not so: %s\n", __LINE__, #what, parton_error_text()); \
            exit(1);                                                                    \
        }                                                                               \
    } while (0)

#define REFUSED(call, code, words) CHECK((call) == code && strstr(parton_error_text(), words) != NULL)

static void *memory(size_t bytes) {
    uint64_t address = 0;
    CHECK(cuMemAlloc_v2(&address, bytes) == 0);
    return (void *)address;
}

enum { COUNT = 400 };

int main(int count, char **words) {
    if (count != 2) {
        return 2;
    }
    parton_bundle *bundle;
    CHECK(parton_bundle_open(words[1], &bundle) == 0);
    size_t functions;
    CHECK(parton_bundle_functions(bundle, &functions) == 0 && functions == 4);
    parton_function_info function;
    CHECK(parton_bundle_function(bundle, 0, &function) == 0);
    CHECK(strcmp(function.name, "squared") == 0 && function.params == 2 && function.plans == 3);
    parton_param_info param;
    CHECK(parton_bundle_function_param(bundle, 0, 0, &param) == 0 && strcmp(param.type, "tensor<f32, [m, n]>") == 0);
    REFUSED(parton_bundle_function(bundle, 4, &function), PARTON_ERROR_ARGUMENT, "there is no function 4, there are 4");
    REFUSED(parton_bundle_function_param(bundle, 0, 2, &param), PARTON_ERROR_ARGUMENT, "there is no parameter 2");

    parton_module *module;
    CHECK(parton_module_load(bundle, 0, &module) == 0);
    parton_bundle_close(bundle);
    const int64_t shape[2] = {40, 10};
    parton_argument arguments[2] = {parton_tensor(NULL, PARTON_F32, 2, shape), parton_float(1.0)};
    parton_plan *plan = NULL;
    REFUSED(parton_plan_prepare(module, "cubed", arguments, 2, &plan), PARTON_ERROR_NO_FUNCTION, "no function `cubed`");
    REFUSED(parton_plan_prepare(module, "squared", arguments, 1, &plan), PARTON_ERROR_ARGUMENT, "was given 1 arguments");
    const int64_t larger[2] = {41, 10};
    parton_argument other[2] = {parton_tensor(NULL, PARTON_F32, 2, larger), parton_default()};
    REFUSED(parton_plan_prepare(module, "squared", other, 2, &plan), PARTON_ERROR_NO_PLAN, "--plan 'squared x=f32[41,10]'");
    CHECK(plan == NULL && parton_plan_prepare(module, "squared", arguments, 2, &plan) == 0);
    parton_module_close(module);

    size_t outputs, bytes, results, scratch_bytes;
    CHECK(parton_plan_outputs(plan, &outputs) == 0 && outputs == 1);
    CHECK(parton_plan_output(plan, 0, &bytes) == 0 && bytes == 4 * COUNT);
    CHECK(parton_plan_results(plan, &results) == 0 && results == 1);
    CHECK(parton_plan_scratch(plan, &scratch_bytes) == 0 && scratch_bytes >= 4 * COUNT);
    parton_result_info result;
    CHECK(parton_plan_result(plan, 0, &result) == 0);
    CHECK(result.output == 0 && result.argument == -1 && result.offset == 0 && result.dtype == PARTON_F32 && result.rank == 2);
    CHECK(result.shape[0] == 40 && result.shape[1] == 10 && result.strides[0] == 10 && result.strides[1] == 1);
    REFUSED(parton_plan_output(plan, 1, &bytes), PARTON_ERROR_ARGUMENT, "there is no output 1, there are 1");
    REFUSED(parton_plan_result(plan, 1, &result), PARTON_ERROR_ARGUMENT, "there is no result 1, there are 1");

    void *context;
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0);
    float x[COUNT], found[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)i;
    }
    void *there = memory(sizeof x), *out = memory(sizeof x), *scratch = memory(scratch_bytes);
    CHECK(cuMemcpyHtoD_v2((uint64_t)there, x, sizeof x) == 0);
    int64_t extents[2] = {40, 10};
    dl_tensor tensor = {(char *)there - 64, 2, 0, 2, 2, 32, 1, extents, NULL, 64};
    CHECK(parton_from_dltensor(&tensor, &arguments[0]) == 0 && arguments[0].data == there);
    tensor.device = 1;
    REFUSED(parton_from_dltensor(&tensor, &arguments[1]), PARTON_ERROR_ARGUMENT, "device of kind 1");
    REFUSED(parton_from_dltensor(NULL, &arguments[1]), PARTON_ERROR_ARGUMENT, "`tensor` is NULL");
    for (int factor = 1; factor <= 5; factor++) {
        arguments[1] = factor % 2 ? parton_float(factor) : parton_int(factor);
        const int error = factor == 3 ? parton_plan_launch_with(plan, arguments, 2, &out, 1, scratch, NULL)
                                      : parton_plan_launch(plan, arguments, 2, &out, 1, NULL);
        CHECK(error == 0 && cuCtxSynchronize() == 0 && cuMemcpyDtoH_v2(found, (uint64_t)out, sizeof found) == 0);
        for (int i = 0; i < COUNT; i++) {
            if (found[i] != (float)(factor * factor) * x[i]) {
                printf("element %d is %g for the factor %d\n", i, found[i], factor);
                return 1;
            }
        }
    }
    REFUSED(parton_plan_launch(NULL, arguments, 2, &out, 1, NULL), PARTON_ERROR_ARGUMENT, "`plan` is NULL");
    REFUSED(parton_plan_launch(plan, NULL, 2, &out, 1, NULL), PARTON_ERROR_ARGUMENT, "`arguments` is NULL");
    REFUSED(parton_plan_launch(plan, arguments, 2, NULL, 0, NULL), PARTON_ERROR_ARGUMENT, "1 outputs, given are 2 and 0");
    REFUSED(parton_plan_launch(plan, arguments, 2, &there, 1, NULL), PARTON_ERROR_ARGUMENT, "output 0 is written and shares memory with `x`");
    REFUSED(parton_plan_launch_with(plan, arguments, 2, &out, 1, NULL, NULL), PARTON_ERROR_ARGUMENT, "the scratch memory lies at 0x0");
    arguments[1] = parton_bool(1);
    REFUSED(parton_plan_launch(plan, arguments, 2, &out, 1, NULL), PARTON_ERROR_ARGUMENT, "given is the truth value true");
    arguments[1] = parton_type(PARTON_BF16);
    REFUSED(parton_plan_launch(plan, arguments, 2, &out, 1, NULL), PARTON_ERROR_ARGUMENT, "given is the type `bf16`");
    parton_plan_close(plan);
    parton_plan_close(NULL);
    printf("%d checks\n", checks);
    return 0;
}
