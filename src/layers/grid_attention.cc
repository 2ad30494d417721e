#include "layers/grid_attention.h"

#include <algorithm>

#include "mechanisms/objects.h"

namespace rapt::inline v1::layers {
namespace {

std::int64_t share(std::int64_t width, std::int64_t heads) { return (width + heads - 1) / heads; }

// Arrays that the engine requires but the scores do not read: zeros, one row for all.
template <class T>
Tensor<T> unread(Tape<T>& tape, std::int64_t batch, std::int64_t heads, std::int64_t pixels, std::int64_t dim) {
  Tensor<T> t;
  t.data = tape.scratch(dim);
  std::fill_n(t.data, dim, T(0));
  t.rank = 4;
  t.shape = {batch, heads, pixels, dim};
  t.strides = {0, 0, 0, 1};
  return t;
}

// Scores that are a sum over rows and columns of the grid: the engine mixes along one, then along the other.
bool is_separable(const MechanismInfo& mechanism) {
  if (!mechanism.has_form()) return false;
  double slots[kMaxSlots], coefficients[6], derivatives[6][kMaxSlots] = {};
  std::fill_n(slots, kMaxSlots, 1.0);
  mechanism.definition().form(default_object(mechanism), slots, coefficients, derivatives);
  // The last of the form's terms is row·col; it must be 0 whatever the parameters become.
  const double* slopes = derivatives[5];
  return coefficients[5] == 0 && std::all_of(slopes, slopes + kMaxSlots, [](double d) { return d == 0; });
}

}  // namespace

GridAttention::GridAttention(Parameters& parameters, const std::string& name, const GridAttentionShape& shape)
    : shape_(shape) {
  if (shape_.hidden == 0) shape_.hidden = share(shape_.width, shape_.heads);
  if (shape_.reads == ScoreReads::positions) shape_.hidden = 1;
  const std::int64_t inner = shape_.heads * shape_.hidden;
  if (shape_.reads != ScoreReads::positions) query_ = Linear(parameters, name + ".query", shape_.width, inner);
  if (shape_.reads == ScoreReads::queries_and_keys) key_ = Linear(parameters, name + ".key", shape_.width, inner);
  if (!shape_.full_heads) value_ = Linear(parameters, name + ".value", shape_.width, shape_.heads * value_dim());
  out_ = Linear(parameters, name + ".out", shape_.heads * value_dim(), shape_.width);
  shape_.score.heads = shape_.heads;
  shape_.score.query_dim = shape_.score.key_dim = shape_.hidden;
  if (same_for_all()) shape_.score.layout = HeadLayout::apart;
  score_ = ScoreLayer(parameters, name + ".score", shape_.score, name);
}

std::int64_t GridAttention::value_dim() const {
  return shape_.full_heads ? shape_.width : share(shape_.width, shape_.heads);
}

std::int64_t GridAttention::multiply_adds() const {
  const auto [rows, cols] = shape_.score.grid;
  const std::int64_t pixels = rows * cols, heads = shape_.heads, values = value_dim();
  std::int64_t each = heads * values * shape_.width;  // of one pixel: the output projection
  if (!shape_.full_heads) each += shape_.width * heads * values;
  if (shape_.reads != ScoreReads::positions) each += shape_.width * heads * shape_.hidden;
  if (shape_.reads == ScoreReads::queries_and_keys)
    each += shape_.width * heads * shape_.hidden + heads * pixels * shape_.hidden;
  for (const ParameterSpec& spec : shape_.score.mechanism->parameters())
    if (spec.role == Role::relative_vector)
      each += heads * shape_.hidden * (spec.along == Along::grid_row ? rows : cols);
  each += heads * values * (is_separable(*shape_.score.mechanism) ? rows + cols : pixels);
  return pixels * each;
}

// One map of weights serves all images: they lie side by side in the values, as if they were one wide image.
template <class T>
Tensor<T> GridAttention::mix_all(Graph<T>& graph, const Tensor<T>& x) const {
  const std::int64_t pixels = x.size(0), batch = x.size(1), heads = shape_.heads;
  const Tensor<T> nothing = unread(graph.tape, 1, heads, pixels, shape_.hidden);
  const Tensor<T> v = x.reshape({1, 1, pixels, batch * shape_.width});
  const Tensor<T> mixed = score_(graph, nothing, nothing, v, {});
  return out_.of_heads(graph, mixed.reshape({heads, pixels * batch, shape_.width}))
      .reshape({pixels, batch, shape_.width});
}

template <class T>
Tensor<T> GridAttention::operator()(Graph<T>& graph, const Tensor<T>& x) const {
  if (same_for_all()) return mix_all(graph, x);
  const std::int64_t pixels = x.size(0), batch = x.size(1), heads = shape_.heads;
  const auto projected = [&](const Linear& projection, bool wanted) {
    return wanted ? projection(graph, x).split_heads(heads) : unread(graph.tape, batch, heads, pixels, shape_.hidden);
  };
  const Tensor<T> q = projected(query_, shape_.reads != ScoreReads::positions);
  const Tensor<T> k = projected(key_, shape_.reads == ScoreReads::queries_and_keys);
  // All heads of full width share one set of values: the pixels.
  const Tensor<T> v = shape_.full_heads ? x.split_heads(1) : value_(graph, x).split_heads(heads);
  return out_(graph, score_(graph, q, k, v, {}));
}

template Tensor<float> GridAttention::operator()(Graph<float>&, const Tensor<float>&) const;
template Tensor<double> GridAttention::operator()(Graph<double>&, const Tensor<double>&) const;

}  // namespace rapt::inline v1::layers
