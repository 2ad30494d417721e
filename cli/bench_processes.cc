#include "cli/bench_processes.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <iostream>
#include <memory>
#include <numeric>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "benchmarks/process_memory.h"
#include "benchmarks/timing.h"
#include "cli/all_processors.h"
#include "cli/options.h"
#include "rapt/distributed.h"

namespace rapt::cli {
namespace {

// ProcessRows of a sequence. Each number depends only on its place, so that every process has what one would have.
struct Arrays {
  Shape shape;
  std::vector<float> q, k, v, out, grad, dq, dk, dv;

  Arrays(const Shape& whole, const Share& share) : shape(whole) {
    shape[2] = share.rows();
    const auto count = static_cast<std::size_t>(element_count(shape));
    for (auto* list : {&q, &k, &v, &out, &grad, &dq, &dk, &dv}) list->resize(count + 1);
    std::size_t at = 0;
    for (std::int64_t head = 0; head < shape[0] * shape[1]; ++head)
      for (const auto& [begin, end] :
           {std::pair{share.early_begin, share.early_end}, std::pair{share.late_begin, share.late_end}})
        for (std::int64_t n = (head * whole[2] + begin) * shape[3]; n < (head * whole[2] + end) * shape[3]; ++n, ++at) {
          q[at] = number(n, 1);
          k[at] = number(n, 2);
          v[at] = number(n, 3);
          grad[at] = number(n, 4);
        }
  }

  static float number(std::int64_t place, std::uint64_t which) {
    std::uint64_t x = static_cast<std::uint64_t>(place) * 0x9e3779b97f4a7c15ULL + which * 0xd1342543de82ef95ULL;
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9ULL;
    return static_cast<float>(x >> 40) * 0x1p-23F - 1.0F;
  }

  View view_of(std::vector<float>& numbers) const {
    return {numbers.data(), Dtype::f32, shape, contiguous_strides(shape), {}};
  }
  Inputs inputs() { return {view_of(q), view_of(k), {view_of(v)}}; }
  Gradients gradients() {
    Gradients g;
    g.q = view_of(dq);
    g.k = view_of(dk);
    g.v = {view_of(dv)};
    return g;
  }
  std::int64_t bytes() const { return 8 * element_count(shape) * 4; }
};

// Wall time of the slowest process, and processor time of all.
struct PassTime {
  double wall = 0, cpu = 0;
};
struct PassTimes {
  PassTime forward, backward;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
double cpu_now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

template <class Work>
PassTime pass_time(const Work& work) {
  const double cpu = cpu_now(), wall = seconds_now();
  work();
  return {seconds_now() - wall, cpu_now() - cpu};
}

PassTime median_of(const std::vector<PassTimes>& all, PassTime PassTimes::*of) {
  std::vector<double> wall, cpu;
  for (const PassTimes& one : all) {
    wall.push_back((one.*of).wall);
    cpu.push_back((one.*of).cpu);
  }
  return {bench::spread_of(std::move(wall)).median, bench::spread_of(std::move(cpu)).median};
}

// Of all processes.
std::vector<double> gathered(Communicator& world, double own) {
  const std::vector<std::byte> all = world.all_gather(&own, sizeof own);
  std::vector<double> numbers(all.size() / sizeof own);
  std::memcpy(numbers.data(), all.data(), all.size());
  return numbers;
}
double most(Communicator& world, double own) { return std::ranges::max(gathered(world, own)); }

PassTime over_all(Communicator& world, const PassTime& own) {
  const std::vector<double> cpu = gathered(world, own.cpu);
  return {most(world, own.wall), std::accumulate(cpu.begin(), cpu.end(), 0.0)};
}

// The engine of one process, on as many processors as all have together.
template <class Work>
auto on_all(AllProcessors& processors, const Work& work) {
  processors.widen();
  const auto result = work();
  processors.narrow();
  return result;
}

// A call and its gradients: over all processes, or in this one alone.
class MeasuredCall {
 public:
  MeasuredCall(const Shape& shape, const Share& share, const AttendOptions& options)
      : arrays_(shape, share), options_(options) {
    outputs_.out = {arrays_.view_of(arrays_.out)};
    outputs_.saved = &saved_;
  }

