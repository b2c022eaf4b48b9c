// SPDX-License-Identifier: Apache-2.0
// The one error type. A message reads `op: what is wrong, got <values>; expected <constraint>. Hint:
// <action>.`; `kind` decides the Python exception. User mistakes are always thrown, never abort.
#pragma once
#include <exception>
#include <sstream>
#include <string>
#include <string_view>

namespace yuloh {

enum class ErrorKind {
  kValue,
  kType,
  kIndex,
  kKey,
  kRuntime,
  kMemory,
  kNotImplemented,
  kOs,
  kZeroDivision,
  kOverflow
};

class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message) : kind_(kind), message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  void append(std::string_view more) { message_ += more; }
  int origin = -1;  // node of the graph being compiled that could not be, where known

 private:
  ErrorKind kind_;
  std::string message_;
};

template <class... A>
std::string cat(const A&... a) {
  std::ostringstream s;
  (s << ... << a);
  return std::move(s).str();
}
template <class... A>
[[noreturn]] void fail(ErrorKind kind, const A&... a) {
  throw Error(kind, cat(a...));
}
template <class... A>
[[noreturn]] void value_error(const A&... a) {
  throw Error(ErrorKind::kValue, cat(a...));
}
template <class... A>
[[noreturn]] void type_error(const A&... a) {
  throw Error(ErrorKind::kType, cat(a...));
}
template <class... A>
[[noreturn]] void index_error(const A&... a) {
  throw Error(ErrorKind::kIndex, cat(a...));
}

}  // namespace yuloh
