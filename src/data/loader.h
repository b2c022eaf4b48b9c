// SPDX-License-Identifier: Apache-2.0
// Batches made by threads: read, decode, move (image.h), look values up, write into one buffer [N, C, H, W].
// Python keeps what is policy: which samples, which random draws, what to do with a file that this room
// cannot read.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/buffer.h"
#include "data/image.h"

namespace yuloh::data {

enum class MoveKind : int32_t { kStay, kCrop, kResize, kMirror, kTurnOver };
// One drawn step of one sample. Crop: top, left, height, width (may reach outside: zeros); resize: height,
// width, filter, down first.
struct Move {
  MoveKind kind;
  int32_t a, b, c, d;
};

// Where samples come from: an array in memory [count, channels, height, width], or files (images == nullptr).
struct Source {
  const uint8_t* images = nullptr;
  int64_t count = 0;
  int channels = 3, height = 0, width = 0;
};

struct Batch {
  std::vector<int64_t> rows;       // of the array; unused with files
  std::vector<std::string> paths;  // "": left out, Python gives the pixels
  std::vector<Move> moves;         // moves_each for every sample
  int moves_each = 0;
  int height = 0, width = 0;  // of the result
  Ref<Buffer> out;
  std::vector<uint8_t> failed;  // 1: could not be read here, nothing was written
  int64_t size() const { return static_cast<int64_t>(failed.size()); }

  std::atomic<int64_t> next{0}, done{0};
};

class Loader {
 public:
  // `table`: [channels, 256] values of a pixel, or empty: bytes stay bytes. threads 0: submit() works on the
  // executor team (cpu/parallel.h) and the batch is done when it returns.
  Loader(Source source, std::vector<float> table, int threads);
  ~Loader();  // ends the threads; batches that were not waited for are given up
  Loader(const Loader&) = delete;

  bool on_caller() const { return threads_.empty(); }  // submit does the work, on the executor team: hold it
  void submit(std::shared_ptr<Batch> batch);
  bool wait(Batch& batch, double seconds);  // true: done
  // Sample `i` from pixels that the caller read: [height, width, channels], 1 or 3 channels.
  void give(Batch& batch, int64_t i, const uint8_t* pixels, int height, int width, int channels);
  void stop();
  DType dtype() const { return table_.empty() ? DType::kUInt8 : DType::kFloat32; }
  const Source& source() const { return source_; }

 private:
  struct Room;  // a thread's scratch
  void drain(Batch& batch);
  void work();
  bool sample(Batch& batch, int64_t i, Room& room);
  bool finish(Batch& batch, int64_t i, Room& room, int first_move);
  void write_plain(Batch& batch, int64_t i);

  const Source source_;
  const std::vector<float> table_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<std::shared_ptr<Batch>> queue_;
  std::atomic<bool> stopping_{false};
};

}  // namespace yuloh::data
