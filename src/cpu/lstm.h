// SPDX-License-Identifier: Apache-2.0
// The whole walk of an LSTM or a GRU along a sequence (lstm_walk, gru_walk and their gradients, f32; the
// weight may be bf16) as one kernel: the weight is packed once per call and each thread keeps its share of it
// in cache for all time steps; the gates are computed on each tile of the state's product while it is in L1.
// Stands before the unrolled body of ops/recurrent.cpp.
#pragma once
#include "plan/kernel.h"

namespace yuloh {

bool lstm_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_lstm(const KernelRequest& r);
bool lstm_grad_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_lstm_grad(const KernelRequest& r);
bool gru_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_gru(const KernelRequest& r);
bool gru_grad_fits(const KernelRequest& r, std::string* why);
std::unique_ptr<Kernel> make_gru_grad(const KernelRequest& r);
LayoutWish all_row_major(const Call& c);  // every operand

}  // namespace yuloh
