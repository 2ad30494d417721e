#include "tasks/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "backends/cpu/parallel.h"
#include "rapt/error.h"
#include "rapt/threads.h"
#include "tensor/random.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr int kSide = 32;
constexpr int kSamples = 3;  // along each side of a pixel
constexpr std::int64_t kLargestPart = 10'000'000;

constexpr std::array<const char*, 5> kFigures{"circle", "square", "triangle", "cross", "star"};
constexpr int kClasses = 2 * static_cast<int>(kFigures.size());
enum class Figure { circle, square, triangle, cross, star };
enum class Texture { stripes, dots, checker, gradient };

using Color = std::array<double, 3>;

struct Point {
  double x, y;
};

double uniform_in(Random& random, double low, double high) { return low + (high - low) * random.uniform(); }

Color mix(const Color& a, const Color& b, double t) {
  return {a[0] + (b[0] - a[0]) * t, a[1] + (b[1] - a[1]) * t, a[2] + (b[2] - a[2]) * t};
}

double distance(const Color& a, const Color& b) { return std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]); }

struct Shades {
  double low, high;  // of each channel
};
constexpr Shades kAny{0, 1};
// Backgrounds are dark, and figures have a light and a middle colour, so that a small model can learn from a few
// thousand images what is in front and how it is textured.
constexpr Shades kDark{0, 0.4};
constexpr Shades kMiddle{0.15, 0.6};
constexpr Shades kLight{0.55, 1};

Color random_shade(Random& random, const Shades& shades = kAny) {
  const auto channel = [&] { return uniform_in(random, shades.low, shades.high); };
  const double red = channel(), green = channel();
  return {red, green, channel()};
}

// A colour that is distinct from the others.
Color random_shade_unlike(Random& random, std::initializer_list<Color> others, double least, const Shades& shades) {
  for (;;) {
    const Color color = random_shade(random, shades);
    if (std::all_of(others.begin(), others.end(), [&](const Color& o) { return distance(color, o) >= least; }))
      return color;
  }
}

// Rotated and moved: where a pixel lies in a figure's own frame.
struct Frame {
  Frame(Point middle, double angle) : center(middle), cosine(std::cos(angle)), sine(std::sin(angle)) {}
  Point to_own(Point p) const {
    const double x = p.x - center.x, y = p.y - center.y;
    return {cosine * x + sine * y, cosine * y - sine * x};
  }
  Point center;
  double cosine, sine;
};

struct Pattern {
  Pattern(Random& random, Texture kind, const Color& one, const Color& other)
      : texture(kind),
        frame({uniform_in(random, 0, kSide), uniform_in(random, 0, kSide)},
              uniform_in(random, 0, 2 * std::numbers::pi)),
        period(period_of(random, kind)),
        first(one),
        second(other) {}

  // Dots are farther apart than stripes: the scale of a texture helps to recognise it.
  static double period_of(Random& random, Texture kind) {
    switch (kind) {
      case Texture::stripes: return uniform_in(random, 3, 4.5);
      case Texture::dots: return uniform_in(random, 5.5, 7.5);
      case Texture::checker: return uniform_in(random, 3, 7.5);
      case Texture::gradient: return uniform_in(random, 24, 48);
    }
    return 1;
  }

  Color at(Point pixel) const {
    const Point p = frame.to_own(pixel);
    const double u = p.x / period - std::floor(p.x / period), v = p.y / period - std::floor(p.y / period);
    switch (texture) {
      case Texture::stripes: return u < 0.5 ? first : second;
      // As much of one colour as of the other, so that the mean colour gives nothing away.
      case Texture::dots: return (u - 0.5) * (u - 0.5) + (v - 0.5) * (v - 0.5) < 0.159 ? first : second;
      case Texture::checker: return (u < 0.5) == (v < 0.5) ? first : second;
      case Texture::gradient: return mix(first, second, 0.5 + 0.5 * std::sin(2 * std::numbers::pi * u));
    }
    return first;
  }

