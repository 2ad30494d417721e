#include "benchmarks/device_rows.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <thread>

#include "benchmarks/check.h"
#include "benchmarks/device_workload.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "rapt/tiles.h"

namespace rapt::bench {
namespace {

struct Kind {
  std::string name;
  std::vector<Sizes> shapes;
  std::function<void(Spec&)> change;
  bool backward = true;
};

const std::vector<Sizes> kUsual{{2, 16, 8192, 128}};
const std::vector<Sizes> kSizes{{2, 16, 8192, 128}, {2, 32, 8192, 64}, {2, 8, 8192, 256},
                                {8, 16, 2048, 128}, {8, 32, 2048, 64}, {32, 16, 512, 128}};
// Lengths that are no multiple of a tile, and head dims between those that kernels are compiled for.
const std::vector<Sizes> kOdd{
    {8, 16, 1000, 128}, {4, 16, 2049, 128}, {8, 16, 2048, 80}, {8, 16, 1000, 96}, {4, 16, 4096, 192}};

void causal(Spec& s) { s.causal = Causal::top_left; }

std::vector<Sizes> mechanism_shapes(std::string_view name) {
  if (name == "scaled_dot") return kSizes;
  if (name == "additive" || name == "distance") return {{8, 1, 2048, 64}};
  return kUsual;
}

std::vector<Kind> all_kinds() {
  std::vector<Kind> kinds;
  for (const MechanismInfo* info : all_mechanisms()) {
    const std::string name(info->name());
    kinds.push_back({name, mechanism_shapes(name), [name](Spec& s) { s.mechanism = name; }});
    if (name != "scaled_dot") continue;
    kinds.push_back({"causal", kSizes, causal});
    kinds.push_back({"odd", kOdd, [](Spec&) {}});
    kinds.push_back({"odd_causal", kOdd, causal});
  }
  for (const NormalizerInfo& info : all_normalizers()) {
    const Normalizer way = normalizer(info.name);
    if (way == Normalizer::softmax) continue;
    // Scores have no gradient under argmax.
    kinds.push_back({std::string(info.name),
                     {{2, 8, 2048, 64}},
                     [way](Spec& s) { s.normalizer = way; },
                     way != Normalizer::argmax});
  }
  kinds.push_back({"softcap", kUsual, [](Spec& s) { s.softcap = 20; }});
  kinds.push_back({"window256", kUsual, [](Spec& s) { s.window = Window{128, 127}; }});
  // A bias is [1, H, S, S] in f32: at S 8192 it would be 4 GiB, and its gradient as much.
  kinds.push_back({"bias", {{8, 16, 2048, 128}}, [](Spec& s) { s.bias = true; }});
  kinds.push_back({"two_values", {{8, 16, 2048, 128}}, [](Spec& s) { s.value_sets = 2; }});
  kinds.push_back({"decode", {{8, 16, 16384, 128}, {1, 16, 131072, 128}}, [](Spec& s) { s.queries = 1; }, false});
  kinds.push_back({"f16", kUsual, [](Spec& s) { s.dtype = Dtype::f16; }});
  kinds.push_back({"f32", {{8, 16, 2048, 128}}, [](Spec& s) { s.dtype = Dtype::f32; }});
  return kinds;
}

bool has_plain(const Spec& spec) {
  const bool variant = spec.mechanism != "scaled_dot" || spec.normalizer != Normalizer::softmax || spec.softcap > 0 ||
                       spec.bias || spec.value_sets > 1;
  return variant && spec.queries == 0;
}

Spec plain_of(const Spec& spec) {
  Spec plain;
  plain.name = "scaled_dot";
  plain.sizes = spec.sizes;
  plain.dtype = spec.dtype;
  plain.causal = spec.causal;
  plain.window = spec.window;
  return plain;
}

class Timed {
 public:
  Timed(DeviceWorkload& workload, Direction direction, const Device& device)
      : workload_(workload), direction_(direction), timer_(device) {
    workload_.prepare(direction_);
    // Twice: the first call loads its kernels and fills the workspace pool.
    calls(1);
    single_ = calls(1);
  }

  // Seconds of one call among `count` back to back.
  double calls(int count) {
    timer_.start();
    for (int n = 0; n < count; ++n) workload_.run(direction_);
    timer_.stop();
    return timer_.seconds() / count;
  }

  // The median of five bursts of a few calls after a rest.
  double burst(bool rest) {
    const int count = std::clamp(static_cast<int>(0.005 / single_), 1, 20);
    std::vector<double> times;
    for (int n = 0; n < 5; ++n) {
      if (rest) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      times.push_back(calls(count));
    }
    return spread_of(times).median;
  }

