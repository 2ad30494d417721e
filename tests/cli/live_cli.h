#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "tests/cli/run_cli.h"

// The running program as a shell or a batch queue sees it: tests talk to it, wait for it and interrupt it.
namespace rapt::test {

using Words = std::vector<std::string>;

std::string text_of(const std::string& path);
bool has(const std::string& text, const std::string& part);
std::ptrdiff_t lines_in(const std::string& text);

// Bad input: status 2 and one line that has these parts.
void expect_refused(const CliResult& result, const Words& parts);

// Fast training: `rapt train reverse` on short strings; options in `more` replace the usual ones.
Words small_run(const std::string& out, const Words& more = {});

// The program while it runs, with pipes for its input and output.
class LiveCli {
 public:
  explicit LiveCli(const Words& arguments);
  ~LiveCli();
  LiveCli(const LiveCli&) = delete;
  LiveCli& operator=(const LiveCli&) = delete;

  pid_t process() const { return child_; }
  void write(const std::string& text);
  void close_input();
  void signal(int number) const;

  // All output so far, once it contains `part`; fails after a minute.
  const std::string& output_with(const std::string& part);
  // Its exit status; 128 + the signal that ended it.
  int wait();
  // All output.
  std::string rest();
  // Its standard error so far.
  std::string messages() const;

 private:
  pid_t child_ = -1;
  int input_ = -1, output_ = -1, messages_ = -1;
  std::string seen_;
};

}  // namespace rapt::test
