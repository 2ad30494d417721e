#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/options.h"
#include "cli/progress.h"
#include "support/sanitized.h"
#include "tests/cli/live_cli.h"

// Runs as a batch queue, a shell and an impatient user see them.
namespace rapt::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

TEST(Runs, OneCommandStartsARunAndGoesOnWithIt) {
  const TemporaryDirectory dir;
  ASSERT_EQ(run_cli(small_run(dir / "whole", {"--epochs", "4"})).status, 0);
  // The same command repeated: it starts, resumes, and then has nothing left to do.
  ASSERT_EQ(run_cli(small_run(dir / "run", {"--resume"})).status, 0);
  const CliResult more = run_cli(small_run(dir / "run", {"--resume", "--epochs", "4"}));
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_TRUE(has(more.out, "epoch   3")) << more.out;
  EXPECT_FALSE(has(more.out, "epoch   2 ")) << more.out;
  ASSERT_EQ(run_cli(small_run(dir / "run", {"--resume", "--epochs", "4"})).status, 0);
  // Fewer epochs than were trained: nothing is written, and the run stays what it was.
  const std::string config = text_of(dir / "run/config.json"), metrics = text_of(dir / "run/metrics.jsonl");
  expect_refused(run_cli({"train", "--resume", "--epochs", "3", "--out", dir / "run"}),
                 {dir / "run", "epochs: expected at least 4", "got 3"});
  EXPECT_EQ(text_of(dir / "run/config.json"), config);
  EXPECT_EQ(text_of(dir / "run/metrics.jsonl"), metrics);
  ASSERT_EQ(run_cli({"train", "--resume", "--out", dir / "run"}).status, 0);
  // A setting that differs is named, with both values.
  expect_refused(run_cli(small_run(dir / "run", {"--resume", "--hidden", "16"})),
                 {"--hidden", "expected 8", "got 16", "keeps its settings"});
  expect_refused(run_cli({"train", "case", "--resume", "--out", dir / "run"}), {"'reverse'", "'case'"});
  expect_refused(run_cli({"train", "reverse", "--model", "transformer", "--resume", "--out", dir / "run"}),
                 {"--model", "expected 'seq2seq' as in ", "got 'transformer'"});
}

TEST(Runs, ARunsConfigurationIsAFileOfSettings) {
  const TemporaryDirectory dir;
  std::string lines;
  for (int n = 0; n < 60; ++n) lines += std::string(1, static_cast<char>('a' + n % 7)) + std::to_string(n) + "\tx\n";
  std::ofstream(dir / "pairs.tsv") << lines;
  ASSERT_EQ(run_cli({"train", "--data", dir / "pairs.tsv", "--hidden", "16", "--embedding", "4", "--epochs", "1",
                     "--out", dir / "first"})
                .status,
            0);
  const CliResult again = run_cli({"train", "--config", dir / "first/config.json", "--out", dir / "again"});
  ASSERT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(text_of(dir / "again/config.json"), text_of(dir / "first/config.json"));
  EXPECT_EQ(text_of(dir / "again/model.safetensors"), text_of(dir / "first/model.safetensors"));
  ASSERT_EQ(run_cli(small_run(dir / "reverse", {"--epochs", "1"})).status, 0);
  expect_refused(run_cli({"train", "case", "--config", dir / "reverse/config.json", "--out", dir / "x"}),
                 {"config.json", "'case'", "'reverse'"});
}

TEST(Runs, ADirectoryBelongsToOneProcess) {
  const TemporaryDirectory dir;
  LiveCli first(small_run(dir / "run", {"--epochs", "100000"}));
  first.output_with("epoch   1");
  const Words again = small_run(dir / "run", {"--resume", "--epochs", "100000"});
  expect_refused(run_cli(again), {"--out", "process " + std::to_string(first.process())});
  // However the other process ends.
  first.signal(SIGKILL);
  first.wait();
  LiveCli second(again);
  second.output_with("epoch ");
  second.signal(SIGINT);
  EXPECT_EQ(second.wait(), 130);
  EXPECT_TRUE(has(second.rest(), "rapt train --resume --out " + dir / "run"));
  EXPECT_EQ(run_cli({"decode", dir / "run", "abc"}).status, 0);
}

