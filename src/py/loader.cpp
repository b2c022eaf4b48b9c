// SPDX-License-Identifier: Apache-2.0
// The binding of the data path: src/data behind one class, fed by python/yuloh/io/native.py, and the copies
// that the Python path makes often (collating into a tensor's own memory, an image's values).
#include "data/loader.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "data/jpeg.h"
#include "py/objects.h"
#include "run/executor.h"

namespace nb = nanobind;

namespace yuloh::py {
namespace {

using data::Batch;
using Bytes = nb::ndarray<const uint8_t, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Moves = nb::ndarray<const int32_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

struct Ticket {
  std::shared_ptr<Batch> batch;
  TensorType type;
};

// Keeps the arrays that the threads read alive until the threads have ended. A forked child has none of the
// threads: it may neither join nor wait for them.
class PyLoader {
 public:
  PyLoader(nb::object images, nb::object table, int threads) : keep_(images), pid_(getpid()) {
    data::Source source;
    if (!images.is_none()) {
      const auto a = nb::cast<Bytes>(images);
      if (a.ndim() != 4) value_error("BatchLoader: images have ", a.ndim(), " axes; expected [N, C, H, W].");
      source = {a.data(), static_cast<int64_t>(a.shape(0)), static_cast<int>(a.shape(1)),
                static_cast<int>(a.shape(2)), static_cast<int>(a.shape(3))};
    }
    std::vector<float> values;
    if (!table.is_none()) {
      const auto t = nb::cast<Floats>(table);
      if (t.shape(0) != static_cast<size_t>(source.channels) || t.shape(1) != 256)
        value_error("BatchLoader: table has shape [", t.shape(0), ", ", t.shape(1), "]; expected [",
                    source.channels, ", 256].");
      values.assign(t.data(), t.data() + t.size());
    }
    loader_ = std::make_unique<data::Loader>(source, std::move(values), threads);
  }
  ~PyLoader() {
    if (getpid() != pid_) (void)loader_.release();
  }
  void stop() {
    if (getpid() == pid_) loader_->stop();
  }

  Ticket submit(nb::object rows, nb::object paths, nb::object moves, int height, int width) {
    check_process();
    const data::Source& s = loader_->source();
    auto b = std::make_shared<Batch>();
    if (s.images) {
      const auto r = nb::cast<Rows>(rows);
      b->rows.assign(r.data(), r.data() + r.size());
      for (int64_t i : b->rows)
        if (i < 0 || i >= s.count) fail(ErrorKind::kIndex, "BatchLoader: row ", i, " of ", s.count, ".");
    } else {
      b->paths = nb::cast<std::vector<std::string>>(paths);
    }
    const size_t n = s.images ? b->rows.size() : b->paths.size();
    b->failed.assign(n, 0), b->height = height, b->width = width;
    if (!moves.is_none()) {
      const auto m = nb::cast<Moves>(moves);
      if (m.shape(0) != n || m.shape(2) != 5) value_error("BatchLoader: moves must have shape [N, M, 5].");
      b->moves_each = static_cast<int>(m.shape(1));
      for (size_t i = 0; i < n * m.shape(1); ++i) {
        const int32_t* p = m.data() + i * 5;
        const auto kind = static_cast<data::MoveKind>(p[0]);
        const bool crop = kind == data::MoveKind::kCrop, resize = kind == data::MoveKind::kResize;
        if (p[0] < 0 || p[0] > 4 || (crop && (p[3] <= 0 || p[4] <= 0)) ||
            (resize && (p[1] <= 0 || p[2] <= 0 || p[3] < 2 || p[3] > 3)))
          value_error("BatchLoader: move ", p[0], " (", p[1], ", ", p[2], ", ", p[3], ", ", p[4],
                      ") is none.");
        b->moves.push_back({kind, p[1], p[2], p[3], p[4]});
      }
    }
    if (s.images && b->moves_each == 0 && (height != s.height || width != s.width))
      value_error("BatchLoader: without moves the size stays.");
    TensorType t;
    t.dtype = loader_->dtype();
    for (int64_t e : {static_cast<int64_t>(n), static_cast<int64_t>(s.channels), static_cast<int64_t>(height),
                      static_cast<int64_t>(width)})
      t.shape.push_back(e);
    b->out = allocate_buffer(t);
    {
      nb::gil_scoped_release free;
      std::optional<Running> team;
      if (loader_->on_caller()) team.emplace();
      loader_->submit(b);
    }
    return {std::move(b), t};
  }

