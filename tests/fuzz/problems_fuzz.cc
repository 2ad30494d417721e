// Whole problems, both passes: nothing is written outside its array, and the threads change no bit.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "rapt/error.h"
#include "support/call.h"

namespace {

class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : next_(data), end_(data + size) {}
  std::uint8_t next() { return next_ == end_ ? std::uint8_t{0} : *next_++; }
  std::int64_t below(int bound) { return next() % bound; }
  template <class T>
  T one_of(const std::vector<T>& list) {
    return list[next() % list.size()];
  }

 private:
  const std::uint8_t *next_, *end_;
};

support::CaseSpec spec_of(Bytes& bytes) {
  support::CaseSpec s;
  s.mechanism = bytes.one_of(support::registered_names());
  s.dtype = bytes.one_of<rapt::Dtype>({rapt::Dtype::f32, rapt::Dtype::f64, rapt::Dtype::bf16, rapt::Dtype::f16});
  s.batch = 1 + bytes.below(2);
  s.key_heads = 1 + bytes.below(3);
  s.heads = s.key_heads * (1 + bytes.below(3));
  s.queries = 1 + bytes.below(140);
  s.keys = 1 + bytes.below(140);
  // Long enough for several tiles and tasks; the oracle is not asked here.
  if (bytes.below(16) == 0) {
    s.keys = 1024 + 8 * bytes.next();
    s.queries = 1 + bytes.below(70);
  }
  s.key_dim = 1 + bytes.below(24);
  s.value_dims = {1 + bytes.below(24)};
  if (bytes.below(4) == 0) s.value_dims.push_back(1 + bytes.below(9));
  s.mask = bytes.one_of(support::all_masks());
  s.bias = bytes.one_of(support::all_biases());
  s.normalizer = bytes.one_of(support::all_normalizers());
  s.positions = bytes.one_of(support::all_positions());
  if (!support::combine(s.mask, s.positions)) s.positions = support::PositionKind::none;
  s.softcap = bytes.below(4) == 0 ? 2.0 : 0.0;
  s.grad_lse = s.normalizer == support::NormalizerKind::softmax && bytes.below(4) == 0;
  s.seed = bytes.next();
  if (bytes.below(3) == 0)
    s.rotary = bytes.below(2) == 0 ? support::RotaryKind::halves : support::RotaryKind::interleaved;
  s.settings =
      bytes.one_of<support::Settings>({support::Settings::high, support::Settings::low, support::Settings::defaults});
  s.layout = bytes.one_of<support::Layout>({support::Layout::bhsd, support::Layout::bshd, support::Layout::gaps});
  return s;
}

[[noreturn]] void fail(const support::CaseSpec& spec, const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", support::describe(spec).c_str(), what.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes bytes(data, size);
  const support::CaseSpec spec = spec_of(bytes);
  try {
    support::Case c = support::make_case(spec);
    // Numbers that break careless kernels, at positions that the bytes choose.
    for (double bad : {1e30, -1e30, 1e-40, 0.0}) {
      if (const std::uint8_t at = bytes.next(); at > 0) c.problem.q.data[at % c.problem.q.data.size()] = bad;
      if (const std::uint8_t at = bytes.next(); at > 0) c.problem.k.data[at % c.problem.k.data.size()] = bad;
    }
    support::Call call(c);
    call.options.path = bytes.below(3) == 0 ? rapt::Path::generic : rapt::Path::automatic;
    call.options.threads = 1;
    support::ForwardWants wants;
    wants.weights = bytes.below(2) == 0;
    wants.statistics = bytes.below(2) == 0;
    wants.grid = c.problem.grid;
    wants.top_k = static_cast<int>(bytes.below(5));
    const support::ForwardResult forward = call.forward(wants);
    const support::BackwardResult backward = call.backward();
    if (!forward.damage.empty()) fail(spec, forward.damage);
    if (!backward.damage.empty()) fail(spec, backward.damage);
    call.options.threads = 3;
    if (call.forward(wants).bits != forward.bits) fail(spec, "three threads change bits of the outputs");
    if (call.backward().bits != backward.bits) fail(spec, "three threads change bits of the gradients");
  } catch (const rapt::Error&) {
  }
  return 0;
}
