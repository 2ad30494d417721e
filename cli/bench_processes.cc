#include "cli/bench_processes.h"

#include <algorithm>
#include <chrono>
#include <iostream>

#include <nlohmann/json.hpp>

#include "benchmarks/process_memory.h"
#include "cli/options.h"
#include "rapt/distributed.h"

namespace rapt::cli {
namespace {

// Rows of a sequence: each number follows from its place alone, so that every process has what one would have.
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

struct Times {
  double forward = 0, backward = 0;
};

template <class Forward, class Backward>
Times timed(const Forward& forward, const Backward& backward) {
  const auto seconds = [](const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Times times;
  times.forward = seconds(forward);
  times.backward = seconds(backward);
  return times;
}

// The most of all processes.
double most(Communicator& world, double own) {
  const std::vector<std::byte> all = world.all_gather(&own, sizeof own);
  double result = own;
  for (std::size_t n = 0; n < all.size(); n += sizeof own) {
    double one = 0;
    std::copy_n(all.data() + n, sizeof one, reinterpret_cast<std::byte*>(&one));
    result = std::max(result, one);
  }
  return result;
}

// The engine alone, where its arrays fit and it does not take for ever.
std::optional<Times> alone(Communicator& world, const Shape& shape, const AttendOptions& given, int threads) {
  const double pairs =
      static_cast<double>(shape[0] * shape[1]) * static_cast<double>(shape[2]) * static_cast<double>(shape[2]);
  if (pairs > 2e10) return std::nullopt;
  Times times;
  if (world.rank() == 0) {
    AttendOptions options = given;
    options.threads = threads * world.size();
    Arrays arrays(shape, share_of(shape[2], 0, 1));
    Saved saved;
    Outputs outputs;
    outputs.out = {arrays.view_of(arrays.out)};
    outputs.saved = &saved;
    times = timed([&] { attend(arrays.inputs(), outputs, options); },
                  [&] {
                    attend_backward(arrays.inputs(), {outputs.out[0]}, {arrays.view_of(arrays.grad)}, &saved,
                                    arrays.gradients(), options);
                  });
  }
  most(world, 0);  // the others wait
  return times;
}

}  // namespace

void bench_processes(Communicator& world, const std::vector<Shape>& shapes, int threads, bool json) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> table{{"shape", "mask", "forward", "backward", "engine forward", "backward",
                                               "ratio", "backward", "arrays a process", "peak a process"}};
  for (const Shape& shape : shapes)
    for (const bool causal : {false, true}) {
      AttendOptions options;
      options.threads = threads;
      if (causal) options.mask.causal = Causal::top_left;
      Times times;
      double peak = 0, bytes = 0;
      {
        Arrays arrays(shape, share_of(shape[2], world.rank(), world.size()));
        bytes = static_cast<double>(arrays.bytes());
        Saved saved;
        Outputs outputs;
        outputs.out = {arrays.view_of(arrays.out)};
        outputs.saved = &saved;
        most(world, 0);  // all start together
        const auto growth = bench::peak_growth([&] {
          times = timed([&] { attend(arrays.inputs(), outputs, options, world); },
                        [&] {
                          attend_backward(arrays.inputs(), {outputs.out[0]}, {arrays.view_of(arrays.grad)}, &saved,
                                          arrays.gradients(), options, world);
                        });
        });
        peak = bytes + static_cast<double>(growth.value_or(0));
      }
      times.forward = most(world, times.forward);
      times.backward = most(world, times.backward);
      peak = most(world, peak);
      bytes = most(world, bytes);
      const std::optional<Times> engine = alone(world, shape, options, threads);
      const auto ratio = [](double one, double other) {
        char text[32];
        std::snprintf(text, sizeof text, "%.2f", one / other);
        return std::string(text);
      };
      nlohmann::ordered_json row{{"shape", shape},
                                 {"causal", causal},
                                 {"processes", world.size()},
                                 {"threads", threads},
                                 {"forward_seconds", times.forward},
                                 {"backward_seconds", times.backward},
                                 {"array_bytes", bytes},
                                 {"peak_bytes", peak}};
      std::vector<std::string> cells{to_string(shape), causal ? "causal" : "none", format_seconds(times.forward),
                                     format_seconds(times.backward)};
      if (engine) {
        row["engine_forward_seconds"] = engine->forward;
        row["engine_backward_seconds"] = engine->backward;
        cells.insert(cells.end(), {format_seconds(engine->forward), format_seconds(engine->backward),
                                   ratio(engine->forward, times.forward), ratio(engine->backward, times.backward)});
      } else {
        cells.insert(cells.end(), {"-", "-", "-", "-"});
      }
      cells.insert(cells.end(), {format_bytes(bytes), format_bytes(peak)});
      rows.push_back(row);
      table.push_back(cells);
    }
  if (json) std::cout << rows.dump(2) << "\n";
  else std::cout << world.size() << " processes of " << threads << " threads\n" << format_table(table);
}

}  // namespace rapt::cli
