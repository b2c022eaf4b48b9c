// SPDX-License-Identifier: Apache-2.0
#include "formats/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "formats/mapped_file.h"
#include "formats/whole_file.h"
#include "run/recording.h"

namespace yuloh::formats {
namespace {
using Json = nlohmann::ordered_json;
constexpr size_t kMaxHeader = 100'000'000;  // the format's own bound
constexpr uint32_t kMaxAxes = 32;

struct Element {
  const char* name;
  DType held;
  size_t bytes;  // in the file; 0: known by name only, refused
};
constexpr Element kElements[] = {
    {"BOOL", DType::kBool, 1},         {"U8", DType::kUInt8, 1},           {"I8", DType::kInt8, 1},
    {"I16", DType::kInt16, 2},         {"I32", DType::kInt32, 4},          {"I64", DType::kInt64, 8},
    {"F16", DType::kFloat16, 2},       {"BF16", DType::kBFloat16, 2},      {"F32", DType::kFloat32, 4},
    {"F64", DType::kFloat64, 8},       {"F8_E4M3", DType::kFloat8E4M3, 1}, {"F8_E5M2", DType::kFloat8E5M2, 1},
    {"C64", DType::kComplex64, 8},     {"C128", DType::kComplex128, 16},   {"U16", DType::kInt32, 2},
    {"U32", DType::kInt64, 4},         {"U64", DType::kInt64, 8},          {"F8_E8M0", DType::kUInt8, 0},
    {"F8_E5M2FNUZ", DType::kUInt8, 0}, {"F8_E4M3FNUZ", DType::kUInt8, 0},  {"F4", DType::kUInt8, 0},
    {"F6_E2M3", DType::kUInt8, 0},     {"F6_E3M2", DType::kUInt8, 0}};

const Element* element_named(const std::string& name) {
  for (const Element& e : kElements)
    if (name == e.name) return &e;
  return nullptr;
}
const Element& known_element(const std::string& where, const std::string& name) {
  const Element* e = element_named(name);
  if (!e) value_error("load: ", where, " has the unknown element type ", name.substr(0, 40), ".");
  if (!e->bytes)
    fail(ErrorKind::kNotImplemented, "load: ", where, " has elements of type ", name,
         ", which have no counterpart here. Hint: write it as F16, BF16 or F32.");
  return *e;
}
const Element& element_of(DType t) {
  for (const Element& e : kElements)
    if (e.held == t && e.bytes == dtype_size(t)) return e;
  value_error("save: safetensors files have no element type ", t, ".");
}

// Elements of a shape, or an error: nothing that this counts has been allocated yet.
size_t count_of(const std::string& where, const Shape& shape) {
  size_t n = 1;
  bool empty = false;
  for (Dim d : shape) {
    if (d < 0) value_error("load: ", where, " has shape ", shape, "; sizes must not be negative.");
    empty = empty || d == 0;
    if (d && __builtin_mul_overflow(n, static_cast<size_t>(d), &n)) n = SIZE_MAX;
    if (n >> 46) value_error("load: ", where, " has shape ", shape, ", which no file can hold.");
  }
  return empty ? 0 : n;
}

uint64_t unsigned_at(const char* p, size_t bytes) {
  uint64_t v = 0;
  std::memcpy(&v, p, bytes);
  return v;
}

void copy_element(char* to, const char* from, const Element& e, bool swap, const std::string& where) {
  char raw[16];
  std::memcpy(raw, from, e.bytes);
  if (swap) {
    const size_t part = is_complex(e.held) ? e.bytes / 2 : e.bytes;
    for (size_t at = 0; at < e.bytes; at += part) std::reverse(raw + at, raw + at + part);
  }
  if (e.name[0] != 'U' || e.bytes == 1) {
    std::memcpy(to, raw, e.bytes);
    return;
  }
  const uint64_t v = unsigned_at(raw, e.bytes);
  if (v >> 63) value_error("load: ", where, " holds ", v, ", which int64 cannot hold.");
  store_int(to, e.held, static_cast<int64_t>(v));
}

void gather(char*& to, const char* from, const Element& e, const Shape& shape, const Ints& strides,
            uint32_t axis, bool swap, const std::string& where) {
  if (axis == shape.size()) {
    copy_element(to, from, e, swap, where);
    to += dtype_size(e.held);
    return;
  }
  for (Dim i = 0; i < shape[axis]; ++i)
    gather(to, from + static_cast<size_t>(i * strides[axis]) * e.bytes, e, shape, strides, axis + 1, swap,
           where);
}

// The header as JSON. A name that stands there twice is refused: readers would disagree on which one counts.
Json parse_header(const std::string& path, std::string_view text) {
  std::vector<std::set<std::string>> seen;
  const Json::parser_callback_t look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > 3)
      value_error("load: ", path, " is damaged: its header is nested deeper than the format allows.");
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end && !seen.empty()) seen.pop_back();
    if (event == Json::parse_event_t::key && !seen.empty() &&
        !seen.back().insert(parsed.get<std::string>()).second)
      value_error("load: ", path, " is damaged: its header names ", parsed.get<std::string>().substr(0, 100),
                  " twice.");
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), look);
  } catch (const Json::exception& e) {
    value_error("load: ", path, " is damaged: its header is not JSON (", std::string(e.what()).substr(0, 200),
                ").");
  }
}

