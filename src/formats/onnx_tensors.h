// SPDX-License-Identifier: Apache-2.0
// TensorProtos of an ONNX file: raw, typed, external and sparse data as FileTensors over the mapped bytes.
#pragma once
#include "formats/model.h"
#include "formats/wire.h"

namespace yuloh::formats {

class OnnxTensors {
 public:
  OnnxTensors(std::string path, Ref<Storage> file) : path_(std::move(path)), file_(std::move(file)) {}
  FileTensor dense(Wire w, std::string* name);
  FileTensor sparse(Wire w, std::string* name);  // made dense

 private:
  Ref<Storage> external_data(const Wire& w, const std::string& name,
                             const std::map<std::string, std::string>& where, size_t bytes, size_t* offset);
  const std::string path_;
  const Ref<Storage> file_;
  std::map<std::string, Ref<Storage>> external_;
};

}  // namespace yuloh::formats
