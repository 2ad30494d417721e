#include "support/call.h"

#include "attend/copied_call.h"
#include "backends/cpu/parallel.h"
#include "support/device.h"
#include "support/storage.h"

namespace support {
namespace {

// The oracle follows every call: spinning idle threads would waste a fifth of all processor time.
[[maybe_unused]] const bool kSleepsSoon = [] {
  rapt::awake_us = 10;
  return true;
}();

using oracle::Array;
using oracle::Sizes;

void note(std::string& damage, const std::string& name, const Buffer& buffer) {
  const std::string found = buffer.damage();
  if (damage.empty() && !found.empty()) damage = name + ": " + found;
}

void append(std::vector<std::byte>& bits, const Buffer& buffer) {
  bits.insert(bits.end(), buffer.bytes().begin(), buffer.bytes().end());
}

// Indices with guards of their own around them.
struct GuardedIndices {
  static constexpr std::int64_t kPattern = 0x5a5a5a5a5a5a5a5a;
  std::vector<std::int64_t> all;

  explicit GuardedIndices(Int count) : all(static_cast<std::size_t>(count + 2), kPattern) {}
  std::int64_t* data() { return all.data() + 1; }
  std::vector<Int> values() const { return {all.begin() + 1, all.end() - 1}; }
  void note(std::string& damage, const char* name) const {
    if (!damage.empty()) return;
    if (all.front() != kPattern || all.back() != kPattern) damage = std::string(name) + ": written outside";
    for (std::size_t n = 1; n + 1 < all.size(); ++n)
      if (all[n] == kPattern) damage = std::string(name) + ": element " + std::to_string(n - 1) + " was not written";
  }
};

rapt::Mask library_mask(const oracle::Mask& m, const std::vector<std::uint8_t>& dense) {
  rapt::Mask mask;
  switch (m.causal) {
    case oracle::Causal::none: mask.causal = rapt::Causal::none; break;
    case oracle::Causal::top_left: mask.causal = rapt::Causal::top_left; break;
    case oracle::Causal::bottom_right: mask.causal = rapt::Causal::bottom_right; break;
  }
  if (m.window) mask.window = rapt::Window{m.window->left, m.window->right};
  mask.key_lengths = m.key_lengths;
  mask.query_starts = m.query_starts;
  mask.key_starts = m.key_starts;
  if (!m.dense.empty()) mask.dense = {dense.data(), m.dense.shape, rapt::contiguous_strides(m.dense.shape)};
  return mask;
}

rapt::Normalizer library_normalizer(oracle::Normalizer normalizer) {
  switch (normalizer) {
    case oracle::Normalizer::softmax: return rapt::Normalizer::softmax;
    case oracle::Normalizer::argmax: return rapt::Normalizer::argmax;
    case oracle::Normalizer::sparsemax: return rapt::Normalizer::sparsemax;
    case oracle::Normalizer::entmax15: return rapt::Normalizer::entmax15;
    case oracle::Normalizer::sigmoid: return rapt::Normalizer::sigmoid;
  }
  return rapt::Normalizer::softmax;
}

}  // namespace

Call::Call(const Case& c) : case_(c) {
  const oracle::Problem& p = case_.problem;
  const rapt::Dtype dtype = c.spec.dtype;
  const Layout layout = c.spec.layout;
  q_ = std::make_unique<Buffer>(p.q, dtype, layout);
  k_ = std::make_unique<Buffer>(p.k, dtype, layout);
  inputs.q = q_->view();
  inputs.k = k_->view();
  for (const Array& v : p.v) {
    v_.push_back(std::make_unique<Buffer>(v, dtype, layout));
    inputs.v.push_back(v_.back()->view());
  }
  for (const Array& g : case_.grad_out) {
    grad_out_.push_back(std::make_unique<Buffer>(g, dtype, layout));
    grad_out.push_back(grad_out_.back()->view());
  }
  options.score.mechanism = c.mechanism;
  options.score.grid = p.grid;
  for (const auto& [name, value] : p.settings) options.score.settings.push_back({name, value});
  for (const rapt::ParameterSpec& spec : c.mechanism->parameters()) {
    const auto found = p.parameters.find(std::string(spec.name));
    if (found != p.parameters.end()) options.score.parameters.push_back(add_parameter(spec, found->second));
  }
  options.normalizer = library_normalizer(p.normalizer);
  for (const rapt::ParameterSpec& spec : rapt::info_of(options.normalizer).parameters) {
    const auto found = p.normalizer_parameters.find(std::string(spec.name));
    if (found != p.normalizer_parameters.end())
      options.normalizer_parameters.push_back(add_parameter(spec, found->second));
  }
  options.first_query = p.first_query;
  if (p.first_key != 0) options.first_key = p.first_key;
  options.rotary = {p.rotary.dims, p.rotary.base, p.rotary.interleaved};
  if (!c.grad_lse.empty()) {
    grad_lse_ = std::make_unique<Buffer>(c.grad_lse, dtype);
    grad_lse = grad_lse_->view();
  }
  options.scale = p.scale;
  options.softcap = p.softcap;
  if (!p.bias.empty()) {
    bias_ = std::make_unique<Buffer>(p.bias, dtype, layout == Layout::bshd ? Layout::bhsd : layout);
    options.bias = bias_->view();
  }
  for (double e : p.mask.dense.data) dense_.push_back(e != 0);
  options.mask = library_mask(p.mask, dense_);
}

rapt::NamedView Call::add_parameter(const rapt::ParameterSpec& spec, const Array& value) {
  const std::string name(spec.name);
  const Array shaped(library_shape(spec, value), value.data);
  auto& buffer = parameters_[name] = std::make_unique<Buffer>(shaped, case_.spec.dtype);
  return {name, buffer->view()};
}

ForwardResult Call::forward(const ForwardWants& wants) {
  const oracle::Problem& p = case_.problem;
  const Int B = p.batch(), H = p.heads(), Sq = p.queries(), Sk = p.keys(), rows = B * H * Sq;
  const rapt::Dtype dtype = case_.spec.dtype, compute = compute_type(dtype);
  rapt::Outputs outputs;
  out_.clear();
  for (const Array& v : p.v) out_.emplace_back(dtype, Sizes{B, H, Sq, v.shape[3]}, case_.spec.layout);
  for (Buffer& buffer : out_) outputs.out.push_back(buffer.view());
  Buffer lse(compute, {B, H, Sq, 1});
  if (wants.lse) outputs.lse = lse.view();
  Buffer row_max(compute, {B, H, Sq, 1}), row_sum(compute, {B, H, Sq, 1});
  if (wants.partial) {
    outputs.row_max = row_max.view();
    outputs.row_sum = row_sum.view();
  }

  std::vector<Buffer> weights;
  if (wants.weights)
    for (Int n = 0; n < B * H; ++n) weights.emplace_back(compute, Sizes{1, 1, Sq, Sk}, Layout::gaps);
  for (std::size_t n = 0; n < weights.size(); ++n)
    outputs.weights.push_back({static_cast<Int>(n) / H, static_cast<Int>(n) % H, 0, Sq, weights[n].view()});

  const Int axes = wants.grid[0] > 0 ? 2 : 1;
  const Int top = std::max(wants.top_k, 1);
  Buffer entropy(compute, {B, H, Sq, 1}), position(compute, {B, H, Sq, axes}), top_weights(compute, {B, H, Sq, top});
  Buffer covariance(compute, axes == 1 ? Sizes{B, H, Sq, 1} : Sizes{B * H, Sq, 2, 2});
  GuardedIndices argmax(rows), top_indices(rows * top);
  if (wants.statistics) {
    outputs.statistics.entropy = entropy.view();
    outputs.statistics.argmax = argmax.data();
    outputs.statistics.position = position.view();
    outputs.statistics.covariance = covariance.view();
    outputs.statistics.grid = wants.grid;
  }
  if (wants.top_k > 0) {
    outputs.statistics.top_k = wants.top_k;
    outputs.statistics.top_indices = top_indices.data();
    outputs.statistics.top_weights = top_weights.view();
  }
  if (wants.saved) outputs.saved = &saved_;
  rapt::attend_copied(device(), inputs, outputs, options);

  ForwardResult result;
  for (const Buffer& buffer : out_) {
    note(result.damage, "out", buffer);
    append(result.bits, buffer);
    result.out.push_back(buffer.values());
  }
  if (wants.lse) {
    note(result.damage, "lse", lse);
    append(result.bits, lse);
    result.lse = lse.values();
  }
  if (wants.partial) {
    note(result.damage, "row_max", row_max);
    note(result.damage, "row_sum", row_sum);
    append(result.bits, row_max);
    append(result.bits, row_sum);
    result.row_max = row_max.values();
    result.row_sum = row_sum.values();
  }
  if (wants.weights) result.weights = Array({B, H, Sq, Sk}, {});
  for (const Buffer& buffer : weights) {
    note(result.damage, "weights", buffer);
    append(result.bits, buffer);
    const Array values = buffer.values();
    result.weights.data.insert(result.weights.data.end(), values.data.begin(), values.data.end());
  }
  if (wants.statistics) {
    for (const auto& [name, buffer] :
         {std::pair{"entropy", &entropy}, {"position", &position}, {"covariance", &covariance}}) {
      note(result.damage, name, *buffer);
      append(result.bits, *buffer);
    }
    argmax.note(result.damage, "argmax");
    result.statistics.entropy = entropy.values();
    result.statistics.position = position.values();
    result.statistics.covariance = Array({B, H, Sq, axes * axes}, covariance.values().data);
    result.statistics.argmax = argmax.values();
  }
  if (wants.top_k > 0) {
    note(result.damage, "top_weights", top_weights);
    append(result.bits, top_weights);
    top_indices.note(result.damage, "top_indices");
    result.statistics.top_weights = top_weights.values();
    result.statistics.top_indices = top_indices.values();
  }
  return result;
}

rapt::Device Call::device() const {
  const bool on_device = options.path != rapt::Path::reference && case_.spec.dtype != rapt::Dtype::f64;
  return on_device ? test_device() : rapt::Device{};
}

std::vector<rapt::ConstView> Call::out_views() const {
  std::vector<rapt::ConstView> views;
  for (const Buffer& buffer : out_) views.push_back(buffer.view());
  return views;
}

BackwardResult Call::backward(const BackwardWants& wants) {
  const oracle::Problem& p = case_.problem;
  const rapt::Dtype dtype = case_.spec.dtype;
  const Layout layout = case_.spec.layout;
  ForwardWants forward_wants;
  forward_wants.saved = wants.saved;
  forward(forward_wants);

  rapt::Gradients gradients;
  std::map<std::string, Buffer> buffers;
  const auto add = [&](const std::string& name, const Sizes& shape, Layout lies) {
    Buffer& buffer = buffers[name] = Buffer(dtype, shape, lies);
    return buffer.view();
  };
  if (wants.q) gradients.q = add("q", p.q.shape, layout);
  if (wants.k) gradients.k = add("k", p.k.shape, layout);
  for (std::size_t n = 0; wants.v && n < p.v.size(); ++n)
    gradients.v.push_back(add("v" + std::to_string(n), p.v[n].shape, layout));
  if (wants.bias && !p.bias.empty())
    gradients.bias = add("bias", p.bias.shape, layout == Layout::bshd ? Layout::bhsd : layout);
  if (wants.parameters)
    for (const auto& [name, buffer] : parameters_) {
      const rapt::View view = add("parameter " + name, buffer->shape(), Layout::bhsd);
      gradients.parameters.push_back({name, view});
    }
  rapt::attend_backward_copied(device(), inputs, out_views(), grad_out, wants.saved ? &saved_ : nullptr, gradients,
                               options, grad_lse);

  BackwardResult result;
  for (const auto& [name, buffer] : buffers) {
    note(result.damage, "d" + name, buffer);
    result.bits[name] = buffer.bytes();
  }
  if (wants.q) result.gradients.q = buffers.at("q").values();
  if (wants.k) result.gradients.k = buffers.at("k").values();
  for (std::size_t n = 0; wants.v && n < p.v.size(); ++n)
    result.gradients.v.push_back(buffers.at("v" + std::to_string(n)).values());
  if (gradients.bias) result.gradients.bias = buffers.at("bias").values();
  if (wants.parameters)
    for (const auto& [name, buffer] : parameters_) {
      const auto found = p.parameters.find(name);
      const Array& given = found != p.parameters.end() ? found->second : p.normalizer_parameters.at(name);
      result.gradients.parameters[name] = Array(given.shape, buffers.at("parameter " + name).values().data);
    }
  return result;
}

}  // namespace support
