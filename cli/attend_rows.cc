#include "cli/attend_rows.h"

#include <vector>

#include "rapt/distributed.h"
#include "tensor/npy.h"

namespace rapt::cli {
namespace {

constexpr int kTag = 7;

// The rows of one process, within each matrix of its array.
struct Piece {
  int process;
  std::int64_t at, rows;  // in the array of the process
};

// In sequence order: the early pieces of all processes, then the late ones from the last process on.
std::vector<Piece> pieces_of(std::int64_t rows, int size) {
  std::vector<Piece> pieces;
  for (int n = 0; n < size; ++n) {
    const Share share = share_of(rows, n, size);
    pieces.push_back({n, 0, share.early_end - share.early_begin});
  }
  for (int n = size - 1; n >= 0; --n) {
    const Share share = share_of(rows, n, size);
    pieces.push_back({n, share.early_end - share.early_begin, share.late_end - share.late_begin});
  }
  return pieces;
}

}  // namespace

void stage_share(StagedFiles& files, const std::filesystem::path& path, const NamedArray& array, Communicator& world) {
  if (array.rows < 0) {
    if (world.rank() == 0) stage_npy(files, path, array.value);
    return;
  }
  const bool is_bf16 = array.value.type() == ElementType::bf16;
  const Array converted = is_bf16 ? array.value.to(ElementType::f32) : Array();
  const Array& value = is_bf16 ? converted : array.value;
  std::int64_t elements = 1;
  for (const std::int64_t size : array.shape) elements *= size;
  // An array [.., rows, width]; if the file has no last dimension, the width is 1.
  const std::int64_t width = value.shape().back();
  const std::size_t row = static_cast<std::size_t>(width) * size_of(value.type());
  const std::int64_t matrices = array.rows * width == 0 ? 0 : elements / (array.rows * width);
  const Share own = share_of(array.rows, world.rank(), world.size());
  const std::vector<Piece> pieces = pieces_of(array.rows, world.size());
  const auto bytes_of = [&](std::int64_t matrix, const Piece& piece) {
    return std::span(value.data() + static_cast<std::size_t>(matrix * own.rows() + piece.at) * row,
                     static_cast<std::size_t>(piece.rows) * row);
  };
  if (world.rank() > 0) {
    for (std::int64_t m = 0; m < matrices; ++m)
      for (const Piece& piece : pieces)
        if (piece.process == world.rank() && piece.rows > 0) {
          const auto bytes = bytes_of(m, piece);
          world.wait(world.start_send(bytes.data(), bytes.size(), 0, kTag));
        }
    return;
  }
  files.add_streamed(path, [&](const StagedFiles::Sink& sink) {
    const std::string header = npy_header(value.type(), array.shape);
    sink(std::as_bytes(std::span(header)));
    std::vector<std::byte> received;
    for (std::int64_t m = 0; m < matrices; ++m)
      for (const Piece& piece : pieces) {
        if (piece.rows == 0) continue;
        if (piece.process == 0) {
          sink(bytes_of(m, piece));
          continue;
        }
        received.resize(static_cast<std::size_t>(piece.rows) * row);
        world.wait(world.start_receive(received.data(), received.size(), piece.process, kTag));
        sink(received);
      }
  });
}

}  // namespace rapt::cli
