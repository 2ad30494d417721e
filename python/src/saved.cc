#include "saved.h"

#include <algorithm>

#include "attend/problem.h"
#include "rapt/error.h"

namespace rapt::python {
namespace {

// [2, rows…] in one piece.
Array read_rows(const ArrayReader& reader, nb::handle object) {
  Array array = reader.read_in_place(object, "rows");
  const ConstView& view = array.view();
  const Shape strides = contiguous_strides(view.shape);
  for (std::size_t n = 0; n < 4; ++n)
    if (view.shape[n] > 1 && view.strides[n] != strides[n])
      reader.fail("rows: expected a contiguous array, got strides " + to_string(view.strides));
  return array;
}

}  // namespace

std::int64_t device_floats(std::int64_t count, std::int64_t columns) {
  return columns == 0 ? 2 * count : (2 * count + 3) / 4 * 4 + (count * columns + 1) / 2;
}

void lend_rows(const Saved& saved, void* memory, std::int64_t floats, std::int64_t count, std::int64_t columns,
               const Device& device) {
  Saved::Rows& own = *saved.rows();
  own.resize(count, false, device);
  own.device_memory = std::shared_ptr<void>(memory, [](void*) {});
  own.device_bytes = sizeof(float) * static_cast<std::size_t>(floats);
  own.remainder_dim = columns;
}

void check_lent(const Saved& saved, const void* memory) {
  if (saved.rows()->device_memory.get() != memory)
    throw Error("attend: expected the softmax statistics in the memory that was lent for them, got them elsewhere");
}

void store_rows(const Saved& saved, void* to) {
  Saved::Rows& own = *saved.rows();
  const auto copy = [&]<class T>(T* numbers) {
    std::copy_n(own.max<T>(), own.count, numbers);
    std::copy_n(own.sum<T>(), own.count, numbers + own.count);
  };
  if (own.is_double) copy(static_cast<double*>(to));
  else copy(static_cast<float*>(to));
}

void load_rows(const Saved& saved, const void* from, std::int64_t count, bool is_double) {
  Saved::Rows& own = *saved.rows();
  own.resize(count, is_double);
  const auto copy = [&]<class T>(const T* numbers) {
    std::copy_n(numbers, count, own.max<T>());
    std::copy_n(numbers + count, count, own.sum<T>());
  };
  if (is_double) copy(static_cast<const double*>(from));
  else copy(static_cast<const float*>(from));
}

std::int64_t SavedRows::count() const { return rows.rows()->count; }

void SavedRows::lend(const ArrayReader& reader, nb::object array, std::int64_t row_count, std::int64_t columns,
                     const Device& device) {
  const Array read = read_rows(reader, array);
  const ConstView& view = read.view();
  if (view.device != device || view.dtype != Dtype::f32)
    reader.fail("rows: expected float32 on " + to_string(device) + ", got " + numpy_name(view.dtype) + " on " +
                to_string(view.device));
  lend_rows(rows, const_cast<void*>(view.data), element_count(view.shape), row_count, columns, device);
  memory = std::move(array);
}

nb::object SavedRows::lent() const {
  if (!memory.is_none()) check_lent(rows, read_rows(ArrayReader("Saved"), memory).view().data);
  return memory;
}

void SavedRows::store(const ArrayReader& reader, nb::handle array) const {
  const Saved::Rows& own = *rows.rows();
  if (own.device != Device{})
    reader.fail("store: expected rows of a call on cpu, got those of one on " + to_string(own.device));
  const Array read = read_rows(reader, array);
  const ConstView& view = read.view();
  const Dtype expected = own.is_double ? Dtype::f64 : Dtype::f32;
  const std::int64_t size = element_count(view.shape);
  if (view.device != Device{} || view.dtype != expected || size != 2 * own.count)
    reader.fail("rows: expected " + std::to_string(2 * own.count) + " numbers of " + numpy_name(expected) + ", got " +
                std::to_string(size) + " of " + numpy_name(view.dtype));
  store_rows(rows, const_cast<void*>(view.data));
}

void SavedRows::load(const ArrayReader& reader, nb::object array, std::int64_t row_count, std::int64_t columns) {
  const Array read = read_rows(reader, array);
  const ConstView& view = read.view();
  const bool on_device = view.device != Device{};
  const std::int64_t size = element_count(view.shape), expected = device_floats(row_count, on_device ? columns : 0);
  if (size != expected)
    reader.fail("rows: expected " + std::to_string(expected) + " numbers, got " + std::to_string(size));
  if (on_device && reinterpret_cast<std::uintptr_t>(view.data) % 16 != 0) columns = 0;  // as the kernels do not read it
  if (on_device) lend(reader, std::move(array), row_count, columns, view.device);
  else load_rows(rows, view.data, row_count, view.dtype == Dtype::f64);
}

}  // namespace rapt::python
