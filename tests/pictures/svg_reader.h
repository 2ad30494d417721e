#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pictures/drawing.h"

namespace rapt::test {

// An element of an SVG file, read by a parser that shares no code with the writer.
struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::string text;
  std::vector<Element> children;

  bool has_class(std::string_view kind) const;
  double number(const std::string& attribute) const;  // 0 where it is absent
  const std::string& attribute(const std::string& name) const;
  // The text of its <title>; empty if there is none.
  std::string tip() const;
};

// Throws std::runtime_error if the text is not well formed.
Element read_svg(const std::string& text);
Element read_svg(const pictures::Drawing& drawing);

// All elements of that class, in order.
std::vector<const Element*> of_class(const Element& root, std::string_view kind);
std::vector<std::string> texts(const Element& root, std::string_view kind);
std::vector<std::string> fills(const Element& root, std::string_view kind);

// The extent of each text, rotation included, with letters as wide as in the widest usual font.
struct TextBox {
  std::string kind, content;
  pictures::Box box;
};
std::vector<TextBox> text_boxes(const Element& root);

// Every text inside the picture, and no two of the same kind over each other.
void expect_texts_fit(const Element& root, const std::string& what);

}  // namespace rapt::test
