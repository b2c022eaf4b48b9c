// SPDX-License-Identifier: Apache-2.0
// Compares a candidate's kernel with the row's reference loop on random operands in the layouts that the
// candidate wishes for. Used by the tests of library kernels.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/buffer.h"
#include "cpu/cpu.h"
#include "plan/kernel.h"

namespace yuloh::test {

struct Filled {
  Operand operand;
  std::vector<char> bytes;
  void* data() { return bytes.data(); }
};

inline int64_t span(const Shape& s, const Ints& strides) {
  int64_t n = 1;
  for (uint32_t i = 0; i < s.size(); ++i) n += (s[i] - 1) * std::abs(strides[i]);
  return numel(s) ? n : 1;
}

inline Filled make_operand(const TensorType& t, const Ints& strides, std::mt19937& rng) {
  Filled f{{t, strides}, {}};
  const int64_t n = span(t.shape, strides);
  f.bytes.resize(n * dtype_size(t.dtype) + 64);
  std::uniform_real_distribution<double> d(-1, 1);
  for (int64_t i = 0; i < n; ++i)
    store_double(f.bytes.data() + i * dtype_size(t.dtype), t.dtype, is_integral(t.dtype) ? 0 : d(rng));
  return f;
}

inline std::vector<double> read_all(const Filled& f) {
  std::vector<double> r;
  const Shape& s = f.operand.type.shape;
  for (int64_t i = 0; i < numel(s); ++i) {
    int64_t rest = i, at = 0;
    for (int a = static_cast<int>(s.size()) - 1; a >= 0; --a)
      at += rest % s[a] * f.operand.strides[a], rest /= s[a];
    const char* p = f.bytes.data() + at * dtype_size(f.operand.type.dtype);
    r.push_back(is_integral(f.operand.type.dtype) ? static_cast<double>(load_int(p, f.operand.type.dtype))
                                                  : load_double(p, f.operand.type.dtype));
  }
  return r;
}

struct Case {
  Call call;
  std::vector<Filled> in;
  Case(const Value& result, const std::vector<Ints>& in_strides, unsigned seed = 7) : call(*result.node) {
    std::mt19937 rng(seed);
    for (uint32_t i = 0; i < call.n_in; ++i)
      in.push_back(make_operand(call.in[i].type(),
                                i < in_strides.size() && !in_strides[i].empty()
                                    ? in_strides[i]
                                    : row_major_strides(call.in[i].shape()),
                                rng));
  }
};

inline std::vector<std::vector<double>> run_kernel(Kernel& k, Case& c, const std::vector<Operand>& out) {
  std::mt19937 rng(99);  // results start as noise: a kernel must write every element
  std::vector<Filled> results;
  for (const Operand& o : out) results.push_back(make_operand(o.type, o.strides, rng));
  std::vector<char> work(k.workspace_bytes() + 128);
  std::vector<void*> ptrs;
  for (Filled& f : c.in) ptrs.push_back(f.data());
  for (Filled& f : results) ptrs.push_back(f.data());
  ptrs.push_back(reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(work.data()) + 63) & ~uintptr_t{63}));
  k.run(ptrs.data());
  k.run(ptrs.data());  // a second run must not depend on the first
  std::vector<std::vector<double>> r;
  for (const Filled& f : results) r.push_back(read_all(f));
  return r;
}

// Runs candidate `name` of the call's op and the reference; returns the largest error relative to the largest
// value.
inline double candidate_error(std::string_view name, Case& c, std::string* why = nullptr) {
  register_cpu();
  const Candidate* found = nullptr;
  for (const Candidate& k : candidates_for(c.call.op.name))
    if (k.name == name) found = &k;
  if (!found) throw std::runtime_error("no such candidate");
  LayoutWish wish;
  if (found->layouts) wish = found->layouts(c.call);
  KernelRequest fast{c.call, {}, {}}, plain{c.call, {}, {}};
  for (Filled& f : c.in) fast.in.push_back(f.operand), plain.in.push_back(f.operand);
  for (uint32_t i = 0; i < c.call.node->outputs.size(); ++i) {
    const TensorType& t = c.call.node->outputs[i].type;
    plain.out.push_back({t, row_major_strides(t.shape)});
    fast.out.push_back(
        {t, i < wish.out.size() && !wish.out[i].empty() ? wish.out[i] : row_major_strides(t.shape)});
  }
  std::string reason;
  if (!found->fits(fast, &reason)) {
    if (why) *why = reason;
    return -1;
  }
  const auto kernel = found->make(fast);
  if (!kernel) throw std::runtime_error("the candidate made no kernel");
  const auto got = run_kernel(*kernel, c, fast.out);
  const auto want = run_kernel(*make_reference(plain), c, plain.out);
  double error = 0, scale = 1e-30;
  for (size_t o = 0; o < want.size(); ++o)
    for (size_t i = 0; i < want[o].size(); ++i) {
      scale = std::max(scale, std::abs(want[o][i]));
      const double e = std::abs(want[o][i] - got[o][i]);
      if (std::isnan(want[o][i]) && std::isnan(got[o][i])) continue;
      if (std::isinf(want[o][i]) && want[o][i] == got[o][i]) continue;
      error = std::isnan(e) ? 1e30 : std::max(error, e);
    }
  return error / scale;
}

}  // namespace yuloh::test
