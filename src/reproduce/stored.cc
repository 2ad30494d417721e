#include "reproduce/stored.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/json_text.h"

namespace rapt::reproduce {
namespace {

using nlohmann::json;

constexpr int kFormat = 1;

// One object of the file; says in messages where it stands.
class Node {
 public:
  Node(std::string where, const json& value) : where_(std::move(where)), value_(value) {
    if (!value.is_object()) throw Error(where_ + ": expected an object, got " + shown(value));
  }

  std::string text(const char* name) const {
    const json& found = at(name);
    if (!found.is_string()) throw Error(where_ + ": " + name + ": expected a text, got " + shown(found));
    return found.get<std::string>();
  }
  bool truth(const char* name) const {
    const json& found = at(name);
    if (!found.is_boolean()) throw Error(where_ + ": " + name + ": expected true or false, got " + shown(found));
    return found.get<bool>();
  }
  std::vector<std::string> texts(const char* name) const { return texts_of(where_ + ": " + name, at(name)); }
  std::vector<std::vector<std::string>> rows(const char* name) const {
    std::vector<std::vector<std::string>> rows;
    for (const json& row : list(name)) rows.push_back(texts_of(where_ + ": " + name, row));
    return rows;
  }
  std::vector<Node> nodes(const char* name) const {
    std::vector<Node> nodes;
    for (const json& one : list(name)) nodes.emplace_back(where_ + ": " + name, one);
    return nodes;
  }
  const json& at(const char* name) const {
    const auto found = value_.get().find(name);
    if (found == value_.get().end()) throw Error(where_ + ": " + name + ": expected one, got none");
    return *found;
  }

 private:
  static std::string shown(const json& value) { return value.dump().substr(0, 40); }
  static std::vector<std::string> texts_of(const std::string& where, const json& value) {
    if (!value.is_array() || !std::all_of(value.begin(), value.end(), [](const json& one) { return one.is_string(); }))
      throw Error(where + ": expected a list of texts, got " + shown(value));
    return value.get<std::vector<std::string>>();
  }
  const json& list(const char* name) const {
    const json& found = at(name);
    if (!found.is_array()) throw Error(where_ + ": " + name + ": expected a list, got " + shown(found));
    return found;
  }

  std::string where_;
  std::reference_wrapper<const json> value_;
};

Table table_of(const std::string& file, const Node& node) {
  Table table{node.text("caption"), node.texts("head"), node.rows("rows")};
  for (const std::vector<std::string>& row : table.rows)
    if (row.size() != table.head.size())
      throw Error(file + ": tables: expected rows of " + counted(table.head.size(), "cell") + ", got " +
                  std::to_string(row.size()));
  return table;
}

Claim claim_of(const std::string& file, const Node& node) {
  Claim claim{node.text("document"), node.text("claim"),  node.text("theirs"), node.text("ours"),
              node.text("rule"),     node.truth("holds"), Weight::informative, node.text("reason")};
  if (!claim.holds && claim.reason.empty())
    throw Error(file + ": claims: expected a reason where '" + claim.claim + "' does not hold, got none");
  return claim;
}

}  // namespace

StoredResults parse_stored(std::string_view name, std::string_view text) {
  const std::string file(name);
  const json whole = parse_json(file, text);
  const Node node(file, whole);
  if (node.at("format") != kFormat)
    throw Error(file + ": format: expected " + std::to_string(kFormat) + ", got " + node.at("format").dump());
  StoredResults results{node.text("title"), node.text("document"), node.text("about"), {}, {}, {}};
  for (const Node& origin : node.nodes("provenance"))
    results.origins.push_back(
        {origin.text("of"), origin.text("date"), origin.text("machine"), origin.texts("commands")});
  if (results.origins.empty()) throw Error(file + ": provenance: expected where the numbers are from, got nothing");
  for (const Node& table : node.nodes("tables")) results.tables.push_back(table_of(file, table));
  std::string dates;
  for (const Origin& origin : results.origins) dates = std::max(dates, origin.date);
  for (const Node& claim : node.nodes("claims")) {
    results.claims.push_back(claim_of(file, claim));
    results.claims.back().ours += " (stored, " + dates + ")";
  }
  return results;
}

void add_stored(const StoredResults& results, Section& section) {
  section.say(results.title + " (" + results.document + "). " + results.about);
  for (const Table& table : results.tables) section.add(table);
  Commands commands;
  for (const Origin& origin : results.origins) {
    section.say("Measured (" + origin.of + "): " + origin.date + ", " + origin.machine + ".");
    commands.lines.insert(commands.lines.end(), origin.commands.begin(), origin.commands.end());
  }
  section.add(std::move(commands));
  section.claims.insert(section.claims.end(), results.claims.begin(), results.claims.end());
}

}  // namespace rapt::reproduce
