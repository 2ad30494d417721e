#include "tests/cli/live_cli.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <gtest/gtest.h>

namespace rapt::test {

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::ptrdiff_t lines_in(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

void expect_refused(const CliResult& result, const Words& parts) {
  EXPECT_EQ(result.status, 2) << result.out;
  EXPECT_EQ(lines_in(result.err), 1) << result.err;
  for (const std::string& part : parts) EXPECT_TRUE(has(result.err, part)) << result.err;
}

Words small_run(const std::string& out, const Words& more) {
  const Words usual{"--train-size", "200", "--valid-size", "20", "--test-size", "20", "--min-length", "2",
                    "--max-length", "6",   "--hidden",     "8",  "--embedding", "8",  "--epochs",     "2",
                    "--batch",      "20",  "--out",        out};
  Words all{"train", "reverse"};
  for (std::size_t n = 0; n < usual.size(); n += 2)
    if (std::find(more.begin(), more.end(), usual[n]) == more.end()) all.insert(all.end(), {usual[n], usual[n + 1]});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

LiveCli::LiveCli(const Words& arguments) {
  Words words{RAPT_CLI};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int in[2], out[2];
  messages_ = ::memfd_create("messages", MFD_CLOEXEC);
  if (messages_ < 0 || ::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  child_ = ::fork();
  if (child_ == 0) {
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(messages_, STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  input_ = in[1];
  output_ = out[0];
}

LiveCli::~LiveCli() {
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  close_input();
  ::close(output_);
  ::close(messages_);
}

void LiveCli::write(const std::string& text) {
  EXPECT_EQ(::write(input_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

void LiveCli::close_input() {
  if (input_ >= 0) ::close(input_);
  input_ = -1;
}

void LiveCli::signal(int number) const { ::kill(child_, number); }

const std::string& LiveCli::output_with(const std::string& part) {
  while (!has(seen_, part)) {
    pollfd output{output_, POLLIN, 0};
    char bytes[4096];
    const ssize_t got = ::poll(&output, 1, 60'000) > 0 ? ::read(output_, bytes, sizeof bytes) : 0;
    if (got <= 0) {
      ADD_FAILURE() << "no '" << part << "' in: " << seen_;
      break;
    }
    seen_.append(bytes, static_cast<std::size_t>(got));
  }
  return seen_;
}

int LiveCli::wait() {
  int status = 0;
  ::waitpid(child_, &status, 0);
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string LiveCli::rest() {
  for (char bytes[4096];;) {
    const ssize_t got = ::read(output_, bytes, sizeof bytes);
    if (got <= 0) return seen_;
    seen_.append(bytes, static_cast<std::size_t>(got));
  }
}

std::string LiveCli::messages() const {
  std::string text;
  char bytes[4096];
  while (true) {
    const ssize_t got = ::pread(messages_, bytes, sizeof bytes, static_cast<off_t>(text.size()));
    if (got <= 0) return text;
    text.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace rapt::test
