#include "tensor/npy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "tests/tensor/npy_bytes.h"
#include "tests/tensor/temporary_directory.h"

namespace rapt::test {
namespace {

namespace fs = std::filesystem;

template <class T>
std::string raw(const std::vector<T>& values, bool swap = false) {
  std::string bytes;
  for (const T value : values) {
    std::string one(sizeof value, '\0');
    std::memcpy(one.data(), &value, sizeof value);
    if (swap) one = std::string(one.rbegin(), one.rend());
    bytes += one;
  }
  return bytes;
}

std::vector<double> numbers(const Array& array) {
  const Array converted = array.to(ElementType::f64);
  const auto span = converted.as<double>();
  return {span.begin(), span.end()};
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void write_raw(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string read_raw(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// One element type: how files name it, and six values at its limits.
struct TypeCase {
  ElementType type;
  std::string code;
  std::function<std::string(bool swap)> data;
  std::vector<double> values;
};

template <class T>
TypeCase type_case(const char* code, std::vector<T> values) {
  std::vector<double> expected(values.begin(), values.end());
  return {element_type_of<T>(), code, [values](bool swap) { return raw(values, swap); }, expected};
}

template <class T>
std::vector<T> integer_values() {
  using Limits = std::numeric_limits<T>;
  return {Limits::min(), Limits::max(), T(0), T(1), T(7), T(100)};
}

std::vector<TypeCase> type_cases() {
  std::vector<TypeCase> cases;
  cases.push_back(type_case<std::int8_t>("i1", integer_values<std::int8_t>()));
  cases.push_back(type_case<std::int16_t>("i2", integer_values<std::int16_t>()));
  cases.push_back(type_case<std::int32_t>("i4", integer_values<std::int32_t>()));
  cases.push_back(type_case<std::int64_t>("i8", integer_values<std::int64_t>()));
  cases.push_back(type_case<std::uint8_t>("u1", integer_values<std::uint8_t>()));
  cases.push_back(type_case<std::uint16_t>("u2", integer_values<std::uint16_t>()));
  cases.push_back(type_case<std::uint32_t>("u4", integer_values<std::uint32_t>()));
  cases.push_back(type_case<std::uint64_t>("u8", integer_values<std::uint64_t>()));
  cases.push_back(type_case<float>("f4", {0.f, -1.5f, 3.4028235e38f, 1e-45f, 0.1f, 2.f}));
  cases.push_back(type_case<double>("f8", {0., -1.5, 1.7976931348623157e308, 5e-324, 0.1, 2.}));
  // 1, −2, the largest number, the smallest one, infinity and 0.333…
  const std::vector<std::uint16_t> halves{0x3c00, 0xc000, 0x7bff, 0x0001, 0x7c00, 0x3555};
  cases.push_back({ElementType::f16,
                   "f2",
                   [halves](bool swap) { return raw(halves, swap); },
                   {1, -2, 65504, 5.9604644775390625e-8, std::numeric_limits<double>::infinity(), 0.333251953125}});
  // Any byte that is not 0 is true.
  const std::vector<std::uint8_t> flags{0, 1, 2, 255, 0, 1};
  cases.push_back({ElementType::boolean, "b1", [flags](bool) { return raw(flags); }, {0, 1, 1, 1, 0, 1}});
  return cases;
}

TEST(Npy, ReadsEveryTypeVersionAndByteOrder) {
  for (const TypeCase& item : type_cases())
    for (const int version : {1, 2, 3})
      for (const char order : {'<', '>', '=', '|'}) {
        const bool big = order == '>' || (order != '<' && std::endian::native == std::endian::big);
        const bool swap = big != (std::endian::native == std::endian::big);
        const std::string dict = npy_dict(order + item.code, "False", "(2, 3)");
        const Array array = parse_npy(npy_bytes(version, dict, item.data(swap)), "memory");
        SCOPED_TRACE(dict);
        EXPECT_EQ(array.type(), item.type);
        EXPECT_EQ(array.shape(), (std::vector<std::int64_t>{2, 3}));
        EXPECT_EQ(numbers(array), item.values);
      }
}

TEST(Npy, PutsColumnsFirstIntoRowsFirst) {
  // Element (a, b, c) is 100a + 10b + c, stored with a fastest.
  for (const bool swap : {false, true}) {
    std::vector<std::int32_t> stored;
    for (int c = 0; c < 4; ++c)
      for (int b = 0; b < 3; ++b)
        for (int a = 0; a < 2; ++a) stored.push_back(100 * a + 10 * b + c);
    const std::string dict = npy_dict(swap ? ">i4" : "<i4", "True", "(2, 3, 4)");
    const auto values = numbers(parse_npy(npy_bytes(1, dict, raw(stored, swap)), "memory"));
    std::size_t n = 0;
    for (int a = 0; a < 2; ++a)
      for (int b = 0; b < 3; ++b)
        for (int c = 0; c < 4; ++c) EXPECT_EQ(values[n++], 100 * a + 10 * b + c);
  }
  const Array flat = parse_npy(npy_bytes(1, npy_dict("<i4", "True", "(3,)"), raw<std::int32_t>({5, 6, 7})), "memory");
  EXPECT_EQ(numbers(flat), (std::vector<double>{5, 6, 7}));
}

TEST(Npy, ReadsEveryWayToWriteTheDict) {
  const std::string data = raw<float>({1, 2, 3, 4, 5, 6});
  for (const char* dict : {
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
           "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<f4\"}",
           "  { 'shape' : ( 2 , 3 , ) , 'descr' : '<f4' , 'fortran_order' : False , } ",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }",
       }) {
    SCOPED_TRACE(dict);
    const Array array = parse_npy(npy_bytes(1, dict, data), "memory");
    EXPECT_EQ(array.shape(), (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(numbers(array), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(Npy, ReadsNumbersAndEmptyArrays) {
  const Array number = parse_npy(npy_bytes(1, npy_dict("<f8", "False", "()"), raw<double>({2.5})), "memory");
  EXPECT_EQ(number.rank(), 0);
  EXPECT_EQ(numbers(number), std::vector<double>{2.5});
  for (const char* shape : {"(0,)", "(3, 0)", "(0, 5, 2)"}) {
    const Array empty = parse_npy(npy_bytes(1, npy_dict("<f4", "True", shape), ""), "memory");
    EXPECT_EQ(empty.count(), 0);
    EXPECT_TRUE(static_cast<bool>(empty));
  }
}

struct BadCase {
  const char* what;
  std::string bytes;
  const char* message;  // that the error must contain
};

std::vector<BadCase> bad_files() {
  const std::string data = raw<float>({1, 2, 3, 4, 5, 6});
  const std::string good = npy_bytes(1, npy_dict("<f4", "False", "(2, 3)"), data);
  const auto with_descr = [&](const char* descr) { return npy_bytes(1, npy_dict(descr, "False", "(2, 3)"), data); };
  const auto with_shape = [&](const char* shape) { return npy_bytes(1, npy_dict("<f4", "False", shape), data); };
  const auto with_dict = [&](const char* dict) { return npy_bytes(1, dict, data); };
  const auto with_byte = [&](std::size_t place, char value) {
    std::string bytes = good;
    bytes[place] = value;
    return bytes;
  };
  std::string long_header = npy_bytes(2, npy_dict("<f4", "False", "(2, 3)"), data);
  long_header[11] = '\x7f';
  const std::string huge(2 << 20, ' ');
  return {
      {"empty file", "", "ends within"},
      {"one byte", "\x93", "ends within"},
      {"magic only", good.substr(0, 6), "ends within"},
      {"no header length", good.substr(0, 9), "ends within"},
      {"no header", good.substr(0, 10), "as the file says, got 0"},
      {"half a header", good.substr(0, 60), "as the file says, got 50"},
      {"wrong magic", with_byte(1, 'M'), "expected a .npy file"},
      {"a zip file", "PK\x03\x04" + std::string(100, 'x'), "expected a .npy file"},
      {"version 0", with_byte(6, 0), "1.0, 2.0 or 3.0, got 0.0"},
      {"version 4", with_byte(6, 4), "1.0, 2.0 or 3.0, got 4.0"},
      {"version 1.1", with_byte(7, 1), "1.0, 2.0 or 3.0, got 1.1"},
      {"header length beyond the file", long_header, "expected a header of "},
      {"header of 2 MB", npy_bytes(2, npy_dict("<f4", "False", "(2, 3)") + huge, data),
       "expected a header of at most "},
      {"data one byte short", good.substr(0, good.size() - 1), "expected 24 bytes after the header"},
      {"data missing", good.substr(0, 128), "expected 24 bytes after the header, for the shape [2, 3] of f32, got 0"},
      {"trailing byte", good + "x", "got 25"},
      {"trailing array", good + good, "expected 24 bytes after the header"},
      {"complex", with_descr("<c8"), "'<c8'"},
      {"object", with_descr("|O"), "'|O'"},
      {"text", with_descr("<U3"), "'<U3'"},
      {"bytes", with_descr("|S4"), "'|S4'"},
      {"time", with_descr("<M8[ns]"), "'<M8[ns]'"},
      {"long double", with_descr("<f16"), "'<f16'"},
      {"f3", with_descr("<f3"), "'<f3'"},
      {"no byte order", with_descr("f4"), "'f4'"},
      {"unknown byte order", with_descr("!f4"), "'!f4'"},
      {"empty type", with_descr(""), "''"},
      {"structured", with_dict("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }"), "structured"},
      {"negative size", with_shape("(-2, 3)"), "negative"},
      {"both negative", with_shape("(-2, -3)"), "negative"},
      {"too large", with_shape("(1000000000, 3)"), "expected 12000000000 bytes"},
      {"product overflows", with_shape("(4294967296, 4294967296)"), "fits in 64 bits"},
      {"bytes overflow", with_shape("(4611686018427387904,)"), "fits in 64 bits"},
      {"overflow behind a zero", with_shape("(0, 4294967296, 4294967296)"), "fits in 64 bits"},
      {"size of 2⁶³", with_shape("(9223372036854775808,)"), "below 2⁶³"},
      {"size of many digits", with_shape("(99999999999999999999999999999999,)"), "below 2⁶³"},
      {"33 dimensions", with_shape("(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)"),
       "dimensions"},
      {"shape is a number", with_shape("6"), "expected '(' of a Python dict, got '6'"},
      {"shape is a number in brackets", with_shape("(6)"), "expected ',' in the tuple of one size, got ')'"},
      {"shape is a list", with_shape("[2, 3]"), "expected '('"},
      {"shape of floats", with_shape("(2.0, 3)"), "expected"},
      {"shape of names", with_shape("(a, b)"), "expected integers in the shape, got 'a'"},
      {"leading zero", with_shape("(02, 3)"), "leading zero"},
      {"nested shape", with_shape("((2, 3),)"), "expected integers in the shape, got '('"},
      {"open shape", with_shape("(2, 3"), "expected integers in the shape"},
      {"order is a number", npy_bytes(1, npy_dict("<f4", "0", "(2, 3)"), data), "True or False"},
      {"order is None", npy_bytes(1, npy_dict("<f4", "None", "(2, 3)"), data), "True or False"},
      {"no dict", with_dict("hello"), "expected '{' of a Python dict, got 'h'"},
      {"empty header", with_dict(""), "expected '{'"},
      {"empty dict", with_dict("{}"), "expected the keys descr, fortran_order and shape, got fewer"},
      {"no descr", with_dict("{'fortran_order': False, 'shape': (2, 3), }"), "expected the keys"},
      {"no order", with_dict("{'descr': '<f4', 'shape': (2, 3), }"), "expected the keys"},
      {"no shape", with_dict("{'descr': '<f4', 'fortran_order': False, }"), "expected the keys"},
      {"key twice", with_dict("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}"), "twice"},
      {"unknown key", with_dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}"),
       "expected descr, fortran_order or shape, got 'x'"},
      {"key is a number", with_dict("{1: '<f4', 'fortran_order': False, 'shape': (2, 3)}"),
       "expected a string of a Python dict, got '1'"},
      {"no colon", with_dict("{'descr' '<f4', 'fortran_order': False, 'shape': (2, 3)}"), "expected ':'"},
      {"no comma", with_dict("{'descr': '<f4' 'fortran_order': False, 'shape': (2, 3)}"), "expected '}'"},
      {"two commas", with_dict("{'descr': '<f4',, 'fortran_order': False, 'shape': (2, 3)}"), "expected a string"},
      {"open string", with_dict("{'descr': '<f4, "), "expected a quote that ends the string, got the end"},
      {"escape", with_dict("{'d\\x65scr': '<f4', 'fortran_order': False, 'shape': (2, 3)}"), "without escapes"},
      {"open dict", with_dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), "), "expected a string"},
      {"text after the dict", with_dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x"),
       "expected nothing after the closing brace, got 'x'"},
      {"a zero byte", with_dict("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}\x01"), "closing brace"},
  };
}

TEST(Npy, RefusesMalformedFiles) {
  const TemporaryDirectory directory;
  for (const BadCase& bad : bad_files()) {
    SCOPED_TRACE(bad.what);
    const std::string in_memory = error_of([&] { parse_npy(bad.bytes, "some_name"); });
    EXPECT_NE(in_memory.find(bad.message), std::string::npos) << "got: " << in_memory;
    EXPECT_NE(in_memory.find("some_name"), std::string::npos) << "got: " << in_memory;
    const std::string path = directory / "bad.npy";
    write_raw(path, bad.bytes);
    const std::string from_file = error_of([&] { read_npy(path); });
    EXPECT_NE(from_file.find(bad.message), std::string::npos) << "got: " << from_file;
    EXPECT_NE(from_file.find(path), std::string::npos) << "got: " << from_file;
  }
}

TEST(Npy, RefusesEveryTruncationOfAGoodFile) {
  const std::string good = npy_bytes(1, npy_dict("<f4", "False", "(2, 3)"), raw<float>({1, 2, 3, 4, 5, 6}));
  ASSERT_EQ(error_of([&] { parse_npy(good, "memory"); }), "");
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(error_of([&] { parse_npy(good.substr(0, size), "memory"); }), "") << size << " bytes";
}

TEST(Npy, RefusesWhatIsNotAFile) {
  const TemporaryDirectory directory;
  EXPECT_NE(error_of([&] { read_npy(directory / "missing.npy"); }).find("missing.npy"), std::string::npos);
  EXPECT_NE(error_of([&] { read_npy(directory.path()); }).find("directory"), std::string::npos);
  EXPECT_NE(error_of([&] { read_npy("/dev/zero"); }).find("device"), std::string::npos);
  const std::string pipe = directory / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { read_npy(pipe); }).find("pipe"), std::string::npos);
  EXPECT_NE(error_of([&] { read_npy(""); }), "");
  EXPECT_NE(error_of([&] { read_npy(std::string(5000, 'x')); }), "");
  // The superuser may read everything.
  if (::geteuid() == 0) return;
  const std::string closed = directory / "closed.npy";
  write_raw(closed, "x");
  fs::permissions(closed, fs::perms::none);
  EXPECT_NE(error_of([&] { read_npy(closed); }).find("closed.npy"), std::string::npos);
}

TEST(Npy, ReadsBackWhatItWrites) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.npy";
  for (const TypeCase& item : type_cases())
    for (const auto& shape : std::vector<std::vector<std::int64_t>>{{6}, {2, 3}, {1, 2, 1, 3}, {6, 1, 1, 1, 1}}) {
      SCOPED_TRACE(item.code + " " + to_string(shape));
      const bool big = std::endian::native == std::endian::big;
      Array array =
          parse_npy(npy_bytes(1, npy_dict((big ? ">" : "<") + item.code, "False", "(6,)"), item.data(false)), "memory");
      array.reshape(shape);
      write_npy(path, array);
      const Array back = read_npy(path);
      EXPECT_EQ(back.type(), array.type());
      EXPECT_EQ(back.shape(), array.shape());
      ASSERT_EQ(back.bytes(), array.bytes());
      EXPECT_EQ(std::memcmp(back.data(), array.data(), back.bytes()), 0);
    }
}

// The bytes that numpy.save makes.
TEST(Npy, WritesWhatNumPyWrites) {
  const TemporaryDirectory directory;
  const std::string path = directory / "x.npy";
  const std::vector<float> values{1, 2, 3, 4};
  write_npy(path, Array::of<float>({2, 2}, values));
  std::string expected("\x93NUMPY\x01\x00v\x00", 10);
  expected += "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }";
  expected.resize(127, ' ');
  expected += "\n";
  EXPECT_EQ(read_raw(path), expected + raw(values));

  write_npy(path, Array::of<float>({4}, values));
  EXPECT_NE(read_raw(path).find("'shape': (4,), }"), std::string::npos);
  const std::vector<std::int64_t> one{7};
  write_npy(path, Array::of<std::int64_t>({}, one));
  EXPECT_NE(read_raw(path).find("{'descr': '<i8', 'fortran_order': False, 'shape': (), }"), std::string::npos);
}

TEST(Npy, WritesBfloat16AsF4) {
  const TemporaryDirectory directory;
  const std::vector<float> values{1.0f, 1.00390625f, -3.14159f};
  write_npy(directory / "x.npy", Array::of<float>({3}, values).to(ElementType::bf16));
  const Array back = read_npy(directory / "x.npy");
  EXPECT_EQ(back.type(), ElementType::f32);
  EXPECT_EQ(numbers(back), (std::vector<double>{1.0, 1.0, -3.140625}));
}

TEST(Npy, FailedWritesLeaveNothing) {
  const TemporaryDirectory directory;
  const std::vector<float> values{1, 2};
  const Array array = Array::of<float>({2}, values);
  EXPECT_NE(error_of([&] { write_npy(directory / "missing/x.npy", array); }).find("missing/x.npy"), std::string::npos);
  fs::create_directory(directory / "x.npy");
  EXPECT_NE(error_of([&] { write_npy(directory / "x.npy", array); }).find("x.npy"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()), 1);
}

TEST(Npy, WritesOverAnOlderFileInOneStep) {
  const TemporaryDirectory directory;
  const std::vector<float> values{1, 2};
  write_raw(directory / "x.npy", "old");
  write_npy(directory / "x.npy", Array::of<float>({2}, values));
  EXPECT_EQ(numbers(read_npy(directory / "x.npy")), (std::vector<double>{1, 2}));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace rapt::test
