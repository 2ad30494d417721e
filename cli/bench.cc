#include <cmath>
#include <iostream>
#include <memory>

#include <nlohmann/json.hpp>

#include "backends/mpi/session.h"
#include "benchmarks/growth.h"
#include "benchmarks/memory.h"
#include "benchmarks/rows.h"
#include "cli/bench_calls.h"
#include "cli/bench_device.h"
#include "cli/bench_images.h"
#include "cli/bench_multitask.h"
#include "cli/bench_processes.h"
#include "cli/bench_random.h"
#include "cli/bench_report.h"
#include "cli/bench_shared.h"
#include "cli/bench_train.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/parameters.h"
#include "cli/row_by_row.h"
#include "cli/verbs.h"
#include "formulas/builtin.h"
#include "rapt/registry.h"
#include "rapt/threads.h"

namespace rapt::cli {
namespace {

constexpr const char* kBenchFooter =
    "NAME is a mechanism or a normaliser (see rapt list), or a variant: causal, window256, short, decode,\n"
    "softcap, bias, two_values, three_values, four_values, weights_one_head, statistics, bf16, f16, f64,\n"
    "quadratic_generic, gaussian_axes. The first NAME may instead be\n"
    "  memory   the peak of forward and backward of each mechanism; exits with 1 where more than 64 MiB\n"
    "           are needed besides inputs, outputs and gradients\n"
    "  growth   how the time grows as the sequence doubles; after it also window, packed and key_lengths:\n"
    "           scaled_dot under masks that leave each query 128 keys, up to 1048576 positions\n"
    "  calls    what a short call costs on one thread: a loop written by hand, attend() and a plan\n"
    "           (rapt::Plan)\n"
    "  train    steps of training and greedy decoding of small_lstm, medium_lstm and small_transformer;\n"
    "           tokens are those of targets, with source: of both sides\n"
    "  processes  under mpirun: a call (--shape) over all processes beside the engine on as many threads;\n"
    "             followed by models of train: their steps\n"
    "  shared   what one more task costs where all share an attention map: 1, 2, 4 and 6 value sets\n"
    "  multitask  trains networks on scenes, for one task each, for all without sharing and with shared\n"
    "             attention, over several seeds, and prints their scores; --seeds, --seed, --epochs,\n"
    "             --reference, --config, --out\n"
    "  images   trains six image models (five encodings of attention, and a cnn) on digits and shapes, or\n"
    "           on those that follow, and prints test accuracy, parameters, multiply-adds of an image and\n"
    "           the time of an epoch; --seeds, --seed, --epochs, --out\n"
    "Results are checked before they are timed; where they are wrong, nothing is timed and the exit\n"
    "status is 1. Ctrl-C prints the rows that are done and says how many, with exit 130; a second one\n"
    "ends at once.\n"
    "\n"
    "--random N draws N shapes from ranges, for kinds of work in turn (short, vit, cross, grouped, bert,\n"
    "one_head, long, causal), the same for a --seed on every machine, and measures them in each --dtype\n"
    "and on each number of --threads; then come lowest and median, by kind and over all. --dry-run prints\n"
    "the shapes alone.\n"
    "\n"
    "GFLOP/s count the products of visible pairs (of --visible: its part on j-i): two forward, five\n"
    "backward.\n"
    "of sgemm: of OpenBLAS in the same run. naive: its time ÷ ours. scaled_dot: its time ÷ ours, same\n"
    "shape. compiled: the time of the mechanism that a formula equals, on the same numbers, ÷ the\n"
    "formula's. extra: memory besides inputs and outputs.\n"
    "\n"
    "With --device cuda arrays are copied to the GPU once and calls are timed by its own clock; the rows\n"
    "are mechanisms, normalisers, causal, odd, odd_causal, softcap, window256, bias, two_values, decode,\n"
    "f16 and f32, in bf16 unless --dtype says otherwise; with --formula and no NAME that alone. burst: a\n"
    "few calls after a rest; back to back: calls without a pause for half a second. of cuBLAS: of a\n"
    "product of 8192³ in the same dtype, just before; missing where libcublas is not found.\n"
    "\n"
    "Examples:\n"
    "  rapt bench\n"
    "  rapt bench scaled_dot causal --shape 2,8,2048,64 --threads 4 --json\n"
    "  rapt bench scaled_dot alibi --device cuda --dtype bf16\n"
    "  rapt bench --random 40 --seed 7 --dtype f32,bf16 --threads 1,2,all\n"
    "  rapt bench --random 200 --dry-run --json\n"
    "  rapt bench --formula 'raw*scale - m*abs(i-j)'\n"
    "  rapt bench memory additive --shape 1,4,8192,64\n"
    "  mpirun -n 4 rapt bench memory --shape 1,1,262144,64   (of a process; see docs/scale.md)\n"
    "  mpirun -n 2 rapt bench processes --shape 1,1,32768,64 --threads 1 --repeat 5\n"
    "  mpirun -n 2 rapt bench processes medium_lstm --threads 1\n"
    "  rapt bench train small_lstm --threads 2\n"
    "  rapt bench shared --shape 1,8,1024,64\n"
    "  rapt bench multitask --seeds 3 --reference skip,depth --out runs/multitask\n"
    "  rapt bench images digits --seeds 3 --out runs/images\n";

struct BenchArguments {
  std::vector<std::string> names;
  std::vector<std::string> shapes;
  std::string threads;
  std::string direction = "both";
  std::string dtype;
  std::string repeat;
  std::string device;
  FormulaTexts formula;
  bool json = false;
  bool quick = false;
  bool no_naive = false;
  bool dry_run = false;
  std::string random;
  BenchMultitaskArguments multitask;
};

bench::Sizes parse_shape(const std::string& text) {
  const char* takes = "B,H,S,D: four whole numbers from 1";
  const auto sizes = parse_integers("bench: --shape", text, takes, 4);
  for (const std::int64_t size : sizes)
    if (size < 1 || size > (std::int64_t{1} << 24)) refuse("bench: --shape", text, takes);
  // Inputs, outputs and gradients in f32; more than the machine has would end in a signal.
  double bytes = 9 * 4;
  for (const std::int64_t size : sizes) bytes *= static_cast<double>(size);
  if (const auto memory = static_cast<double>(available_memory()); bytes > memory)
    refuse("bench: --shape", text, "arrays that fit the " + format_bytes(memory) + " of memory left");
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

bench::Plan make_plan(const BenchArguments& arguments) {
  bench::Plan plan;
  plan.names = arguments.names;
  for (const std::string& text : arguments.shapes) plan.shapes.push_back(parse_shape(text));
  plan.threads = arguments.threads.empty() ? default_threads() : parse_threads("bench: --threads", arguments.threads);
  plan.directions = parse_direction(arguments.direction);
  if (!arguments.dtype.empty()) plan.dtype = parse_dtype("bench: --dtype", arguments.dtype);
  if (const FormulaTexts& texts = arguments.formula; texts.any()) {
    const formulas::EqualMechanism equal = formulas::equal_mechanism(texts.score, texts.pair);
    plan.formula = bench::FormulaRow{read_score("bench", "", texts), std::string(equal.name), equal.softcap};
  }
  plan.naive = !arguments.no_naive;
  plan.quick = arguments.quick;
  if (plan.quick) {
    plan.effort = {.least_runs = 3, .least_seconds = 0.02, .most_seconds = 1};
    plan.naive_seconds = 0.2;
  }
  if (const std::optional<int> runs = parse_repeat(arguments.repeat))
    plan.effort = {.least_runs = *runs, .least_seconds = 0, .most_seconds = 1e9};
  plan.effort.stop = Interrupt::asked;
  return plan;
}

std::vector<std::string> row_cells(const bench::Measurement& m, const bench::Roofs& roofs) {
  return {m.row.spec.name,
          name_of(m.row.direction),
          shape_text(m.row.spec),
          format_seconds(m.seconds.median),
          quarters_text(m.seconds),
          optional_text(m.fraction, "%.2f"),
          optional_text(m.naive_ratio),
          optional_text(m.scaled_dot_ratio, "%.2f"),
          optional_text(m.compiled_ratio, "%.2f"),
          m.peak_bytes ? format_bytes(static_cast<double>(*m.peak_bytes)) : "–",
          rate_text(m, roofs)};
}

void run_rows(const BenchArguments& arguments) {
  const bench::Plan plan = make_plan(arguments);
  const std::vector<bench::Row> rows = rows_of(plan);
  RowByRow run("bench", rows.size());
  bench::Sgemm sgemm(plan.quick ? 512 : 2048, plan.threads);
  const bench::Roofs roofs = measure_roofs(sgemm, plan.threads);
  Json json = Json::array();
  Table table{
      {"name", "direction", "shape", "time", "spread", "of sgemm", "naive", "scaled_dot", "compiled", "extra", "rate"}};
  for (const bench::Row& row : rows) {
    const std::string label = row.spec.name + " " + name_of(row.direction);
    const bool goes_on = run.measure(label, "shape " + shape_text(row.spec), [&] {
      const bench::Measurement m = measure_row(row, plan, roofs, sgemm);
      if (arguments.json) json.push_back(measurement_json(m, roofs, plan.threads));
      else table.push_back(row_cells(m, roofs));
    });
    if (!goes_on) break;
  }
  run.clear();
  if (arguments.json) {
    print_bench({{"roofs", roofs_json(roofs)}, {"rows", json}}, run.stopped());
  } else {
    print_roofs(roofs, plan.threads);
    std::cout << format_table(table);
  }
  run.end();
}

// The mechanisms among the names that follow `memory` or `growth`; without a name, all.
std::vector<bench::Spec> mechanism_specs(const BenchArguments& arguments, const bench::Plan& plan,
                                         const bench::Sizes& sizes) {
  std::vector<std::string> names(arguments.names.begin() + 1, arguments.names.end());
  if (names.empty())
    for (const MechanismInfo* info : all_mechanisms()) names.emplace_back(info->name());
  std::vector<bench::Spec> specs;
  for (const std::string& name : names)
    for (const bench::Sizes& shape : plan.shapes.empty() ? std::vector{sizes} : plan.shapes) {
      bench::Spec spec;
      spec.name = spec.mechanism = mechanism(name).name();
      spec.sizes = shape;
      if (plan.dtype) spec.dtype = *plan.dtype;
      specs.push_back(spec);
    }
  return specs;
}

void run_memory(const BenchArguments& arguments) {
  const bench::Plan plan = make_plan(arguments);
  const std::vector<bench::Spec> specs = mechanism_specs(arguments, plan, {1, 4, 32768, 64});
  RowByRow run("bench memory", specs.size());
  Json rows = Json::array();
  Table table{{"mechanism", "shape", "arrays", "peak", "extra", "at most 64 MiB", "time"}};
  bool all_within = true;
  const auto measure = [&](const bench::Spec& spec) {
    const bench::MemoryUse use = bench::measure_memory(spec, plan.threads, plan.effort.stop);
    const bool within = use.extra_bytes() <= bench::kExtraLimit;
    all_within = all_within && within;
    rows.push_back({{"name", use.spec.name},
                    {"mechanism", use.spec.mechanism},
                    {"shape", shape_json(use.spec)},
                    {"threads", plan.threads},
                    {"isa", name_of(active_isa())},
                    {"dtype", name_of(use.spec.dtype)},
                    {"array_bytes", use.array_bytes},
                    {"baseline_bytes", use.baseline_bytes},
                    {"peak_bytes", use.peak_bytes},
                    {"extra_bytes", use.extra_bytes()},
                    {"limit_bytes", bench::kExtraLimit},
                    {"within", within},
                    {"seconds", use.seconds}});
    const auto bytes = [](std::int64_t count) { return format_bytes(static_cast<double>(count)); };
    table.push_back({use.spec.name, shape_text(use.spec), bytes(use.array_bytes),
                     bytes(use.peak_bytes - use.baseline_bytes), bytes(use.extra_bytes()), within ? "yes" : "NO",
                     format_seconds(use.seconds)});
  };
  for (const bench::Spec& spec : specs)
    if (!run.measure(spec.name, "", [&] { measure(spec); })) break;
  run.clear();
  if (arguments.json) print_bench({{"rows", rows}}, run.stopped());
  else std::cout << format_table(table);
  run.end();
  if (!all_within) throw ExitStatus{1};
}

// scaled_dot under a mask whose pairs grow with the sequence, not with its square.
std::optional<bench::Spec> masked_spec(const std::string& name) {
  bench::Spec spec;
  spec.name = name;
  spec.sizes = {1, 1, std::int64_t{1} << 20, 16};
  if (name == "window") spec.window = Window{64, 63};
  else if (name == "packed") spec.packed = 128;
  else if (name == "key_lengths") spec.key_length = 128;
  else return std::nullopt;
  return spec;
}

std::vector<bench::Spec> growth_specs(const BenchArguments& arguments, const bench::Plan& plan) {
  BenchArguments others = arguments;
  std::vector<bench::Spec> specs;
  std::erase_if(others.names, [&](const std::string& name) {
    std::optional<bench::Spec> spec = masked_spec(name);
    for (const bench::Sizes& shape : spec&& plan.shapes.empty() ? std::vector{spec->sizes} : plan.shapes) {
      if (!spec) break;
      spec->sizes = shape;
      if (plan.dtype) spec->dtype = *plan.dtype;
      specs.push_back(*spec);
    }
    return spec.has_value();
  });
  if (others.names.size() == 1 && !specs.empty()) return specs;
  for (bench::Spec& spec : mechanism_specs(others, plan, {1, 8, 8192, 64})) specs.push_back(std::move(spec));
  return specs;
}

void run_growth(const BenchArguments& arguments) {
  const bench::Plan plan = make_plan(arguments);
  const std::vector<bench::Spec> specs = growth_specs(arguments, plan);
  const double budget = plan.quick ? 0.5 : 20;
  RowByRow run("bench growth", specs.size() * plan.directions.size());
  Json rows = Json::array();
  Table table{{"mechanism", "direction", "shape", "time", "× the half", "exponent"}};
  const auto measure = [&](const bench::Spec& spec, bench::Direction direction) {
    double before = 0;
    for (const bench::GrowthPoint& point : measure_growth(spec, direction, plan.threads, budget, plan.effort.stop)) {
      bench::Spec at = spec;
      at.sizes.keys = point.length;
      std::optional<double> growth, exponent;
      if (before > 0) growth = point.seconds.median / before, exponent = std::log2(*growth);
      before = point.seconds.median;
      rows.push_back({{"name", spec.name},
                      {"mechanism", spec.mechanism},
                      {"direction", name_of(direction)},
                      {"shape", shape_json(at)},
                      {"threads", plan.threads},
                      {"isa", name_of(active_isa())},
                      {"seconds", point.seconds.median},
                      {"spread", {point.seconds.low, point.seconds.high}},
                      {"growth", optional_json(growth)},
                      {"exponent", optional_json(exponent)}});
      table.push_back({spec.name, name_of(direction), shape_text(at), format_seconds(point.seconds.median),
                       optional_text(growth, "%.2f"), optional_text(exponent, "%.2f")});
    }
  };
  bool goes_on = true;
  for (const bench::Spec& spec : specs)
    for (const bench::Direction direction : plan.directions)
      goes_on = goes_on && run.measure(spec.name + " " + name_of(direction), "", [&] { measure(spec, direction); });
  run.clear();
  if (arguments.json) print_bench({{"rows", rows}}, run.stopped());
  else std::cout << format_table(table);
  run.end();
}

void run_training(const BenchArguments& arguments) {
  if (!arguments.shapes.empty())
    throw Error("bench train: --shape: expected none, since each model has its own, got one");
  if (!arguments.dtype.empty())
    throw Error("bench train: --dtype: expected none, since models are trained in f32, got one");
  using Jobs = std::vector<bench::Job>;
  const Jobs both{bench::Job::train, bench::Job::decode};
  const Jobs jobs =
      parse_choice<Jobs>("bench train: --direction", arguments.direction,
                         {{"train", Jobs{bench::Job::train}}, {"decode", Jobs{bench::Job::decode}}, {"both", both}});
  BenchArguments rest = arguments;
  rest.direction = "both";
  const bench::Plan plan = make_plan(rest);
  bench_training({{arguments.names.begin() + 1, arguments.names.end()},
                  jobs,
                  plan.threads,
                  plan.effort,
                  arguments.quick,
                  arguments.json});
}

void require_alone(const BenchArguments& arguments) {
  if (arguments.names.size() > 1)
    throw Error("bench " + arguments.names[0] + ": expected no further names, got '" + arguments.names[1] + "'");
}

void run_multitask(const BenchArguments& arguments) {
  require_alone(arguments);
  if (!arguments.shapes.empty() || !arguments.dtype.empty() || !arguments.repeat.empty())
    throw Error(
        "bench multitask: expected no --shape, --dtype or --repeat, since networks are trained, not timed, got one");
  BenchMultitaskArguments a = arguments.multitask;
  a.threads = make_plan(arguments).threads;
  a.quick = arguments.quick;
  a.json = arguments.json;
  bench_multitask(a);
}

void run_images(const BenchArguments& arguments) {
  const BenchMultitaskArguments& given = arguments.multitask;
  if (!arguments.shapes.empty() || !arguments.dtype.empty() || !arguments.repeat.empty())
    throw Error("bench images: expected no --shape, --dtype or --repeat, since models are trained, not timed, got one");
  if (!given.reference.empty() || !given.config.empty())
    throw Error("bench images: expected no --reference or --config, which belong to bench multitask, got one");
  BenchImagesArguments a;
  a.tasks.assign(arguments.names.begin() + 1, arguments.names.end());
  a.seeds = given.seeds;
  a.seed = given.seed;
  a.epochs = given.epochs;
  a.out = given.out;
  a.threads = make_plan(arguments).threads;
  a.quick = arguments.quick;
  a.json = arguments.json;
  bench_images(a);
}

void require_no_training(const BenchArguments& arguments) {
  const BenchMultitaskArguments& a = arguments.multitask;
  for (const auto& [name, text] : {std::pair{"seeds", &a.seeds},
                                   {"seed", &a.seed},
                                   {"epochs", &a.epochs},
                                   {"reference", &a.reference},
                                   {"config", &a.config},
                                   {"out", &a.out}})
    if (!text->empty())
      throw Error(std::string("bench: --") + name + ": expected " +
                  (std::string_view(name) == "seed" ? "--random, multitask or images" : "multitask or images") +
                  " beside it, got neither");
}

// Under mpirun: `memory` is per process; process 0 measures all else.
bool run_over_processes(const BenchArguments& arguments, const std::string& first) {
  Communicator* const world = mpi::world();
  if (!world && first == "processes")
    throw Error("bench processes: expected several processes: mpirun -n N rapt bench processes");
  if (!world) return false;
  if (first != "memory" && first != "processes") return world->rank() > 0;
  const std::vector<std::string> more(arguments.names.begin() + 1, arguments.names.end());
  if (first == "memory" && !more.empty())
    throw Error("bench memory: expected no further name over several processes, got '" + more[0] + "'");
  if (!more.empty() && !arguments.shapes.empty())
    throw Error("bench processes: expected models to train or --shape for calls, got both");
  std::vector<Shape> shapes;
  for (const std::string& text : arguments.shapes) {
    const auto sizes = parse_integers("bench: --shape", text, "B,H,S,D: four whole numbers", 4);
    shapes.push_back({sizes[0], sizes[1], sizes[2], sizes[3]});
  }
  if (shapes.empty()) shapes.push_back({1, 8, arguments.quick ? 1024 : 32768, 64});
  const int threads =
      arguments.threads.empty() ? default_threads() : parse_threads("bench: --threads", arguments.threads);
  constexpr int kRuns = 5;
  const int repeat = parse_repeat(arguments.repeat).value_or(arguments.quick ? 1 : kRuns);
  const auto models = more.empty() ? std::vector<bench::TrainingCase>{} : bench::training_cases(more, arguments.quick);
  bench_processes(*world, {shapes, models, threads, repeat, first == "memory", arguments.json});
  return true;
}

void run_on_device(const BenchArguments& arguments, Device::Kind kind) {
  require_no_training(arguments);
  bench_device(make_plan(arguments), kind, parse_repeat(arguments.repeat), arguments.json);
}

// Shapes, dtypes and numbers of threads have lists of their own; the rest of the plan is for other rows.
void run_random(const BenchArguments& arguments) {
  if (!arguments.names.empty() || !arguments.shapes.empty() || arguments.formula.any())
    throw Error(
        "bench: --random: expected no name, --shape or formula, since shapes are drawn for scaled_dot, got one");
  if (!arguments.device.empty() && arguments.device != "cpu")
    throw Error("bench: --random: --device: expected cpu, got '" + arguments.device + "'");
  BenchArguments rest = arguments;
  rest.threads = rest.dtype = rest.multitask.seed = "";
  require_no_training(rest);
  bench::Plan plan = make_plan(rest);
  plan.beside = false;
  if (arguments.repeat.empty() && !plan.quick) plan.effort.least_seconds = 0.2, plan.naive_seconds = 1;
  bench_random({arguments.random, arguments.multitask.seed, arguments.threads, arguments.dtype, arguments.json,
                arguments.dry_run},
               plan);
}

void run_bench(const BenchArguments& arguments) {
  const std::string first = arguments.names.empty() ? "" : arguments.names[0];
  if (run_over_processes(arguments, first)) return;
  if (!arguments.random.empty()) return run_random(arguments);
  if (arguments.dry_run) throw Error("bench: --dry-run: expected --random N with it, got none");
  if (!arguments.device.empty()) {
    const auto kind = parse_choice<Device::Kind>("bench: --device", arguments.device,
                                                 {{"cpu", Device::Kind::cpu}, {"cuda", Device::Kind::cuda}});
    if (kind != Device::Kind::cpu) return run_on_device(arguments, kind);
  }
  const bool rows = first.empty() || std::ranges::count(bench::known_names(), first) > 0;
  if (arguments.formula.any() && !rows)
    throw Error("bench " + first + ": expected no --formula, --pair or --visible, got one");
  if (first == "multitask") return run_multitask(arguments);
  if (first == "images") return run_images(arguments);
  require_no_training(arguments);
  if (first == "shared") {
    require_alone(arguments);
    return bench_shared(make_plan(arguments), arguments.json);
  }
  if (first == "calls") {
    require_alone(arguments);
    if (arguments.direction != "both" || !arguments.threads.empty())
      throw Error(
          "bench calls: expected no --direction or --threads, since forward passes on one thread are timed, got one");
    return bench_calls(make_plan(arguments), arguments.json);
  }

  if (first == "memory") run_memory(arguments);
  else if (first == "growth") run_growth(arguments);
  else if (first == "train") run_training(arguments);
  else run_rows(arguments);
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("bench", "Speed and memory of every mechanism, against what this machine can do");
  auto arguments = std::make_shared<BenchArguments>();
  BenchArguments& a = *arguments;
  verb->add_option(
          "NAME", a.names,
          "Mechanisms or variants [all]; or memory, growth, calls, train, processes, shared, multitask or images")
      ->type_name("");
  // One value per option, so that a NAME may follow.
  verb->add_option("--shape", a.shapes, "In place of each row's own; may be repeated")
      ->allow_extra_args(false)
      ->type_name("B,H,S,D")
      ->check(value_given());
  const auto expression = [&](const char* name, std::string& to, const char* help) {
    verb->add_option(name, to, help)->type_name("EXPR")->check(value_given());
  };
  expression("--formula", a.formula.score,
             "A score as text, beside the mechanism that it equals; see docs/formulas.md");
  expression("--pair", a.formula.pair, "Of the formula");
  expression("--visible", a.formula.visible, "Of the formula");
  verb->add_option("--threads", a.threads, "Threads [all processors]; with --random a list [1,2,8,all]")
      ->type_name("N")
      ->check(value_given());
  verb->add_option("--direction", a.direction,
                   "forward, backward or both; after train: train, decode or both [" + a.direction + "]")
      ->type_name("WAY")
      ->check(value_given());
  verb->add_option("--dtype", a.dtype,
                   "f32, f64, bf16 or f16 [each row's own, mostly f32; with --device cuda bf16]; with --random a list "
                   "[f32,bf16]")
      ->type_name("TYPE")
      ->check(value_given());
  verb->add_option("--device", a.device, "Where to compute [cpu]")->type_name("cpu|cuda")->check(value_given());
  verb->add_option("--repeat", a.repeat,
                   "Run each measurement N times; without it, at least 5 times and for half a second, but not much "
                   "more than 20 s")
      ->type_name("N")
      ->check(value_given());
  verb->add_option("--random", a.random, "Draw N shapes from ranges; see below")->type_name("N")->check(value_given());
  verb->add_flag("--dry-run", a.dry_run, "With --random: print the shapes, measure nothing");
  const auto trained = [&](const char* name, std::string& text, const char* help, const char* type) {
    verb->add_option(name, text, help)->type_name(type)->check(value_given())->group("multitask and images");
  };
  trained("--seeds", a.multitask.seeds, "Runs per network [3]", "N");
  trained("--seed", a.multitask.seed, "First seed, or the seed of --random [1]", "N");
  trained("--epochs", a.multitask.epochs, "Of each training", "N");
  trained("--reference", a.multitask.reference, "What shared maps are made from: skip, or tasks [skip]", "NAME,...");
  trained("--config", a.multitask.config, "A JSON file of settings, as rapt train takes it", "FILE");
  trained("--out", a.multitask.out, "Keep the runs there; existing runs are resumed", "DIR");
  verb->add_flag("--json", a.json, "Print JSON");
  verb->add_flag("--quick", a.quick, "The first shape of each and few runs: to see that it works, not how fast it is");
  verb->add_flag("--no-naive", a.no_naive, "Leave the naive path out");
  verb->footer(kBenchFooter);
  verb->callback([arguments] { run_bench(*arguments); });
}

}  // namespace rapt::cli
