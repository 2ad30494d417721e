#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "oracle/oracle.h"
#include "rapt/attend.h"
#include "rapt/registry.h"
#include "rapt/threads.h"
#include "support/buffer.h"

// One description of a problem drives every test: it makes inputs for any registered mechanism from its specification.
namespace support {

using oracle::Int;

enum class MaskKind {
  none,
  top_left,
  bottom_right,
  window,               // both sides limited
  window_left,          // only the left side
  window_bottom_right,  // with causal bottom_right: the window is shifted
  key_lengths,
  packed,
  packed_top_left,
  packed_bottom_right,
  dense,         // with rows that see nothing
  dense_shared,  // one row of mask for all
  everything,    // all that combine
};

enum class BiasKind { none, full, per_head, per_batch, per_key, per_head_key };

// With the parameters that they may have.
enum class NormalizerKind {
  softmax,
  softmax_sink,
  argmax,
  sparsemax,
  entmax15,
  sigmoid,        // with its default b
  sigmoid_b,      // b for each head
  sigmoid_one_b,  // b for all heads
};

// Where the queries stand.
enum class PositionKind {
  none,       // first_query is not given
  one,        // one number for all batches
  per_batch,  // one for each; some queries stand before every key
  last,       // the last query at the last key, as in decoding
};

enum class RotaryKind { none, halves, interleaved };

// high, low: every setting at the end of its range, where that is a number one can use.
enum class Settings { defaults, high, low };

std::vector<MaskKind> all_masks();
std::vector<BiasKind> all_biases();
std::vector<NormalizerKind> all_normalizers();
std::vector<PositionKind> all_positions();
const char* label(MaskKind mask);
const char* label(BiasKind bias);
const char* label(NormalizerKind normalizer);
const char* label(PositionKind positions);
const char* label(RotaryKind rotary);

// bottom_right says itself where the queries stand, and packed sequences are counted each from its own start.
bool combine(MaskKind mask, PositionKind positions);

struct CaseSpec {
  std::string mechanism = "scaled_dot";
  rapt::Dtype dtype = rapt::Dtype::f64;
  Int batch = 1;
  Int heads = 2;
  Int key_heads = 0;  // 0: heads
  Int queries = 17;
  Int keys = 17;
  Int query_dim = 0;  // 0: key_dim; kept only where the mechanism maps its queries
  Int key_dim = 8;
  std::vector<Int> value_dims = {8};
  MaskKind mask = MaskKind::none;
  BiasKind bias = BiasKind::none;
  double softcap = 0;
  std::optional<double> scale;
  NormalizerKind normalizer = NormalizerKind::softmax;
  PositionKind positions = PositionKind::none;
  RotaryKind rotary = RotaryKind::none;
  bool grad_lse = false;            // a gradient of lse too
  bool per_head = true;             // parameters whose heads are optional
  bool optional_parameters = true;  // give those that may be left out
  Settings settings = Settings::high;
  Layout layout = Layout::bhsd;
  std::uint64_t seed = 1;
};

// Readable, and a valid test name.
std::string describe(const CaseSpec& spec);

// Numbers that are the same on every platform.
class Random {
 public:
  // The seed is mixed: neighbouring seeds must not give the same sequence one step later.
  explicit Random(std::uint64_t seed) : state_((seed + 1) * 0xd1342543de82ef95u) { state_ = bits(); }
  std::uint64_t bits();
  double uniform(double low, double high);
  double normal();
  Int below(Int bound) { return static_cast<Int>(bits() % static_cast<std::uint64_t>(bound)); }

 private:
  std::uint64_t state_;
};

oracle::Array random_array(const oracle::Sizes& shape, Random& random, rapt::Dtype dtype, double size = 1);

// The problem, its numbers already rounded to the storage type, with a gradient for each output.
struct Case {
  CaseSpec spec;
  oracle::Problem problem;
  std::vector<oracle::Array> grad_out;
  oracle::Array grad_lse;  // empty: none
  const rapt::MechanismInfo* mechanism = nullptr;
};

Case make_case(const CaseSpec& spec);
// The same with a mask of the caller's own, made for the sizes that the case has in the end.
Case make_case(const CaseSpec& spec, const std::function<oracle::Mask(const CaseSpec&)>& make_mask);
// A problem given number by number; the gradients of its outputs are random.
Case make_case(const oracle::Problem& problem, rapt::Dtype dtype);

// The shape that the library takes a parameter in, [heads?, sizes…] aligned to the right.
rapt::Shape library_shape(const rapt::ParameterSpec& spec, const oracle::Array& value);

std::vector<std::string> registered_names();

// Runs on one SIMD target, and goes back.
class IsaScope {
 public:
  explicit IsaScope(rapt::Isa isa) : before_(rapt::active_isa()) { rapt::set_isa(isa); }
  ~IsaScope() { rapt::set_isa(before_); }
  IsaScope(const IsaScope&) = delete;
  IsaScope& operator=(const IsaScope&) = delete;

 private:
  rapt::Isa before_;
};

}  // namespace support