  PassTimes over(Communicator& world) {
    PassTimes times;
    most(world, 0);  // all start together
    times.forward = over_all(world, pass_time([&] { attend(arrays_.inputs(), outputs_, options_, world); }));
    times.backward = over_all(world, pass_time([&] {
                                attend_backward(arrays_.inputs(), {outputs_.out[0]}, {arrays_.view_of(arrays_.grad)},
                                                &saved_, arrays_.gradients(), options_, world);
                              }));
    return times;
  }
  PassTimes alone() {
    PassTimes times;
    times.forward = pass_time([&] { attend(arrays_.inputs(), outputs_, options_); });
    times.backward = pass_time([&] {
      attend_backward(arrays_.inputs(), {outputs_.out[0]}, {arrays_.view_of(arrays_.grad)}, &saved_,
                      arrays_.gradients(), options_);
    });
    return times;
  }
  std::int64_t bytes() const { return arrays_.bytes(); }

 private:
  Arrays arrays_;
  AttendOptions options_;
  Saved saved_;
  Outputs outputs_;
};

std::string two_digits(double one, double other) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", one / other);
  return text;
}

// Steps of training.
class TrainingRows {
 public:
  TrainingRows(Communicator& world, const ProcessesBench& what) : world_(world), what_(what), processors_(world) {
    table_.push_back({"model", "step", "of CPU time", "engine", "of CPU time", "ratio", "of CPU time"});
  }

  void add(const bench::TrainingCase& spec) {
    const auto over = bench::training_steps(spec, what_.threads, training::Processes(&world_));
    std::function<void()> alone;
    if (world_.rank() == 0) alone = bench::training_steps(spec, what_.threads * world_.size(), training::Processes());
    std::vector<PassTimes> times, engine;
    for (int n = 0; n <= what_.repeat; ++n) {
      PassTimes one;
      most(world_, 0);
      one.forward = over_all(world_, pass_time(over));
      if (alone) one.backward = on_all(processors_, [&] { return pass_time(alone); });
      most(world_, 0);
      if (n > 0) times.push_back(one);  // the first one fills caches and pages
    }
    const PassTime step = median_of(times, &PassTimes::forward), own = median_of(times, &PassTimes::backward);
    json_.push_back({{"model", spec.name},
                     {"processes", world_.size()},
                     {"threads", what_.threads},
                     {"runs", times.size()},
                     {"seconds", step.wall},
                     {"cpu_seconds", step.cpu},
                     {"engine_processors", processors_.all()},
                     {"engine_seconds", own.wall},
                     {"engine_cpu_seconds", own.cpu}});
    table_.push_back({spec.name, format_seconds(step.wall), format_seconds(step.cpu), format_seconds(own.wall),
                      format_seconds(own.cpu), two_digits(own.wall, step.wall), two_digits(own.cpu, step.cpu)});
  }

  const nlohmann::ordered_json& json() const { return json_; }
  const std::vector<std::vector<std::string>>& table() const { return table_; }

 private:
  Communicator& world_;
  const ProcessesBench& what_;
  AllProcessors processors_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> table_;
};

// Larger ones take too long, or more memory than there is.
bool is_short(const Shape& shape) {
  constexpr double kMostPairs = 2e10;
  return static_cast<double>(shape[0] * shape[1]) * static_cast<double>(shape[2]) * static_cast<double>(shape[2]) <=
         kMostPairs;
}

class ProcessRows {
 public:
  ProcessRows(Communicator& world, const ProcessesBench& what) : world_(world), what_(what), processors_(world) {
    if (what.only_memory) table_.push_back({"shape", "mask", "arrays a process", "peak a process"});
    else
      table_.push_back({"shape", "mask", "forward", "backward", "engine forward", "backward", "ratio", "backward",
                        "of CPU time", "backward", "arrays a process", "peak a process"});
  }

