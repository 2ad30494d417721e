#include "reproduce/report.h"

#include <chrono>
#include <exception>

namespace rapt::reproduce {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

PartResult run_part(const Part& part, const Context& context) {
  PartResult result{std::string(part.name), {}, {}, 0};
  const Clock::time_point start = Clock::now();
  try {
    result.section = part.run(context);
  } catch (const std::exception& error) {
    result.section = {std::string(part.about), {}};
    result.error = error.what();
    if (result.error.empty()) result.error = "no reason was given";
  }
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace

std::vector<const Claim*> Report::claims() const {
  std::vector<const Claim*> list;
  for (const PartResult& part : parts)
    for (const Claim& claim : part.section.claims) list.push_back(&claim);
  return list;
}

bool Report::holds() const {
  for (const PartResult& part : parts)
    if (!part.error.empty()) return false;
  for (const Claim* claim : claims())
    if (!claim->holds && claim->weight == Weight::must_hold) return false;
  return true;
}

std::string Report::summary() const {
  std::size_t needed = 0, held = 0, informative = 0, agreeing = 0, failed = 0;
  for (const PartResult& part : parts) failed += part.error.empty() ? 0 : 1;
  for (const Claim* claim : claims()) {
    const bool must = claim->weight == Weight::must_hold;
    (must ? needed : informative) += 1;
    (must ? held : agreeing) += claim->holds ? 1 : 0;
  }
  std::string text = std::to_string(held) + " of " + std::to_string(needed) + " required claims hold";
  if (informative > 0)
    text += "; " + std::to_string(agreeing) + " of " + std::to_string(informative) + " informative ones agree";
  if (failed > 0) text += "; " + std::to_string(failed) + " of " + std::to_string(parts.size()) + " parts failed";
  return text + ".";
}

Report run_parts(std::span<const Part> parts, const Context& context, const Listener& listener) {
  Report report;
  report.machine = this_machine();
  report.quick = context.quick;
  report.seed = context.seed;
  report.threads = context.threads;
  const Clock::time_point start = Clock::now();
  for (std::size_t n = 0; n < parts.size(); ++n) {
    if (listener.on_start) listener.on_start(n + 1, parts.size(), parts[n]);
    report.parts.push_back(run_part(parts[n], context));
    if (listener.on_end) listener.on_end(report.parts.back());
  }
  report.seconds = seconds_since(start);
  return report;
}

}  // namespace rapt::reproduce
