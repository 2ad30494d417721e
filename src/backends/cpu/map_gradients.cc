#include "backends/cpu/map_gradients.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/parallel.h"

namespace rapt::inline v1 {
namespace {

constexpr std::int64_t kBlock = 128;

}  // namespace

// The parts of the maps' parameters that one head makes.
template <class T>
struct MapGradients<T>::Parts {
  std::vector<T> query_map, key_map, query_shift, relative_shift;
};

template <class T>
ParameterSink<T>* MapGradients<T>::sink(Role role) const {
  for (ParameterSink<T>& s : parameters_)
    if (s.wanted() && s.role() == role) return &s;
  return nullptr;
}

template <class T>
MapGradients<T>::MapGradients(const Problem& problem, const Kernels<T>& kernels, const HeadWaves<T>& heads,
                              const std::vector<Head<T>>& wave, bool want_dq, bool want_dk,
                              std::vector<ParameterSink<T>>& parameters)
    : p_(problem), kernels_(kernels), heads_(heads), wave_(wave), parameters_(parameters), want_dq_(want_dq) {
  const auto bytes = [&](std::int64_t rows, std::int64_t pad) {
    return static_cast<std::size_t>(rows * pad) * sizeof(T);
  };
  if (heads.maps_q() && (want_dq || sink(Role::query_map) || sink(Role::query_shift)))
    dq_bytes_ = bytes(problem.queries, heads.inner_pad());
  if (heads.maps_relative() && (want_dq || sink(Role::relative_query_shift)))
    dr_bytes_ = bytes(problem.queries, heads.relative_pad());
  if (heads.maps_k() && (want_dk || sink(Role::key_map))) dk_bytes_ = bytes(problem.keys, heads.inner_pad());
  const auto make = [&](std::size_t each) {
    Buffer buffer(each * wave.size());
    if (each > 0) std::memset(buffer.template as<char>(), 0, each * wave.size());
    return buffer;
  };
  dq_ = make(dq_bytes_);
  dr_ = make(dr_bytes_);
  dk_ = make(dk_bytes_);
}

template <class T>
void MapGradients<T>::targets(std::size_t n, const Head<T>& head, const Sink<T>& dq, BackwardTask<T>& task) const {
  T* own = dq.wanted() ? dq.at(head.b, head.h) : nullptr;
  if (heads_.maps_q()) {
    task.dq = dq_bytes_ > 0 ? dq_.template as<T>() + n * dq_bytes_ / sizeof(T) : nullptr;
    task.dq_stride = heads_.inner_pad();
  } else if (p_.uses_content) {
    task.dq = own;
    task.dq_stride = dq.row_stride();
  }
  if (heads_.maps_relative()) {
    task.dq_relative = dr_bytes_ > 0 ? dr_.template as<T>() + n * dr_bytes_ / sizeof(T) : nullptr;
    task.dq_relative_stride = heads_.relative_pad();
  } else {
    task.dq_relative = own;
    task.dq_relative_stride = dq.row_stride();
  }
}

template <class T>
void MapGradients<T>::back_through(const Head<T>& head, bool keys, const T* grads, Sink<T>& target, std::vector<T>& dw,
                                   std::vector<T>& shift) const {
  const std::int64_t rows = keys ? p_.keys : p_.queries;
  const std::int64_t dim = keys ? p_.key_dim : p_.query_dim;
  const std::int64_t pad = heads_.inner_pad();
  const std::int64_t dim_pad = (dim + kernels_.pad - 1) / kernels_.pad * kernels_.pad;
  const MatrixRef source = keys ? p_.k.at(head.b, head.h) : p_.q.at(head.b, head.h);
  const ParameterValue* map = p_.find(keys ? Role::key_map : Role::query_map);
  std::vector<T> transposed;
  if (map) transposed = padded_copy(map->template head<T>(head.h), map->rows, map->cols, dim_pad, true);
  std::vector<T> straight, mapped;
  if (map && p_.mechanism->unit_rows()) {
    straight = padded_copy(map->template head<T>(head.h), map->rows, map->cols, pad, false);
    mapped.resize(static_cast<std::size_t>(kBlock * pad));
  }
  std::vector<double> direction(p_.mechanism->unit_rows() ? static_cast<std::size_t>(p_.inner) : 0);
  std::vector<T> x(static_cast<std::size_t>(kBlock * dim_pad)), g(static_cast<std::size_t>(kBlock * pad)),
      dx(static_cast<std::size_t>(kBlock * dim_pad));
  for (std::int64_t first = 0; first < rows; first += kBlock) {
    const std::int64_t count = std::min(kBlock, rows - first);
    std::memcpy(g.data(), grads + first * pad, static_cast<std::size_t>(count * pad) * sizeof(T));
    kernels_.load_rows(source, first, count, dim, x.data(), dim_pad);
    for (std::int64_t r = 0; r < count; ++r) {
      // A row without gradient adds nothing, even where it holds NaN or an infinity.
      const T* row = g.data() + r * pad;
      if (std::all_of(row, row + p_.inner, [](T v) { return v == T(0); }))
        std::fill_n(x.data() + r * dim_pad, dim, T(0));
    }
    if (!shift.empty())
      for (std::int64_t r = 0; r < count; ++r)
        for (std::int64_t d = 0; d < p_.inner; ++d)
          shift[static_cast<std::size_t>(d)] += g[static_cast<std::size_t>(r * pad + d)];
    if (p_.mechanism->unit_rows()) {
      const T* lengths = x.data();
      std::int64_t lengths_stride = dim_pad;
      if (map) {
        kernels_.product({.m = count,
                          .n = pad,
                          .k = dim,
                          .a = x.data(),
                          .a_row = dim_pad,
                          .a_col = 1,
                          .b = straight.data(),
                          .b_row = pad,
                          .c = mapped.data(),
                          .c_row = pad,
                          .accumulate = false});
        lengths = mapped.data();
        lengths_stride = pad;
      }
      for (std::int64_t r = 0; r < count; ++r) {
        // d(x/‖x‖): what remains of the gradient across the row's direction, over its length. One number has no other.
        const T* row = lengths + r * lengths_stride;
        T* to = g.data() + r * pad;
        double square = 0, along = 0;
        for (std::int64_t d = 0; d < p_.inner; ++d) square += static_cast<double>(row[d]) * static_cast<double>(row[d]);
        const double length = square == 0 ? HUGE_VAL : std::sqrt(square);
        for (std::int64_t d = 0; d < p_.inner; ++d) {
          // Divided, not multiplied by an inverse: with one dimension this is ±1 exactly, and nothing remains across.
          direction[static_cast<std::size_t>(d)] = static_cast<double>(row[d]) / length;
          along += direction[static_cast<std::size_t>(d)] * static_cast<double>(to[d]);
        }
        const double inverse = 1 / length;
        for (std::int64_t d = 0; d < p_.inner; ++d)
          to[d] =
              static_cast<T>((static_cast<double>(to[d]) - direction[static_cast<std::size_t>(d)] * along) * inverse);
      }
    }
    if (!dw.empty())
      kernels_.product({.m = dim,
                        .n = pad,
                        .k = count,
                        .a = x.data(),
                        .a_row = 1,
                        .a_col = dim_pad,
                        .b = g.data(),
                        .b_row = pad,
                        .c = dw.data(),
                        .c_row = pad,
                        .accumulate = true});
    if (!target.wanted()) continue;
    const T* back = g.data();
    std::int64_t back_stride = pad;
    if (map) {
      kernels_.product({.m = count,
                        .n = dim_pad,
                        .k = p_.inner,
                        .a = g.data(),
                        .a_row = pad,
                        .a_col = 1,
                        .b = transposed.data(),
                        .b_row = dim_pad,
                        .c = dx.data(),
                        .c_row = dim_pad,
                        .accumulate = false});
      back = dx.data();
      back_stride = dim_pad;
    }
    for (std::int64_t r = 0; r < count; ++r) {
      T* to = target.at(head.b, head.h) + (first + r) * target.row_stride();
      for (std::int64_t d = 0; d < dim; ++d) to[d] += back[r * back_stride + d];
    }
  }
}

template <class T>
void MapGradients<T>::run_head(std::size_t n, Sink<T>& dq, Sink<T>& dk, Parts& parts) const {
  const Head<T>& head = wave_[n];
  std::vector<T> none;
  if (dq_bytes_ > 0) {
    if (sink(Role::query_map))
      parts.query_map.assign(static_cast<std::size_t>(p_.query_dim * heads_.inner_pad()), T(0));
    if (sink(Role::query_shift)) parts.query_shift.assign(static_cast<std::size_t>(heads_.inner_pad()), T(0));
    back_through(head, false, dq_.template as<T>() + n * dq_bytes_ / sizeof(T), dq, parts.query_map, parts.query_shift);
  }
  if (dk_bytes_ > 0) {
    if (sink(Role::key_map)) parts.key_map.assign(static_cast<std::size_t>(p_.key_dim * heads_.inner_pad()), T(0));
    back_through(head, true, dk_.template as<T>() + n * dk_bytes_ / sizeof(T), dk, parts.key_map, none);
  }
  if (dr_bytes_ > 0) {
    const std::int64_t pad = heads_.relative_pad();
    const T* grads = dr_.template as<T>() + n * dr_bytes_ / sizeof(T);
    if (sink(Role::relative_query_shift)) parts.relative_shift.assign(static_cast<std::size_t>(pad), T(0));
    for (std::int64_t r = 0; r < p_.queries; ++r)
      for (std::int64_t d = 0; d < p_.query_dim; ++d) {
        const T g = grads[r * pad + d];
        if (!parts.relative_shift.empty()) parts.relative_shift[static_cast<std::size_t>(d)] += g;
        if (dq.wanted()) (dq.at(head.b, head.h) + r * dq.row_stride())[d] += g;
      }
  }
}

template <class T>
void MapGradients<T>::run(Sink<T>& dq, Sink<T>& dk, bool apart) {
  if (dq_bytes_ == 0 && dr_bytes_ == 0 && dk_bytes_ == 0) return;
  std::vector<Parts> parts(wave_.size());
  parallel_for(static_cast<std::int64_t>(wave_.size()), apart ? p_.threads : 1, [&](std::int64_t n, int) {
    run_head(static_cast<std::size_t>(n), dq, dk, parts[static_cast<std::size_t>(n)]);
  });
  for (std::size_t n = 0; n < wave_.size(); ++n) {
    const std::int64_t h = wave_[n].h;
    if (!parts[n].query_map.empty())
      sink(Role::query_map)->add_matrix(h, parts[n].query_map.data(), heads_.inner_pad());
    if (!parts[n].key_map.empty()) sink(Role::key_map)->add_matrix(h, parts[n].key_map.data(), heads_.inner_pad());
    if (!parts[n].query_shift.empty()) sink(Role::query_shift)->add_matrix(h, parts[n].query_shift.data(), 1);
    if (!parts[n].relative_shift.empty())
      sink(Role::relative_query_shift)->add_matrix(h, parts[n].relative_shift.data(), 1);
  }
}

template class MapGradients<float>;
template class MapGradients<double>;

}  // namespace rapt::inline v1
