#include <chrono>
#include <cstdio>
#include <vector>

#include "cli/verbs.h"
#include "rapt/attend.h"

namespace rapt::cli {

void add_bench(CLI::App& app) {
  CLI::App* verb = app.add_subcommand("bench", "Speed and memory of every mechanism on this machine");
  verb->footer("Example:\n  rapt bench\n");
  verb->callback([] {
    std::vector<float> q(8 * 1024 * 64, 0.1f), out(q.size());
    const auto start = std::chrono::steady_clock::now();
    attend(view(q.data(), {1, 8, 1024, 64}), view(q.data(), {1, 8, 1024, 64}), view(q.data(), {1, 8, 1024, 64}),
           view(out.data(), {1, 8, 1024, 64}));
    std::printf("scaled_dot 1,8,1024,64: %g s\n",
                std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  });
}

}  // namespace rapt::cli
