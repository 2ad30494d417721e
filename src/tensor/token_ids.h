#pragma once

namespace rapt::inline v1 {

// The ids that every vocabulary starts with; the symbols of the data follow from kFirstSymbol on. They stand here,
// above models and training, because both pad, begin and end their sequences.
inline constexpr int kPad = 0;
inline constexpr int kBegin = 1;
inline constexpr int kEnd = 2;
inline constexpr int kUnknown = 3;
inline constexpr int kFirstSymbol = 4;

}  // namespace rapt::inline v1
