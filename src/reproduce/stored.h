#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reproduce/section.h"

// Results that were measured elsewhere, with their provenance: the files of data/experiments. See docs/reproduce.md.
namespace rapt::reproduce {

// Where some of the numbers are from.
struct Origin {
  std::string of;  // the part of what was measured
  std::string date;
  std::string machine;
  std::vector<std::string> commands;
};

struct StoredResults {
  std::string title;
  std::string document;
  std::string about;
  std::vector<Origin> origins;
  std::vector<Table> tables;
  std::vector<Claim> claims;  // informative: this run does not compute them
};

// Throws rapt::Error where the text is not such a file; the name is for messages.
StoredResults parse_stored(std::string_view name, std::string_view text);

// Puts them into a section: text, tables, provenance, claims.
void add_stored(const StoredResults& results, Section& section);

}  // namespace rapt::reproduce
