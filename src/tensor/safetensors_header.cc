#include "tensor/safetensors_header.h"

#include <array>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "rapt/error.h"

namespace rapt::inline v1::safetensors {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxRank = 32;
constexpr std::string_view kMetadata = "__metadata__";

struct Known {
  std::string_view name;
  ElementType type;
};
constexpr auto kKnown = std::to_array<Known>({{"BOOL", ElementType::boolean},
                                              {"I8", ElementType::i8},
                                              {"I16", ElementType::i16},
                                              {"I32", ElementType::i32},
                                              {"I64", ElementType::i64},
                                              {"U8", ElementType::u8},
                                              {"U16", ElementType::u16},
                                              {"U32", ElementType::u32},
                                              {"U64", ElementType::u64},
                                              {"F16", ElementType::f16},
                                              {"BF16", ElementType::bf16},
                                              {"F32", ElementType::f32},
                                              {"F64", ElementType::f64}});

// Takes the header event by event: anything unexpected ends the parse at once, so that no deep or long JSON is ever
// built, and duplicate names are noticed.
class Handler : public nlohmann::json_sax<Json> {
 public:
  Header take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { unexpected("a fraction or a number above 2⁶⁴"); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ == State::shape) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw Error(who() + ": shape: expected sizes below 2⁶³, got " + std::to_string(value));
      if (entry_.shape.size() == kMaxRank)
        throw Error(who() + ": shape: expected at most " + std::to_string(kMaxRank) + " dimensions, got more");
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (state_ == State::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      unexpected(state_ == State::offsets ? "a third" : "a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::metadata) {
      header_.metadata[key_] = std::move(value);
    } else if (state_ == State::entry && key_ == "dtype") {
      for (const Known& known : kKnown)
        if (known.name == value) {
          entry_.type = known.type;
          return true;
        }
      throw Error(who() + ": expected the type BOOL, I8 to I64, U8 to U64, F16, BF16, F32 or F64, got " + shown(value));
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (state_ == State::start) {
      state_ = State::top;
    } else if (state_ == State::top && key_ == kMetadata) {
      state_ = State::metadata;
    } else if (state_ == State::top) {
      state_ = State::entry;
      entry_ = {};
      entry_.name = key_;
      keys_ = 0;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool key(string_t& value) override {
    if (state_ == State::top && !names_.insert(value).second)
      throw Error("the header: expected every name once, got " + shown(value) + " twice");
    if (state_ == State::metadata && header_.metadata.contains(value))
      throw Error("the metadata: expected every key once, got " + shown(value) + " twice");
    if (state_ == State::entry) {
      const unsigned bit = value == "dtype" ? 1U : value == "shape" ? 2U : value == "data_offsets" ? 4U : 0U;
      if (bit == 0) throw Error(who() + ": expected the keys dtype, shape and data_offsets, got " + shown(value));
      if (keys_ & bit) throw Error(who() + ": expected every key once, got " + shown(value) + " twice");
      keys_ |= bit;
    }
    key_ = std::move(value);
    return true;
  }

  bool end_object() override {
    if (state_ == State::entry) {
      if (keys_ != 7) throw Error(who() + ": expected the keys dtype, shape and data_offsets, got fewer");
      header_.entries.push_back(std::move(entry_));
    }
    state_ = state_ == State::top ? State::done : State::top;
    return true;
  }

  bool start_array(std::size_t) override {
    if (state_ == State::entry && key_ == "shape") {
      state_ = State::shape;
    } else if (state_ == State::entry && key_ == "data_offsets") {
      state_ = State::offsets;
      offsets_ = 0;
    } else {
      unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (state_ == State::offsets && offsets_ != 2)
      throw Error(who() + ": expected 2 data_offsets, got " + std::to_string(offsets_));
    state_ = State::entry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    throw Error("the header: expected JSON, got an error at character " + std::to_string(position));
  }

 private:
  enum class State { start, top, metadata, entry, shape, offsets, done };

  std::string who() const { return "array " + shown(entry_.name); }

  [[noreturn]] void unexpected(const char* what) const {
    std::string where = "the header: expected its end, got ";
    if (state_ == State::start) where = "the header: expected an object, got ";
    if (state_ == State::top) where = shown(key_) + ": expected an object, got ";
    if (state_ == State::metadata) where = "the metadata's " + shown(key_) + ": expected a string, got ";
    if (state_ == State::entry)
      where = who() + ": " + shown(key_) + (key_ == "dtype" ? ": expected a string, got " : ": expected a list, got ");
    if (state_ == State::shape) where = who() + ": shape: expected integers, got ";
    if (state_ == State::offsets) where = who() + ": data_offsets: expected two integers, got ";
    throw Error(where + what);
  }

  Header header_;
  State state_ = State::start;
  std::string key_;
  Entry entry_;
  unsigned keys_ = 0;
  int offsets_ = 0;
  std::unordered_set<std::string> names_;
};

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kLongest)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > kLongest ? "…'" : "'");
}

Header parse_header(std::string_view text) {
  // The format requires this first byte; JSON alone would allow spaces before it.
  if (!text.starts_with('{')) throw Error("expected a safetensors file, got a header that does not start with '{'");
  // The parser takes a NUL for the end and would ignore what follows.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos)
    throw Error("the header: expected JSON, got a NUL at character " + std::to_string(nul));
  Handler handler;
  Json::sax_parse(text.begin(), text.end(), &handler);
  return handler.take();
}

std::string header_text(std::span<const Entry> entries, const Metadata& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json[std::string(kMetadata)] = metadata;
  std::unordered_set<std::string> names{std::string(kMetadata)};
  for (const Entry& entry : entries) {
    if (!names.insert(entry.name).second)
      throw Error("expected each array name once, and none that the format reserves, got " + shown(entry.name));
    std::string_view type;
    for (const Known& known : kKnown)
      if (known.type == entry.type) type = known.name;
    // Not json[name], which searches all the names before it.
    Json one = {{"dtype", type}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
    json.get_ref<Json::object_t&>().emplace_back(entry.name, std::move(one));
  }
  std::string text;
  try {
    text = json.dump();
  } catch (const Json::exception&) {
    throw Error("expected names and metadata in UTF-8, got other bytes");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace rapt::inline v1::safetensors
