#include "cli/bench_random.h"

#include <algorithm>
#include <iostream>
#include <map>

#include "attend/counted.h"
#include "benchmarks/random_shapes.h"
#include "cli/bench_report.h"
#include "cli/row_by_row.h"
#include "rapt/error.h"
#include "rapt/threads.h"

namespace rapt::cli {
namespace {

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',') parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

struct ThreadCounts {
  std::vector<int> measured;
  std::vector<int> left_out;  // more than this process may use
};

ThreadCounts read_threads(const std::string& text) {
  const int all = default_threads();
  ThreadCounts counts;
  for (const std::string& part : parts_of(text.empty() ? "1,2,8,all" : text)) {
    const int count = part == "all" ? all : parse_threads("bench: --threads", part);
    std::vector<int>& list = count <= all ? counts.measured : counts.left_out;
    if (std::ranges::count(list, count) == 0) list.push_back(count);
  }
  if (counts.measured.empty())
    throw Error("bench: --threads: expected at most the " + std::to_string(all) + " that this process may use, got '" +
                text + "'");
  return counts;
}

std::vector<Dtype> read_dtypes(const std::string& text) {
  std::vector<Dtype> list;
  for (const std::string& part : parts_of(text.empty() ? "f32,bf16" : text))
    if (const Dtype dtype = parse_dtype("bench: --dtype", part); std::ranges::count(list, dtype) == 0)
      list.push_back(dtype);
  return list;
}

std::string left_out_text(const ThreadCounts& counts) {
  std::string text;
  for (const int count : counts.left_out) text += (text.empty() ? "" : ", ") + std::to_string(count);
  return text;
}

Json spec_json(const bench::Spec& spec) {
  return {{"kind", spec.name},
          {"batch", spec.sizes.batch},
          {"heads", spec.sizes.heads},
          {"key_heads", spec.key_head_count()},
          {"queries", spec.query_count()},
          {"keys", spec.sizes.keys},
          {"dim", spec.sizes.dim},
          {"causal", spec.causal != Causal::none}};
}

std::vector<std::string> spec_cells(const bench::Spec& spec) {
  std::string heads = std::to_string(spec.sizes.heads);
  if (spec.key_head_count() != spec.sizes.heads) heads += "/" + std::to_string(spec.key_head_count());
  return {spec.name,
          std::to_string(spec.sizes.batch),
          heads,
          std::to_string(spec.query_count()),
          std::to_string(spec.sizes.keys),
          std::to_string(spec.sizes.dim)};
}

void append(std::vector<std::string>& cells, std::initializer_list<std::string> more) {
  cells.insert(cells.end(), more);
}

void print_shapes(const std::vector<bench::Spec>& specs, const ThreadCounts& threads, const std::vector<Dtype>& dtypes,
                  std::uint64_t seed, bool json) {
  if (!json) {
    Table table{{"kind", "batch", "heads", "queries", "keys", "dim"}};
    for (const bench::Spec& spec : specs) table.push_back(spec_cells(spec));
    std::cout << format_table(table);
    return;
  }
  Json kinds = Json::object(), shapes = Json::array(), names = Json::array();
  for (const bench::ShapeKind& kind : bench::shape_kinds()) kinds[std::string(kind.name)] = kind.work;
  for (const bench::Spec& spec : specs) shapes.push_back(spec_json(spec));
  for (const Dtype dtype : dtypes) names.push_back(name_of(dtype));
  std::cout << Json{{"seed", seed},
                    {"kinds", kinds},
                    {"threads", threads.measured},
                    {"threads_left_out", threads.left_out},
                    {"dtypes", names},
                    {"shapes", shapes}}
                   .dump(2)
            << "\n";
}

// What rows are grouped by; empty: one group.
struct Group {
  std::string kind, direction, dtype;
  int threads = 0;
  auto operator<=>(const Group&) const = default;
};

struct Summary {
  std::vector<double> fractions, naive;

  void add(const bench::Measurement& m) {
    fractions.push_back(m.fraction);
    if (m.naive_ratio) naive.push_back(*m.naive_ratio);
  }
};

std::optional<double> lowest(const std::vector<double>& list) {
  return list.empty() ? std::nullopt : std::optional(*std::ranges::min_element(list));
}

std::optional<double> median(const std::vector<double>& list) {
  return list.empty() ? std::nullopt : std::optional(bench::spread_of(list).median);
}

// In the order of each group's first row; a group over all kinds follows its kinds.
class Summaries {
 public:
  void add(const bench::Measurement& m, int threads) {
    const Group group{m.row.spec.name, name_of(m.row.direction), name_of(m.row.spec.dtype), threads};
    at(kinds_, group).add(m);
    at(all_, {"all", group.direction, group.dtype, threads}).add(m);
  }

