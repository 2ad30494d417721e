#include "c/reader.h"

#include "rapt/formula.h"
#include "rapt/registry.h"

namespace rapt::inline v1::c {

rapt::Statistics Reader::statistics(const rapt_statistics& given) const {
  const rapt_statistics s = sized(given, offsetof(rapt_statistics, grid) + sizeof(s.grid), "statistics");
  rapt::Statistics result;
  result.entropy = view(s.entropy, "statistics: entropy");
  result.argmax = s.argmax;
  result.position = view(s.position, "statistics: position");
  result.covariance = view(s.covariance, "statistics: covariance");
  result.top_k = s.top_k;
  result.top_indices = s.top_indices;
  result.top_weights = view(s.top_weights, "statistics: top_weights");
  result.grid = {s.grid[0], s.grid[1]};
  return result;
}

rapt::Outputs Reader::outputs(const rapt_outputs* given) const {
  need(given, "outputs");
  const rapt_outputs o = sized(*given, offsetof(rapt_outputs, saved) + sizeof(void*), "outputs");
  rapt::Outputs result;
  result.out = views(o.out, o.out_count, "out");
  result.lse = view(o.lse, "lse");
  need(o.weights, o.weights_count, "weights");
  for (std::size_t n = 0; n < o.weights_count; ++n) {
    const rapt_weights_request& w = o.weights[n];
    result.weights.push_back(
        {w.batch, w.head, w.row_begin, w.row_end, view(w.out, "weights[" + std::to_string(n) + "]")});
  }
  if (o.statistics != nullptr) result.statistics = statistics(*o.statistics);
  result.saved = o.saved != nullptr ? &o.saved->rows : nullptr;
  result.row_max = view(o.row_max, "row_max");
  result.row_sum = view(o.row_sum, "row_sum");
  return result;
}

rapt::Gradients Reader::gradients(const rapt_gradients* given) const {
  need(given, "gradients");
  const rapt_gradients g = sized(*given, offsetof(rapt_gradients, parameter_count) + sizeof(std::size_t), "gradients");
  rapt::Gradients result;
  result.q = view(g.q, "gradient of q");
  result.k = view(g.k, "gradient of k");
  result.v = views(g.v, g.v_count, "gradient of v");
  result.bias = view(g.bias, "gradient of bias");
  need(g.parameters, g.parameter_count, "gradients of parameters");
  for (std::size_t n = 0; n < g.parameter_count; ++n) {
    need(g.parameters[n].name, "gradient of parameter " + std::to_string(n) + ": name");
    const std::string name = g.parameters[n].name;
    result.parameters.push_back({name, view(g.parameters[n].value, "gradient of parameter '" + name + "'")});
  }
  return result;
}

rapt::Mask Reader::mask(const rapt_options& o) const {
  rapt::Mask mask;
  mask.causal = choice(o.causal, rapt::Causal::bottom_right, "causal");
  if (o.has_window != 0) mask.window = rapt::Window{o.window_left, o.window_right};
  mask.key_lengths = numbers(o.key_lengths, o.key_length_count, "key_lengths");
  mask.query_starts = numbers(o.query_starts, o.start_count, "query_starts");
  mask.key_starts = numbers(o.key_starts, o.start_count, "key_starts");
  if (o.mask.data != nullptr) {
    if (o.mask.dtype != RAPT_BOOL)
      fail("mask: expected dtype 4 (RAPT_BOOL), bytes that are nonzero where to attend, got " +
           std::to_string(o.mask.dtype));

    mask.dense = {static_cast<const std::uint8_t*>(o.mask.data), to_shape(o.mask.shape), to_shape(o.mask.strides),
                  device(o.mask, "mask")};
  }
  return mask;
}

std::vector<rapt::NamedView> Reader::parameters(const rapt_parameter* given, std::size_t count,
                                                const std::string& kind) const {
  need(given, count, kind + "s");
  std::vector<rapt::NamedView> list;
  for (std::size_t n = 0; n < count; ++n) {
    need(given[n].name, kind + " " + std::to_string(n) + ": name");
    const std::string name = given[n].name;
    list.push_back({name, view(given[n].value, kind + " '" + name + "'")});
  }
  return list;
}

rapt::Score Reader::score(const rapt_options& o) const {
  rapt::Score score;
  const bool is_formula = o.formula != nullptr || o.pair != nullptr || o.visible != nullptr;
  if (is_formula && o.score != nullptr)
    throw Error("formula: expected none where options.score names a mechanism, got one beside '" +
                std::string(o.score) + "'");
  if (is_formula)
    score = rapt::formula(o.formula != nullptr ? o.formula : "",
                          {.pair = o.pair != nullptr ? o.pair : "", .visible = o.visible != nullptr ? o.visible : ""});
  if (o.score != nullptr) score.mechanism = &rapt::mechanism(o.score);
  score.parameters = parameters(o.parameters, o.parameter_count, "parameter");
  need(o.settings, o.setting_count, "settings");
  for (std::size_t n = 0; n < o.setting_count; ++n) {
    need(o.settings[n].name, "setting " + std::to_string(n) + ": name");
    score.settings.push_back({o.settings[n].name, o.settings[n].value});
  }
  score.grid = {o.grid[0], o.grid[1]};
  return score;
}

rapt::AttendOptions Reader::options(const rapt_options* given) const {
  rapt::AttendOptions result;
  if (given == nullptr) return result;
  const rapt_options o = sized(*given, offsetof(rapt_options, path) + sizeof(o.path), "options");
  result.score = score(o);
  if (o.has_scale != 0) result.scale = o.scale;
  result.softcap = o.softcap;
  result.bias = view(o.bias, "bias");
  result.mask = mask(o);
  const auto last = static_cast<rapt::Normalizer>(rapt::all_normalizers().size() - 1);
  result.normalizer = choice(o.normalizer, last, "normalizer");
  result.normalizer_parameters =
      parameters(o.normalizer_parameters, o.normalizer_parameter_count, "normalizer parameter");
  result.first_query = numbers(o.first_query, o.first_query_count, "first_query");
  if (o.has_first_key != 0) result.first_key = o.first_key;
  result.rotary.dims = o.rotary_dims;
  if (o.rotary_base != 0) result.rotary.base = o.rotary_base;
  result.rotary.interleaved = o.rotary_interleaved != 0;
  result.stream = o.stream;
  result.threads = o.threads;
  result.path = choice(o.path, rapt::Path::reference, "path");
  return result;
}

rapt::PlanArrays Reader::plan_arrays(const rapt_plan_arrays* given, const rapt_plan& plan) const {
  if (given == nullptr) return {};
  const rapt_plan_arrays a =
      sized(*given, offsetof(rapt_plan_arrays, first_query_count) + sizeof(a.first_query_count), "plan_arrays");
  need(a.key_lengths, a.key_length_count, "key_lengths");
  need(a.first_query, a.first_query_count, "first_query");
  rapt::PlanArrays result;
  result.q = a.q;
  result.k = a.k;
  if (a.v != nullptr) result.v = {a.v, plan.sets};
  if (a.out != nullptr) result.out = {a.out, plan.outs};
  result.lse = a.lse;
  result.row_max = a.row_max;
  result.row_sum = a.row_sum;
  result.bias = a.bias;
  result.mask = static_cast<const std::uint8_t*>(a.mask);
  result.key_lengths = {a.key_lengths, a.key_length_count};
  result.first_query = {a.first_query, a.first_query_count};
  return result;
}

}  // namespace rapt::inline v1::c
