#include "tensor/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <limits>
#include <streambuf>

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1 {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::uint64_t kNpyHeaderLimit = 1 << 20;
constexpr std::size_t kMaxRank = 32;
constexpr const char* kExpected = "expected elements of bool, i1 i2 i4 i8, u1 u2 u4 u8, f2 f4 f8, got ";

struct Header {
  ElementType type = ElementType::f32;
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
};

std::string quoted(std::string_view text) {
  constexpr std::size_t kShown = 40;
  std::string result = "'";
  for (const char c : text.substr(0, kShown)) result += c >= ' ' && c <= '~' ? c : '?';
  return result + (text.size() > kShown ? "…'" : "'");
}

ElementType parse_descr(std::string_view descr, bool* big_endian) {
  struct Known {
    std::string_view code;
    ElementType type;
  };
  static constexpr std::array kKnown{
      Known{"b1", ElementType::boolean}, Known{"i1", ElementType::i8},  Known{"i2", ElementType::i16},
      Known{"i4", ElementType::i32},     Known{"i8", ElementType::i64}, Known{"u1", ElementType::u8},
      Known{"u2", ElementType::u16},     Known{"u4", ElementType::u32}, Known{"u8", ElementType::u64},
      Known{"f2", ElementType::f16},     Known{"f4", ElementType::f32}, Known{"f8", ElementType::f64},
  };
  const std::string_view orders = "<>|=";
  if (descr.size() == 3 && orders.find(descr[0]) != std::string_view::npos) {
    const bool native_big = std::endian::native == std::endian::big;
    *big_endian = descr[0] == '>' || (descr[0] != '<' && native_big);
    for (const Known& known : kKnown)
      if (known.code == descr.substr(1)) return known.type;
  }
  throw Error(kExpected + quoted(descr));
}

// Reads the Python expression of a header, a dict of 'descr', 'fortran_order' and 'shape', in one pass.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  Header parse() {
    Header header;
    bool seen_descr = false;
    bool seen_order = false;
    bool seen_shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      if (key == "descr") {
        once(seen_descr, key);
        if (peek() == '[' || peek() == '(') throw Error(std::string(kExpected) + "structured ones");
        header.type = parse_descr(string(), &header.big_endian);
      } else if (key == "fortran_order") {
        once(seen_order, key);
        header.fortran_order = boolean();
      } else if (key == "shape") {
        once(seen_shape, key);
        header.shape = tuple();
      } else {
        fail("descr, fortran_order or shape", quoted(key));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ < text_.size()) fail("nothing after the closing brace", here());
    if (!seen_descr || !seen_order || !seen_shape) fail("the keys descr, fortran_order and shape", "fewer");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& got) const {
    throw Error("the header: expected " + expected + ", got " + got + ", at character " + std::to_string(at_));
  }

  // What comes next.
  std::string here() const { return at_ < text_.size() ? quoted(text_.substr(at_, 1)) : "the end"; }

  void once(bool& seen, std::string_view key) const {
    if (seen) fail("the key " + quoted(key) + " once", "it twice");
    seen = true;
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool take(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail(std::string("'") + c + "' of a Python dict", here());
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("a string of a Python dict", here());
    const std::size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a quote that ends the string", "the end");
    const std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    if (value.find('\\') != std::string_view::npos) fail("a string without escapes", quoted(value));
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    skip_space();
    for (const std::string_view word : {std::string_view("True"), std::string_view("False")})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    fail("True or False for fortran_order", here());
  }

  std::int64_t size() {
    if (peek() == '-') fail("sizes of 0 or more in the shape", "a negative one");
    const std::size_t begin = at_;
    std::int64_t value = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') {
      const std::int64_t digit = text_[at_] - '0';
      if (value > (std::numeric_limits<std::int64_t>::max() - digit) / 10)
        fail("sizes below 2⁶³ in the shape", "a larger one");
      value = value * 10 + digit;
      ++at_;
    }
    if (at_ == begin) fail("integers in the shape", here());
    if (text_[begin] == '0' && at_ > begin + 1) fail("integers in the shape", "one with a leading zero");
    // As Python 2 wrote long integers.
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;
    return value;
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> shape;
    expect('(');
    while (!take(')')) {
      if (shape.size() == kMaxRank) fail("at most " + std::to_string(kMaxRank) + " dimensions", "more");
      shape.push_back(size());
      if (take(',')) continue;
      if (shape.size() == 1) fail("',' in the tuple of one size", here());
      expect(')');
      break;
    }
    return shape;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

template <class Word>
Word swapped(Word word) {
  auto bytes = std::bit_cast<std::array<std::byte, sizeof(Word)>>(word);
  std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<Word>(bytes);
}

// Calls f with the unsigned integer type of an element's width.
template <class F>
void with_word(std::size_t size, F&& f) {
  switch (size) {
    case 1: return f(std::uint8_t{});
    case 2: return f(std::uint16_t{});
    case 4: return f(std::uint32_t{});
    default: return f(std::uint64_t{});
  }
}

void swap_bytes(Array& array) {
  with_word(size_of(array.type()), [&]<class Word>(Word) {
    for (std::int64_t n = 0; n < array.count(); ++n) {
      std::byte* at = array.data() + static_cast<std::size_t>(n) * sizeof(Word);
      Word word;
      std::memcpy(&word, at, sizeof word);
      word = swapped(word);
      std::memcpy(at, &word, sizeof word);
    }
  });
}

// From column-major to row-major.
Array from_fortran_order(const Array& source) {
  Array result(source.type(), source.shape());
  const std::size_t rank = source.shape().size();
  std::vector<std::int64_t> stride(rank, 1);
  for (std::size_t n = 1; n < rank; ++n) stride[n] = stride[n - 1] * source.shape()[n - 1];
  std::vector<std::int64_t> index(rank, 0);
  const std::size_t size = size_of(source.type());
  std::int64_t from = 0;
  for (std::int64_t to = 0; to < source.count(); ++to) {
    std::memcpy(result.data() + static_cast<std::size_t>(to) * size,
                source.data() + static_cast<std::size_t>(from) * size, size);
    for (std::size_t n = rank; n-- > 0;) {
      from += stride[n];
      if (++index[n] < source.shape()[n]) break;
      from -= stride[n] * index[n];
      index[n] = 0;
    }
  }
  return result;
}

class Reader {
 public:
  Reader(std::istream& in, std::uint64_t size) : in_(in), left_(size) {}

  std::uint64_t left() const { return left_; }

  void read(void* to, std::uint64_t count, const char* what) {
    if (count > left_ || !in_.read(static_cast<char*>(to), static_cast<std::streamsize>(count)))
      throw Error(std::string("expected the whole ") + what + ", got a file that ends within it");
    left_ -= count;
  }

 private:
  std::istream& in_;
  std::uint64_t left_;
};

Header read_header(Reader& reader) {
  std::array<char, 8> start{};
  reader.read(start.data(), start.size(), "first 8 bytes");
  if (std::string_view(start.data(), kMagic.size()) != kMagic)
    throw Error("expected a .npy file, as numpy.save writes it, got other first bytes");
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0)
    throw Error("expected format version 1.0, 2.0 or 3.0, got " + std::to_string(major) + "." + std::to_string(minor));
  std::array<unsigned char, 4> length_bytes{};
  reader.read(length_bytes.data(), major == 1 ? 2 : 4, "header's length");
  std::uint64_t length = 0;
  for (std::size_t n = 0; n < 4; ++n) length |= static_cast<std::uint64_t>(length_bytes[n]) << (8 * n);
  if (length > reader.left())
    throw Error("expected a header of " + counted(length, "byte") + ", as the file says, got " +
                std::to_string(reader.left()));
  if (length > kNpyHeaderLimit)
    throw Error("expected a header of at most " + std::to_string(kNpyHeaderLimit) + " bytes, got " +
                std::to_string(length));
  std::string text(length, '\0');
  reader.read(text.data(), length, "header");
  return HeaderParser(text).parse();
}

