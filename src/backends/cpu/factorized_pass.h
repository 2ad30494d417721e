#pragma once

#include "backends/cpu/factorized.h"

namespace rapt::inline v1::factorized {

// One head's weights in the compute type.
template <class T>
struct GridWeights {
  std::vector<T> row;  // [rows, rows]
  std::vector<T> col;  // [cols, cols]
};

// The workspace of one thread that multiplies grids of vectors by Wr ⊗ Wc.
template <class T>
class GridPass {
 public:
  // sum (+)= (Wr ⊗ Wc) x, or with its transpose. fill(r, dst) writes row r of x, [cols][width].
  template <class Fill>
  void run(const Layout<T>& layout, const GridWeights<T>& w, Direction direction, bool accumulate, Fill fill) {
    row_ = row_memory_.reserve(layout.cols * layout.width);
    half_ = half_memory_.reserve(layout.size());
    sum_ = sum_memory_.reserve(layout.size());
    outliers_.clear();
    for (std::int64_t r = 0; r < layout.rows; ++r) {
      fill(r, row_);
      T* half = half_ + r * layout.stride;
      layout.multiply_columns(w.col, direction, row_, half);
      // A NaN or an infinity shows in every column, also where its weight is 0. Such vectors are added by themselves.
      if (all_finite(half, layout.width) || !set_aside(layout, r)) continue;
      layout.multiply_columns(w.col, direction, row_, half);
    }
    layout.multiply_rows(w.row, direction, half_, sum_, accumulate);
    for (const Outlier& outlier : outliers_) add(layout, w, direction, outlier);
  }

  const T* sum(const Layout<T>& layout, std::int64_t r, std::int64_t c) const { return layout.at(sum_, r, c); }

 private:
  struct Outlier {
    std::int64_t r, c;
    std::vector<T> values;  // [width]
  };

  bool set_aside(const Layout<T>& layout, std::int64_t r) {
    const std::size_t before = outliers_.size();
    for (std::int64_t c = 0; c < layout.cols; ++c) {
      T* values = row_ + c * layout.width;
      if (all_finite(values, layout.width)) continue;
      outliers_.push_back({r, c, std::vector<T>(values, values + layout.width)});
      std::fill_n(values, layout.width, T(0));
    }
    return outliers_.size() > before;
  }

  void add(const Layout<T>& layout, const GridWeights<T>& w, Direction direction, const Outlier& outlier) {
    const auto weight = [&](const std::vector<T>& a, std::int64_t size, std::int64_t to, std::int64_t from) {
      const std::int64_t place = direction == Direction::to_queries ? to * size + from : from * size + to;
      return static_cast<double>(a[static_cast<std::size_t>(place)]);
    };
    for (std::int64_t r = 0; r < layout.rows; ++r)
      for (std::int64_t c = 0; c < layout.cols; ++c) {
        const double row = weight(w.row, layout.rows, r, outlier.r), col = weight(w.col, layout.cols, c, outlier.c);
        const T both = without_denormals<T>(row * col);
        if (both == T(0)) continue;
        T* target = layout.at(sum_, r, c);
        for (std::int64_t d = 0; d < layout.width; ++d) target[d] += both * outlier.values[static_cast<std::size_t>(d)];
      }
  }

  Growing<T> row_memory_, half_memory_, sum_memory_;
  T* row_ = nullptr;   // [cols][width]
  T* half_ = nullptr;  // the grid after the pass over columns
  T* sum_ = nullptr;
  std::vector<Outlier> outliers_;
};

}  // namespace rapt::inline v1::factorized
