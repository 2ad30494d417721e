#include "reproduce/page.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <regex>
#include <set>

#include "reproduce/markup.h"
#include "reproduce/resources.h"
#include "tests/pictures/svg_reader.h"
#include "tests/reproduce/fake_parts.h"

namespace rapt::test {
namespace {

using reproduce::Part;

const std::string& page_text() {
  static const std::string text = [] {
    const std::vector<Part> parts{
        {"good", "g", good}, {"broken", "b", broken_claim}, {"informative", "i", informative}, {"bad", "x", throws}};
    return to_page(run_parts(parts, {}));
  }();
  return text;
}

// The parser knows no HTML, so what it reads is well-formed XML.
const Element& page() {
  static const Element root = read_svg(page_text());
  return root;
}

void each(const Element& element, const std::function<void(const Element&)>& visit) {
  visit(element);
  for (const Element& child : element.children) each(child, visit);
}

std::vector<const Element*> of_name(const std::string& name) {
  std::vector<const Element*> found;
  each(page(), [&](const Element& e) {
    if (e.name == name) found.push_back(&e);
  });
  return found;
}

std::string all_text(const Element& element) {
  std::string text = element.text;
  for (const Element& child : element.children) text += " " + all_text(child);
  return text;
}

TEST(ReproducePage, IsWellFormedAndSaysItsLanguage) {
  EXPECT_TRUE(page_text().starts_with("<!DOCTYPE html>"));
  EXPECT_EQ(page().name, "html");
  EXPECT_EQ(page().attribute("lang"), "en");
}

TEST(ReproducePage, NamesAreUniqueAndEveryLinkLeadsSomewhere) {
  std::set<std::string> ids;
  each(page(), [&](const Element& e) {
    if (!e.attribute("id").empty()) {
      EXPECT_TRUE(ids.insert(e.attribute("id")).second) << e.attribute("id");
    }
  });
  for (const Element* link : of_name("a")) {
    const std::string& target = link->attribute("href");
    ASSERT_TRUE(target.starts_with("#")) << target;
    EXPECT_TRUE(ids.contains(target.substr(1))) << target;
  }
  each(page(), [&](const Element& e) {
    if (!e.attribute("aria-labelledby").empty()) {
      EXPECT_TRUE(ids.contains(e.attribute("aria-labelledby")));
    }
  });
}

TEST(ReproducePage, ContentsNameEveryPart) {
  const Element* nav = of_name("nav").at(0);
  std::set<std::string> targets;
  each(*nav, [&](const Element& e) { targets.insert(e.attribute("href")); });
  for (const char* name : {"#claims", "#part-good", "#part-broken", "#part-informative", "#part-bad"})
    EXPECT_TRUE(targets.contains(name)) << name;
}

TEST(ReproducePage, ClaimsComeFirstAndSayWhetherTheyHold) {
  const Element* main = of_name("main").at(0);
  ASSERT_EQ(main->children.at(0).attribute("id"), "claims");
  std::vector<std::string> verdicts;
  each(main->children[0], [&](const Element& e) {
    if (e.name == "td" && e.attribute("data-label") == "holds") verdicts.push_back(all_text(e));
  });
  ASSERT_EQ(verdicts.size(), 4u);
  EXPECT_NE(verdicts[0].find("✓ holds"), std::string::npos);
  EXPECT_NE(verdicts[1].find("✗ does not hold"), std::string::npos);
  EXPECT_NE(verdicts[2].find("(informative)"), std::string::npos);
  EXPECT_EQ(verdicts[2].find("✗"), std::string::npos);
  EXPECT_NE(verdicts[3].find("✗ does not hold"), std::string::npos);  // of the part that threw
}

// A claim that does not hold has its reason in its row; one that holds has none.
TEST(ReproducePage, TheReasonStandsBesideWhatDoesNotHold) {
  std::vector<std::string> rows;
  each(*of_name("main").at(0), [&](const Element& e) {
    if (e.name == "td" && e.attribute("data-label") == "holds") rows.push_back(all_text(e));
  });
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].find("Expected"), std::string::npos);
  EXPECT_NE(rows[1].find("Expected equal; a required claim"), std::string::npos);
  EXPECT_NE(rows[2].find("It was a slow day."), std::string::npos);
  EXPECT_NE(rows[3].find("ended with an error"), std::string::npos);
}

TEST(ReproducePage, AQuickRunSaysThatItIsOne) {
  const std::vector<Part> parts{{"good", "g", good}};
  reproduce::Context context;
  EXPECT_EQ(to_page(run_parts(parts, context)).find("A quick run"), std::string::npos);
  context.quick = true;
  EXPECT_NE(to_page(run_parts(parts, context)).find("A quick run"), std::string::npos);
}

TEST(ReproducePage, HostileTextIsShownAndNotRun) {
  ASSERT_EQ(of_name("script").size(), 1u);
  EXPECT_EQ(of_name("script")[0]->text.find("alert"), std::string::npos);
  EXPECT_EQ(page_text().find("<script>alert"), std::string::npos);
  EXPECT_NE(all_text(page()).find("<script>alert('1')</script> & \"quoted\""), std::string::npos);
}

