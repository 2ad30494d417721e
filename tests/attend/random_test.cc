// Unforeseen combinations: random problems from a fixed seed, forward and backward against the oracle.

#include <gtest/gtest.h>

#include "oracle/formulas.h"
#include "support/checks.h"

namespace {

using support::Case;
using support::CaseSpec;
using support::Int;
using support::Random;

CaseSpec random_spec(Random& random) {
  const auto pick = [&](const auto& list) {
    return list[static_cast<std::size_t>(random.below(static_cast<Int>(list.size())))];
  };
  const auto maybe = [&](double chance) { return random.uniform(0, 1) < chance; };
  // Small numbers often, sizes around a tile sometimes.
  const auto length = [&] { return maybe(0.7) ? 1 + random.below(40) : 1 + random.below(200); };
  const auto dim = [&] { return maybe(0.7) ? 1 + random.below(20) : 1 + random.below(140); };
  CaseSpec s;
  s.mechanism = pick(oracle::formula_names());
  s.dtype = pick(support::all_dtypes());
  s.batch = 1 + random.below(3);
  s.key_heads = 1 + random.below(3);
  s.heads = s.key_heads * (1 + random.below(3));
  s.queries = length();
  s.keys = length();
  s.key_dim = dim();
  s.query_dim = maybe(0.5) ? 0 : dim();
  s.value_dims.clear();
  for (Int n = 1 + random.below(3); n > 0; --n) s.value_dims.push_back(dim());
  s.bias = pick(support::all_biases());
  if (maybe(0.3)) s.softcap = random.uniform(0.5, 5);
  if (maybe(0.3)) s.scale = random.uniform(-0.5, 1);
  if (maybe(0.5)) s.normalizer = pick(support::all_normalizers());
  if (maybe(0.3)) s.positions = pick(support::all_positions());
  if (maybe(0.3)) s.rotary = maybe(0.5) ? support::RotaryKind::halves : support::RotaryKind::interleaved;
  s.grad_lse = maybe(0.3) && (s.normalizer == support::NormalizerKind::softmax ||
                              s.normalizer == support::NormalizerKind::softmax_sink);
  s.per_head = maybe(0.5);
  s.optional_parameters = maybe(0.7);
  s.settings = pick(
      std::vector<support::Settings>{support::Settings::high, support::Settings::low, support::Settings::defaults});
  s.layout = pick(std::vector<support::Layout>{support::Layout::bhsd, support::Layout::bshd, support::Layout::gaps});
  s.seed = random.bits();
  return s;
}

std::vector<Int> random_starts(Int total, std::size_t count, Random& random) {
  std::vector<Int> starts = {0, total};
  while (starts.size() < count) starts.push_back(random.below(total + 1));
  std::sort(starts.begin(), starts.end());
  return starts;
}

// Any subset of the masks.
oracle::Mask random_mask(const CaseSpec& s, Random& random) {
  const auto maybe = [&](double chance) { return random.uniform(0, 1) < chance; };
  oracle::Mask m;
  // Neither bottom_right nor packed sequences take positions as well.
  const bool free = s.positions == support::PositionKind::none;
  if (maybe(0.4)) m.causal = maybe(0.5) || !free ? oracle::Causal::top_left : oracle::Causal::bottom_right;
  if (maybe(0.3)) m.window = oracle::Window{random.below(s.keys + 2) - 1, random.below(s.keys + 2) - 1};
  if (maybe(0.3))
    for (Int b = 0; b < s.batch; ++b) m.key_lengths.push_back(random.below(s.keys + 1));
  if (maybe(0.2) && free) {
    const std::size_t count = 2 + static_cast<std::size_t>(random.below(4));
    m.query_starts = random_starts(s.queries, count, random);
    m.key_starts = random_starts(s.keys, count, random);
  }
  if (maybe(0.3)) {
    m.dense = oracle::Array({maybe(0.5) ? s.batch : 1, maybe(0.5) ? s.heads : 1, maybe(0.7) ? s.queries : 1, s.keys});
    const double density = random.uniform(0.02, 1);
    for (double& e : m.dense.data) e = maybe(density);
  }
  return m;
}

class RandomCases : public testing::TestWithParam<int> {};

TEST_P(RandomCases, MatchTheOracle) {
  Random random(static_cast<std::uint64_t>(GetParam()) + 1000);
  for (int n = 0; n < 25; ++n) {
    const CaseSpec spec = random_spec(random);
    const Case c = make_case(spec, [&](const CaseSpec& sized) { return random_mask(sized, random); });
    SCOPED_TRACE(testing::Message() << "case " << n << ": " << describe(c.spec) << " causal "
                                    << static_cast<int>(c.problem.mask.causal) << " window "
                                    << c.problem.mask.window.has_value() << " lengths "
                                    << c.problem.mask.key_lengths.size() << " packed "
                                    << c.problem.mask.query_starts.size() << " dense " << c.problem.mask.dense.size());
    const support::Expected expected(c, true);
    support::Call call(c);
    call.options.threads = 1 + static_cast<int>(random.below(3));
    const std::vector<rapt::Isa> isas = rapt::available_isas();
    const support::IsaScope scope(isas[static_cast<std::size_t>(random.below(static_cast<Int>(isas.size())))]);
    support::ForwardWants wants;
    wants.weights = random.below(2) == 0;
    wants.statistics = random.below(2) == 0;
    wants.grid = c.problem.grid;
    wants.top_k = random.below(2) == 0 ? 1 : 0;
    EXPECT_TRUE(expected.matches(call.forward())) << "plain";
    EXPECT_TRUE(expected.matches(call.forward(wants))) << "with requests";
    EXPECT_TRUE(expected.matches(call.backward()));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCases, testing::Range(0, 16));

}  // namespace
