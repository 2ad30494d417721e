#include "pictures/alignment.h"

#include <algorithm>
#include <cmath>

#include "pictures/fit.h"
#include "pictures/frame.h"
#include "pictures/series.h"
#include "pictures/text.h"
#include "rapt/error.h"

namespace rapt::pictures {
namespace {

constexpr double kRow = 24;
constexpr double kMaxHeight = 1200;
constexpr double kSpan = 220;  // between the two columns
constexpr double kLabelWidth = 180;
constexpr double kFaintest = 0.02;  // of the largest; fainter lines are invisible
constexpr std::size_t kMaxLines = 20000;

struct Link {
  std::size_t target = 0, source = 0;
  double weight = 0;
};

// The heaviest last, so that they are on top.
std::vector<Link> links_of(const Alignment& alignment, double largest) {
  std::vector<Link> links;
  const std::size_t cols = alignment.source.size();
  for (std::size_t n = 0; n < alignment.weights.size(); ++n)
    if (alignment.weights[n] > kFaintest * largest) links.push_back({n / cols, n % cols, alignment.weights[n]});
  std::stable_sort(links.begin(), links.end(), [](const Link& a, const Link& b) { return a.weight < b.weight; });
  if (links.size() > kMaxLines) links.erase(links.begin(), links.end() - kMaxLines);
  return links;
}

void check_alignment(const Alignment& alignment) {
  if (alignment.source.empty() || alignment.target.empty())
    throw Error("alignment: expected at least one source token and one target token, got " +
                std::to_string(alignment.source.size()) + " and " + std::to_string(alignment.target.size()));
  if (alignment.weights.size() != alignment.source.size() * alignment.target.size())
    throw Error("alignment: weights: expected " + std::to_string(alignment.target.size()) + " × " +
                std::to_string(alignment.source.size()) + ", one for each target and source token, got " +
                std::to_string(alignment.weights.size()));
  for (const double weight : alignment.weights)
    if (!std::isfinite(weight) || weight < 0)
      throw Error("alignment: weights: expected finite numbers from 0, got " + short_number(weight));
}

// One column of tokens: their positions, and the longest label.
struct Column {
  const std::vector<std::string>& tokens;
  double row = kRow;
  double top = 0;
  double y(std::size_t n) const { return top + row * (static_cast<double>(n) + 0.5); }
  std::size_t step() const { return static_cast<std::size_t>(std::max(1.0, std::ceil(15 / row - 1e-9))); }
  double room = kLabelWidth;  // for a label
  std::string label(std::size_t n) const { return clipped(visible(tokens[n]), kLabelSize, room); }
  double width() const {
    double most = 40;
    for (std::size_t n = 0; n < tokens.size(); n += step()) most = std::max(most, text_width(label(n), kLabelSize));
    return most;
  }
};

Drawing draw_at(const Alignment& alignment, double span) {
  const auto row_of = [](std::size_t count) { return std::min(kRow, kMaxHeight / static_cast<double>(count)); };
  const double room = alignment.width > 0 ? std::min(kLabelWidth, 0.3 * alignment.width) : kLabelWidth;
  Column source{alignment.source, row_of(alignment.source.size()), 0, room};
  Column target{alignment.target, row_of(alignment.target.size()), 0, room};
  const double heights[] = {source.row * static_cast<double>(source.tokens.size()),
                            target.row * static_cast<double>(target.tokens.size())};
  const double height = std::max(heights[0], heights[1]);
  const double left = kMargin + source.width() + 10, right = left + span;

  Drawing drawing{.width = std::ceil(right + 10 + target.width() + kMargin), .title = alignment.title};
  const double top = add_title(drawing, alignment.title) + 24;
  drawing.height = std::ceil(top + height + kMargin);
  if (drawing.title.empty()) drawing.title = "alignment";
  // The shorter column is centred.
  source.top = top + (height - heights[0]) / 2;
  target.top = top + (height - heights[1]) / 2;

  const double largest = *std::max_element(alignment.weights.begin(), alignment.weights.end());
  Group lines("links");
  for (const Link& link : links_of(alignment, largest)) {
    const double share = link.weight / largest;
    lines.items.push_back(
        {Line{"link",
              {left, source.y(link.source)},
              {right, target.y(link.target)},
              {look_of(0).color, 0.75 + 2.25 * share},
              share,
              target.label(link.target) + " → " + source.label(link.source) + ": " + short_number(link.weight)}});
  }
  drawing.add(std::move(lines));
  const auto head = [&](const char* content, double x, Anchor anchor) {
    drawing.add(
        Text{.kind = "column-title", .at = {x, top - 8}, .content = content, .anchor = anchor, .color = Role::muted});
  };
  head("source", left - 8, Anchor::end);
  head("target", right + 8, Anchor::start);
  for (std::size_t n = 0; n < source.tokens.size(); n += source.step())
    drawing.add(Text{.kind = "source-label",
                     .at = {left - 8, source.y(n) + 4.3},
                     .content = source.label(n),
                     .anchor = Anchor::end});
  for (std::size_t n = 0; n < target.tokens.size(); n += target.step())
    drawing.add(Text{.kind = "target-label", .at = {right + 8, target.y(n) + 4.3}, .content = target.label(n)});
  return drawing;
}

}  // namespace

Drawing draw(const Alignment& alignment) {
  check_alignment(alignment);
  return fitted(alignment.width, kSpan, kSpan / 4, [&](double span) { return draw_at(alignment, span); });
}

}  // namespace rapt::pictures
