#include "explorer/page.h"

#include <array>
#include <cmath>

#include <gtest/gtest.h>
#include <zlib.h>

#include "rapt/error.h"
#include "tests/explorer/exhibits.h"

namespace rapt::explorer::test {
namespace {

using Json = nlohmann::ordered_json;

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The contents of the element with an id.
std::string element(const std::string& page, const std::string& id) {
  const std::size_t at = page.find("id=\"" + id + "\">");
  if (at == std::string::npos) return "";
  const std::size_t begin = page.find('>', at) + 1;
  return page.substr(begin, page.find("</script>", begin) - begin);
}

std::string from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6) | static_cast<std::uint32_t>(digits.find(c));
    have += 6;
    if (have >= 8) bytes += static_cast<char>((bits >> (have -= 8)) & 255);
  }
  return bytes;
}

// f16 by its definition.
double half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = (bits & 1023) / 1024.0;
  return exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
}

const std::vector<std::string> kHostile{"<script>alert(1)</script>",
                                        "</script><script>alert(2)</script>",
                                        "<!--",
                                        "-->",
                                        "{{script}}",
                                        "{{weights}}",
                                        "{{data}}",
                                        "]]>",
                                        "\"quoted\"",
                                        "back\\slash",
                                        "\xe2\x80\xa8",
                                        "broken \xff\xfe UTF-8",
                                        std::string("\0nul", 4)};

TEST(ExplorerPage, HostileTokensStayText) {
  Exhibit exhibit = some_exhibit(1, 2, static_cast<std::int64_t>(kHostile.size()), 3);
  exhibit.tokens[0] = kHostile;
  exhibit.title = "</title><script>alert(3)</script>";
  exhibit.text = "</script>";
  const std::string page = static_page(exhibit);
  // Data, one per head, and the program: no token added another.
  EXPECT_EQ(occurrences(page, "<script"), 1U + 2U + 1U);
  EXPECT_EQ(occurrences(page, "</script>"), 1U + 2U + 1U);
  EXPECT_EQ(occurrences(page, "alert(1)"), 1U);
  const std::string data = element(page, "data");
  EXPECT_EQ(data.find('<'), std::string::npos);
  const Json json = Json::parse(data);
  const auto tokens = json["exhibit"]["tokens"][0].get<std::vector<std::string>>();
  ASSERT_EQ(tokens.size(), kHostile.size());
  for (std::size_t n = 0; n < tokens.size(); ++n)
    if (n != 11) {
      EXPECT_EQ(tokens[n], kHostile[n]);
    }
  EXPECT_EQ(tokens[11], "broken \xef\xbf\xbd\xef\xbf\xbd UTF-8");
  EXPECT_EQ(json["exhibit"]["title"], exhibit.title);
}

TEST(ExplorerPage, NeedsNothingElse) {
  const std::string page = static_page(some_exhibit(1, 1, 2, 2));
  for (const char* outside : {" src=", "url(http", "@import", "https://", "fetch(\"http"})
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  // The names of SVG's elements are no address that is looked up.
  EXPECT_EQ(occurrences(page, "http://"), occurrences(page, "http://www.w3.org/2000/svg"));
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("connect-src 'none'"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page, static_page(some_exhibit(1, 1, 2, 2)));
}

TEST(ExplorerPage, HoldsTheWeightsToThreeDigits) {
  const std::string page = static_page(some_exhibit(2, 3, 7, 5));
  const std::vector<float> all = some_weights(2, 3, 7, 5);
  for (std::size_t l = 0; l < 2; ++l)
    for (std::size_t h = 0; h < 3; ++h) {
      const std::string packed = from_base64(element(page, "w" + std::to_string(l) + "-" + std::to_string(h)));
      std::array<unsigned char, 70> bytes{};
      uLongf size = bytes.size();
      ASSERT_EQ(uncompress(bytes.data(), &size, reinterpret_cast<const Bytef*>(packed.data()), packed.size()), Z_OK);
      ASSERT_EQ(size, 70U);
      for (std::size_t n = 0; n < 35; ++n) {
        const double expected = static_cast<double>(all[(l * 3 + h) * 35 + n]);
        const double got = half(static_cast<std::uint16_t>(bytes[2 * n] | (bytes[2 * n + 1] << 8)));
        EXPECT_NEAR(got, expected, 5e-4 * expected + 1e-7);
      }
    }
}

TEST(ExplorerPage, DescribesLayersStepsAndEpochs) {
  Exhibit exhibit = some_exhibit(2, 3, 6, 6);
  exhibit.layers[1].group = Group::cross;
  exhibit.layers[1].grid = {2, 3};
  Step& step = exhibit.steps.emplace_back();
  step.chosen = {"a", 0.75};
  step.others = {{"a", 0.75}, {"b", 0.25}};
  exhibit.picture = {2, 2, 1, {0, 0.5F, 1, 7}};
  exhibit.epochs.push_back({4, {{{1, 2}}}, {}});
  const Json json = describe(exhibit);
  EXPECT_EQ(json["layers"][0]["group"], "attention");
  EXPECT_FALSE(json["layers"][0].contains("grid"));
  EXPECT_EQ(json["layers"][1]["group"], "cross");
  EXPECT_EQ(json["layers"][1]["grid"], Json::array({2, 3}));
  EXPECT_EQ(json["layers"][1]["heads"], 3);
  EXPECT_EQ(json["steps"][0]["others"][1][0], "b");
  EXPECT_EQ(from_base64(json["picture"]["pixels"].get<std::string>()), std::string("\x00\x80\xff\xff", 4));
  EXPECT_EQ(json["epochs"][0]["centers"][0][0][1], 2);
}

// Weights of any number of tokens, none of which is ever computed.
class Endless final : public Weights {
 public:
  std::int64_t heads() const override { return 1; }
  std::int64_t queries() const override { return 100000; }
  std::int64_t keys() const override { return 100000; }
  void rows(std::int64_t, std::int64_t, std::int64_t, float*) const override { throw std::logic_error("asked"); }
};

TEST(ExplorerPage, RefusesWhatDoesNotFit) {
  Exhibit exhibit;
  exhibit.tokens.resize(1);
  exhibit.layers.emplace_back();
  exhibit.layers[0].weights = std::make_shared<Endless>();
  try {
    static_page(exhibit);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("server"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace rapt::explorer::test
