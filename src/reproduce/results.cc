#include "reproduce/results.h"

namespace rapt::reproduce {
namespace {

using Json = nlohmann::ordered_json;

Json claim_json(const Claim& claim) {
  return {{"document", claim.document}, {"claim", claim.claim},     {"theirs", claim.theirs},
          {"ours", claim.ours},         {"rule", claim.rule},       {"must_hold", claim.weight == Weight::must_hold},
          {"holds", claim.holds},       {"reason", claim.why_not()}};
}

struct BlockJson {
  Json& part;
  void operator()(const Paragraph& p) const { part["text"].push_back(p.text); }
  void operator()(const Commands& c) const {
    for (const std::string& line : c.lines) part["commands"].push_back(line);
  }
  void operator()(const Table& t) const {
    part["tables"].push_back({{"caption", t.caption}, {"head", t.head}, {"rows", t.rows}});
  }
  void operator()(const Picture& p) const {
    part["pictures"].push_back({{"file", "pictures/" + p.name + ".svg"}, {"caption", p.caption}});
  }
};

Json part_json(const PartResult& result) {
  Json part{{"name", result.name},
            {"title", result.section.title},
            {"document", result.section.document},
            {"seconds", result.seconds},
            {"failed", !result.error.empty()}};
  if (!result.error.empty()) part["error"] = result.error;
  part["claims"] = Json::array();
  for (const Claim& claim : result.section.claims) part["claims"].push_back(claim_json(claim));
  for (const Block& block : result.section.blocks) std::visit(BlockJson{part}, block);
  return part;
}

}  // namespace

Json to_json(const Report& report) {
  Json result{{kReportKey, 1},       {"holds", report.holds()},   {"quick", report.quick},
              {"seed", report.seed}, {"threads", report.threads}, {"seconds", report.seconds}};
  for (const auto& [name, text] : report.machine.facts) result["machine"][name] = text;
  result["parts"] = Json::array();
  for (const PartResult& part : report.parts) result["parts"].push_back(part_json(part));
  return result;
}

std::vector<std::vector<std::string>> claim_rows(const Report& report) {
  std::vector<std::vector<std::string>> rows{{"document", "claim", "its figure", "our figure", "holds"}};
  for (const PartResult& part : report.parts) {
    for (const Claim& claim : part.section.claims)
      rows.push_back(
          {claim.document, claim.claim, claim.theirs, claim.ours,
           std::string(claim.holds ? "yes" : "NO") + (claim.weight == Weight::informative ? " (informative)" : "")});
    if (!part.error.empty()) rows.push_back({"", "part " + part.name, "", "failed: " + part.error, "NO"});
  }
  return rows;
}

}  // namespace rapt::reproduce
