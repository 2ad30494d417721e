#include "reproduce/markup.h"

#include <stdexcept>

#include "pictures/text.h"

namespace rapt::reproduce {

void Markup::start(std::string_view tag, Attributes attributes) {
  out_ += "<" + std::string(tag);
  for (const auto& [name, value] : attributes)
    out_ += " " + std::string(name) + "=\"" + pictures::xml_text(value) + "\"";
}

Markup& Markup::open(std::string_view tag, Attributes attributes) {
  start(tag, attributes);
  out_ += ">";
  open_.emplace_back(tag);
  return *this;
}

Markup& Markup::close() {
  if (open_.empty()) throw std::logic_error("markup: nothing is open");
  out_ += "</" + open_.back() + ">";
  open_.pop_back();
  return *this;
}

Markup& Markup::text(std::string_view text) {
  out_ += pictures::xml_text(text);
  return *this;
}

Markup& Markup::element(std::string_view tag, std::string_view content, Attributes attributes) {
  return open(tag, attributes).text(content).close();
}

Markup& Markup::empty(std::string_view tag, Attributes attributes) {
  start(tag, attributes);
  out_ += "/>";
  return *this;
}

Markup& Markup::raw(std::string_view markup) {
  out_ += markup;
  return *this;
}

Markup& Markup::line() {
  out_ += "\n";
  return *this;
}

std::string Markup::finish() && {
  if (!open_.empty()) throw std::logic_error("markup: <" + open_.back() + "> is still open");
  return std::move(out_);
}

}  // namespace rapt::reproduce
