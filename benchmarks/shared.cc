#include "benchmarks/shared.h"

#include <memory>

#include "benchmarks/check.h"

namespace rapt::bench {

std::vector<SharedRow> measure_shared(const Spec& spec, const std::vector<int>& tasks, Direction direction, int threads,
                                      const Effort& effort) {
  std::vector<std::unique_ptr<Workload>> workloads;
  std::vector<std::function<void()>> works;
  for (const int count : tasks) {
    Spec one = spec;
    one.value_sets = count;
    check_small(one, direction, threads);
    Workload& workload = *workloads.emplace_back(std::make_unique<Workload>(one, threads));
    if (direction == Direction::backward) workload.prepare_backward(Path::automatic);
    works.emplace_back([&workload, direction] {
      if (direction == Direction::forward) workload.forward(Path::automatic);
      else workload.backward(Path::automatic);
    });
    works.back()();
    check_rows(workload, direction);
  }
  const std::vector<Spread> spreads = measure(works, effort);
  std::vector<SharedRow> rows;
  for (std::size_t n = 0; n < tasks.size(); ++n)
    rows.push_back({workloads[n]->spec, direction, spreads[n], spreads[n].median / spreads[0].median,
                    static_cast<double>(tasks[n]) * spreads[0].median / spreads[n].median});
  return rows;
}

}  // namespace rapt::bench
