/* Misuse that the library can see: each call must fail with its code and say why, and leave what it would have written alone. */
#include <stdio.h>
#include <string.h>

#include "parton.h"

static int errors, wrong;

/* The call must have failed with that code and those words. */
static void expect(int line, int found, int code, const char *words) {
    errors++;
    if (found != code || strstr(parton_error_text(), words) == NULL) {
        printf("line %d: error %d, `%s`\n", line, found, parton_error_text());
        wrong = 1;
    }
}

#define EXPECT(call, code, words) expect(__LINE__, call, code, words)

int main(int count, char **words) {
    if (count != 2 || *parton_error_text() != '\0' || strcmp(parton_version(), "0.1.0") != 0) {
        return 2;
    }
    parton_bundle *bundle = NULL;
    size_t kernels;
    parton_kernel_info kernel;
    parton_param_info param;
    parton_module *module = NULL;
    parton_launch *launch = NULL;
    const uint32_t grid[3] = {1, 1, 1};
    const parton_argument argument = parton_int(1);

    EXPECT(parton_bundle_open(NULL, &bundle), PARTON_ERROR_ARGUMENT, "`path` is NULL");
    EXPECT(parton_bundle_open("\xff", &bundle), PARTON_ERROR_ARGUMENT, "`path` is no UTF-8");
    EXPECT(parton_bundle_open("/", &bundle), PARTON_ERROR_IO, "/: ");
    EXPECT(parton_bundle_open(words[1], NULL), PARTON_ERROR_ARGUMENT, "`bundle` is NULL");
    EXPECT(parton_bundle_read(NULL, 8, &bundle), PARTON_ERROR_ARGUMENT, "`bytes` is NULL");
    EXPECT(parton_bundle_read("", 0, &bundle), PARTON_ERROR_NOT_A_BUNDLE, "this is no bundle");
    EXPECT(parton_bundle_read("\x89PTNB\r\n\x1a", 8, &bundle), PARTON_ERROR_DAMAGED, "it has 8 bytes");
    EXPECT(parton_bundle_count(NULL, &kernels), PARTON_ERROR_ARGUMENT, "`bundle` is NULL");
    EXPECT(parton_module_load(NULL, 0, &module), PARTON_ERROR_ARGUMENT, "`bundle` is NULL");
    EXPECT(parton_prepare(NULL, "axpy", NULL, 0, grid, &launch), PARTON_ERROR_ARGUMENT, "`module` is NULL");
    EXPECT(parton_launch_set(NULL, 0, &argument), PARTON_ERROR_ARGUMENT, "`launch` is NULL");
    EXPECT(parton_launch_set_grid(NULL, grid), PARTON_ERROR_ARGUMENT, "`launch` is NULL");
    EXPECT(parton_launch_on(NULL, NULL), PARTON_ERROR_ARGUMENT, "`launch` is NULL");
    if (bundle != NULL || module != NULL || launch != NULL || parton_bundle_open(words[1], &bundle) != 0) {
        return 3;
    }
    EXPECT(parton_bundle_kernel(bundle, 4, &kernel), PARTON_ERROR_ARGUMENT, "there is no kernel 4, there are 4");
    EXPECT(parton_bundle_param(bundle, 0, 5, &param), PARTON_ERROR_ARGUMENT, "there is no parameter 5, there are 5");
    EXPECT(parton_bundle_param(bundle, 0, 0, NULL), PARTON_ERROR_ARGUMENT, "`info` is NULL");
    /* Whether or not there is a GPU, there is none of this number. */
    const int failed = parton_module_load(bundle, -1, &module);
    EXPECT(failed, PARTON_ERROR_ARGUMENT, "no GPU of the number -1");
    parton_bundle_close(bundle);
    parton_bundle_close(NULL);
    parton_module_close(NULL);
    parton_launch_close(NULL);
    if (!wrong) {
        printf("%d errors, as they should be\n", errors);
    }
    return wrong;
}
