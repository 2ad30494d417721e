#include "mechanisms/describe.h"

namespace rapt::inline v1 {

std::string size_text(const ParameterSpec& spec, int size) {
  switch (size) {
    case kAny: return spec.role == Role::relative_value ? "buckets" : "N";
    case kOdd: return "2c+1";
    case kQueryDim: return "Dq";
    case kKeyDim: return "Dk";
    case kInner: return "A";
    case kValueDim: return "Dv";
    case kPositions: return "R";
    case kGridRows: return "2R−1";
    case kGridCols: return "2C−1";
    default: return std::to_string(size);
  }
}

std::string shape_text(const ParameterSpec& spec) {
  std::string text;
  if (spec.heads != Heads::shared) text = spec.heads == Heads::required ? "H" : "H?";
  for (int n = 0; n < spec.rank(); ++n)
    text += (text.empty() ? "" : ",") + size_text(spec, spec.sizes[static_cast<std::size_t>(n)]);
  return "[" + text + "]";
}

std::string role_text(const ParameterSpec& spec) {
  switch (spec.role) {
    case Role::value: return spec.rank() == 0 ? "a number in the formula" : "numbers in the formula";
    case Role::relative_value: return "a table of numbers by relative position";
    case Role::relative_vector:
      if (spec.along == Along::grid_row) return "a table of vectors by relative grid row";
      if (spec.along == Along::grid_col) return "a table of vectors by relative grid column";
      return "a table of vectors by relative position";
    case Role::relative_output: return "a table of vectors by relative position, added to the values";
    case Role::pair_weight: return "the weight of each dimension";
    case Role::query_map: return "a matrix applied to the queries";
    case Role::key_map: return "a matrix applied to the keys";
    case Role::query_shift: return "added to the queries in their product with the keys";
    case Role::relative_query_shift: return "added to the queries in their product with the table";
    case Role::table: return spec.rank() == 0 ? "a number in the formula" : "a table of numbers";
  }
  return "";
}

}  // namespace rapt::inline v1
