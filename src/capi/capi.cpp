// SPDX-License-Identifier: Apache-2.0
// The C ABI over Session: nothing but conversion and the promise that no exception leaves.
#include <cstring>
#include <mutex>
#include <new>

#include "cpu/cpu.h"
#include "cpu/parallel.h"
#include "formats/import.h"
#include "formats/package.h"
#include "run/program.h"
#include "yuloh/yuloh.h"

using namespace yuloh;

struct yuloh_config {
  SessionOptions options;
  int threads = 0;
  bool warm_up = true;
};
struct yuloh_predictor {
  std::shared_ptr<const Program> program;
  std::shared_ptr<Session> session;
};
struct yuloh_outputs {
  std::vector<TensorType> types;
  std::vector<Ref<Buffer>> buffers;
};

namespace {
thread_local std::string g_error;

yuloh_status status_of(ErrorKind k) {
  switch (k) {
    case ErrorKind::kValue:
    case ErrorKind::kIndex:
    case ErrorKind::kKey: return YULOH_INVALID;
    case ErrorKind::kType: return YULOH_WRONG_TYPE;
    case ErrorKind::kMemory: return YULOH_MEMORY;
    case ErrorKind::kNotImplemented: return YULOH_UNSUPPORTED;
    case ErrorKind::kOs: return YULOH_IO;
    default: return YULOH_FAILED;
  }
}

template <class F>
yuloh_status guarded(F f) noexcept {
  try {
    static std::once_flag once;
    std::call_once(once, register_cpu);
    f();
    return YULOH_OK;
  } catch (const Error& e) {
    try {
      g_error = e.message();
    } catch (...) {}
    return status_of(e.kind());
  } catch (const std::bad_alloc&) {
    try {
      g_error = "out of memory";
    } catch (...) {}
    return YULOH_MEMORY;
  } catch (const std::exception& e) {
    try {
      g_error = e.what();
    } catch (...) {}
    return YULOH_FAILED;
  } catch (...) { return YULOH_FAILED; }
}

void need(const void* p, const char* what) {
  if (!p) value_error("yuloh: ", what, " is NULL.");
}

TensorType type_of(const yuloh_tensor& t, int32_t i) {
  if (t.dtype < YULOH_BOOL || t.dtype > YULOH_FLOAT64)
    type_error("yuloh: input ", i, " has an unknown dtype, got ", t.dtype, ".");
  if (t.rank < 0 || t.rank > YULOH_MAX_RANK)
    value_error("yuloh: input ", i, " has a wrong rank, got ", t.rank, ".");
  TensorType r;
  r.dtype = static_cast<DType>(t.dtype);
  for (int32_t d = 0; d < t.rank; ++d) {
    if (t.dims[d] < 0)
      value_error("yuloh: input ", i, " has a negative extent, got ", t.dims[d], " at axis ", d, ".");
    r.shape.push_back(t.dims[d]);
  }
  numel(r.shape);  // throws on overflow
  return r;
}
std::vector<TensorType> types_of(const yuloh_tensor* inputs, int32_t count) {
  if (count < 0 || (count > 0 && !inputs)) value_error("yuloh: got ", count, " inputs and no array of them.");
  std::vector<TensorType> r;
  for (int32_t i = 0; i < count; ++i) r.push_back(type_of(inputs[i], i));
  return r;
}

void set(yuloh_config& c, const std::string& key, const std::string& v) {
  if (key == "threads") c.threads = static_cast<int>(std::min<size_t>(number_value(key, v), 1024));
  else if (key == "warm_up") c.warm_up = switch_value(key, v);
  else if (!set_option(&c.options, key, v)) value_error("yuloh_config_set: there is no setting '", key, "'.");
}

void fill(yuloh_tensor* t, DType dtype, const int64_t* dims, size_t rank, void* data) {
  if (rank > YULOH_MAX_RANK)
    fail(ErrorKind::kNotImplemented, "yuloh: a tensor of ", rank, " axes does not fit into yuloh_tensor.");
  if (dtype > DType::kFloat64) fail(ErrorKind::kNotImplemented, "yuloh: ", dtype, " has no yuloh_dtype.");
  std::memset(t, 0, sizeof *t);
  t->dtype = static_cast<int32_t>(dtype), t->rank = static_cast<int32_t>(rank), t->data = data;
  for (size_t d = 0; d < rank; ++d) t->dims[d] = dims[d];
}
const char* name_at(const std::vector<ProgramPort>& ports, int32_t i) {
  return i < 0 || static_cast<size_t>(i) >= ports.size() ? nullptr
                                                         : ports[static_cast<size_t>(i)].name.c_str();
}
}  // namespace

static_assert(static_cast<int>(DType::kBool) == YULOH_BOOL &&
              static_cast<int>(DType::kInt64) == YULOH_INT64 &&
              static_cast<int>(DType::kFloat32) == YULOH_FLOAT32 &&
              static_cast<int>(DType::kFloat64) == YULOH_FLOAT64);

