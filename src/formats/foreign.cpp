// SPDX-License-Identifier: Apache-2.0
#include "formats/foreign.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace yuloh::formats {
namespace {
using std::string_view_literals::operator""sv;

constexpr const char* kAgain = "download it again";
constexpr const char* kUnpack = "unpack it and name the model inside";
constexpr const char* kWeights =
    "paddle.load reads it; name the model's own file (.onnx, .json, .pdmodel, .yuloh)";
constexpr const char* kToOnnx = "export it to ONNX with the framework that made it";

struct Signature {
  size_t at;
  std::string_view bytes;
  const char *what, *hint;
  bool weights = false;
};
constexpr Signature kSignatures[] = {
    {0, "version https://git-lfs.github.com/spec/"sv, "a Git LFS pointer (the file itself was not fetched)",
     "git lfs pull"},
    {0, "version https://hawser.github.com/spec/"sv, "a Git LFS pointer (the file itself was not fetched)",
     "git lfs pull"},
    {0, "\x1f\x8b"sv, "compressed by gzip", kUnpack},
    {0, "BZh"sv, "compressed by bzip2", kUnpack},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "compressed by xz", kUnpack},
    {0, "\x28\xb5\x2f\xfd"sv, "compressed by zstd", kUnpack},
    {0, "7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack},
    {0, "Rar!\x1a"sv, "a RAR archive", kUnpack},
    {257, "ustar"sv, "a tar archive", kUnpack},
    {0, "\x89HDF\r\n\x1a\n"sv, "an HDF5 file (Keras, NetCDF)", kToOnnx},
    {0, "GGUF"sv, "a GGUF file (llama.cpp)", "models of this format are not read"},
    {4, "TFL3"sv, "a TensorFlow Lite model", kToOnnx},
    {4, "ORTM"sv, "a model in ONNX Runtime's own format (.ort)", "take the .onnx file that it was made from"},
    {0, "\x93NUMPY"sv, "a NumPy array (.npy)", "arrays are no model"},
    {0, "\x89PNG"sv, "a PNG image", "an image is no model"},
    {0, "\xff\xd8\xff"sv, "a JPEG image", "an image is no model"},
    {0, "%PDF"sv, "a PDF document", kAgain},
    {0,
     "\x7f"
     "ELF"sv,
     "a program or library of this machine (ELF)", "name the model file"},
    {0, "MZ"sv, "a program of Windows", "name the model file"},
};

bool contains(std::string_view in, std::string_view what) { return in.find(what) != std::string_view::npos; }

bool is_text(std::string_view head) {
  return std::all_of(head.begin(), head.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u >= 0x20 ? u != 0x7f : u == '\n' || u == '\r' || u == '\t';
  });
}
std::string lower(std::string_view text) {
  std::string r(text);
  for (char& c : r) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return r;
}

FileKind kind_of_text(std::string_view head) {
  std::string_view t = head;
  if (t.substr(0, 3) == "\xef\xbb\xbf"sv) t.remove_prefix(3);
  t.remove_prefix(std::min(t.size(), t.find_first_not_of(" \r\n\t")));
  const std::string start = lower(t.substr(0, 512));
  if (start.rfind("<!doctype html", 0) == 0 || contains(start, "<html"))
    return {"a web page (HTML)",
            "the address gave a page (an error or a login?) in place of the file: download it again"};
  if (contains(start, "<net ") && start[0] == '<')
    return {"an OpenVINO model (.xml)", "take the ONNX or Paddle file that it was made from"};
  if (!start.empty() && start[0] == '<') return {"XML", kAgain};
  if (!start.empty() && (start[0] == '{' || start[0] == '['))
    return {"JSON, but no program of PaddlePaddle's (it has no \"base_code\")",
            "is it an error message of a server, or a configuration?"};
  if (contains(start, "ir_version:") || contains(start, "ir_version :"))
    return {"ONNX in text form", "save it in binary form: onnx.save(onnx.load(file), ...)"};
  return {cat("text, \"", std::string(t.substr(0, std::min<size_t>(40, t.find_first_of("\r\n")))), "\""),
          "is it an error message of a server? Then download it again"};
}

