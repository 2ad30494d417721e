#include "attend/exact_choices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "backends/host/storage.h"
#include "mechanisms/call_ranges.h"
#include "mechanisms/objects.h"
#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

// Of every head, the numbers of one slot of a parameter, or of all slots (−1).
std::optional<NumberRange> numbers_of(const ParameterValue& value, std::int64_t slot) {
  const ConstView& view = value.view;
  if (!value.given || view.device.kind != Device::Kind::cpu) return std::nullopt;
  NumberRange range{HUGE_VAL, -HUGE_VAL, true};
  const std::int64_t first = slot < 0 ? 0 : slot, last = slot < 0 ? value.size() : slot + 1;
  for (std::int64_t h = 0; h < (value.per_head ? view.shape[3 - static_cast<std::size_t>(value.spec->rank())] : 1); ++h)
    for (std::int64_t n = first; n < last; ++n) {
      // A shape of rank r ends with these sizes: heads, rows, columns.
      std::int64_t at = 0;
      const std::array<std::int64_t, 3> place{h, n / value.cols, n % value.cols};
      const int rank = value.spec->rank();
      if (value.per_head) at += place[0] * view.strides[static_cast<std::size_t>(3 - rank)];
      if (rank == 2) at += place[1] * view.strides[2] + place[2] * view.strides[3];
      if (rank == 1) at += n * view.strides[3];
      double x = 0;
      load_row<double>({const_cast<void*>(view.data), view.dtype, 1}, at, 1, &x);
      range.low = std::min(range.low, x);
      range.high = std::max(range.high, x);
      range.is_whole = range.is_whole && x == std::floor(x);
      if (std::isnan(x)) return NumberRange{-HUGE_VAL, HUGE_VAL, false};
    }
  return range;
}

}  // namespace

void require_exact_choices(const char* operation, const Problem& p) {
  const RegistryEntry* entry = p.mechanism->definition().entry;
  if (!entry || !entry->inexact || p.is_empty() || p.keys == 0) return;
  const std::string owner = std::string(operation) + ": score " + std::string(p.mechanism->name());
  constexpr std::int64_t kMost = std::int64_t{1} << 24;
  const auto table_of = [&](int index) { return std::ranges::find(p.parameters, index, &ParameterValue::table); };
  for (const ParameterValue& value : p.parameters) {
    if (value.table < 0 || p.is_double || std::max(value.rows, value.cols) <= kMost) continue;
    const std::string name(value.spec->name);
    throw Error(owner + ": parameter '" + name + "': expected at most " + std::to_string(kMost) +
                " numbers in a dimension outside f64, which indices are exact for, got " +
                std::to_string(std::max(value.rows, value.cols)) + "; " + name + "[x,y] takes an index in two parts");
  }
  const std::int64_t first = p.first_key + p.lowest_shift(), last = p.first_key + p.highest_shift() + p.queries - 1;
  CallRanges call{.query = {first, last},
                  .key = {p.first_key, p.first_key + p.keys - 1},
                  .grid = p.grid,
                  .batch = {p.outer.first_batch, p.outer.first_batch + p.batch - 1},
                  .head = {p.outer.first_head, p.outer.first_head + p.heads - 1},
                  .queries = p.outer.queries,
                  .keys = p.outer.keys,
                  .is_double = p.is_double,
                  .value = {},
                  .table = {},
                  .table_size = {}};
  call.value = [&](int slot) -> std::optional<NumberRange> {
    for (const ParameterValue& value : p.parameters)
      if (value.spec->slots() > 0 && slot >= value.first_slot && slot < value.first_slot + value.spec->slots())
        return numbers_of(value, slot - value.first_slot);
    return std::nullopt;
  };
  call.table = [&](int index) { return numbers_of(*table_of(index), -1); };
  call.table_size = [&](int index) {
    const ParameterValue& value = *table_of(index);
    return std::array{value.rows, value.cols};
  };
  if (const std::string wrong = entry->inexact(p.object, call); !wrong.empty()) throw Error(owner + ": " + wrong);
}

}  // namespace rapt::inline v1
