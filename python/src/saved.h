#pragma once

#include "array.h"
#include "rapt/attend.h"

namespace rapt::python {

// Softmax statistics of the passes as one piece of memory, [2, count]: maxima, then sums. A device's rows are there themselves,
// and behind them, from a multiple of 16 bytes, what rounding took from an output of 16 bits, `columns` numbers a row.
std::int64_t device_floats(std::int64_t count, std::int64_t columns);
// `columns` of the remainder are there already; before a forward pass: 0.
void lend_rows(const Saved& saved, void* memory, std::int64_t floats, std::int64_t count, std::int64_t columns,
               const Device& device);
// Throws where the engine took other memory than was lent: the rows would be found by it alone.
void check_lent(const Saved& saved, const void* memory);
void store_rows(const Saved& saved, void* to);
void load_rows(const Saved& saved, const void* from, std::int64_t count, bool is_double);

// Two numbers a row between the passes, as an object or as one array [2, rows…]: graphs of PyTorch carry arrays only.
class SavedRows {
 public:
  Saved rows{};
  nb::object memory = nb::none();  // a device's rows lie in this array, of the caller's library

  std::int64_t count() const;
  void lend(const ArrayReader& reader, nb::object array, std::int64_t row_count, std::int64_t columns,
            const Device& device);
  nb::object lent() const;  // the memory, with the rows in it
  void store(const ArrayReader& reader, nb::handle array) const;
  // Of `row_count` rows; on a device with a remainder of so many columns, as the forward pass left it there.
  void load(const ArrayReader& reader, nb::object array, std::int64_t row_count, std::int64_t columns);
};

}  // namespace rapt::python
