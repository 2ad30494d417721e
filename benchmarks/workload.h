#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rapt/attend.h"
#include "tensor/array.h"

// A measured problem: one call of a given shape with its arrays, for any mechanism of the registry or a formula.
namespace rapt::bench {

enum class Direction : std::uint8_t { forward, backward };
const char* name_of(Direction direction);

struct Sizes {
  std::int64_t batch = 1, heads = 8, keys = 1024, dim = 64;
};

// What a forward call gives besides its outputs.
enum class Extra : std::uint8_t { none, weights, statistics };

struct Spec {
  std::string name;  // of the row
  std::string mechanism = "scaled_dot";
  std::optional<Score> formula;  // in place of the mechanism
  Sizes sizes;
  std::int64_t queries = 0;    // 0: as many as keys
  std::int64_t key_heads = 0;  // of k and v, each for a group of heads; 0: as many as heads
  Dtype dtype = Dtype::f32;
  Causal causal = Causal::none;
  std::optional<Window> window;
  std::int64_t packed = 0;      // positions of each packed sequence; 0: not packed
  std::int64_t key_length = 0;  // keys that are seen; 0: all
  double softcap = 0;
  bool bias = false;
  Normalizer normalizer = Normalizer::softmax;
  int value_sets = 1;
  Extra extra = Extra::none;
  Path path = Path::automatic;
  double compiled_softcap = 0;  // of the mechanism that a formula equals
  bool maps = true;             // queries and keys are mapped if the mechanism allows it
  bool axis_aligned = false;    // 2×2 matrices are diagonal: such a score factorises
  std::uint64_t seed = 1;       // of the numbers in all arrays

  std::int64_t query_count() const { return queries > 0 ? queries : sizes.keys; }
  std::int64_t key_head_count() const { return key_heads > 0 ? key_heads : sizes.heads; }
  const MechanismInfo& info() const;
  // The offsets, key − query, that a formula's condition leaves, if it is one on offsets.
  std::optional<Window> formula_window() const;
  // Pairs that the masks leave, over all batches and heads.
  double visible_pairs() const;
};

// The most square grid of that many positions.
std::array<std::int64_t, 2> grid_of(std::int64_t positions);

class Workload {
 public:
  struct Parameter {
    std::string name;
    Array value;
    Array grad;
  };

  Workload(const Spec& spec, int threads);

  // The same inputs in f64.
  Workload in_double() const;

  void forward(Path path);
  // From the outputs of the last forward pass; `saved`: with its row sums.
  void backward(Path path);
  // Makes the arrays of the gradients and runs the forward pass that backward() needs.
  void prepare_backward(Path path);
  void make_gradients();

  Inputs inputs() const;
  AttendOptions options(Path path) const;
  Outputs outputs();
  Gradients gradients();
  // Whether scores use q·k, and whether the specialised path for grids is taken.
  bool uses_content() const;
  bool factorizes() const;

  // Inputs, outputs, gradients and parameters.
  std::size_t bytes() const;

  // Multiply-adds × 2 of the products that the formula needs on visible pairs.
  double flops(Direction direction) const;

  struct Named {
    std::string name;
    const Array* array;
  };
  // What the last call of that direction wrote.
  std::vector<Named> results(Direction direction) const;

  Spec spec;
  int threads;
  Array q, k, bias;
  std::vector<Array> v, out, grad_out;
  Array lse, weights, entropy, position;
  std::vector<std::int64_t> argmax;
  Array dq, dk, dbias;
  std::vector<Array> dv;
  std::vector<Parameter> parameters;

 private:
  void add_parameters();
  ElementType number_type() const;

  Saved saved_;
  bool has_saved_ = false;
};

}  // namespace rapt::bench
