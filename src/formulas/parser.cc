#include "formulas/parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>

#include "rapt/error.h"

namespace rapt::inline v1::formulas {
namespace {

enum class Kind : std::uint8_t { end, number, name, symbol };

struct Token {
  Kind kind = Kind::end;
  std::string_view text{};
  std::size_t at = 0;
  double value = 0;
};

struct Word {
  std::string_view name;
  Op op;
};

constexpr std::array kFunctions{Word{"abs", Op::absolute},    Word{"sign", Op::sign}, Word{"floor", Op::floor},
                                Word{"exp", Op::exp},         Word{"log", Op::log},   Word{"sqrt", Op::sqrt},
                                Word{"tanh", Op::tanh},       Word{"sin", Op::sin},   Word{"cos", Op::cos},
                                Word{"sigmoid", Op::sigmoid}, Word{"erf", Op::erf}};

constexpr std::array kPlaces{Word{"scale", Op::scale}, Word{"i", Op::query},     Word{"j", Op::key},
                             Word{"head", Op::head},   Word{"batch", Op::batch}, Word{"queries", Op::queries},
                             Word{"keys", Op::keys},   Word{"row", Op::key_row}, Word{"col", Op::key_col}};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

const Word* find(std::span<const Word> words, std::string_view name) {
  const auto found = std::ranges::find(words, name, &Word::name);
  return found == words.end() ? nullptr : &*found;
}

const char* name_of(Part part) {
  switch (part) {
    case Part::score: return "formula";
    case Part::pair: return "formula: pair";
    default: return "formula: visible";
  }
}

// An operand with where it stands in the text.
struct Expression {
  NodeId id = kNone;
  std::size_t at = 0;
};

class Parser {
 public:
  Parser(Part part, std::string_view text, Graph& graph, std::vector<NamedParameter>& parameters)
      : part_(part), text_(text), graph_(graph), parameters_(parameters) {}

  NodeId run() {
    if (text_.size() > kMostCharacters)
      throw Error(std::string(name_of(part_)) + ": expected at most " + std::to_string(kMostCharacters) +
                  " characters, got " + std::to_string(text_.size()));
    next();
    const Expression root = alternatives();
    if (token_.kind != Kind::end) fail(token_.at, "an operator or the end", got());
    if (part_ == Part::visible) return condition(root);
    return number(root);
  }

 private:
  [[noreturn]] void fail(std::size_t at, const std::string& expected, const std::string& found) const {
    fail_with(at, "expected " + expected + ", got " + found);
  }

  [[noreturn]] void fail_with(std::size_t at, const std::string& sentence) const {
    refuse_at(part_, text_, at, sentence);
  }

  std::string got() const {
    if (token_.kind == Kind::end) return "the end";
    return "'" + std::string(token_.text.substr(0, 40)) + "'";
  }

  void next() {
    graph_.set_place(place_of(token_.at));
    while (place_ < text_.size() && is_space(text_[place_])) ++place_;
    token_ = {.kind = Kind::end, .at = place_};
    if (place_ >= text_.size()) return;
    const char c = text_[place_];
    std::size_t end = place_ + 1;
    if (is_letter(c)) {
      while (end < text_.size() && (is_letter(text_[end]) || is_digit(text_[end]))) ++end;
      token_.kind = Kind::name;
    } else if (is_digit(c) || (c == '.' && end < text_.size() && is_digit(text_[end]))) {
      const auto [stop, error] = std::from_chars(text_.data() + place_, text_.data() + text_.size(), token_.value);
      if (error != std::errc() || !std::isfinite(token_.value))
        fail_with(place_, "expected a number that a double holds");
      end = static_cast<std::size_t>(stop - text_.data());
      if (end < text_.size() && (is_letter(text_[end]) || text_[end] == '.'))
        fail(end, "an operator after the number", "'" + std::string(1, text_[end]) + "'");
      token_.kind = Kind::number;
    } else {
      static constexpr std::array<std::string_view, 5> kPairs{"<=", ">=", "==", "!=", "**"};
      const std::string_view two = text_.substr(place_, 2);
      if (std::ranges::find(kPairs, two) != kPairs.end()) end = place_ + 2;
      else if (std::string_view("+-*/^<>()[],").find(c) == std::string_view::npos) {
        while (end < text_.size() && (text_[end] & 0xC0) == 0x80) ++end;  // the rest of a character
        const bool plain = (c >= ' ' && c < 127) || (c & 0x80) != 0;
        fail(place_, "a number, a name or an operator",
             plain ? "'" + std::string(text_.substr(place_, std::min<std::size_t>(end - place_, 4))) + "'"
                   : "byte " + std::to_string(static_cast<int>(static_cast<unsigned char>(c))));
      }
      token_.kind = Kind::symbol;
    }
    token_.text = text_.substr(place_, end - place_);
    place_ = end;
  }

