#include "benchmarks/rows.h"

#include <algorithm>

#include "benchmarks/check.h"
#include "benchmarks/process_memory.h"
#include "formulas/programs.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "rapt/tiles.h"

namespace rapt::bench {
namespace {

struct Variant {
  const char* name;
  std::vector<Sizes> shapes;
  void (*change)(Spec& spec);
  bool backward = true;
};

const std::vector<Sizes>& usual_shapes() {
  static const std::vector<Sizes> shapes{{1, 8, 1024, 64}, {1, 8, 1024, 128}};
  return shapes;
}

// A variant is scaled_dot unless it says otherwise.
const std::vector<Variant>& variants() {
  static const std::vector<Sizes> one{{1, 8, 1024, 64}};
  static const std::vector<Sizes> one_head{{1, 1, 1024, 64}};
  static const std::vector<Sizes> grid{{1, 8, 4096, 64}};
  static const std::vector<Variant> list{
      {"causal",
       {{1, 8, 1024, 64}, {1, 8, 1024, 128}, {1, 8, 4096, 64}, {1, 8, 4096, 128}},
       [](Spec& s) { s.causal = Causal::top_left; }},
      {"window256",
       {{1, 8, 8192, 64}, {1, 8, 8192, 128}},
       [](Spec& s) {
         s.window = Window{128, 127};
       }},
      {"short", {{8, 8, 128, 64}, {8, 8, 128, 128}}, [](Spec&) {}},
      {"decode", {{1, 8, 16384, 64}, {1, 8, 16384, 128}}, [](Spec& s) { s.queries = 1; }, false},
      {"softcap", usual_shapes(), [](Spec& s) { s.softcap = 20; }},
      {"bias", usual_shapes(), [](Spec& s) { s.bias = true; }},
      {"two_values", one, [](Spec& s) { s.value_sets = 2; }},
      {"three_values", one, [](Spec& s) { s.value_sets = 3; }},
      {"four_values", one, [](Spec& s) { s.value_sets = 4; }},
      {"weights_one_head", one_head, [](Spec& s) { s.sizes.heads = 1, s.extra = Extra::weights; }, false},
      {"statistics", one, [](Spec& s) { s.extra = Extra::statistics; }, false},
      {"bf16", usual_shapes(), [](Spec& s) { s.dtype = Dtype::bf16; }},
      {"f16", usual_shapes(), [](Spec& s) { s.dtype = Dtype::f16; }},
      {"f64", usual_shapes(), [](Spec& s) { s.dtype = Dtype::f64; }},
      {"quadratic_generic", grid, [](Spec& s) { s.mechanism = "quadratic", s.path = Path::generic; }},
      {"gaussian_axes", grid, [](Spec& s) { s.mechanism = "gaussian", s.axis_aligned = true; }},
  };
  return list;
}

const std::vector<Sizes>& normalizer_shapes() {
  static const std::vector<Sizes> shapes{{1, 8, 1024, 64}, {1, 8, 1024, 128}, {1, 8, 2048, 64}};
  return shapes;
}

// Every normaliser but softmax, which all other rows use.
std::vector<const NormalizerInfo*> measured_normalizers() {
  std::vector<const NormalizerInfo*> list;
  for (const NormalizerInfo& info : all_normalizers())
    if (normalizer(info.name) != Normalizer::softmax) list.push_back(&info);
  return list;
}

std::vector<Sizes> mechanism_shapes(std::string_view name) {
  std::vector<Sizes> shapes = usual_shapes();
  if (name == "scaled_dot") shapes.insert(shapes.end(), {{1, 8, 4096, 64}, {1, 8, 4096, 128}});
  if (name == "additive") shapes = {{8, 1, 256, 64}, {4, 1, 512, 64}, {1, 8, 1024, 64}};
  if (name == "quadratic") shapes = {{1, 8, 1024, 64}, {1, 8, 4096, 64}};
  return shapes;
}

void add_rows(std::vector<Row>& rows, Spec spec, std::vector<Sizes> shapes, bool backward, void (*change)(Spec&),
              const Plan& plan) {
  if (!plan.shapes.empty()) shapes = plan.shapes;
  else if (plan.quick) shapes.resize(1);
  for (const Sizes& sizes : shapes)
    for (const Direction direction : plan.directions) {
      if (direction == Direction::backward && !backward) continue;
      spec.sizes = sizes;
      if (plan.dtype) spec.dtype = *plan.dtype;
      if (change != nullptr) change(spec);
      rows.push_back({spec, direction});
    }
}

// Variants compared with the plain case; the others are the plain case with other shapes.
bool has_plain(const Spec& spec) {
  return spec.name != "scaled_dot" && spec.causal == Causal::none && !spec.window && spec.queries == 0 &&
         spec.name != "short";
}

Spec plain_of(const Spec& spec) {
  Spec plain;
  plain.name = "scaled_dot";
  plain.sizes = spec.sizes;
  return plain;
}

struct Runner {
  Runner(const Spec& spec, Direction way, int threads) : workload(spec, threads), direction(way), path(spec.path) {
    if (direction == Direction::backward) workload.prepare_backward(path);
  }

