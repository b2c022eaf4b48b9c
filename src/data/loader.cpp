// SPDX-License-Identifier: Apache-2.0
// The threads of the loader. Samples of the oldest batch go first, whichever thread is free takes the next
// one; where a sample lands depends on its position only, so results do not depend on timing or thread count.
#include "data/loader.h"

#include <chrono>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "cpu/parallel.h"
#include "data/jpeg.h"

namespace yuloh::data {

struct Loader::Room {
  std::vector<uint8_t> bytes;
  Image image, other, scratch;
  void trim() {
    image.trim(), other.trim(), scratch.trim();
    if (bytes.size() > (32u << 20)) std::vector<uint8_t>().swap(bytes);
  }
};

Loader::Loader(Source source, std::vector<float> table, int threads)
    : source_(source), table_(std::move(table)) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& e) {  // joinable threads must not be destroyed
    stop();
    fail(ErrorKind::kRuntime, "DataLoader: the system gives no more threads, got num_workers = ", threads,
         ": ", e.what(), ".");
  }
}
Loader::~Loader() { stop(); }

void Loader::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  work_.notify_all();
  for (std::thread& t : threads_) t.join();
  threads_.clear();
}

void Loader::work() {
  reset_affinity();
  while (true) {
    std::shared_ptr<Batch> batch;
    {
      std::unique_lock lock(mutex_);
      while (!queue_.empty() && queue_.front()->next >= queue_.front()->size()) queue_.pop_front();
      if (stopping_) return;
      if (queue_.empty()) {
        work_.wait(lock);
        continue;
      }
      batch = queue_.front();
    }
    drain(*batch);
  }
}

void Loader::drain(Batch& batch) {
  thread_local Room room;
  const int64_t n = batch.size(), grain = source_.images ? 8 : 1;
  for (int64_t i; !stopping_ && (i = batch.next.fetch_add(grain)) < n;) {
    const int64_t end = std::min(n, i + grain);
    for (int64_t j = i; j < end; ++j) {
      bool good = false;
      try {
        good = sample(batch, j, room);
      } catch (const std::exception&) {  // no memory: Python tries again and says so
      }
      batch.failed[j] = !good;
      room.trim();
    }
    if (batch.done.fetch_add(end - i) + end - i == n) {
      const std::lock_guard lock(mutex_);
      done_.notify_all();
    }
  }
}

void Loader::submit(std::shared_ptr<Batch> batch) {
  if (threads_.empty()) {
    const int64_t n = num_threads();
    const double bytes = static_cast<double>(batch->size()) * batch->height * batch->width * source_.channels;
    parallel_for(
        n, [&](int64_t) { drain(*batch); }, bytes * (source_.images ? 3e-10 : 5e-9));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(batch));
  }
  work_.notify_all();
}

bool Loader::wait(Batch& batch, double seconds) {
  if (batch.done >= batch.size()) return true;
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, std::chrono::duration<double>(seconds),
                        [&] { return batch.done >= batch.size(); });
}

bool Loader::sample(Batch& batch, int64_t i, Room& room) {
  if (source_.images && batch.moves_each == 0) {
    write_plain(batch, i);
    return true;
  }
  if (source_.images) {
    const int64_t plane = static_cast<int64_t>(source_.height) * source_.width;
    const uint8_t* p = source_.images + batch.rows[i] * source_.channels * plane;
    room.image.reshape(source_.width, source_.height);
    uint8_t* to = room.image.pixels.data();
    for (int c = 0; c < source_.channels; ++c)
      for (int64_t j = 0; j < plane; ++j) to[j * 4 + c] = p[c * plane + j];
    return finish(batch, i, room, 0);
  }
  size_t count = 0;
  if (batch.paths[i].empty() || !read_file(batch.paths[i], SIZE_MAX, &room.bytes, &count)) return false;
  const JpegSize size = jpeg_size(room.bytes.data(), count);
  if (size.width == 0) return false;
  Rect want{0, 0, size.height, size.width};
  int first = 0;
  if (batch.moves_each > 0) {
    const Move& m = batch.moves[i * batch.moves_each];
    const bool inside = m.kind == MoveKind::kCrop && m.a >= 0 && m.b >= 0 && m.c > 0 && m.d > 0 &&
                        m.a + m.c <= size.height && m.b + m.d <= size.width;
    if (inside) want = {m.a, m.b, m.c, m.d}, first = 1;  // only that part is decoded
  }
  return decode_jpeg(room.bytes.data(), count, want, &room.image) && finish(batch, i, room, first);
}

