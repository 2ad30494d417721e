#include <cmath>
#include <cstring>
#include <exception>
#include <limits>

#include "backends/host/storage.h"
#include "distributed/device_site.h"
#include "distributed/kept_memory.h"
#include "distributed/row_sums.h"
#include "rapt/error.h"

namespace rapt::inline v1::distributed {
namespace {

template <class T>
class HostSite final : public Site {
 public:
  HostSite() = default;
  // As for Feed: after a failure messages keep their memory.
  ~HostSite() override {
    if (std::uncaught_exceptions() > exceptions_)
      for (std::shared_ptr<void>& piece : pieces_) keep_for_messages(std::move(piece));
  }
  HostSite(const HostSite&) = delete;
  HostSite& operator=(const HostSite&) = delete;

  Device device() const override { return {}; }
  void* take(std::size_t bytes) override { return pieces_.emplace_back(aligned(bytes)).get(); }
  RowSums take_rows(std::int64_t rows, std::int64_t) override {
    const auto bytes = static_cast<std::size_t>(rows) * sizeof(T);
    return {take(bytes), take(bytes), rows};
  }
  void* remainder_of(const RowSums&) override { return nullptr; }
  void clear(void* data, std::size_t bytes) override {
    // No bytes may have no address.
    if (bytes > 0) std::memset(data, 0, bytes);
  }
  void clear(const View& view) override { store_zeros(view); }

  void store(const ConstView& from, const View& to) override {
    const auto size = static_cast<std::int64_t>(size_of(from.dtype));
    const std::int64_t dim = from.shape[3];
    const bool rows = (from.strides[3] == 1 && to.strides[3] == 1) || dim == 1;
    const auto one = [&](const ConstView& source, const View& target, std::int64_t count) {
      if (count == 0) return;
      for_each_row(source.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
        const MatrixRef in = matrix_of(source, b, h), out = matrix_of(target, b, h);
        if (from.dtype == to.dtype) {
          std::memcpy(static_cast<char*>(out.data) + i * out.stride * size,
                      static_cast<const char*>(in.data) + i * in.stride * size, static_cast<std::size_t>(count * size));
        } else {
          numbers_.resize(static_cast<std::size_t>(count));
          load_row(in, i, count, numbers_.data());
          store_row(numbers_.data(), count, out, i);
        }
      });
    };
    if (rows) return one(from, to, dim);
    for (std::int64_t d = 0; d < dim; ++d) one(part_of(from, 3, d, 1), part_of(to, 3, d, 1), 1);
  }

  void add(const void* from, Dtype from_type, void* to, Dtype type, std::int64_t count) override {
    if (from_type == Dtype::f32 && type == Dtype::f32) return add_numbers<float, float>(from, to, count);
    if (from_type == Dtype::f64 && type == Dtype::f64) return add_numbers<double, double>(from, to, count);
    throw Error("expected sums of one type in ordinary memory");
  }
  void split(const void*, std::int64_t, Dtype, void*, void*) override {
    throw Error("expected sums of one type in ordinary memory");
  }