  void operator()() {
    if (direction == Direction::forward) workload.forward(path);
    else workload.backward(path);
  }

  Workload workload;
  Direction direction;
  Path path;
};

double naive_bytes(const Spec& spec, int threads) {
  // Matrices of pairs that the naive path keeps per head, gradients included.
  constexpr double kMatrices = 10;
  const double size = spec.dtype == Dtype::f64 ? 8 : 4;
  return kMatrices * size * threads * static_cast<double>(spec.query_count()) * static_cast<double>(spec.sizes.keys);
}

std::optional<double> naive_seconds(Row row, const Plan& plan) {
  if (!plan.naive) return std::nullopt;
  if (naive_bytes(row.spec, plan.threads) > 0.25 * static_cast<double>(memory_available())) return std::nullopt;
  row.spec.path = Path::reference;
  // A quarter of the length shows whether the whole fits the time; it is not reported.
  Row probe = row;
  probe.spec.sizes.keys = std::max<std::int64_t>(row.spec.sizes.keys / 4, 1);
  if (row.spec.queries > 1) probe.spec.queries = std::max<std::int64_t>(row.spec.queries / 4, 1);
  const double growth = (row.spec.queries == 1 ? 4 : 16) * 1.3;
  Runner small(probe.spec, row.direction, plan.threads);
  if (seconds_of([&] { small(); }) * growth > plan.naive_seconds) return std::nullopt;
  Runner naive(row.spec, row.direction, plan.threads);
  const double first = seconds_of([&] { naive(); });
  if (first > 0.2 * plan.naive_seconds) return first;
  return spread_of({first, seconds_of([&] { naive(); }), seconds_of([&] { naive(); })}).median;
}

}  // namespace

std::optional<Spec> compiled_of(const Spec& spec) {
  if (!spec.formula || spec.mechanism.empty()) return std::nullopt;
  Spec compiled = spec;
  compiled.formula.reset();
  compiled.name = spec.mechanism;
  compiled.softcap = spec.compiled_softcap;
  compiled.maps = false;
  if (spec.info().definition().scalar.f32.hide) {
    const std::optional<Window> window = spec.formula_window();
    const auto* programs = static_cast<const formulas::FormulaPrograms*>(spec.formula->object.get());
    if (!window || spec.window || programs->hide_rest.blocks.count > 0) return std::nullopt;
    compiled.window = window;
  }
  return compiled;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const MechanismInfo* info : all_mechanisms()) names.emplace_back(info->name());
  for (const NormalizerInfo* info : measured_normalizers()) names.emplace_back(info->name);
  for (const Variant& variant : variants()) names.emplace_back(variant.name);
  return names;
}