// Checked against the file before anything of the claimed size is allocated.
std::uint64_t data_bytes(const Header& header, const Reader& reader) {
  const std::size_t element_size = size_of(header.type);
  const std::uint64_t bytes = static_cast<std::uint64_t>(checked_count(header.shape, element_size)) * element_size;
  if (bytes != reader.left())
    throw Error("expected " + counted(bytes, "byte") + " after the header, for the shape " + to_string(header.shape) +
                " of " + name_of(header.type) + ", got " + std::to_string(reader.left()));
  return bytes;
}

Array read_data(Reader& reader, const Header& header) {
  const std::uint64_t bytes = data_bytes(header, reader);
  Array array(header.type, header.shape);
  const std::int64_t count = array.count();
  reader.read(array.data(), bytes, "data");
  const bool native_big = std::endian::native == std::endian::big;
  if (header.big_endian != native_big) swap_bytes(array);
  if (header.type == ElementType::boolean)
    for (std::int64_t n = 0; n < count; ++n) array.data()[n] = std::byte{array.data()[n] != std::byte{0}};
  if (header.fortran_order && array.rank() > 1) return from_fortran_order(array);
  return array;
}

Array read_array(std::istream& in, std::uint64_t size) {
  Reader reader(in, size);
  const Header header = read_header(reader);
  return read_data(reader, header);
}

