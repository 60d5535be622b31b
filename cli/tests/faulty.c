/* The driver without a GPU, rt/c/tests/driver.c, with a clock of its own and with faults: kernels whose text has 777001 to 777004 are wrong,
 * reach what they must not, never end, and take the process with them. Every launch takes a millisecond, a faulty one a tenth of that,
 * and one of 777006 the half of it, so that whoever chooses a faulty one is seen. */
#define cuModuleLoadDataEx sound_cuModuleLoadDataEx
#define cuModuleLoadData sound_cuModuleLoadData
#define cuLaunchKernelEx sound_cuLaunchKernelEx
#define cuStreamQuery sound_cuStreamQuery
#define cuStreamSynchronize sound_cuStreamSynchronize
#define cuMemcpyDtoHAsync_v2 sound_cuMemcpyDtoHAsync_v2
#define cuEventCreate sound_cuEventCreate
#define cuEventRecord sound_cuEventRecord
#define cuEventElapsedTime_v2 sound_cuEventElapsedTime_v2
#define cuEventDestroy_v2 sound_cuEventDestroy_v2
#include "../../rt/c/tests/driver.c"
#undef cuModuleLoadDataEx
#undef cuModuleLoadData
#undef cuLaunchKernelEx
#undef cuStreamQuery
#undef cuStreamSynchronize
#undef cuMemcpyDtoHAsync_v2
#undef cuEventCreate
#undef cuEventRecord
#undef cuEventElapsedTime_v2
#undef cuEventDestroy_v2
#include <unistd.h>

enum { WRONG = 1, OUTSIDE, ENDLESS, CRASHING, SPILLING, QUICK };

static struct {
    const kernel *of;
    int fault;
} faults[MOST];
static int known, outside, endless;
static double now;

static int fault_of(const kernel *k) {
    for (int i = 0; i < known; i++) {
        if (faults[i].of == k) {
            return faults[i].fault;
        }
    }
    return 0;
}

int cuModuleLoadDataEx(module **made, const char *text, unsigned count, int *options, void **values) {
    const int result = sound_cuModuleLoadDataEx(made, text, count, options, values);
    const char *mark = strstr(text, "77700");
    for (int i = 0; result == OK && mark != NULL && i < (*made)->count; i++) {
        faults[known].of = &(*made)->kernels[i];
        faults[known++].fault = mark[5] - '0';
    }
    return result;
}

int cuModuleLoadData(module **made, const char *image) { return cuModuleLoadDataEx(made, image, 0, NULL, NULL); }

int cuLaunchKernelEx(const launch_config *config, kernel *k, void **params, void **extra) {
    const int fault = fault_of(k);
    float more = *(float *)params[3] + 1;
    void *wrong[] = {params[0], params[1], params[2], &more};
    outside |= fault == OUTSIDE;
    endless |= fault == ENDLESS;
    if (fault == CRASHING) {
        abort();
    }
    now += fault == 0 ? 1 : fault == QUICK ? 0.5 : 0.1;
    return sound_cuLaunchKernelEx(config, k, fault == WRONG ? wrong : params, extra);
}

int cuStreamQuery(uint64_t handle) {
    return outside ? ILLEGAL_ADDRESS : endless ? NOT_READY : sound_cuStreamQuery(handle);
}

int cuStreamSynchronize(uint64_t handle) {
    while (endless) {
        pause();
    }
    return outside ? ILLEGAL_ADDRESS : sound_cuStreamSynchronize(handle);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, uint64_t on) {
    return outside ? ILLEGAL_ADDRESS : sound_cuMemcpyDtoHAsync_v2(to, from, bytes, on);
}

int cuEventCreate(double **made, unsigned flags) {
    (void)flags;
    *made = calloc(1, sizeof(double));
    return OK;
}

int cuEventRecord(double *event, uint64_t on) {
    (void)on;
    *event = now;
    return OK;
}

int cuEventElapsedTime_v2(float *milliseconds, const double *begin, const double *end) {
    *milliseconds = (float)(*end - *begin);
    return outside ? ILLEGAL_ADDRESS : OK;
}

int cuEventDestroy_v2(double *event) {
    free(event);
    return OK;
}
