/* SPDX-License-Identifier: Apache-2.0
 * Loads a model, runs it on ones and prints the first numbers of every output:
 *   cc -Iinclude examples/c/predict.c -Lbuild -lyuloh -o predict && ./predict model.yuloh */
#include <stdio.h>
#include <stdlib.h>

#include "yuloh/yuloh.h"

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, yuloh_error());
  return 1;
}

int main(int argc, char** argv) {
  yuloh_predictor* predictor = NULL;
  yuloh_outputs* outputs = NULL;
  yuloh_tensor inputs[8];
  int32_t count, i;
  if (argc < 2) {
    fprintf(stderr, "usage: %s MODEL [PARAMS]\n", argv[0]);
    return 2;
  }
  if (yuloh_predictor_create(argv[1], argc > 2 ? argv[2] : NULL, NULL, &predictor) != YULOH_OK)
    return failed("load");
  count = yuloh_predictor_input_count(predictor);
  if (count > 8) return 2;
  for (i = 0; i < count; ++i) {
    int64_t n = 1, k;
    int32_t d;
    float* data;
    if (yuloh_predictor_input_type(predictor, i, &inputs[i]) != YULOH_OK) return failed("input");
    for (d = 0; d < inputs[i].rank; ++d) {
      if (inputs[i].dims[d] < 0) inputs[i].dims[d] = 1; /* an open size: one will do */
      n *= inputs[i].dims[d];
    }
    if (inputs[i].dtype != YULOH_FLOAT32) return 2;
    data = malloc((size_t)n * sizeof(float) + 1);
    if (!data) return 2;
    for (k = 0; k < n; ++k) data[k] = 1.0f;
    inputs[i].data = data;
  }
  if (yuloh_predictor_run(predictor, inputs, count, &outputs) != YULOH_OK) return failed("run");
  for (i = 0; i < yuloh_outputs_count(outputs); ++i) {
    yuloh_tensor t;
    int32_t d;
    if (yuloh_outputs_get(outputs, i, &t) != YULOH_OK) return failed("output");
    printf("%s:", yuloh_predictor_output_name(predictor, i));
    for (d = 0; d < t.rank; ++d) printf(" %lld", (long long)t.dims[d]);
    if (t.dtype == YULOH_FLOAT32) printf(" first %.6g", ((const float*)t.data)[0]);
    printf("\n");
  }
  for (i = 0; i < count; ++i) free(inputs[i].data);
  yuloh_outputs_destroy(outputs);
  yuloh_predictor_destroy(predictor);
  return 0;
}
