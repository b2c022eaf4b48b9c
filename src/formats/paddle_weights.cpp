// SPDX-License-Identifier: Apache-2.0
// `.pdiparams`: dense tensors one after another, each a version, levels of detail (empty for weights), a
// TensorDesc message and the data, row-major. Reading maps the file and copies nothing.
#include <cstring>
#include <filesystem>

#include "formats/foreign.h"
#include "formats/mapped_file.h"
#include "formats/paddle.h"
#include "formats/pir_write.h"
#include "formats/whole_file.h"
#include "formats/wire.h"

namespace yuloh::formats {
namespace {
constexpr size_t kAlign = 64;

struct Code {
  int number;
  DType type;
};
constexpr Code kCodes[] = {{0, DType::kBool},        {1, DType::kInt16},      {2, DType::kInt32},
                           {3, DType::kInt64},       {4, DType::kFloat16},    {5, DType::kFloat32},
                           {6, DType::kFloat64},     {20, DType::kUInt8},     {21, DType::kInt8},
                           {22, DType::kBFloat16},   {23, DType::kComplex64}, {24, DType::kComplex128},
                           {32, DType::kFloat8E4M3}, {33, DType::kFloat8E5M2}};

class Cursor {
 public:
  Cursor(const std::string& path, const Ref<Storage>& file) : path_(path), file_(file) {}
  bool at_end() const { return at_ == file_->bytes; }
  size_t position() const { return at_; }
  template <class T>
  T number() {
    T v;
    std::memcpy(&v, take(sizeof v), sizeof v);
    return v;
  }
  const char* take(size_t n) {
    if (n > file_->bytes - at_) bad("ends where ", n, " more bytes are declared");
    const char* p = static_cast<const char*>(file_->data) + at_;
    at_ += n;
    return p;
  }
  template <class... A>
  [[noreturn]] void bad(const A&... a) const {
    value_error("read: ", path_, " is damaged at byte ", at_, ": it ", a..., ".");
  }

