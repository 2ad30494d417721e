#include "backends/cuda/factorized/axes.h"

namespace rapt::inline v1::cuda::factorized {
namespace {

constexpr int kWarps = 8;

RAPT_DEVICE double sum_lanes(double x) {
  for (int mask = 16; mask > 0; mask /= 2) x += __shfl_xor_sync(~0u, x, mask);
  return x;
}

// Weights below the normal numbers count as 0, as in the other paths.
RAPT_DEVICE float without_denormals(double x) {
  constexpr double kSmallest = 1.17549435e-38;
  return x < kSmallest && x > -kSmallest ? 0.f : static_cast<float>(x);
}

// One axis's part of the score.
struct AxisScore {
  double linear, square, peak;
  bool near;

  RAPT_DEVICE AxisScore(double l, double s, int size) : linear(l), square(s), peak(s != 0 ? -l / (2 * s) : 0) {
    // Relative to a nearby peak no large terms cancel; relative to a distant one they would.
    near = s != 0 && fabs(peak) <= 4.0 * size;
  }
  RAPT_DEVICE double operator()(int offset) const {
    const double d = offset;
    return near ? square * (d - peak) * (d - peak) : d * (linear + square * d);
  }
  // Near which the weight is.
  RAPT_DEVICE double about(int size) const { return square < 0 ? fmin(fmax(peak, 1.0 - size), size - 1.0) : 0.0; }
};

__global__ void separate_kernel(const HeadForm* forms, int heads, int* redo) {
  constexpr double kLargest = 1e100;  // beyond it the exponents could overflow in double
  bool separates = true;
  for (int h = static_cast<int>(threadIdx.x); h < heads; h += static_cast<int>(blockDim.x)) {
    const HeadForm& form = forms[h];
    for (const double c : form.coefficient) separates = separates && fabs(c) < kLargest;
    separates = separates && form.coefficient[HeadForm::kRowCol] == 0;
    for (const double d : form.slope[HeadForm::kRowCol]) separates = separates && d == 0;
  }
  const int all = __syncthreads_and(separates ? 1 : 0);
  if (threadIdx.x == 0) *redo = all ? 0 : 1;
}

// A warp for each query of each head and axis, and for the zeros past the last.
__global__ void axes_kernel(const __grid_constant__ Axes axes, int heads) {
  const bool along_rows = blockIdx.y == 0;
  const Axis& axis = along_rows ? axes.row : axes.col;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (n >= static_cast<std::int64_t>(heads) * axis.pitch) return;
  const int size = axis.size, pitch = axis.pitch;
  const int h = static_cast<int>(n / pitch), i = static_cast<int>(n % pitch);
  const std::int64_t matrix = h * axis.matrix();
  if (i >= size) {
    for (int j = lane; j < size; j += 32) axis.by_key[matrix + static_cast<std::int64_t>(j) * pitch + i] = 0;
    return;
  }
  const HeadForm& form = axes.forms[h];
  const AxisScore score(form.coefficient[along_rows ? HeadForm::kRow : HeadForm::kCol],
                        form.coefficient[along_rows ? HeadForm::kRowRow : HeadForm::kColCol], size);
  const double about = score.about(size);

  int top = lane < size ? lane : 0;
  for (int j = lane; j < size; j += 32)
    if (score(j - i) > score(top - i)) top = j;
  for (int mask = 16; mask > 0; mask /= 2) {
    const int other = __shfl_xor_sync(~0u, top, mask);
    const double own = score(top - i), its = score(other - i);
    if (its > own || (its == own && other < top)) top = other;
  }
  const double largest = score(top - i);
  double sum = 0, expected = 0, expected_square = 0;
  for (int j = lane; j < size; j += 32) {
    const double w = exp(score(j - i) - largest), offset = j - i - about;
    sum += w;
    expected += w * offset;
    expected_square += w * offset * offset;
  }
  sum = sum_lanes(sum);
  expected = sum_lanes(expected) / sum;
  expected_square = sum_lanes(expected_square) / sum;
  const std::int64_t line = matrix + static_cast<std::int64_t>(i) * pitch;
  for (int j = lane; j < pitch; j += 32) {
    const double w = j < size ? exp(score(j - i) - largest) / sum : 0, offset = j - i - about;
    if (j < size) axis.by_key[matrix + static_cast<std::int64_t>(j) * pitch + i] = without_denormals(w);
    if (!axis.by_query) continue;
    axis.by_query[line + j] = without_denormals(w);
    axis.first[line + j] = without_denormals(w * (offset - expected));
    axis.second[line + j] = without_denormals(w * (offset * offset - expected_square));
  }
  if (lane != 0) return;
  const double d = top - i;
  axis.top[static_cast<std::int64_t>(h) * size + i] = d * (score.linear + score.square * d);
  axis.sum[static_cast<std::int64_t>(h) * size + i] = sum;
  if (i == 0) axis.about[h] = about;
}

__global__ void rows_kernel(const __grid_constant__ Axes axes, int heads, std::int64_t count, RowStatistics rows,
                            Array lse) {
  const int places = axes.row.size * axes.col.size;
  for (std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; n < count;
       n += static_cast<std::int64_t>(gridDim.x) * blockDim.x) {
    const int i = static_cast<int>(n % places), h = static_cast<int>(n / places % heads),
              b = static_cast<int>(n / places / heads);
    const std::int64_t r = static_cast<std::int64_t>(h) * axes.row.size + i / axes.col.size,
                       c = static_cast<std::int64_t>(h) * axes.col.size + i % axes.col.size;
    const double max = axes.forms[h].coefficient[HeadForm::kConstant] + axes.row.top[r] + axes.col.top[c];
    if (rows.max) {
      rows.max[n] = static_cast<float>(max);
      rows.sum[n] = static_cast<float>(axes.row.sum[r] * axes.col.sum[c]);
    }
    if (lse.data)
      store(lse, lse.offset(b, h) + i * lse.row_stride,
            static_cast<float>(max + log(axes.row.sum[r]) + log(axes.col.sum[c])));
  }
}

Axis make_axis(int size, int heads, bool backward, Workspace& workspace) {
  Axis axis;
  axis.size = size;
  axis.pitch = (size + kFiber / 2 - 1) / (kFiber / 2) * (kFiber / 2);
  const std::int64_t numbers = heads * axis.matrix(), queries = static_cast<std::int64_t>(heads) * size;
  axis.by_key = workspace.take<float>(numbers);
  if (backward) {
    axis.by_query = workspace.take<float>(numbers);
    axis.first = workspace.take<float>(numbers);
    axis.second = workspace.take<float>(numbers);
  }
  axis.about = workspace.take<double>(heads);
  axis.top = workspace.take<double>(queries);
  axis.sum = workspace.take<double>(queries);
  return axis;
}

}  // namespace

Axes make_axes(const Call& call, double scale, int rows, const FactorizedPrograms& programs, bool backward,
               Workspace& workspace) {
  Axes axes;
  axes.row = make_axis(rows, call.heads, backward, workspace);
  axes.col = make_axis(call.keys / rows, call.heads, backward, workspace);
  axes.forms = workspace.take<HeadForm>(call.heads);
  axes.redo = workspace.take<int>(1);
  programs.form(call, scale, axes.forms, workspace.stream());
  check(cudaGetLastError(), "form");
  separate_kernel<<<1, 256, 0, workspace.stream()>>>(axes.forms, call.heads, axes.redo);
  const std::int64_t lines = static_cast<std::int64_t>(call.heads) * ::max(axes.row.pitch, axes.col.pitch);
  const dim3 grid(static_cast<unsigned>((lines + kWarps - 1) / kWarps), 2);
  axes_kernel<<<grid, 32 * kWarps, 0, workspace.stream()>>>(axes, call.heads);
  check(cudaGetLastError(), "weights of the axes");
  return axes;
}

void store_rows(const Call& call, const Axes& axes, const RowStatistics& rows, const Array& lse, cudaStream_t stream) {
  if (!rows.max && !lse.data) return;
  const std::int64_t count = static_cast<std::int64_t>(call.batch) * call.heads * call.queries;
  const std::int64_t blocks = (count + 255) / 256;
  rows_kernel<<<static_cast<unsigned>(blocks < 1 << 16 ? blocks : 1 << 16), 256, 0, stream>>>(axes, call.heads, count,
                                                                                              rows, lse);
  check(cudaGetLastError(), "row sums");
}

}  // namespace rapt::inline v1::cuda::factorized
