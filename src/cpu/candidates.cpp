// SPDX-License-Identifier: Apache-2.0
// The CPU's candidate lists, in order of preference; the reference loops of the rows come last by themselves.
#include "cpu/attention.h"
#include "cpu/conv_product.h"
#include "cpu/cpu.h"
#include "cpu/gemm.h"
#include "cpu/lstm.h"
#include "cpu/onednn_conv.h"
#include "cpu/onednn_matmul.h"
#include "cpu/pool.h"
#include "cpu/softmax_nll.h"
#include "plan/kernel.h"

namespace yuloh {

void register_cpu() {
  static const bool once = [] {
    register_candidates({
        {"conv", "conv1x1", conv1x1_fits, make_conv1x1, onednn::conv_layouts},
        {"conv", "conv_dense", conv_dense_fits, make_conv_dense, onednn::conv_layouts},
        {"conv", "conv_rows", conv_rows_fits, make_conv_rows, onednn::conv_layouts},
        {"conv", "onednn", onednn::conv_fits, onednn::make_conv, onednn::conv_layouts},
        {"conv_grad_input", "conv1x1", conv1x1_fits, make_conv1x1, onednn::conv_layouts},
        {"conv_grad_input", "conv_dense", conv_dense_fits, make_conv_dense, onednn::conv_layouts},
        {"conv_grad_input", "conv_narrow", conv_narrow_fits, make_conv_narrow, onednn::conv_layouts},
        {"conv_grad_input", "conv_rows", conv_rows_fits, make_conv_rows, onednn::conv_layouts},
        {"conv_grad_input", "onednn", onednn::conv_fits, onednn::make_conv, onednn::conv_layouts},
        {"conv_grad_weight", "conv1x1", conv1x1_fits, make_conv1x1, onednn::conv_layouts},
        {"conv_grad_weight", "conv_dense", conv_dense_fits, make_conv_dense, onednn::conv_layouts},
        {"conv_grad_weight", "depthwise", depthwise_grad_fits, make_depthwise_grad, onednn::conv_layouts},
        {"conv_grad_weight", "conv_rows", conv_rows_fits, make_conv_rows, onednn::conv_layouts},
        {"conv_grad_weight", "onednn", onednn::conv_fits, onednn::make_conv, onednn::conv_layouts},
        {"scaled_dot_product_attention", "yuloh_attention", attention_fits, make_attention, any_layout},
        {"scaled_dot_product_attention_grad", "yuloh_attention", attention_fits, make_attention_grad,
         any_layout},
        {"softmax_nll", "yuloh_nll", softmax_nll_fits, make_softmax_nll, all_row_major},
        {"softmax_nll_dx", "yuloh_nll", softmax_nll_fits, make_softmax_nll_dx, all_row_major},
        {"lstm_walk", "yuloh_lstm", lstm_fits, make_lstm, all_row_major},
        {"lstm_walk_grad", "yuloh_lstm", lstm_grad_fits, make_lstm_grad, all_row_major},
        {"gru_walk", "yuloh_gru", gru_fits, make_gru, all_row_major},
        {"gru_walk_grad", "yuloh_gru", gru_grad_fits, make_gru_grad, all_row_major},
        {"matmul", "yuloh_gemm", gemm_faster_fits, make_gemm},
        {"matmul", "onednn", onednn::matmul_fits, onednn::make_matmul},
        {"matmul", "yuloh_gemm_any", gemm_fits, make_gemm},
        {"matmul_bias", "onednn", onednn::matmul_bias_fits, onednn::make_matmul, any_layout},
        {"matmul_bias", "yuloh_gemm_any", gemm_fits, make_gemm},
        {"max_pool", "yuloh_pool", pool_fits, make_pool, all_channels_last},
        {"max_pool_with_index", "yuloh_pool", pool_fits, make_pool, all_channels_last},
        {"max_pool_grad", "yuloh_pool", pool_fits, make_pool, all_channels_last},
        {"max_pool_take", "yuloh_pool", pool_fits, make_pool, all_channels_last},
        {"avg_pool", "yuloh_pool", pool_fits, make_pool, all_channels_last},
        {"avg_pool_grad", "yuloh_pool", pool_fits, make_pool, all_channels_last},
        {"channel_moments", "yuloh_moments", moments_fits, make_moments, all_channels_last},
    });
    register_cpu_tile();
    return true;
  }();
  (void)once;
}

}  // namespace yuloh
