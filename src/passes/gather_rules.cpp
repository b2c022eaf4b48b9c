// SPDX-License-Identifier: Apache-2.0
// Rewrite rules around gathered rows (embeddings). A row that is read often is multiplied once: x[i] W = (x
// W)[i], and what is scattered is added up before it is multiplied. Permuted or merged index axes move into
// the index, which is small, so that nothing else stands between a product and its rows.
#include "passes/passes.h"
#include "passes/pattern.h"

namespace yuloh {
namespace {

Pat gathered(const Pat& x, const Pat& i) {
  return op("index_axis", {x, i}, {{"axis", nullptr, int64_t{0}}, {"who", "who"}});
}
Pat scattered(const Pat& g, const Pat& i, const char* shape) {
  return op("index_axis_grad", {g, i}, {{"shape", shape}, {"axis", nullptr, int64_t{0}}, {"skip", "skip"}});
}
Pat transpose(const Pat& x, const char* perm) { return op("transpose", {x}, {{"perm", perm}}); }
Pat reshape(const Pat& x, const char* shape) { return op("view_as_shape", {x}, {{"shape", shape}}); }
Pat matmul(const Pat& a, const Pat& b, const char* transpose_b) {
  return op("matmul", {a, b}, {{"transpose_x", nullptr, false}, {"transpose_y", transpose_b}});
}

// `p` permutes the leading axes, those of the index, among themselves; sets "q", its part (or that part's
// inverse).
bool permutes_index(Bindings* b, bool inverse) {
  const Ints p = b->get<Ints>("p");
  const int64_t n = b->value("i")->rank(), all = p.size();
  Ints q(n, 0);
  for (int64_t k = 0; k < all; ++k) {
    const int64_t from = p[k] < 0 ? p[k] + all : p[k];
    if (k >= n ? from != k : from >= n) return false;
    if (k < n) (inverse ? q[from] : q[k]) = inverse ? k : from;
  }
  b->set("q", q);
  return n > 1;
}
bool permuted(Bindings* b) { return permutes_index(b, false); }
bool permuted_back(Bindings* b) { return permutes_index(b, true); }

// The rows of a matrix x by a new index shape: sets "l", the result's shape "s" without the width.
bool keeps_rows(Bindings* b) {
  const Value x = *b->value("x"), i = *b->value("i");
  const Ints s = b->get<Ints>("s");
  if (x.rank() != 2 || s.size() < 2 || s[s.size() - 1] != x.shape()[1]) return false;
  int64_t rows = 1;
  for (uint32_t k = 0; k + 1 < s.size(); ++k) {
    if (s[k] < 1) return false;
    rows *= s[k];
  }
  b->set("l", Ints(s.begin(), s.end() - 1));
  return rows == numel(i.shape());
}
bool rows_as_list(Bindings* b) {  // g [n, width] seen as [index..., width]
  const Value g = *b->value("g"), i = *b->value("i");
  const Ints s = b->get<Ints>("s");
  if (g.rank() != 2 || i.rank() == 1 || s.size() != i.rank() + 1u || s[s.size() - 1] != g.shape()[1])
    return false;
  b->set("l", Ints{numel(i.shape())});
  return g.shape()[0] == numel(i.shape());
}

// Multiplying `rows` rows of n instead saves more than moving rows of the product costs.
bool worth_it(int64_t rows, int64_t n, int64_t inner) { return 2 * n >= 3 * rows && inner >= 32; }
bool often_read(Bindings* b) {
  const Value x = *b->value("x"), w = *b->value("w");
  return x.rank() == 2 && w.rank() == 2 &&
         worth_it(x.shape()[0], numel(b->value("i")->shape()), x.shape()[1]);
}
bool often_written(Bindings* b) {
  const Value g = *b->value("g"), w = *b->value("w"), i = *b->value("i");
  const Ints s = b->get<Ints>("s");
  if (g.rank() != i.rank() + 1 || w.rank() != 2 || s.size() != 2) return false;
  const int64_t inner = g.shape()[g.rank() - 1];
  b->set("m", Ints{s[0], inner});
  return worth_it(s[0], numel(i.shape()), inner);
}

TensorType f32(Shape s) { return {DType::kFloat32, std::move(s)}; }
TensorType i64(Shape s) { return {DType::kInt64, std::move(s)}; }
}  // namespace

void add_gather_rules(std::vector<Rule>* r) {
  const Pat x = any("x"), i = any("i"), g = any("g"), w = any("w");
  const std::string who = "gather";
  const char* small = "the index is smaller than what it gathers";
  r->push_back({"gather_transposed",
                transpose(gathered(x, i), "p"),
                gathered(x, transpose(i, "q")),
                {{{{"x", f32({5, 3})}, {"i", i64({2, 4})}}, {{"p", Ints{1, 0, 2}}, {"who", who}}, {}, 5}},
                permuted,
                false,
                small});
  r->push_back({"gather_reshaped",
                reshape(gathered(x, i), "s"),
                gathered(x, reshape(i, "l")),
                {{{{"x", f32({5, 3})}, {"i", i64({2, 4})}}, {{"s", Ints{8, 3}}, {"who", who}}, {}, 5}},
                keeps_rows,
                false,
                small});
  r->push_back({"scatter_transposed",
                scattered(transpose(g, "p"), i, "s"),
                scattered(g, transpose(i, "q"), "s"),
                {{{{"g", f32({4, 2, 3})}, {"i", i64({2, 4})}},
                  {{"p", Ints{1, 0, 2}}, {"s", Ints{5, 3}}, {"skip", int64_t{-1}}},
                  {},
                  5}},
                permuted_back,
                false,
                small,
                true});
  r->push_back({"scatter_reshaped",
                scattered(reshape(g, "s"), i, "t"),
                scattered(g, reshape(i, "l"), "t"),
                {{{{"g", f32({8, 3})}, {"i", i64({2, 4})}},
                  {{"s", Ints{2, 4, 3}}, {"t", Ints{5, 3}}, {"skip", int64_t{-1}}},
                  {},
                  5}},
                rows_as_list,
                false,
                small});
  r->push_back(
      {"product_of_gathered",
       matmul(gathered(x, i), w, "t"),
       gathered(matmul(x, w, "t"), i),
       {{{{"x", f32({4, 32})}, {"i", i64({3, 5})}, {"w", f32({2, 32})}}, {{"t", true}, {"who", who}}, {}, 4}},
       often_read});
  r->push_back({"scatter_of_product",
                scattered(matmul(g, w, "t"), i, "s"),
                matmul(scattered(g, i, "m"), w, "t"),
                {{{{"g", f32({15, 32})}, {"i", i64({15})}, {"w", f32({32, 40})}},
                  {{"t", false}, {"s", Ints{4, 40}}, {"skip", int64_t{-1}}},
                  {},
                  4}},
                often_written,
                false,
                nullptr,
                true});
}

}  // namespace yuloh
