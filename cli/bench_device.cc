#include "cli/bench_device.h"

#include <iostream>

#include "benchmarks/device_rows.h"
#include "cli/bench_report.h"
#include "cli/options.h"
#include "cli/row_by_row.h"
#include "cli/verbs.h"
#include "rapt/device.h"

namespace rapt::cli {
namespace {

constexpr int kProductSize = 8192;

std::optional<double> ratio(double x, const std::optional<double>& y) {
  return y ? std::optional(x / *y) : std::nullopt;
}

Json device_row_json(const bench::DeviceMeasurement& m, const std::string& device, double copy_bandwidth) {
  const bench::Spec& s = m.spec;
  return {{"name", s.name},
          {"mechanism", s.mechanism},
          {"direction", name_of(m.direction)},
          {"shape", {s.sizes.batch, s.sizes.heads, s.sizes.keys, s.sizes.dim}},
          {"queries", s.query_count()},
          {"dtype", name_of(s.dtype)},
          {"device", device},
          {"seconds", m.seconds},
          {"burst_seconds", m.burst_seconds},
          {"calls", m.calls},
          {"tflops", m.tflops},
          {"burst_tflops", m.tflops * m.seconds / m.burst_seconds},
          {"product_rate", optional_json(m.product_rate)},
          {"fraction", optional_json(ratio(m.tflops, m.product_rate))},
          {"scaled_dot_ratio", optional_json(m.scaled_dot_ratio)},
          {"compiled_ratio", optional_json(m.compiled_ratio)},
          {"bandwidth", optional_json(m.bandwidth)},
          {"bandwidth_fraction", m.bandwidth ? Json(*m.bandwidth / copy_bandwidth) : Json()}};
}

std::vector<std::string> device_row_cells(const bench::DeviceMeasurement& m, double copy_bandwidth) {
  std::string rate = optional_text(m.tflops, "%.3g") + " TFLOP/s";
  if (m.spec.mechanism == "additive")
    rate = optional_text(m.spec.visible_pairs() * static_cast<double>(m.spec.sizes.dim) / m.seconds / 1e9, "%.3g") +
           " G pairs/s";
  if (m.bandwidth)
    rate = optional_text(*m.bandwidth, "%.0f") + " GB/s, " + optional_text(*m.bandwidth / copy_bandwidth, "%.2f") +
           " of copying";
  return {m.spec.name,
          name_of(m.direction),
          shape_text(m.spec),
          name_of(m.spec.dtype),
          format_seconds(m.burst_seconds),
          format_seconds(m.seconds),
          optional_text(ratio(m.tflops, m.product_rate), "%.2f"),
          optional_text(m.scaled_dot_ratio, "%.2f"),
          optional_text(m.compiled_ratio, "%.2f"),
          rate};
}

// The device's own description, or the sentence that says why there is none.
std::string described(const Device& device) {
  try {
    return describe(device);
  } catch (const Error& error) {
    throw Error("bench: --device " + to_string(device) + ": " + error.what());
  }
}

}  // namespace

void bench_device(const bench::Plan& plan, Device::Kind kind, std::optional<int> repeat, bool json) {
  const std::vector<bench::Spec> specs = device_specs(plan);
  const Device device{kind, 0};
  const std::string about = described(device);
  bench::DeviceEffort effort;
  effort.calls = repeat;
  if (plan.quick) effort.seconds = 0.02, effort.rest = false;
  const double copy_bandwidth = bench::device_copy_bandwidth(device, effort.seconds);
  bench::Cublas products(device, kProductSize);
  RowByRow run("bench", specs.size());
  Json rows = Json::array(), wrong = Json::array();
  Table table{
      {"name", "direction", "shape", "dtype", "burst", "on end", "of cuBLAS", "scaled_dot", "compiled", "rate"}};
  const auto measure = [&](const bench::Spec& spec) {
    try {
      for (const bench::DeviceMeasurement& m :
           measure_on_device(spec, plan, device, effort, products.missing().empty() ? &products : nullptr)) {
        rows.push_back(device_row_json(m, to_string(device), copy_bandwidth));
        table.push_back(device_row_cells(m, copy_bandwidth));
      }
    } catch (const bench::WrongResult& result) {
      // The other rows have checks of their own.
      run.clear();
      std::cerr << "rapt: bench: wrong results: " << one_line(result.message) << " (shape " << shape_text(spec)
                << ")\n";
      wrong.push_back(result.message);
    }
  };
  for (const bench::Spec& spec : specs)
    if (!run.measure(spec.name + " " + shape_text(spec), "", [&] { measure(spec); })) break;
  run.clear();
  if (json) {
    print_bench({{"device", about},
                 {"copy_bandwidth", copy_bandwidth},
                 {"cublas_size", kProductSize},
                 {"cublas_missing", products.missing()},
                 {"rows", rows},
                 {"wrong", wrong}},
                run.stopped());
  } else {
    std::cout << about << "\ncopying memory " << optional_text(copy_bandwidth, "%.0f") << " GB/s; ";
    if (products.missing().empty()) std::cout << "cuBLAS " << kProductSize << "³ beside each row\n";
    else std::cout << "no ratio to cuBLAS: " << products.missing() << "\n";
    std::cout << "\n" << format_table(table);
  }
  run.end();
  if (!wrong.empty()) throw ExitStatus{1};
}

}  // namespace rapt::cli
