#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/api.h"
#include "tasks/symbol_options.h"

// Subwords: words cut into parts that were learned from the training data, so that any word can be read and written.
namespace rapt::inline v1::tasks {

inline constexpr std::int64_t kUsualSubwords = 8000;

// A learned model. The first part of a word begins with kWordBegin (units.h).
class Subwords {
 public:
  virtual ~Subwords() = default;

  // The parts of words with a space between. Characters that were not in the training data come as they are.
  virtual std::vector<std::string> split(std::string_view words) const = 0;

  // From now on parts of several characters that are not listed are cut further.
  virtual void keep(std::span<const std::string> parts) = 0;

  // What it is opened from.
  virtual const std::string& bytes() const = 0;
};

// What learns and opens models: a library that the program is linked with. Both throw rapt::Error.
struct SubwordLibrary {
  // The bytes of a model of at most `most` parts, every character of the lines among them.
  std::string (*learn)(std::span<const std::string> lines, SubwordKind kind, std::int64_t most);
  std::unique_ptr<Subwords> (*open)(std::string bytes);
};

// The program says what it is linked with, before anything else. Exported for rapt::subwords alone.
RAPT_API void use_subword_library(const SubwordLibrary& library);

// Throws rapt::Error where the program has none.
const SubwordLibrary& subword_library();

struct LearnedSubwords {
  std::shared_ptr<const Subwords> model;
  std::vector<std::string> kept;  // parts of several characters
};

// Learns from lines of words with a space between. Every part of several characters is seen min_count times in the lines; a
// rarer one is cut further. Rarer characters are left out. `side` is what errors call the lines.
LearnedSubwords learn_subwords(std::span<const std::string> lines, const SymbolOptions& options,
                               const std::string& side);

}  // namespace rapt::inline v1::tasks
