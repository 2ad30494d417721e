#include "reproduce/parts.h"

#include <array>

#include "reproduce/part_list.h"

namespace rapt::reproduce {

std::span<const Part> all_parts() {
  static constexpr std::array kParts{
      Part{"examples", "Worked examples: each printed number beside ours", run_examples},
      Part{"reversal", "String reversal with and without attention, by mechanism", run_reversal},
      Part{"case", "Case conversion: accuracy against length, with and without attention", run_case},
      Part{"positions", "Positional encodings, their formula and what they do for a Transformer", run_positions},
      Part{"order", "The Transformer order test: words in another order, with and without positions", run_order},
      Part{"formulas", "Parameters and cost of attention, by formula and counted", run_formulas},
      Part{"convolution", "Attention that is a convolution, and the difference against α", run_convolution},
      Part{"images", "Image models of attention alone, and where their heads look", run_images},
      Part{"shared_attention", "The shared-attention block: one map, several tasks", run_shared_attention},
      Part{"multitask", "Several tasks on ray-cast scenes, with and without shared attention", run_multitask},
      Part{"experiments", "Experiments at full size: stored results, with date, machine and commands", run_experiments},
      Part{"speed", "Speed of this machine, as a fraction of its matrix products", run_speed},
  };
  return kParts;
}

}  // namespace rapt::reproduce