  // Positions of the batch that could not be read here.
  std::vector<int64_t> wait(Ticket& t) {
    check_process();
    for (bool done = false; !done;) {
      {
        nb::gil_scoped_release free;
        done = loader_->wait(*t.batch, 0.1);
      }
      if (!done && PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    std::vector<int64_t> failed;
    for (int64_t i = 0; i < t.batch->size(); ++i)
      if (t.batch->failed[i]) failed.push_back(i);
    return failed;
  }

  bool give(Ticket& t, int64_t i, const Bytes& pixels) {
    const int64_t channels = pixels.ndim() == 3 ? pixels.shape(2) : 1;
    if (i < 0 || i >= t.batch->size() || pixels.ndim() < 2 || pixels.ndim() > 3 ||
        (channels != 1 && channels != 3))
      value_error("BatchLoader: pixels must have shape [H, W] or [H, W, 3].");
    loader_->give(*t.batch, i, pixels.data(), static_cast<int>(pixels.shape(0)),
                  static_cast<int>(pixels.shape(1)), static_cast<int>(channels));
    return !t.batch->failed[i];
  }

  nb::object take(Ticket& t) {
    for (uint8_t f : t.batch->failed)
      if (f) value_error("BatchLoader: the batch is not whole.");
    return tensor_object(make_data(t.type, std::move(t.batch->out)));
  }

 private:
  void check_process() const {
    if (getpid() != pid_)
      fail(ErrorKind::kRuntime,
           "DataLoader: this iterator's threads belong to the process that made it, pid ", pid_,
           "; expected use there. Hint: iterate over the loader anew in the child.");
  }

  nb::object keep_;  // before loader_: let go after the threads have ended
  pid_t pid_;
  std::unique_ptr<data::Loader> loader_;
};

// Memory of a tensor to be, which NumPy fills first.
struct HostBatch {
  TensorType type;
  Ref<Buffer> buffer;
};

// The tensors one after the other as a new one; null where that would run something or lose a gradient.
PyObject* stack_values(nb::handle list) {
  const nb::sequence tensors = nb::cast<nb::sequence>(list);
  const size_t n = nb::len(tensors);
  std::vector<Ref<Buffer>> parts;
  TensorType type;
  for (size_t i = 0; i < n; ++i) {
    const nb::object o = tensors[i];
    if (!is_tensor(o.ptr())) return nullptr;
    Tensor& t = tensor_of(o.ptr());
    t.cell()->settle();
    const Value v = t.value();
    if (!v.node->materialised(v.index) || v.requires_grad() || !t.stop_gradient()) return nullptr;
    const Ref<Buffer>& b = v.node->outputs[v.index].buffer;
    if (i == 0) type = v.type();
    if (v.type().dtype != type.dtype || v.type().shape != type.shape || b->packed ||
        !is_row_major(type.shape, b->strides))
      return nullptr;
    parts.push_back(b);
  }
  TensorType all;
  all.dtype = type.dtype, all.shape.push_back(static_cast<int64_t>(n));
  for (int64_t e : type.shape) all.shape.push_back(e);
  Ref<Buffer> out = allocate_buffer(all);
  const size_t bytes = numel(type.shape) * dtype_size(type.dtype);
  nb::gil_scoped_release free;
  for (size_t i = 0; i < n && bytes > 0; ++i)
    std::memcpy(static_cast<char*>(out->data()) + i * bytes, parts[i]->data(), bytes);
  parts.clear();
  nb::gil_scoped_acquire again;
  return wrap(make_ref<Tensor>(make_data(all, std::move(out))));
}

// An 8-bit image [H, W, C] as float32 [C, H, W] through a table [C, 256].
PyObject* image_values(const nb::ndarray<const uint8_t, nb::ndim<3>, nb::device::cpu>& image,
                       const Floats& table) {
  const int64_t h = image.shape(0), w = image.shape(1), channels = image.shape(2);
  if (table.shape(0) != image.shape(2) || table.shape(1) != 256)
    value_error("image_values: the table does not fit.");
  TensorType type;
  type.dtype = DType::kFloat32;
  for (int64_t e : {channels, h, w}) type.shape.push_back(e);
  Ref<Buffer> out = allocate_buffer(type);
  auto* to = static_cast<float*>(out->data());
  const int64_t down = image.stride(0), step = image.stride(1);
  for (int64_t c = 0; c < channels; ++c) {
    const float* values = table.data() + c * 256;
    for (int64_t y = 0; y < h; ++y, to += w) {
      const uint8_t* p = image.data() + y * down + c * image.stride(2);
      for (int64_t x = 0; x < w; ++x, p += step) to[x] = values[*p];
    }
  }
  return wrap(make_ref<Tensor>(make_data(type, std::move(out))));
}

}  // namespace

void bind_loader(nb::module_& m) {
  nb::class_<HostBatch>(m, "HostBatch", "Memory of a tensor that NumPy fills before the tensor is made.")
      .def("__init__",
           [](HostBatch* self, const std::vector<int64_t>& shape, nb::handle dtype) {
             TensorType t;
             if (!dtype_from_object(dtype.ptr(), &t.dtype)) type_error("HostBatch: unknown dtype.");
             for (int64_t e : shape) t.shape.push_back(e);
             new (self) HostBatch{t, allocate_buffer(t)};
           })
      .def(
          "bytes",
          [](nb::handle self) {
            const HostBatch& b = nb::cast<const HostBatch&>(self);
            const size_t n = static_cast<size_t>(numel(b.type.shape)) * dtype_size(b.type.dtype);
            return nb::ndarray<uint8_t, nb::numpy>(static_cast<uint8_t*>(b.buffer->data()), {n}, self);
          },
          "The memory as a NumPy array of bytes.")
      .def("tensor", [](const HostBatch& b) { return tensor_object(make_data(b.type, b.buffer)); });
  m.def(
      "stack_values",
      [](nb::handle list) {
        PyObject* r = stack_values(list);
        return r ? nb::steal(r) : nb::none();
      },
      "A new tensor [N, ...] with the values of N equal ones that are at hand and need no gradient; None "
      "otherwise.");
  m.def(
      "image_values",
      [](const nb::ndarray<const uint8_t, nb::ndim<3>, nb::device::cpu>& image, const Floats& table) {
        return owned(image_values(image, table));
      },
      "uint8 [H, W, C] through a table float32 [C, 256] to a tensor float32 [C, H, W].");
  nb::class_<Ticket>(m, "BatchTicket", "A batch on its way.");
  nb::class_<PyLoader>(m, "BatchLoader", "Threads that make batches of images (see src/data/loader.h).")
      .def(nb::init<nb::object, nb::object, int>(), nb::arg("images").none(), nb::arg("table").none(),
           nb::arg("threads"))
      .def("submit", &PyLoader::submit, nb::arg("rows").none(), nb::arg("paths").none(),
           nb::arg("moves").none(), nb::arg("height"), nb::arg("width"))
      .def("wait", &PyLoader::wait)
      .def("give", &PyLoader::give)
      .def("take", &PyLoader::take)
      .def("stop", &PyLoader::stop);
  m.def("load_jpeg_library", &data::load_jpeg_library,
        "Loads the first usable libjpeg-turbo of a list; its name, or ''.");
  m.def(
      "jpeg_sizes",
      [](const std::vector<std::string>& paths) {
        std::vector<data::JpegSize> sizes;
        {
          nb::gil_scoped_release free;
          for (const std::string& p : paths) sizes.push_back(data::jpeg_size(p));
        }
        nb::list r;
        for (const data::JpegSize& s : sizes) r.append(nb::make_tuple(s.height, s.width));
        return r;
      },
      "[(height, width)] of the JPEG files that the loader's threads can decode, by their headers; (0, 0) "
      "for others.");
}

}  // namespace yuloh::py
