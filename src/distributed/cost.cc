#include "distributed/cost.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "attend/counted.h"
#include "distributed/ways.h"
#include "rapt/error.h"

namespace rapt::inline v1::distributed {
namespace {

double bytes_of(const ConstView& view, std::int64_t rows) {
  return static_cast<double>(view.shape[0] * view.shape[1] * view.shape[3]) * static_cast<double>(rows) *
         static_cast<double>(size_of(view.dtype));
}

double key_bytes(const Call& call) {
  double bytes = bytes_of(call.inputs.k, call.keys.length());
  for (const ConstView& v : call.inputs.v) bytes += bytes_of(v, call.keys.length());
  return bytes;
}

// Multiply-adds of the whole call: two products forward, five or seven backward; half of them under a causal mask.
double work_of(const Call& call, bool backward) {
  double width = 0;
  for (const Operand& v : call.whole.v) width += static_cast<double>(v.dim);
  const auto inner = static_cast<double>(call.whole.inner);
  const double pairs = static_cast<double>(call.whole.batch * call.whole.heads) *
                       static_cast<double>(call.queries.length()) * static_cast<double>(call.keys.length());
  const double seen = call.whole.mask.causal == Causal::none ? 1 : 0.5;
  const double means = call.is_solved() ? inner + width : 0;  // δ of every row, before its gradients
  return pairs * seen * (backward ? 3 * inner + 2 * width + means : inner + width);
}

double compute_bytes(const Call& call) { return call.whole.is_double ? 8 : 4; }

// Multiply-adds a second of one thread: a call of 256 queries and keys, once.
double measured_rate() {
  static const double rate = [] {
    constexpr std::int64_t kRows = 256, kDim = 64;
    std::vector<float> numbers(static_cast<std::size_t>(kRows * kDim), 0.5F), out(numbers.size());
    AttendOptions options;
    options.threads = 1;
    const ConstView in = view(std::as_const(numbers).data(), {kRows, kDim});
    double best = 1;
    for (int n = 0; n < 3; ++n) {
      const auto start = std::chrono::steady_clock::now();
      attend(in, in, in, view(out.data(), {kRows, kDim}), options);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return 2.0 * kRows * kRows * kDim / best;
  }();
  return rate;
}

std::string described(const Cost& cost) {
  std::array<char, 160> text{};
  std::snprintf(text.data(), text.size(), "%.3g s: compute %.3g s, %.3g MB sent in %.3g s", cost.total, cost.compute,
                cost.bytes / 1e6, cost.transfer);
  return text.data();
}

bool heads_can(const Call& call) {
  return !call.options.bias && !call.options.mask.dense && !call.grad_lse && call.slots->count() > 0;
}

}  // namespace

// Transfers hide behind the tiles of the unit before. Backward, the last process starts when the first sums reach it. Where
// thresholds are solved, nothing starts before all keys are there, and backward they come once more.
Cost ring_cost(const Call& call, bool backward, double compute, double bandwidth) {
  const int n = call.size();
  const auto units = static_cast<double>(call.queries.units());
  const std::int64_t most_units = (call.queries.units() + n - 1) / n;
  const auto most = static_cast<double>(most_units);
  Cost cost;
  cost.compute = work_of(call, backward) * most / units / compute;
  cost.bytes = n == 1 ? 0 : key_bytes(call);
  if (backward && n > 1) {
    const auto numbers = [&](const ConstView& array) {
      return bytes_of(array, call.keys.length()) / static_cast<double>(size_of(array.dtype));
    };
    double sums = numbers(call.inputs.k);
    for (const ConstView& v : call.inputs.v) sums += numbers(v);
    cost.bytes += sums * compute_bytes(call);
  }
  cost.transfer = n == 1 ? 0 : cost.bytes / bandwidth;
  const auto steps = static_cast<double>(call.keys.units());
  const double fill = backward ? (n - 1) * cost.compute / (2 * steps * static_cast<double>(sum_groups(call)))
                               : (n - 1) * cost.transfer / steps;
  cost.total = std::max(cost.compute, cost.transfer) + (n == 1 ? 0 : fill);
  if (n == 1 || !call.is_solved()) return cost;
  const double keys = key_bytes(call) / bandwidth;
  cost.total = backward ? cost.total + keys : cost.compute + keys;
  if (backward) {
    cost.bytes += key_bytes(call);
    cost.transfer += keys;
  }
  return cost;
}

// Nothing is hidden: all rows must be here before the first tile, and all tiles done before the way back.
Cost heads_cost(const Call& call, bool backward, double compute, double bandwidth) {
  const int n = call.size();
  const auto slots = static_cast<double>(std::max<std::int64_t>(1, call.slots->count()));
  const std::int64_t most_slots = (call.slots->count() + n - 1) / n;
  const auto most = static_cast<double>(most_slots);
  Cost cost;
  cost.compute = work_of(call, backward) * most / slots / compute;
  double out = 0;
  for (const Operand& v : call.whole.v)
    out += static_cast<double>(call.whole.row_count()) * static_cast<double>(v.dim) * compute_bytes(call);
  const double q = bytes_of(call.inputs.q, call.queries.length());
  const double forward = q + key_bytes(call) + out;
  const double all = backward ? 2 * forward + out : forward;
  cost.bytes = all * (n - 1) / n / n;
  cost.transfer = n == 1 ? 0 : cost.bytes / bandwidth;
  cost.total = cost.compute + cost.transfer;
  return cost;
}

Distribution choose(const Call& call, const Given& given, const DistributedOptions& how) {
  const bool backward = given.gradients != nullptr;
  const std::int64_t slots = call.slots->count();
  const bool heads = heads_can(call);
  if (how.distribution == Distribution::heads && !heads && slots > 0)
    throw Error(std::string(call.operation) +
                ": distribution heads: expected neither bias, dense mask nor a gradient of lse, which belong to rows");
  const double bandwidth = call.communicator->bandwidth();
  std::array<double, 2> choice{};
  if (call.rank() == 0) choice = {measured_rate() * call.whole.threads, 0};
  call.communicator->broadcast(choice.data(), sizeof choice, 0);
  const Cost ring = ring_cost(call, backward, choice[0], bandwidth);
  const Cost cut = heads_cost(call, backward, choice[0], bandwidth);
  Distribution chosen = how.distribution;
  if (slots == 0) chosen = Distribution::ring;
  else if (chosen == Distribution::automatic)
    chosen = heads && call.size() > 1 && slots >= call.size() && cut.total < ring.total ? Distribution::heads
                                                                                        : Distribution::ring;
  if (how.explanation) {
    std::array<char, 160> machine{};
    std::snprintf(machine.data(), machine.size(), "measured: %.3g GFLOP/s a process, %.3g GB/s between processes",
                  2 * choice[0] / 1e9, bandwidth / 1e9);
    *how.explanation =
        std::string(chosen == Distribution::ring ? "ring" : "heads") + " over " + counted(call.size(), "process") +
        (how.distribution == Distribution::automatic ? "" : ", as asked for") + "\n" +
        "  queries: " + counted(call.queries.length(), "row") + " in " + counted(call.queries.units(), "unit") +
        " of 2 x " + std::to_string(call.queries.piece_rows()) + "; keys: " + counted(call.keys.length(), "row") +
        " in " + counted(call.keys.units(), "unit") + " of 2 x " + std::to_string(call.keys.piece_rows()) + "; " +
        counted(slots, "independent head") + "\n  ring:  " + described(ring) + "\n  heads: " +
        (!heads                ? "not with a bias, a dense mask or a gradient of lse"
         : slots < call.size() ? "fewer heads than processes"
                               : described(cut)) +
        (call.is_solved() ? "\n  ring: all keys and values in every process, as " +
                                std::string(call.whole.normalizer->info.name) + " needs all scores of a row"
                          : "") +
        "\n  " + machine.data();
  }
  return chosen;
}

void choose_steps(const Call& call, const DistributedOptions& how) {
  const bool device = call.whole.device.kind != Device::Kind::cpu;
  const std::string where = device ? "for arrays on a device" : "over messages without tags";
  if (how.distribution == Distribution::heads)
    throw Error(std::string(call.operation) + ": distribution: expected ring " + where + ", got heads");
  if (!call.is_softmax && !call.is_additive)
    throw Error(std::string(call.operation) + ": normalizer: expected softmax or sigmoid " + where +
                " over several processes, got " + std::string(call.whole.normalizer->info.name));
  if (!how.explanation) return;
  *how.explanation = "ring in steps over " + counted(call.size(), "process") + (device ? ", on devices" : "") +
                     "\n  queries: " + counted(call.queries.length(), "row") + " in " +
                     counted(call.queries.units(), "unit") + " of 2 x " + std::to_string(call.queries.piece_rows()) +
                     "; keys: " + counted(call.keys.length(), "row") + " in " + counted(call.keys.units(), "unit") +
                     " of 2 x " + std::to_string(call.keys.piece_rows());
}

}  // namespace rapt::inline v1::distributed