// A client of the explorer that sends a request and never reads.
class SilentClient {
 public:
  // `room`: the size of its receive buffer; 0: the default.
  SilentClient(int port, const std::string& says, int room = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (room > 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
    EXPECT_EQ(::send(socket_, says.data(), says.size(), MSG_NOSIGNAL), static_cast<ssize_t>(says.size()));
  }
  ~SilentClient() { ::close(socket_); }
  SilentClient(const SilentClient&) = delete;
  SilentClient& operator=(const SilentClient&) = delete;

 private:
  int socket_;
};

// Ended on purpose: nothing was interrupted, so the status is 0.
TEST(Runs, AnInterruptEndsTheExplorerWhateverItDoes) {
  const TemporaryDirectory dir;
  for (const char* name : {"q.npy", "k.npy"}) save_f4(dir / name, {1, 8, 16384, 8}, pseudo_random(8 * 16384 * 8, 3));
  for (const int signal : {SIGINT, SIGTERM}) {
    LiveCli explorer({"explore", dir.path().string(), "--serve"});
    const std::string said = explorer.output_with("(Ctrl-C ends it)");
    const int port = std::stoi(said.substr(said.find("127.0.0.1:") + 10));
    const std::string host = " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\n\r\n";
    // One has not finished its request, eight do not read their answers, and eight wait for a whole map, which takes
    // long.
    const SilentClient slow(port, "GET / HT");
    std::vector<std::unique_ptr<SilentClient>> waiting;
    for (int n = 0; n < 8; ++n)
      waiting.push_back(std::make_unique<SilentClient>(
          port, "GET /api/map?id=1&layer=0&head=0&top=0&bottom=64&left=0&right=16384&height=64&width=16384" + host,
          4096));
    // Answers of 2 MB, of which the system takes less.
    ::usleep(500'000);
    for (int n = 0; n < 8; ++n)
      waiting.push_back(
          std::make_unique<SilentClient>(port, "GET /api/head?id=1&layer=0&head=" + std::to_string(n) + host));
    ::usleep(100'000);
    const auto start = std::chrono::steady_clock::now();
    explorer.signal(signal);
    EXPECT_EQ(explorer.wait(), 0);
    // All that they wait for would take several times as long.
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(support::unless_sanitized(1, 3)));
    EXPECT_EQ(lines_in(explorer.rest()), 1);
  }
}

TEST(Runs, PatienceSaysThatItEndedTheRun) {
  const TemporaryDirectory dir;
  const CliResult result = run_cli(small_run(dir / "run", {"--patience", "1", "--rate", "1e-9", "--epochs", "50"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_TRUE(has(result.out, "--patience ended the run after epoch")) << result.out;
}

class Decoding : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TemporaryDirectory;
    ASSERT_EQ(run_cli(small_run(*folder_ / "run")).status, 0);
  }
  static void TearDownTestSuite() { delete folder_; }
  static std::string run() { return *folder_ / "run"; }

  static TemporaryDirectory* folder_;
};
TemporaryDirectory* Decoding::folder_ = nullptr;

TEST_F(Decoding, AnswersEachLineAsItComes) {
  LiveCli decode({"decode", run()});
  decode.write("abc\n");
  EXPECT_EQ(lines_in(decode.output_with("\n")), 1);
  decode.write("dd\nabca\n");
  decode.close_input();
  EXPECT_EQ(decode.wait(), 0);
  EXPECT_EQ(lines_in(decode.rest()), 3);
}

TEST_F(Decoding, GoesOnAfterABadLine) {
  const TemporaryDirectory dir;
  const CliResult good = run_cli({"decode", run(), "abc", "dd"});
  const CliResult result = run_cli({"decode", run(), "abc", "a\xff", "dd", "--align", dir / "links"});
  EXPECT_EQ(result.status, 1);
  EXPECT_TRUE(has(result.err, "decode: line 2: ")) << result.err;
  const std::size_t first = good.out.find('\n') + 1;
  EXPECT_EQ(result.out, good.out.substr(0, first) + "\n" + good.out.substr(first));
  EXPECT_EQ(lines_in(text_of(dir / "links")), 3);
  const CliResult json = run_cli({"decode", run(), "a\xff", "dd", "--json"});
  EXPECT_EQ(json.status, 1);
  const Json list = Json::parse(json.out);
  EXPECT_TRUE(list[0].contains("error"));
  EXPECT_EQ(list[1]["hypotheses"].size(), 1U);
}

TEST_F(Decoding, AlignmentsGoToTheStandardOutputAndToWhatIsNoFile) {
  const TemporaryDirectory dir;
  const CliResult plain = run_cli({"decode", run(), "abc", "--align", dir / "links"});
  const std::string both = plain.out + text_of(dir / "links");
  EXPECT_EQ(run_cli({"decode", run(), "abc", "--align", "-"}).out, both);
  EXPECT_FALSE(fs::exists("-"));
  EXPECT_EQ(run_cli({"decode", run(), "abc", "--align", "/dev/stdout"}).out, both);
  EXPECT_TRUE(fs::is_symlink("/dev/stdout"));
  // Also where that is a file: it is not written from its start.
  std::ofstream(dir / "both").close();
  EXPECT_EQ(run_cli_into(dir / "both", {"decode", run(), "abc", "--align", "/dev/stdout"}).status, 0);
  EXPECT_EQ(text_of(dir / "both"), both);
}

TEST_F(Decoding, APictureSaysWhatItShows) {
  const TemporaryDirectory dir;
  const CliResult result = run_cli({"decode", run(), "abc", "--plot", dir / "map.svg"});
  EXPECT_TRUE(has(text_of(dir / "map.svg"), "attention of the decoder to the source"));
  EXPECT_TRUE(has(result.err, "map.svg")) << result.err;
  const std::string answer = run_cli({"decode", run(), "abc"}).out;
  const CliResult piped = run_cli({"decode", run(), "abc", "--plot", "-", "--format", "svg"});
  EXPECT_EQ(piped.out, answer + text_of(dir / "map.svg")) << piped.err;
}

// Hours of answers must not end in a picture that cannot be written.
TEST_F(Decoding, APictureWithoutAFormatIsRefusedBeforeTheAnswers) {
  for (const Words& picture : {Words{"--plot", "-"}, Words{"--plot", "map.gif"},
                               Words{"--plot", "map.svg", "--format", "png"}, Words{"--format", "png"}}) {
    Words command{"decode", run(), "abc"};
    command.insert(command.end(), picture.begin(), picture.end());
    const CliResult result = run_cli(command);
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(has(result.err, "expected")) << result.err;
  }
}

TEST_F(Decoding, AControlCharacterIsNamedByItsNumber) {
  const CliResult result = run_cli({"decode", run(), "a\tb"});
  EXPECT_TRUE(has(result.err, "line 1: U+0009 is not in the vocabulary")) << result.err;
}

TEST_F(Decoding, EvaluateShowsTheMistakes) {
  const TemporaryDirectory dir;
  const CliResult result =
      run_cli({"evaluate", run(), "--predictions", dir / "answers.tsv", "--worst", "3", "--by-length", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  const Json json = Json::parse(result.out);
  std::istringstream lines(text_of(dir / "answers.tsv"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "source\treference\tanswer\tscore\tright");
  std::int64_t count = 0, right = 0;
  while (std::getline(lines, line)) {
    std::istringstream cells(line);
    Words cell(5);
    for (std::string& one : cell) std::getline(cells, one, '\t');
    EXPECT_EQ(std::string(cell[0].rbegin(), cell[0].rend()), cell[1]);
    EXPECT_EQ(cell[1] == cell[2], cell[4] == "yes") << line;
    right += cell[4] == "yes" ? 1 : 0;
    ++count;
  }
  EXPECT_EQ(count, json["sequences"]);
  EXPECT_NEAR(static_cast<double>(right) / static_cast<double>(count), json["exact_match"].get<double>(), 1e-12);
  ASSERT_EQ(json["worst"].size(), 3U);
  EXPECT_GE(json["worst"][0]["edits"], json["worst"][2]["edits"]);
  const CliResult text = run_cli({"evaluate", run(), "--by-length"});
  // Fractions there, percentages here.
  for (const char* name : {"BLEU", "chrF"}) {
    std::array<char, 32> shown{};
    std::snprintf(shown.data(), shown.size(), "%s %.2f %%", name, 100 * json[name].get<double>());
    EXPECT_TRUE(has(text.out, shown.data())) << shown.data() << " in " << text.out;
  }
  EXPECT_GT(json["chrF"].get<double>(), 0);
  EXPECT_LE(json["chrF"].get<double>(), 1);
  EXPECT_TRUE(has(text.out, " %")) << text.out;

  ASSERT_EQ(run_cli({"evaluate", run(), "--write-split", dir / "split"}).status, 0);
  EXPECT_EQ(lines_in(text_of(dir / "split/train.tsv")), 200);
  EXPECT_EQ(lines_in(text_of(dir / "split/test.tsv")), 20);
  const CliResult same = run_cli({"evaluate", run(), "--data", dir / "split/test.tsv", "--json"});
  EXPECT_EQ(Json::parse(same.out)["exact_match"], json["exact_match"]);
}

TEST_F(Decoding, EvaluateIgnoresNoOption) {
  const TemporaryDirectory dir;
  for (const Words& option : {Words{"--predictions", dir / "x.tsv"},
                              {"--worst", "3"},
                              {"--by-length"},
                              {"--beam", "2"},
                              {"--data", dir / "x.tsv"},
                              {"--split", "valid"},
                              {"--json"}}) {
    Words command{"evaluate", run(), "--write-split", dir / "split"};
    command.insert(command.end(), option.begin(), option.end());
    expect_refused(run_cli(command), {"--write-split", "expected no " + option[0] + " beside it"});
  }
  EXPECT_FALSE(fs::exists(dir / "split"));
  expect_refused(run_cli({"evaluate", run(), "--data", dir / "x.tsv", "--split", "test"}),
                 {"--data or --split", "both"});
}

// All that the program writes to a terminal of so many columns, which is its standard error.
std::string on_narrow_terminal(Words words, unsigned short columns) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return {};
  words.insert(words.begin(), RAPT_CLI);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int terminal = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(terminal, TIOCSWINSZ, &size);
    ::dup2(terminal, STDERR_FILENO);
    ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  std::string text;
  std::array<char, 4096> buffer{};
  // Reading fails once the other side is closed.
  for (ssize_t got = 0; (got = ::read(master, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(got));
  ::close(master);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << text;
  return text;
}

// A wrapped line would not be erased.
TEST(ProgressLine, StaysOnOneLineOfTheTerminal) {
  const TemporaryDirectory dir;
  const std::string erase = "\x1b[K";
  const auto lines_of = [&](unsigned short columns) {
    std::istringstream text(on_narrow_terminal(small_run(dir / std::to_string(columns)), columns));
    Words lines;
    for (std::string line; std::getline(text, line, '\r');) {
      EXPECT_FALSE(has(line, "\n")) << line;
      if (line.empty()) continue;
      EXPECT_TRUE(line.ends_with(erase)) << line;
      lines.push_back(line.substr(0, line.size() - std::min(line.size(), erase.size())));
    }
    return lines;
  };
  for (const unsigned short columns : {40, 200}) {
    const Words lines = lines_of(columns);
    ASSERT_GE(lines.size(), 2U);
    EXPECT_TRUE(lines.front().starts_with("training [")) << lines.front();
    EXPECT_EQ(lines.back(), "");
    for (const std::string& line : lines) EXPECT_LT(cli::character_count(line), columns) << line;
    EXPECT_EQ(has(lines.front(), "symbols/s") || has(lines.front(), "tokens/s"), columns == 200) << lines.front();
  }
}

TEST(ProgressLine, IsClippedToTheTerminal) {
  EXPECT_EQ(cli::clipped("abcdef", 4), "abcd");
  EXPECT_EQ(cli::clipped("abc", 4), "abc");
  EXPECT_EQ(cli::clipped("größer", 3), "grö");
}

TEST(ProgressLine, TellsTimeAsPeopleDo) {
  EXPECT_EQ(cli::time_left(0.02), "1 s");
  EXPECT_EQ(cli::time_left(42.4), "42 s");
  EXPECT_EQ(cli::time_left(575), "10 min");
  EXPECT_EQ(cli::time_left(19900), "6 h");
  EXPECT_EQ(cli::time_left(4e6), "46 days");
  EXPECT_EQ(cli::format_seconds(19900), "19900 s");
  EXPECT_EQ(cli::format_seconds(999.4), "999 s");
  EXPECT_EQ(cli::format_seconds(0.0123), "12.3 ms");
}

}  // namespace
}  // namespace rapt::test
