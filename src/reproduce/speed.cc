// What this machine reaches: mechanisms as a fraction of its matrix products, measured in the same run.
#include <cmath>

#include "benchmarks/check.h"
#include "benchmarks/rows.h"
#include "pictures/bars.h"
#include "rapt/error.h"
#include "rapt/registry.h"
#include "reproduce/format.h"
#include "reproduce/part_list.h"

namespace rapt::reproduce {
namespace {

std::string time_text(double seconds) {
  return seconds < 0.9995 ? significant(1e3 * seconds) + " ms" : significant(seconds) + " s";
}

std::string shape_text(const bench::Sizes& s) {
  return std::to_string(s.batch) + "," + std::to_string(s.heads) + "," + std::to_string(s.keys) + "," +
         std::to_string(s.dim);
}

bench::Plan plan_of(const Context& context) {
  bench::Plan plan;
  plan.quick = true;  // one shape of each
  plan.threads = context.threads;
  plan.naive_seconds = context.quick ? 0.5 : 4;
  plan.effort =
      context.quick ? bench::Effort{.least_runs = 3, .least_seconds = 0.05, .most_seconds = 1} : bench::Effort{};
  plan.effort.stop = context.stop;
  plan.names = {"scaled_dot", "additive", "alibi", "quadratic", "causal", "two_values", "quadratic_generic"};
  if (context.quick) return plan;
  for (const MechanismInfo* info : all_mechanisms()) plan.names.emplace_back(info->name());
  for (const char* variant : {"short", "argmax", "three_values"}) plan.names.emplace_back(variant);
  return plan;
}

std::vector<bench::Row> rows_for(const bench::Plan& plan, const Context& context) {
  std::vector<bench::Row> rows = rows_of(plan);
  // Both ways to compute quadratic scores on the same grid, so that they can be compared.
  for (bench::Row& row : rows)
    if (row.spec.mechanism == "quadratic") row.spec.sizes = {1, 8, context.quick ? 1024 : 4096, 64};
  return rows;
}

struct Measured {
  const bench::Measurement* find(const std::string& name, bench::Direction direction) const {
    for (const bench::Measurement& m : list)
      if (m.row.spec.name == name && m.row.direction == direction) return &m;
    return nullptr;
  }
  std::vector<bench::Measurement> list;
};

void add_claims(const Measured& measured, Section& section) {
  using bench::Direction;
  const std::string busy =
      "A rate measured once, beside whatever else this machine was doing; rapt bench measures it again.";
  const bench::Measurement* plain = measured.find("scaled_dot", Direction::forward);
  section.claims.push_back({"(Rapt)", "Attention forward, as a fraction of sgemm on this machine", "≥ 0.85 is the aim",
                            fixed(plain->fraction, 2), "at least 0.85", plain->fraction >= 0.85, Weight::informative,
                            busy});
  if (const auto* two = measured.find("two_values", Direction::forward); two && two->scaled_dot_ratio) {
    const double cost = 1 / *two->scaled_dot_ratio;
    section.claims.push_back({"MulT, 5", "One map serves two tasks: the cost of both against one",
                              "the map is computed once", fixed(cost, 2) + " × one task", "at most 1.6", cost <= 1.6,
                              Weight::informative, busy});
  }
  const auto* whole = measured.find("quadratic_generic", Direction::forward);
  const auto* factorised = measured.find("quadratic", Direction::forward);
  if (whole && factorised) {
    const double ratio = whole->seconds.median / factorised->seconds.median;
    section.claims.push_back({"Assignment 6, b.2", "Quadratic encoding needs no N × N scores when factorised",
                              "O(N²D_x) as written",
                              fixed(ratio, 1) + " × as fast, N = " + grouped(factorised->row.spec.sizes.keys), "faster",
                              ratio > 1, Weight::informative, busy});
  }
}

}  // namespace

Section run_speed(const Context& context) {
  Section section{"Speed of this machine", "all mechanisms"};
  section.say(
      "Every row is checked against a plain evaluation before it is timed. Rates are relative to this machine's matrix "
      "product (OpenBLAS, same threads, same run); “naive” is the time of the path that stores the score matrix, "
      "divided by ours. Other work on the machine lowers these numbers.");
  const bench::Plan plan = plan_of(context);
  const std::vector<bench::Row> rows = rows_for(plan, context);
  const auto total = static_cast<std::int64_t>(rows.size()) + 1;
  context.progress(0, total, "the machine's rates");
  bench::Sgemm sgemm(context.quick ? 1024 : 2048, plan.threads);
  const bench::Roofs roofs = measure_roofs(sgemm, plan.threads);
  Measured measured;
  for (std::size_t n = 0; n < rows.size(); ++n) {
    context.progress(static_cast<std::int64_t>(n) + 1, total, rows[n].spec.name + " " + name_of(rows[n].direction));
    try {
      measured.list.push_back(measure_row(rows[n], plan, roofs, sgemm));
    } catch (const bench::Stopped&) {
      throw Interrupted{};
    } catch (const bench::WrongResult& wrong) {
      throw Error("speed: wrong results: " + wrong.message);
    }
  }
  section.add(Table{"The machine's peak rates",
                    {"", "rate"},
                    {{"multiply-adds in registers", fixed(roofs.fma_peak, 1) + " GFLOP/s"},
                     {"sgemm " + std::to_string(roofs.sgemm_size) + "³", fixed(roofs.sgemm_rate, 1) + " GFLOP/s"},
                     {"reading memory", fixed(roofs.read_bandwidth, 1) + " GB/s"}}});
  Table table{"Shapes are batch, heads, length, head dimension",
              {"name", "direction", "shape", "time", "of sgemm", "naive ÷ ours"},
              {},
              3};
  pictures::Bars bars{"Fraction of the matrix-product rate", "of sgemm", {}, {{"forward", {}}, {"backward", {}}}};
  for (const bench::Measurement& m : measured.list) {
    table.rows.push_back({m.row.spec.name, name_of(m.row.direction), shape_text(m.row.spec.sizes),
                          time_text(m.seconds.median), fixed(m.fraction, 2),
                          m.naive_ratio ? significant(*m.naive_ratio) : "–"});
    if (bars.groups.empty() || bars.groups.back() != m.row.spec.name) {
      bars.groups.push_back(m.row.spec.name);
      for (bench::Direction way : {bench::Direction::forward, bench::Direction::backward}) {
        const bench::Measurement* one = measured.find(m.row.spec.name, way);
        bars.series[way == bench::Direction::forward ? 0 : 1].values.push_back(one ? one->fraction : NAN);
      }
    }
  }
  section.add(std::move(table));
  section.show("speed", draw(bars),
               "Multiply-adds that the formula needs, divided by those of a matrix product in the same time.");
  add_claims(measured, section);
  section.add(Commands{{"rapt bench --quick", "rapt bench"}});
  return section;
}

}  // namespace rapt::reproduce
