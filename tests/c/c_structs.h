#pragma once

#include <vector>

#include "rapt/attend.h"
#include "rapt/c.h"

// The C structs equivalent to C++ ones.
namespace c_test {

inline rapt_array c_array(const rapt::ConstView& view) {
  rapt_array array{};
  array.data = const_cast<void*>(view.data);
  array.dtype = static_cast<int32_t>(view.dtype);
  array.device = static_cast<int16_t>(view.device.kind);
  array.device_index = static_cast<int16_t>(view.device.index);
  for (std::size_t n = 0; n < 4; ++n) {
    array.shape[n] = view.shape[n];
    array.strides[n] = view.strides[n];
  }
  return array;
}

template <class Views>
std::vector<rapt_array> c_arrays(const Views& views) {
  std::vector<rapt_array> arrays;
  for (const auto& view : views) arrays.push_back(c_array(view));
  return arrays;
}

template <class Named>
std::vector<rapt_parameter> c_parameters(const std::vector<Named>& list) {
  std::vector<rapt_parameter> parameters;
  for (const Named& named : list) parameters.push_back({named.name.c_str(), c_array(named.value)});
  return parameters;
}

// Each points into the C++ struct that it was made from, and into itself, so it must not be copied.
struct Unmoved {
  Unmoved() = default;
  Unmoved(const Unmoved&) = delete;
  Unmoved& operator=(const Unmoved&) = delete;
};

struct Options : Unmoved {
  rapt_options c;
  std::vector<rapt_parameter> parameters;
  std::vector<rapt_setting> settings;

  explicit Options(const rapt::AttendOptions& o) : parameters(c_parameters(o.score.parameters)) {
    rapt_options_init(&c, sizeof c);
    if (o.score.mechanism) c.score = o.score.mechanism->name().data();
    c.parameters = parameters.data();
    c.parameter_count = parameters.size();
    for (const rapt::NamedNumber& s : o.score.settings) settings.push_back({s.name.c_str(), s.value});
    c.settings = settings.data();
    c.setting_count = settings.size();
    c.grid[0] = o.score.grid[0];
    c.grid[1] = o.score.grid[1];
    c.has_scale = o.scale.has_value();
    c.scale = o.scale.value_or(0);
    c.softcap = o.softcap;
    c.normalizer = static_cast<int32_t>(o.normalizer);
    c.bias = c_array(o.bias);
    const rapt::BoolView& dense = o.mask.dense;
    c.mask = c_array({dense.data, rapt::Dtype::f32, dense.shape, dense.strides});
    c.mask.dtype = RAPT_BOOL;
    c.causal = static_cast<int32_t>(o.mask.causal);
    c.has_window = o.mask.window.has_value();
    if (o.mask.window) {
      c.window_left = o.mask.window->left;
      c.window_right = o.mask.window->right;
    }
    c.key_lengths = o.mask.key_lengths.data();
    c.key_length_count = o.mask.key_lengths.size();
    c.query_starts = o.mask.query_starts.data();
    c.key_starts = o.mask.key_starts.data();
    c.start_count = o.mask.query_starts.size();
    c.threads = o.threads;
    c.path = static_cast<int32_t>(o.path);
  }
};

struct Inputs : Unmoved {
  rapt_inputs c;
  std::vector<rapt_array> v;

  explicit Inputs(const rapt::Inputs& in) : v(c_arrays(in.v)) {
    rapt_inputs_init(&c, sizeof c);
    c.q = c_array(in.q);
    c.k = c_array(in.k);
    c.v = v.data();
    c.v_count = v.size();
  }
};

struct Outputs : Unmoved {
  rapt_outputs c;
  rapt_statistics statistics;
  std::vector<rapt_array> out;
  std::vector<rapt_weights_request> weights;

  Outputs(const rapt::Outputs& o, rapt_saved* saved) : out(c_arrays(o.out)) {
    rapt_outputs_init(&c, sizeof c);
    c.out = out.data();
    c.out_count = out.size();
    c.lse = c_array(o.lse);
    for (const rapt::WeightsRequest& w : o.weights)
      weights.push_back({w.batch, w.head, w.row_begin, w.row_end, c_array(w.out)});
    c.weights = weights.data();
    c.weights_count = weights.size();
    rapt_statistics_init(&statistics, sizeof statistics);
    statistics.entropy = c_array(o.statistics.entropy);
    statistics.argmax = o.statistics.argmax;
    statistics.position = c_array(o.statistics.position);
    statistics.covariance = c_array(o.statistics.covariance);
    statistics.top_k = o.statistics.top_k;
    statistics.top_indices = o.statistics.top_indices;
    statistics.top_weights = c_array(o.statistics.top_weights);
    statistics.grid[0] = o.statistics.grid[0];
    statistics.grid[1] = o.statistics.grid[1];
    c.statistics = &statistics;
    c.saved = saved;
  }
};

struct Gradients : Unmoved {
  rapt_gradients c;
  std::vector<rapt_array> v;
  std::vector<rapt_parameter> parameters;

  explicit Gradients(const rapt::Gradients& g) : v(c_arrays(g.v)), parameters(c_parameters(g.parameters)) {
    rapt_gradients_init(&c, sizeof c);
    c.q = c_array(g.q);
    c.k = c_array(g.k);
    c.v = v.data();
    c.v_count = v.size();
    c.bias = c_array(g.bias);
    c.parameters = parameters.data();
    c.parameter_count = parameters.size();
  }
};

}  // namespace c_test
