#include <algorithm>
#include <cmath>

#include "rapt/error.h"
#include "tasks/scenes.h"

namespace rapt::inline v1::tasks {
namespace {

struct Surface {
  int object = -1;  // −1: sky
  Hit hit;
};

// The bits of a lattice point, well mixed.
double lattice(std::uint64_t seed, std::int64_t x, std::int64_t y, std::int64_t z) {
  std::uint64_t h = seed;
  for (const std::int64_t n : {x, y, z}) {
    h = (h ^ static_cast<std::uint64_t>(n)) * 0x9e3779b97f4a7c15;
    h ^= h >> 29;
  }
  return static_cast<double>(h >> 11) * 0x1p-53;
}

// Random values at lattice points, interpolated smoothly.
double smooth_noise(std::uint64_t seed, const Vec3& p) {
  const std::array<double, 3> at{p.x, p.y, p.z};
  std::array<std::int64_t, 3> low{};
  std::array<double, 3> part{};
  for (std::size_t n = 0; n < 3; ++n) {
    low[n] = static_cast<std::int64_t>(std::floor(at[n]));
    const double f = at[n] - std::floor(at[n]);
    part[n] = f * f * (3 - 2 * f);
  }
  double sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    const int i = corner & 1, j = corner >> 1 & 1, k = corner >> 2;
    const double weight = (i ? part[0] : 1 - part[0]) * (j ? part[1] : 1 - part[1]) * (k ? part[2] : 1 - part[2]);
    sum += weight * lattice(seed, low[0] + i, low[1] + j, low[2] + k);
  }
  return sum;
}

// The share of the second colour, 0 to 1.
double second_share(const SurfaceTexture& texture, const Vec3& p) {
  const auto odd = [&](double x) { return static_cast<std::int64_t>(std::floor(x / texture.period)) & 1; };
  switch (texture.kind) {
    case SurfaceTexture::Kind::plain: return 0;
    // Off the lattice by an odd fraction, so that no face of a box lies on the border of a cell.
    case SurfaceTexture::Kind::checker:
      return static_cast<double>((odd(p.x + 0.013) + odd(p.y + 0.017) + odd(p.z + 0.019)) & 1);
    case SurfaceTexture::Kind::stripes: return static_cast<double>(odd(dot(p, texture.direction)));
    case SurfaceTexture::Kind::noise: {
      const Vec3 scaled = p * (1 / texture.period);
      const double n =
          0.65 * smooth_noise(texture.seed, scaled) + 0.35 * smooth_noise(texture.seed ^ 0x5bd1, scaled * 2.3);
      return std::clamp(3 * (n - 0.5) + 0.5, 0.0, 1.0);
    }
  }
  return 0;
}

class Renderer {
 public:
  Renderer(const Scene& scene, std::int64_t size) : scene_(scene), size_(size) {}

  Surface trace(const Ray& ray) const {
    Surface nearest;
    double limit = kSceneFar;
    for (std::size_t n = 0; n < scene_.objects.size(); ++n)
      if (intersect(scene_.objects[n].solid, ray, limit, nearest.hit)) {
        limit = nearest.hit.t;
        nearest.object = static_cast<int>(n);
      }
    return nearest;
  }

  SceneColor color(const Ray& ray, const Surface& surface) const {
    if (surface.object < 0) return sky(ray);
    const SceneObject& object = scene_.objects[static_cast<std::size_t>(surface.object)];
    const Vec3 point = ray.origin + ray.direction * surface.hit.t;
    SceneColor light{scene_.ambient, scene_.ambient, scene_.ambient};
    for (const SceneLight& lamp : scene_.lights) add_light(lamp, point, surface, light);
    SceneColor result = albedo(object, ray, point, surface.hit);
    for (std::size_t c = 0; c < 3; ++c) result[c] = std::min(1.0, result[c] * light[c]);
    return result;
  }

 private:
  SceneColor sky(const Ray& ray) const {
    const double height = std::clamp(unit(ray.direction).y / 0.5, 0.0, 1.0);
    SceneColor result{};
    for (std::size_t c = 0; c < 3; ++c)
      result[c] = scene_.sky_low[c] + (scene_.sky_high[c] - scene_.sky_low[c]) * height;
    return result;
  }

  // A pattern finer than the pixels fades into its mean, or distant ground would alias.
  SceneColor albedo(const SceneObject& object, const Ray& ray, const Vec3& point, const Hit& hit) const {
    const SurfaceTexture& texture = object.texture;
    double share = second_share(texture, object.solid.to_own(point - object.solid.center));
    if (texture.kind != SurfaceTexture::Kind::plain) {
      const double slant = std::max(0.02, -dot(unit(ray.direction), hit.normal));
      const double width = 2 * scene_.camera.tangent * hit.t / (static_cast<double>(size_) * slant);
      share += (0.5 - share) * std::clamp(width / texture.period - 0.5, 0.0, 1.0);
    }
    SceneColor result{};
    for (std::size_t c = 0; c < 3; ++c) result[c] = texture.first[c] + (texture.second[c] - texture.first[c]) * share;
    return result;
  }

