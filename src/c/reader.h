#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "rapt/attend.h"
#include "rapt/c.h"
#include "rapt/error.h"
#include "rapt/partial.h"
#include "rapt/plan.h"

struct rapt_plan {
  rapt::Plan plan;
  std::size_t sets, outs;  // how many arrays v and out are
};

struct rapt_saved {
  rapt::Saved rows;
};

namespace rapt::inline v1::c {

// Reads the arguments of one call; the function's name is in every message.
class Reader {
 public:
  explicit Reader(const char* function) : function_(function) {}

  [[noreturn]] void fail(const std::string& what) const { throw Error(std::string(function_) + ": " + what); }

  void need(const void* pointer, const std::string& name) const {
    if (pointer == nullptr) fail(name + ": expected a pointer, got NULL");
  }

  // `count` numbers or structs; a pointer is needed only where there are some.
  void need(const void* pointer, std::size_t count, const std::string& name) const {
    if (pointer == nullptr && count > 0) fail(name + ": expected an array of " + std::to_string(count) + ", got NULL");
  }

  // An older caller's struct is shorter: the rest is zero. A newer caller's may be longer, if the members that this
  // version does not know are zero.
  template <class S>
  S sized(const S& given, std::size_t smallest, const std::string& name) const {
    const std::size_t size = given.struct_size;
    const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
    if (size < smallest)
      fail(name + ": struct_size: expected sizeof(rapt_" + name + "), " + std::to_string(sizeof(S)) + ", got " +
           std::to_string(size));

    if (size > kLargestStruct ||
        std::any_of(bytes + std::min(size, sizeof(S)), bytes + size, [](unsigned char b) { return b != 0; }))
      fail(name + ": struct_size: expected " + std::to_string(sizeof(S)) + ", got " + std::to_string(size) +
           ": something is set that Rapt " + rapt_version() + " does not have");

    S own;
    std::memset(&own, 0, sizeof(own));
    std::memcpy(&own, &given, std::min(size, sizeof(S)));
    return own;
  }

  rapt::View view(const rapt_array& array, const std::string& name) const {
    // An array without elements may have no memory; a missing one has no shape either.
    if (array.data == nullptr && to_shape(array.shape) == rapt::Shape{}) return {};
    if (array.dtype < RAPT_F32 || array.dtype > RAPT_F16)
      fail(name + ": expected dtype 0 (f32), 1 (f64), 2 (bf16) or 3 (f16), got " + std::to_string(array.dtype));

    return {array.data, static_cast<rapt::Dtype>(array.dtype), to_shape(array.shape), to_shape(array.strides),
            device(array, name)};
  }

  rapt::Device device(const rapt_array& array, const std::string& name) const {
    if (array.device < RAPT_CPU || array.device > RAPT_CUDA)
      fail(name + ": expected device 0 (cpu) or 1 (cuda), got " + std::to_string(array.device));
    return {static_cast<rapt::Device::Kind>(array.device), array.device_index};
  }

  std::vector<rapt::View> views(const rapt_array* arrays, std::size_t count, const std::string& name) const {
    need(arrays, count, name);
    std::vector<rapt::View> list;
    for (std::size_t n = 0; n < count; ++n) list.push_back(view(arrays[n], name + "[" + std::to_string(n) + "]"));
    return list;
  }

  std::vector<rapt::ConstView> const_views(const rapt_array* arrays, std::size_t count, const std::string& name) const {
    const std::vector<rapt::View> list = views(arrays, count, name);
    return {list.begin(), list.end()};
  }

  template <class E>
  E choice(std::int32_t value, E last, const std::string& name) const {
    if (value < 0 || value > static_cast<std::int32_t>(last))
      fail(name + ": expected 0 to " + std::to_string(static_cast<int>(last)) + " (see rapt/c.h), got " +
           std::to_string(value));

    return static_cast<E>(value);
  }

  std::vector<std::int64_t> numbers(const std::int64_t* first, std::size_t count, const std::string& name) const {
    need(first, count, name);
    return std::vector<std::int64_t>(first, first + count);
  }

  rapt::Inputs inputs(const rapt_inputs* given) const {
    need(given, "inputs");
    const rapt_inputs in = sized(*given, offsetof(rapt_inputs, v_count) + sizeof(std::size_t), "inputs");
    return {view(in.q, "q"), view(in.k, "k"), const_views(in.v, in.v_count, "v")};
  }

  std::vector<rapt::Partial> partials(const rapt_partial* given, std::size_t count) const {
    need(given, count, "parts");
    std::vector<rapt::Partial> list;
    for (std::size_t n = 0; n < count; ++n)
      list.push_back({view(given[n].out, "parts: out"), view(given[n].row_max, "parts: row_max"),
                      view(given[n].row_sum, "parts: row_sum")});
    return list;
  }

  rapt::Outputs outputs(const rapt_outputs* given) const;
  rapt::PlanArrays plan_arrays(const rapt_plan_arrays* given, const rapt_plan& plan) const;
  rapt::Gradients gradients(const rapt_gradients* given) const;
  rapt::AttendOptions options(const rapt_options* given) const;

 private:
  // Larger than any version's structs: no caller means such a size.
  static constexpr std::size_t kLargestStruct = 4096;

  static rapt::Shape to_shape(const std::int64_t* sizes) { return {sizes[0], sizes[1], sizes[2], sizes[3]}; }

  rapt::Statistics statistics(const rapt_statistics& given) const;
  rapt::Mask mask(const rapt_options& o) const;
  std::vector<rapt::NamedView> parameters(const rapt_parameter* given, std::size_t count,
                                          const std::string& kind) const;
  rapt::Score score(const rapt_options& o) const;

  const char* function_;
};

}  // namespace rapt::inline v1::c