  int count_for(const DeviceEffort& effort) const {
    if (effort.calls) return *effort.calls;
    return std::clamp(static_cast<int>(std::ceil(effort.seconds / single_)), 1, 100'000);
  }

 private:
  DeviceWorkload& workload_;
  Direction direction_;
  DeviceTimer timer_;
  double single_ = 1;
};

bool has_backward(const Spec& spec) { return spec.queries != 1 && spec.normalizer != Normalizer::argmax; }

}  // namespace

std::vector<std::string> device_names() {
  std::vector<std::string> names;
  for (const Kind& kind : all_kinds()) names.push_back(kind.name);
  return names;
}

std::vector<Spec> device_specs(const Plan& plan) {
  const std::vector<std::string> known = device_names();
  for (const std::string& name : plan.names) {
    if (std::ranges::count(known, name) > 0) continue;
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    throw Error("bench: --device: expected a row (" + list + "), got '" + name + "'");
  }
  if (plan.dtype == Dtype::f64) throw Error("bench: --device: --dtype: expected f32, bf16 or f16, got f64");
  std::vector<Spec> specs;
  std::vector<Kind> kinds;
  if (plan.formula) {
    const FormulaRow& row = *plan.formula;
    // Element-wise pairs are far more work.
    const bool pairs = row.score.mechanism->definition().scalar.f32.raw != nullptr;
    kinds.push_back({"formula", mechanism_shapes(pairs ? "additive" : "formula"), [row](Spec& s) {
                       s.mechanism = row.compiled;
                       s.formula = row.score;
                       s.compiled_softcap = row.softcap;
                     }});
  }
  for (Kind& kind : all_kinds()) {
    if (plan.formula && plan.names.empty()) break;
    kinds.push_back(std::move(kind));
  }
  for (const Kind& kind : kinds) {
    if (kind.name != "formula" && !plan.names.empty() && std::ranges::count(plan.names, kind.name) == 0) continue;
    std::vector<Sizes> shapes = plan.shapes.empty() ? kind.shapes : plan.shapes;
    if (plan.shapes.empty() && plan.quick) shapes.resize(1);
    for (const Sizes& sizes : shapes) {
      Spec spec;
      spec.name = kind.name;
      spec.sizes = sizes;
      spec.dtype = plan.dtype.value_or(Dtype::bf16);
      kind.change(spec);
      specs.push_back(spec);
    }
  }
  return specs;
}

std::vector<DeviceMeasurement> measure_on_device(const Spec& spec, const Plan& plan, const Device& device,
                                                 const DeviceEffort& effort, Cublas* products) {
  std::vector<Direction> directions = plan.directions;
  if (!has_backward(spec)) std::erase(directions, Direction::backward);
  if (directions.empty()) return {};
  for (const Direction direction : directions) check_small(spec, direction, plan.threads, device);
  DeviceWorkload workload(spec, device, plan.threads);
  std::optional<DeviceWorkload> plain;
  if (has_plain(spec)) plain.emplace(plain_of(spec), device, plan.threads);
  std::optional<DeviceWorkload> compiled;
  if (const std::optional<Spec> same = compiled_of(spec)) compiled.emplace(*same, device, plan.threads);
  std::vector<DeviceMeasurement> list;
  for (const Direction direction : directions) {
    workload.prepare(direction);
    workload.run(direction);
    workload.download(direction);
    check_rows(workload.host(), direction);

    DeviceMeasurement m;
    m.spec = spec;
    m.direction = direction;
    if (products) m.product_rate = products->rate(spec.dtype, effort.seconds / 2);
    Timed ours(workload, direction, device);
    m.burst_seconds = ours.burst(effort.rest);
    m.calls = ours.count_for(effort);
    m.seconds = ours.calls(m.calls);
    const auto beside = [&](DeviceWorkload& other) {
      Timed theirs(other, direction, device);
      theirs.burst(effort.rest);
      return theirs.calls(theirs.count_for(effort)) / m.seconds;
    };
    if (plain) m.scaled_dot_ratio = beside(*plain);
    if (compiled) m.compiled_ratio = beside(*compiled);
    m.tflops = workload.host().flops(direction) / m.seconds / 1e12;
    if (spec.query_count() == 1) m.bandwidth = static_cast<double>(workload.host().bytes()) / m.seconds / 1e9;
    list.push_back(m);
  }
  return list;
}

double device_copy_bandwidth(const Device& device, double seconds) {
  constexpr std::size_t kBytes = std::size_t{1} << 30;
  DeviceMemory from(device, kBytes), to(device, kBytes);
  DeviceTimer timer(device);
  const auto timed = [&](int runs) {
    timer.start();
    for (int n = 0; n < runs; ++n) to.copy_from(from, kBytes);
    timer.stop();
    return timer.seconds() / runs;
  };
  timed(2);
  const double once = timed(1);
  return 2 * static_cast<double>(kBytes) / timed(std::max(1, static_cast<int>(seconds / once))) / 1e9;
}

}  // namespace rapt::bench
