#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <unordered_map>
#include <utility>

#include "rapt/error.h"
#include "rapt/subwords.h"
#include "tasks/subwords.h"

namespace rapt::inline v1 {
namespace {

namespace sp = sentencepiece;

void require(const sp::util::Status& status, const char* what) {
  if (!status.ok()) throw Error(std::string("subwords: SentencePiece cannot ") + what + ": " + status.ToString());
}

class Lines : public sp::SentenceIterator {
 public:
  explicit Lines(std::span<const std::string> lines) : lines_(lines) {}

  bool done() const override { return place_ == lines_.size(); }
  void Next() override { ++place_; }
  const std::string& value() const override { return lines_[place_]; }
  sp::util::Status status() const override { return {}; }

 private:
  std::span<const std::string> lines_;
  std::size_t place_ = 0;
};

class Model : public tasks::Subwords {
 public:
  explicit Model(std::string bytes) : bytes_(std::move(bytes)) {
    require(processor_.LoadFromSerializedProto(bytes_), "open a model");
  }

  std::vector<std::string> split(std::string_view words) const override {
    std::vector<std::string> parts;
    require(processor_.Encode(absl::string_view(words.data(), words.size()), &parts), "split a text");
    return parts;
  }

  void keep(std::span<const std::string> parts) override {
    require(processor_.SetVocabulary({parts.begin(), parts.end()}), "keep a part of a model");
  }

  const std::string& bytes() const override { return bytes_; }

 private:
  std::string bytes_;
  sp::SentencePieceProcessor processor_;
};

std::string learn(std::span<const std::string> lines, tasks::SubwordKind kind, std::int64_t most) {
  // Texts are not normalised. One thread, so that a unigram model's sums have one order everywhere; the limit may
  // exceed what the lines need.
  const std::unordered_map<std::string, std::string> options{
      {"model_type", kind == tasks::SubwordKind::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(most + 1)},  // and <unk>
      {"hard_vocab_limit", "false"},
      {"character_coverage", "1.0"},
      {"normalization_rule_name", "identity"},
      {"max_sentence_length", "1073741824"},
      {"num_threads", "1"},
      {"bos_id", "-1"},
      {"eos_id", "-1"},
      {"pad_id", "-1"},
      {"minloglevel", "3"},
  };
  Lines input(lines);
  std::string bytes;
  require(sp::SentencePieceTrainer::Train(options, &input, &bytes), "learn from these lines");
  return bytes;
}

std::unique_ptr<tasks::Subwords> open(std::string bytes) { return std::make_unique<Model>(std::move(bytes)); }

}  // namespace

void use_subwords() { tasks::use_subword_library({learn, open}); }

}  // namespace rapt::inline v1
