#pragma once

#include <cstdint>
#include <type_traits>

#include "rapt/view.h"

namespace support {

// Numbers first … first + count − 1 of one dimension of an array.
template <class V>
V part_of(V view, int dimension, std::int64_t first, std::int64_t count) {
  using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(view.data)>>, const char, char>;
  const auto at = static_cast<std::size_t>(dimension);
  view.data =
      static_cast<Byte*>(view.data) + first * view.strides[at] * static_cast<std::int64_t>(rapt::size_of(view.dtype));
  view.shape[at] = count;
  return view;
}

}  // namespace support
