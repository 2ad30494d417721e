/* A program of two processes in C: its rows as one process computes them. */

#include <math.h>
#include <rapt/mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { H = 3, S = 300, D = 8 };

static float number(int64_t slice, int64_t row, int64_t dim, int which) {
  return sinf(0.37F * (float)(((slice * S + row) * D + dim) % 1009) + (float)which);
}

/* Row n of a process is row place(n) of the sequence. */
static int64_t place(const rapt_share* share, int64_t n) {
  const int64_t early = share->early_end - share->early_begin;
  return n < early ? share->early_begin + n : share->late_begin + n - early;
}

static float* numbers(const rapt_share* share, int64_t rows, int which) {
  float* list = malloc(sizeof(float) * (size_t)(H * rows * D + 1));
  size_t at = 0;
  if (list == NULL) exit(1);
  for (int64_t h = 0; h < H; ++h)
    for (int64_t n = 0; n < rows; ++n)
      for (int64_t d = 0; d < D; ++d) list[at++] = number(h, place(share, n), d, which);
  return list;
}

static int run(void) {
  rapt_communicator* processes = rapt_mpi_communicator(MPI_COMM_WORLD);
  const rapt_share all = {0, S, S, S};
  rapt_share here;
  if (processes == NULL || processes->size != 2 || rapt_share_of(S, processes->rank, processes->size, &here) != RAPT_OK)
    return 1;
  const int64_t rows = here.early_end - here.early_begin + here.late_end - here.late_begin;
  float *q = numbers(&here, rows, 0), *k = numbers(&here, rows, 1), *v = numbers(&here, rows, 2);
  float *q_all = numbers(&all, S, 0), *k_all = numbers(&all, S, 1), *v_all = numbers(&all, S, 2);
  float *out = numbers(&here, rows, 3), *out_all = numbers(&all, S, 3);

  rapt_options options;
  rapt_options_init(&options, sizeof options);
  options.causal = RAPT_CAUSAL_TOP_LEFT;
  const rapt_array v_array = rapt_bhsd(v, RAPT_F32, 1, H, rows, D), out_array = rapt_bhsd(out, RAPT_F32, 1, H, rows, D);
  rapt_inputs inputs;
  rapt_inputs_init(&inputs, sizeof inputs);
  inputs.q = rapt_bhsd(q, RAPT_F32, 1, H, rows, D);
  inputs.k = rapt_bhsd(k, RAPT_F32, 1, H, rows, D);
  inputs.v = &v_array;
  inputs.v_count = 1;
  rapt_outputs outputs;
  rapt_outputs_init(&outputs, sizeof outputs);
  outputs.out = &out_array;
  outputs.out_count = 1;
  int status = rapt_attend_distributed(&inputs, &outputs, &options, processes, RAPT_DISTRIBUTION_AUTOMATIC);
  if (status != RAPT_OK) {
    fprintf(stderr, "%s\n", rapt_last_error());
    return status;
  }

  const rapt_array q_whole = rapt_bhsd(q_all, RAPT_F32, 1, H, S, D), k_whole = rapt_bhsd(k_all, RAPT_F32, 1, H, S, D),
                   v_whole = rapt_bhsd(v_all, RAPT_F32, 1, H, S, D),
                   out_whole = rapt_bhsd(out_all, RAPT_F32, 1, H, S, D);
  status = rapt_attend(&q_whole, &k_whole, &v_whole, &out_whole, &options);
  for (int64_t h = 0; h < H && status == 0; ++h)
    for (int64_t n = 0; n < rows * D; ++n) {
      const float want = out_all[(h * S + place(&here, n / D)) * D + n % D], got = out[h * rows * D + n];
      if (fabsf(got - want) <= 1e-5F) continue;
      fprintf(stderr, "row %d: expected %g, got %g\n", (int)place(&here, n / D), want, got);
      status = 1;
    }
  printf("process %d of %d: %d rows\n", processes->rank, processes->size, (int)rows);
  rapt_mpi_communicator_free(processes);
  float* lists[] = {q, k, v, out, q_all, k_all, v_all, out_all};
  for (size_t n = 0; n < sizeof lists / sizeof *lists; ++n) free(lists[n]);
  return status;
}

int main(int argc, char** argv) {
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  const int status = run();
  MPI_Finalize();
  return status;
}
