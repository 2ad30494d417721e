#include "tensor/simd/entry.h"
#include "tensor/simd/functions.h"

// One step of the recurrent cells. The products with the weight matrices are done outside, for all rows at once.
namespace rapt::inline v1::RAPT_TARGET {
namespace {

template <class T>
void keep_row(const T* from, T* to, std::int64_t count) {
  if (to && from != to)
    for (std::int64_t n = 0; n < count; ++n) to[n] = from ? from[n] : T(0);
}
template <class T>
void clear_row(T* to, std::int64_t count) {
  for (std::int64_t n = 0; n < count; ++n) to[n] = 0;
}

template <class T>
RAPT_FN Vec<T> one() {
  return hn::Set(Tag<T>(), T(1));
}

template <class T>
void lstm(const CellArgs<T>& a) {
  const std::int64_t h = a.hidden;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T* g = a.gates + r * 4 * h;
    const T* before = a.c_before + r * h;
    if (a.live && !a.live[r]) {
      keep_row(a.h_before + r * h, a.h + r * h, h);
      keep_row(before, a.c + r * h, h);
      continue;
    }
    for_vectors<T>(h, [&](std::int64_t n, std::int64_t lanes) {
      const Vec<T> in = sigmoid<T>(load<T>(g + n, lanes));
      const Vec<T> forget = sigmoid<T>(load<T>(g + h + n, lanes));
      const Vec<T> cell = tanh_of<T>(load<T>(g + 2 * h + n, lanes));
      const Vec<T> out = sigmoid<T>(load<T>(g + 3 * h + n, lanes));
      const Vec<T> c = hn::MulAdd(forget, load<T>(before + n, lanes), hn::Mul(in, cell));
      const Vec<T> c_tanh = tanh_of<T>(c);
      store<T>(in, g + n, lanes);
      store<T>(forget, g + h + n, lanes);
      store<T>(cell, g + 2 * h + n, lanes);
      store<T>(out, g + 3 * h + n, lanes);
      store<T>(c, a.c + r * h + n, lanes);
      store<T>(c_tanh, a.c_tanh + r * h + n, lanes);
      store<T>(hn::Mul(out, c_tanh), a.h + r * h + n, lanes);
    });
  }
}

template <class T>
void lstm_backward(const CellGradArgs<T>& a) {
  const std::int64_t h = a.hidden;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T* dg = a.dgates + r * 4 * h;
    // A sequence that has ended passes its gradient on unchanged.
    if (a.live && !a.live[r]) {
      clear_row(dg, 4 * h);
      continue;
    }
    const T* g = a.gates + r * 4 * h;
    T* dh = a.dh + r * h;
    T* dc = a.dc + r * h;
    for_vectors<T>(h, [&](std::int64_t n, std::int64_t lanes) {
      const Vec<T> in = load<T>(g + n, lanes);
      const Vec<T> forget = load<T>(g + h + n, lanes);
      const Vec<T> cell = load<T>(g + 2 * h + n, lanes);
      const Vec<T> out = load<T>(g + 3 * h + n, lanes);
      const Vec<T> c_tanh = load<T>(a.c_tanh + r * h + n, lanes);
      const Vec<T> before = load<T>(a.c_before + r * h + n, lanes);
      const Vec<T> d = load<T>(dh + n, lanes);
      const Vec<T> through = hn::Mul(hn::Mul(d, out), hn::NegMulAdd(c_tanh, c_tanh, one<T>()));
      const Vec<T> of_c = hn::Add(load<T>(dc + n, lanes), through);
      const auto gate = [&](Vec<T> grad, Vec<T> y) { return hn::Mul(hn::Mul(grad, y), hn::Sub(one<T>(), y)); };
      store<T>(gate(hn::Mul(of_c, cell), in), dg + n, lanes);
      store<T>(gate(hn::Mul(of_c, before), forget), dg + h + n, lanes);
      store<T>(hn::Mul(hn::Mul(of_c, in), hn::NegMulAdd(cell, cell, one<T>())), dg + 2 * h + n, lanes);
      store<T>(gate(hn::Mul(d, c_tanh), out), dg + 3 * h + n, lanes);
      store<T>(hn::Mul(of_c, forget), dc + n, lanes);
      store<T>(hn::Zero(Tag<T>()), dh + n, lanes);
    });
  }
}

