#include "pictures/fit.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace rapt::pictures {

Drawing fitted(double width, double content, double least, const std::function<Drawing(double)>& make) {
  Drawing drawing = make(content);
  if (!(width > 0)) return drawing;
  constexpr int kTries = 16;
  constexpr double kNear = 0.05;
  std::optional<Drawing> best;
  double slope = 1;
  for (int n = 0; n < kTries; ++n) {
    if (drawing.width <= width + kNear && (!best || drawing.width > best->width)) best = drawing;
    if (std::abs(drawing.width - width) <= kNear) break;
    const double next = std::max(least, content + (width - drawing.width) / slope);
    if (next == content) break;
    Drawing other = make(next);
    // Labels that come and go make the width jump; one jump must not decide the next step.
    slope = std::clamp((other.width - drawing.width) / (next - content), 1.0, 64.0);
    content = next;
    drawing = std::move(other);
  }
  if (!best) return drawing;
  best->width = width;
  return *std::move(best);
}

}  // namespace rapt::pictures
