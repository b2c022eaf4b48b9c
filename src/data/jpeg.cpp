// SPDX-License-Identifier: Apache-2.0
// libjpeg-turbo behind a table of function pointers. Its errors leave by longjmp, so the functions that call
// it hold nothing with a destructor.
#include "data/jpeg.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <mutex>

#if __has_include(<jpeglib.h>) && __has_include(<dlfcn.h>)
#include <dlfcn.h>
#include <jpeglib.h>
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 1005000
#define YULOH_JPEG 1
#endif
#endif

namespace yuloh::data {

JpegSize jpeg_size(const uint8_t* p, size_t n) {
  if (n < 4 || p[0] != 0xff || p[1] != 0xd8) return {};
  size_t at = 2;
  while (at + 9 < n) {
    if (p[at] != 0xff) return {};
    const int marker = p[at + 1];
    if (marker == 0xff) {  // fill byte
      ++at;
      continue;
    }
    if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) {  // no length follows
      at += 2;
      continue;
    }
    if (marker >= 0xc0 && marker <= 0xc2) {
      const int bits = p[at + 4], height = p[at + 5] << 8 | p[at + 6], width = p[at + 7] << 8 | p[at + 8];
      const int channels = p[at + 9];
      if (bits != 8 || (channels != 1 && channels != 3) || static_cast<int64_t>(width) * height > (80 << 20))
        return {};
      return height > 0 && width > 0 ? JpegSize{width, height} : JpegSize{};
    }
    const bool other_frame =
        marker >= 0xc3 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (other_frame || marker == 0xda || marker == 0xd9) return {};
    at += 2 + (static_cast<size_t>(p[at + 2]) << 8 | p[at + 3]);
  }
  return {};
}

bool read_file(const std::string& path, size_t most, std::vector<uint8_t>* bytes, size_t* count) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return false;
  struct stat s;
  bool good = ::fstat(fd, &s) == 0 && S_ISREG(s.st_mode);
  const size_t size = good ? std::min(most, static_cast<size_t>(s.st_size)) : 0;
  if (bytes->size() < size) bytes->resize(size);
  for (*count = 0; *count < size;) {
    const ssize_t n = ::read(fd, bytes->data() + *count, size - *count);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) good = false;
    if (n <= 0) break;
    *count += n;
  }
  ::close(fd);
  return good;
}

JpegSize jpeg_size(const std::string& path) {
  thread_local std::vector<uint8_t> bytes;
  for (const size_t most : {size_t{4096}, size_t{1} << 20}) {  // a long header is rare
    size_t count = 0;
    if (!read_file(path, most, &bytes, &count)) break;
    const JpegSize size = jpeg_size(bytes.data(), count);
    if (size.width > 0 || count < most) return size;
  }
  return {};
}

#ifdef YULOH_JPEG
namespace {

struct Library {
  decltype(&jpeg_std_error) std_error;
  decltype(&jpeg_CreateDecompress) create;
  decltype(&jpeg_destroy_decompress) destroy;
  decltype(&jpeg_mem_src) mem_src;
  decltype(&jpeg_read_header) read_header;
  decltype(&jpeg_start_decompress) start;
  decltype(&jpeg_crop_scanline) crop;
  decltype(&jpeg_skip_scanlines) skip;
  decltype(&jpeg_read_scanlines) read;
  decltype(&jpeg_abort_decompress) abort;
};
Library g_library;
bool g_ready = false;

struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf back;
};
void leave(j_common_ptr c) { std::longjmp(reinterpret_cast<Errors*>(c->err)->back, 1); }
void keep_quiet(j_common_ptr) {}
void count_warnings(j_common_ptr c, int level) {
  if (level < 0) ++c->err->num_warnings;
}

// A decoder that a thread keeps.
struct Decoder {
  jpeg_decompress_struct c;
  Errors errors;
  bool made = false;
  bool make() {
    if (made) return true;
    std::memset(&c, 0, sizeof c);
    c.err = g_library.std_error(&errors.base);
    errors.base.error_exit = leave, errors.base.output_message = keep_quiet,
    errors.base.emit_message = count_warnings;
    if (setjmp(errors.back)) return false;  // another version of the library, or no memory
    g_library.create(&c, JPEG_LIB_VERSION, sizeof c);
    return made = true;
  }
  ~Decoder() {
    if (made) g_library.destroy(&c);
  }
};

template <class F>
bool find(void* handle, const char* name, F* f) {
  *f = reinterpret_cast<F>(dlsym(handle, name));
  return *f != nullptr;
}

