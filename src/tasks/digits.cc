#include "tasks/digits.h"

#include "attend/counted.h"
#include "rapt/error.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr std::size_t kSize = 8;
constexpr std::size_t kRowBytes = 5;
constexpr std::size_t kRecord = 1 + kSize * kRowBytes;
constexpr int kWhite = 16;

[[noreturn]] void refuse(std::size_t offset, const std::string& got, const std::string& takes) {
  throw Error("read digits: at byte " + std::to_string(offset) + ": expected " + takes + ", got " + got);
}

}  // namespace

ImageData parse_digits(std::span<const unsigned char> bytes) {
  const std::size_t count = bytes.size() / kRecord;
  if (count == 0 || bytes.size() % kRecord != 0)
    refuse(count * kRecord, counted(bytes.size() % kRecord, "byte") + " at the end", "records of 41 bytes");
  ImageData data;
  data.white = kWhite;
  for (int digit = 0; digit < 10; ++digit) data.classes.push_back(std::to_string(digit));
  data.images = Array(ElementType::u8, {static_cast<std::int64_t>(count), kSize, kSize, 1});
  std::uint8_t* pixel = data.images.as<std::uint8_t>().data();
  for (std::size_t n = 0; n < count; ++n) {
    const unsigned char* record = bytes.data() + n * kRecord;
    if (record[0] > 9) refuse(n * kRecord, "label " + std::to_string(record[0]), "0 to 9");
    data.labels.push_back(record[0]);
    for (std::size_t row = 0; row < kSize; ++row) {
      std::uint64_t bits = 0;
      for (std::size_t b = 0; b < kRowBytes; ++b) bits |= std::uint64_t{record[1 + row * kRowBytes + b]} << (8 * b);
      for (std::size_t col = 0; col < kSize; ++col, bits >>= 5) {
        const int value = static_cast<int>(bits & 31);
        if (value > kWhite) refuse(n * kRecord + 1 + row * kRowBytes, "a pixel of " + std::to_string(value), "0 to 16");
        *pixel++ = static_cast<std::uint8_t>(value);
      }
    }
  }
  return data;
}

ImageData digits_data() { return parse_digits(digits_bytes()); }

ImageTask digits_task() { return split_by_hash(digits_data(), 0.1, 0.2); }

}  // namespace rapt::inline v1::tasks