  Json json() const {
    Json list = Json::array();
    each([&](const Group& group, const Summary& s) {
      list.push_back(
          {{"kind", group.kind},
           {"direction", group.direction},
           {"dtype", group.dtype},
           {"threads", group.threads},
           {"rows", s.fractions.size()},
           {"fraction",
            {{"lowest", optional_json(lowest(s.fractions))}, {"median", optional_json(median(s.fractions))}}},
           {"naive_ratio", {{"lowest", optional_json(lowest(s.naive))}, {"median", optional_json(median(s.naive))}}}});
    });
    return list;
  }

  void print() const {
    Table table{
        {"kind", "direction", "dtype", "threads", "rows", "of sgemm: lowest", "median", "naive: lowest", "median"}};
    each([&](const Group& group, const Summary& s) {
      table.push_back({group.kind, group.direction, group.dtype, std::to_string(group.threads),
                       std::to_string(s.fractions.size()), optional_text(lowest(s.fractions), "%.2f"),
                       optional_text(median(s.fractions), "%.2f"), optional_text(lowest(s.naive)),
                       optional_text(median(s.naive))});
    });
    std::cout << "\n" << format_table(table);
  }

 private:
  using List = std::vector<std::pair<Group, Summary>>;

  static Summary& at(List& list, const Group& group) {
    const auto found = std::ranges::find(list, group, &List::value_type::first);
    return found != list.end() ? found->second : list.emplace_back(group, Summary{}).second;
  }

  template <class F>
  void each(F visit) const {
    for (const List* list : {&kinds_, &all_})
      for (const auto& [group, summary] : *list) visit(group, summary);
  }

  List kinds_, all_;
};

std::string where_text(const bench::Spec& spec) {
  std::string text;
  for (const std::string& cell : spec_cells(spec)) text += (text.empty() ? "" : " ") + cell;
  return text;
}

}  // namespace

void bench_random(const BenchRandomArguments& arguments, const bench::Plan& given) {
  const std::int64_t count = parse_within("bench: --random", arguments.count, 1, 100'000);
  const auto seed = static_cast<std::uint64_t>(
      arguments.seed.empty() ? 1 : parse_within("bench: --seed", arguments.seed, 0, std::int64_t{1} << 62));
  const ThreadCounts threads = read_threads(arguments.threads);
  const std::vector<Dtype> dtypes = read_dtypes(arguments.dtypes);
  const std::vector<bench::Spec> specs = bench::random_specs(count, seed);
  if (arguments.dry_run) return print_shapes(specs, threads, dtypes, seed, arguments.json);

  bench::Plan plan = given;
  RowByRow run("bench", threads.measured.size() * dtypes.size() * specs.size() * plan.directions.size());
  Json rows = Json::array(), all_roofs = Json::array();
  Table table{{"kind", "batch", "heads", "queries", "keys", "dim", "direction", "dtype", "threads", "time", "spread",
               "of sgemm", "naive", "rate"}};
  Summaries summaries;
  bool goes_on = true;
  for (const int thread_count : threads.measured) {
    if (!goes_on) break;
    plan.threads = thread_count;
    bench::Sgemm sgemm(plan.quick ? 512 : 1024, thread_count);
    const bench::Roofs roofs = measure_roofs(sgemm, thread_count);
    all_roofs.push_back(roofs_json(roofs));
    all_roofs.back()["threads"] = thread_count;
    for (bench::Spec spec : specs)
      for (const Dtype dtype : dtypes)
        for (const bench::Direction direction : plan.directions) {
          spec.dtype = dtype;
          if (!goes_on) break;
          const std::string label = spec.name + " " + name_of(dtype) + " " + name_of(direction);
          goes_on = run.measure(label, where_text(spec), [&] {
            const bench::Measurement m = measure_row({spec, direction}, plan, roofs, sgemm);
            summaries.add(m, thread_count);
            rows.push_back(measurement_json(m, roofs, thread_count));
            rows.back().update(spec_json(spec));
            std::vector<std::string> cells = spec_cells(spec);
            append(cells, {name_of(direction), name_of(dtype), std::to_string(thread_count),
                           format_seconds(m.seconds.median), quarters_text(m.seconds),
                           optional_text(m.fraction, "%.2f"), optional_text(m.naive_ratio), rate_text(m, roofs)});
            table.push_back(std::move(cells));
          });
        }
  }
  run.clear();
  if (arguments.json) {
    print_bench({{"seed", seed},
                 {"threads_left_out", threads.left_out},
                 {"roofs", all_roofs},
                 {"rows", rows},
                 {"summary", summaries.json()}},
                run.stopped());
    return run.end();
  }
  std::cout << name_of(active_isa()) << ", " << counted(count, "shape") << " of seed " << seed << "\n";
  if (!threads.left_out.empty())
    std::cout << "left out: " << left_out_text(threads) << " threads; this process may use " << default_threads()
              << "\n";
  std::cout << "\n" << format_table(table);
  summaries.print();
  run.end();
}

}  // namespace rapt::cli
