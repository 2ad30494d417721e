#pragma once

#include <vector>

#include "attend/problem.h"

namespace rapt::inline v1 {

// Rotary position encoding on the memory of this processor: while it lives, the problem's q and k are rotated copies in the
// compute type. Without rotary encoding nothing changes.
class RotatedRows {
 public:
  explicit RotatedRows(Problem& problem);

  // Gradients of q and k then go to memory of its own, and rotate_back() to where the caller wants them.
  void redirect(Gradients& gradients);
  void rotate_back();

 private:
  struct Side {
    std::vector<float> rows_f32, grad_f32;
    std::vector<double> rows_f64, grad_f64;
    Operand operand;  // of the copy
    View grad, target;
    std::int64_t first = 0;  // position of row 0 in batch 0
  };
  template <class T>
  void rotate(Side& side, Operand& operand, bool queries);
  template <class T>
  void redirect(Side& side, View& gradient);
  template <class T>
  void rotate_back(Side& side, bool queries);
  std::int64_t position(bool queries, std::int64_t b, std::int64_t row) const;

  Problem& problem_;
  Side q_, k_;
};

}  // namespace rapt::inline v1