// The first field of a protobuf message: number, wire type (7: none), and where its content begins.
struct Field {
  uint64_t number;
  int wire;
  size_t at;
};
Field first_field(std::string_view head) {
  uint64_t tag = 0;
  size_t i = 0;
  for (; i < head.size() && i < 3; ++i) {
    tag |= static_cast<uint64_t>(head[i] & 0x7f) << (7 * i);
    if (!(head[i] & 0x80)) return {tag >> 3, static_cast<int>(tag & 7), i + 1};
  }
  return {0, 7, 0};
}
size_t after_number(std::string_view head, size_t at) {
  while (at < head.size() && (head[at] & 0x80)) ++at;
  return at + 1;
}
bool begins_as_onnx(std::string_view head) {  // with a field of ModelProto, of its type
  const Field f = first_field(head);
  if (f.wire == 0) return f.number == 1 || f.number == 5;
  for (uint64_t n : {2, 3, 4, 6, 7, 8, 14, 20, 25, 26})
    if (f.wire == 2 && f.number == n) return true;
  return false;
}
// ProgramDesc begins with its first block (field 1), and that with its number (field 1: 0).
bool begins_as_program(std::string_view head) {
  const size_t at = head.size() > 1 && head[0] == 0x0a ? after_number(head, 1) : head.size();
  return at + 1 < head.size() && head[at] == 0x08 && head[at + 1] == 0x00;
}
}  // namespace

FileKind foreign_kind(std::string_view head, size_t bytes) {
  head = head.substr(0, 4096);
  if (bytes == 0) return {"empty", "was a download interrupted, or the disk full?"};
  for (const Signature& s : kSignatures)
    if (head.size() >= s.at + s.bytes.size() && head.substr(s.at, s.bytes.size()) == s.bytes)
      return {s.what, s.hint, s.weights};
  if (head.substr(0, 4) == "PK\3\4"sv || head.substr(0, 4) == "PK\5\6"sv) {
    if (contains(head, "/data.pkl") || contains(head, "archive/"))
      return {"a file of PyTorch (a zip archive with data.pkl)", kWeights, true};
    if (contains(head, ".npy")) return {"a NumPy archive (.npz)", "arrays are no model"};
    return {"a zip archive", kUnpack};
  }
  if (head.size() > 1 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return {"a pickle (weights of Paddle or PyTorch)", kWeights, true};
  if (head.size() > 9 && head[8] == '{') {
    uint64_t length = 0;
    std::memcpy(&length, head.data(), 8);
    if (length <= bytes && length < (1u << 30)) return {"safetensors (weights)", kWeights, true};
  }
  if (head.size() > 16 && head.substr(0, 16) == std::string_view("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16) &&
      head[16] == '\0')
    return {"nothing but zeros at its beginning", "was a download interrupted?"};
  if (head.size() > 16 && head.substr(0, 16) == std::string_view("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16))
    return {"weights of PaddlePaddle (.pdiparams)",
            "name the model first: Config(\"m.json\", \"m.pdiparams\")", true};
  const bool text = is_text(head.substr(0, 512));
  if (text) return kind_of_text(head);
  if (head.substr(0, 2) == "\x08\x01"sv || (head[0] == 0x08 && head.size() > 1 && head[1] < 16)) {
    // SavedModel and Core ML: a version, then a message where ONNX has the producer's name.
    if (head.size() > 3 && head[2] == 0x12) {
      const size_t at = after_number(head, 3);
      if (at + 1 < head.size() && head[at] == 0x0a &&
          static_cast<unsigned char>(head[at + 1]) < head.size() - at)
        return {"a TensorFlow SavedModel or a Core ML model", kToOnnx};
    }
  }
  if (head[0] == 0x0a && !begins_as_program(head) &&
      (contains(head.substr(0, 512), "Placeholder") || contains(head.substr(0, 512), "Const")))
    return {"a TensorFlow graph", kToOnnx};
  return {};
}

std::string first_bytes(std::string_view head) {
  static const char digits[] = "0123456789abcdef";
  std::string hex, plain;
  for (char c : head.substr(0, 8)) {
    const auto u = static_cast<unsigned char>(c);
    hex += digits[u >> 4], hex += digits[u & 15], hex += ' ';
    plain += u >= 0x20 && u < 0x7f && u != '"' ? c : '.';
  }
  return cat(hex, "\"", plain, "\"");
}

void refuse_foreign(const std::string& path, std::string_view file) {
  if (!file.empty() && file[0] == '{' && contains(file, "\"base_code\"")) return;
  FileKind k = foreign_kind(file, file.size());
  if (k.what.empty()) {
    if (begins_as_onnx(file) || begins_as_program(file)) return;
    k = {"of no kind known here", "is it encrypted, compressed, or damaged at its beginning?"};
  }
  if (file.empty()) value_error("read: ", path, " is empty; expected a model. Hint: ", k.hint);
  value_error("read: ", path, " is no model file: it is ", k.what, " (first bytes ", first_bytes(file),
              "); expected ONNX, PaddlePaddle's .json or .pdmodel, or a package of Yuloh. Hint: ", k.hint);
}

void refuse_foreign_weights(const std::string& path, std::string_view file) {
  const FileKind k = foreign_kind(file, file.size());
  if (k.what.empty() || k.weights) return;
  value_error("read: ", path, " holds no weights: it is ", k.what, " (first bytes ", first_bytes(file),
              "). Hint: ", k.hint);
}

}  // namespace yuloh::formats
