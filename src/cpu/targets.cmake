# SPDX-License-Identifier: Apache-2.0
# The tile kernels are one source compiled per instruction set. Only static functions inside: a shared inline function
# compiled for AVX-512 could otherwise be the copy that the linker keeps for everybody.
set(YULOH_TILE_FLAGS -O3 -fno-trapping-math -fwrapv -fno-exceptions -fno-rtti)
set(YULOH_AVX2_FLAGS -mavx2 -mfma -mf16c)
set(YULOH_AVX512_FLAGS -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c -mprefer-vector-width=512)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(src/cpu/tile_sse2.cpp PROPERTIES COMPILE_OPTIONS "${YULOH_TILE_FLAGS}")
  set_source_files_properties(src/cpu/tile_avx2.cpp PROPERTIES COMPILE_OPTIONS "${YULOH_TILE_FLAGS};${YULOH_AVX2_FLAGS}")
  set_source_files_properties(src/cpu/tile_avx512.cpp PROPERTIES
                              COMPILE_OPTIONS "${YULOH_TILE_FLAGS};${YULOH_AVX512_FLAGS}")
endif()
