#pragma once

#include <string>

#include "rapt/mechanism.h"

// The parameters of a mechanism in words, for lists and messages.
namespace rapt::inline v1 {

// "Dq": how formulas write a size of a parameter.
std::string size_text(const ParameterSpec& spec, int size);

// "[H?,Dq,Dk]": H heads, H? with or without them.
std::string shape_text(const ParameterSpec& spec);

// What a parameter is for, from its role.
std::string role_text(const ParameterSpec& spec);

}  // namespace rapt::inline v1
