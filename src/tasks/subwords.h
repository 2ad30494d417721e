#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/api.h"
#include "tasks/symbol_options.h"

// Subwords: words split into parts that were learned from the training data, so that any word can be read and written.
namespace rapt::inline v1::tasks {

inline constexpr std::int64_t kUsualSubwords = 8000;

// A learned model. The first part of a word begins with kWordBegin (units.h).
class Subwords {
 public:
  virtual ~Subwords() = default;

  // The parts of words separated by spaces. Characters that the training data lacks are passed through.
  virtual std::vector<std::string> split(std::string_view words) const = 0;

  // From now on parts of several characters that are not listed are split further.
  virtual void keep(std::span<const std::string> parts) = 0;

  // What it is opened from.
  virtual const std::string& bytes() const = 0;
};

// Learns and opens models: a library that the program links. Both functions throw rapt::Error.
struct SubwordLibrary {
  // The bytes of a model of at most `most` parts, every character of the lines among them.
  std::string (*learn)(std::span<const std::string> lines, SubwordKind kind, std::int64_t most);
  std::unique_ptr<Subwords> (*open)(std::string bytes);
};

// The program registers its library first of all. Exported for rapt::subwords alone.
RAPT_API void use_subword_library(const SubwordLibrary& library);

// Throws rapt::Error if the program has none.
const SubwordLibrary& subword_library();

struct LearnedSubwords {
  std::shared_ptr<const Subwords> model;
  std::vector<std::string> kept;  // parts of several characters
};

// Learns from lines of words separated by spaces. A part of several characters that occurs less than min_count times is
// split further; rarer characters are left out. `side` is what errors call the lines.
LearnedSubwords learn_subwords(std::span<const std::string> lines, const SymbolOptions& options,
                               const std::string& side);

}  // namespace rapt::inline v1::tasks