 private:
  const std::string& path_;
  const Ref<Storage>& file_;
  size_t at_ = 0;
};

FileTensor read_tensor(Cursor& c, const std::string& path, const Ref<Storage>& file,
                       const std::string& name) {
  if (c.number<uint32_t>() != 0) c.bad("has an unknown tensor version for ", name);
  const auto levels = c.number<uint64_t>();
  if (levels > 64) c.bad("declares ", levels, " levels of detail for ", name);
  for (uint64_t i = 0; i < levels; ++i) c.take(c.number<uint64_t>());
  if (c.number<uint32_t>() != 0) c.bad("has an unknown tensor version for ", name);
  const auto desc_bytes = c.number<int32_t>();
  if (desc_bytes < 0) c.bad("declares a description of ", desc_bytes, " bytes for ", name);
  const char* desc = c.take(static_cast<size_t>(desc_bytes));
  FileTensor t;
  int64_t code = -1;
  for (Wire w(path.c_str(), static_cast<const char*>(file->data), desc, desc + desc_bytes); w.next();) {
    if (w.field == 1) code = w.integer();
    else if (w.field == 2) w.integers([&](int64_t d) { t.type.shape.push_back(d); });
  }
  t.type.dtype = paddle_dtype(code, name);
  for (int64_t d : t.type.shape)
    if (d < 0) c.bad("gives ", name, " a size of ", d);
  size_t bytes;
  if (__builtin_mul_overflow(static_cast<size_t>(numel(t.type.shape)), dtype_size(t.type.dtype), &bytes))
    c.bad("gives ", name, " the shape ", t.type.shape);
  const size_t at = c.position();
  const char* data = c.take(bytes);
  if (t.type.dtype == DType::kBool && !only_bools(data, bytes))
    c.bad("gives ", name, " bytes that are neither true nor false");
  t.buffer = slice_of(file, at, t.type);
  return t;
}
}  // namespace

DType paddle_dtype(int64_t number, const std::string& where) {
  for (const Code& c : kCodes)
    if (c.number == number) return c.type;
  value_error("read: element type ", number, " of ", where, " is not known.");
}
int paddle_dtype_number(DType t) {
  for (const Code& c : kCodes)
    if (c.type == t) return c.number;
  value_error("write: Paddle's files have no element type ", t, ".");
}

std::string weights_path(const std::string& model, const std::string& given) {
  if (!given.empty()) return given;
  return std::filesystem::path(model).replace_extension(".pdiparams").string();
}

std::map<std::string, FileTensor> read_paddle_weights(const std::string& path,
                                                      const std::map<std::string, TensorType>& expected) {
  std::map<std::string, FileTensor> all;
  if (expected.empty()) return all;
  const Ref<Storage> file = map_file(path);
  if (file->bytes < 16 || std::memcmp(file->data, "\0\0\0\0", 4) != 0)
    refuse_foreign_weights(path, {static_cast<const char*>(file->data), file->bytes});
  Cursor c(path, file);
  for (const auto& [name, type] : expected) {
    if (c.at_end())
      value_error("read: ", path, " ends before weight ", name, ", got ", all.size(), " tensors; expected ",
                  expected.size(), ".");
    FileTensor t = read_tensor(c, path, file, name);
    if (!(t.type.shape == type.shape) || t.type.dtype != type.dtype)
      value_error("read: weight ", name, " in ", path, " does not fit the model, got ", t.type.dtype,
                  t.type.shape, "; expected ", type.dtype, type.shape,
                  ". Hint: is this file another model's?");
    all.emplace(name, std::move(t));
  }
  if (!c.at_end()) value_error("read: ", path, " holds more than the model's ", expected.size(), " weights.");
  return all;
}

std::vector<PlacedBytes> placed_paddle_weights(const std::string& path, const Ref<Storage>& file) {
  std::vector<PlacedBytes> all;
  for (Cursor c(path, file); !c.at_end();) {
    const FileTensor t = read_tensor(c, path, file, cat("tensor ", all.size()));
    all.push_back({c.position() - bytes_of(t.type), bytes_of(t.type)});
  }
  return all;
}

void write_paddle(const std::string& path, const std::vector<std::string_view>& program,
                  const std::map<std::string, Value>& weights) {
  const std::string beside = weights_path(path, "");
  if (weights.empty()) {  // Paddle takes no file for no weights, but not an empty one; an older one would be
                          // another program's
    write_whole(path, program);
    std::error_code gone;
    std::filesystem::remove(beside, gone);
    return;
  }
  std::vector<std::string> heads;  // before each tensor's data
  std::vector<Ref<Buffer>> data;
  size_t at = 0;
  for (const auto& [name, v] : weights) {
    const TensorType& t = v.type();
    Ref<Buffer> b = row_major(t, read_value(v));
    std::string desc;  // TensorDesc: data_type, dims
    const auto varint = [&desc](uint64_t n) {
      for (; n >= 128; n >>= 7) desc += static_cast<char>(n | 128);
      desc += static_cast<char>(n);
    };
    desc += '\x08';
    varint(static_cast<uint64_t>(paddle_dtype_number(t.dtype)));
    for (int64_t d : t.shape) desc += '\x10', varint(static_cast<uint64_t>(d));
    std::string h(4 + 8 + 4, '\0');  // version, levels of detail: none, version
    // A field that nobody knows, and every protobuf reader passes over, brings the data to a multiple of 64:
    // they are used where the file is mapped, here and by the package beside it.
    if (size_t pad = -(at + h.size() + 4 + desc.size()) % kAlign) {
      pad += pad < 2 ? kAlign : 0;
      desc += '\x7a', desc += static_cast<char>(pad - 2), desc.append(pad - 2, '\0');
    }
    const auto n = static_cast<int32_t>(desc.size());
    h.append(reinterpret_cast<const char*>(&n), sizeof n);
    heads.push_back(h + desc);
    at += heads.back().size() + bytes_of(t);
    data.push_back(std::move(b));
  }
  std::vector<std::string_view> parts;
  size_t i = 0;
  for (const auto& [name, v] : weights) {
    parts.push_back(heads[i]);
    parts.emplace_back(static_cast<const char*>(data[i]->data()), bytes_of(v.type()));
    ++i;
  }
  write_whole({{beside, parts}, {path, program}});
}

}  // namespace yuloh::formats
