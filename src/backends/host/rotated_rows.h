#pragma once

#include <vector>

#include "attend/problem.h"

namespace rapt::inline v1 {

// Rotary position encoding on the memory of this processor. Without rotary encoding nothing changes.
class RotatedRows {
 public:
  explicit RotatedRows(Problem& problem) : problem_(problem), rotation_(problem.rotary) {}

  // The problem's q and k become copies in the compute type, until restore(): with memory alone, or rotated.
  void reserve();
  void rotate();
  void restore();

  // Gradients of q and k go to memory of its own, and with rotate_back() to where the caller wants them.
  void redirect(Gradients& gradients);
  void rotate_back();

 private:
  // The rotations of one position, which all heads share.
  class Rotation {
   public:
    explicit Rotation(const Rotary& rotary);
    void set(std::int64_t position, int direction);
    template <class T>
    void apply(T* row) const;

   private:
    const Rotary& rotary_;
    std::int64_t position_ = 0;
    int direction_ = 0;  // of what cos_ and sin_ hold; 0: nothing yet
    std::vector<double> frequencies_, cos_, sin_;
  };

  struct Side {
    std::vector<float> rows_f32, grad_f32;
    std::vector<double> rows_f64, grad_f64;
    Operand given, operand;  // the caller's, and that of the copy
    View grad, target;
  };
  template <class T>
  void reserve(Side& side, Operand& operand, bool queries);
  template <class T>
  void rotate(Side& side, bool queries);
  template <class T>
  void redirect(Side& side, View& gradient);
  template <class T>
  void rotate_back(Side& side, bool queries);
  std::int64_t position(bool queries, std::int64_t b, std::int64_t row) const;

  Problem& problem_;
  Rotation rotation_;
  Side q_, k_;
};

}  // namespace rapt::inline v1