TEST(ReproducePage, PicturesHaveARoleATitleAndADescription) {
  const auto figures = of_name("figure");
  ASSERT_EQ(figures.size(), 1u);
  const Element& svg = figures[0]->children.at(0);
  ASSERT_EQ(svg.name, "svg");
  EXPECT_EQ(svg.attribute("role"), "img");
  EXPECT_FALSE(svg.tip().empty());
  const bool described = std::any_of(svg.children.begin(), svg.children.end(),
                                     [](const Element& e) { return e.name == "desc" && !e.text.empty(); });
  EXPECT_TRUE(described);
}

// In print a figure is 4 cm high: a chart of many rows could not be read, and stands beside its table.
TEST(ReproducePage, TallPicturesAreHigherInPrint) {
  EXPECT_EQ(of_name("figure")[0]->attribute("class"), "");
  const auto tall = [](const reproduce::Context&) {
    pictures::Drawing drawing;
    drawing.width = 700;
    drawing.height = 1020;
    reproduce::Section section{"Tall", "none"};
    section.show("tall", std::move(drawing), "many rows");
    return section;
  };
  const std::string text = to_page(run_parts(std::vector<Part>{{"tall", "t", tall}}, {}));
  EXPECT_NE(text.find("<figure class=\"tall\">"), std::string::npos);
  EXPECT_NE(reproduce::style_sheet().find("figure.tall svg.rapt-picture { max-height: 12cm; }"),
            std::string_view::npos);
}

TEST(ReproducePage, AsksForNothingFromElsewhere) {
  each(page(), [](const Element& e) {
    for (const char* name : {"src", "href", "srcset", "action", "data"}) {
      const std::string& value = e.attribute(name);
      EXPECT_TRUE(value.empty() || value.starts_with("#") || value.starts_with("data:")) << e.name << " " << value;
    }
  });
  const std::string_view style = reproduce::style_sheet();
  EXPECT_EQ(style.find("url("), std::string_view::npos);
  EXPECT_EQ(style.find("@import"), std::string_view::npos);
}

TEST(ReproducePage, TablesHaveHeadingsAndScrollByKeys) {
  for (const Element* table : of_name("table")) {
    std::size_t headings = 0;
    each(*table, [&](const Element& e) { headings += e.name == "th" && e.attribute("scope") == "col" ? 1 : 0; });
    EXPECT_GE(headings, 2u);
  }
  for (const Element* region : of_class(page(), "scroll")) {
    EXPECT_EQ(region->attribute("tabindex"), "0");
    EXPECT_FALSE(region->attribute("aria-label").empty());
  }
}

double channel(int value) {
  const double x = value / 255.0;
  return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
}

double luminance(const std::string& hex) {
  const long rgb = std::stol(hex.substr(1), nullptr, 16);
  return 0.2126 * channel(static_cast<int>(rgb >> 16)) + 0.7152 * channel(static_cast<int>(rgb >> 8 & 255)) +
         0.0722 * channel(static_cast<int>(rgb & 255));
}

double contrast(const std::string& a, const std::string& b) {
  const double x = luminance(a), y = luminance(b);
  return (std::max(x, y) + 0.05) / (std::min(x, y) + 0.05);
}

TEST(ReproducePage, EveryTextColourStandsOutInLightAndDark) {
  const std::string style(reproduce::style_sheet());
  const std::size_t dark = style.find("prefers-color-scheme: dark");
  ASSERT_NE(dark, std::string::npos);
  for (const bool in_dark : {false, true}) {
    std::map<std::string, std::string> colors;
    const std::string part = in_dark ? style.substr(dark) : style.substr(0, dark);
    const std::regex declaration("--([a-z]+): (#[0-9a-f]{6})");
    for (std::sregex_iterator match(part.begin(), part.end(), declaration), end; match != end; ++match)
      colors[(*match)[1]] = (*match)[2];
    for (const char* name : {"ink", "muted", "link", "good", "bad", "note"})
      for (const char* ground : {"page", "soft"}) {
        ASSERT_TRUE(colors.contains(name) && colors.contains(ground)) << name;
        EXPECT_GE(contrast(colors[name], colors[ground]), 4.5) << name << " on " << ground << (in_dark ? ", dark" : "");
      }
  }
}

TEST(ReproduceMarkup, RefusesWhatIsNotClosed) {
  reproduce::Markup open;
  open.open("p");
  EXPECT_THROW(std::move(open).finish(), std::logic_error);
  reproduce::Markup none;
  EXPECT_THROW(none.close(), std::logic_error);
}

TEST(ReproduceMarkup, EscapesTextAndAttributes) {
  reproduce::Markup markup;
  markup.element("a", "<b>&", {{"title", "\"x\" <y>"}}).empty("br");
  EXPECT_EQ(std::move(markup).finish(), "<a title=\"&quot;x&quot; &lt;y&gt;\">&lt;b&gt;&amp;</a><br/>");
}

}  // namespace
}  // namespace rapt::test
