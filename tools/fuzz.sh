#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds every target in tests/fuzz/ with clang's libFuzzer under ASan and UBSan and runs each from its corpus.
# usage: tools/fuzz.sh [SECONDS_EACH=60] [TARGET...]; a target's `// sources:` lines name what it links.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}; shift || true
cxx=${FUZZ_CXX:-$(command -v clang++ || command -v clang++-14 || true)}
[ -n "$cxx" ] || { echo "fuzz: clang++ is not installed; expected clang 14 or later with compiler-rt"; exit 1; }
mkdir -p build/fuzz
for target in tests/fuzz/*.cpp; do
  name=$(basename "$target" .cpp)
  [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
  # shellcheck disable=SC2046
  "$cxx" -std=c++20 -O1 -g1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -Isrc -o "build/fuzz/$name" \
    "$target" $(sed -n 's|^// sources: ||p' "$target")
  mkdir -p "build/fuzz/corpus_$name"
  echo "fuzz: $name, $seconds s"
  "build/fuzz/$name" -max_total_time="$seconds" -timeout=5 -rss_limit_mb=1024 -malloc_limit_mb=512 -max_len=65536 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/${name}_" "build/fuzz/corpus_$name" "tests/fuzz/corpus_$name" 2>&1 | tail -12
done
