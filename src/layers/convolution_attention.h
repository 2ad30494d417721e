#pragma once

#include <string>
#include <vector>

#include "layers/convolution.h"

// Attention as a convolution, after Cordonnier, Loukas and Jaggi (2020): a head of quadratic encoding that is sharp
// looks at one shift of the image, so K1·K2 heads with W^(h) = W_conv[f(h)] are a K1×K2 convolution.
namespace rapt::inline v1::layers {

// Multi-head self-attention that scores by position alone (W_q = W_k = 0). All arrays f32 or all f64.
struct QuadraticLayer {
  Array alpha;              // [H]
  Array center;             // [H, 2]: rows down and columns right of the query
  Array value;              // [H, Din, Do]
  Array output;             // [H, Do, Dout]
  Array bias;               // [Dout], or empty
  std::int64_t hidden = 1;  // D_hid: the width of the queries and keys, which are 0

  std::int64_t heads() const { return value.shape()[0]; }
  std::int64_t in() const { return value.shape()[1]; }
  std::int64_t value_dim() const { return value.shape()[2]; }
  std::int64_t out() const { return output.shape()[2]; }
  // The number of parameters of the whole layer, W_q and W_k included.
  std::int64_t parameter_count() const;
};

// Throws rapt::Error if shapes or types do not fit, or if a number is not finite.
void check(const QuadraticLayer& layer);

struct LayerOptions {
  double alpha = 0;            // 0: one at which the other pixels' weights are below rounding
  std::int64_t value_dim = 0;  // D_o from min(Din, Dout) on; 0: just that
  std::int64_t hidden = 1;
};

// The layer that is the convolution. Exact: one of the factors of W^(h) is an identity, padded with zeros.
QuadraticLayer layer_of_kernel(const Array& kernel, const Array& bias, const PerAxis& dilation,
                               const LayerOptions& options);

// The queries of the layer: `count` of them, from `first` on, in the image padded with zeros.
struct Queries {
  PerAxis padding{};
  PerAxis first{};
  PerAxis stride{1, 1};
  PerAxis count{};
};

// One query for each output of a convolution; a kernel's tap ⌊K/2⌋ is the query itself.
Queries queries_of(const ConvolutionSizes& sizes);

// The layer through rapt::attend: [R, C, Din] or [B, R, C, Din] to [.., count, Dout].
Array apply(const QuadraticLayer& layer, const Array& image, const Queries& queries);

// Approximately the bytes that apply() needs beside the image.
double bytes_of(const QuadraticLayer& layer, const std::vector<std::int64_t>& image_shape, const Queries& queries);

struct Difference {
  double largest = 0;
  double frobenius = 0;
  double reference = 0;  // the Frobenius norm of what it is compared with
};

Difference compare(const Array& array, const Array& reference);

struct AlphaStep {
  double alpha = 0;
  double difference = 0;  // the largest
};

// α = 1, 2, 4, … until the other pixels' weights are below rounding and the difference no longer falls.
std::vector<AlphaStep> sharpen(QuadraticLayer layer, const Array& image, const Queries& queries,
                               const Array& convolution);

// The convolution nearest to a layer: each head is assigned to the pixel nearest to its centre, and the W^(h) there are
// added.
struct NearestConvolution {
  Array kernel;  // [K1, K2, Din, Dout], odd sizes
  PerAxis dilation{1, 1};
  PerAxis padding{};            // keeps the size
  std::vector<PerAxis> shifts;  // of each head
};

NearestConvolution nearest_convolution(const QuadraticLayer& layer);

// How sharp heads are: the mean weight at query + shift, over the queries for which that lies in the padded image.
std::vector<double> weights_at(const QuadraticLayer& layer, const std::vector<PerAxis>& shifts, const PerAxis& image,
                               const Queries& queries);

}  // namespace rapt::inline v1::layers
