#include "distributed/ballot.h"

#include <algorithm>

#include "rapt/error.h"

namespace rapt::inline v1::distributed {
namespace {

enum Place : unsigned { kBias, kDense, kLse, kQ, kK, kBiasGradient, kFirstV };
constexpr unsigned kPlaces = 64;

// Value sets past the last bit share it.
unsigned place_of_v(std::size_t set) { return std::min(kFirstV + static_cast<unsigned>(set), kPlaces - 1); }

std::uint64_t bit(unsigned place) { return std::uint64_t{1} << place; }

template <class V>
bool is_given(const V& view) {
  return view.data != nullptr || (view.shape != Shape{} && element_count(view.shape) == 0);
}

// An array that may be missing: in `ballot`, where `elements` is how many it has here, or would have.
template <class V>
void enter(Ballot& ballot, unsigned place, const V& view, std::int64_t elements) {
  if (is_given(view)) ballot.given |= bit(place);
  if (elements > 0) ballot.counts |= bit(place);
}

// Of a bias or mask: missing ones would have this process's rows.
template <class V>
std::int64_t elements_of_pairs(const V& view, std::int64_t queries) {
  return is_given(view) ? element_count(view.shape) : queries;
}

std::int64_t row_count(const Given& given) {
  const Shape& q = given.inputs->q.shape;
  return element_count(Shape{q[0], q[1], q[2], 1});
}

std::string name_of(unsigned place) {
  switch (place) {
    case kBias: return "bias";
    case kDense: return "mask";
    case kLse: return "grad_lse";
    case kQ: return "gradient of q";
    case kK: return "gradient of k";
    case kBiasGradient: return "gradient of bias";
    default: return "gradient of v[" + std::to_string(place - kFirstV) + "]";
  }
}

// Which arrays the call has.
std::uint64_t elected(const char* operation, const std::vector<Ballot>& ballots) {
  std::uint64_t wanted = 0, counted = 0, given = 0;
  for (const Ballot& one : ballots) {
    wanted |= one.given & one.counts;
    counted |= one.counts;
    given |= one.given;
  }
  for (unsigned place = 0; place < kPlaces; ++place) {
    if ((wanted & bit(place)) == 0) continue;
    const auto differs = [&](bool has) {
      return std::ranges::find_if(ballots, [&](const Ballot& one) {
        return (one.counts & bit(place)) != 0 && ((one.given & bit(place)) != 0) == has;
      });
    };
    const auto with = differs(true), without = differs(false);
    if (without == ballots.end()) continue;
    throw Error(std::string(operation) + ": " + name_of(place) +
                ": expected in every process or in none, got one in process " + std::to_string(with - ballots.begin()) +
                " and none in process " + std::to_string(without - ballots.begin()));
  }
  return wanted | (given & ~counted);
}

// Whether an empty array is present is up to the others; its address is never read.
template <class V>
void settle(V& view, bool wanted, Dtype dtype, const Shape& shape, const Device& device) {
  static double nothing = 0;
  if (!wanted) {
    view = {};
    return;
  }
  if (view.shape == Shape{}) view = {nullptr, dtype, shape, contiguous_strides(shape), device};
  if (view.data == nullptr) view.data = &nothing;
  view.device = device;
}

}  // namespace

Ballot ballot_of(const Given& given) {
  Ballot ballot;
  const Inputs& in = *given.inputs;
  ballot.queries = in.q.shape[2];
  ballot.keys = in.k.shape[2];
  const ConstView& bias = given.options->bias;
  const BoolView& dense = given.options->mask.dense;
  enter(ballot, kBias, bias, elements_of_pairs(bias, ballot.queries));
  enter(ballot, kDense, dense, elements_of_pairs(dense, ballot.queries));
  ballot.bias = {bias.shape[0], bias.shape[1], bias.shape[3]};
  ballot.dense = {dense.shape[0], dense.shape[1], dense.shape[3]};
  ballot.bias_dtype = static_cast<std::int64_t>(bias.dtype);
  if (given.gradients == nullptr) return ballot;
  const Gradients& g = *given.gradients;
  enter(ballot, kLse, given.grad_lse, row_count(given));
  enter(ballot, kQ, g.q, element_count(in.q.shape));
  enter(ballot, kK, g.k, element_count(in.k.shape));
  enter(ballot, kBiasGradient, g.bias, elements_of_pairs(bias, ballot.queries));
  for (std::size_t s = 0; s < in.v.size(); ++s)
    enter(ballot, place_of_v(s), s < g.v.size() ? g.v[s] : View{}, element_count(in.v[s].shape));
  return ballot;
}

Adopted adopt(const char* operation, const Given& given, const std::vector<Ballot>& ballots) {
  Adopted own{*given.options, given.gradients ? *given.gradients : Gradients{}, given.grad_lse};
  const std::uint64_t all = elected(operation, ballots);
  const Ballot here = ballot_of(given);
  const auto is_wanted = [&](unsigned place) { return (all & bit(place)) != 0; };
  const auto is_empty = [&](unsigned place) { return (here.counts & bit(place)) == 0; };
  // Sizes beside the rows: of the first process that has the array.
  const auto pairs = [&](unsigned place, const std::array<std::int64_t, 3> Ballot::*sizes) {
    for (const Ballot& one : ballots)
      if ((one.given & bit(place)) != 0)
        return std::pair{Shape{(one.*sizes)[0], (one.*sizes)[1], 0, (one.*sizes)[2]}, one};
    return std::pair{Shape{}, Ballot{}};
  };
  if (is_empty(kBias)) {
    const auto [shape, from] = pairs(kBias, &Ballot::bias);
    settle(own.options.bias, is_wanted(kBias), static_cast<Dtype>(from.bias_dtype), shape, given.inputs->q.device);
  }
  if (is_empty(kDense)) {
    static const std::uint8_t hidden = 0;
    BoolView& dense = own.options.mask.dense;
    const Shape shape = pairs(kDense, &Ballot::dense).first;
    if (!is_wanted(kDense)) dense = {};
    else if (dense.shape == Shape{}) dense = {&hidden, shape, contiguous_strides(shape), given.inputs->q.device};
    else if (dense.data == nullptr) dense.data = &hidden;
    dense.device = given.inputs->q.device;
  }
  if (given.gradients == nullptr) return own;
  const Inputs& in = *given.inputs;
  Gradients& g = own.gradients;
  if (g.v.empty()) g.v.resize(in.v.size());
  if (is_empty(kLse))
    settle(own.grad_lse, is_wanted(kLse), in.q.dtype, {in.q.shape[0], in.q.shape[1], in.q.shape[2], 1}, in.q.device);
  if (is_empty(kQ)) settle(g.q, is_wanted(kQ), in.q.dtype, in.q.shape, in.q.device);
  if (is_empty(kK)) settle(g.k, is_wanted(kK), in.k.dtype, in.k.shape, in.q.device);
  if (is_empty(kBiasGradient))
    settle(g.bias, is_wanted(kBiasGradient), own.options.bias.dtype, own.options.bias.shape, in.q.device);
  for (std::size_t s = 0; s < std::min(in.v.size(), g.v.size()); ++s)
    if (is_empty(place_of_v(s))) settle(g.v[s], is_wanted(place_of_v(s)), in.v[s].dtype, in.v[s].shape, in.q.device);
  return own;
}

}  // namespace rapt::inline v1::distributed
