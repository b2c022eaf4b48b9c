// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx_tensors.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "formats/foreign.h"
#include "formats/mapped_file.h"
#include "formats/onnx_types.h"

namespace yuloh::formats {
namespace {
namespace fs = std::filesystem;

// Element count and bytes in the file, checked; `named` only for messages.
size_t elements(const Wire& w, const std::string& named, const Shape& dims) {
  size_t n = 1;
  for (Dim d : dims) {
    if (d < 0) w.bad("'", named, "' has a dimension of ", d);
    if (__builtin_mul_overflow(n, static_cast<size_t>(d), &n) || n >> 46)
      w.bad("'", named, "' has shape ", to_string(dims), ", which no file can hold");
  }
  return n;
}
[[noreturn]] void wrong_size(const Wire& w, const std::string& name, size_t got, size_t want,
                             const TensorType& t) {
  w.bad("tensor '", name, "' has ", got, " bytes of data; expected ", want, " for ", t.dtype, " ",
        to_string(t.shape));
}

// int32_data carries everything up to 32 bits and uint64_data uint32, one element (or one packed byte) per
// entry.
void narrow(std::vector<char>* data, size_t width, const OnnxTypeInfo& info) {
  const size_t want = info.bits < 8 ? 1 : static_cast<size_t>(info.bits) / 8;
  if (width <= want) return;
  const size_t n = data->size() / width;
  for (size_t i = 0; i < n; ++i) std::memmove(data->data() + i * want, data->data() + i * width, want);
  data->resize(n * want);
}

FileTensor finish(FileTensor t, const OnnxTypeInfo& info, const Ref<Storage>& file, size_t offset, size_t n) {
  if (!info.wider || info.bits == 64) {
    t.buffer = slice_of(file, offset, t.type);
    return t;
  }
  t.buffer = allocate_buffer(t.type);
  const auto* p = static_cast<const unsigned char*>(file->data) + offset;
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits = 0;
    if (info.bits >= 8) {
      std::memcpy(&bits, p + i * (info.bits / 8), info.bits / 8);
    } else {
      const size_t per = 8 / info.bits;
      bits = p[i / per] >> (i % per * info.bits) & ((1u << info.bits) - 1);
    }
    char* to = static_cast<char*>(t.buffer->data()) + i * dtype_size(t.type.dtype);
    if (t.type.dtype == DType::kFloat32) {
      store_double(to, t.type.dtype, minifloat_to_float(t.stored_as, bits));
    } else {
      const bool negative = t.type.dtype == DType::kInt8 && bits >> (info.bits - 1);
      store_int(to, t.type.dtype, static_cast<int64_t>(bits) - (negative ? int64_t{1} << info.bits : 0));
    }
  }
  return t;
}

void entry(Wire w, std::map<std::string, std::string>* out) {
  std::string key, value;
  while (w.next()) {
    if (w.field == 1) key = w.text();
    else if (w.field == 2) value = w.text();
  }
  (*out)[key] = value;
}
size_t count(const Wire& w, const std::string& name, const std::map<std::string, std::string>& where,
             const char* key, size_t otherwise) {
  const auto it = where.find(key);
  if (it == where.end() || it->second.empty()) return otherwise;
  if (it->second.size() > 18 || it->second.find_first_not_of("0123456789") != it->second.npos)
    w.bad("external data of '", name, "': ", key, " is '", it->second.substr(0, 40), "'; expected a number");
  return std::stoull(it->second);
}
}  // namespace

FileTensor OnnxTensors::dense(Wire w, std::string* name) {
  int64_t type = 0;
  Shape dims;
  std::vector<char> decoded;  // typed fields, as raw data would be
  std::string_view raw;
  bool has_raw = false, external = false;
  std::map<std::string, std::string> where;
  FileTensor t;
  size_t width = 0;  // of a decoded element
  auto put = [&](auto v) {
    const size_t old = decoded.size();
    decoded.resize(old + sizeof v);
    std::memcpy(decoded.data() + old, &v, sizeof v), width = sizeof v;
  };
  while (w.next()) {
    switch (w.field) {
      case 1:
        w.integers([&](int64_t d) {
          if (dims.size() >= 32) w.bad("a tensor has more than 32 dimensions");
          dims.push_back(d);
        });
        break;
      case 2: type = w.integer(); break;
      case 4: w.fixeds<float>(put); break;
      case 5: w.integers([&](int64_t v) { put(static_cast<int32_t>(v)); }); break;
      case 6: t.strings.push_back(w.text()); break;
      case 7: w.integers(put); break;
      case 8: *name = w.text(); break;
      case 9: raw = w.bytes(), has_raw = true; break;
      case 10: w.fixeds<double>(put); break;
      case 11: w.integers(put); break;
      case 13: entry(w.message(), &where); break;
      case 14: external = w.integer() == 1; break;
      default: break;
    }
  }
  const OnnxTypeInfo* info = onnx_type_info(type);
  if (!info) w.bad("tensor '", *name, "' has element type ", type, "; expected 1 to 26");
  const size_t n = elements(w, *name, dims);
  t.type = {info->dtype, dims}, t.stored_as = info->wider ? static_cast<int>(type) : 0;
  if (info->dtype == DType::kString) {
    if (t.strings.size() != n) w.bad("tensor '", *name, "' has ", t.strings.size(), " strings; expected ", n);
    return t;
  }
  const size_t bytes = (n * static_cast<size_t>(info->bits) + 7) / 8;
  const auto held_in = [&](const Ref<Storage>& file, size_t offset) {
    if (info->dtype == DType::kBool && !only_bools(static_cast<const char*>(file->data) + offset, bytes))
      w.bad("tensor '", *name, "' holds bytes that are neither true nor false");
    return finish(std::move(t), *info, file, offset, n);
  };
  if (external) {
    size_t offset = 0;
    const Ref<Storage> file = external_data(w, *name, where, bytes, &offset);
    return held_in(file, offset);
  }
  if (has_raw) {
    if (raw.size() != bytes) wrong_size(w, *name, raw.size(), bytes, t.type);
    return held_in(file_, static_cast<size_t>(raw.data() - static_cast<const char*>(file_->data)));
  }
  narrow(&decoded, width, *info);
  if (decoded.size() != bytes) wrong_size(w, *name, decoded.size(), bytes, t.type);
  auto own = allocate_storage(decoded.size());
  if (!decoded.empty()) std::memcpy(own->data, decoded.data(), decoded.size());
  return held_in(own, 0);
}

