#include "tensor/safetensors.h"

#include <cstring>
#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tensor/random.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::test {
namespace {

std::string file_of(std::string_view header, std::string_view data = "") {
  std::string bytes;
  for (std::size_t n = 0; n < 8; ++n) bytes += static_cast<char>(header.size() >> (8 * n) & 0xff);
  return bytes.append(header).append(data);
}

std::string error_of(std::string_view bytes) {
  try {
    parse_safetensors(bytes, "x.safetensors");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The error has the file's name and this text.
void expect_error(std::string_view bytes, std::string_view text) {
  const std::string error = error_of(bytes);
  EXPECT_TRUE(error.starts_with("read 'x.safetensors': ")) << error;
  EXPECT_NE(error.find(text), std::string::npos) << error;
}

template <class T>
NamedBytes named(std::string name, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  return {std::move(name), element_type_of<T>(), std::move(shape), std::as_bytes(std::span(values)).data()};
}

// A small file of three arrays, as bytes.
std::string sample() {
  const TemporaryDirectory directory;
  const std::vector<float> weights = {1, -2, 3.5F, 4, 5, 6};
  const std::vector<std::int64_t> step = {123456789012345};
  const std::vector<std::uint8_t> flags = {1, 2, 3};
  const std::vector<NamedBytes> arrays = {named("flags", {3}, flags), named("w", {2, 3}, weights),
                                          named("step", {}, step)};
  write_safetensors(directory / "x", arrays, {{"format", "rapt"}, {"é", "\"\n"}});
  return read_file(directory / "x");
}

TEST(SafetensorsFiles, WriteThenRead) {
  const Safetensors file = parse_safetensors(sample(), "x");
  ASSERT_EQ(file.arrays.size(), 3U);
  // Wide elements first.
  EXPECT_EQ(file.arrays[0].name, "step");
  EXPECT_EQ(file.arrays[1].name, "w");
  EXPECT_EQ(file.arrays[2].name, "flags");
  EXPECT_EQ(file.arrays[0].array.rank(), 0);
  EXPECT_EQ(file.arrays[0].array.as<std::int64_t>()[0], 123456789012345);
  ASSERT_NE(file.find("w"), nullptr);
  EXPECT_EQ(file.find("w")->shape(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.find("w")->as<float>()[2], 3.5F);
  EXPECT_EQ(file.find("flags")->as<std::uint8_t>()[1], 2);
  EXPECT_EQ(file.find("v"), nullptr);
  EXPECT_EQ(file.metadata, (Metadata{{"format", "rapt"}, {"é", "\"\n"}}));
}

// The bytes are those of the format's description.
TEST(SafetensorsFiles, TheBytes) {
  const TemporaryDirectory directory;
  const std::vector<std::uint16_t> values = {0x0102, 0x0304};
  const std::vector<NamedBytes> arrays = {named("a", {2}, values)};
  write_safetensors(directory / "x", arrays);
  const std::string header = R"({"a":{"dtype":"U16","shape":[2],"data_offsets":[0,4]}})";
  EXPECT_EQ(read_file(directory / "x"), file_of(header + std::string(8 - header.size() % 8, ' '), "\2\1\4\3"));
  write_safetensors(directory / "empty", {});
  EXPECT_EQ(read_file(directory / "empty"), file_of("{}      "));
  EXPECT_TRUE(read_safetensors(directory / "empty").arrays.empty());
}

TEST(SafetensorsFiles, EveryTypeAndEmptyShapes) {
  const TemporaryDirectory directory;
  constexpr ElementType kTypes[] = {ElementType::boolean, ElementType::i8,  ElementType::i16,  ElementType::i32,
                                    ElementType::i64,     ElementType::u8,  ElementType::u16,  ElementType::u32,
                                    ElementType::u64,     ElementType::f16, ElementType::bf16, ElementType::f32,
                                    ElementType::f64};
  const std::vector<std::byte> ones(64, std::byte{1});
  std::vector<NamedBytes> arrays;
  for (const ElementType type : kTypes) {
    arrays.push_back({std::string("full ") + name_of(type), type, {2, 3}, ones.data()});
    arrays.push_back({std::string("none ") + name_of(type), type, {3, 0, 5}, nullptr});
  }
  write_safetensors(directory / "x", arrays);
  const Safetensors file = read_safetensors(directory / "x");
  ASSERT_EQ(file.arrays.size(), arrays.size());
  for (const NamedBytes& one : arrays) {
    const Array* array = file.find(one.name);
    ASSERT_NE(array, nullptr) << one.name;
    EXPECT_EQ(array->type(), one.type);
    EXPECT_EQ(array->shape(), one.shape);
    EXPECT_EQ(std::memcmp(array->data(), ones.data(), array->bytes()), 0);
  }
}

TEST(SafetensorsFiles, WritingRefuses) {
  const TemporaryDirectory directory;
  const std::vector<float> one = {1};
  const auto write = [&](std::vector<NamedBytes> arrays, const Metadata& metadata = {}) {
    write_safetensors(directory / "x", arrays, metadata);
  };
  EXPECT_THROW(write({named("a", {1}, one), named("a", {1}, one)}), Error);
  EXPECT_THROW(write({named("__metadata__", {1}, one)}), Error);
  EXPECT_THROW(write({named("\xff", {1}, one)}), Error);
  EXPECT_THROW(write({named("a", {-1}, one)}), Error);
  EXPECT_THROW(write({{"a", ElementType::f32, {1}, nullptr}}), Error);
  EXPECT_THROW(write({}, {{"a", "\xc3"}}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(SafetensorsFiles, Lengths) {
  expect_error("", "expected at least 8 bytes, the header's length, got 0");
  expect_error("1234567", "the header's length, got 7");
  expect_error(std::string(7, '\0') + '\x7f', "a header of at most 100000000 bytes, got 9151314442816847872");
  expect_error(std::string("\1\xe1\xf5\5\0\0\0\0", 8), "a header of at most 100000000 bytes, got 100000001");
  expect_error(std::string("\3\0\0\0\0\0\0\0{}", 10), "expected a header of 3 bytes, as the file says, got 2");
  expect_error(std::string(8, '\0'), "does not start with '{'");
  EXPECT_EQ(error_of(file_of("{}")), "");
  EXPECT_EQ(error_of(file_of("{}   \n")), "");
  expect_error(file_of(" {}"), "does not start with '{'");
  expect_error(file_of("{}", "x"), "expected 0 bytes of arrays after the header, got 1");
}

TEST(SafetensorsFiles, Headers) {
  const auto array = [](std::string_view type, std::string_view shape, std::string_view offsets) {
    return R"({"a":{"dtype":)" + std::string(type) + R"(,"shape":)" + std::string(shape) + R"(,"data_offsets":)" +
           std::string(offsets) + "}}";
  };
  EXPECT_EQ(error_of(file_of(array(R"("F32")", "[1]", "[0,4]"), "1234")), "");
  struct Bad {
    std::string header;
    std::string_view text;
  };
  const std::vector<Bad> all = {
      {"{", "expected JSON"},
      {"{}}", "expected JSON"},
      {"{} {}", "expected JSON"},
      {std::string("{}\0", 3), "expected JSON, got a NUL at character 2"},
      {std::string("{}\0}x", 5), "expected JSON, got a NUL at character 2"},
      {"{\"\xff\":{}}", "expected JSON"},
      {R"({"a":1})", "'a': expected an object, got a number"},
      {R"({"a":[]})", "'a': expected an object, got a list"},
      {R"({"a":null})", "'a': expected an object, got null"},
      {R"({"a":{}})", "array 'a': expected the keys dtype, shape and data_offsets, got fewer"},
      {R"({"a":{"dtype":"F32","shape":[1]}})", "array 'a': expected the keys dtype, shape and data_offsets, got fewer"},
      {R"({"a":{"dtype":"F32","dtype":"F32"}})", "array 'a': expected every key once, got 'dtype' twice"},
      {R"({"a":{"color":"F32"}})", "expected the keys dtype, shape and data_offsets, got 'color'"},
      {R"({"__metadata__":{"x":1}})", "the metadata's 'x': expected a string, got a number"},
      {R"({"__metadata__":{"x":"1","x":"2"}})", "the metadata: expected every key once, got 'x' twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", "the header: expected every name once, got '__metadata__' twice"},
      {R"({"__metadata__":"x"})", "'__metadata__': expected an object, got a string"},
      {array(R"("F8_E4M3")", "[4]", "[0,4]"),
       "expected the type BOOL, I8 to I64, U8 to U64, F16, BF16, F32 or F64, got 'F8_E4M3'"},
      {array("32", "[1]", "[0,4]"), "'dtype': expected a string, got a number"},
      {array(R"("F32")", "1", "[0,4]"), "'shape': expected a list, got a number"},
      {array(R"("F32")", R"("1")", "[0,4]"), "'shape': expected a list, got a string"},
      {array(R"("F32")", "[[1]]", "[0,4]"), "shape: expected integers, got a list"},
      {array(R"("F32")", "[-1]", "[0,4]"), "shape: expected integers, got a negative number"},
      {array(R"("F32")", "[1.0]", "[0,4]"), "shape: expected integers, got a fraction"},
      {array(R"("F32")", "[18446744073709551616]", "[0,4]"),
       "shape: expected integers, got a fraction or a number above 2⁶⁴"},
      {array(R"("F32")", "[18446744073709551615]", "[0,4]"),
       "shape: expected sizes below 2⁶³, got 18446744073709551615"},
      {array(R"("F32")", "[4611686018427387904,4]", "[0,4]"), "array 'a': "},
      {array(R"("F32")", "[4294967296,4294967296,0]", "[0,4]"), "array 'a': "},
      {array(R"("F32")", "[2]", "[0,4]"), "array 'a': expected 8 bytes for the shape [2] of f32, got 4"},
      {array(R"("F32")", "[1]", "[0,4,8]"), "data_offsets: expected two integers, got a third"},
      {array(R"("F32")", "[1]", "[0]"), "expected 2 data_offsets, got 1"},
      {array(R"("F32")", "[1]", "[]"), "expected 2 data_offsets, got 0"},
      {array(R"("F32")", "[1]", "[4,0]"), "expected its bytes to start at 0, without holes or overlap, got 4 to "},
      {array(R"("F32")", "[1]", "[0,-4]"), "data_offsets: expected two integers, got a negative number"},
      {array(R"("F32")", "[1]", "[0,8]"), "expected bytes within the file's 4, got 0 to 8"},
      {array(R"("F32")", "[1]", "[4,8]"), "expected its bytes to start at 0, without holes or overlap, got 4 to "},
      {array(R"("U8")", "[3]", "[0,3]"), "expected 3 bytes of arrays after the header, got 4"},
      {array(R"("BOOL")", "[4]", "[0,4]"), "expected 0 or 1 for a boolean, got the byte "},
      {array(R"("F32")",
             "[" + std::string("1") +
                 [] {
                   std::string more;
                   for (int n = 0; n < 40; ++n) more += ",1";
                   return more;
                 }() +
                 "]",
             "[0,4]"),
       "expected at most 32 dimensions, got more"},
  };
  for (const Bad& bad : all) expect_error(file_of(bad.header, "1234"), bad.text);
}

TEST(SafetensorsFiles, HolesAndOverlap) {
  const auto two = [](std::string_view first, std::string_view second) {
    return R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[)" + std::string(second) +
           R"(]},"a":{"dtype":"U8","shape":[2],"data_offsets":[)" + std::string(first) + "]}}";
  };
  // Any order in the header; the order of the data in the result.
  const Safetensors file = parse_safetensors(file_of(two("0,2", "2,4"), "1234"), "x");
  EXPECT_EQ(file.arrays[0].name, "a");
  EXPECT_EQ(file.find("b")->as<std::uint8_t>()[0], '3');
  expect_error(file_of(two("0,2", "1,3"), "123"), "without holes or overlap");
  expect_error(file_of(two("0,2", "0,2"), "12"), "without holes or overlap");
  expect_error(file_of(two("0,2", "3,5"), "12345"), "without holes or overlap");
}

TEST(SafetensorsFiles, LongHeadersCostLittle) {
  for (const char* piece : {"[", "{\"a\":", " ", "\"", "1", "{"}) {
    std::string header = "{\"a\":";
    while (header.size() < 1000000) header += piece;
    EXPECT_NE(error_of(file_of(header)), "");
    header.replace(0, 5, "{      ");
    EXPECT_NE(error_of(file_of(header)), "");
  }
}

TEST(SafetensorsFiles, FilesOnDisk) {
  const TemporaryDirectory directory;
  write_file(directory / "bad", "12");
  for (const char* name : {"none", "bad", ""}) {
    try {
      read_safetensors(directory / name);
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(directory / name), std::string::npos) << error.what();
    }
  }
}

TEST(SafetensorsFuzz, TruncationAtEveryByte) {
  const std::string bytes = sample();
  EXPECT_EQ(error_of(bytes), "");
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_NE(error_of(std::string_view(bytes).substr(0, length)), "") << length;
  EXPECT_NE(error_of(bytes + '\0'), "");
}

TEST(SafetensorsFuzz, FlippedBytes) {
  const std::string bytes = sample();
  Random random(8);
  int accepted = 0;
  constexpr int kRounds = 60000;
  for (int round = 0; round < kRounds; ++round) {
    std::string changed = bytes;
    for (std::uint64_t n = 1 + random.below(3); n > 0; --n) {
      char& byte = changed[random.below(changed.size())];
      byte =
          static_cast<char>(round % 2 ? random.next_u64() : static_cast<unsigned char>(byte) ^ 1U << random.below(8));
    }
    try {
      const Safetensors file = parse_safetensors(changed, "x.safetensors");
      ++accepted;
      std::size_t total = 0;
      for (const NamedArray& one : file.arrays) total += one.array.bytes();
      ASSERT_LT(total, bytes.size());
    } catch (const Error& error) {
      ASSERT_TRUE(std::string_view(error.what()).starts_with("read 'x.safetensors': ")) << error.what();
    }
  }
  // Numbers and letters of names may change; the frame may not.
  EXPECT_GT(accepted, kRounds / 100);
  EXPECT_LT(accepted, kRounds / 2);
}

}  // namespace
}  // namespace rapt::test
