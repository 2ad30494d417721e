#include "xla_call.h"

#include <algorithm>
#include <sstream>

#include "attend/backend.h"
#include "attend/check.h"
#include "options.h"
#include "rapt/attend.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "saved.h"
#include "xla.h"

namespace rapt::python {
namespace {

constexpr const char* kForward = "attend";
constexpr const char* kBackward = "attend_backward";
constexpr std::string_view kParameter = "param:";

Dtype dtype_of(const XlaArray& array) {
  switch (array.type) {
    case xla::kF32: return Dtype::f32;
    case xla::kF64: return Dtype::f64;
    case xla::kF16: return Dtype::f16;
    case xla::kBF16: return Dtype::bf16;
    default:
      throw Error("attend: " + array.role + ": expected numbers of float32, float64, float16 or bfloat16, got others");
  }
}

std::size_t bytes_of(const XlaArray& array) {
  switch (array.type) {
    case xla::kPred: return 1;
    case xla::kS32: return 4;
    case xla::kS64: return 8;
    default: return size_of(dtype_of(array));
  }
}

// One call of the engine: the arrays at one index of the dimensions that vmap added.
class One {
 public:
  One(const XlaCall& call, std::vector<std::int64_t> at) : call_(call), at_(std::move(at)) {
    read_options();
    for (const XlaArray& argument : call_.arguments) read(argument);
  }

  void forward(bool is_check) {
    Outputs outputs;
    Saved saved;
    const XlaArray* rows = nullptr;
    for (const XlaArray& result : call_.results) {
      if (result.role == "out") outputs.out.push_back(writable(view(result)));
      else if (result.role == "lse") outputs.lse = writable(rows_of(result));
      else if (result.role == "rows") rows = &result;
    }
    if (rows) outputs.saved = &saved;
    if (is_check) {
      const Problem problem = make_problem(kForward, inputs_, options_);
      return check_outputs(kForward, problem, outputs);
    }
    if (rows && call_.device != Device{})
      lend_rows(saved, data(*rows), element_count(shape(*rows)), row_count(outputs.out[0].shape), 0, call_.device);
    attend(inputs_, outputs, options_);
    if (rows && call_.device == Device{}) store_rows(saved, data(*rows));
    else if (rows && !is_empty(outputs.out[0].shape)) check_lent(saved, data(*rows));
  }

  void backward(bool is_check) {
    Gradients gradients;
    for (const XlaArray& result : call_.results) {
      const View made = writable(view(result));
      if (result.role == "q") gradients.q = made;
      else if (result.role == "k") gradients.k = made;
      else if (result.role == "v") gradients.v.push_back(made);
      else if (result.role == "bias") gradients.bias = made;
      else gradients.parameters.push_back({result.role.substr(kParameter.size()), made});
    }
    if (is_check) {
      const Problem problem = make_problem(kBackward, inputs_, options_);
      return check_gradients(kBackward, problem, inputs_, options_, gradients);
    }
    Saved saved;
    if (rows_) {
      if (call_.device != Device{})
        lend_rows(saved, data(*rows_), element_count(shape(*rows_)), row_count(out_.at(0).shape), remainder_columns(),
                  call_.device);
      else load_rows(saved, data(*rows_), row_count(out_.at(0).shape), rows_->type == xla::kF64);
    }
    attend_backward(inputs_, out_, grad_out_, rows_ ? &saved : nullptr, gradients, options_, grad_lse_);
  }

 private:
  // Where the array of this call begins. An empty one has no address, and is given all the same.
  void* data(const XlaArray& array) const {
    static double nothing = 0;
    if (array.data == nullptr) return &nothing;
    const std::size_t extra = array.dims.size() - static_cast<std::size_t>(array.rank);
    std::int64_t index = 0, size = 1;
    for (std::size_t n = 0; n < extra; ++n) index = index * array.dims[n] + (array.dims[n] == 1 ? 0 : at_[n]);
    for (std::size_t n = extra; n < array.dims.size(); ++n) size *= array.dims[n];
    return static_cast<char*>(array.data) + index * size * static_cast<std::int64_t>(bytes_of(array));
  }

