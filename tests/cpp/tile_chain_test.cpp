// SPDX-License-Identifier: Apache-2.0
// Primitives that one pass does together give the bits that they give alone, in every form of their operands.
#include "cpu/tile_compile.h"
#include "tile_program_builder.h"

namespace yuloh {
namespace {
class ChainIsa : public IsaTest {};
INSTANTIATE_TEST_SUITE_P(Tile, ChainIsa, ::testing::Values(Isa::kSse2, Isa::kAvx2, Isa::kAvx512),
                         [](auto& i) { return std::string(isa_name(i.param)); });

constexpr int64_t kRows = 5, kCols = 37;
enum Form { kFull, kRow, kColumn, kOne };
int operand(Prog* p, Form f) {
  return p->load(DType::kFloat32,
                 {f == kFull  ? kCols
                  : f == kRow ? 1
                              : 0},
                 f == kFull || f == kColumn ? 1 : 0);
}
struct Pair {
  Prim first, second;
  bool left;  // the first one's result is the second one's left operand (a select's condition)
};
int result(Prog* p, const Pair& q, int a, int b, int c) {
  const int t = p->prim(q.first, CType::kF32, a, b);
  if (q.second == Prim::kSelect) return p->prim(q.second, CType::kF32, t, c, p->constant(CType::kF32, 0));
  return q.left ? p->prim(q.second, CType::kF32, t, c) : p->prim(q.second, CType::kF32, c, t);
}
std::vector<Pair> pairs() {
  std::vector<Pair> all;
  for (Prim f : {Prim::kAdd, Prim::kSub, Prim::kMul})
    for (Prim s : {Prim::kAdd, Prim::kSub, Prim::kMul})
      for (bool left : {true, false}) all.push_back({f, s, left});
  for (Prim f : {Prim::kLt, Prim::kGt}) all.push_back({f, Prim::kSelect, true});
  return all;
}
// How many steps the program takes; its results go to *z, row-major.
size_t run(const Prog& from, const std::vector<void*>& in, bool join, std::vector<float>* z) {
  Prog p = from;
  tile::join_primitives = join;
  std::vector<void*> ptrs = in;
  ptrs.push_back(z->data());
  p.run(ptrs);
  const size_t steps = tile::compile(p.p).fast.body.size();
  tile::join_primitives = true;
  return steps;
}

TEST_P(ChainIsa, EveryPairInEveryForm) {
  std::mt19937 rng(3);
  std::vector<float> x[3];
  for (auto& v : x)
    for (int64_t i = 0; i < kRows * kCols; ++i)
      v.push_back(i % 11 == 3   ? -0.0f
                  : i % 29 == 7 ? kNaN
                  : i % 31 == 5 ? kInf
                                : float(int(rng() % 2001) - 1000) / 64);
  int joined = 0;
  for (const Pair& q : pairs())
    for (int forms = 0; forms < 64; ++forms) {
      Prog p({kRows}, kCols);
      int r[3];
      for (int k = 0; k < 3; ++k) r[k] = operand(&p, static_cast<Form>(forms >> 2 * k & 3));
      p.store(DType::kFloat32, {kCols}, 1, result(&p, q, r[0], r[1], r[2]));
      std::vector<float> one(kRows * kCols, 1), two(kRows * kCols, 2);
      const std::vector<void*> in{x[0].data(), x[1].data(), x[2].data()};
      joined += run(p, in, true, &two) < run(p, in, false, &one);
      EXPECT_EQ(std::memcmp(one.data(), two.data(), one.size() * sizeof(float)), 0)
          << prim_info(q.first).name << " " << prim_info(q.second).name << " " << q.left << " forms "
          << forms;
    }
  EXPECT_GT(joined, 20 * 30);
}

TEST_P(ChainIsa, ValuesThatAreReadTwiceStay) {
  std::vector<float> x(kRows * kCols), one(x.size()), two(x.size());
  for (size_t i = 0; i < x.size(); ++i) x[i] = float(i) / 7 - 9;
  Prog p({kRows}, kCols);
  const int a = operand(&p, kFull), d = p.prim(Prim::kSub, CType::kF32, a, p.constant(CType::kF32, 2));
  const int square = p.prim(Prim::kMul, CType::kF32, d, d);
  p.store(DType::kFloat32, {kCols}, 1, p.prim(Prim::kAdd, CType::kF32, square, d));
  run(p, {x.data()}, true, &two), run(p, {x.data()}, false, &one);
  EXPECT_EQ(one, two);
  EXPECT_EQ(one[3], (x[3] - 2) * (x[3] - 2) + (x[3] - 2));
}
}  // namespace
}  // namespace yuloh