  void add_light(const SceneLight& lamp, const Vec3& point, const Surface& surface, SceneColor& light) const {
    const Vec3 to_lamp = lamp.position - point;
    const double cosine = dot(surface.hit.normal, to_lamp) / length(to_lamp);
    if (cosine <= 0) return;
    // Slightly above the surface, which must not shade itself.
    const Ray ray{point + surface.hit.normal * 1e-7, to_lamp};
    Hit ignored;
    for (const SceneObject& object : scene_.objects)
      if (object.solid.kind != SolidKind::ground && intersect(object.solid, ray, 1, ignored)) return;
    for (std::size_t c = 0; c < 3; ++c) light[c] += lamp.color[c] * cosine;
  }

  const Scene& scene_;
  std::int64_t size_;
};

bool same_surface(const Surface& a, const Surface& b) {
  return a.object == b.object && (a.object < 0 || a.hit.face == b.hit.face);
}

void write_truth(const Scene& scene, const Ray& ray, const Surface& surface, std::int64_t n, const ScenePixels& out) {
  const bool sky = surface.object < 0;
  if (out.segmentation != nullptr)
    out.segmentation[n] = static_cast<std::uint8_t>(
        sky ? SceneClass::sky : scene.objects[static_cast<std::size_t>(surface.object)].label);
  if (out.depth != nullptr) out.depth[n] = static_cast<float>(sky ? kSceneFar : surface.hit.t);
  const Vec3 normal = sky ? Vec3{} : scene.camera.to_own(surface.hit.normal);
  if (out.normals != nullptr) {
    out.normals[3 * n] = static_cast<float>(normal.x);
    out.normals[3 * n + 1] = static_cast<float>(normal.y);
    out.normals[3 * n + 2] = static_cast<float>(normal.z);
  }
  if (out.reshading == nullptr) return;
  const Vec3 point = scene.camera.to_own(ray.direction * surface.hit.t);
  out.reshading[n] = sky ? 0 : static_cast<float>(std::max(0.0, dot(normal, unit(kReshadingLight - point))));
}

void write_edges(const std::vector<Surface>& surfaces, std::int64_t size, std::uint8_t* out) {
  for (std::int64_t r = 0; r < size; ++r)
    for (std::int64_t c = 0; c < size; ++c) {
      const auto n = static_cast<std::size_t>(r * size + c);
      const bool right = c + 1 < size && !same_surface(surfaces[n], surfaces[n + 1]);
      const bool below = r + 1 < size && !same_surface(surfaces[n], surfaces[n + static_cast<std::size_t>(size)]);
      *out++ = right || below ? 1 : 0;
    }
}

}  // namespace

void render(const Scene& scene, std::int64_t size, int samples, const ScenePixels& out) {
  if (size < 1 || samples < 1)
    throw Error("render: expected a size and a number of samples of at least 1, got " + std::to_string(size) + " and " +
                std::to_string(samples));
  const Renderer renderer(scene, size);
  const double width = static_cast<double>(size);
  std::vector<Surface> surfaces;
  surfaces.reserve(static_cast<std::size_t>(size * size));
  for (std::int64_t r = 0; r < size; ++r)
    for (std::int64_t c = 0; c < size; ++c) {
      const double left = static_cast<double>(c), top = static_cast<double>(r);
      const Ray middle = scene.camera.ray((left + 0.5) / width, (top + 0.5) / width);
      const Surface& surface = surfaces.emplace_back(renderer.trace(middle));
      const std::int64_t n = r * size + c;
      write_truth(scene, middle, surface, n, out);
      if (out.rgb == nullptr) continue;
      SceneColor sum{};
      for (int i = 0; i < samples; ++i)
        for (int j = 0; j < samples; ++j) {
          const Ray ray = samples == 1 ? middle
                                       : scene.camera.ray((left + (j + 0.5) / samples) / width,
                                                          (top + (i + 0.5) / samples) / width);
          const SceneColor color = renderer.color(ray, samples == 1 ? surface : renderer.trace(ray));
          for (std::size_t k = 0; k < 3; ++k) sum[k] += color[k];
        }
      for (std::size_t k = 0; k < 3; ++k)
        out.rgb[3 * n + static_cast<std::int64_t>(k)] = static_cast<float>(sum[k] / (samples * samples));
    }
  if (out.edges != nullptr) write_edges(surfaces, size, out.edges);
}

}  // namespace rapt::inline v1::tasks
