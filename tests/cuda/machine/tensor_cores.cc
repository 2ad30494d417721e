// Products of a warpgroup and of a warp, and the matrices of 8 x 8 numbers that they take.

#include <bit>
#include <cstring>

#include "cuda/machine/multiprocessor.h"

namespace machine {

float number(std::uint32_t bits, bool bf16) {
  if (bf16) return std::bit_cast<float>(bits << 16);
  __half_raw raw;
  raw.x = static_cast<unsigned short>(bits);
  return __half2float(__half(raw));
}
std::uint32_t pack(float low, float high, bool bf16) {
  const auto bits = [&](float x) -> std::uint32_t {
    if (bf16) return __nv_bfloat16_raw(__float2bfloat16_rn(x)).x;
    return __half_raw(__float2half_rn(x)).x;
  };
  return bits(low) | bits(high) << 16;
}

namespace {

std::uint32_t half_of(std::uint32_t x, int n) { return n == 0 ? x & 0xffff : x >> 16; }

// The 16 numbers that are added up, of each line of an operand in shared memory.
void read_lines(std::uint64_t descriptor, bool down, int first, int lines, bool bf16, float (*to)[16]) {
  const auto begin = static_cast<std::uint32_t>(descriptor & 0x3fff) << 4;
  const auto panel = static_cast<std::uint32_t>(descriptor >> 16 & 0x3fff) << 4;
  const auto eight = static_cast<std::uint32_t>(descriptor >> 32 & 0x3fff) << 4;
  for (int n = 0; n < lines; ++n)
    for (int k = 0; k < 16; ++k) {
      const int row = down ? k : first + n, column = down ? first + n : k;
      const auto offset = static_cast<std::uint32_t>(column / 64) * (down ? panel : 0) +
                          static_cast<std::uint32_t>(row / 8) * eight + static_cast<std::uint32_t>(row % 8) * 128 +
                          static_cast<std::uint32_t>(column % 64) * 2;
      std::uint16_t bits;
      std::memcpy(&bits, shared_at(swizzled(begin + offset)), 2);
      to[n][k] = number(bits, bf16);
    }
}

// Product n of the first committed group, for all lanes of the warp: 16 rows.
void compute(int first_lane, std::size_t group, std::size_t n) {
  Multiprocessor& m = processor();
  const auto of_lane = [&](int lane) -> const Product& {
    return m.fibers[static_cast<std::size_t>(first_lane + lane)].committed[group][n];
  };
  const Product& p = of_lane(0);
  float left[16][16], right[256][16];
  if (p.a_in_memory) read_lines(p.a, p.a_down, 16 * (first_lane / 32 % 4), 16, p.bf16, left);
  else
    for (int row = 0; row < 16; ++row)
      for (int k = 0; k < 16; ++k)
        left[row][k] = number(half_of(of_lane(row % 8 * 4).left[k % 8 / 2][k / 8 * 2 + row / 8], k % 2), p.bf16);
  read_lines(p.b, p.b_down, 0, p.columns, p.bf16, right);
  for (int row = 0; row < 16; ++row)
    for (int column = 0; column < p.columns; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += left[row][k] * right[column][k];
      float& d = of_lane(row % 8 * 4 + column % 8 / 2).d[column / 8 * 4 + row / 8 * 2 + column % 2];
      d = p.add ? d + sum : sum;
    }
}

}  // namespace

void start_product(Product p, const std::uint32_t* registers) {
  if (registers) {
    const Shares& all = share(~0u, registers[0], registers[1], registers[2], registers[3]);
    for (int n = 0; n < 4; ++n) std::memcpy(p.left[n], all.of[lane() / 4 * 4 + n], sizeof p.left[n]);
  }
  processor().fiber().open.push_back(p);
}
void commit_products() {
  Fiber& f = processor().fiber();
  f.committed.push_back(std::move(f.open));
  f.open.clear();
}
// The last group may be as late as its wait; the first lane computes for all of its warp.
void await_products(int pending) {
  Fiber& f = processor().fiber();
  __syncwarp();
  const std::size_t count = f.committed.size(), left = static_cast<std::size_t>(pending);
  if (lane() == 0)
    for (std::size_t group = 0; group + left < count; ++group)
      for (std::size_t n = 0; n < f.committed[group].size(); ++n) compute(processor().current, group, n);
  __syncwarp();
  if (count > left) f.committed.erase(f.committed.begin(), f.committed.end() - static_cast<std::ptrdiff_t>(left));
}

void store_matrices(void* to, const std::uint32_t (&x)[4]) {
  const Shares& rows = share(~0u, shared_offset(to));
  for (std::uint32_t m = 0; m < 4; ++m)
    std::memcpy(shared_at(rows.of[8 * m + static_cast<std::uint32_t>(lane()) / 4][0] +
                          4 * (static_cast<std::uint32_t>(lane()) % 4)),
                &x[m], 4);
  __syncwarp();
}
void load_matrices(std::uint32_t (&to)[4], std::uint32_t address, bool transposed) {
  const Shares& rows = share(~0u, address);
  const auto own = static_cast<std::uint32_t>(lane());
  for (std::uint32_t m = 0; m < 4; ++m) {
    std::uint16_t pair[2];
    for (std::uint32_t e = 0; e < 2; ++e) {
      const std::uint32_t row = transposed ? own % 4 * 2 + e : own / 4, column = transposed ? own / 4 : own % 4 * 2 + e;
      std::memcpy(&pair[e], shared_at(rows.of[8 * m + row][0] + 2 * column), 2);
    }
    to[m] = pair[0] | static_cast<std::uint32_t>(pair[1]) << 16;
  }
  __syncwarp();
}
void multiply_add(float* sum, const std::uint32_t (&left)[4], std::uint32_t low, std::uint32_t high, bool bf16) {
  const int own = lane();
  Shares a = share(~0u, left[0], left[1], left[2], left[3]);
  const Shares& b = share(~0u, low, high);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 2; ++c) {
      float x = 0;
      for (int k = 0; k < 16; ++k) {
        const std::uint32_t* of_row = a.of[own / 4 * 4 + k % 8 / 2];
        const std::uint32_t of_column = b.of[(own % 4 * 2 + c) * 4 + k % 8 / 2][k / 8];
        x += number(half_of(of_row[k / 8 * 2 + r], k % 2), bf16) * number(half_of(of_column, k % 2), bf16);
      }
      sum[2 * r + c] += x;
    }
}

}  // namespace machine