  bool is(std::string_view text) const {
    return (token_.kind == Kind::symbol || token_.kind == Kind::name) && token_.text == text;
  }
  bool take(std::string_view text) {
    if (!is(text)) return false;
    next();
    return true;
  }
  void expect(std::string_view text, const char* expected) {
    if (!take(text)) fail(token_.at, expected, got());
  }

  struct Deeper {
    explicit Deeper(Parser& parser) : depth(parser.depth_) {
      if (++depth > kMostDepth)
        parser.fail_with(parser.token_.at,
                         "expected at most " + std::to_string(kMostDepth) + " nested parts, got more");
    }
    ~Deeper() { --depth; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    int& depth;
  };

  NodeId number(const Expression& x) const {
    if (graph_[x.id].condition) fail_with(x.at, "expected a number, got a condition; where(condition, 1, 0) makes one");
    return x.id;
  }
  NodeId condition(const Expression& x) const {
    if (!graph_[x.id].condition) fail_with(x.at, "expected a condition, as j <= i is one, got a number");
    return x.id;
  }

  Expression alternatives() {
    const Deeper deeper(*this);
    Expression left = conjunction();
    while (take("or")) {
      const NodeId a = condition(left);
      left.id = graph_.binary(Op::logical_or, a, condition(conjunction()));
    }
    return left;
  }

  Expression conjunction() {
    Expression left = negation();
    while (take("and")) {
      const NodeId a = condition(left);
      left.id = graph_.binary(Op::logical_and, a, condition(negation()));
    }
    return left;
  }

  Expression negation() {
    const std::size_t at = token_.at;
    if (!take("not")) return comparison();
    const Deeper deeper(*this);
    return {graph_.unary(Op::logical_not, condition(negation())), at};
  }

  // a < b <= c means a < b and b <= c.
  Expression comparison() {
    Expression left = sum();
    const std::size_t at = left.at;
    NodeId all = kNone;
    for (;;) {
      const std::string_view symbol = token_.kind == Kind::symbol ? token_.text : "";
      const bool compares =
          symbol == "<" || symbol == "<=" || symbol == ">" || symbol == ">=" || symbol == "==" || symbol == "!=";
      if (!compares) return all == kNone ? left : Expression{all, at};
      next();
      const NodeId a = number(left);
      const Expression right = sum();
      const NodeId b = number(right);
      NodeId one = kNone;
      if (symbol == "<") one = graph_.binary(Op::less, a, b);
      else if (symbol == "<=") one = graph_.binary(Op::less_equal, a, b);
      else if (symbol == ">") one = graph_.binary(Op::less, b, a);
      else if (symbol == ">=") one = graph_.binary(Op::less_equal, b, a);
      else one = graph_.binary(Op::equal, a, b);
      if (symbol == "!=") one = graph_.unary(Op::logical_not, one);
      all = all == kNone ? one : graph_.binary(Op::logical_and, all, one);
      left = right;
    }
  }

  Expression sum() {
    Expression left = product();
    while (is("+") || is("-")) {
      const Op op = is("+") ? Op::add : Op::subtract;
      next();
      const NodeId a = number(left);
      left.id = graph_.binary(op, a, number(product()));
    }
    return left;
  }

  Expression product() {
    Expression left = sign();
    while (is("*") || is("/")) {
      const Op op = is("*") ? Op::multiply : Op::divide;
      next();
      const NodeId a = number(left);
      left.id = graph_.binary(op, a, number(sign()));
    }
    return left;
  }

