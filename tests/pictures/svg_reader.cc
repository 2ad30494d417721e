#include "tests/pictures/svg_reader.h"

#include <glib.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "pictures/text.h"

namespace rapt::test {
namespace {

struct Reader {
  Element root;
  std::vector<Element> open;
};

void start(GMarkupParseContext*, const char* name, const char** names, const char** values, void* data, GError**) {
  Element element;
  element.name = name;
  for (; *names != nullptr; ++names, ++values) element.attributes[*names] = *values;
  static_cast<Reader*>(data)->open.push_back(std::move(element));
}

void end(GMarkupParseContext*, const char*, void* data, GError**) {
  auto& reader = *static_cast<Reader*>(data);
  Element element = std::move(reader.open.back());
  reader.open.pop_back();
  if (reader.open.empty()) reader.root = std::move(element);
  else reader.open.back().children.push_back(std::move(element));
}

void text(GMarkupParseContext*, const char* content, gsize length, void* data, GError**) {
  auto& reader = *static_cast<Reader*>(data);
  if (!reader.open.empty()) reader.open.back().text.append(content, length);
}

void collect(const Element& element, std::string_view kind, std::vector<const Element*>& found) {
  if (element.has_class(kind)) found.push_back(&element);
  for (const Element& child : element.children) collect(child, kind, found);
}

void collect_boxes(const Element& element, std::vector<TextBox>& found) {
  for (const Element& child : element.children) collect_boxes(child, found);
  if (element.name != "text") return;
  const double size = element.number("font-size"), width = pictures::text_width(element.text, size);
  const double x = element.number("x"), y = element.number("y");
  const std::string anchor = element.attributes.contains("text-anchor") ? element.attribute("text-anchor") : "start";
  const double left = anchor == "end" ? -width : anchor == "middle" ? -width / 2 : 0;
  double turn = 0;
  if (element.attributes.contains("transform"))
    turn = std::strtod(element.attribute("transform").c_str() + sizeof("rotate(") - 1, nullptr) * std::acos(-1.0) / 180;
  double low_x = 1e9, low_y = 1e9, high_x = -1e9, high_y = -1e9;
  for (const double dx : {left, left + width})
    for (const double dy : {-0.75 * size, 0.2 * size}) {
      const double px = x + dx * std::cos(turn) - dy * std::sin(turn);
      const double py = y + dx * std::sin(turn) + dy * std::cos(turn);
      low_x = std::min(low_x, px), high_x = std::max(high_x, px);
      low_y = std::min(low_y, py), high_y = std::max(high_y, py);
    }
  const bool slanted = std::abs(std::sin(2 * turn)) > 0.1;
  found.push_back({element.attribute("class") + (slanted ? " slanted" : ""),
                   element.text,
                   {low_x, low_y, high_x - low_x, high_y - low_y}});
}

}  // namespace

bool Element::has_class(std::string_view kind) const {
  const auto found = attributes.find("class");
  if (found == attributes.end()) return false;
  std::istringstream words(found->second);
  for (std::string word; words >> word;)
    if (word == kind) return true;
  return false;
}

const std::string& Element::attribute(const std::string& key) const {
  static const std::string none;
  const auto found = attributes.find(key);
  return found == attributes.end() ? none : found->second;
}

double Element::number(const std::string& key) const {
  const std::string& value = attribute(key);
  if (value.empty()) return 0;
  char* stop = nullptr;
  const double result = std::strtod(value.c_str(), &stop);
  if (*stop != '\0') throw std::runtime_error(key + "=\"" + value + "\" is no number");
  return result;
}

std::string Element::tip() const {
  for (const Element& child : children)
    if (child.name == "title") return child.text;
  return {};
}

Element read_svg(const std::string& svg) {
  const GMarkupParser parser{start, end, text, nullptr, nullptr};
  Reader reader;
  GMarkupParseContext* context = g_markup_parse_context_new(&parser, G_MARKUP_DEFAULT_FLAGS, &reader, nullptr);
  GError* error = nullptr;
  const bool good = g_markup_parse_context_parse(context, svg.data(), static_cast<gssize>(svg.size()), &error) &&
                    g_markup_parse_context_end_parse(context, &error);
  g_markup_parse_context_free(context);
  if (!good) {
    const std::string why = error->message;
    g_error_free(error);
    throw std::runtime_error(why);
  }
  return std::move(reader.root);
}

Element read_svg(const pictures::Drawing& drawing) { return read_svg(pictures::to_svg(drawing)); }

std::vector<const Element*> of_class(const Element& root, std::string_view kind) {
  std::vector<const Element*> found;
  collect(root, kind, found);
  return found;
}

std::vector<std::string> texts(const Element& root, std::string_view kind) {
  std::vector<std::string> result;
  for (const Element* element : of_class(root, kind))
    if (element->name == "text") result.push_back(element->text);
  return result;
}

std::vector<std::string> fills(const Element& root, std::string_view kind) {
  std::vector<std::string> result;
  for (const Element* element : of_class(root, kind)) result.push_back(element->attribute("fill"));
  return result;
}

std::vector<TextBox> text_boxes(const Element& root) {
  std::vector<TextBox> found;
  collect_boxes(root, found);
  return found;
}

void expect_texts_fit(const Element& root, const std::string& what) {
  const double width = root.number("width"), height = root.number("height");
  const std::vector<TextBox> boxes = text_boxes(root);
  for (std::size_t n = 0; n < boxes.size(); ++n) {
    const pictures::Box& a = boxes[n].box;
    EXPECT_GE(a.x, 0) << what << ": " << boxes[n].content;
    EXPECT_GE(a.y, 0) << what << ": " << boxes[n].content;
    EXPECT_LE(a.right(), width) << what << ": " << boxes[n].content;
    EXPECT_LE(a.bottom(), height) << what << ": " << boxes[n].content;
    // Slanted labels lie side by side although the boxes around them meet.
    if (boxes[n].kind.ends_with("slanted") || boxes[n].kind == "value") continue;
    for (std::size_t k = 0; k < n; ++k) {
      const pictures::Box& b = boxes[k].box;
      if (boxes[k].kind.ends_with("slanted") || boxes[k].kind == "value") continue;
      const bool apart = a.right() <= b.x || b.right() <= a.x || a.bottom() <= b.y || b.bottom() <= a.y;
      EXPECT_TRUE(apart) << what << ": '" << boxes[n].content << "' (" << boxes[n].kind << ") over '"
                         << boxes[k].content << "' (" << boxes[k].kind << ")";
    }
  }
}

}  // namespace rapt::test