// Rows [top, bottom) of the columns around `want`, written to `out`, which is `*width` wide from column
// `*left` on.
bool read_rows(Decoder* d, const uint8_t* bytes, size_t count, const Rect& want, Image* out, int* left) {
  jpeg_decompress_struct& c = d->c;
  if (setjmp(d->errors.back)) {
    g_library.abort(&c);
    return false;
  }
  d->errors.base.num_warnings = 0;
  g_library.mem_src(&c, const_cast<unsigned char*>(bytes), count);
  g_library.read_header(&c, TRUE);
  const bool colours =
      c.jpeg_color_space == JCS_GRAYSCALE || c.jpeg_color_space == JCS_YCbCr || c.jpeg_color_space == JCS_RGB;
  const int w = static_cast<int>(c.image_width), h = static_cast<int>(c.image_height);
  if (!colours || want.top < 0 || want.left < 0 || want.top + want.height > h || want.left + want.width > w) {
    g_library.abort(&c);
    return false;
  }
  c.out_color_space = JCS_EXT_RGBX;
  g_library.start(&c);
  // The decoder starts at a block's edge, where it smooths colours as at the image's edge: two more columns
  // and rows keep that away from what is wanted.
  JDIMENSION x = static_cast<JDIMENSION>(want.left > 2 ? want.left - 2 : 0);
  JDIMENSION span =
      static_cast<JDIMENSION>((want.left + want.width + 2 < w ? want.left + want.width + 2 : w)) - x;
  if (span < c.output_width) g_library.crop(&c, &x, &span);
  *left = static_cast<int>(x);
  const JDIMENSION top = static_cast<JDIMENSION>(want.top > 2 ? want.top - 2 : 0);
  out->reshape(static_cast<int>(c.output_width), want.height);
  if (top > 0) g_library.skip(&c, top);
  while (static_cast<int>(c.output_scanline) < want.top + want.height) {
    const int y = static_cast<int>(c.output_scanline) - want.top;
    JSAMPROW row = out->row(y < 0 ? 0 : y);  // rows above land where the first one will
    g_library.read(&c, &row, 1);
  }
  const bool clean = d->errors.base.num_warnings == 0;
  g_library.abort(&c);
  return clean;
}

// A file that is cut off lacks its end marker; what follows one by more than a KiB is not looked at.
bool has_end(const uint8_t* p, size_t n) {
  for (size_t i = n < 1024 ? 2 : n - 1024; i + 1 < n; ++i)
    if (p[i] == 0xff && p[i + 1] == 0xd9) return true;
  return false;
}

}  // namespace

std::string load_jpeg_library(const std::vector<std::string>& candidates) {
  static std::mutex mutex;
  static std::string loaded;
  const std::lock_guard lock(mutex);
  if (g_ready) return loaded;
  for (const std::string& name : candidates) {
    void* h = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!h) continue;
    Library& l = g_library;
    if (find(h, "jpeg_std_error", &l.std_error) && find(h, "jpeg_CreateDecompress", &l.create) &&
        find(h, "jpeg_destroy_decompress", &l.destroy) && find(h, "jpeg_mem_src", &l.mem_src) &&
        find(h, "jpeg_read_header", &l.read_header) && find(h, "jpeg_start_decompress", &l.start) &&
        find(h, "jpeg_crop_scanline", &l.crop) && find(h, "jpeg_skip_scanlines", &l.skip) &&
        find(h, "jpeg_read_scanlines", &l.read) && find(h, "jpeg_abort_decompress", &l.abort)) {
      Decoder trial;
      if (trial.make()) {
        g_ready = true;
        return loaded = name;
      }
    }
    dlclose(h);
  }
  return "";
}
bool jpeg_ready() { return g_ready; }

bool decode_jpeg(const uint8_t* bytes, size_t count, const Rect& want, Image* out) {
  thread_local Decoder decoder;
  if (!g_ready || !has_end(bytes, count) || !decoder.make()) return false;
  int left = 0;
  if (!read_rows(&decoder, bytes, count, want, out, &left)) return false;
  out->origin = static_cast<size_t>(want.left - left) * 4, out->width = want.width;
  return true;
}

#else
std::string load_jpeg_library(const std::vector<std::string>&) { return ""; }
bool jpeg_ready() { return false; }
bool decode_jpeg(const uint8_t*, size_t, const Rect&, Image*) { return false; }
#endif

}  // namespace yuloh::data
