#pragma once

#include "backends/cuda/general/gradients.cuh"

// Gradients of the tables that a formula reads at any index.
namespace rapt::inline v1::cuda {

// Adds numbers to the places of a table that only this block adds to: each place belongs to one thread, which takes a
// tile's numbers in order. Small tables have their places in registers, of several rows of the tile at once.
struct TableSums {
  static constexpr int kNowhere = -1;

  float* const out;
  const int size, width, groups;  // places of a group of threads; a group has its rows of a tile
  float sum = 0;
  int last = kNowhere;  // the place that sum is for

  RAPT_DEVICE TableSums(float* to, int count)
      : out(to), size(count), width(places(count)), groups(kThreads / places(count)) {}

  // The numbers in s.w and, as bits of an int, their places in s.u.
  RAPT_DEVICE void add(const Shared& s) {
    const int group = static_cast<int>(threadIdx.x) / width, own = static_cast<int>(threadIdx.x) % width,
              rows = kTile / groups;
    for (int row = group * rows; row < (group + 1) * rows; ++row)
      for (int column = 0; column < kTile; column += 4) {
        const int4 at = *reinterpret_cast<const int4*>(&s.u[row][column]);
        const int list[4] = {at.x, at.y, at.z, at.w};
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int place = list[n];
          if (place < 0 || (place & (width - 1)) != own) continue;
          if (place != last) move_to(place);
          sum += s.w[row][column + n];
        }
      }
  }

  RAPT_DEVICE void finish(Shared& s) {
    if (size > kThreads) {
      move_to(kNowhere);
      return;
    }
    float* sums = &s.wide[0][0];
    __syncthreads();
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= size) return;
    float total = 0;
    for (int n = 0; n < groups; ++n) total += sums[n * width + threadIdx.x];
    out[threadIdx.x] += total;
  }

 private:
  // A power of two; at most 64 groups, one for each row.
  RAPT_DEVICE static int places(int count) {
    int n = kThreads / kTile;
    while (n < count && n < kThreads) n *= 2;
    return n;
  }

  RAPT_DEVICE void move_to(int place) {
    if (last >= 0 && size > kThreads) {
      out[last] += sum;
      sum = 0;
    }
    last = place;
  }
};

// Through one of the formula's reads of a table. A block has some tiles of queries of a head.
template <class M>
__global__ __launch_bounds__(kThreads,
                             1) void backward_free_table_kernel(const __grid_constant__ Call call,
                                                                const __grid_constant__ BackwardArguments arguments,
                                                                const __grid_constant__ FreeTableGradient gradient) {
  extern __shared__ float4 memory[];
  Shared& s = *reinterpret_cast<Shared*>(memory);
  const FreeTable& table = call.free_tables[gradient.table];
  const int b = static_cast<int>(blockIdx.x) / call.heads, h = static_cast<int>(blockIdx.x) % call.heads;
  const int split = static_cast<int>(blockIdx.y), tiles = (call.queries + kTile - 1) / kTile;
  const int size = table.rows * table.cols;
  TableSums sums(gradient.out + (static_cast<std::int64_t>(blockIdx.x) * gradient.splits + split) * size, size);
  TileGradients<M> tile(call, arguments, s, b, h);
  for (int n = tiles * split / gradient.splits; n < tiles * (split + 1) / gradient.splits; ++n) {
    tile.set_queries(n * kTile);
    const KeyRange keys = tile.scores.key_tiles();
    for (int first = keys.begin; first < keys.end; first += kTile) {
      tile.compute(first, true);
      float numbers[4][4], places[4][4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) {
          Number<float> place[2] = {0.f, 0.f};
          numbers[r][c] = tile.scores.through_read(r, c, tile.grad[r][c], gradient.read, place);
          const std::int64_t at = numbers[r][c] == 0 ? -1 : table.find(place[0].value, place[1].value);
          places[r][c] = __int_as_float(at < 0 ? TableSums::kNowhere : static_cast<int>(at));
        }
      __syncthreads();
      store_by_row(s.w, numbers);
      store_by_row(s.u, places);
      __syncthreads();
      sums.add(s);
      __syncthreads();
    }
  }
  sums.finish(s);
}

}  // namespace rapt::inline v1::cuda
