#include "explorer/page.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include <zlib.h>

#include "explorer/assets.h"
#include "pictures/base64.h"
#include "pictures/color.h"
#include "rapt/dtype.h"
#include "rapt/error.h"
#include "tasks/pairs.h"

namespace rapt::explorer {
namespace {

using Json = nlohmann::ordered_json;
using pictures::base64;

struct GroupNames {
  Group group;
  const char* name;
  const char* title;
};
constexpr std::array<GroupNames, 4> kGroups{{{Group::attention, "attention", "Attention"},
                                             {Group::encoder, "encoder", "Encoder"},
                                             {Group::decoder, "decoder", "Decoder"},
                                             {Group::cross, "cross", "Decoder → source"}}};

const GroupNames& names_of(Group group) { return kGroups[static_cast<std::size_t>(group)]; }

// The palette's 256 steps: pictures and pages have the same colours.
std::string palette() {
  std::string bytes;
  for (int n = 0; n < 256; ++n) {
    const pictures::Rgb c = pictures::color_at(n / 255.0);
    for (const std::uint8_t channel : {c.red, c.green, c.blue}) bytes += static_cast<char>(channel);
  }
  return base64(bytes);
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string result(size, '\0');
  if (compress2(reinterpret_cast<Bytef*>(result.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), 6) != Z_OK)
    throw Error("explore: cannot compress the weights");
  result.resize(size);
  return result;
}

std::string_view text_of(std::span<const unsigned char> asset) {
  return {reinterpret_cast<const char*>(asset.data()), asset.size()};
}

// Inserts the parts into the page's frame. Inserted text is not searched again.
std::string assemble(const std::string& nonce, std::string_view connect, const std::string& data,
                     const std::vector<std::string>& blocks) {
  std::string_view frame = text_of(page_html());
  std::string page;
  const auto until = [&](std::string_view mark) {
    const std::size_t at = frame.find(mark);
    if (at == std::string_view::npos) throw Error("explore: the page lacks the mark " + std::string(mark));
    page += frame.substr(0, at);
    frame.remove_prefix(at + mark.size());
  };
  until("{{nonce}}");
  page += nonce;
  until("{{connect}}");
  page += connect;
  until("{{style}}");
  page += text_of(style_css());
  until("{{data}}");
  page += data;
  until("{{weights}}");
  for (const std::string& block : blocks) page += block;
  until("{{nonce}}");
  page += nonce;
  until("{{script}}");
  for (const auto script : scripts()) page += text_of(script);
  page += frame;
  return page;
}

std::string nonce_of(std::string_view data) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(tasks::stable_hash(data)));
  return text.data();
}

// The weights of one head, compressed, in an element of their own: the page unpacks those that are viewed.
std::string weights_block(const Weights& weights, std::size_t layer, std::int64_t head) {
  const std::int64_t count = weights.queries() * weights.keys();
  std::vector<float> numbers(static_cast<std::size_t>(count));
  weights.rows(head, 0, weights.queries(), numbers.data());
  return "<script type=\"application/octet-stream\" id=\"w" + std::to_string(layer) + "-" + std::to_string(head) +
         "\">" + base64(deflated(half_bytes(numbers.data(), count))) + "</script>\n";
}

Json describe_picture(const Picture& picture) {
  std::string bytes;
  for (const float p : picture.pixels)
    bytes += static_cast<char>(std::lround(255 * std::clamp(std::isfinite(p) ? p : 0.0F, 0.0F, 1.0F)));
  return {{"rows", picture.rows}, {"cols", picture.cols}, {"channels", picture.channels}, {"pixels", base64(bytes)}};
}

Json choice(const Choice& c) { return Json::array({c.token, c.probability}); }

}  // namespace

std::int64_t Exhibit::cells() const {
  std::int64_t sum = 0;
  for (const Layer& layer : layers) sum += layer.weights->heads() * layer.weights->queries() * layer.weights->keys();
  return sum;
}

