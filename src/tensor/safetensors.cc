#include "tensor/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "attend/counted.h"
#include "rapt/error.h"
#include "tensor/safetensors_header.h"

namespace rapt::inline v1 {
namespace {

using safetensors::Entry;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kHeaderLimit = 100'000'000;

// The format is little endian.
void swap_if_big(std::byte* data, std::size_t bytes, std::size_t element_size) {
  if constexpr (std::endian::native == std::endian::big)
    for (std::size_t at = 0; at < bytes; at += element_size) std::reverse(data + at, data + at + element_size);
}

std::uint64_t length_of(const std::array<char, kLengthBytes>& bytes) {
  std::uint64_t length = 0;
  for (std::size_t n = 0; n < kLengthBytes; ++n)
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes[n])) << (8 * n);
  return length;
}

// Every byte of the data belongs to one array, and every array has the bytes that its shape needs.
void check_layout(std::vector<Entry>& entries, std::uint64_t data_bytes) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    const std::string who = "array " + safetensors::shown(entry.name);
    const std::string range = std::to_string(entry.begin) + " to " + std::to_string(entry.end);
    if (entry.begin != at)
      throw Error(who + ": expected its bytes to start at " + std::to_string(at) + ", without holes or overlap, got " +
                  range);
    if (entry.end < entry.begin || entry.end > data_bytes)
      throw Error(who + ": expected bytes within the file's " + std::to_string(data_bytes) + ", got " + range);
    const std::size_t size = size_of(entry.type);
    std::uint64_t needed = 0;
    try {
      needed = static_cast<std::uint64_t>(checked_count(entry.shape, size)) * size;
    } catch (const Error& error) {
      throw Error(who + ": " + error.what());
    }
    if (needed != entry.end - entry.begin)
      throw Error(who + ": expected " + counted(needed, "byte") + " for the shape " + to_string(entry.shape) + " of " +
                  name_of(entry.type) + ", got " + std::to_string(entry.end - entry.begin));
    at = entry.end;
  }
  if (at != data_bytes)
    throw Error("expected " + counted(at, "byte") + " of arrays after the header, got " + std::to_string(data_bytes));
}

// read(to, count) gives the next bytes, or throws.
template <class Read>
Safetensors read_all(std::uint64_t size, const Read& read) {
  if (size < kLengthBytes) throw Error("expected at least 8 bytes, the header's length, got " + std::to_string(size));
  std::array<char, kLengthBytes> length_bytes{};
  read(length_bytes.data(), kLengthBytes);
  const std::uint64_t length = length_of(length_bytes);
  if (length > kHeaderLimit)
    throw Error("expected a safetensors file, with a header of at most " + std::to_string(kHeaderLimit) +
                " bytes, got " + std::to_string(length));
  if (length > size - kLengthBytes)
    throw Error("expected a header of " + counted(length, "byte") + ", as the file says, got " +
                std::to_string(size - kLengthBytes));
  std::string text(length, '\0');
  read(text.data(), length);
  safetensors::Header header = safetensors::parse_header(text);
  check_layout(header.entries, size - kLengthBytes - length);

  Safetensors file;
  file.metadata = std::move(header.metadata);
  file.arrays.reserve(header.entries.size());
  for (Entry& entry : header.entries) {
    Array array(entry.type, std::move(entry.shape));
    if (array.bytes() > 0) read(reinterpret_cast<char*>(array.data()), array.bytes());
    swap_if_big(array.data(), array.bytes(), size_of(entry.type));
    if (entry.type == ElementType::boolean)
      for (std::size_t n = 0; n < array.bytes(); ++n)
        if (array.data()[n] > std::byte{1})
          throw Error("array " + safetensors::shown(entry.name) + ": expected 0 or 1 for a boolean, got the byte " +
                      std::to_string(std::to_integer<int>(array.data()[n])));
    file.arrays.push_back({std::move(entry.name), std::move(array)});
  }
  return file;
}

template <class Read>
Safetensors read_named(std::uint64_t size, const std::string& name, const Read& read) {
  try {
    return read_all(size, read);
  } catch (const Error& error) {
    throw Error("read '" + name + "': " + error.what());
  }
}

}  // namespace

const Array* Safetensors::find(std::string_view name) const {
  for (const NamedArray& one : arrays)
    if (one.name == name) return &one.array;
  return nullptr;
}

Safetensors read_safetensors(const std::filesystem::path& path) {
  const std::uint64_t size = regular_file_size(path);
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error("read '" + path.string() + "': " + std::strerror(errno));
  return read_named(size, path.string(), [&](char* to, std::uint64_t count) {
    if (!in.read(to, static_cast<std::streamsize>(count)))
      throw Error("expected a file that stays as it is, got one that became shorter while it was read");
  });
}

Safetensors parse_safetensors(std::string_view bytes, const std::string& name) {
  std::size_t at = 0;
  return read_named(bytes.size(), name, [&](char* to, std::uint64_t count) {
    if (count > bytes.size() - at) throw Error("expected the whole data, got a file that ends within it");
    bytes.copy(to, count, at);
    at += count;
  });
}

void stage_safetensors(StagedFiles& files, const std::filesystem::path& path, std::span<const NamedBytes> arrays,
                       const Metadata& metadata) {
  std::vector<const NamedBytes*> sorted;
  for (const NamedBytes& one : arrays) sorted.push_back(&one);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const NamedBytes* a, const NamedBytes* b) { return size_of(a->type) > size_of(b->type); });
  std::vector<std::span<const std::byte>> parts(1);
  std::vector<std::vector<std::byte>> swapped;
  std::vector<Entry> entries;
  std::uint64_t at = 0;
  for (const NamedBytes* one : sorted) {
    const std::size_t size = size_of(one->type);
    const std::size_t bytes = static_cast<std::size_t>(checked_count(one->shape, size)) * size;
    if (bytes > 0 && !one->data)
      throw Error("write '" + path.string() + "': array " + safetensors::shown(one->name) +
                  ": expected data, got none");
    entries.push_back({one->name, one->type, one->shape, at, at + bytes});
    at += bytes;
    if (std::endian::native == std::endian::big && bytes > 0) {
      swapped.emplace_back(one->data, one->data + bytes);
      swap_if_big(swapped.back().data(), bytes, size);
      parts.emplace_back(swapped.back());
    } else {
      parts.emplace_back(one->data, bytes);
    }
  }
  std::string header;
  try {
    header = safetensors::header_text(entries, metadata);
    if (header.size() > kHeaderLimit)
      throw Error("expected a header of at most " + std::to_string(kHeaderLimit) + " bytes, got " +
                  std::to_string(header.size()));
  } catch (const Error& error) {
    throw Error("write '" + path.string() + "': " + error.what());
  }
  std::string start;
  for (std::size_t n = 0; n < kLengthBytes; ++n)
    start += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * n) & 0xff);
  start += header;
  parts[0] = std::as_bytes(std::span(start));
  files.add_parts(path, parts);
}

void write_safetensors(const std::filesystem::path& path, std::span<const NamedBytes> arrays,
                       const Metadata& metadata) {
  StagedFiles files;
  stage_safetensors(files, path, arrays, metadata);
  files.commit();
}

}  // namespace rapt::inline v1
