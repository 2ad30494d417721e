#include "backends/cuda/factorized/moments.h"

#include "backends/cuda/factorized/fibers.cuh"
#include "backends/cuda/factorized/passes.h"
#include "backends/cuda/prepared_call.h"

// Σ_ij dS_ij φ_ij of each head for φ = δ_row, δ_row², δ_col, δ_col². As dS = P∘(dP − Σ P∘dP), each is
// Σ_ij P_ij (φ_ij − E_i φ) dO_i·v_j. For an offset along rows, with x = Wc v, that is Σ K(r', r) T(r', r), where
// T(r', r) = Σ over columns of dO(r')·x(r) and K = w·(φ − E φ) is small; along columns likewise with y = Wrᵀ dO.
namespace rapt::inline v1::cuda::factorized {
namespace {

enum Moment { kFirstRow, kSecondRow, kFirstCol, kSecondCol, kMoments };

struct Moments {
  Array v, grad_out;
  Axis row, col;
  std::int32_t heads = 1;
  bool v_vectors = false, grad_vectors = false;
  double* parts = nullptr;  // [batch·heads][part_count][kMoments]
  std::int32_t first_part = 0, part_count = 1;
};

struct Sums {
  double by_warp[kMostThreads / 32][kMoments];
};
// A moment's sum over each warp. Then those of the block, in a fixed order, once all have been kept.
RAPT_DEVICE void keep_moment(Sums& sums, int moment, double sum) {
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(~0u, sum, mask);
  if (threadIdx.x % 32 == 0) sums.by_warp[threadIdx.x / 32][moment] = sum;
}
RAPT_DEVICE void store_moments(const Sums& sums, double* to) {
  __syncthreads();
  if (threadIdx.x >= kMoments) return;
  double sum = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) sum += sums.by_warp[w][threadIdx.x];
  to[threadIdx.x] = sum;
}

// The moments Σ T∘K₁ and Σ T∘K₂ of one axis, T(m, n) = Σ over the other axis' places o and four numbers of each
// quad of x(m, o, quad)·y(n, o, quad). A warp has some of the o, a thread 2 × 4 of every 16 × 16 pairs.
template <class X, class Y>
RAPT_DEVICE void add_moments(const Axis& axis, int h, int others, int quads, const X& x, const Y& y, Sums& sums,
                             int moment) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32,
            warps = static_cast<int>(blockDim.x) / 32;
  const int m_lane = lane % 8, n_lane = lane / 8;
  const float* k1 = axis.first + h * axis.matrix();
  const float* k2 = axis.second + h * axis.matrix();
  double first = 0, second = 0;
  for (int m0 = 0; m0 < axis.size; m0 += 16)
    for (int n0 = 0; n0 < axis.size; n0 += 16) {
      float acc[2][4] = {};
      for (int o = warp; o < others; o += warps)
        for (int quad = 0; quad < quads; ++quad) {
          float4 xs[2], ys[4];
#pragma unroll
          for (int m = 0; m < 2; ++m) xs[m] = x(::min(m0 + m_lane + 8 * m, axis.size - 1), o, quad);
#pragma unroll
          for (int n = 0; n < 4; ++n) ys[n] = y(::min(n0 + n_lane + 4 * n, axis.size - 1), o, quad);
#pragma unroll
          for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int n = 0; n < 4; ++n) {
              acc[m][n] = fmaf(xs[m].x, ys[n].x, acc[m][n]);
              acc[m][n] = fmaf(xs[m].y, ys[n].y, acc[m][n]);
              acc[m][n] = fmaf(xs[m].z, ys[n].z, acc[m][n]);
              acc[m][n] = fmaf(xs[m].w, ys[n].w, acc[m][n]);
            }
        }
#pragma unroll
      for (int m = 0; m < 2; ++m)
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          const int query = m0 + m_lane + 8 * m, key = n0 + n_lane + 4 * n;
          if (query >= axis.size || key >= axis.size) continue;
          const std::int64_t place = static_cast<std::int64_t>(query) * axis.pitch + key;
          first += static_cast<double>(acc[m][n]) * k1[place];
          second += static_cast<double>(acc[m][n]) * k2[place];
        }
    }
  keep_moment(sums, moment, first);
  keep_moment(sums, moment + 1, second);
}

template <class T>
RAPT_DEVICE void load_tile(const Tile& tile, const Source<T>& source, int rows, int cols, int quads, int first_d) {
  for (int n = static_cast<int>(threadIdx.x); n < rows * cols * quads; n += static_cast<int>(blockDim.x)) {
    const int quad = n % quads, place = n / quads;
    tile.at(place / cols, place % cols, quad) = source.at(place, first_d + 4 * quad);
  }
}

