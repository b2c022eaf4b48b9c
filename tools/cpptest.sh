#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the C++ tests (GoogleTest through ctest). SANITIZE=address,undefined makes a sanitizer build.
set -euo pipefail
venv=$(cd "$1" && pwd) jobs=$2 dir=build/tests${SANITIZE:+-sanitize}
export PATH="$venv/bin:$PATH"
if [ ! -e /usr/include/gtest/gtest.h ] && ! ls /usr/local/include/gtest/gtest.h >/dev/null 2>&1; then
  echo "cpptest: GoogleTest is missing (apt-get install libgtest-dev): C++ tests cannot run." >&2
  exit 1
fi
# Objects are shared with the wheel build where ccache is present.
mkdir -p build
cmake -G Ninja -S . -B "$dir" -DYULOH_PYTHON=OFF -DYULOH_TESTS=ON -DCMAKE_PREFIX_PATH="$venv" \
  -DCMAKE_BUILD_TYPE=Release -DYULOH_SANITIZE="${SANITIZE:-}" >"$dir.log" 2>&1 || { cat "$dir.log" >&2; exit 1; }
cmake --build "$dir" -j "$jobs"
LD_LIBRARY_PATH="$venv/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" ctest --test-dir "$dir" --output-on-failure