  Shape shape(const XlaArray& array, int most = 4) const {
    if (array.rank > most)
      throw Error("attend: " + array.role + ": expected at most " + std::to_string(most) + " dimensions, got " +
                  std::to_string(array.rank));
    Shape result = {1, 1, 1, 1};
    const std::size_t first = array.dims.size() - static_cast<std::size_t>(array.rank);
    for (std::size_t n = first; n < array.dims.size(); ++n)
      result[static_cast<std::size_t>(most) - (array.dims.size() - n)] = array.dims[n];
    return result;
  }

  ConstView view(const XlaArray& array) const {
    const Shape sizes = shape(array);
    return {data(array), dtype_of(array), sizes, contiguous_strides(sizes), call_.device};
  }

  // [B, H, Sq] is [B, H, Sq, 1].
  ConstView rows_of(const XlaArray& array) const {
    const Shape sizes = shape(array, 3);
    return {data(array), dtype_of(array), sizes, contiguous_strides(sizes), call_.device};
  }

  static View writable(const ConstView& view) {
    return {const_cast<void*>(view.data), view.dtype, view.shape, view.strides, view.device};
  }

  std::vector<std::int64_t> integers(const XlaArray& array) const {
    if (call_.device != Device{})
      throw Error("attend: " + array.role + ": expected numbers that are known when the call is traced, on " +
                  to_string(call_.device) + ", got a traced array");
    const std::int64_t size = element_count(shape(array));
    std::vector<std::int64_t> result(static_cast<std::size_t>(size));
    if (array.data == nullptr) return result;  // a check: lengths of 0
    if (array.type == xla::kS32) std::copy_n(static_cast<const std::int32_t*>(data(array)), size, result.data());
    else if (array.type == xla::kS64) std::copy_n(static_cast<const std::int64_t*>(data(array)), size, result.data());
    else throw Error("attend: " + array.role + ": expected integers, got others");
    return result;
  }

  void read(const XlaArray& array) {
    const std::string& role = array.role;
    if (role == "q") inputs_.q = view(array);
    else if (role == "k") inputs_.k = view(array);
    else if (role == "v") inputs_.v.push_back(view(array));
    else if (role == "out") out_.push_back(view(array));
    else if (role == "grad_out") grad_out_.push_back(view(array));
    else if (role == "grad_lse") grad_lse_ = rows_of(array);
    else if (role == "rows") rows_ = &array;
    else if (role == "bias") options_.bias = view(array);
    else if (role == "key_lengths") options_.mask.key_lengths = integers(array);
    else if (role == "first_query") options_.first_query = integers(array);
    else if (role == "mask") read_mask(array);
    else add_parameter(options_, role.substr(kParameter.size()), view(array));
  }

  void read_mask(const XlaArray& array) {
    if (array.type != xla::kPred)
      throw Error("attend: mask: expected booleans, true = attend (numbers to add go into bias), got numbers");
    const Shape sizes = shape(array);
    options_.mask.dense = {static_cast<const std::uint8_t*>(data(array)), sizes, contiguous_strides(sizes),
                           call_.device};
  }

  template <class T>
  const T* find(const char* name) const {
    const auto found = call_.attributes.find(name);
    if (found == call_.attributes.end()) return nullptr;
    const T* value = std::get_if<T>(&found->second);
    if (value == nullptr) throw Error(std::string("attend: ") + name + ": expected an option of another type");
    return value;
  }