  Expression sign() {
    const std::size_t at = token_.at;
    if (!is("-") && !is("+")) return power();
    const bool negative = is("-");
    const Deeper deeper(*this);
    next();
    const NodeId x = number(sign());
    return {negative ? graph_.unary(Op::negate, x) : x, at};
  }

  // To the right: 2^3^2 is 2^9, and −x^2 is −(x^2).
  Expression power() {
    const Expression base = operand();
    if (!is("^") && !is("**")) return base;
    const Deeper deeper(*this);
    next();
    const NodeId a = number(base);
    return {graph_.binary(Op::power, a, number(sign())), base.at};
  }

  Expression operand() {
    const Token token = token_;
    if (token.kind == Kind::number) {
      next();
      return {graph_.number(token.value), token.at};
    }
    if (take("(")) {
      Expression inside = alternatives();
      expect(")", "')' or an operator");
      inside.at = token.at;
      return inside;
    }
    if (token.kind != Kind::name) fail(token.at, "a number, a name or '('", got());
    if (token.text == "and" || token.text == "or" || token.text == "not")
      fail(token.at, "a number, a name or '('", got());
    next();
    return {named(token), token.at};
  }

  NodeId named(const Token& token) {
    const std::string_view name = token.text;
    if (name == "pi") return graph_.number(std::numbers::pi);
    if (name == "inf") return graph_.number(std::numeric_limits<double>::infinity());
    if (const Word* function = find(kFunctions, name)) {
      const std::vector<Expression> list = arguments(token, 1, 1);
      return graph_.unary(function->op, number(list[0]));
    }
    if (name == "where") {
      const std::vector<Expression> list = arguments(token, 3, 3);
      if (graph_[list[1].id].condition != graph_[list[2].id].condition)
        fail_with(list[2].at, "expected two numbers or two conditions to choose from, got one of each");
      return graph_.where(condition(list[0]), list[1].id, list[2].id);
    }
    if (name == "min" || name == "max") {
      const std::vector<Expression> list = arguments(token, 2, kMaxArguments);
      NodeId all = number(list[0]);
      for (std::size_t n = 1; n < list.size(); ++n)
        all = graph_.binary(name == "min" ? Op::minimum : Op::maximum, all, number(list[n]));
      return all;
    }
    if (name == "clip") {
      const std::vector<Expression> list = arguments(token, 3, 3);
      const NodeId low = graph_.binary(Op::maximum, number(list[0]), number(list[1]));
      return graph_.binary(Op::minimum, low, number(list[2]));
    }
    if (part_ == Part::pair) return pair_name(token);
    if (name == "raw") {
      if (part_ == Part::visible)
        fail_with(token.at, "expected positions and parameters in visible, got the raw score");
      return graph_.leaf(Op::raw);
    }
    if (name == "row") return graph_.binary(Op::subtract, graph_.leaf(Op::key_row), graph_.leaf(Op::query_row));
    if (name == "col") return graph_.binary(Op::subtract, graph_.leaf(Op::key_col), graph_.leaf(Op::query_col));
    if (const Word* place = find(kPlaces, name)) return graph_.leaf(place->op);
    if (name == "q" || name == "k")
      fail(token.at, "raw, the raw score", "'" + std::string(name) + "', which pair formulas alone have");
    return parameter(token);
  }

  NodeId pair_name(const Token& token) {
    if (token.text == "q") return graph_.leaf(Op::pair_q);
    if (token.text == "k") return graph_.leaf(Op::pair_k);
    if (token.text == "w") return graph_.leaf(Op::pair_w);
    fail(token.at, "q, k, w, a number or a function", "'" + std::string(token.text) + "'");
  }

  // More than a formula may have operations.
  static constexpr std::size_t kMaxArguments = 10000;

