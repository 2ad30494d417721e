// `rapt plot`, called as the program calls it. Without the command-line tool there is nothing to test.
#ifdef RAPT_HAS_CLI

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <limits>

#include "cli/verbs.h"
#include "rapt/error.h"
#include "tensor/files.h"
#include "tensor/npy.h"
#include "tests/pictures/png_reader.h"
#include "tests/pictures/svg_reader.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::test {
namespace {

using Words = std::vector<std::string>;

// Empty if it succeeded; else its message.
std::string plot(Words words) {
  CLI::App app;
  app.require_subcommand(1);
  cli::add_plot(app);
  words.insert(words.begin(), "plot");
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class Plot : public testing::Test {
 protected:
  std::string array(const std::string& name, const std::vector<std::int64_t>& shape,
                    const std::vector<double>& values) {
    const std::string path = directory_ / (name + ".npy");
    write_npy(path, Array::of<double>(shape, values));
    return path;
  }

  std::string ramp(const std::string& name, const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    std::vector<double> values;
    for (std::int64_t n = 0; n < count; ++n) values.push_back(static_cast<double>(n) / static_cast<double>(count));
    return array(name, shape, values);
  }

  std::string file(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << text;
    return directory_ / name;
  }

  Element svg() const { return read_svg(read_file(out_)); }

  // Refused with one message that contains the parts, and without a file.
  void expect_refused(const Words& words, const Words& parts) {
    const std::string message = plot(words);
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << "'" << message << "'";
    EXPECT_FALSE(message.empty());
    EXPECT_FALSE(std::filesystem::exists(out_)) << message;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path()))
      EXPECT_NE(entry.path().extension(), ".tmp");
  }

  TemporaryDirectory directory_;
  std::string out_ = directory_ / "out.svg";
};

TEST_F(Plot, HeatMapWithTokensAndNumbers) {
  const std::string a = ramp("a", {2, 3});
  EXPECT_EQ(
      plot({"heatmap", a, "--out", out_, "--rows", "the cat", "--cols", "<a> b c", "--values", "--title", "T & t"}),
      "");
  EXPECT_EQ(texts(svg(), "row-label"), (Words{"the", "cat"}));
  EXPECT_EQ(texts(svg(), "col-label"), (Words{"<a>", "b", "c"}));
  EXPECT_EQ(texts(svg(), "value").size(), 6u);
  EXPECT_EQ(svg().tip(), "T & t");
  EXPECT_EQ(fills(svg(), "cell")[5], pictures::hex(pictures::color_at(1)));
  const std::string png = directory_ / "out.png";
  EXPECT_EQ(plot({"heatmap", a, "--out", png, "--scale", "1"}), "");
  EXPECT_GT(read_png(read_file(png)).width, 100);
}

