#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/graph.h"
#include "tensor/attention.h"

namespace rapt::inline v1::layers {

// A mechanism, and the sizes of its parameters.
struct ScoreChoice {
  const MechanismInfo* mechanism = nullptr;
  std::shared_ptr<const void> formula{};  // what the mechanism is kept by, where it is a formula
  Normalizer normalizer = Normalizer::softmax;
  std::int64_t heads = 1;
  std::int64_t query_dim = 0;  // of one head
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;   // for a table that is added to the values; 0: query_dim
  std::int64_t inner = 0;       // A of additive; 0: query_dim
  std::int64_t max_length = 0;  // of either side; for tables by position
  std::array<std::int64_t, 2> grid{};
  std::vector<NamedNumber> settings{};           // of the mechanism, where they are not the usual ones
  bool relative_values = false;                  // with the mechanism's table that is added to the values
  HeadLayout layout = HeadLayout::side_by_side;  // of what comes out
};

// A score given as text; all empty: none is given.
struct FormulaTexts {
  std::string score;
  std::string pair;
  std::string visible;

  bool any() const { return !score.empty() || !pair.empty() || !visible.empty(); }
};

// A mechanism and a normaliser by name; the mechanism "argmax" is `dot` with the normaliser of that name. Throws for
// unknown names. A formula replaces the mechanism.
ScoreChoice choose_score(std::string_view name, std::string_view normalize = "softmax",
                         const FormulaTexts& formula = {});

// Masks, positions, and what is requested besides the outputs.
template <class T>
struct AttentionOptions {
  Mask mask{};
  std::int64_t first_query = 0;  // the position of query 0
  T* weights = nullptr;          // [batch, heads, queries, keys], where they are wanted
};

// A mechanism with learned parameters, as a model uses it.
class ScoreLayer {
 public:
  ScoreLayer() = default;
  // `seen_as`: the name that an observer is told; empty: the same.
  ScoreLayer(Parameters& parameters, const std::string& name, const ScoreChoice& choice,
             const std::string& seen_as = {});

  const ScoreChoice& choice() const { return choice_; }
  // One of the mechanism's parameters. Throws if there is none of this name.
  ParameterId parameter(std::string_view name) const;
  // Whether a table of positions ends with the longest sequence of choice().
  bool has_length_limit() const;

  // q, k, v are [batch, heads, steps, dim].
  template <class T>
  Tensor<T> operator()(Graph<T>& graph, const Tensor<T>& q, const Tensor<T>& k, const Tensor<T>& v,
                       const AttentionOptions<T>& options) const;

  // The same for several value sets under one map, with an optional bias [1, heads, queries, keys].
  template <class T>
  std::vector<Tensor<T>> shared(Graph<T>& graph, const Tensor<T>& q, const Tensor<T>& k,
                                std::span<const Tensor<T>> values, const Tensor<T>& bias,
                                const AttentionOptions<T>& options) const;

 private:
  struct Entry {
    const ParameterSpec* spec;
    ParameterId id;
  };
  std::vector<std::int64_t> shape_of(const ParameterSpec& spec) const;
  bool ends_with_length(const ParameterSpec& spec) const;
  void add_normalizer(Parameters& parameters, const std::string& name);

  ScoreChoice choice_;
  std::string seen_as_;
  std::vector<Entry> entries_;
  std::vector<Entry> normalizer_entries_;
};

}  // namespace rapt::inline v1::layers
