#include "backends/cpu/simd/rows.h"
#include "tensor/simd/entry.h"
#include "tensor/simd/functions.h"

// Products of matrices of any shape, on the same block kernel as attention. B is packed into panels of two vectors; one
// panel of kDepth rows and eight rows of A stay in the L1 cache, kPanels panels in L2.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

constexpr std::int64_t kDepth = 256;
constexpr std::int64_t kPanels = 8;
// Up to this many rows, packing B costs more than reading it in place; for a small B the limit is higher.
constexpr std::int64_t kFewRows = 8;
constexpr std::int64_t kFewRowsOfSmall = 64;
constexpr std::int64_t kSmall = 1 << 15;

template <class T>
constexpr std::int64_t panel_width() {
  return 2 * kLanes<T>;
}

RAPT_FN std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

// Block after block of kDepth rows, panel after panel, row after row.
template <class T>
std::int64_t packed_size(std::int64_t n, std::int64_t k) {
  return round_up(n, panel_width<T>()) * k;
}

template <class T>
void pack_panel(const MatmulArgs<T>& args, std::int64_t first_k, std::int64_t depth, std::int64_t first_n, T* to) {
  constexpr std::int64_t kWidth = panel_width<T>();
  const std::int64_t width = smaller(kWidth, args.n - first_n);
  const T* from = args.b + first_k * args.b_row + first_n * args.b_col;
  if (args.b_col == 1 && width == kWidth) {
    const Tag<T> tag;
    for (std::int64_t k = 0; k < depth; ++k, from += args.b_row, to += kWidth) {
      hn::StoreU(hn::LoadU(tag, from), tag, to);
      hn::StoreU(hn::LoadU(tag, from + kLanes<T>), tag, to + kLanes<T>);
    }
    return;
  }
  if (args.b_row == 1) {
    transpose(from, args.b_col, width, depth, to, kWidth);
  } else {
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t c = 0; c < width; ++c) to[k * kWidth + c] = from[k * args.b_row + c * args.b_col];
  }
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t c = width; c < kWidth; ++c) to[k * kWidth + c] = 0;
}

template <class T>
void pack(const MatmulArgs<T>& args) {
  T* to = args.packed;
  for (std::int64_t k = 0; k < args.k; k += kDepth) {
    const std::int64_t depth = smaller(kDepth, args.k - k);
    for (std::int64_t n = 0; n < args.n; n += panel_width<T>(), to += depth * panel_width<T>())
      pack_panel(args, k, depth, n, to);
  }
}

// The rows of a transposed matrix, [k][kProductRows]: every panel would read a line of each of its columns.
template <class T>
void pack_rows(const ProductArgs<T>& rows, T* to) {
  const T* from = rows.a;
  for (std::int64_t k = 0; k < rows.k; ++k, from += rows.a_col, to += kProductRows)
    if (rows.m == kProductRows) __builtin_memcpy(to, from, kProductRows * sizeof(T));
    else
      for (std::int64_t r = 0; r < rows.m; ++r) to[r] = from[r];
}

// The last columns go through a buffer.
template <class T>
void edge_of_panel(ProductArgs<T> panel, std::int64_t width) {
  T block[kProductRows * panel_width<T>()];
  T* c = panel.c;
  const std::int64_t rows = panel.m;
  const bool accumulate = panel.accumulate;
  panel.c = block;
  const std::ptrdiff_t c_row = panel.c_row;
  panel.c_row = panel_width<T>();
  panel.accumulate = false;
  if (width <= kLanes<T>) product_columns<T, 1>(panel, 0);
  else product_columns<T, 2>(panel, 0);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t n = 0; n < width; ++n) {
      const T sum = block[r * panel_width<T>() + n];
      c[r * c_row + n] = accumulate ? sum + c[r * c_row + n] : sum;
    }
}

// A block of C, while it is in the cache.
template <class T>
void fill_block(const ProductArgs<T>& panel, const T* row, std::int64_t width) {
  for (std::int64_t m = 0; m < panel.m; ++m)
    if (width == panel_width<T>()) __builtin_memcpy(panel.c + m * panel.c_row, row, panel_width<T>() * sizeof(T));
    else
      for (std::int64_t n = 0; n < width; ++n) panel.c[m * panel.c_row + n] = row[n];
}

template <class T>
void activate(Activation kind, T* x, std::int64_t count) {
  for_vectors<T>(count, [&](std::int64_t n, std::int64_t lanes) {
    store<T>(activated<T>(kind, load<T>(x + n, lanes)), x + n, lanes);
  });
}

template <class T>
void matmul(const MatmulArgs<T>& args) {
  constexpr std::int64_t kWidth = panel_width<T>();
  const bool in_place =
      args.b && args.b_col == 1 && (args.m <= kFewRows || (args.m <= kFewRowsOfSmall && args.n * args.k <= kSmall));
  if (args.b && !in_place) pack(args);
  if (args.k == 0 && !args.accumulate)
    for (std::int64_t m = 0; m < args.m; ++m) {
      T* c = args.c + m * args.c_row;
      for (std::int64_t n = 0; n < args.n; ++n) c[n] = args.bias ? args.bias[n] : T(0);
      if (args.activates) activate(args.activation, c, args.n);
    }
  const std::int64_t padded_n = round_up(args.n, kWidth);
  const bool packs_rows = args.a_row == 1 && args.a_col != 1 && args.n > kWidth;
  T rows_of_a[kProductRows * kDepth];
  for (std::int64_t k = 0; k < args.k; k += kDepth) {
    const std::int64_t depth = smaller(kDepth, args.k - k);
    for (std::int64_t block = 0; block < args.n; block += kPanels * kWidth)
      for (std::int64_t m = 0; m < args.m; m += kProductRows) {
        ProductArgs<T> panel;
        panel.m = smaller(kProductRows, args.m - m);
        panel.n = kWidth;
        panel.k = depth;
        panel.a = args.a + k * args.a_col + m * args.a_row;
        panel.a_row = args.a_row;
        panel.a_col = args.a_col;
        panel.c_row = args.c_row;
        panel.accumulate = args.accumulate || args.bias || k > 0;
        if (packs_rows) {
          pack_rows(panel, rows_of_a);
          panel.a = rows_of_a;
          panel.a_col = kProductRows;
        }
        const std::int64_t end = smaller(args.n, block + kPanels * kWidth);
        for (std::int64_t n = block; n < end; n += kWidth) {
          const std::int64_t width = smaller(kWidth, args.n - n);
          panel.c = args.c + m * args.c_row + n;
          if (args.bias && k == 0) fill_block(panel, args.bias + n, width);
          if (in_place && width == kWidth) {
            panel.b = args.b + k * args.b_row + n;
            panel.b_row = args.b_row;
          } else {
            T* place = args.packed + k * padded_n + n * depth;
            if (in_place) pack_panel(args, k, depth, n, place);
            panel.b = place;
            panel.b_row = kWidth;
          }
          if (width == kWidth) product_columns<T, 2>(panel, 0);
          else edge_of_panel(panel, width);
        }
        if (args.activates && k + depth == args.k)
          for (std::int64_t r = 0; r < panel.m; ++r)
            activate(args.activation, args.c + (m + r) * args.c_row + block, end - block);
      }
  }
}

}  // namespace

template <class T>
void fill_matmul(TensorKernels<T>& kernels) {
  kernels.packed_size = packed_size<T>;
  kernels.pack = pack<T>;
  kernels.matmul = matmul<T>;
}
template void fill_matmul(TensorKernels<float>&);
template void fill_matmul(TensorKernels<double>&);

}  // namespace rapt::inline v1::RAPT_TARGET
