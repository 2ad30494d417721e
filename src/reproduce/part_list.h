#pragma once

#include "reproduce/context.h"
#include "reproduce/section.h"

// One function for each part, each in the file of its name.
namespace rapt::reproduce {

Section run_examples(const Context& context);
Section run_reversal(const Context& context);
Section run_case(const Context& context);
Section run_positions(const Context& context);
Section run_order(const Context& context);
Section run_formulas(const Context& context);
Section run_convolution(const Context& context);
Section run_images(const Context& context);
Section run_shared_attention(const Context& context);
Section run_multitask(const Context& context);
Section run_experiments(const Context& context);
Section run_speed(const Context& context);

}  // namespace rapt::reproduce
