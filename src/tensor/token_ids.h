#pragma once

namespace rapt::inline v1 {

// The ids that every vocabulary starts with; the symbols of the data follow from kFirstSymbol on. They are here because
// both models and training pad, begin and end sequences.
inline constexpr int kPad = 0;
inline constexpr int kBegin = 1;
inline constexpr int kEnd = 2;
inline constexpr int kUnknown = 3;
inline constexpr int kFirstSymbol = 4;

}  // namespace rapt::inline v1
