#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rapt/attend.h"
#include "solve/count_layer.h"
#include "solve/matrix.h"

namespace rapt::solve {

// The axis along which weights sum to 1: rows in attention, columns in the shared-attention notebook's helper.
enum class SoftmaxAxis : std::uint8_t { rows, columns };

// x W + b, or the input itself if no matrix is given. W is stored [in, out] in either convention.
struct Projection {
  Matrix weight;
  Matrix bias;  // one row

  bool given() const { return !weight.empty(); }
};

struct NamedMatrix {
  std::string name;
  Matrix value;
};

struct ProblemHead {
  Projection query, key, value;
  std::vector<NamedMatrix> parameters;  // of the mechanism, for this head alone
  Matrix bias;                          // added to the scores: [Sq|1, Sk]
  bool scalar_bias = false;             // given as one number; expanded once the sizes are known

  // Shared attention: W @ x, with one row of x per position.
  Matrix shared_map;               // W_qk
  std::vector<Matrix> value_maps;  // W_vNAME, in the order of Shared::tasks
};

// Shared attention (MulT): one map of weights, from x_s, for the values of several tasks.
struct Shared {
  struct Task {
    std::string name;
    Matrix input;   // x_NAME: [positions, channels]
    Matrix output;  // W_NAME: [heads·channels, channels]
  };
  Matrix skip;  // x_s
  std::vector<Task> tasks;
  bool standardize_inputs = false;
};

// The weights for several values of one parameter.
struct Limit {
  std::string parameter;
  std::vector<double> values;
};

// A printed number, and the tolerance for agreeing to its last digit.
struct PrintedNumber {
  std::string text;
  double value = 0;
  double tolerance = 0;
};

struct Expectation {
  std::string id;  // of the step
  std::vector<std::vector<PrintedNumber>> rows;
};

struct WorkedProblem {
  std::string file;
  std::string title;
  std::string source;
  std::string numbers_from;  // where the numbers of "expect" are from; empty: the document prints them
  std::optional<int> precision;
  bool vector_form = false;  // "form": "vectors"
  bool columns = false;      // "vectors": "columns": q_i = W h_i
  std::string input_name = "X";
  std::vector<std::int64_t> queries;  // the rows to show, from 0; empty: all
  std::vector<std::string> query_labels, key_labels;

  Matrix x, q, k, v;  // x replaces each of q, k, v that is not given
  std::vector<ProblemHead> heads;
  Projection output;  // W_O, b_O
  bool residual = false;

  const MechanismInfo* mechanism = nullptr;
  std::shared_ptr<const void> formula;  // owns the mechanism, if it is a formula
  std::vector<NamedNumber> settings;
  std::array<std::int64_t, 2> grid{};
  std::optional<double> scale;
  double softcap = 0;
  Normalizer normalizer = Normalizer::softmax;
  SoftmaxAxis axis = SoftmaxAxis::rows;
  Causal causal = Causal::none;
  std::optional<Window> window;
  Matrix mask;  // nonzero = attend

  std::optional<Shared> shared;
  std::optional<Limit> limit;
  std::optional<Layer> layer;  // "count"
  std::vector<Expectation> expectations;

  bool has_attention() const { return !heads.empty(); }
};

// Throws rapt::Error, naming the file and the key, for bad input.
WorkedProblem read_problem(const std::string& file, const FileReader& reader = read_from_disk);

std::vector<Expectation> read_expectations(const JsonNode& node);

}  // namespace rapt::solve