  std::vector<Expression> arguments(const Token& function, std::size_t least, std::size_t most) {
    const std::string name(function.text);
    if (!take("(")) fail(token_.at, "'(' after the function " + name, got());
    std::vector<Expression> list;
    do list.push_back(alternatives());
    while (list.size() <= most && take(","));
    if (list.size() > most || list.size() < least) {
      const std::string count = least == most ? std::to_string(least) : "at least " + std::to_string(least);
      fail_with(function.at, "expected " + count + (most == 1 ? " argument of " : " arguments of ") + name +
                                 (list.size() > most ? ", got more" : ", got " + std::to_string(list.size())));
    }
    expect(")", "',' or ')'");
    return list;
  }

  NodeId parameter(const Token& token) {
    if (is("("))
      fail_with(token.at, "expected a function, got '" + std::string(token.text) + "'; functions are " + functions());
    std::vector<Expression> indices;
    if (take("[")) {
      do indices.push_back(alternatives());
      while (indices.size() < 3 && take(","));
      if (indices.size() > 2) fail_with(token.at, "expected one or two indices of a table, got more");
      expect("]", "',' or ']'");
    }
    for (const Expression& index : indices) {
      const Node& node = graph_[number(index)];
      if (node.op != Op::number) continue;
      if (node.value != std::floor(node.value) || node.value < 0 || node.value > kMostIndex)
        fail(index.at, "an integer index from 0 to " + std::to_string(kMostIndex), number_text(node.value));
    }
    const int rank = static_cast<int>(indices.size());
    const auto found = std::ranges::find(parameters_, token.text, &NamedParameter::name);
    if (found == parameters_.end()) parameters_.push_back({std::string(token.text), rank, place_of(token.at)});
    else if (found->rank != rank)
      fail_with(token.at, "expected '" + found->name + "' " + use(found->rank) + " as before, got it " + use(rank));
    const auto index =
        static_cast<int>(std::ranges::find(parameters_, token.text, &NamedParameter::name) - parameters_.begin());
    return graph_.table(index, rank > 0 ? number(indices[0]) : kNone, rank > 1 ? number(indices[1]) : kNone);
  }

  TextPlace place_of(std::size_t at) const { return {part_, static_cast<std::int16_t>(at)}; }

  static std::string number_text(double x) {
    if (std::isnan(x)) return "nan";
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, x).ptr};
  }

  static std::string use(int rank) {
    if (rank == 0) return "as a number";
    return rank == 1 ? "as a table of one dimension" : "as a table of two dimensions";
  }

  static std::string functions() {
    std::string list = "where, min, max, clip";
    for (const Word& word : kFunctions) list += ", " + std::string(word.name);
    return list;
  }

  Part part_;
  std::string_view text_;
  Graph& graph_;
  std::vector<NamedParameter>& parameters_;
  std::size_t place_ = 0;
  Token token_;
  int depth_ = -1;  // the whole text is no part
};

}  // namespace

void refuse_at(Part part, std::string_view text, std::size_t at, const std::string& sentence) {
  constexpr std::size_t kAround = 36;
  std::size_t begin = at > kAround ? at - kAround : 0, end = std::min(text.size(), at + kAround);
  // Whole characters.
  while (begin > 0 && (text[begin] & 0xC0) == 0x80) --begin;
  while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
  std::string line = begin > 0 ? "…" : "";
  std::string caret(begin > 0 ? 1 : 0, ' ');
  for (std::size_t n = begin; n < end; ++n) {
    const char c = text[n];
    line += (c >= ' ' && c < 127) || (c & 0x80) != 0 ? c : (is_space(c) ? ' ' : '?');
    // Bytes that continue a character take no room of their own.
    if (n < at && (c & 0xC0) != 0x80) caret += ' ';
  }
  throw Error(std::string(name_of(part)) + ": " + sentence + ", at character " + std::to_string(at + 1) + "\n  " +
              line + (end < text.size() ? "…" : "") + "\n  " + caret + "^");
}

NodeId parse(Part part, std::string_view text, Graph& graph, std::vector<NamedParameter>& parameters) {
  try {
    return Parser(part, text, graph, parameters).run();
  } catch (const TooLarge& large) {
    refuse_at(part, text, static_cast<std::size_t>(large.place.at), large.sentence);
  }
}

}  // namespace rapt::inline v1::formulas