  Texture texture;
  Frame frame;
  double period;
  Color first, second;
};

// Within the star of five points of radius 1: the edges of a pentagram, folded into one of its ten sectors.
bool in_star(Point p) {
  const double sector = 2 * std::numbers::pi / 5, inner = 0.45;
  double angle = std::atan2(p.x, -p.y);
  angle = std::abs(angle - sector * std::round(angle / sector));
  const double radius = std::hypot(p.x, p.y), x = radius * std::sin(angle), y = radius * std::cos(angle);
  // From the point (0, 1) to the notch at half a sector.
  const double notch_x = inner * std::sin(sector / 2), notch_y = inner * std::cos(sector / 2);
  return x * (notch_y - 1) - (y - 1) * notch_x > 0;
}

// Of about equal area, so that size gives nothing away; 1 is the radius of the circle.
bool inside(Figure figure, Point p) {
  switch (figure) {
    case Figure::circle: return p.x * p.x + p.y * p.y < 1;
    case Figure::square: return std::max(std::abs(p.x), std::abs(p.y)) < 0.886;
    case Figure::triangle: {
      const double scale = 1.0 / 1.555, x = p.x * scale, y = p.y * scale;
      return y < 0.5 && y > -1 + std::numbers::sqrt3 * std::abs(x);
    }
    case Figure::cross: {
      const double a = std::abs(p.x), b = std::abs(p.y);
      return std::max(a, b) < 1.19 && std::min(a, b) < 0.397;
    }
    case Figure::star: return in_star({p.x / 1.54, p.y / 1.54});
  }
  return false;
}

struct Drawn {
  Figure figure;
  Frame frame;
  double radius;
  double outline;  // in units of the radius; 0: none
  Color outline_color;
};

Color over(const Drawn& drawn, const Pattern& pattern, Point pixel, const Color& below) {
  const Point own = drawn.frame.to_own(pixel);
  const Point p{own.x / drawn.radius, own.y / drawn.radius};
  // No figure extends farther.
  if (p.x * p.x + p.y * p.y > 1.7 * 1.7 || !inside(drawn.figure, p)) return below;
  const double inner = 1 - drawn.outline;
  if (drawn.outline > 0 && !inside(drawn.figure, {p.x / inner, p.y / inner})) return drawn.outline_color;
  return pattern.at(pixel);
}

struct Blot {
  Frame frame;
  double length, width;
  Color color;

  bool covers(Point pixel) const {
    const Point p = frame.to_own(pixel);
    return std::abs(p.x) < length && std::abs(p.y) < width;
  }
};

class Picture {
 public:
  Picture(Random& random, Figure figure, Texture texture)
      : background_(make_background(random)),
        pattern_(make_pattern(random, texture, background_)),
        drawn_(make_figure(random, figure, background_, pattern_)) {
    const std::uint64_t blots = 1 + random.below(4);
    for (std::uint64_t n = 0; n < blots; ++n)
      blots_.push_back(
          {{{uniform_in(random, 0, kSide), uniform_in(random, 0, kSide)}, uniform_in(random, 0, std::numbers::pi)},
           uniform_in(random, 0.7, 3.5),
           uniform_in(random, 0.4, 1.1),
           random_shade(random)});
    over_ = random.below(2);
    noise_ = uniform_in(random, 0.01, 0.07);
  }

  void write(Random& random, std::uint8_t* out) const {
    for (int row = 0; row < kSide; ++row)
      for (int col = 0; col < kSide; ++col) {
        Color sum{};
        for (int down = 0; down < kSamples; ++down)
          for (int right = 0; right < kSamples; ++right) {
            const Color color = sample({col + (right + 0.5) / kSamples, row + (down + 0.5) / kSamples});
            for (std::size_t c = 0; c < 3; ++c) sum[c] += color[c];
          }
        for (const double total : sum) {
          const double value = total / (kSamples * kSamples) + noise_ * random.normal();
          *out++ = static_cast<std::uint8_t>(std::lround(255 * std::clamp(value, 0.0, 1.0)));
        }
      }
  }