Array read_rows(std::istream& in, std::uint64_t size,
                const std::function<std::vector<RowRange>(const std::vector<std::int64_t>& shape)>& choose) {
  Reader reader(in, size);
  const Header header = read_header(reader);
  data_bytes(header, reader);
  const std::vector<RowRange> ranges = choose(header.shape);
  const std::size_t rank = header.shape.size();
  if (rank < 2) return read_data(reader, header);
  const std::int64_t rows = header.shape[rank - 2];
  std::vector<std::int64_t> shape = header.shape;
  shape[rank - 2] = 0;
  for (const RowRange& range : ranges) shape[rank - 2] += range.end - range.begin;
  std::int64_t matrices = 1;
  for (std::size_t n = 0; n + 2 < rank; ++n) matrices *= shape[n];
  const std::size_t row = static_cast<std::size_t>(shape[rank - 1]) * size_of(header.type);
  Array array(header.type, shape);
  std::byte* to = array.data();
  const bool plain = header.big_endian == (std::endian::native == std::endian::big) && !header.fortran_order;
  const Array whole = plain ? Array() : read_data(reader, header);
  const std::streamoff start = plain ? static_cast<std::streamoff>(in.tellg()) : 0;
  for (std::int64_t m = 0; m < matrices; ++m)
    for (const RowRange& range : ranges) {
      const std::size_t bytes = static_cast<std::size_t>(range.end - range.begin) * row;
      const std::size_t from = static_cast<std::size_t>(m * rows + range.begin) * row;
      if (bytes == 0) continue;
      if (!plain) std::memcpy(to, whole.data() + from, bytes);
      else if (!in.seekg(start + static_cast<std::streamoff>(from)) ||
               !in.read(reinterpret_cast<char*>(to), static_cast<std::streamsize>(bytes)))
        throw Error("expected the whole data, got a file that ends within it");
      to += bytes;
    }
  if (header.type == ElementType::boolean)
    for (std::int64_t n = 0; n < array.count(); ++n) array.data()[n] = std::byte{array.data()[n] != std::byte{0}};
  return array;
}

Array read_named(std::istream& in, std::uint64_t size, const std::string& name) {
  try {
    return read_array(in, size);
  } catch (const Error& error) {
    throw Error("read '" + name + "': " + error.what());
  }
}

struct MemoryBuffer : std::streambuf {
  explicit MemoryBuffer(std::string_view bytes) {
    // Never written to: a streambuf over constant bytes has only a get area.
    char* begin = const_cast<char*>(bytes.data());
    setg(begin, begin, begin + bytes.size());
  }
};

}  // namespace

const char* npy_descr(ElementType type) {
  switch (type) {
    case ElementType::boolean: return "|b1";
    case ElementType::i8: return "|i1";
    case ElementType::i16: return "<i2";
    case ElementType::i32: return "<i4";
    case ElementType::i64: return "<i8";
    case ElementType::u8: return "|u1";
    case ElementType::u16: return "<u2";
    case ElementType::u32: return "<u4";
    case ElementType::u64: return "<u8";
    case ElementType::f16: return "<f2";
    case ElementType::bf16:
    case ElementType::f32: return "<f4";
    case ElementType::f64: return "<f8";
  }
  return "";
}

std::string npy_header(ElementType type, const std::vector<std::int64_t>& shape) {
  std::string dict = std::string("{'descr': '") + npy_descr(type) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t n = 0; n < shape.size(); ++n) {
    if (n > 0) dict += ", ";
    dict += std::to_string(shape[n]);
  }
  dict += shape.size() == 1 ? ",), }" : "), }";
  // The data starts at a multiple of 64 bytes.
  const std::size_t unpadded = kMagic.size() + 4 + dict.size() + 1;
  dict.append((64 - unpadded % 64) % 64, ' ');
  dict += '\n';
  if (dict.size() > 0xffff)
    throw Error("write npy: expected a header of at most 65535 bytes, got " + counted(dict.size(), "byte") +
                " for a shape of " + counted(shape.size(), "dimension"));
  std::string text(kMagic);
  text += '\x01';
  text += '\0';
  text += static_cast<char>(dict.size() & 0xff);
  text += static_cast<char>(dict.size() >> 8);
  return text + dict;
}

Array read_npy(const std::filesystem::path& path) {
  const std::uint64_t size = regular_file_size(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("read '" + path.string() + "': " + std::strerror(errno));
  return read_named(in, size, path.string());
}

Array read_npy_rows(const std::filesystem::path& path,
                    const std::function<std::vector<RowRange>(const std::vector<std::int64_t>& shape)>& choose) {
  const std::uint64_t size = regular_file_size(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("read '" + path.string() + "': " + std::strerror(errno));
  try {
    return read_rows(in, size, choose);
  } catch (const Error& error) {
    throw Error("read '" + path.string() + "': " + error.what());
  }
}

Array parse_npy(std::string_view bytes, const std::string& name) {
  MemoryBuffer buffer(bytes);
  std::istream in(&buffer);
  return read_named(in, bytes.size(), name);
}

void stage_npy(StagedFiles& files, const std::filesystem::path& path, const Array& array) {
  if (array.type() == ElementType::bf16) return stage_npy(files, path, array.to(ElementType::f32));
  const std::string header = npy_header(array.type(), array.shape());
  const std::span<const std::byte> header_bytes = std::as_bytes(std::span(header));
  if constexpr (std::endian::native == std::endian::big) {
    Array little = array;
    swap_bytes(little);
    files.add(path, {header_bytes, {little.data(), little.bytes()}});
  } else {
    files.add(path, {header_bytes, {array.data(), array.bytes()}});
  }
}

void write_npy(const std::filesystem::path& path, const Array& array) {
  StagedFiles files;
  stage_npy(files, path, array);
  files.commit();
}

}  // namespace rapt::inline v1
