#include <chrono>
#include <cstdint>
#include <fstream>
#include <random>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "support/allocations.h"
#include "tensor/npy.h"
#include "tests/tensor/npy_bytes.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::test {
namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) { return static_cast<std::size_t>(random() % limit); }

std::vector<std::string> seeds() {
  std::vector<std::string> files;
  for (const int version : {1, 2, 3})
    for (const char* order : {"False", "True"}) {
      files.push_back(npy_bytes(version, npy_dict("<f4", order, "(2, 3)"), std::string(24, 'a')));
      files.push_back(npy_bytes(version, npy_dict(">i8", order, "(3,)"), std::string(24, 'b')));
      files.push_back(npy_bytes(version, npy_dict("|b1", order, "(2, 2, 2, 3)"), std::string(24, 'c')));
      files.push_back(npy_bytes(version, npy_dict("<f2", order, "()"), std::string(2, 'd')));
      files.push_back(npy_bytes(version, npy_dict("|u1", order, "(0, 4)"), ""));
    }
  return files;
}

// Changes one thing, more often in the header than in the data.
void mutate(std::string& bytes, Random& random) {
  static const char* const kPieces[] = {"9223372036854775807",
                                        "-1",
                                        "0",
                                        "(",
                                        ")",
                                        ",",
                                        "'",
                                        "{",
                                        "}",
                                        "18446744073709551616",
                                        "True",
                                        "'descr': ",
                                        "'shape'",
                                        "<c16",
                                        "[('a', '<f4')]",
                                        "((((((((",
                                        "1, 1, 1, 1, 1, 1, ",
                                        "\n",
                                        "\\x41",
                                        "4294967296, "};
  if (bytes.empty()) bytes = "\x93";
  const std::size_t place = below(random, std::min<std::size_t>(bytes.size(), 140));
  switch (below(random, 9)) {
    case 0: bytes[place] = static_cast<char>(random()); break;
    case 1: bytes[place] = static_cast<char>(bytes[place] ^ (1 << below(random, 8))); break;
    case 2: bytes.insert(place, kPieces[below(random, std::size(kPieces))]); break;
    case 3: bytes.erase(place, 1 + below(random, 8)); break;
    case 4: bytes.resize(below(random, bytes.size() + 1)); break;
    case 5: bytes.append(1 + below(random, 40), static_cast<char>(random())); break;
    case 6: bytes.insert(place, bytes.substr(below(random, bytes.size()), below(random, 60))); break;
    case 7:
      bytes.replace(place, std::min<std::size_t>(3, bytes.size() - place), kPieces[below(random, std::size(kPieces))]);
      break;
    default:
      // The length of the header.
      if (bytes.size() > 12) bytes[8 + below(random, 4)] = static_cast<char>(random());
  }
}

// Either an array that fits the bytes or an error that names the file; never more memory than the file's size.
bool accepts(const std::string& bytes) {
  constexpr std::size_t kMessages = 4096;
  const std::size_t before = support::allocated_bytes();
  bool accepted = false;
  try {
    const Array array = parse_npy(bytes, "fuzz");
    accepted = true;
    EXPECT_LE(array.bytes(), bytes.size());
  } catch (const Error& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with("read 'fuzz': ")) << error.what();
  }
  EXPECT_LE(support::allocated_bytes() - before, 16 * bytes.size() + kMessages);
  return accepted;
}

TEST(NpyFuzz, MutatedFilesNeverCrashOrAskForMuchMemory) {
  const std::vector<std::string> files = seeds();
  for (const std::string& file : files) ASSERT_TRUE(accepts(file));
  Random random(20240607);
  int accepted = 0;
  constexpr int kRounds = 60000;
  for (int round = 0; round < kRounds && !testing::Test::HasFailure(); ++round) {
    // Every second time only the dict changes, and its length is put right: those reach deeper.
    std::string bytes = files[below(random, files.size())];
    std::string dict = npy_dict("<f4", round % 4 < 2 ? "False" : "True", "(2, 3)");
    for (std::size_t n = 1 + below(random, 4); n > 0; --n) mutate(round % 2 ? bytes : dict, random);
    if (round % 2 == 0) bytes = npy_bytes(1 + round % 3, dict, std::string(24, 'e'));
    if (accepts(bytes)) ++accepted;
    if (testing::Test::HasFailure()) ADD_FAILURE() << "round " << round << ": " << testing::PrintToString(bytes);
  }
  // Both outcomes occur: some changes are harmless, most are not.
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, kRounds / 2);
}

// A header of a megabyte takes one pass, whatever is repeated in it.
TEST(NpyFuzz, LongHeadersAreReadInOnePass) {
  for (const char* piece : {" ", "{", "(", "'", ",", "'a'", "1", "1,", "{'descr': ", "((", "\n"}) {
    std::string text;
    while (text.size() < 1000000) text += piece;
    for (const std::string& start : {std::string(), std::string("{'shape': ("), std::string("{'descr': '")}) {
      const auto started = std::chrono::steady_clock::now();
      accepts(npy_bytes(2, start + text, ""));
      EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(2)) << start << piece;
    }
  }
}

TEST(NpyFuzz, FilesAgreeWithMemory) {
  const TemporaryDirectory directory;
  const std::string path = directory / "fuzz.npy";
  const std::vector<std::string> files = seeds();
  Random random(7);
  for (int round = 0; round < 500; ++round) {
    std::string bytes = files[below(random, files.size())];
    if (round % 5 != 0) mutate(bytes, random);
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bool from_file = false;
    try {
      read_npy(path);
      from_file = true;
    } catch (const Error&) {
    }
    EXPECT_EQ(from_file, accepts(bytes)) << testing::PrintToString(bytes);
  }
}

}  // namespace
}  // namespace rapt::test
