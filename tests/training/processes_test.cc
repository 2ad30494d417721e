// One run over several processes: the files and weights of one process, byte for byte.

#include <gtest/gtest.h>

#include <atomic>

#include "rapt/error.h"
#include "tests/distributed/thread_communicator.h"
#include "tests/tensor/temporary_directory.h"
#include "tests/training/tiny_run.h"

namespace rapt::training::test {
namespace {

using rapt::test::TemporaryDirectory;
namespace fs = std::filesystem;

// Every process has a model of its own, as it would have in a program of its own.
std::vector<Bits> train(const std::function<TinyRun()>& make, int size, const fs::path& directory,
                        const std::function<bool(int rank)>& stop = {}) {
  std::vector<Bits> values(static_cast<std::size_t>(size));
  const auto errors = support::run_processes(size, [&](Communicator& communicator) {
    const TinyRun run = make();
    const auto trainer = run.trainer(directory, Processes(&communicator));
    // Files may be there for process 0 alone: no other is asked.
    bool resumes = communicator.rank() == 0 && fs::exists(directory / "state.safetensors");
    communicator.broadcast(&resumes, sizeof resumes, 0);
    if (resumes) trainer->resume();
    Observer observer;
    if (stop) observer.stop = [&] { return stop(communicator.rank()); };
    trainer->run(observer);
    values[static_cast<std::size_t>(communicator.rank())] = trainer->values();
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return values;
}

// Enough numbers for several processes to have some to update.
models::ModelConfig wide_seq2seq() {
  models::ModelConfig config = tiny_seq2seq();
  config.seq2seq.hidden = 72;
  return config;
}

TEST(TrainingProcesses, HaveTheBitsOfOne) {
  EXPECT_GT(Processes::chunks(TinyRun(wide_seq2seq()).model->parameters().size()), 3);
  for (const models::ModelConfig& config : {tiny_seq2seq(), tiny_transformer(), wide_seq2seq()})
    for (const Optimizer optimizer : {Optimizer::adamw, Optimizer::sgd}) {
      const auto make = [&] {
        TinyRun run(config);
        run.options.optimizer = optimizer;
        run.options.average = optimizer == Optimizer::sgd ? 0.9 : 0;
        run.options.patience = 2;
        return run;
      };
      const TemporaryDirectory alone;
      const Bits expected = make().train(alone.path());
      for (const int size : {1, 2, 3, 4, 8}) {
        const TemporaryDirectory directory;
        for (const Bits& values : train(make, size, directory.path())) EXPECT_EQ(values, expected) << size;
        expect_same_run(directory.path(), alone.path(), std::to_string(size) + " processes");
      }
    }
}

TEST(TrainingProcesses, ResumeWithAnotherNumber) {
  const auto make = [] {
    TinyRun run(wide_seq2seq());
    run.options.average = 0.9;
    return run;
  };
  const TemporaryDirectory alone, directory;
  const Bits expected = make().train(alone.path());
  std::atomic<int> asked{0};
  // One process alone asks for the stop.
  train(make, 3, directory.path(), [&](int rank) { return rank == 1 && ++asked == 4; });
  EXPECT_EQ(asked, 4);
  std::atomic<int> again{0};
  train(make, 2, directory.path(), [&](int rank) { return rank == 0 && ++again == 3; });
  train(make, 1, directory.path(), [&, steps = 0](int) mutable { return ++steps == 2; });
  for (const Bits& values : train(make, 4, directory.path())) EXPECT_EQ(values, expected);
  expect_same_run(directory.path(), alone.path(), "3, 2, 1 and 4 processes");
}

// Sums of floats depend on their order: numbers of very different sizes show it.
TEST(TrainingProcesses, AddInTheOrderOfTheParts) {
  constexpr std::int64_t kSize = 3 * Processes::kChunk + 1003;
  const auto number = [](std::int64_t part, std::int64_t n) {
    return (part % 2 == 0 ? 1e7F : -1e7F) + static_cast<float>((part * 7919 + n * 104729) % 1009) * 0.37F;
  };
  std::vector<float> expected(kSize);
  for (std::int64_t n = 0; n < kSize; ++n)
    for (std::int64_t p = 0; p < 5; ++p) expected[static_cast<std::size_t>(n)] += number(p, n);
  for (const int size : {2, 3, 5, 7}) {
    const auto errors = support::run_processes(size, [&](Communicator& communicator) {
      const Processes processes(&communicator);
      std::vector<std::vector<float>> parts(5, std::vector<float>(kSize));
      std::vector<float*> pointers;
      for (std::int64_t p = 0; p < 5; ++p) {
        auto& part = parts[static_cast<std::size_t>(p)];
        for (std::int64_t n = 0; n < kSize && processes.computes(p); ++n)
          part[static_cast<std::size_t>(n)] = number(p, n);
        pointers.push_back(part.data());
      }
      processes.add_gradients(pointers, kSize);
      const Range own = processes.own_chunks(kSize);
      for (std::int64_t n = 0; n < kSize; ++n) {
        const bool mine = n / Processes::kChunk >= own.begin && n / Processes::kChunk < own.end;
        if (!mine && parts[0][static_cast<std::size_t>(n)] != 0) throw Error("not cleared");
      }
      processes.share_chunks(parts[0]);
      if (parts[0] != expected) throw Error("another sum");
      for (std::size_t p = 1; p < 5; ++p)
        if (parts[p] != std::vector<float>(kSize)) throw Error("not cleared");
    });
    for (const std::string& error : errors) EXPECT_EQ(error, "") << size;
  }
}

}  // namespace
}  // namespace rapt::training::test
