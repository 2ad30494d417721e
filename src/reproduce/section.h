#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "pictures/drawing.h"

// What one part of the report says: text, tables, pictures, commands, and claims. All of it is plain text; the writer of a
// file escapes it.
namespace rapt::reproduce {

// Whether the whole fails with the claim. `informative`: what depends on the machine, on chance, or on settings that the
// document does not give.
enum class Weight : std::uint8_t { must_hold, informative };

// A figure of a document beside ours.
struct Claim {
  std::string document;  // "Practical 10, 1.2"
  std::string claim;
  std::string theirs;  // not computed; says so where it is not the document's
  std::string ours;    // computed by this run, or stored with its provenance (stored.h), which it then says
  std::string rule;    // when it holds, in words
  bool holds = false;
  Weight weight = Weight::must_hold;
  // Why it does not hold, where it does not, in one sentence that a reader can check.
  std::string reason = {};

  // The reason, or what follows from the rule; empty where the claim holds.
  std::string why_not() const {
    if (holds) return {};
    if (!reason.empty()) return reason;
    return weight == Weight::must_hold
               ? "Expected " + rule + "; a required claim that does not hold is a defect of Rapt."
               : "Expected " + rule + ".";
  }
};

struct Paragraph {
  std::string text;
};

// What gives the same on the command line, one line each.
struct Commands {
  std::vector<std::string> lines;
};

struct Table {
  std::string caption;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  std::size_t text_columns = 1;  // from the left; the others hold numbers
  bool folded = false;           // a long one, opened by the reader
};

struct Picture {
  std::string name;  // of its file, without the ending
  pictures::Drawing drawing;
  std::string caption;
};

using Block = std::variant<Paragraph, Commands, Table, Picture>;

struct Section {
  std::string title;
  std::string document;  // which of the five it belongs to, in words
  std::vector<Block> blocks = {};
  std::vector<Claim> claims = {};

  // The caption also stands for the picture where it cannot be seen, unless the drawing describes itself.
  void show(std::string name, pictures::Drawing drawing, std::string caption) {
    if (drawing.description.empty()) drawing.description = caption;
    blocks.emplace_back(Picture{std::move(name), std::move(drawing), std::move(caption)});
  }
  void say(std::string text) { blocks.emplace_back(Paragraph{std::move(text)}); }
  template <class B>
  void add(B block) {
    blocks.emplace_back(std::move(block));
  }
};

}  // namespace rapt::reproduce