std::vector<Row> rows_of(const Plan& plan) {
  const std::vector<std::string> known = known_names();
  for (const std::string& name : plan.names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    std::string list;
    for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
    throw Error("bench: expected a row (" + list + "), got '" + name + "'");
  }
  const auto wanted = [&](std::string_view name) {
    return plan.names.empty() || std::find(plan.names.begin(), plan.names.end(), name) != plan.names.end();
  };
  std::vector<Row> rows;
  if (plan.formula) {
    Spec spec;
    spec.name = "formula";
    spec.mechanism = plan.formula->compiled;
    spec.compiled_softcap = plan.formula->softcap;
    spec.formula = plan.formula->score;
    add_rows(rows, spec, usual_shapes(), true, nullptr, plan);
    if (plan.names.empty()) return rows;
  }
  for (const MechanismInfo* info : all_mechanisms()) {
    if (!wanted(info->name())) continue;
    Spec spec;
    spec.name = spec.mechanism = info->name();
    add_rows(rows, spec, mechanism_shapes(info->name()), true, nullptr, plan);
  }
  for (const NormalizerInfo* info : measured_normalizers()) {
    if (!wanted(info->name)) continue;
    Spec spec;
    spec.name = info->name;
    spec.normalizer = normalizer(info->name);
    // Scores have no gradient under argmax.
    add_rows(rows, spec, normalizer_shapes(), spec.normalizer != Normalizer::argmax, nullptr, plan);
  }
  for (const Variant& variant : variants()) {
    if (!wanted(variant.name)) continue;
    Spec spec;
    spec.name = variant.name;
    add_rows(rows, spec, variant.shapes, variant.backward, variant.change, plan);
  }
  return rows;
}

Measurement measure_row(const Row& row, const Plan& plan, const Roofs& roofs, Sgemm& sgemm) {
  check_small(row.spec, row.direction, plan.threads);
  Runner runner(row.spec, row.direction, plan.threads);
  runner();
  check_rows(runner.workload, row.direction);

  Measurement m;
  m.row = row;
  m.peak_bytes = peak_growth([&] { runner(); });
  std::optional<Runner> plain;
  std::vector<std::function<void()>> works{[&] { runner(); }};
  if (plan.beside && has_plain(row.spec)) {
    plain.emplace(plain_of(row.spec), row.direction, plan.threads);
    works.emplace_back([&] { (*plain)(); });
  }
  std::optional<Runner> compiled;
  if (const std::optional<Spec> same = compiled_of(row.spec)) {
    compiled.emplace(*same, row.direction, plan.threads);
    works.emplace_back([&] { (*compiled)(); });
  }
  // The machine's rate varies from minute to minute, so it is measured around every row.
  std::vector<double> rates;
  const auto take_rates = [&] {
    if (plan.quick) return;
    for (int run = 0; run < 2; ++run) rates.push_back(sgemm.run());
    let_sgemm_rest();
  };
  take_rates();
  for (const auto& work : works) work();
  const std::vector<Spread> times = measure(works, plan.effort);
  take_rates();

  m.seconds = times[0];
  m.gflops = runner.workload.flops(row.direction) / m.seconds.median / 1e9;
  m.rate = m.gflops;
  if (row.spec.mechanism == "additive") {
    m.unit = "G pairs/s";
    m.rate = row.spec.visible_pairs() * static_cast<double>(row.spec.sizes.dim) / m.seconds.median / 1e9;
  }
  m.sgemm_rate = plan.quick ? roofs.sgemm_rate : spread_of(rates).median;
  m.fraction = m.gflops / m.sgemm_rate;
  if (plain) m.scaled_dot_ratio = times[1].median / m.seconds.median;
  if (compiled) m.compiled_ratio = times.back().median / m.seconds.median;
  if (row.spec.query_count() == 1) m.bandwidth = static_cast<double>(runner.workload.bytes()) / m.seconds.median / 1e9;
  if (const std::optional<double> naive = naive_seconds(row, plan)) m.naive_ratio = *naive / m.seconds.median;
  return m;
}

}  // namespace rapt::bench
