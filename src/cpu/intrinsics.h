// SPDX-License-Identifier: Apache-2.0
// Intrinsics, and a part of a file compiled for one instruction set: YULOH_BEGIN_AVX2 ... YULOH_END_TARGET.
// Headers are included before it, so that no inline function that others share is made of instructions that a
// machine may lack.
#pragma once
#include "cpu/multi_isa.h"

#if defined(__x86_64__)
#pragma GCC diagnostic push
#ifndef __clang__  // g++ 12 warns inside its own header, which starts from undefined registers on purpose
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#ifdef __clang__
#define YULOH_BEGIN_AVX512                                                                              \
  _Pragma(                                                                                              \
      "clang attribute push(__attribute__((target(\"avx512f,avx512bw,avx512dq,avx512vl,avx2,fma\"))), " \
      "apply_to = function)")
#define YULOH_BEGIN_AVX2 \
  _Pragma("clang attribute push(__attribute__((target(\"avx2,fma\"))), apply_to = function)")
#define YULOH_END_TARGET _Pragma("clang attribute pop")
#else
#define YULOH_BEGIN_AVX512 \
  _Pragma("GCC push_options") _Pragma("GCC target(\"avx512f,avx512bw,avx512dq,avx512vl,avx2,fma\")")
#define YULOH_BEGIN_AVX2 _Pragma("GCC push_options") _Pragma("GCC target(\"avx2,fma\")")
#define YULOH_END_TARGET _Pragma("GCC pop_options")
#endif
#endif