struct Placed {
  size_t begin, end;
  std::string name, element;
  Shape shape;
};

size_t whole_number(const std::string& where, const Json& j, const char* what) {
  if (!j.is_number_unsigned())
    value_error("load: ", where, " has a bad header: ", what, " must be whole numbers from 0.");
  return j.get<size_t>();
}

Placed place_of(const std::string& where, const std::string& name, const Json& j) {
  if (!j.is_object() || !j.contains("dtype") || !j.contains("shape") || !j.contains("data_offsets") ||
      j.size() != 3)
    value_error("load: ", where, " has a bad header; expected dtype, shape and data_offsets.");
  const Json &dtype = j["dtype"], &shape = j["shape"], &range = j["data_offsets"];
  if (!dtype.is_string() || !shape.is_array() || !range.is_array() || range.size() != 2)
    value_error("load: ", where, " has a bad header; expected a name, a list of sizes and two offsets.");
  if (shape.size() > kMaxAxes)
    value_error("load: ", where, " has ", shape.size(), " axes; expected at most ", kMaxAxes, ".");
  Placed p{whole_number(where, range[0], "offsets"),
           whole_number(where, range[1], "offsets"),
           name,
           dtype.get<std::string>(),
           {}};
  for (const Json& d : shape) {
    const size_t n = whole_number(where, d, "sizes");
    if (n >> 46) value_error("load: ", where, " has a size of ", n, ", which no file can hold.");
    p.shape.push_back(static_cast<Dim>(n));
  }
  return p;
}
}  // namespace

FileTensor tensor_in(const std::string& where, const Ref<Storage>& bytes, size_t offset,
                     const std::string& element, const Shape& shape, const Ints& strides, bool swap) {
  const Element& e = known_element(where, element);
  if (shape.size() > kMaxAxes || strides.size() != shape.size())
    value_error("load: ", where, " has ", shape.size(), " sizes and ", strides.size(),
                " strides; expected as many, at most ", kMaxAxes, ".");
  const size_t n = count_of(where, shape);
  unsigned __int128 reach = n ? 1 : 0;  // elements from the first to the last
  for (uint32_t i = 0; i < shape.size(); ++i) {
    if (strides[i] < 0)
      value_error("load: ", where, " has a stride of ", strides[i], "; expected 0 or more.");
    if (n) reach += static_cast<unsigned __int128>(shape[i] - 1) * static_cast<uint64_t>(strides[i]);
  }
  if (offset > bytes->bytes || reach * e.bytes > bytes->bytes - offset)
    value_error("load: ", where, " (", element, to_string(shape), ") reaches beyond its data of ",
                bytes->bytes - std::min(offset, bytes->bytes), " bytes.");
  // Few bytes may be repeated (stride 0) into a tensor of any size.
  if (n > (size_t{1} << 16) && n / 1024 > reach)
    value_error("load: ", where, " repeats ", static_cast<size_t>(reach), " elements ", n,
                " times, which is refused.");
  FileTensor t;
  t.type = {e.held, shape};
  if (e.held == DType::kBool &&
      !only_bools(static_cast<const char*>(bytes->data) + offset, static_cast<size_t>(reach)))
    value_error("load: ", where, " holds bytes that are neither true nor false.");
  if (e.bytes == dtype_size(e.held) && !swap && std::strcmp(e.name, "U64") != 0 &&
      is_row_major(shape, strides)) {
    t.buffer = slice_of(bytes, offset, t.type);
    return t;
  }
  t.buffer = allocate_buffer(t.type);
  char* to = static_cast<char*>(t.buffer->data());
  if (n) gather(to, static_cast<const char*>(bytes->data) + offset, e, shape, strides, 0, swap, where);
  return t;
}

