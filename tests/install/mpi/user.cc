// A program of two processes: the code of docs/scale.md, and the same rows computed by one.

#include <rapt/distributed.h>
#include <rapt/mpi.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr std::int64_t B = 2, H = 3, S = 300, D = 8;

float number(std::int64_t slice, std::int64_t row, std::int64_t dim, int which) {
  return std::sin(0.37F * static_cast<float>(((slice * S + row) * D + dim) % 1009) + static_cast<float>(which));
}

// The numbers of some rows.
std::vector<float> numbers(const std::vector<std::int64_t>& rows, int which) {
  std::vector<float> list;
  for (std::int64_t slice = 0; slice < B * H; ++slice)
    for (const std::int64_t row : rows)
      for (std::int64_t d = 0; d < D; ++d) list.push_back(number(slice, row, d, which));
  return list;
}

int run() {
#include "scale_rows.inc"
  std::vector<std::int64_t> here, all;
  for (std::int64_t row = share.early_begin; row < share.early_end; ++row) here.push_back(row);
  for (std::int64_t row = share.late_begin; row < share.late_end; ++row) here.push_back(row);
  for (std::int64_t row = 0; row < S; ++row) all.push_back(row);
  const std::vector<float> q_rows = numbers(here, 0), k_rows = numbers(here, 1), v_rows = numbers(here, 2);
  std::vector<float> out_rows(q_rows.size());
  const float *const q = q_rows.data(), *const k = k_rows.data(), *const v = v_rows.data();
  float* const out = out_rows.data();
#include "scale_call.inc"

  const std::vector<float> q_all = numbers(all, 0), k_all = numbers(all, 1), v_all = numbers(all, 2);
  std::vector<float> out_all(q_all.size());
  const auto whole = [](const std::vector<float>& list) { return rapt::view(list.data(), {B, H, S, D}); };
  rapt::attend(whole(q_all), whole(k_all), whole(v_all), rapt::view(out_all.data(), {B, H, S, D}), options);
  std::size_t n = 0;
  for (std::int64_t slice = 0; slice < B * H; ++slice)
    for (const std::int64_t row : here)
      for (std::int64_t d = 0; d < D; ++d, ++n) {
        const float want = out_all[static_cast<std::size_t>((slice * S + row) * D + d)];
        if (std::fabs(out_rows[n] - want) <= 1e-5F) continue;
        std::fprintf(stderr, "row %lld: expected %g, got %g\n", static_cast<long long>(row), want, out_rows[n]);
        return 1;
      }
  if (processes->size() != 2) return 1;
  std::printf("process %d of %d: %lld rows\n", processes->rank(), processes->size(), static_cast<long long>(rows));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  const int status = run();
  MPI_Finalize();
  return status;
}