// A block for some numbers of the vectors of one batch and head.
template <class T>
__global__ __launch_bounds__(kMostThreads, 2) void moments_kernel(const __grid_constant__ Moments p, Cut cut) {
  extern __shared__ float4 memory[];
  __shared__ Sums sums;
  const int rows = p.row.size, cols = p.col.size;
  float* col = reinterpret_cast<float*>(memory);  // [key][query]
  float* row = col + p.col.matrix();              // [query][key]
  const Tile product{row + p.row.matrix(), cut.pitch, cut.stride},
      given{product.data + rows * cut.stride, cut.pitch, cut.stride};
  const int part = static_cast<int>(blockIdx.x) % cut.count, pair = static_cast<int>(blockIdx.x) / cut.count;
  const int h = pair % p.heads, b = pair / p.heads;
  const int quads = cut.quads(), first_d = part * cut.width;
  const Source<T> v(p.v, p.v_vectors, b, h), grad(p.grad_out, p.grad_vectors, b, h);
  const auto in_product = [&](int r, int c, int quad) { return product.at(r, c, quad); };
  const auto in_given = [&](int r, int c, int quad) { return given.at(r, c, quad); };
  copy_matrix(col, p.col.by_key + h * p.col.matrix(), p.col.matrix());
  copy_matrix(row, p.row.by_query + h * p.row.matrix(), p.row.matrix());
  load_tile(given, grad, rows, cols, quads, first_d);
  __syncthreads();
  // Wc v, against dO.
  for (int n = static_cast<int>(threadIdx.x); n < fiber_tiles(cols) * rows * quads; n += static_cast<int>(blockDim.x)) {
    const int quad = n % quads, r = n / quads % rows, first = n / quads / rows * kFiber;
    with_count(cols, first, [&](auto count) {
      float4 acc[count()] = {};
      v.along(r * cols, 1, first_d + 4 * quad,
              [&](const auto& x) { add_products(acc, col + first, p.col.pitch, cols, x); });
#pragma unroll
      for (int m = 0; m < count(); ++m)
        if (first + m < cols) product.at(r, first + m, quad) = acc[m];
    });
  }
  __syncthreads();
  add_moments(p.row, h, cols, quads, in_given, in_product, sums, kFirstRow);
  __syncthreads();
  // Wrᵀ dO, against v.
  for (int n = static_cast<int>(threadIdx.x); n < fiber_tiles(rows) * cols * quads; n += static_cast<int>(blockDim.x)) {
    const int quad = n % quads, c = n / quads % cols, first = n / quads / cols * kFiber;
    with_count(rows, first, [&](auto count) {
      float4 acc[count()] = {};
      add_products(acc, row + first, p.row.pitch, rows, [&](int k) { return given.at(k, c, quad); });
#pragma unroll
      for (int m = 0; m < count(); ++m)
        if (first + m < rows) product.at(first + m, c, quad) = acc[m];
    });
  }
  __syncthreads();
  load_tile(given, v, rows, cols, quads, first_d);
  __syncthreads();
  add_moments(
      p.col, h, rows, quads, [&](int c, int r, int quad) { return in_product(r, c, quad); },
      [&](int c, int r, int quad) { return in_given(r, c, quad); }, sums, kFirstCol);
  store_moments(sums, p.parts + (static_cast<std::int64_t>(pair) * p.part_count + p.first_part + part) * kMoments);
}

// The same for a grid that shared memory does not hold: Wc v and Wrᵀ dO are in memory, and a block has `width` numbers.
template <class T>
__global__ __launch_bounds__(kMostThreads, 2) void large_moments_kernel(const __grid_constant__ Moments p,
                                                                        const __grid_constant__ Array mixed_v,
                                                                        const __grid_constant__ Array mixed_grad,
                                                                        bool vectors, int width, int count) {
  __shared__ Sums sums;
  const int part = static_cast<int>(blockIdx.x) % count, pair = static_cast<int>(blockIdx.x) / count;
  const int h = pair % p.heads, b = pair / p.heads, cols = p.col.size, first_d = part * width;
  const Source<T> v(p.v, p.v_vectors, b, h), grad(p.grad_out, p.grad_vectors, b, h);
  const Source<float> x(mixed_v, vectors, b, h), y(mixed_grad, vectors, b, h);
  add_moments(
      p.row, h, cols, width / 4, [&](int r, int c, int quad) { return grad.at(r * cols + c, first_d + 4 * quad); },
      [&](int r, int c, int quad) { return x.at(r * cols + c, first_d + 4 * quad); }, sums, kFirstRow);
  add_moments(
      p.col, h, p.row.size, width / 4, [&](int c, int r, int quad) { return y.at(r * cols + c, first_d + 4 * quad); },
      [&](int c, int r, int quad) { return v.at(r * cols + c, first_d + 4 * quad); }, sums, kFirstCol);
  store_moments(sums, p.parts + (static_cast<std::int64_t>(pair) * p.part_count + p.first_part + part) * kMoments);
}

