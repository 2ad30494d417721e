#include "tests/cli/run_cli.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "support/sanitized.h"
#include "tests/tensor/npy_bytes.h"

#ifndef RAPT_CLI_BINARY
#ifdef RAPT_CLI
#define RAPT_CLI_BINARY RAPT_CLI
#else
#define RAPT_CLI_BINARY "rapt"
#endif
#endif

namespace rapt::test {
namespace {

struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  }
  ~Pipe() {
    if (ends[0] >= 0) ::close(ends[0]);
    if (ends[1] >= 0) ::close(ends[1]);
  }
  void close_writer() {
    ::close(ends[1]);
    ends[1] = -1;
  }
  int ends[2] = {-1, -1};
};

template <class T>
void save(const std::string& path, const char* descr, const Sizes& shape, const Numbers& values) {
  std::string data;
  for (const double value : values) {
    const T element = static_cast<T>(value);
    std::array<char, sizeof(T)> bytes{};
    std::memcpy(bytes.data(), &element, sizeof element);
    data.append(bytes.data(), bytes.size());
  }
  std::string text = "(";
  for (const std::int64_t size : shape) text += std::to_string(size) + ",";
  const std::string file = npy_bytes(1, npy_dict(descr, "False", text + ")"), data);
  std::ofstream(path, std::ios::binary).write(file.data(), static_cast<std::streamsize>(file.size()));
}

template <class T>
void decode(const std::string& data, Numbers& values) {
  for (std::size_t n = 0; n + sizeof(T) <= data.size(); n += sizeof(T)) {
    T element;
    std::memcpy(&element, data.data() + n, sizeof element);
    values.push_back(static_cast<double>(element));
  }
}

double from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = (bits & 1023) / 1024.0;
  const double size = exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
  return bits & 0x8000 ? -size : size;
}

}  // namespace

CliResult run_cli(const std::vector<std::string>& arguments) { return run_cli_into("", arguments); }

CliResult run_cli_into(const std::string& stdout_path, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{RAPT_CLI_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  Pipe out, err;
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_RDONLY);
    ::dup2(nothing, STDIN_FILENO);
    ::dup2(stdout_path.empty() ? out.ends[1] : ::open(stdout_path.c_str(), O_WRONLY), STDOUT_FILENO);
    ::dup2(err.ends[1], STDERR_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  out.close_writer();
  err.close_writer();

  CliResult result;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(support::unless_sanitized(1, 5));
  std::array<pollfd, 2> polled{pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
  std::array<std::string*, 2> texts{&result.out, &result.err};
  bool late = false;
  while (polled[0].fd >= 0 || polled[1].fd >= 0) {
    ::poll(polled.data(), polled.size(), 1000);
    for (std::size_t n = 0; n < polled.size(); ++n) {
      if (polled[n].fd < 0 || polled[n].revents == 0) continue;
      std::array<char, 65536> buffer;
      const ssize_t got = ::read(polled[n].fd, buffer.data(), buffer.size());
      if (got > 0) texts[n]->append(buffer.data(), static_cast<std::size_t>(got));
      else polled[n].fd = -1;
    }
    if (!late && std::chrono::steady_clock::now() > deadline) {
      ::kill(child, SIGKILL);
      late = true;
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  if (late) result.status = 124;
  else result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

void save_f4(const std::string& path, const Sizes& shape, const Numbers& values) {
  save<float>(path, "<f4", shape, values);
}
void save_f8(const std::string& path, const Sizes& shape, const Numbers& values) {
  save<double>(path, "<f8", shape, values);
}
void save_bool(const std::string& path, const Sizes& shape, const Numbers& values) {
  save<std::uint8_t>(path, "|b1", shape, values);
}
void save_i8(const std::string& path, const Sizes& shape, const Numbers& values) {
  save<std::int64_t>(path, "<i8", shape, values);
}
void save_f2_zeros(const std::string& path, const Sizes& shape) {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
  save<std::uint16_t>(path, "<f2", shape, Numbers(count, 0.0));
}

Loaded load(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (bytes.size() < 10) throw std::runtime_error("no array in " + path);
  const std::size_t length = static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
  const std::string header = bytes.substr(10, length);
  const std::string data = bytes.substr(10 + length);
  Loaded loaded;
  loaded.descr = header.substr(header.find("'descr': '") + 10, 3);
  std::string shape = header.substr(header.find("'shape': (") + 10);
  shape = shape.substr(0, shape.find(')'));
  std::istringstream sizes(shape);
  for (std::string size; std::getline(sizes, size, ',');)
    if (size.find_first_not_of(' ') != std::string::npos) loaded.shape.push_back(std::stoll(size));
  if (loaded.descr == "<f4") decode<float>(data, loaded.values);
  else if (loaded.descr == "<f8") decode<double>(data, loaded.values);
  else if (loaded.descr == "<i8") decode<std::int64_t>(data, loaded.values);
  else if (loaded.descr == "<f2") {
    decode<std::uint16_t>(data, loaded.values);
    for (double& value : loaded.values) value = from_half(static_cast<std::uint16_t>(value));
  } else throw std::runtime_error("type " + loaded.descr + " in " + path);
  return loaded;
}

Numbers pseudo_random(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Numbers values;
  for (std::size_t n = 0; n < count; ++n) values.push_back(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0);
  return values;
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory, ignored))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace rapt::test