 private:
  static Pattern make_background(Random& random) {
    const Color base = random_shade(random, kDark);
    // Fainter than the figure's texture, but of the same kinds.
    const Color other = mix(base, random_shade_unlike(random, {base}, 0.25, kDark), uniform_in(random, 0.25, 0.6));
    return {random, static_cast<Texture>(random.below(4)), base, other};
  }

  static Pattern make_pattern(Random& random, Texture texture, const Pattern& background) {
    Color one = random_shade_unlike(random, {background.first, background.second}, 0.35, kLight);
    Color other = random_shade_unlike(random, {background.first, background.second, one}, 0.35, kMiddle);
    if (random.below(2) == 1) std::swap(one, other);
    return {random, texture, one, other};
  }

  static Drawn make_figure(Random& random, Figure figure, const Pattern& background, const Pattern& pattern) {
    const double radius = uniform_in(random, 7.5, 11), reach = std::min(1.1 * radius, 11.0);
    const Frame frame({uniform_in(random, reach, kSide - reach), uniform_in(random, reach, kSide - reach)},
                      uniform_in(random, 0, 2 * std::numbers::pi));
    const bool outlined = random.below(2) == 1;
    const Color color = random_shade_unlike(random, {background.first, pattern.first, pattern.second}, 0.25, kLight);
    return {figure, frame, radius, outlined ? 1.2 / radius : 0, color};
  }

  Color sample(Point p) const {
    Color color = background_.at(p);
    const std::size_t behind = blots_.size() - over_;
    for (std::size_t n = 0; n < behind; ++n)
      if (blots_[n].covers(p)) color = blots_[n].color;
    color = over(drawn_, pattern_, p, color);
    for (std::size_t n = behind; n < blots_.size(); ++n)
      if (blots_[n].covers(p)) color = blots_[n].color;
    return color;
  }

  Pattern background_;
  Pattern pattern_;
  Drawn drawn_;
  std::vector<Blot> blots_;
  std::size_t over_ = 0;  // how many of them are in front of the figure
  double noise_ = 0;
};

ImageData make_part(const ShapesOptions& options, int part, std::int64_t count) {
  ImageData data;
  for (int n = 0; n < kClasses; ++n)
    data.classes.push_back((n % 2 == 0 ? "striped " : "dotted ") +
                           std::string(kFigures[static_cast<std::size_t>(n / 2)]));
  data.images = Array(ElementType::u8, {count, kSide, kSide, 3});
  for (std::int64_t n = 0; n < count; ++n) data.labels.push_back(static_cast<int>(n % kClasses));
  std::uint8_t* out = data.images.as<std::uint8_t>().data();
  parallel_for(count, default_threads(),
               [&](std::int64_t n, int) { draw_shapes_image(options.seed, part, n, out + n * data.image_size()); });
  return data;
}

}  // namespace

void draw_shapes_image(std::uint64_t seed, int part, std::int64_t n, std::uint8_t* out) {
  // The last id distinguishes this stream from those of other tasks.
  Random random(seed, part, n, 0x736861706573);
  const auto label = static_cast<int>(n % kClasses);
  Picture(random, static_cast<Figure>(label / 2), label % 2 == 0 ? Texture::stripes : Texture::dots).write(random, out);
}

ImageTask shapes_task(const ShapesOptions& options) {
  for (const std::int64_t count : {options.train, options.valid, options.test})
    if (count < 0 || count > kLargestPart)
      throw Error("shapes: expected 0 to " + std::to_string(kLargestPart) + " images, got " + std::to_string(count));
  return {make_part(options, 0, options.train), make_part(options, 1, options.valid),
          make_part(options, 2, options.test)};
}

}  // namespace rapt::inline v1::tasks