  void add(const Shape& shape, bool causal) {
    AttendOptions options;
    options.threads = what_.threads;
    if (causal) options.mask.causal = Causal::top_left;
    // The mask does not change the memory.
    const bool windowed = what_.only_memory && !is_short(shape);
    if (windowed) options.mask.window = Window{kWindow, kWindow};
    MeasuredCall calls(shape, share_of(shape[2], world_.rank(), world_.size()), options);
    const auto bytes = static_cast<double>(calls.bytes());
    std::vector<PassTimes> over, engine;
    const auto growth = bench::peak_growth([&] { over.push_back(calls.over(world_)); });
    const double peak = most(world_, bytes + static_cast<double>(growth.value_or(0)));
    nlohmann::ordered_json row{
        {"shape", shape}, {"causal", causal}, {"processes", world_.size()}, {"threads", what_.threads}};
    std::vector<std::string> cells{to_string(shape), causal ? "causal" : "none"};
    if (windowed) {
      row["window"] = kWindow;
      cells.back() += ", window " + std::to_string(kWindow);
    }
    if (!what_.only_memory) {
      std::unique_ptr<MeasuredCall> whole;
      options.threads = what_.threads * world_.size();
      if (is_short(shape) && world_.rank() == 0)
        whole = std::make_unique<MeasuredCall>(shape, share_of(shape[2], 0, 1), options);
      // Alternately, so that disturbances hit both alike. The first ones warm caches and pages.
      if (whole) on_all(processors_, [&] { return whole->alone(); });
      most(world_, 0);
      over.clear();
      for (int n = 0; n < what_.repeat; ++n) {
        over.push_back(calls.over(world_));
        if (whole) engine.push_back(on_all(processors_, [&] { return whole->alone(); }));
        most(world_, 0);  // the others wait
      }
      row["engine_processors"] = processors_.all();
      add_times(over, engine, row, cells);
    }
    row["array_bytes"] = most(world_, bytes);
    row["peak_bytes"] = peak;
    cells.insert(cells.end(), {format_bytes(most(world_, bytes)), format_bytes(peak)});
    json_.push_back(row);
    table_.push_back(cells);
  }

  const nlohmann::ordered_json& json() const { return json_; }
  const std::vector<std::vector<std::string>>& table() const { return table_; }

 private:
  static constexpr std::int64_t kWindow = 1024;

  static void add_times(const std::vector<PassTimes>& over, const std::vector<PassTimes>& engine,
                        nlohmann::ordered_json& row, std::vector<std::string>& cells) {
    const PassTime forward = median_of(over, &PassTimes::forward), backward = median_of(over, &PassTimes::backward);
    row["runs"] = over.size();
    row["forward_seconds"] = forward.wall;
    row["backward_seconds"] = backward.wall;
    row["forward_cpu_seconds"] = forward.cpu;
    row["backward_cpu_seconds"] = backward.cpu;
    cells.insert(cells.end(), {format_seconds(forward.wall), format_seconds(backward.wall)});
    if (engine.empty()) {
      cells.insert(cells.end(), 6, "-");
      return;
    }
    const PassTime alone = median_of(engine, &PassTimes::forward),
                   alone_backward = median_of(engine, &PassTimes::backward);
    row["engine_forward_seconds"] = alone.wall;
    row["engine_backward_seconds"] = alone_backward.wall;
    row["engine_forward_cpu_seconds"] = alone.cpu;
    row["engine_backward_cpu_seconds"] = alone_backward.cpu;
    cells.insert(cells.end(), {format_seconds(alone.wall), format_seconds(alone_backward.wall),
                               two_digits(alone.wall, forward.wall), two_digits(alone_backward.wall, backward.wall),
                               two_digits(alone.cpu, forward.cpu), two_digits(alone_backward.cpu, backward.cpu)});
  }

  Communicator& world_;
  const ProcessesBench& what_;
  AllProcessors processors_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> table_;
};

}  // namespace

void bench_processes(Communicator& world, const ProcessesBench& what) {
  const auto print = [&](const auto& rows) {
    if (what.json) std::cout << rows.json().dump(2) << "\n";
    else
      std::cout << counted(world.size(), "process") << " of " << counted(what.threads, "thread") << "\n"
                << format_table(rows.table());
  };
  if (!what.models.empty()) {
    TrainingRows rows(world, what);
    for (const bench::TrainingCase& model : what.models) rows.add(model);
    return print(rows);
  }
  ProcessRows rows(world, what);
  for (const Shape& shape : what.shapes)
    for (const bool causal : {false, true}) rows.add(shape, causal);
  print(rows);
}

}  // namespace rapt::cli
