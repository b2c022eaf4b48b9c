#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Set-up for `make bench` and `make test`: system packages where we may install them, then the virtual environment.
set -euo pipefail
python=$1 venv=$2

need=()
command -v g++ >/dev/null || need+=(g++)
"$python" -c 'import venv, ensurepip' 2>/dev/null || need+=(python3-venv)
[ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || need+=(python3-dev)
ls /usr/lib/*/libgomp.so.1 >/dev/null 2>&1 || need+=(libgomp1)
[ -e /usr/include/gtest/gtest.h ] || need+=(libgtest-dev)
[ -e /usr/include/nlohmann/json.hpp ] || need+=(nlohmann-json3-dev)
want=()   # nice to have: tests and pictures go without them, saying so
[ -e /usr/include/jpeglib.h ] || want+=(libjpeg62-turbo-dev)   # headers: the loader's threads decode JPEG with libjpeg-turbo
command -v ccache >/dev/null || want+=(ccache)
command -v chromium >/dev/null || want+=(chromium)
command -v chromedriver >/dev/null || [ -e /usr/lib/chromium/chromedriver ] || want+=(chromium-driver)
fc-list 2>/dev/null | grep -qi "wqy\|noto.*cjk" || want+=(fonts-wqy-microhei)

if [ ${#need[@]} -gt 0 ] || [ ${#want[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true
    [ ${#need[@]} -eq 0 ] || apt-get install -y -qq --no-install-recommends "${need[@]}" >/dev/null
    [ ${#want[@]} -eq 0 ] || apt-get install -y -qq --no-install-recommends "${want[@]}" >/dev/null ||
      echo "setup: could not install ${want[*]}; the parts that use them are skipped."
  elif [ ${#need[@]} -gt 0 ]; then
    echo "setup: missing system packages: ${need[*]}. Install them (as root: apt-get install ${need[*]}) and run make again." >&2
  fi
fi

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip() { "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@"; }
pip "scikit-build-core==1.1.2" "nanobind==3.1.0" "onednn-devel-cpu-gomp==2023.2.0" "onednn-cpu-gomp==2023.2.0" "cmake>=3.25,<4" ninja numpy
pip "pytest>=7" "pytest-xdist>=3" "jinja2>=3" "matplotlib>=3.5" "rich>=12" "pillow>=9.1" "selenium>=4" "clang-format==14.0.6"
