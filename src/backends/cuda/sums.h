#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <span>

#include "distributed/site.h"

// The sums of a call over processes, in device memory: one thread for each number, parts in the order in which they come.
namespace rapt::inline v1::cuda {

using distributed::HeadRows;
using distributed::OutSums;
using distributed::RowSums;

void copy_numbers(const ConstView& from, const View& to, cudaStream_t stream);
void add_numbers(const void* from, Dtype from_type, void* to, Dtype type, std::int64_t count, cudaStream_t stream);
void split_numbers(const float* from, std::int64_t count, Dtype type, void* kept, void* lost, cudaStream_t stream);
void start_rows(const RowSums& rows, bool additive, cudaStream_t stream);
void merge_rows(const RowSums& total, const RowSums& part, std::span<const OutSums> out, cudaStream_t stream);
void add_rows(const RowSums& total, const float* log_sum, std::span<const OutSums> out, cudaStream_t stream);
void finish_rows(const RowSums& total, std::span<const OutSums> out, const HeadRows& rows, const ConstView& sink,
                 cudaStream_t stream);
void store_row_lse(const RowSums& total, const View& lse, cudaStream_t stream);
// `parts` has a number for every row.
void add_sink_rows(const RowSums& total, std::span<const ConstView> out, std::span<const ConstView> grad_out,
                   const ConstView& grad_lse, const HeadRows& rows, const ConstView& sink, double* parts, double* to,
                   bool per_head, cudaStream_t stream);
// begin and end: [batches·rows].
void hide_keys(const std::int64_t* begin, const std::int64_t* end, std::int64_t first_key, const BoolView& given,
               const BoolView& visible, cudaStream_t stream);

}  // namespace rapt::inline v1::cuda
