// SPDX-License-Identifier: Apache-2.0
#include "cpu/onednn_matmul.h"

#include "cpu/gemm.h"
#include "cpu/onednn_common.h"

namespace yuloh::onednn {
namespace {
using dnnl::memory;

// A plain (rows, cols) matrix with batch axes. An extent of 1 gets the stride of a dense matrix, so that the
// library recognises its plain formats. Broadcast axes have extent 1.
memory::desc matrix_desc(DType t, const Shape& batch, const MatrixStrides& s, int64_t rows, int64_t cols) {
  memory::dims dims, strides;
  for (uint32_t i = 0; i < batch.size(); ++i) {
    dims.push_back(s.batch[i] == 0 ? 1 : batch[i]);
    strides.push_back(s.batch[i]);
  }
  int64_t row = s.row, col = s.col;
  if (cols == 1) col = row == 1 && rows > 1 ? rows : 1;
  if (rows == 1) row = col == 1 ? cols : 1;
  dims.push_back(rows), dims.push_back(cols);
  strides.push_back(row), strides.push_back(col);
  for (int i = static_cast<int>(batch.size()) - 1; i >= 0; --i)
    if (dims[i] == 1)
      strides[i] = i + 1 < static_cast<int>(batch.size()) ? strides[i + 1] * dims[i + 1]
                                                          : std::max(row * rows, col * cols);
  return {dims, data_type(t), strides};
}

struct Prepared {
  dnnl::matmul matmul;
  memory::desc x, y, user_y, z, bias, scratch;  // user_y: y as it is given
  bool has_bias = false;
  std::string name;
};

struct Request {
  const MatrixProblem& m;
  bool fixed;
};
std::shared_ptr<void> prepare(const void* request) {
  const auto& [m, fixed] = *static_cast<const Request*>(request);
  auto p = std::make_shared<Prepared>();
  p->x = matrix_desc(m.dtype, m.batch, m.x, m.m, m.k);
  p->user_y = p->y = matrix_desc(m.dtype, m.batch, m.y, m.k, m.n);
  if (fixed) p->y = {p->y.get_dims(), data_type(m.dtype), memory::format_tag::any};
  p->z = matrix_desc(m.f32_result ? DType::kFloat32 : m.dtype, m.batch, m.z, m.m, m.n);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (m.bias) {
    memory::dims dims(m.batch.size() + 1, 1), strides(m.batch.size() + 2, m.n);
    dims.push_back(m.n), strides.back() = 1;
    p->bias = {dims, data_type(m.dtype), strides};
  }
  const dnnl::matmul::primitive_desc pd =
      m.bias ? dnnl::matmul::primitive_desc(engine(), p->x, p->y, p->bias, p->z, attr)
             : dnnl::matmul::primitive_desc(engine(), p->x, p->y, p->z, attr);
  p->matmul = dnnl::matmul(pd), p->has_bias = m.bias;
  p->y = pd.weights_desc(), p->scratch = pd.scratchpad_desc();
  p->name = pd.impl_info_str();
  return p;
}

class MatmulKernel final : public Kernel {
 public:
  MatmulKernel(std::shared_ptr<Prepared> p, FixedData* fixed) : p_(std::move(p)) {
    if (p_->y != p_->user_y) packed_ = packed(p_->user_y, p_->y, *fixed);
  }
  size_t workspace_bytes() const override { return p_->scratch.get_size(); }
  void keeps(KeptBytes* k) const override {
    k->add(sizeof *this);
    if (k->first(p_.get())) k->add(sizeof *p_ + kPrimitiveBytes);
    if (packed_ && k->first(packed_.get())) k->add(packed_->data->bytes);
  }
  bool reads(size_t input) const override { return input != 1 || !packed_; }
  std::string describe() const override {
    return "onednn:" + p_->name + (packed_ ? " on packed weight" : "");
  }
  void run(void* const* ptrs) override {
    const int z = p_->has_bias ? 3 : 2;
    std::unordered_map<int, memory> args{
        {DNNL_ARG_SRC, memory(p_->x, engine(), ptrs[0])},
        {DNNL_ARG_WEIGHTS, memory(p_->y, engine(), packed_ ? packed_->data->data : ptrs[1])},
        {DNNL_ARG_DST, memory(p_->z, engine(), ptrs[z])}};
    if (p_->has_bias) args.emplace(DNNL_ARG_BIAS, memory(p_->bias, engine(), ptrs[2]));
    if (p_->scratch.get_size()) args.emplace(DNNL_ARG_SCRATCHPAD, memory(p_->scratch, engine(), ptrs[z + 1]));
    p_->matmul.execute(stream(), args);
    stream().wait();
  }

 private:
  std::shared_ptr<Prepared> p_;
  std::shared_ptr<const Packed> packed_;
};

bool plain(const MatrixStrides& s, int64_t rows, int64_t cols) {
  if ((rows > 1 && s.row == 0) || (cols > 1 && s.col == 0)) return false;  // broadcast inside the matrix
  return s.row == 1 || s.col == 1 || rows == 1 || cols == 1;
}
}  // namespace

bool product_fits(const MatrixProblem& m, std::string* why) {
  if (!dtype_fits(m.dtype, why)) return false;
  if (m.m == 0 || m.n == 0 || m.k == 0 || m.batches() == 0) {
    *why = "an operand is empty";
    return false;
  }
  if (m.z.col != 1 && m.n != 1) {
    *why = "the result is not stored by rows";
    return false;
  }
  if (!plain(m.x, m.m, m.k) || !plain(m.y, m.k, m.n)) {
    *why = "a matrix has no unit stride";
    return false;
  }
  if (m.n == 1) {
    *why = "a matrix times one column runs in the library's reference code";
    return false;
  }
  if (m.batch.size() > 10) {
    *why = "more than 10 batch axes that do not merge";
    return false;
  }
  return true;
}

std::unique_ptr<Kernel> make_product(const MatrixProblem& m, FixedData* fixed) {
  try {
    const std::string key = signature_base(fixed ? "product with a fixed weight" : "product") + m.key();
    auto k =
        std::make_unique<MatmulKernel>(prepared<Prepared>(key, prepare, Request{m, fixed != nullptr}), fixed);
    k->cost = m.cost();
    return k;
  } catch (const dnnl::error&) { return nullptr; }
}

bool matmul_fits(const KernelRequest& r, std::string* why) { return product_fits(matrix_problem(r), why); }
bool matmul_bias_fits(const KernelRequest& r, std::string* why) {
  *why = r.in[2].strides[0] != 1 ? "the bias is strided" : "the own product is faster on this shape";
  const MatrixProblem m = matrix_problem(r);
  return r.in[2].strides[0] == 1 && !own_product_is_faster(m) && product_fits(m, why);
}
std::unique_ptr<Kernel> make_matmul(const KernelRequest& r) {
  const MatrixProblem m = matrix_problem(r);
  return make_product(m, m.batches() == 1 ? r.in[1].fixed : nullptr);
}

}  // namespace yuloh::onednn
