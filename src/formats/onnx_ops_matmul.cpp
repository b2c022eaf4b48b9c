// SPDX-License-Identifier: Apache-2.0
// ONNX mappings: matrix products and Einsum.
#include <algorithm>
#include <cctype>
#include <map>

#include "formats/onnx_ops.h"

namespace yuloh::formats {

// Integers multiply in float64: exact up to 2^53.
Value mat_mul(const Value& a, const Value& b) {
  if (!is_integral(a.dtype())) return matmul(a, b);
  return cast(matmul(cast(a, DType::kFloat64), cast(b, DType::kFloat64)), a.dtype());
}

namespace {
// One operand with distinct labels: repeated ones become a diagonal, labels that `keep` says no to are summed.
struct Labelled {
  Value v;
  std::string labels;
};
Labelled diagonals(Labelled x) {
  for (size_t a = 0; a < x.labels.size(); ++a)
    for (size_t b = a + 1; b < x.labels.size(); ++b)
      if (x.labels[a] == x.labels[b]) {
        x.v = call("diagonal", {x.v}, {{"axis1", static_cast<int64_t>(a)}, {"axis2", static_cast<int64_t>(b)}});
        const char c = x.labels[a];
        x.labels.erase(b, 1), x.labels.erase(a, 1), x.labels += c;
        return diagonals(std::move(x));
      }
  return x;
}
Labelled summed(Labelled x, const std::string& keep) {
  Ints axes;
  std::string left;
  for (size_t a = 0; a < x.labels.size(); ++a)
    if (keep.find(x.labels[a]) == keep.npos) axes.push_back(static_cast<int64_t>(a));
    else left += x.labels[a];
  if (!axes.empty()) x.v = sum_in(x.v, axes, false, x.v.dtype());
  return {x.v, left};
}
Value arranged(const Labelled& x, const std::string& order) {  // axes in `order`; missing labels become extents of 1
  Ints perm;
  for (char c : order)
    if (const auto at = x.labels.find(c); at != x.labels.npos) perm.push_back(static_cast<int64_t>(at));
  Value v = transpose(x.v, perm);
  Shape s;
  uint32_t k = 0;
  for (char c : order) s.push_back(x.labels.find(c) != x.labels.npos ? v.shape()[k++] : 1);
  return reshape(v, s);
}
int64_t product(const Shape& s, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= s[i];
  return n;
}
// a and b to the labels that `keep` holds: one batched matrix product.
Labelled contracted(Labelled a, Labelled b, const std::string& keep) {
  a = summed(std::move(a), keep + b.labels), b = summed(std::move(b), keep + a.labels);
  std::string batch, left, right, inner;
  auto extent = [](const Labelled& x, char c) { return x.v.shape()[x.labels.find(c)]; };
  for (char c : a.labels) {
    const bool shared = b.labels.find(c) != b.labels.npos;
    if (shared && keep.find(c) == keep.npos && extent(a, c) == extent(b, c)) inner += c;
    else if (shared) batch += c;
    else left += c;
  }
  for (char c : b.labels)
    if (a.labels.find(c) == a.labels.npos) right += c;
  if (inner.empty()) {
    const std::string all = batch + left + right;
    return summed({arranged(a, all) * arranged(b, all), all}, keep);
  }
  Value x = arranged(a, batch + left + inner), y = arranged(b, batch + inner + right);
  const size_t nb = batch.size();
  Shape sx(x.shape().begin(), x.shape().begin() + nb), sy(y.shape().begin(), y.shape().begin() + nb);
  sx.push_back(product(x.shape(), nb, nb + left.size())), sx.push_back(product(x.shape(), nb + left.size(), x.shape().size()));
  sy.push_back(product(y.shape(), nb, nb + inner.size())), sy.push_back(product(y.shape(), nb + inner.size(), y.shape().size()));
  const Value z = mat_mul(reshape(x, sx), reshape(y, sy));
  Shape s(z.shape().begin(), z.shape().begin() + nb);
  for (char c : left) s.push_back(extent(a, c));
  for (char c : right) s.push_back(extent(b, c));
  return summed({reshape(z, s), batch + left + right}, keep);
}
}  // namespace

Value einsum(const std::string& equation, const Values& xs) {
  std::string eq;
  for (char c : equation)
    if (c != ' ') eq += c;
  const auto arrow = eq.find("->");
  std::vector<std::string> terms(1);
  for (char c : eq.substr(0, arrow))
    if (c == ',') terms.emplace_back();
    else terms.back() += c;
  if (terms.size() != xs.size()) value_error("Einsum: '", equation, "' names ", terms.size(), " operands, got ", xs.size(), ".");
  // "..." stands for as many axes as an operand has beyond its labels; they get labels of their own, from the end.
  auto expand = [&](const std::string& t, int64_t rank) {
    const auto dots = t.find("...");
    if (dots == t.npos) return t;
    const int64_t n = rank - (static_cast<int64_t>(t.size()) - 3);
    if (n < 0 || n > 20) value_error("Einsum: '", t, "' does not fit an operand of rank ", rank, ".");
    std::string e;
    for (int64_t k = n; k > 0; --k) e += static_cast<char>(k);
    return t.substr(0, dots) + e + t.substr(dots + 3);
  };
  std::vector<Labelled> ops;
  std::map<char, int> count;
  int64_t most = 0;
  for (size_t k = 0; k < xs.size(); ++k) {
    const std::string labels = expand(terms[k], xs[k].rank());
    if (static_cast<int64_t>(labels.size()) != xs[k].rank())
      value_error("Einsum: '", terms[k], "' does not fit an operand of shape ", xs[k].shape(), ".");
    for (char c : labels) ++count[c], most = c <= 20 ? std::max<int64_t>(most, c) : most;
    ops.push_back(diagonals({xs[k], labels}));
  }
  std::string out;
  if (arrow != eq.npos) {
    const std::string t = eq.substr(arrow + 2);
    out = t.find("...") == t.npos ? t : expand(t, static_cast<int64_t>(t.size()) - 3 + most);
  } else {
    for (int64_t k = most; k > 0; --k) out += static_cast<char>(k);
    for (const auto& [c, n] : count)
      if (c > 20 && n == 1) out += c;
  }
  Labelled r = ops[0];
  for (size_t k = 1; k < ops.size(); ++k) {
    std::string keep = out;
    for (size_t j = k + 1; j < ops.size(); ++j) keep += ops[j].labels;
    r = contracted(std::move(r), ops[k], keep);
  }
  return arranged(summed(std::move(r), out), out);
}

namespace {
void gemm(Import& i) {
  const double alpha = i.real("alpha", 1), beta = i.real("beta", 1);
  Value a = i.in(0), b = i.in(1);
  const bool ta = i.integer("transA", 0), tb = i.integer("transB", 0);
  Value y;
  if (is_integral(a.dtype())) y = mat_mul(ta ? swap_last(a) : a, tb ? swap_last(b) : b);
  else y = matmul(a, b, ta, tb);
  if (alpha != 1) y = y * alpha;
  if (i.has(2)) y = y + (beta == 1 ? i.in(2) : i.in(2) * beta);
  i.out(y);
}
void fused_mat_mul(Import& i) {
  if (i.integer("transBatchA", 0) || i.integer("transBatchB", 0)) i.unsupported("transBatchA and transBatchB");
  const Value y = matmul(i.in(0), i.in(1), i.integer("transA", 0), i.integer("transB", 0));
  i.out(i.real("alpha", 1) == 1 ? y : y * i.real("alpha", 1));
}

const ImportTable table(Dialect::kOnnx, {
  {"MatMul", [](Import& i) { i.out(mat_mul(i.in(0), i.in(1))); }},
  {"Gemm", gemm},
  {"Einsum", [](Import& i) {
    Values xs;
    for (size_t k = 0; k < i.n_inputs(); ++k) xs.push_back(i.in(k));
    i.out(einsum(i.text("equation", ""), xs));
  }},
  {"com.microsoft.FusedMatMul", fused_mat_mul},
  {"Det", [](Import& i) {
    const Values r = call_all("slogdet_core", {i.in(0)});
    i.out(r[0] * exp(r[1]));
  }},
});
}  // namespace
}  // namespace yuloh::formats
