// Runs a fuzzer without libFuzzer: FUZZER SEEDS COUNT [SEED] runs every file of the folder SEEDS, then COUNT mutations
// of them, the same each time; another SEED gives others. An input that breaks something is left beside the program, as
// NAME_input.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Input = std::vector<std::uint8_t>;

std::filesystem::path left;

void run(const Input& input) {
  // Written before the run, since the process may not survive it.
  std::ofstream(left, std::ios::binary)
      .write(reinterpret_cast<const char*>(input.data()), static_cast<std::streamsize>(input.size()));
  // A copy that ends where its allocation ends.
  const std::vector<std::uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

std::vector<Input> read_seeds(const char* folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<Input> seeds;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Maker {
 public:
  Maker(const std::vector<Input>& seeds, unsigned seed) : seeds_(seeds), random_(seed) {}

  Input make() {
    Input x = one();
    for (std::size_t n = 1 + below(4); n > 0; --n) change(x);
    return x;
  }

 private:
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  const Input& one() { return seeds_[below(seeds_.size())]; }

  void change(Input& x) {
    static constexpr const char* kTexts[] = {
        "-1",   "0", "1e999", "NaN",    "99999999999999999999", "\"", "[", "{", "]", "}", "null", "\xff",
        "\r\n", ",", ":",     "1e-320", "4294967296",           " "};
    const std::size_t at = below(x.size() + 1);
    switch (below(7)) {
      case 0:
        if (at < x.size()) x[at] ^= static_cast<std::uint8_t>(1U << below(8));
        break;
      case 1:
        if (at < x.size()) x[at] = static_cast<std::uint8_t>(random_());
        break;
      case 2:
        x.erase(x.begin() + static_cast<std::ptrdiff_t>(at),
                x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), at + 1 + below(12))));
        break;
      case 3: {
        const std::string text = kTexts[below(std::size(kTexts))];
        x.insert(x.begin() + static_cast<std::ptrdiff_t>(at), text.begin(), text.end());
        break;
      }
      case 4: x.resize(at); break;
      case 5: {
        // A piece of another input.
        const Input& other = one();
        const std::size_t from = below(other.size()), count = below(std::min<std::size_t>(other.size() - from, 40) + 1);
        x.insert(x.begin() + static_cast<std::ptrdiff_t>(at), other.begin() + static_cast<std::ptrdiff_t>(from),
                 other.begin() + static_cast<std::ptrdiff_t>(from + count));
        break;
      }
      default:
        // A number becomes another one.
        for (std::size_t n = at; n < x.size(); ++n)
          if (x[n] >= '0' && x[n] <= '9') {
            x[n] = static_cast<std::uint8_t>('0' + below(10));
            break;
          }
    }
  }

  const std::vector<Input>& seeds_;
  std::mt19937 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "expected SEEDS COUNT [SEED]\n");
    return 2;
  }
  const std::vector<Input> seeds = read_seeds(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: expected files, got none\n", argv[1]);
    return 2;
  }
  left = std::filesystem::path(argv[0]).parent_path() / (std::filesystem::path(argv[0]).filename().string() + "_input");
  left = std::filesystem::absolute(left);
  for (const Input& seed : seeds) run(seed);
  Maker maker(seeds, argc > 3 ? static_cast<unsigned>(std::strtoul(argv[3], nullptr, 10)) : 1);
  for (long n = std::strtol(argv[2], nullptr, 10); n > 0; --n) run(maker.make());
  std::filesystem::remove(left);
  std::printf("%zu seeds and %s inputs like them\n", seeds.size(), argv[2]);
  return 0;
}
