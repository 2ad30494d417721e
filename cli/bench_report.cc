#include "cli/bench_report.h"

#include <iostream>

#include "attend/counted.h"
#include "rapt/threads.h"

namespace rapt::cli {

std::vector<bench::Direction> parse_direction(const std::string& text) {
  using bench::Direction;
  using List = std::vector<Direction>;
  return parse_choice<List>("bench: --direction", text,
                            {{"forward", List{Direction::forward}},
                             {"backward", List{Direction::backward}},
                             {"both", List{Direction::forward, Direction::backward}}});
}

std::optional<int> parse_repeat(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const char* takes = "a whole number from 1 to 1000000";
  const std::int64_t runs = parse_integers("bench: --repeat", text, takes, 1)[0];
  if (runs < 1 || runs > 1'000'000) refuse("bench: --repeat", text, takes);
  return static_cast<int>(runs);
}

void print_bench(Json result, bool stopped) {
  if (stopped) result["stopped"] = true;
  std::cout << result.dump(2) << "\n";
}

std::string shape_text(const bench::Spec& spec) {
  const auto [batch, heads, keys, dim] = spec.sizes;
  std::string text;
  for (const std::int64_t size : {batch, heads, keys, dim}) text += (text.empty() ? "" : ",") + std::to_string(size);
  return text;
}

Json shape_json(const bench::Spec& spec) {
  return {spec.sizes.batch, spec.sizes.heads, spec.sizes.keys, spec.sizes.dim};
}

Json roofs_json(const bench::Roofs& roofs) {
  return {{"fma_peak", roofs.fma_peak},
          {"kernel_rate", roofs.kernel_rate},
          {"sgemm_rate", roofs.sgemm_rate},
          {"sgemm_size", roofs.sgemm_size},
          {"copy_bandwidth", roofs.copy_bandwidth},
          {"read_bandwidth", roofs.read_bandwidth}};
}

Json measurement_json(const bench::Measurement& m, const bench::Roofs& roofs, int threads) {
  const bench::Spec& spec = m.row.spec;
  return {{"name", spec.name},
          {"mechanism", spec.mechanism},
          {"direction", name_of(m.row.direction)},
          {"shape", shape_json(spec)},
          {"threads", threads},
          {"isa", name_of(active_isa())},
          {"seconds", m.seconds.median},
          {"rate", m.rate},
          {"sgemm_rate", m.sgemm_rate},
          {"fraction", m.fraction},
          {"naive_ratio", optional_json(m.naive_ratio)},
          {"peak_bytes", optional_json(m.peak_bytes)},
          {"unit", m.unit},
          {"gflops", m.gflops},
          {"spread", {m.seconds.low, m.seconds.high}},
          {"runs", m.seconds.runs},
          {"queries", spec.query_count()},
          {"key_heads", spec.key_head_count()},
          {"dtype", name_of(spec.dtype)},
          {"kernel_rate", roofs.kernel_rate},
          {"compiled_ratio", optional_json(m.compiled_ratio)},
          {"scaled_dot_ratio", optional_json(m.scaled_dot_ratio)},
          {"bandwidth", optional_json(m.bandwidth)},
          {"bandwidth_fraction", m.bandwidth ? Json(*m.bandwidth / roofs.read_bandwidth) : Json()}};
}

void print_roofs(const bench::Roofs& roofs, int threads) {
  std::cout << name_of(active_isa()) << ", " << counted(threads, "thread") << "\n";
  const auto rate = [](double x) { return format_as(x, "%.1f") + " GFLOP/s"; };
  const auto bytes = [](double x) { return format_as(x, "%.1f") + " GB/s"; };
  const std::string size = std::to_string(roofs.sgemm_size);
  std::cout << format_table({{"multiply-adds in registers", rate(roofs.fma_peak)},
                             {"the engine's product in the L1 cache", rate(roofs.kernel_rate)},
                             {"sgemm " + size + "³ of OpenBLAS", rate(roofs.sgemm_rate)},
                             {"reading memory", bytes(roofs.read_bandwidth)},
                             {"copying memory", bytes(roofs.copy_bandwidth)}})
            << "\n";
}

std::string quarters_text(const bench::Spread& seconds) {
  return "±" + format_as(50 * (seconds.high - seconds.low) / seconds.median, "%.0f") + "%";
}

std::string rate_text(const bench::Measurement& m, const bench::Roofs& roofs) {
  std::string rate = format_as(m.rate, "%.1f") + " " + m.unit;
  if (m.bandwidth) rate += ", " + format_as(*m.bandwidth / roofs.read_bandwidth, "%.2f") + " of reading memory";
  return rate;
}

}  // namespace rapt::cli
