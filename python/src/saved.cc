#include "saved.h"

#include <algorithm>

#include "attend/problem.h"

namespace rapt::python {
namespace {

std::int64_t size_of_rows(const Array& array) {
  const Shape& shape = array.view().shape;
  return shape[0] * shape[1] * shape[2] * shape[3];
}

template <class T>
void copy_rows(const T* from, std::int64_t count, const Array& array) {
  std::copy_n(from, count, static_cast<T*>(const_cast<void*>(array.view().data)));
}

void check(const ArrayReader& reader, const Array& array, const char* name, std::int64_t count, bool is_double) {
  const Dtype expected = is_double ? Dtype::f64 : Dtype::f32;
  const ConstView& view = array.view();
  if (view.device != Device{})
    reader.fail(std::string(name) + ": expected an array on cpu, got one on " + to_string(view.device));
  const Shape strides = contiguous_strides(view.shape);
  for (std::size_t n = 0; n < 4; ++n)
    if (view.shape[n] > 1 && view.strides[n] != strides[n])
      reader.fail(std::string(name) + ": expected contiguous rows, got strides " + to_string(view.strides));
  if (size_of_rows(array) == count && array.view().dtype == expected) return;
  reader.fail(std::string(name) + ": expected " + std::to_string(count) + " rows of " + numpy_name(expected) +
              ", got " + std::to_string(size_of_rows(array)) + " of " + numpy_name(array.view().dtype));
}

}  // namespace

std::int64_t SavedRows::count() const { return rows.rows()->count; }

void SavedRows::store(const ArrayReader& reader, nb::handle max, nb::handle sum) const {
  Saved::Rows& own = *rows.rows();
  if (own.device != Device{})
    reader.fail("store: expected rows of a call on cpu, got those of one on " + to_string(own.device));
  const Array max_array = reader.read_in_place(max, "max"), sum_array = reader.read_in_place(sum, "sum");
  check(reader, max_array, "max", own.count, own.is_double);
  check(reader, sum_array, "sum", own.count, own.is_double);
  if (own.is_double) {
    copy_rows(own.max<double>(), own.count, max_array);
    copy_rows(own.sum<double>(), own.count, sum_array);
  } else {
    copy_rows(own.max<float>(), own.count, max_array);
    copy_rows(own.sum<float>(), own.count, sum_array);
  }
}

void SavedRows::load(const ArrayReader& reader, nb::handle max, nb::handle sum) {
  const Array max_array = reader.read(max, "max"), sum_array = reader.read(sum, "sum");
  const bool is_double = max_array.view().dtype == Dtype::f64;
  const std::int64_t count = size_of_rows(max_array);
  check(reader, max_array, "max", count, is_double);
  check(reader, sum_array, "sum", count, is_double);
  Saved::Rows& own = *rows.rows();
  own.resize(count, is_double);
  if (is_double) {
    std::copy_n(static_cast<const double*>(max_array.view().data), count, own.max<double>());
    std::copy_n(static_cast<const double*>(sum_array.view().data), count, own.sum<double>());
  } else {
    std::copy_n(static_cast<const float*>(max_array.view().data), count, own.max<float>());
    std::copy_n(static_cast<const float*>(sum_array.view().data), count, own.sum<float>());
  }
}

}  // namespace rapt::python