// A block for each head: its moments, summed in a fixed order, times the slopes of the form's coefficients.
__global__ void finish_kernel(const __grid_constant__ Axes axes, const double* parts, int batch, int heads,
                              int part_count, int slots, float* grads) {
  __shared__ double shared[256][kMoments];
  const int h = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  double sums[kMoments] = {};
  for (std::int64_t n = thread; n < static_cast<std::int64_t>(batch) * part_count; n += 256) {
    const std::int64_t b = n / part_count, part = n % part_count;
    const double* from = parts + ((b * heads + h) * part_count + part) * kMoments;
    for (int m = 0; m < kMoments; ++m) sums[m] += from[m];
  }
  for (int m = 0; m < kMoments; ++m) shared[thread][m] = sums[m];
  __syncthreads();
  for (int half = 128; half > 0; half /= 2) {
    if (thread < half)
      for (int m = 0; m < kMoments; ++m) shared[thread][m] += shared[thread + half][m];
    __syncthreads();
  }
  if (thread >= slots) return;
  // Back from the offsets' own origins: δ² = (δ−a)² + 2aδ − a², and the constant has no part in dS.
  const double* moments = shared[0];
  const double first_row = moments[kFirstRow], second_row = moments[kSecondRow] + 2 * axes.row.about[h] * first_row,
               first_col = moments[kFirstCol], second_col = moments[kSecondCol] + 2 * axes.col.about[h] * first_col;
  const HeadForm& form = axes.forms[h];
  const double grad = first_row * form.slope[HeadForm::kRow][thread] + first_col * form.slope[HeadForm::kCol][thread] +
                      second_row * form.slope[HeadForm::kRowRow][thread] +
                      second_col * form.slope[HeadForm::kColCol][thread];
  grads[h * slots + thread] = static_cast<float>(grad);
  if (!isfinite(first_row + second_row + first_col + second_col)) *axes.redo = 1;
}

constexpr int kLargeWidth = 32;

template <class T>
void launch_moments(const Call& call, const Axes& axes, const Moments& p, const Cut& cut, Workspace& workspace) {
  const auto blocks = static_cast<unsigned>(call.batch * call.heads) *
                      static_cast<unsigned>(cut.width == 0 ? (p.v.dim + kLargeWidth - 1) / kLargeWidth : cut.count);
  if (cut.width > 0) {
    allow_bytes(&moments_kernel<T>, cut.bytes);
    moments_kernel<T><<<blocks, kMostThreads, static_cast<std::size_t>(cut.bytes), workspace.stream()>>>(p, cut);
  } else {
    const float* x = multiply_axis(axes, p.v, call.batch, call.heads, false, false, workspace);
    const float* y = multiply_axis(axes, p.grad_out, call.batch, call.heads, true, true, workspace);
    const Array mixed_v = contiguous_array(const_cast<float*>(x), call.batch, call.heads, call.keys, p.v.dim),
                mixed_grad = contiguous_array(const_cast<float*>(y), call.batch, call.heads, call.keys, p.v.dim);
    large_moments_kernel<T><<<blocks, kMostThreads, 0, workspace.stream()>>>(
        p, mixed_v, mixed_grad, has_vectors(mixed_v), kLargeWidth, (p.v.dim + kLargeWidth - 1) / kLargeWidth);
  }
  check(cudaGetLastError(), "moments of a grid");
}

}  // namespace

float* form_gradients(const Call& call, const Axes& axes, const std::vector<ValueSet>& sets, int slots,
                      Workspace& workspace) {
  Moments p;
  p.row = axes.row;
  p.col = axes.col;
  p.heads = call.heads;
  p.part_count = 0;
  std::vector<Cut> cuts;
  for (const ValueSet& set : sets) {
    cuts.push_back(cut_for(axes.row, axes.col, set.v.dim, 2));
    p.part_count += cuts.back().width == 0 ? (set.v.dim + kLargeWidth - 1) / kLargeWidth : cuts.back().count;
  }
  p.parts = workspace.take<double>(static_cast<std::int64_t>(call.batch) * call.heads * p.part_count * kMoments);
  for (std::size_t n = 0; n < sets.size(); ++n) {
    p.v = sets[n].v;
    p.grad_out = sets[n].grad_out;
    p.v_vectors = has_vectors(p.v);
    p.grad_vectors = has_vectors(p.grad_out);
    switch (p.v.dtype) {
      case Dtype::bf16: launch_moments<__nv_bfloat16>(call, axes, p, cuts[n], workspace); break;
      case Dtype::f16: launch_moments<__half>(call, axes, p, cuts[n], workspace); break;
      default: launch_moments<float>(call, axes, p, cuts[n], workspace); break;
    }
    p.first_part += cuts[n].width == 0 ? (p.v.dim + kLargeWidth - 1) / kLargeWidth : cuts[n].count;
  }
  float* grads = workspace.take<float>(static_cast<std::int64_t>(call.heads) * slots);
  finish_kernel<<<static_cast<unsigned>(call.heads), 256, 0, workspace.stream()>>>(
      axes, p.parts, call.batch, call.heads, p.part_count, slots, grads);
  check(cudaGetLastError(), "gradients of a form");
  return grads;
}

}  // namespace rapt::inline v1::cuda::factorized