bool Loader::finish(Batch& batch, int64_t i, Room& room, int first_move) {
  bool mirror = false, turn = false;  // flips wait: at the end they cost nothing
  for (int m = first_move; m < batch.moves_each; ++m) {
    const Move& move = batch.moves[i * batch.moves_each + m];
    if (move.kind == MoveKind::kMirror) mirror = !mirror;
    if (move.kind == MoveKind::kTurnOver) turn = !turn;
    if (move.kind != MoveKind::kCrop && move.kind != MoveKind::kResize) continue;
    if (mirror || turn) flip(&room.image, mirror, turn);
    mirror = turn = false;
    if (move.kind == MoveKind::kCrop) crop(room.image, {move.a, move.b, move.c, move.d}, &room.other);
    else
      resize(room.image, move.b, move.a, static_cast<Filter>(move.c), move.d != 0, &room.scratch,
             &room.other);
    std::swap(room.image, room.other);
  }
  const Image& image = room.image;
  if (image.height != batch.height || image.width != batch.width) return false;
  const int64_t plane = static_cast<int64_t>(image.height) * image.width;
  const int w = image.width, step = mirror ? -4 : 4;
  for (int y = 0; y < image.height; ++y) {
    const uint8_t* row = image.row(turn ? image.height - 1 - y : y) + (mirror ? (w - 1) * 4 : 0);
    for (int c = 0; c < source_.channels; ++c) {
      const int64_t at = (i * source_.channels + c) * plane + static_cast<int64_t>(y) * w;
      const uint8_t* p = row + c;
      if (table_.empty()) {
        auto* out = static_cast<uint8_t*>(batch.out->data()) + at;
        for (int x = 0; x < w; ++x, p += step) out[x] = *p;
      } else {
        auto* out = static_cast<float*>(batch.out->data()) + at;
        const float* table = table_.data() + c * 256;
        for (int x = 0; x < w; ++x, p += step) out[x] = table[*p];
      }
    }
  }
  return true;
}

void Loader::write_plain(Batch& batch, int64_t i) {
  const int64_t plane = static_cast<int64_t>(source_.height) * source_.width, all = plane * source_.channels;
  const uint8_t* p = source_.images + batch.rows[i] * all;
  if (table_.empty()) {
    std::memcpy(static_cast<uint8_t*>(batch.out->data()) + i * all, p, all);
    return;
  }
  auto* out = static_cast<float*>(batch.out->data()) + i * all;
  for (int c = 0; c < source_.channels; ++c) {
    const float* table = table_.data() + c * 256;
    for (int64_t j = 0; j < plane; ++j) out[c * plane + j] = table[p[c * plane + j]];
  }
}

void Loader::give(Batch& batch, int64_t i, const uint8_t* pixels, int height, int width, int channels) {
  thread_local Room room;
  room.image.reshape(width, height);
  uint8_t* to = room.image.pixels.data();
  for (int64_t j = 0; j < static_cast<int64_t>(height) * width; ++j)
    for (int c = 0; c < 3; ++c) to[j * 4 + c] = pixels[j * channels + (channels == 1 ? 0 : c)];
  batch.failed[i] = !finish(batch, i, room, 0);
}

}  // namespace yuloh::data