// n = tanh(x_n + r·(h U_n + c_n)), h' = (1 − z)·n + z·h
template <class T>
void gru(const CellArgs<T>& a) {
  const std::int64_t h = a.hidden;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T* g = a.gates + r * 3 * h;
    const T* part = a.hidden_part + r * 3 * h;
    const T* before = a.h_before + r * h;
    if (a.live && !a.live[r]) {
      keep_row(before, a.h + r * h, h);
      continue;
    }
    for_vectors<T>(h, [&](std::int64_t n, std::int64_t lanes) {
      const Vec<T> reset = sigmoid<T>(hn::Add(load<T>(g + n, lanes), load<T>(part + n, lanes)));
      const Vec<T> update = sigmoid<T>(hn::Add(load<T>(g + h + n, lanes), load<T>(part + h + n, lanes)));
      const Vec<T> fresh =
          tanh_of<T>(hn::MulAdd(reset, load<T>(part + 2 * h + n, lanes), load<T>(g + 2 * h + n, lanes)));
      const Vec<T> old = load<T>(before + n, lanes);
      store<T>(reset, g + n, lanes);
      store<T>(update, g + h + n, lanes);
      store<T>(fresh, g + 2 * h + n, lanes);
      store<T>(hn::MulAdd(update, hn::Sub(old, fresh), fresh), a.h + r * h + n, lanes);
    });
  }
}

template <class T>
void gru_backward(const CellGradArgs<T>& a) {
  const std::int64_t h = a.hidden;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T* dg = a.dgates + r * 3 * h;
    T* dp = a.dhidden_part + r * 3 * h;
    if (a.live && !a.live[r]) {
      clear_row(dg, 3 * h);
      clear_row(dp, 3 * h);
      continue;
    }
    const T* g = a.gates + r * 3 * h;
    const T* part = a.hidden_part + r * 3 * h;
    T* dh = a.dh + r * h;
    for_vectors<T>(h, [&](std::int64_t n, std::int64_t lanes) {
      const Vec<T> reset = load<T>(g + n, lanes);
      const Vec<T> update = load<T>(g + h + n, lanes);
      const Vec<T> fresh = load<T>(g + 2 * h + n, lanes);
      const Vec<T> old = load<T>(a.h_before + r * h + n, lanes);
      const Vec<T> d = load<T>(dh + n, lanes);
      const Vec<T> of_fresh = hn::Mul(hn::Mul(d, hn::Sub(one<T>(), update)), hn::NegMulAdd(fresh, fresh, one<T>()));
      const Vec<T> of_update = hn::Mul(hn::Mul(hn::Mul(d, hn::Sub(old, fresh)), update), hn::Sub(one<T>(), update));
      const Vec<T> of_reset =
          hn::Mul(hn::Mul(hn::Mul(of_fresh, load<T>(part + 2 * h + n, lanes)), reset), hn::Sub(one<T>(), reset));
      store<T>(of_reset, dg + n, lanes);
      store<T>(of_update, dg + h + n, lanes);
      store<T>(of_fresh, dg + 2 * h + n, lanes);
      store<T>(of_reset, dp + n, lanes);
      store<T>(of_update, dp + h + n, lanes);
      store<T>(hn::Mul(of_fresh, reset), dp + 2 * h + n, lanes);
      store<T>(hn::Mul(d, update), dh + n, lanes);
    });
  }
}

template <class T>
void rnn(const CellArgs<T>& a) {
  const std::int64_t h = a.hidden;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    if (a.live && !a.live[r]) {
      keep_row(a.h_before + r * h, a.h + r * h, h);
      continue;
    }
    for_vectors<T>(h, [&](std::int64_t n, std::int64_t lanes) {
      store<T>(tanh_of<T>(load<T>(a.gates + r * h + n, lanes)), a.h + r * h + n, lanes);
    });
  }
}

template <class T>
void rnn_backward(const CellGradArgs<T>& a) {
  const std::int64_t h = a.hidden;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    T* dg = a.dgates + r * h;
    if (a.live && !a.live[r]) {
      clear_row(dg, h);
      continue;
    }
    for_vectors<T>(h, [&](std::int64_t n, std::int64_t lanes) {
      const Vec<T> y = load<T>(a.h + r * h + n, lanes);
      store<T>(hn::Mul(load<T>(a.dh + r * h + n, lanes), hn::NegMulAdd(y, y, one<T>())), dg + n, lanes);
      store<T>(hn::Zero(Tag<T>()), a.dh + r * h + n, lanes);
    });
  }
}

}  // namespace

template <class T>
void fill_cells(TensorKernels<T>& kernels) {
  kernels.lstm = lstm<T>;
  kernels.lstm_backward = lstm_backward<T>;
  kernels.gru = gru<T>;
  kernels.gru_backward = gru_backward<T>;
  kernels.rnn = rnn<T>;
  kernels.rnn_backward = rnn_backward<T>;
}
template void fill_cells(TensorKernels<float>&);
template void fill_cells(TensorKernels<double>&);

}  // namespace rapt::inline v1::RAPT_TARGET
