/* SPDX-License-Identifier: Apache-2.0
 * The C ABI of Yuloh: load a model, run it on buffers. Handles are opaque, structs never change their layout,
 * functions are only ever added; yuloh_abi_version() grows when they are. Every function that can fail
 * returns a yuloh_status, and yuloh_error() then gives the sentence that says what was wrong (per thread,
 * valid until that thread's next call). A predictor may be used from many threads at once. C++ users:
 * yuloh.hpp wraps this header. */
#ifndef YULOH_YULOH_H_
#define YULOH_YULOH_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define YULOH_API
#else
#define YULOH_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum yuloh_status {
  YULOH_OK = 0,
  YULOH_INVALID = 1,     /* wrong value, shape, count or name */
  YULOH_WRONG_TYPE = 2,  /* wrong dtype */
  YULOH_MEMORY = 3,      /* a memory limit, or no memory */
  YULOH_UNSUPPORTED = 4, /* an operator or feature that does not exist */
  YULOH_IO = 5,          /* a file that cannot be read */
  YULOH_FAILED = 6       /* anything else */
} yuloh_status;

typedef enum yuloh_dtype {
  YULOH_BOOL = 0,
  YULOH_UINT8 = 1,
  YULOH_INT8 = 2,
  YULOH_INT16 = 3,
  YULOH_INT32 = 4,
  YULOH_INT64 = 5,
  YULOH_FLOAT16 = 6,
  YULOH_BFLOAT16 = 7,
  YULOH_FLOAT32 = 8,
  YULOH_FLOAT64 = 9
} yuloh_dtype;

#define YULOH_MAX_RANK 16

/* A row-major tensor. `data` belongs to whoever filled the struct. */
typedef struct yuloh_tensor {
  int32_t dtype; /* yuloh_dtype */
  int32_t rank;
  int64_t dims[YULOH_MAX_RANK];
  void* data;
} yuloh_tensor;

typedef struct yuloh_config yuloh_config;
typedef struct yuloh_predictor yuloh_predictor;
typedef struct yuloh_outputs yuloh_outputs;

YULOH_API int32_t yuloh_abi_version(void);
YULOH_API const char* yuloh_error(void);
YULOH_API size_t yuloh_dtype_size(int32_t dtype); /* bytes; 0: no such dtype */

/* Settings as text: "precision" = "float32" | "bfloat16"; "keep_precision" = op names with commas between
 * them; "min_segment" = ops that hang together and must be so many to run in bfloat16; "memory_limit",
 * "plan_cache_bytes" = bytes; "threads" = of the process's executor team; "fold_weights", "fusion",
 * "library", "rules", "warm_up" = "0" | "1". */
YULOH_API yuloh_status yuloh_config_create(yuloh_config** config);
YULOH_API yuloh_status yuloh_config_set(yuloh_config* config, const char* key, const char* value);
YULOH_API void yuloh_config_destroy(yuloh_config* config);

/* `params`: the weights file of Paddle's formats, or NULL. `config`: NULL for defaults. Compiles for the
 * shapes that the file names (unless warm_up = 0). */
YULOH_API yuloh_status yuloh_predictor_create(const char* model, const char* params,
                                              const yuloh_config* config, yuloh_predictor** predictor);
YULOH_API yuloh_status yuloh_predictor_clone(const yuloh_predictor* predictor, yuloh_predictor** clone);
YULOH_API void yuloh_predictor_destroy(yuloh_predictor* predictor);

YULOH_API int32_t yuloh_predictor_input_count(const yuloh_predictor* predictor);
YULOH_API int32_t yuloh_predictor_output_count(const yuloh_predictor* predictor);
YULOH_API const char* yuloh_predictor_input_name(const yuloh_predictor* predictor,
                                                 int32_t index); /* NULL: no such input */
YULOH_API const char* yuloh_predictor_output_name(const yuloh_predictor* predictor, int32_t index);
/* dtype and dims of an input, -1 where any size will do; rank -1 where any number of axes will do; data is
 * NULL. */
YULOH_API yuloh_status yuloh_predictor_input_type(const yuloh_predictor* predictor, int32_t index,
                                                  yuloh_tensor* type);

/* Compiles for these input types ahead of the first run; data is not looked at. */
YULOH_API yuloh_status yuloh_predictor_prepare(yuloh_predictor* predictor, const yuloh_tensor* inputs,
                                               int32_t count);
/* Runs on `inputs`, in the order of the model's inputs. The outputs live until yuloh_outputs_destroy. */
YULOH_API yuloh_status yuloh_predictor_run(yuloh_predictor* predictor, const yuloh_tensor* inputs,
                                           int32_t count, yuloh_outputs** outputs);
/* Bytes of "weights", "plans", "slack" and "other", which add up to "process" (resident); "workspace" of the
 * largest shape; "mapped": weights in the file only; "limit". */
YULOH_API yuloh_status yuloh_predictor_memory(const yuloh_predictor* predictor, const char* what,
                                              uint64_t* bytes);

YULOH_API int32_t yuloh_outputs_count(const yuloh_outputs* outputs);
YULOH_API yuloh_status yuloh_outputs_get(const yuloh_outputs* outputs, int32_t index, yuloh_tensor* tensor);
YULOH_API void yuloh_outputs_destroy(yuloh_outputs* outputs);

#ifdef __cplusplus
}
#endif
#endif /* YULOH_YULOH_H_ */