SafeTensors read_safetensors(const std::string& path, const Ref<Storage>& file) {
  if (file->bytes < 8)
    value_error("load: ", path, " is damaged: it has ", file->bytes,
                " bytes; a safetensors file has at least 10.");
  const uint64_t n = unsigned_at(static_cast<const char*>(file->data), 8);
  if (n > kMaxHeader)
    value_error("load: ", path, " is damaged: its header claims ", n, " bytes; expected at most ", kMaxHeader,
                ".");
  if (n > file->bytes - 8)
    value_error("load: ", path, " is cut short: its header needs ", n, " bytes, ", file->bytes - 8,
                " are there.");
  const std::string_view text(static_cast<const char*>(file->data) + 8, n);
  if (text.empty() || text[0] != '{')
    value_error("load: ", path, " is not a safetensors file: its header does not begin with '{'.");
  const Json header = parse_header(path, text);
  SafeTensors all;
  std::vector<Placed> places;
  for (const auto& [name, j] : header.items()) {
    if (name == "__metadata__") {
      if (!j.is_object()) value_error("load: ", path, " is damaged: __metadata__ must hold names and texts.");
      for (const auto& [key, v] : j.items()) {
        if (!v.is_string())
          value_error("load: ", path, " is damaged: __metadata__ must hold texts, ", key.substr(0, 100),
                      " is none.");
        all.metadata[key] = v.get<std::string>();
      }
      continue;
    }
    places.push_back(place_of(cat(path, ": tensor ", name.substr(0, 200)), name, j));
  }
  std::stable_sort(places.begin(), places.end(), [](const Placed& a, const Placed& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  const size_t data = file->bytes - 8 - n;
  size_t at = 0;
  for (const Placed& p : places) {
    const std::string where = cat(path, ": tensor ", p.name.substr(0, 200));
    if (p.begin != at || p.end < p.begin)
      value_error("load: ", where, " has data at ", p.begin, " to ", p.end, "; expected to begin at ", at,
                  ", where the one before ends.");
    if (p.end > data)
      value_error("load: ", path, " is cut short: tensor ", p.name.substr(0, 200), " ends at ", p.end, " of ",
                  data, " bytes of data.");
    const size_t bytes = count_of(where, p.shape) * known_element(where, p.element).bytes;
    if (bytes != p.end - p.begin)
      value_error("load: ", where, " has ", p.end - p.begin, " bytes of data; expected ", bytes, " for ",
                  p.element, to_string(p.shape), ".");
    at = p.end;
  }
  if (at != data)
    value_error("load: ", path, " is damaged: ", data - at, " bytes of data belong to no tensor.");
  for (const Placed& p : places)
    all.tensors.emplace_back(p.name, tensor_in(cat(path, ": tensor ", p.name), file, 8 + n + p.begin,
                                               p.element, p.shape, row_major_strides(p.shape), false));
  return all;
}

void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, FileTensor>>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<const std::pair<std::string, FileTensor>*> order;
  std::set<std::string> names;
  for (const auto& t : tensors) {
    if (!names.insert(t.first).second || t.first == "__metadata__")
      value_error("save: the name ", t.first, " is taken; tensors need names of their own.");
    element_of(t.second.type.dtype);
    order.push_back(&t);
  }
  std::stable_sort(order.begin(), order.end(), [](auto* a, auto* b) {
    return dtype_size(a->second.type.dtype) > dtype_size(b->second.type.dtype);
  });
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::vector<Ref<Buffer>> data;
  std::vector<size_t> sizes;
  size_t at = 0;
  for (const auto* t : order) {
    const TensorType& type = t->second.type;
    const size_t bytes = static_cast<size_t>(numel(type.shape)) * dtype_size(type.dtype);
    header[t->first] = {{"dtype", element_of(type.dtype).name},
                        {"shape", std::vector<int64_t>(type.shape.begin(), type.shape.end())},
                        {"data_offsets", {at, at + bytes}}};
    data.push_back(row_major(type, t->second.buffer));
    sizes.push_back(bytes);
    at += bytes;
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
    value_error("save: ", path, ": names and metadata must be UTF-8 text.");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > kMaxHeader)
    value_error("save: ", path, " would need a header of ", text.size(), " bytes; the format allows ",
                kMaxHeader, ".");
  std::string length(8, '\0');
  const uint64_t n = text.size();
  std::memcpy(length.data(), &n, 8);
  std::vector<std::string_view> parts{length, text};
  for (size_t i = 0; i < data.size(); ++i)
    parts.emplace_back(static_cast<const char*>(data[i]->data()), sizes[i]);
  write_whole(path, parts);
}

}  // namespace yuloh::formats