  void read_options() {
    using Integers = std::vector<std::int64_t>;
    const auto text = [&](const char* name) { return find<std::string>(name); };
    const auto numbers = [&](const char* name) { return find<Integers>(name); };
    if (const auto* o = text("score")) options_.score = score_of(*o);
    if (const auto* o = text("normalizer")) options_.normalizer = normalizer(*o);
    if (const auto* o = text("causal")) options_.mask.causal = causal_of(kForward, *o);
    if (const auto* o = text("path")) options_.path = path_of(kForward, *o);
    if (const auto* o = find<double>("scale")) options_.scale = *o;
    if (const auto* o = find<double>("softcap")) options_.softcap = *o;
    if (const auto* o = numbers("window")) options_.mask.window = Window{o->at(0), o->at(1)};
    if (const auto* o = numbers("grid")) options_.score.grid = {o->at(0), o->at(1)};
    if (const auto* o = numbers("first_key")) options_.first_key = o->at(0);
    if (const auto* o = numbers("threads")) options_.threads = static_cast<int>(o->at(0));
    if (const auto* o = numbers("key_lengths")) options_.mask.key_lengths = *o;
    if (const auto* o = numbers("first_query")) options_.first_query = *o;
    if (const auto* o = numbers("query_starts")) options_.mask.query_starts = *o;
    if (const auto* o = numbers("key_starts")) options_.mask.key_starts = *o;
    if (const auto* o = numbers("rotary")) options_.rotary = {o->at(0), 10000, o->at(1) != 0};
    if (const auto* o = find<double>("rotary_base")) options_.rotary.base = *o;
    for (const auto& [name, value] : call_.attributes)
      if (name.starts_with("setting_")) options_.score.settings.push_back({name.substr(8), std::get<double>(value)});
    options_.stream = call_.stream;
  }

  // As rapt.jax made room for them.
  std::int64_t remainder_columns() const {
    return out_.size() == 1 && size_of(out_[0].dtype) == 2 ? out_[0].shape[3] : 0;
  }

  static bool is_empty(const Shape& out) { return row_count(out) == 0; }
  static std::int64_t row_count(const Shape& out) { return out[0] * out[1] * out[2]; }

  const XlaCall& call_;
  std::vector<std::int64_t> at_;
  Inputs inputs_;
  AttendOptions options_;
  std::vector<ConstView> out_, grad_out_;
  ConstView grad_lse_;
  const XlaArray* rows_ = nullptr;
};

}  // namespace

void XlaCall::set_roles() {
  const auto apply = [&](const char* name, const char* ranks_name, std::vector<XlaArray>& arrays) {
    const auto* roles = std::get_if<std::string>(&attributes[name]);
    const auto* ranks = std::get_if<std::vector<std::int64_t>>(&attributes[ranks_name]);
    if (!roles || !ranks || ranks->size() != arrays.size())
      throw Error("attend: expected a call that rapt.jax made, got another");
    std::istringstream words(*roles);
    for (std::size_t n = 0; n < arrays.size(); ++n) {
      std::getline(words, arrays[n].role, ',');
      arrays[n].rank = static_cast<int>((*ranks)[n]);
      if (arrays[n].rank < 0 || arrays[n].dims.size() < static_cast<std::size_t>(arrays[n].rank))
        throw Error("attend: " + arrays[n].role + ": expected " + std::to_string(arrays[n].rank) + " dimensions");
    }
  };
  apply("arguments", "argument_ranks", arguments);
  apply("results", "result_ranks", results);
}

void XlaCall::check(bool is_backward) const {
  One one(*this, {});
  is_backward ? one.backward(true) : one.forward(true);
}

void XlaCall::run(bool is_backward) const {
  const XlaArray& first = results.at(0);
  const std::size_t extra = first.dims.size() - static_cast<std::size_t>(first.rank);
  std::int64_t count = 1;
  for (std::size_t n = 0; n < extra; ++n) count *= first.dims[n];
  for (std::int64_t index = 0; index < count; ++index) {
    std::vector<std::int64_t> at(extra);
    std::int64_t rest = index;
    for (std::size_t n = extra; n-- > 0; rest /= first.dims[n]) at[n] = rest % first.dims[n];
    One one(*this, std::move(at));
    is_backward ? one.backward(false) : one.forward(false);
  }
}

}  // namespace rapt::python
