#include "cli/attend_errors.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace rapt::cli {
namespace {

// Arguments whose options have other names.
constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kOptions{{
    {"mechanism", "--score"},
    {"normalizer", "--normalize"},
    {"grad_out", "--grad"},
    {"statistics: grid", "--grid"},
    {"statistics: top_k", "--top-k"},
}};

constexpr std::array<std::string_view, 13> kSame{"q",           "k",       "v",           "bias",         "mask",
                                                 "scale",       "softcap", "key_lengths", "query_starts", "key_starts",
                                                 "first_query", "rotary",  "threads"};

// Removes the prefix if the text starts with it.
bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::string option_of(std::string_view name) {
  std::string option = "--" + std::string(name);
  std::replace(option.begin(), option.end(), '_', '-');
  return option;
}

// "score alibi: parameter 'm': expected …", "score t5: max_distance: …", "score dot: expected no parameters, got parameter 'm'".
std::optional<std::string> parameter_message(std::string_view text) {
  const std::size_t end = text.find(": ");
  if ((!text.starts_with("score ") && !text.starts_with("normalizer ")) || end == std::string_view::npos)
    return std::nullopt;
  std::string_view rest = text.substr(end + 2);
  const std::size_t quote = rest.find("parameter '");
  if (quote == std::string_view::npos) return "--param " + std::string(rest);
  const std::size_t first = quote + 11;
  const std::size_t last = rest.find('\'', first);
  if (last == std::string_view::npos) return std::nullopt;
  const std::string name(rest.substr(first, last - first));
  std::string_view after = rest.substr(last + 1);
  if (quote == 0 && take(after, ": ")) return "--param " + name + ": " + std::string(after);
  return "--param " + name + ": " + std::string(text);
}

std::optional<std::string> argument_message(std::string_view text) {
  for (const auto& [name, option] : kOptions) {
    std::string_view rest = text;
    if (take(rest, name) && (rest.starts_with(": ") || rest.starts_with("[")))
      return std::string(option) + std::string(rest);
  }
  for (const std::string_view name : kSame) {
    std::string_view rest = text;
    if (take(rest, name) && (rest.starts_with(": ") || rest.starts_with("[")))
      return option_of(name) + std::string(rest);
  }
  if (text.starts_with("weights["))
    return std::string(text.find(" rows") != std::string_view::npos ? "--weights-rows" : "--weights-head") +
           std::string(text.substr(text.find(']') + 1));
  return parameter_message(text);
}

}  // namespace

std::string in_options(std::string_view message) {
  std::string_view text = message;
  const bool by_attend = take(text, "attend: ") || take(text, "attend_backward: ");
  if (!by_attend && !text.starts_with("mechanism: ") && !text.starts_with("normalizer: ")) return std::string(message);
  if (const auto translated = argument_message(text)) return "attend: " + *translated;
  return std::string(message);
}

}  // namespace rapt::cli
