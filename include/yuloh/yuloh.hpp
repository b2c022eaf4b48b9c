// SPDX-License-Identifier: Apache-2.0
// The C++ face of yuloh.h: the same handles with owners, errors as exceptions. Header only, C++11, so the ABI stays C's.
#ifndef YULOH_YULOH_HPP_
#define YULOH_YULOH_HPP_

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "yuloh/yuloh.h"

namespace yuloh_api {

class Error : public std::runtime_error {
 public:
  Error(yuloh_status s, const char* what) : std::runtime_error(what), status(s) {}
  const yuloh_status status;
};
inline void check(yuloh_status s) {
  if (s != YULOH_OK) throw Error(s, yuloh_error());
}

// A view of the caller's row-major data.
inline yuloh_tensor tensor(yuloh_dtype dtype, const std::vector<int64_t>& dims, void* data) {
  if (dims.size() > YULOH_MAX_RANK) throw Error(YULOH_INVALID, "tensor: too many axes");
  yuloh_tensor t = yuloh_tensor();
  t.dtype = dtype, t.rank = static_cast<int32_t>(dims.size()), t.data = data;
  for (size_t i = 0; i < dims.size(); ++i) t.dims[i] = dims[i];
  return t;
}
inline yuloh_tensor tensor(const std::vector<int64_t>& dims, float* data) { return tensor(YULOH_FLOAT32, dims, data); }

class Config {
 public:
  Config() {
    yuloh_config* c = nullptr;
    check(yuloh_config_create(&c));
    handle_.reset(c, yuloh_config_destroy);
  }
  Config& set(const std::string& key, const std::string& value) {
    check(yuloh_config_set(handle_.get(), key.c_str(), value.c_str()));
    return *this;
  }
  const yuloh_config* get() const { return handle_.get(); }

 private:
  std::shared_ptr<yuloh_config> handle_;
};

class Outputs {
 public:
  explicit Outputs(yuloh_outputs* o) : handle_(o, yuloh_outputs_destroy) {}
  size_t size() const { return static_cast<size_t>(yuloh_outputs_count(handle_.get())); }
  yuloh_tensor operator[](size_t i) const {  // data lives as long as this object
    yuloh_tensor t;
    check(yuloh_outputs_get(handle_.get(), static_cast<int32_t>(i), &t));
    return t;
  }

 private:
  std::shared_ptr<yuloh_outputs> handle_;
};

class Predictor {  // copies share the handle; `clone` makes another one on the same weights
 public:
  explicit Predictor(const std::string& model, const std::string& params = std::string(), const Config& config = Config()) {
    yuloh_predictor* p = nullptr;
    check(yuloh_predictor_create(model.c_str(), params.empty() ? nullptr : params.c_str(), config.get(), &p));
    handle_.reset(p, yuloh_predictor_destroy);
  }
  Predictor clone() const {
    yuloh_predictor* p = nullptr;
    check(yuloh_predictor_clone(handle_.get(), &p));
    Predictor r;
    r.handle_.reset(p, yuloh_predictor_destroy);
    return r;
  }
  std::vector<std::string> input_names() const {
    std::vector<std::string> r;
    for (int32_t i = 0; i < yuloh_predictor_input_count(handle_.get()); ++i) r.push_back(yuloh_predictor_input_name(handle_.get(), i));
    return r;
  }
  std::vector<std::string> output_names() const {
    std::vector<std::string> r;
    for (int32_t i = 0; i < yuloh_predictor_output_count(handle_.get()); ++i) r.push_back(yuloh_predictor_output_name(handle_.get(), i));
    return r;
  }
  // dtype and dims of an input: -1 where any size will do, rank -1 where any number of axes will do.
  yuloh_tensor input_type(size_t i) const {
    yuloh_tensor t;
    check(yuloh_predictor_input_type(handle_.get(), static_cast<int32_t>(i), &t));
    return t;
  }
  void prepare(const std::vector<yuloh_tensor>& inputs) {
    check(yuloh_predictor_prepare(handle_.get(), inputs.data(), static_cast<int32_t>(inputs.size())));
  }
  Outputs run(const std::vector<yuloh_tensor>& inputs) {
    yuloh_outputs* o = nullptr;
    check(yuloh_predictor_run(handle_.get(), inputs.data(), static_cast<int32_t>(inputs.size()), &o));
    return Outputs(o);
  }
  uint64_t memory(const std::string& what) const {
    uint64_t bytes = 0;
    check(yuloh_predictor_memory(handle_.get(), what.c_str(), &bytes));
    return bytes;
  }

 private:
  Predictor() {}
  std::shared_ptr<yuloh_predictor> handle_;
};

}  // namespace yuloh_api
#endif  // YULOH_YULOH_HPP_