std::string half_bytes(const float* numbers, std::int64_t count) {
  std::string bytes(static_cast<std::size_t>(2 * count), '\0');
  for (std::int64_t n = 0; n < count; ++n) {
    const std::uint16_t bits = to_float16(numbers[n]).bits;
    bytes[static_cast<std::size_t>(2 * n)] = static_cast<char>(bits & 0xff);
    bytes[static_cast<std::size_t>(2 * n + 1)] = static_cast<char>(bits >> 8);
  }
  return bytes;
}

std::string embeddable(const Json& json) {
  // Tokens need not be UTF-8. In JSON, "<" occurs only in strings, where it can be escaped.
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    if (c == '<') result += "\\u003c";
    else if (c == '>') result += "\\u003e";
    else if (c == '&') result += "\\u0026";
    else result += c;
  }
  return result;
}

Json describe(const HeadSummary& s) {
  const std::string_view bytes(reinterpret_cast<const char*>(s.thumbnail.data()), s.thumbnail.size());
  return {{"entropy", s.entropy}, {"distance", s.distance}, {"largest", s.largest},      {"peak", s.peak},
          {"rows", s.rows},       {"cols", s.cols},         {"thumbnail", base64(bytes)}};
}

Json describe(const Exhibit& exhibit) {
  Json json{{"title", exhibit.title}, {"input", exhibit.input == Input::image ? "image" : "text"},
            {"text", exhibit.text},   {"target", exhibit.target},
            {"note", exhibit.note},   {"warnings", exhibit.warnings}};
  json["tokens"] = exhibit.tokens;
  json["layers"] = Json::array();
  for (const Layer& layer : exhibit.layers) {
    Json entry{{"name", layer.name},
               {"mechanism", layer.mechanism},
               {"group", names_of(layer.group).name},
               {"groupTitle", names_of(layer.group).title},
               {"queryTokens", layer.query_tokens},
               {"keyTokens", layer.key_tokens},
               {"heads", layer.weights->heads()},
               {"queries", layer.weights->queries()},
               {"keys", layer.weights->keys()}};
    if (layer.grid[0] > 0) entry["grid"] = layer.grid;
    json["layers"].push_back(std::move(entry));
  }
  json["steps"] = Json::array();
  for (const Step& step : exhibit.steps) {
    Json others = Json::array();
    for (const Choice& other : step.others) others.push_back(choice(other));
    json["steps"].push_back({{"chosen", choice(step.chosen)}, {"others", std::move(others)}});
  }
  if (exhibit.picture.rows > 0) json["picture"] = describe_picture(exhibit.picture);
  json["epochs"] = Json::array();
  for (const Epoch& epoch : exhibit.epochs)
    json["epochs"].push_back(
        {{"number", epoch.number}, {"centers", epoch.centers}, {"covariances", epoch.covariances}});
  return json;
}

std::string static_page(const Exhibit& exhibit, const Report& report) {
  if (exhibit.cells() > kMostCells)
    throw Error("explore: expected at most " + std::to_string(kMostCells) + " weights on a page, got " +
                std::to_string(exhibit.cells()) + "; a server computes only the rows that are shown");
  std::int64_t total = 0;
  for (const Layer& layer : exhibit.layers) total += layer.weights->heads();
  Json data{{"served", false}, {"palette", palette()}, {"exhibit", describe(exhibit)}};
  std::vector<std::string> blocks;
  Json summaries = Json::array();
  std::int64_t done = 0;
  for (std::size_t l = 0; l < exhibit.layers.size(); ++l) {
    const Layer& layer = exhibit.layers[l];
    Json heads = Json::array();
    for (std::int64_t h = 0; h < layer.weights->heads(); ++h) {
      heads.push_back(describe(summarize(*layer.weights, h, layer.grid)));
      blocks.push_back(weights_block(*layer.weights, l, h));
      if (report) report(++done, total);
    }
    summaries.push_back(std::move(heads));
  }
  data["summaries"] = std::move(summaries);
  const std::string text = embeddable(data);
  return assemble(nonce_of(text), "'none'", text, blocks);
}

std::string served_page(bool live) {
  const std::string text = embeddable({{"served", true}, {"live", live}, {"palette", palette()}});
  return assemble(nonce_of(text), "'self'", text, {});
}

}  // namespace rapt::explorer
