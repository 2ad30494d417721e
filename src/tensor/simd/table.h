#pragma once

#include <cstddef>
#include <cstdint>

// The functions of tensors that are compiled once for each SIMD target. Plain structs only, as in backends/cpu/simd/kernels.h.
namespace rapt::inline v1 {

enum class Activation : std::uint8_t { tanh, sigmoid, relu, gelu };

// C = f(A·B + bias), or C += A·B. A and B lie at any strides; the rows of C are contiguous. Every element of C is one chain
// of multiply-adds over k, in order: a row has the same bits whatever rows are computed beside it.
template <class T>
struct MatmulArgs {
  std::int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  std::ptrdiff_t a_row = 0, a_col = 1;
  const T* b = nullptr;  // null: `packed` holds B
  std::ptrdiff_t b_row = 0, b_col = 1;
  T* c = nullptr;
  std::ptrdiff_t c_row = 0;
  bool accumulate = false;
  // Not with `accumulate`:
  const T* bias = nullptr;  // [n], or none
  bool activates = false;
  Activation activation = Activation::relu;
  T* packed = nullptr;  // packed_size(n, k) numbers: where B is packed, or lies packed
};

// One step of a recurrent cell for `rows` sequences. Gates lie as [rows][gates·hidden].
template <class T>
struct CellArgs {
  std::int64_t rows = 0, hidden = 0;
  const std::uint8_t* live = nullptr;  // [rows]: 0 = the sequence has ended and keeps its state; null: none has
  T* gates = nullptr;        // in: sums; out: activated. LSTM: input, forget, cell, output. GRU: reset, update, new
  T* hidden_part = nullptr;  // GRU: h·U + c of all gates, [rows][3·hidden]
  const T* h_before = nullptr;
  const T* c_before = nullptr;  // LSTM only
  T* h = nullptr;
  T* c = nullptr;
  T* c_tanh = nullptr;
};

// Gradients of the same step: dh and dc hold those of the step's state and become those of the state before it, without
// the part through the recurrent matrix.
template <class T>
struct CellGradArgs {
  std::int64_t rows = 0, hidden = 0;
  const std::uint8_t* live = nullptr;
  const T* gates = nullptr;
  const T* hidden_part = nullptr;
  const T* h_before = nullptr;
  const T* c_before = nullptr;
  const T* h = nullptr;
  const T* c_tanh = nullptr;
  T* dh = nullptr;
  T* dc = nullptr;
  T* dgates = nullptr;        // of the sums
  T* dhidden_part = nullptr;  // GRU
};

template <class T>
struct AdamArgs {
  std::int64_t count = 0;
  T* value = nullptr;
  T* mean = nullptr;
  T* square = nullptr;
  const T* grad = nullptr;
  T grad_scale = 1;  // clipping
  T rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, decay = 0;
  T correction1 = 1, correction2 = 1;  // 1 − βⁿ
};

template <class T>
struct TensorKernels {
  std::int64_t (*packed_size)(std::int64_t n, std::int64_t k) = nullptr;
  void (*pack)(const MatmulArgs<T>&) = nullptr;
  void (*matmul)(const MatmulArgs<T>&) = nullptr;

  void (*activate)(Activation, const T* x, T* y, std::int64_t count) = nullptr;
  // dx += dy · derivative
  void (*activate_backward)(Activation, const T* x, const T* y, const T* dy, T* dx, std::int64_t count) = nullptr;
  // dy *= derivative, of an activation whose derivative follows from y: all but gelu
  void (*multiply_by_slope)(Activation, const T* y, T* dy, std::int64_t count) = nullptr;
  void (*add)(const T* x, T* y, std::int64_t count) = nullptr;                   // y += x
  void (*add_scaled)(T factor, const T* x, T* y, std::int64_t count) = nullptr;  // y += factor·x
  // y = x · keep, where keep is 0 or 1/(1−rate), by a hash of the key and the place
  void (*dropout)(std::uint64_t key, T rate, const T* x, T* y, std::int64_t count, bool accumulate) = nullptr;
  double (*sum_of_squares)(const T* x, std::int64_t count) = nullptr;
  void (*adam)(const AdamArgs<T>&) = nullptr;

  void (*lstm)(const CellArgs<T>&) = nullptr;
  void (*lstm_backward)(const CellGradArgs<T>&) = nullptr;
  void (*gru)(const CellArgs<T>&) = nullptr;
  void (*gru_backward)(const CellGradArgs<T>&) = nullptr;
  void (*rnn)(const CellArgs<T>&) = nullptr;
  void (*rnn_backward)(const CellGradArgs<T>&) = nullptr;

  // One row: y = (x − mean)/deviation · gain + bias; leaves mean and 1/deviation.
  void (*layer_norm)(const T* x, const T* gain, const T* bias, T* y, std::int64_t width, T epsilon, T* mean,
                     T* inverse) = nullptr;
  void (*layer_norm_backward)(const T* x, const T* gain, const T* dy, T mean, T inverse, std::int64_t width, T* dx,
                              T* dgain, T* dbias) = nullptr;
  // One row of logits: its loss against a target whose weight is 1 − smoothing, the rest shared by all symbols; the
  // place of the largest in *best. grad, where not null, gets += scale·∂loss.
  double (*cross_entropy)(const T* logits, std::int64_t width, std::int64_t target, T smoothing, T scale, T* grad,
                          std::int64_t* best) = nullptr;
  // One row: x becomes log softmax(x); returns the place of the largest.
  std::int64_t (*log_softmax)(T* x, std::int64_t width) = nullptr;
};

// The table of the active SIMD target.
template <class T>
const TensorKernels<T>& tensor_kernels();

}  // namespace rapt::inline v1