extern "C" {

int32_t yuloh_abi_version(void) { return 1; }
const char* yuloh_error(void) { return g_error.c_str(); }
size_t yuloh_dtype_size(int32_t dtype) {
  return dtype < YULOH_BOOL || dtype > YULOH_FLOAT64 ? 0 : dtype_size(static_cast<DType>(dtype));
}

yuloh_status yuloh_config_create(yuloh_config** config) {
  return guarded([&] { need(config, "config"), *config = new yuloh_config; });
}
yuloh_status yuloh_config_set(yuloh_config* config, const char* key, const char* value) {
  return guarded(
      [&] { need(config, "config"), need(key, "key"), need(value, "value"), set(*config, key, value); });
}
void yuloh_config_destroy(yuloh_config* config) { delete config; }

yuloh_status yuloh_predictor_create(const char* model, const char* params, const yuloh_config* config,
                                    yuloh_predictor** predictor) {
  return guarded([&] {
    need(model, "model"), need(predictor, "predictor");
    const yuloh_config c = config ? *config : yuloh_config();
    if (c.threads > 0) set_num_threads(c.threads);
    auto p = std::make_unique<yuloh_predictor>();
    if (formats::is_package(model)) {
      const auto program = formats::read_package(model).program();
      if (!c.warm_up) program->warm.clear();
      p->program = program;
    } else {
      p->program = formats::make_program(formats::read_model(model, params ? params : ""));
    }
    p->session = std::make_shared<Session>(p->program, c.options);
    *predictor = p.release();
  });
}
yuloh_status yuloh_predictor_clone(const yuloh_predictor* predictor, yuloh_predictor** clone) {
  return guarded([&] {
    need(predictor, "predictor"), need(clone, "clone");
    *clone = new yuloh_predictor{predictor->program, predictor->session->clone()};
  });
}
void yuloh_predictor_destroy(yuloh_predictor* predictor) { delete predictor; }

int32_t yuloh_predictor_input_count(const yuloh_predictor* p) {
  return p ? static_cast<int32_t>(p->program->inputs.size()) : 0;
}
int32_t yuloh_predictor_output_count(const yuloh_predictor* p) {
  return p ? static_cast<int32_t>(p->program->outputs.size()) : 0;
}
const char* yuloh_predictor_input_name(const yuloh_predictor* p, int32_t i) {
  return p ? name_at(p->program->inputs, i) : nullptr;
}
const char* yuloh_predictor_output_name(const yuloh_predictor* p, int32_t i) {
  return p ? name_at(p->program->outputs, i) : nullptr;
}
yuloh_status yuloh_predictor_input_type(const yuloh_predictor* p, int32_t i, yuloh_tensor* type) {
  return guarded([&] {
    need(p, "predictor"), need(type, "type");
    if (!name_at(p->program->inputs, i)) value_error("yuloh: there is no input ", i, ".");
    const ProgramPort& port = p->program->inputs[static_cast<size_t>(i)];
    fill(type, port.dtype, port.dims.data(), port.dims.size(), nullptr);
    if (!port.ranked) type->rank = -1;
  });
}

yuloh_status yuloh_predictor_prepare(yuloh_predictor* p, const yuloh_tensor* inputs, int32_t count) {
  return guarded([&] { need(p, "predictor"), p->session->warm_up(types_of(inputs, count)); });
}
yuloh_status yuloh_predictor_run(yuloh_predictor* p, const yuloh_tensor* inputs, int32_t count,
                                 yuloh_outputs** outputs) {
  return guarded([&] {
    need(p, "predictor"), need(outputs, "outputs");
    const std::vector<TensorType> types = types_of(inputs, count);
    std::vector<Ref<Buffer>> buffers;
    for (size_t i = 0; i < types.size(); ++i) {
      const int64_t n = numel(types[i].shape);
      if (n > 0) need(inputs[i].data, "data");
      auto s = make_ref<Storage>();
      static char nothing[64];
      s->data = n > 0 ? inputs[i].data : nothing;
      s->bytes = static_cast<size_t>(n) * dtype_size(types[i].dtype), s->free = [] {};
      auto b = make_ref<Buffer>();
      b->storage = std::move(s), b->strides = row_major_strides(types[i].shape);
      buffers.push_back(std::move(b));
    }
    auto o = std::make_unique<yuloh_outputs>();
    o->buffers = p->session->run(types, buffers, &o->types);
    *outputs = o.release();
  });
}
yuloh_status yuloh_predictor_memory(const yuloh_predictor* p, const char* what, uint64_t* bytes) {
  return guarded([&] {
    need(p, "predictor"), need(what, "what"), need(bytes, "bytes");
    for (const MemoryItem& i : p->session->memory_report())
      if (i.what == what) return (void)(*bytes = i.bytes);
    value_error("yuloh_predictor_memory: there is no item '", what,
                "'; expected weights, plans, slack, other, process, workspace, mapped or limit.");
  });
}

int32_t yuloh_outputs_count(const yuloh_outputs* o) { return o ? static_cast<int32_t>(o->types.size()) : 0; }
yuloh_status yuloh_outputs_get(const yuloh_outputs* o, int32_t i, yuloh_tensor* t) {
  return guarded([&] {
    need(o, "outputs"), need(t, "tensor");
    if (i < 0 || static_cast<size_t>(i) >= o->types.size())
      value_error("yuloh_outputs_get: there is no output ", i, ".");
    const TensorType& type = o->types[static_cast<size_t>(i)];
    fill(t, type.dtype, type.shape.data(), type.shape.size(), o->buffers[static_cast<size_t>(i)]->data());
  });
}
void yuloh_outputs_destroy(yuloh_outputs* outputs) { delete outputs; }

}  // extern "C"
