#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rapt::reproduce {

// Writes HTML that is XML too: whatever is opened is closed, and all text is escaped here and nowhere else.
class Markup {
 public:
  using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  Markup& open(std::string_view tag, Attributes attributes = {});
  Markup& close();
  Markup& text(std::string_view text);
  // An element with a text in it.
  Markup& element(std::string_view tag, std::string_view text, Attributes attributes = {});
  // One without content, as <meta/>.
  Markup& empty(std::string_view tag, Attributes attributes = {});
  // Written unescaped: pictures and style sheets, never user input.
  Markup& raw(std::string_view markup);
  Markup& line();

  // Throws std::logic_error if an element is still open.
  std::string finish() &&;

 private:
  void start(std::string_view tag, Attributes attributes);

  std::string out_;
  std::vector<std::string> open_;
};

}  // namespace rapt::reproduce
