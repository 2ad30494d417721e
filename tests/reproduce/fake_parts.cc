#include "tests/reproduce/fake_parts.h"

#include <stdexcept>

#include "pictures/bars.h"

namespace rapt::test {

using reproduce::Context;
using reproduce::Section;
using reproduce::Weight;

Section good(const Context& context) {
  context.progress(1, 2, "half");
  Section section{std::string("Good ") + kHostile, "001"};
  section.say(kHostile);
  section.add(reproduce::Commands{{"rapt list", std::string("rapt solve ") + kHostile}});
  section.add(reproduce::Table{"A table", {"name", "number"}, {{kHostile, "1.5"}, {"b", "2"}}});
  section.add(reproduce::Table{"A folded table", {"name", "number"}, {{"c", "3"}}, 1, true});
  section.show("bars", draw(pictures::Bars{kHostile, "value", {"one", kHostile}, {{"s", {1, 2}}}}), "What is seen");
  section.claims.push_back({"001", std::string("holds ") + kHostile, "1", "1", "equal", true});
  return section;
}

Section broken_claim(const Context&) {
  Section section{"Broken", "002"};
  section.claims.push_back({"002", "is two", "2", "3", "equal", false});
  return section;
}

Section informative(const Context&) {
  Section section{"Informative", "003"};
  section.claims.push_back({"003", "is fast", "2", "3", "equal", false, Weight::informative, "It was a slow day."});
  return section;
}

Section throws(const Context&) { throw std::runtime_error(std::string("no luck ") + kHostile); }

Section interrupts(const Context&) { throw reproduce::Interrupted{}; }

}  // namespace rapt::test