  void start(const RowSums& rows, bool additive) override {
    std::fill_n(static_cast<T*>(rows.max), rows.rows, additive ? T(0) : -std::numeric_limits<T>::infinity());
    std::fill_n(static_cast<T*>(rows.sum), rows.rows, T(0));
  }
  void merge(const RowSums& total, const RowSums& part, std::span<const OutSums> out) override {
    for (std::int64_t n = 0; n < total.rows; ++n) {
      const T part_max = static_cast<const T*>(part.max)[n], part_sum = static_cast<const T*>(part.sum)[n];
      if (part_sum == T(0)) continue;
      const Shares<T> shares =
          merge_row(static_cast<T*>(total.max)[n], static_cast<T*>(total.sum)[n], part_max, part_sum);
      for (const OutSums& set : out)
        merge_numbers(static_cast<T*>(set.total) + n * set.dim, static_cast<const T*>(set.part) + n * set.dim, set.dim,
                      shares);
    }
  }
  void add_rows(const RowSums& total, const void* log_sum, std::span<const OutSums> out) override {
    for (std::int64_t n = 0; n < total.rows; ++n)
      static_cast<T*>(total.sum)[n] += std::exp(static_cast<const T*>(log_sum)[n]);
    for (const OutSums& set : out) add(set.part, dtype_of<T>(), set.total, dtype_of<T>(), total.rows * set.dim);
  }
  void finish(const RowSums& total, std::span<const OutSums> out, const HeadRows& rows,
              const ConstView& sink) override {
    for (std::int64_t n = 0; n < total.rows; ++n) {
      const T factor = finish_row(static_cast<T*>(total.max)[n], static_cast<T*>(total.sum)[n], static_cast<bool>(sink),
                                  logit(sink, n / rows.rows % rows.heads));
      for (const OutSums& set : out) {
        T* const row = static_cast<T*>(set.total) + n * set.dim;
        for (std::int64_t d = 0; d < set.dim; ++d) row[d] *= factor;
      }
    }
  }
  void store_lse(const RowSums& total, const View& lse) override {
    std::int64_t n = 0;
    for_each_row(lse.shape, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const T sum = static_cast<const T*>(total.sum)[n], max = static_cast<const T*>(total.max)[n];
      ++n;
      const T value = sum == T(0) ? -std::numeric_limits<T>::infinity() : max + std::log(sum);
      store_row(&value, 1, matrix_of(lse, b, h), i);
    });
  }
  void add_sink(const RowSums& total, std::span<const ConstView> out, std::span<const ConstView> grad_out,
                const ConstView& grad_lse, const HeadRows& rows, const ConstView& sink, double* to,
                bool per_head) override {
    std::vector<double> x, y;
    std::int64_t n = -1;
    for_each_row({rows.batches, rows.heads, rows.rows, 1}, [&](std::int64_t b, std::int64_t h, std::int64_t i) {
      const double max = static_cast<const T*>(total.max)[++n], sum = static_cast<const T*>(total.sum)[n];
      if (sum == 0) return;
      double along = 0;
      for (std::size_t s = 0; s < out.size(); ++s) {
        const std::int64_t dim = out[s].shape[3];
        x.resize(static_cast<std::size_t>(dim));
        y.resize(static_cast<std::size_t>(dim));
        load_row(matrix_of(out[s], b, h), i, dim, x.data());
        load_row(matrix_of(grad_out[s], b, h), i, dim, y.data());
        for (std::size_t d = 0; d < x.size(); ++d) along -= x[d] * y[d];
      }
      if (grad_lse) {
        double lse = 0;
        load_row(matrix_of(grad_lse, b, h), i, 1, &lse);
        along += lse;
      }
      to[per_head ? h : 0] += std::exp(logit(sink, h) - max) / sum * along;
    });
  }
  void use_rows(Saved::Rows& saved, const RowSums& rows, std::int64_t) override {
    const RowSums to = keep_rows(saved, rows.rows, {});
    std::copy_n(static_cast<const T*>(rows.max), rows.rows, static_cast<T*>(to.max));
    std::copy_n(static_cast<const T*>(rows.sum), rows.rows, static_cast<T*>(to.sum));
  }
  RowSums rows_of(Saved::Rows& saved) override { return {saved.max<T>(), saved.sum<T>(), saved.count}; }
  RowSums keep_rows(Saved::Rows& saved, std::int64_t rows, std::span<const std::int64_t> dims) override {
    saved.resize(rows, std::is_same_v<T, double>);
    saved.wide_out.assign(dims.size(), {});
    for (std::size_t s = 0; s < dims.size(); ++s) saved.wide_out[s].resize(static_cast<std::size_t>(rows * dims[s]));
    return rows_of(saved);
  }
  void* wide_out(Saved::Rows& saved, std::span<const std::int64_t>, std::size_t set) override {
    return saved.wide_out.at(set).data();
  }

 private:
  static std::shared_ptr<void> aligned(std::size_t bytes) {
    constexpr std::align_val_t kAlignment{64};
    return {::operator new(bytes + 1, kAlignment), [](void* data) { ::operator delete(data, kAlignment); }};
  }
  static double logit(const ConstView& sink, std::int64_t h) {
    double value = 0;
    if (sink) load_row(matrix_of(sink.shape[3] > 1 ? part_of(sink, 3, h, 1) : sink, 0, 0), 0, 1, &value);
    return value;
  }
  template <class From, class To>
  static void add_numbers(const void* from, void* to, std::int64_t count) {
    const auto* const __restrict more = static_cast<const From*>(from);
    auto* const __restrict sum = static_cast<To*>(to);
    for_each_number(count, [&](std::int64_t n) { sum[n] += more[n]; });
  }

  int exceptions_ = std::uncaught_exceptions();
  std::vector<std::shared_ptr<void>> pieces_;
  std::vector<double> numbers_;
};

}  // namespace

std::unique_ptr<Site> site_of(const Device& device, void* stream, Dtype compute) {
  if (device.kind != Device::Kind::cpu) return device_site(device, stream);
  if (compute == Dtype::f64) return std::make_unique<HostSite<double>>();
  return std::make_unique<HostSite<float>>();
}

}  // namespace rapt::inline v1::distributed
