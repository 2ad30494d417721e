#pragma once

#include <span>

#include "rapt/hooks.h"

// The functions of hooks over one lane type, as functions of arrays.
namespace lanes {

inline constexpr int kMultiple = 16;  // arrays hold a multiple of so many numbers

template <class T>
struct Function {
  const char* name;
  void (*values)(const T* x, const T* y, T* out, int count);
  void (*slopes)(const T* x, const T* y, T* by_x, T* by_y, int count);  // through dual numbers
};

// As a hook writes them, in any namespace: names alone, constants of any type.
struct Abs {
  RAPT_FN static auto of(auto x, auto) { return abs(x); }
};
struct Sign {
  RAPT_FN static auto of(auto x, auto) { return sign(x); }
};
struct Floor {
  RAPT_FN static auto of(auto x, auto) { return floor(x); }
};
struct Sqrt {
  RAPT_FN static auto of(auto x, auto) { return sqrt(x); }
};
struct Exp {
  RAPT_FN static auto of(auto x, auto) { return exp(x); }
};
struct Log {
  RAPT_FN static auto of(auto x, auto) { return log(x); }
};
struct Tanh {
  RAPT_FN static auto of(auto x, auto) { return tanh(x); }
};
struct Sin {
  RAPT_FN static auto of(auto x, auto) { return sin(x); }
};
struct Cos {
  RAPT_FN static auto of(auto x, auto) { return cos(x); }
};
struct Pow {
  RAPT_FN static auto of(auto x, auto y) { return pow(x, y); }
};
struct PowConstant {
  RAPT_FN static auto of(auto x, auto) { return pow(x, 2.5); }
};
struct PowWhole {
  RAPT_FN static auto of(auto x, auto) { return pow(x, 3); }
};
struct Min {
  RAPT_FN static auto of(auto x, auto y) { return min(x, y); }
};
struct Max {
  RAPT_FN static auto of(auto x, auto y) { return max(x, y); }
};
struct MaxConstant {
  RAPT_FN static auto of(auto x, auto) { return max(x, 0.f); }
};
struct MinConstant {
  RAPT_FN static auto of(auto x, auto) { return min(0, x); }
};
struct Clamp {
  RAPT_FN static auto of(auto x, auto) { return clamp(x, -1, 0.5); }
};
struct Where {
  RAPT_FN static auto of(auto x, auto y) { return where(x < y, x, 0); }
};
struct WhereBoth {
  RAPT_FN static auto of(auto x, auto y) { return where(!(x <= 0) && 0.5 < y, x * 2, y - 1); }
};

template <class F, class V, class T>
void values(const T* x, const T* y, T* out, int count) {
  using Lanes = rapt::Lanes<V>;
  for (int n = 0; n < count; n += Lanes::count) Lanes::store(F::of(Lanes::load(x + n), Lanes::load(y + n)), out + n);
}

template <class F, class V, class T>
void slopes(const T* x, const T* y, T* by_x, T* by_y, int count) {
  using Lanes = rapt::Lanes<V>;
  using N = rapt::Dual<V, 2>;
  for (int n = 0; n < count; n += Lanes::count) {
    const N result = F::of(N::variable(Lanes::load(x + n), 0), N::variable(Lanes::load(y + n), 1));
    Lanes::store(result.d[0], by_x + n);
    Lanes::store(result.d[1], by_y + n);
  }
}

template <class V, class F, class T = typename rapt::Lanes<V>::Scalar>
constexpr Function<T> function(const char* name) {
  return {name, &values<F, V, T>, &slopes<F, V, T>};
}

template <class V>
constexpr Function<typename rapt::Lanes<V>::Scalar> kFunctions[] = {
    function<V, Abs>("abs"),
    function<V, Sign>("sign"),
    function<V, Floor>("floor"),
    function<V, Sqrt>("sqrt"),
    function<V, Exp>("exp"),
    function<V, Log>("log"),
    function<V, Tanh>("tanh"),
    function<V, Sin>("sin"),
    function<V, Cos>("cos"),
    function<V, Pow>("pow"),
    function<V, PowConstant>("pow_constant"),
    function<V, PowWhole>("pow_whole"),
    function<V, Min>("min"),
    function<V, Max>("max"),
    function<V, MaxConstant>("max_constant"),
    function<V, MinConstant>("min_constant"),
    function<V, Clamp>("clamp"),
    function<V, Where>("where"),
    function<V, WhereBoth>("where_both"),
};

}  // namespace lanes