// A file beside the model or below its folder; links may not lead out of it either.
Ref<Storage> OnnxTensors::external_data(const Wire& w, const std::string& name,
                                        const std::map<std::string, std::string>& where, size_t bytes,
                                        size_t* offset) {
  const auto it = where.find("location");
  const std::string location = it == where.end() ? std::string() : it->second;
  const fs::path relative(location);
  if (location.empty() || relative.is_absolute() || location.find('\0') != location.npos)
    w.bad("external data of '", name, "' is at '", location, "'; expected a path relative to the model");
  Ref<Storage>& file = external_[location];
  if (!file) {
    std::error_code e;
    const fs::path folder = fs::weakly_canonical(fs::absolute(fs::path(path_)).parent_path(), e);
    const fs::path full = fs::weakly_canonical(folder / relative, e);
    const fs::path inside = full.lexically_relative(folder);
    if (e || inside.empty() || *inside.begin() == "..")
      w.bad("external data of '", name, "' is at '", location, "', outside the model's folder");
    file = map_file(full.string());
  }
  *offset = count(w, name, where, "offset", 0);
  const size_t left = *offset <= file->bytes ? file->bytes - *offset : 0;
  const size_t length = count(w, name, where, "length", bytes);
  if (bytes > left)
    refuse_foreign_weights(cat(path_, ": external data '", location, "'"),
                           {static_cast<const char*>(file->data), file->bytes});
  if (length != bytes || bytes > left)
    w.bad("external data of '", name, "': ", std::min(length, left), " bytes at ", *offset, " of '", location,
          "'; expected ", bytes);
  return file;
}

// Made dense: values at row-major positions, or at coordinates [n, rank]. Bounded by the size of the file, so
// that few bytes cannot ask for much memory.
FileTensor OnnxTensors::sparse(Wire w, std::string* name) {
  FileTensor values, at;
  Shape dims;
  std::string unused;
  while (w.next()) {
    if (w.field == 1) values = dense(w.message(), name);
    else if (w.field == 2) at = dense(w.message(), &unused);
    else if (w.field == 3)
      w.integers([&](int64_t d) {
        if (dims.size() >= 32) w.bad("a tensor has more than 32 dimensions");
        dims.push_back(d);
      });
  }
  if (!values.buffer || values.type.shape.size() != 1 || (at.buffer && at.type.dtype != DType::kInt64))
    w.bad("sparse tensor '", *name, "' has no list of values with int64 positions");
  const size_t total = elements(w, *name, dims), n = static_cast<size_t>(values.type.shape[0]);
  const size_t size = dtype_size(values.type.dtype);
  if (total * size > (size_t{64} << 20) + 64 * file_->bytes)
    w.bad("sparse tensor '", *name, "' has shape ", to_string(dims), ", out of proportion to its file");
  const bool flat = at.type.shape.size() == 1;
  if (n &&
      (!at.buffer || !(at.type.shape == (flat ? Shape{static_cast<Dim>(n)}
                                              : Shape{static_cast<Dim>(n), static_cast<Dim>(dims.size())}))))
    w.bad("sparse tensor '", *name, "' has ", n, " values and positions ", to_string(at.type.shape));
  FileTensor t;
  t.type = {values.type.dtype, dims}, t.stored_as = values.stored_as;
  t.buffer = allocate_buffer(t.type);
  char* to = static_cast<char*>(t.buffer->data());
  std::memset(to, 0, total * size);
  const int64_t* p = n ? static_cast<const int64_t*>(at.buffer->data()) : nullptr;
  const Ints strides = row_major_strides(dims);
  for (size_t i = 0; i < n; ++i) {
    int64_t k = flat ? p[i] : 0;
    for (size_t d = 0; !flat && d < dims.size(); ++d) {
      const int64_t c = p[i * dims.size() + d];
      if (c < 0 || c >= dims[d]) w.bad("sparse tensor '", *name, "' has a position outside its shape");
      k += c * strides[d];
    }
    if (k < 0 || k >= static_cast<int64_t>(total))
      w.bad("sparse tensor '", *name, "' has a position outside its shape");
    std::memcpy(to + static_cast<size_t>(k) * size,
                static_cast<const char*>(values.buffer->data()) + i * size, size);
  }
  return t;
}

}  // namespace yuloh::formats
