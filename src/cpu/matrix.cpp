// SPDX-License-Identifier: Apache-2.0
#include "cpu/matrix.h"

namespace yuloh {
namespace {

// Axis i runs on from axis i + 1 in this operand: one axis of their product would walk the same elements.
bool runs_on(const MatrixStrides& s, const Shape& batch, uint32_t i) {
  return s.batch[i] == s.batch[i + 1] * batch[i + 1];
}

void merge_batches(MatrixProblem* p) {
  for (uint32_t i = 0; i < p->batch.size();)  // extents of 1 say nothing
    if (p->batch[i] == 1) {
      p->batch.erase(i);
      for (MatrixStrides* s : {&p->x, &p->y, &p->z}) s->batch.erase(i);
    } else {
      ++i;
    }
  for (int i = static_cast<int>(p->batch.size()) - 2; i >= 0; --i) {
    if (!runs_on(p->x, p->batch, i) || !runs_on(p->y, p->batch, i) || !runs_on(p->z, p->batch, i)) continue;
    p->batch[i] *= p->batch[i + 1];
    p->batch.erase(i + 1);
    for (MatrixStrides* s : {&p->x, &p->y, &p->z}) s->batch[i] = s->batch[i + 1], s->batch.erase(i + 1);
  }
}

// One matrix y for all batches whose rows follow each other in x and z: they are more rows.
void batch_to_rows(MatrixProblem* p) {
  if (p->batch.size() != 1 || p->y.batch[0] != 0) return;
  if (p->m == 1) p->x.row = p->x.batch[0], p->z.row = p->z.batch[0];
  else if (p->x.batch[0] != p->x.row * p->m || p->z.batch[0] != p->z.row * p->m) return;
  p->m *= p->batch[0];
  p->batch.clear();
  for (MatrixStrides* s : {&p->x, &p->y, &p->z}) s->batch.clear();
}

}  // namespace

std::string MatrixProblem::key() const {
  std::string s;
  const auto put = [&s](int64_t v) { s.append(reinterpret_cast<const char*>(&v), sizeof v); };
  put(static_cast<int64_t>(dtype)), put(f32_result), put(bias), put(m), put(n), put(k), put(batch.size());
  for (int64_t b : batch) put(b);
  for (const MatrixStrides* t : {&x, &y, &z}) {
    put(t->row), put(t->col);
    for (int64_t b : t->batch) put(b);
  }
  return s;
}

KernelCost MatrixProblem::cost() const {
  const double b = static_cast<double>(batches()), dm = static_cast<double>(m), dn = static_cast<double>(n),
               dk = static_cast<double>(k);
  return {2 * b * dm * dn * dk, b * (dm * dk + dk * dn + dm * dn) * static_cast<double>(dtype_size(dtype))};
}

MatrixProblem matrix_problem(const KernelRequest& r) {
  const MatmulShape s = matmul_shape(r.call);
  MatrixProblem p{r.in[0].type.dtype, s.m, s.n, s.k, s.batch, {}, {}, {}};
  p.x = matmul_strides(s, 0, r.in[0].type.shape, r.in[0].strides);
  p.y = matmul_strides(s, 1, r.in[1].type.shape, r.in[1].strides);
  p.z = matmul_strides(s, 2, r.out[0].type.shape, r.out[0].strides);
  p.bias = r.in.size() > 2;
  merge_batches(&p);
  batch_to_rows(&p);
  return p;
}

}  // namespace yuloh