TEST_F(Plot, HeadsMakeAGrid) {
  const std::string a = ramp("a", {2, 3, 4, 5});
  EXPECT_EQ(plot({"heatmap", a, "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "map-title"), (Words{"0, 0", "0, 1", "0, 2", "1, 0", "1, 1", "1, 2"}));
  EXPECT_EQ(plot({"heatmap", a, "--out", out_, "--head", "1,2", "--range", "0,1"}), "");
  EXPECT_EQ(texts(svg(), "title"), (Words{"1, 2"}));
  EXPECT_EQ(fills(svg(), "cell").back(), pictures::hex(pictures::color_at(119 / 120.0)));
  EXPECT_EQ(plot({"heatmap", ramp("h", {4, 2, 2}), "--out", out_, "--head", "3"}), "");
  EXPECT_EQ(texts(svg(), "title"), (Words{"head 3"}));
}

TEST_F(Plot, LabelsFromAFile) {
  const std::string labels = file("labels.txt", "one\r\n two\n\n");
  EXPECT_EQ(plot({"heatmap", ramp("a", {3, 1}), "--out", out_, "--row-labels", labels}), "");
  EXPECT_EQ(texts(svg(), "row-label"), (Words{"one", "␣two"}));  // the third is empty
}

TEST_F(Plot, HeatMapRefusesBadInput) {
  const std::string a = ramp("a", {2, 3});
  const auto nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  if (::isatty(STDOUT_FILENO) == 0) expect_refused({"heatmap", a}, {"--out"});
  expect_refused({"heatmap", a, "--out", directory_ / "x.jpg"}, {".svg, .png or .pdf"});
  expect_refused({"heatmap", array("n", {1, 2}, {1, nan}), "--out", out_}, {"nan", "row 0, column 1"});
  expect_refused({"heatmap", array("i", {1, 2}, {1, inf}), "--out", out_}, {"got an infinite number"});
  expect_refused({"heatmap", array("e", {0, 2}, {}), "--out", out_}, {"empty", "[0, 2]"});
  expect_refused({"heatmap", ramp("r", {4}), "--out", out_}, {"[4]", "[R, C]"});
  expect_refused({"heatmap", ramp("r", {1, 1, 1, 1, 4}), "--out", out_}, {"[1, 1, 1, 1, 4]"});
  expect_refused({"heatmap", a, "--out", out_, "--rows", "one"},
                 {"--rows", "expected 2 labels, one for each row, got 1"});
  expect_refused({"heatmap", a, "--out", out_, "--cols", "one two"},
                 {"--cols", "expected 3 labels, one for each column, got 2"});
  expect_refused({"heatmap", a, "--out", out_, "--rows", "a \xff"}, {"--rows", "UTF-8"});
  expect_refused({"heatmap", a, "--out", out_, "--rows", "a b", "--row-labels", a},
                 {"expected words or a file, got both"});
  expect_refused({"heatmap", a, "--out", out_, "--head", "0"}, {"--head", "expected an array with heads, got [2, 3]"});
  expect_refused({"heatmap", ramp("h", {2, 2, 2}), "--out", out_, "--head", "2"}, {"--head", "[2, 2, 2]"});
  expect_refused({"heatmap", ramp("b", {2, 2, 2, 2}), "--out", out_, "--head", "1"}, {"--head", "B,H"});
  expect_refused({"heatmap", a, "--out", out_, "--range", "1,0"}, {"--range"});
  expect_refused({"heatmap", a, "--out", out_, "--theme", "blue"}, {"--theme", "expected light, dark or auto"});
  expect_refused({"heatmap", a, "--out", out_, "--scale", "nan"}, {"--scale"});
  expect_refused({"heatmap", ramp("l", {41, 2}), "--out", out_, "--values"}, {"41", "40"});
  expect_refused({"heatmap", directory_ / "missing.npy", "--out", out_}, {"missing.npy"});
  expect_refused({"heatmap", file("t.npy", "no array"), "--out", out_}, {"t.npy"});
  expect_refused({"heatmap", a, "--out", directory_ / "missing/out.svg"}, {"missing"});
  expect_refused({"heatmap", a, "--out", out_, "--typo"}, {"--typo"});
  expect_refused({"picture", a}, {"picture"});
  expect_refused({}, {"heatmap, curves, alignment"});
}

TEST_F(Plot, CurvesOfMetrics) {
  const std::string metrics = file("metrics.jsonl",
                                   "{\"step\": 1, \"loss\": 3, \"valid\": {\"loss\": 4}, \"note\": \"x\"}\n"
                                   "\n"
                                   "{\"step\": 2, \"loss\": null}\r\n"
                                   "{\"step\": 3, \"loss\": 1, \"accuracy\": 0.5, \"valid\": {\"loss\": 2}}\n");
  EXPECT_EQ(plot({"curves", metrics, "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "legend-name"), (Words{"loss", "valid.loss"}));
  EXPECT_EQ(texts(svg(), "x-title"), (Words{"step"}));
  // null is a gap; a line that does not mention a field is none.
  EXPECT_EQ(of_class(svg(), "curve").size(), 1u);
  EXPECT_EQ(plot({"curves", directory_.path().string(), "--x", "loss", "--y", "accuracy", "--log", "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "y-title"), (Words{"accuracy"}));
  EXPECT_EQ(plot({"curves", ramp("c", {5, 2}), "--y", "a,b", "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "legend-name"), (Words{"a", "b"}));
  std::filesystem::remove(out_);

  expect_refused({"curves", metrics, "--y", "los", "--out", out_},
                 {"--y", "'los'", "step, loss, valid.loss, accuracy"});
  expect_refused({"curves", metrics, "--x", "time", "--out", out_}, {"--x", "'time'", "step, loss"});
  expect_refused({"curves", file("bad.jsonl", "{\"a\": 1}\nno json\n"), "--out", out_}, {"bad.jsonl", "line 2"});
  expect_refused({"curves", file("bytes.jsonl", "{\"\xff\": 1}\n"), "--out", out_}, {"line 1"});
  expect_refused({"curves", file("empty.jsonl", ""), "--out", out_}, {"at least one number"});
  expect_refused({"curves", file("null.jsonl", "{\"a\": null}\n"), "--out", out_},
                 {"expected at least one finite number, got none"});
  expect_refused({"curves", ramp("c3", {2, 2, 2}), "--out", out_}, {"[2, 2, 2]"});
  expect_refused({"curves", ramp("c2", {2, 2}), "--y", "a", "--out", out_}, {"2 names"});
}

TEST_F(Plot, Alignment) {
  const std::string w = ramp("w", {2, 3});
  EXPECT_EQ(plot({"alignment", w, "--source", "a b c", "--target", "x y", "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "source-label"), (Words{"a", "b", "c"}));
  EXPECT_EQ(of_class(svg(), "link").size(), 5u);
  std::filesystem::remove(out_);
  expect_refused({"alignment", w, "--source", "a b", "--out", out_}, {"--source", "expected 3 tokens for the array"});
  expect_refused({"alignment", ramp("h", {2, 2, 2}), "--out", out_}, {"expected one map, which --head chooses, got 2"});
  expect_refused({"alignment", array("m", {1, 1}, {-1}), "--out", out_},
                 {"weights: expected finite numbers from 0, got −1"});
}

TEST_F(Plot, BarsAndScaling) {
  const std::string bars =
      file("bars.json", R"({"groups": ["a", "b"], "series": [{"name": "x", "values": [1, null]}], "value": "s"})");
  EXPECT_EQ(plot({"bars", bars, "--out", out_, "--title", "B"}), "");
  EXPECT_EQ(texts(svg(), "x-title"), (Words{"s"}));
  const std::string scaling =
      file("scaling.json", R"({"series": [{"name": "x", "x": [1, 2, 4], "y": [1, 4, 16]}], "slopes": [2]})");
  EXPECT_EQ(plot({"scaling", scaling, "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "legend-name"), (Words{"x (slope 2)", "slope 2"}));
  const std::string bench = file("bench.json", R"({"rows": [
      {"name": "dot", "direction": "forward", "shape": [1, 8, 512, 64], "seconds": 1, "fraction": 0.5},
      {"name": "dot", "direction": "backward", "shape": [1, 8, 512, 64], "seconds": 2, "fraction": null},
      {"name": "dot", "direction": "forward", "shape": [1, 8, 1024, 64], "seconds": 4, "fraction": 0.6}]})");
  EXPECT_EQ(plot({"bars", bench, "--y", "fraction", "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "y-tick"), (Words{"dot 1,8,512,64", "dot 1,8,1024,64"}));
  EXPECT_EQ(of_class(svg(), "bar").size(), 2u);
  EXPECT_EQ(plot({"scaling", bench, "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "x-tick"), (Words{"512", "1024"}));
  std::filesystem::remove(out_);
  expect_refused({"bars", bench, "--y", "speed", "--out", out_}, {"rows[0]", "'speed'", "seconds"});
  expect_refused({"bars", scaling, "--out", out_}, {"scaling.json", "slopes"});
  expect_refused({"scaling", bars, "--out", out_}, {"bars.json"});
  expect_refused(
      {"bars", file("b.json", R"({"groups": ["a"], "series": [{"name": "x", "values": [1, 2]}]})"), "--out", out_},
      {"expected 1 number, one for each group, got 2"});
  expect_refused({"scaling", file("s.json", R"({"series": [{"name": "x", "x": [0], "y": [1]}]})"), "--out", out_},
                 {"scaling: 'x'", "expected numbers above 0, since both axes are logarithmic, got 0"});
  expect_refused({"bars", file("no.json", "[1"), "--out", out_}, {"no.json"});
}

TEST_F(Plot, Centers) {
  const std::string centers = ramp("centers", {3, 2, 4, 2});
  std::vector<double> matrices;
  for (int n = 0; n < 24; ++n) matrices.insert(matrices.end(), {1, 0, 0, 1});
  EXPECT_EQ(plot({"centers", centers, "--out", out_}), "");
  EXPECT_EQ(of_class(svg(), "trajectory").size(), 8u);
  EXPECT_EQ(of_class(svg(), "ellipse-50").size(), 0u);
  EXPECT_EQ(texts(svg(), "panel-title"), (Words{"layer 0", "layer 1"}));
  const std::string covariances = array("covariances", {3, 2, 4, 2, 2}, matrices);
  EXPECT_EQ(plot({"centers", centers, covariances, "--out", out_}), "");
  EXPECT_EQ(of_class(svg(), "ellipse-50").size(), 16u);  // area and outline
  std::filesystem::remove(out_);
  expect_refused({"centers", directory_.path().string(), "--out", out_}, {"config.json"});
  expect_refused({"centers", ramp("c", {4}), "--out", out_}, {"[4]", "[L, H, 2]"});
  expect_refused({"centers", ramp("c", {2, 4, 2}), covariances, "--out", out_}, {"[3, 2, 4, 2, 2]", "[2, 4, 2]"});
  expect_refused({"centers", centers, centers, "--out", out_}, {"[L, H, 2, 2]"});
  expect_refused({"centers", centers, centers, centers, "--out", out_}, {"expected at most two files", "got 3"});
}

TEST_F(Plot, FiguresForPapers) {
  const std::string metrics = file("metrics.jsonl", "{\"step\": 1, \"loss\": 3}\n{\"step\": 2, \"loss\": 1}\n");
  const Words figure{"--width", "8.5cm", "--font-size", "8", "--out", out_};
  const auto with = [&](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_EQ(plot(with({"curves", metrics, "--xlabel", "updates", "--ylabel", "nats"}, figure)), "");
  EXPECT_EQ(svg().attribute("width"), "85mm");
  EXPECT_EQ(texts(svg(), "x-title"), (Words{"updates"}));
  EXPECT_EQ(texts(svg(), "y-title"), (Words{"nats"}));
  // A label of 8 points: its share of the picture's width is that of 8 points of 8.5 cm.
  const double share =
      of_class(svg(), "x-title")[0]->number("font-size") / std::stod(svg().attribute("viewBox").substr(4));
  EXPECT_NEAR(share, 8.0 / 72 / (8.5 / 2.54), 1e-3);
  EXPECT_EQ(plot({"curves", metrics, "--width", "3.3in", "--out", out_}), "");
  EXPECT_EQ(svg().attribute("width"), "83.82mm");

  const std::string pdf = directory_ / "out.pdf";
  const std::string bars =
      file("bars.json", R"({"groups": ["a"], "series": [{"name": "x", "values": [99.7]}], "title": "T"})");
  EXPECT_EQ(plot({"bars", bars, "--no-title", "--ylabel", "group", "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "title").size(), 0u);
  EXPECT_EQ(texts(svg(), "y-title"), (Words{"group"}));
  EXPECT_EQ(texts(svg(), "value"), (Words{"99.7"}));
  EXPECT_EQ(
      plot({"heatmap", array("s", {2, 2}, {-1, 0, 0.5, 1}), "--xlabel", "keys", "--ylabel", "queries", "--out", out_}),
      "");
  EXPECT_EQ(texts(svg(), "col-title"), (Words{"keys"}));
  EXPECT_EQ(texts(svg(), "row-title"), (Words{"queries"}));
  EXPECT_EQ(fills(svg(), "cell")[0], pictures::hex(pictures::color_of(-1, -1, 1)));

  for (const Words& words :
       {Words{"bars", bars}, Words{"curves", metrics}, Words{"heatmap", ramp("a", {3, 3})},
        Words{"heatmap", ramp("h", {2, 3, 3})}, Words{"alignment", ramp("w", {2, 3})},
        Words{"centers", ramp("centers", {2, 3, 2})},
        Words{"scaling", file("s.json", R"({"series": [{"name": "x", "x": [1, 2], "y": [1, 4]}]})")}}) {
    std::filesystem::remove(pdf);
    EXPECT_EQ(plot(with(words, {"--width", "12cm", "--out", pdf})), "") << words[0];
    EXPECT_EQ(read_file(pdf).substr(0, 5), "%PDF-") << words[0];
  }

  std::filesystem::remove(out_);
  for (const char* width : {"8", "8.5", "cm", "8.5 furlongs", "-3cm", "1cm", "nancm", "8,5cm", "500in"})
    expect_refused({"curves", metrics, "--width", width, "--out", out_},
                   {"--width: expected", "got '" + std::string(width)});
  for (const char* size : {"big", "0", "3", "41", "9pt", "nan"})
    expect_refused({"curves", metrics, "--font-size", size, "--out", out_}, {"--font-size: expected points", size});
  expect_refused({"curves", metrics, "--width", "3cm", "--font-size", "20", "--out", out_},
                 {"--width: expected at least", "cm", "20 points", "got '3cm'"});
  // The least width is told in the unit that was asked in, and is enough.
  for (const std::string unit : {"cm", "mm", "in"}) {
    const std::string said =
        plot({"curves", metrics, "--width", (unit == "mm" ? "20" : "2") + unit, "--font-size", "20", "--out", out_});
    const std::size_t begin = said.find("at least ") + 9;
    const std::string least = said.substr(begin, said.find(' ', begin) - begin);
    EXPECT_TRUE(least.ends_with(unit)) << said;
    EXPECT_EQ(plot({"curves", metrics, "--width", least, "--font-size", "20", "--out", out_}), "") << said;
    std::filesystem::remove(out_);
  }
  expect_refused({"curves", metrics, "--title", "T", "--no-title", "--out", out_}, {"--title or --no-title"});
  expect_refused({"curves", metrics, "--xlabel", "\xff", "--out", out_}, {"--xlabel", "UTF-8"});
}

TEST_F(Plot, CurvesOfSeveralRuns) {
  const auto run = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(directory_.path() / name);
    file(name + "/metrics.jsonl", text);
    return directory_ / name;
  };
  const std::string dot =
      run("dot", "{\"epoch\": 1, \"loss\": 3, \"valid\": 4}\n{\"epoch\": 2, \"loss\": 1, \"valid\": 2}\n");
  const std::string none =
      run("none", "{\"epoch\": 1, \"loss\": 5}\n{\"epoch\": 2, \"loss\": 4}\n{\"epoch\": 3, \"loss\": 3}\n");
  EXPECT_EQ(plot({"curves", dot, none + "/metrics.jsonl", "--out", out_}), "");
  EXPECT_EQ(texts(svg(), "legend-name"), (Words{"dot", "none"}));
  EXPECT_EQ(texts(svg(), "y-title"), (Words{"loss"}));
  EXPECT_EQ(texts(svg(), "x-title"), (Words{"epoch"}));
  // The last point of the second lies right of the first run's, at its own height.
  const auto markers = of_class(svg(), "marker");
  ASSERT_EQ(markers.size(), 5u);
  EXPECT_EQ(plot({"curves", dot, run("a/dot", "{\"epoch\": 1, \"loss\": 3, \"valid\": 4}\n"), "--y", "loss,valid",
                  "--out", out_}),
            "");
  const Words names = texts(svg(), "legend-name");
  ASSERT_EQ(names.size(), 4u);
  EXPECT_NE(names[0], names[2]);
  EXPECT_EQ(names[3], "a/dot, valid");
  std::filesystem::remove(out_);
  expect_refused({"curves", dot, none, "--y", "valid", "--out", out_}, {"--y", "none/metrics.jsonl"});
  expect_refused({"curves", dot, dot, "--out", out_}, {"twice"});
  expect_refused({"curves", dot, run("s", "{\"step\": 1, \"loss\": 1}\n"), "--out", out_},
                 {"'epoch'", "'step'", "--x"});
  expect_refused({"curves", dot, directory_ / "gone", "--out", out_}, {"gone"});
}

// The view of a terminal, through a pseudo-terminal.
std::string on_terminal(const Words& words, const char* colors) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(::ptsname(master), O_RDWR | O_NOCTTY), STDOUT_FILENO);
    ::setenv("COLORTERM", colors, 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    ::unsetenv("NO_COLOR");
    const std::string error = plot(words);
    std::cout << error << std::flush;
    ::_exit(error.empty() ? 0 : 2);
  }
  std::string text;
  std::array<char, 4096> buffer;
  // Reading fails once the other side is closed.
  for (ssize_t got = 0; (got = ::read(master, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(master);
  ::waitpid(child, nullptr, 0);
  return text;
}

TEST_F(Plot, ShowsInATerminal) {
  const std::string a = ramp("a", {3, 3});
  EXPECT_NE(on_terminal({"heatmap", a, "--rows", "the cat sat"}, "truecolor").find("▀"), std::string::npos);
  const std::string plain = on_terminal({"heatmap", a, "--rows", "the cat sat"}, "");
  EXPECT_NE(plain.find("sat "), std::string::npos);
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(on_terminal({"heatmap", ramp("h", {20, 2, 2})}, "").find("12 more"), std::string::npos);
  EXPECT_NE(on_terminal({"centers", ramp("c", {2, 3, 2})}, "").find("layer  head"), std::string::npos);
  EXPECT_NE(on_terminal({"curves", ramp("n", {9})}, "").find("* n"), std::string::npos);
  EXPECT_NE(on_terminal({"alignment", a, "--source", "x y z"}, "").find("@@"), std::string::npos);
}

}  // namespace
}  // namespace rapt::test

#endif  // RAPT_HAS_CLI
