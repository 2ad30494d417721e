#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "models/sequence_model.h"
#include "tensor/random.h"

// Small models and batches for the tests of models.
namespace rapt::models::test {

struct Pair {
  std::vector<int> source;
  std::vector<int> target;
};

// Laid out here, not by the library.
Batch batch_of(const std::vector<Pair>& pairs);

// Random tokens of the given lengths, kEnd of the target not counted.
Pair random_pair(Random& random, int source_length, int target_length, int symbols);

template <class T>
std::vector<T> random_values(const SequenceModel& model, std::uint64_t seed, double spread);

// Logits [target_steps][batch][symbols] flattened.
template <class T>
std::vector<T> logits_of(const SequenceModel& model, const std::vector<T>& values, const Batch& batch,
                         Alignment<T>* alignment = nullptr);

struct Named {
  std::string name;
  ModelConfig config;
};
// gtest's names.
std::string name_of(const testing::TestParamInfo<Named>& info);

// The configurations that the tests of all models use.
std::vector<Named> seq2seq_models();
std::vector<Named> transformer_models();
std::vector<Named> all_models();

inline constexpr Sizes kSizes{9, 8, 80, 20};

}  // namespace rapt::models::test
