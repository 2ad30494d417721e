#include "tasks/scenes.h"

#include <algorithm>
#include <numbers>
#include <string>

#include "backends/cpu/parallel.h"
#include "rapt/error.h"
#include "rapt/threads.h"
#include "tensor/random.h"

namespace rapt::inline v1::tasks {
namespace {

constexpr double kFullCircle = 2 * std::numbers::pi;
constexpr double kDegree = std::numbers::pi / 180;

double between(Random& random, double low, double high) { return low + (high - low) * random.uniform(); }

SceneColor random_color(Random& random) {
  // Bright enough that shading shows.
  SceneColor color{};
  for (double& part : color) part = between(random, 0.15, 0.95);
  return color;
}

SurfaceTexture random_texture(Random& random) {
  SurfaceTexture texture;
  texture.kind = static_cast<SurfaceTexture::Kind>(random.below(4));
  texture.first = random_color(random);
  texture.second = random_color(random);
  texture.period = between(random, 0.25, 0.7);
  const double angle = between(random, 0, kFullCircle), tilt = between(random, -0.6, 0.6);
  texture.direction = unit({std::cos(angle), tilt, std::sin(angle)});
  texture.seed = random.next_u64();
  return texture;
}

std::array<Vec3, 3> rotated(double yaw) {
  const double c = std::cos(yaw), s = std::sin(yaw);
  return {Vec3{c, 0, -s}, Vec3{0, 1, 0}, Vec3{s, 0, c}};
}

// On the ground at (0, 0, 0); the caller moves it.
SceneObject random_object(Random& random) {
  SceneObject object;
  object.texture = random_texture(random);
  object.solid.axes = rotated(between(random, 0, kFullCircle));
  Solid& solid = object.solid;
  switch (random.below(3)) {
    case 0:
      solid.kind = SolidKind::sphere;
      object.label = SceneClass::sphere;
      solid.size.x = between(random, 0.35, 0.95);
      solid.center.y = solid.size.x;
      break;
    case 1:
      solid.kind = SolidKind::box;
      object.label = SceneClass::box;
      solid.size = {between(random, 0.3, 0.8), between(random, 0.25, 0.9), between(random, 0.3, 0.8)};
      solid.center.y = solid.size.y;
      break;
    default:
      solid.kind = SolidKind::cylinder;
      object.label = SceneClass::cylinder;
      solid.size = {between(random, 0.25, 0.65), between(random, 0.3, 0.9), 0};
      solid.center.y = solid.size.y;
      if (random.below(3) == 0) {
        // It lies on its side.
        solid.axes = {solid.axes[0], solid.axes[2], -solid.axes[1]};
        solid.center.y = solid.size.x;
      }
  }
  return object;
}

// The radius of the circle on the ground that a solid needs, whatever its rotation.
double room_of(const Solid& solid) {
  switch (solid.kind) {
    case SolidKind::box: return std::hypot(solid.size.x, solid.size.z);
    case SolidKind::cylinder:
      return std::abs(solid.axes[1].y) > 0.5 ? solid.size.x : std::hypot(solid.size.x, solid.size.y);
    default: return solid.size.x;
  }
}

void place_objects(Random& random, Scene& scene) {
  const std::uint64_t wanted = 3 + random.below(4);
  // A crowded scene may get fewer.
  std::uint64_t placed = 0;
  for (int tries = 0; tries < 200 && placed < wanted; ++tries) {
    SceneObject object = random_object(random);
    Vec3& center = object.solid.center;
    const double angle = between(random, 0, kFullCircle), away = 2.6 * std::sqrt(random.uniform());
    center.x = away * std::cos(angle);
    center.z = away * std::sin(angle);
    const Vec3 to_camera = scene.camera.position - center;
    if (std::hypot(to_camera.x, to_camera.z) < room_of(object.solid) + 1) continue;
    const bool free = std::all_of(scene.objects.begin(), scene.objects.end(), [&](const SceneObject& other) {
      if (other.solid.kind == SolidKind::ground) return true;
      const Vec3 apart = other.solid.center - center;
      return std::hypot(apart.x, apart.z) > room_of(other.solid) + room_of(object.solid) + 0.05;
    });
    if (!free) continue;
    scene.objects.push_back(object);
    ++placed;
  }
}

void place_wall(Random& random, double azimuth, Scene& scene) {
  if (random.below(2) == 0) return;
  SceneObject wall{.solid = {.kind = SolidKind::box}, .label = SceneClass::wall, .texture = random_texture(random)};
  wall.texture.period *= 1.6;
  wall.solid.size = {between(random, 2.5, 7), between(random, 0.8, 2.2), 0.12};
  const double away = azimuth + std::numbers::pi + between(random, -0.4, 0.4), distance = between(random, 4.2, 6);
  wall.solid.center = {distance * std::cos(away), wall.solid.size.y, distance * std::sin(away)};
  // Its thin side roughly towards the middle.
  wall.solid.axes = rotated(std::numbers::pi / 2 - away + between(random, -0.5, 0.5));
  scene.objects.push_back(wall);
}

void place_lights(Random& random, Scene& scene) {
  const std::uint64_t count = 1 + random.below(3);
  scene.ambient = between(random, 0.2, 0.38);
  std::vector<double> shares;
  double sum = 0;
  for (std::uint64_t n = 0; n < count; ++n) sum += shares.emplace_back(between(random, 0.4, 1));
  const double total = between(random, 0.65, 0.95);
  for (const double share : shares) {
    const double angle = between(random, 0, kFullCircle), height = between(random, 35, 75) * kDegree;
    const double distance = between(random, 8, 16), strength = total * share / sum;
    SceneLight light;
    light.position =
        Vec3{std::cos(angle) * std::cos(height), std::sin(height), std::sin(angle) * std::cos(height)} * distance;
    for (double& part : light.color) part = strength * between(random, 0.9, 1.1);
    scene.lights.push_back(light);
  }
}

std::size_t numbers_of(std::int64_t pixels, std::int64_t scene, std::int64_t width) {
  return static_cast<std::size_t>(pixels * scene * width);
}

}  // namespace

Ray SceneCamera::ray(double across, double from_top) const {
  return {position, forward + right * ((2 * across - 1) * tangent) + down * ((2 * from_top - 1) * tangent)};
}

SceneCamera look_at(const Vec3& position, const Vec3& target, double roll, double tangent) {
  SceneCamera camera;
  camera.position = position;
  camera.forward = unit(target - position);
  const Vec3 level = unit(cross(camera.forward, {0, 1, 0}));
  const Vec3 below = cross(camera.forward, level);
  camera.right = level * std::cos(roll) + below * std::sin(roll);
  camera.down = cross(camera.forward, camera.right);
  camera.tangent = tangent;
  return camera;
}

Scene random_scene(std::uint64_t seed, int part, std::int64_t n) {
  // The last id distinguishes this stream from those of other tasks.
  Random random(seed, part, n, 0x7363656e6573);
  Scene scene;
  SceneObject ground{
      .solid = {.kind = SolidKind::ground}, .label = SceneClass::ground, .texture = random_texture(random)};
  ground.texture.period *= 2;
  scene.objects.push_back(ground);
  const double azimuth = between(random, 0, kFullCircle), elevation = between(random, 9, 35) * kDegree;
  const Vec3 target{between(random, -0.5, 0.5), between(random, 0.3, 0.9), between(random, -0.5, 0.5)};
  const Vec3 towards{std::cos(azimuth) * std::cos(elevation), std::sin(elevation),
                     std::sin(azimuth) * std::cos(elevation)};
  const double distance = between(random, 4.6, 6.8);
  scene.camera = look_at(target + towards * distance, target, between(random, -5, 5) * kDegree,
                         std::tan(between(random, 22, 30) * kDegree));
  place_objects(random, scene);
  place_wall(random, azimuth, scene);
  place_lights(random, scene);
  const double shade = between(random, 0, 1);
  scene.sky_low = {0.72 + 0.2 * shade, 0.8 + 0.05 * shade, 0.92 - 0.2 * shade};
  scene.sky_high = {0.25 + 0.2 * shade, 0.45, between(random, 0.65, 0.95)};
  return scene;
}

SceneData render_scenes(const SceneOptions& options, int part, std::int64_t first, std::int64_t count) {
  if (options.size < 8 || options.size > 512)
    throw Error("scenes: size: expected 8 to 512 pixels, got " + std::to_string(options.size));
  if (options.samples < 1 || options.samples > 8)
    throw Error("scenes: samples: expected 1 to 8, got " + std::to_string(options.samples));
  if (first < 0 || count < 0 || count > 10'000'000)
    throw Error("scenes: expected 0 to 10000000 scenes, the first numbered 0 or more, got " + std::to_string(count) +
                " from " + std::to_string(first) + " on");
  const std::int64_t size = options.size, pixels = size * size;
  SceneData data;
  data.rgb = Array(ElementType::f32, {count, size, size, 3});
  data.normals = Array(ElementType::f32, {count, size, size, 3});
  data.depth = Array(ElementType::f32, {count, size, size});
  data.reshading = Array(ElementType::f32, {count, size, size});
  data.segmentation = Array(ElementType::u8, {count, size, size});
  data.edges = Array(ElementType::u8, {count, size, size});
  parallel_for(count, default_threads(), [&](std::int64_t n, int) {
    const std::size_t one = numbers_of(pixels, n, 1), three = numbers_of(pixels, n, 3);
    render(random_scene(options.seed, part, first + n), size, options.samples,
           {.rgb = data.rgb.as<float>().data() + three,
            .segmentation = data.segmentation.as<std::uint8_t>().data() + one,
            .depth = data.depth.as<float>().data() + one,
            .normals = data.normals.as<float>().data() + three,
            .edges = data.edges.as<std::uint8_t>().data() + one,
            .reshading = data.reshading.as<float>().data() + one});
  });
  return data;
}

}  // namespace rapt::inline v1::tasks
