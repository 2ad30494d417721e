#pragma once

#include "array.h"
#include "rapt/attend.h"

namespace rapt::python {

// Two numbers a row between the passes, as an object or as two arrays: graphs of PyTorch and JAX carry arrays only.
class SavedRows {
 public:
  Saved rows{};

  std::int64_t count() const;
  void store(const ArrayReader& reader, nb::handle max, nb::handle sum) const;
  void load(const ArrayReader& reader, nb::handle max, nb::handle sum);
};

}  // namespace rapt::python
