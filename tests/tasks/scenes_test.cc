#include "tasks/scenes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <set>

#include <gtest/gtest.h>

#include "rapt/error.h"
#include "rapt/threads.h"
#include "tensor/random.h"

namespace rapt::tasks::test {
namespace {

// One picture with all its ground truth.
struct Picture {
  explicit Picture(const Scene& scene, std::int64_t side, int samples = 1) : size(side) {
    const auto pixels = static_cast<std::size_t>(side * side);
    rgb.resize(3 * pixels), normals.resize(3 * pixels), depth.resize(pixels), reshading.resize(pixels);
    segmentation.resize(pixels), edges.resize(pixels);
    render(scene, side, samples,
           {.rgb = rgb.data(),
            .segmentation = segmentation.data(),
            .depth = depth.data(),
            .normals = normals.data(),
            .edges = edges.data(),
            .reshading = reshading.data()});
  }
  std::size_t at(std::int64_t row, std::int64_t col) const { return static_cast<std::size_t>(row * size + col); }
  SceneClass label(std::size_t n) const { return static_cast<SceneClass>(segmentation[n]); }
  Vec3 normal(std::size_t n) const { return {normals[3 * n], normals[3 * n + 1], normals[3 * n + 2]}; }
  // In the camera's frame.
  Vec3 point(const Scene& scene, std::int64_t row, std::int64_t col) const {
    const double tangent = scene.camera.tangent, side = static_cast<double>(size);
    const double x = (2 * (static_cast<double>(col) + 0.5) / side - 1) * tangent;
    const double y = (2 * (static_cast<double>(row) + 0.5) / side - 1) * tangent;
    return Vec3{x, y, 1} * depth[at(row, col)];
  }

  std::int64_t size;
  std::vector<float> rgb, normals, depth, reshading;
  std::vector<std::uint8_t> segmentation, edges;
};

void expect_near(const Vec3& got, const Vec3& expected, double tolerance) {
  EXPECT_NEAR(got.x, expected.x, tolerance);
  EXPECT_NEAR(got.y, expected.y, tolerance);
  EXPECT_NEAR(got.z, expected.z, tolerance);
}

SceneObject object_of(SolidKind kind, SceneClass label, const Vec3& center, const Vec3& size) {
  SceneObject object;
  object.solid.kind = kind;
  object.solid.center = center;
  object.solid.size = size;
  object.label = label;
  return object;
}

// Camera at height 2 that looks along −z, level.
Scene level_scene() {
  Scene scene;
  scene.camera.position = {0, 2, 0};
  scene.objects.push_back(object_of(SolidKind::ground, SceneClass::ground, {0, 0, 0}, {}));
  return scene;
}

TEST(Ray, HitsAreWhereTheSurfacesAre) {
  Hit hit;
  const Ray down{{0.3, 5, 0.1}, {0, -2, 0}};
  const Solid ground{.kind = SolidKind::ground};
  ASSERT_TRUE(intersect(ground, down, 100, hit));
  EXPECT_DOUBLE_EQ(hit.t, 2.5);
  EXPECT_EQ(hit.normal, (Vec3{0, 1, 0}));
  EXPECT_FALSE(intersect(ground, down, 2.4, hit));
  EXPECT_FALSE(intersect(ground, {{0, 5, 0}, {1, 0, 0}}, 100, hit));
  EXPECT_FALSE(intersect(ground, {{0, -5, 0}, {0, 1, 0}}, 100, hit));

  const Solid sphere{.kind = SolidKind::sphere, .center = {0, 1, 0}, .size = {2, 0, 0}};
  ASSERT_TRUE(intersect(sphere, {{-5, 1, 0}, {1, 0, 0}}, 100, hit));
  EXPECT_DOUBLE_EQ(hit.t, 3);
  EXPECT_EQ(hit.normal, (Vec3{-1, 0, 0}));
  EXPECT_FALSE(intersect(sphere, {{-5, 1, 0}, {-1, 0, 0}}, 100, hit));
  EXPECT_FALSE(intersect(sphere, {{-5, 3.01, 0}, {1, 0, 0}}, 100, hit));
  EXPECT_FALSE(intersect(sphere, {{0, 1, 0}, {1, 0, 0}}, 100, hit));

  const Solid box{.kind = SolidKind::box, .center = {0, 0, 0}, .size = {1, 2, 3}};
  ASSERT_TRUE(intersect(box, {{0.5, 1.5, 10}, {0, 0, -1}}, 100, hit));
  EXPECT_DOUBLE_EQ(hit.t, 7);
  EXPECT_EQ(hit.normal, (Vec3{0, 0, 1}));
  EXPECT_EQ(hit.face, 5);
  EXPECT_FALSE(intersect(box, {{1.5, 1.5, 10}, {0, 0, -1}}, 100, hit));
  EXPECT_FALSE(intersect(box, {{0.5, 1.5, 10}, {0, 0, 1}}, 100, hit));

  const Solid cylinder{.kind = SolidKind::cylinder, .center = {0, 0, 0}, .size = {1, 2, 0}};
  ASSERT_TRUE(intersect(cylinder, {{-4, 1, 0}, {1, 0, 0}}, 100, hit));
  EXPECT_DOUBLE_EQ(hit.t, 3);
  EXPECT_EQ(hit.face, 0);
  ASSERT_TRUE(intersect(cylinder, {{0.5, 9, 0}, {0, -1, 0}}, 100, hit));
  EXPECT_DOUBLE_EQ(hit.t, 7);
  EXPECT_EQ(hit.normal, (Vec3{0, 1, 0}));
  ASSERT_TRUE(intersect(cylinder, {{0.5, -9, 0}, {0, 1, 0}}, 100, hit));
  EXPECT_EQ(hit.face, 2);
  EXPECT_FALSE(intersect(cylinder, {{-4, 2.1, 0}, {1, 0, 0}}, 100, hit));
  EXPECT_FALSE(intersect(cylinder, {{1.1, 9, 0}, {0, -1, 0}}, 100, hit));
}

// Whether a point is inside a solid, by definition.
bool within(const Solid& solid, const Vec3& p) {
  const Vec3 own = solid.to_own(p - solid.center);
  switch (solid.kind) {
    case SolidKind::ground: return own.y < 0;
    case SolidKind::sphere: return length(own) < solid.size.x;
    case SolidKind::box:
      return std::abs(own.x) < solid.size.x && std::abs(own.y) < solid.size.y && std::abs(own.z) < solid.size.z;
    case SolidKind::cylinder: return std::hypot(own.x, own.z) < solid.size.x && std::abs(own.y) < solid.size.y;
  }
  return false;
}

TEST(Ray, AgreesWithSmallSteps) {
  Random random(11);
  const auto number = [&](double size) { return size * (2 * random.uniform() - 1); };
  int hits = 0, grazed = 0;
  for (int n = 0; n < 2000; ++n) {
    const double turn = number(3.0);
    const Solid solid{
        .kind = static_cast<SolidKind>(1 + random.below(3)),
        .center = {number(1), number(1), number(1)},
        .size = {0.3 + random.uniform(), 0.3 + random.uniform(), 0.3 + random.uniform()},
        .axes = {Vec3{std::cos(turn), 0, -std::sin(turn)}, Vec3{std::sin(turn), 0, std::cos(turn)}, Vec3{0, -1, 0}}};
    // Roughly towards the solid.
    const Vec3 origin{number(4), number(4), number(4)}, aim{number(1.2), number(1.2), number(1.2)};
    const Ray ray{origin, (solid.center + aim - origin) * (0.2 + random.uniform())};
    if (within(solid, ray.origin)) continue;
    Hit hit;
    const bool got = intersect(solid, ray, 8, hit);
    double entered = -1;
    for (double t = 0; t < 8 && entered < 0; t += 0.001)
      if (within(solid, ray.origin + ray.direction * t)) entered = t;
    // A ray may pass a corner between two steps.
    if (entered < 0) {
      grazed += got ? 1 : 0;
    } else {
      ASSERT_TRUE(got) << n;
      EXPECT_LE(hit.t, entered + 1e-9);
      EXPECT_GT(hit.t, entered - 0.0011);
      EXPECT_NEAR(length(hit.normal), 1, 1e-12);
      EXPECT_LT(dot(hit.normal, ray.direction), 0);
      EXPECT_FALSE(within(solid, ray.origin + ray.direction * (hit.t - 1e-9)));
      ++hits;
    }
  }
  EXPECT_GT(hits, 500);
  EXPECT_LT(grazed, 20);
}

TEST(Scenes, ASphereInTheMiddle) {
  Scene scene = level_scene();
  scene.objects.push_back(object_of(SolidKind::sphere, SceneClass::sphere, {0, 2, -6}, {1.5, 0, 0}));
  const Picture picture(scene, 33);
  const std::size_t middle = picture.at(16, 16);
  EXPECT_EQ(picture.label(middle), SceneClass::sphere);
  EXPECT_NEAR(picture.depth[middle], 4.5, 1e-6);
  expect_near(picture.normal(middle), {0, 0, -1}, 1e-6);
  // The light is at (−2, −3, 0) of the camera, the point at (0, 0, 4.5).
  EXPECT_NEAR(picture.reshading[middle], 4.5 / std::sqrt(4 + 9 + 4.5 * 4.5), 1e-6);
  // Seen under an angle whose sine is 1.5 / 6.
  const double half_width = std::tan(std::asin(0.25)) / scene.camera.tangent * 16.5;
  for (std::int64_t col = 0; col < 33; ++col) {
    const bool on = picture.label(picture.at(16, col)) == SceneClass::sphere;
    EXPECT_EQ(on, std::abs(static_cast<double>(col) - 16) < half_width) << col;
  }
  expect_near(picture.normal(picture.at(16, 20)), unit(picture.point(scene, 16, 20) - Vec3{0, 0, 6}), 1e-6);
}

TEST(Scenes, TheGroundFromAbove) {
  const Scene scene = level_scene();
  const Picture picture(scene, 64);
  for (std::int64_t row = 0; row < 64; ++row)
    for (const std::int64_t col : {0, 31, 63}) {
      const std::size_t n = picture.at(row, col);
      const double slope = (2 * (static_cast<double>(row) + 0.5) / 64 - 1) * scene.camera.tangent;
      const double depth = 2 / slope;
      const bool ground = slope > 0 && depth < kSceneFar;
      EXPECT_EQ(picture.label(n), ground ? SceneClass::ground : SceneClass::sky);
      EXPECT_NEAR(picture.depth[n], ground ? depth : kSceneFar, 1e-5);
      expect_near(picture.normal(n), ground ? Vec3{0, -1, 0} : Vec3{}, 1e-7);
      // The only edge is the horizon.
      const bool next_is_ground = row + 1 < 64 && picture.label(picture.at(row + 1, col)) == SceneClass::ground;
      EXPECT_EQ(picture.edges[n], !ground && next_is_ground ? 1 : 0);
      EXPECT_EQ(picture.reshading[n] > 0, ground);
    }
}

TEST(Scenes, CreasesAreEdges) {
  Scene scene = level_scene();
  scene.camera = look_at({3, 3, 3}, {0, 0.5, 0}, 0, 0.4);
  scene.objects.push_back(object_of(SolidKind::box, SceneClass::box, {0, 0.7, 0}, {0.7, 0.7, 0.7}));
  const Picture picture(scene, 64);
  std::set<int> faces;
  int creases = 0;
  for (std::int64_t row = 0; row < 63; ++row)
    for (std::int64_t col = 0; col < 63; ++col) {
      const std::size_t n = picture.at(row, col), right = picture.at(row, col + 1), below = picture.at(row + 1, col);
      if (picture.label(n) != SceneClass::box || picture.label(right) != SceneClass::box ||
          picture.label(below) != SceneClass::box)
        continue;
      const bool turns =
          dot(picture.normal(n), picture.normal(right)) < 0.5 || dot(picture.normal(n), picture.normal(below)) < 0.5;
      EXPECT_EQ(picture.edges[n], turns ? 1 : 0);
      creases += turns ? 1 : 0;
      const Vec3 world = scene.camera.right * picture.normal(n).x + scene.camera.down * picture.normal(n).y +
                         scene.camera.forward * picture.normal(n).z;
      faces.insert(static_cast<int>(std::lround(world.x + 2 * world.y + 4 * world.z)));
    }
  EXPECT_EQ(faces, (std::set<int>{1, 2, 4}));
  EXPECT_GT(creases, 20);
}

TEST(Scenes, ShadowsAndLambert) {
  Scene scene = level_scene();
  scene.camera = look_at({0, 6, 8}, {0, 0, 0}, 0, 0.5);
  scene.objects[0].texture.first = {0.5, 0.6, 0.7};
  scene.objects.push_back(object_of(SolidKind::sphere, SceneClass::sphere, {0, 3, 0}, {0.5, 0, 0}));
  scene.lights.push_back({.position = {0, 12, 0}, .color = {0.6, 0.5, 0.4}});
  scene.ambient = 0.25;
  const Picture picture(scene, 65);
  // A cone of light whose sine is 0.5 / 9 from the lamp: its circle on the ground.
  const double circle = 12 * std::tan(std::asin(0.5 / 9));
  int dark = 0, bright = 0;
  for (std::int64_t row = 0; row < 65; ++row)
    for (std::int64_t col = 0; col < 65; ++col) {
      const std::size_t n = picture.at(row, col);
      if (picture.label(n) != SceneClass::ground) continue;
      const Vec3 own = picture.point(scene, row, col);
      const Vec3 world =
          scene.camera.position + scene.camera.right * own.x + scene.camera.down * own.y + scene.camera.forward * own.z;
      const double away = std::hypot(world.x, world.z);
      if (std::abs(away - circle) < 1e-3) continue;
      const double cosine = away < circle ? 0 : 12 / std::hypot(12, away);
      (away < circle ? dark : bright)++;
      EXPECT_NEAR(picture.rgb[3 * n], 0.5 * (0.25 + 0.6 * cosine), 1e-5);
      EXPECT_NEAR(picture.rgb[3 * n + 1], 0.6 * (0.25 + 0.5 * cosine), 1e-5);
      EXPECT_NEAR(picture.rgb[3 * n + 2], 0.7 * (0.25 + 0.4 * cosine), 1e-5);
    }
  EXPECT_GT(dark, 10);
  EXPECT_GT(bright, 1000);
}

TEST(Scenes, TexturesDoNotChangeTheTruth) {
  Scene scene = random_scene(4, 0, 2);
  const Picture before(scene, 48);
  for (SceneObject& object : scene.objects) {
    object.texture.kind = SurfaceTexture::Kind::checker;
    object.texture.first = {0.9, 0.1, 0.1};
  }
  const Picture after(scene, 48);
  EXPECT_NE(before.rgb, after.rgb);
  EXPECT_EQ(before.depth, after.depth);
  EXPECT_EQ(before.normals, after.normals);
  EXPECT_EQ(before.reshading, after.reshading);
  EXPECT_EQ(before.edges, after.edges);
}

TEST(Scenes, RandomOnesAreConsistent) {
  std::set<int> seen;
  std::size_t fewest = 99, most = 0;
  for (std::int64_t n = 0; n < 60; ++n) {
    const Scene scene = random_scene(1, 0, n);
    fewest = std::min(fewest, scene.objects.size());
    most = std::max(most, scene.objects.size());
    EXPECT_GE(scene.lights.size(), 1U);
    EXPECT_LE(scene.lights.size(), 3U);
    for (const SceneObject& object : scene.objects) EXPECT_FALSE(within(object.solid, scene.camera.position));
    const Picture picture(scene, 32, 2);
    for (std::int64_t row = 0; row < 32; ++row)
      for (std::int64_t col = 0; col < 32; ++col) {
        const std::size_t p = picture.at(row, col);
        const bool sky = picture.label(p) == SceneClass::sky;
        seen.insert(picture.segmentation[p]);
        ASSERT_LT(picture.segmentation[p], kSceneClasses.size());
        for (std::size_t c = 0; c < 3; ++c) ASSERT_TRUE(picture.rgb[3 * p + c] >= 0 && picture.rgb[3 * p + c] <= 1);
        ASSERT_TRUE(picture.reshading[p] >= 0 && picture.reshading[p] <= 1);
        ASSERT_EQ(picture.depth[p] == static_cast<float>(kSceneFar), sky);
        ASSERT_GT(picture.depth[p], 0.3);
        if (sky) continue;
        ASSERT_NEAR(length(picture.normal(p)), 1, 1e-6);
        ASSERT_LT(dot(picture.normal(p), picture.point(scene, row, col)), 0);
        if (col + 1 == 32) continue;
        const std::size_t right = p + 1;
        ASSERT_TRUE(picture.segmentation[p] == picture.segmentation[right] || picture.edges[p] == 1);
        // On one plane the step from a pixel to the next lies in it.
        const bool flat = picture.label(p) == SceneClass::ground || picture.label(p) == SceneClass::box;
        if (!flat || picture.edges[p] == 1) continue;
        const Vec3 step = picture.point(scene, row, col + 1) - picture.point(scene, row, col);
        ASSERT_NEAR(dot(step, picture.normal(p)), 0, 1e-4);
      }
  }
  EXPECT_EQ(seen.size(), kSceneClasses.size());
  EXPECT_GE(fewest, 3U);
  EXPECT_LE(most, 8U);
}

bool equal_bytes(const Array& a, const Array& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

bool equal(const SceneData& a, const SceneData& b) {
  return equal_bytes(a.rgb, b.rgb) && equal_bytes(a.depth, b.depth) && equal_bytes(a.normals, b.normals) &&
         equal_bytes(a.reshading, b.reshading) && equal_bytes(a.segmentation, b.segmentation) &&
         equal_bytes(a.edges, b.edges);
}

TEST(Scenes, SeedsDecideAndThreadsDoNot) {
  const SceneOptions options{.seed = 5, .size = 32};
  const int before = default_threads();
  set_default_threads(1);
  const SceneData one = render_scenes(options, 0, 0, 6);
  set_default_threads(3);
  const SceneData three = render_scenes(options, 0, 0, 6);
  const SceneData later = render_scenes(options, 0, 4, 1);
  set_default_threads(before);
  EXPECT_TRUE(equal(one, three));
  EXPECT_EQ(one.rgb.shape(), (std::vector<std::int64_t>{6, 32, 32, 3}));
  EXPECT_EQ(std::memcmp(later.rgb.data(), one.rgb.data() + 4 * later.rgb.bytes(), later.rgb.bytes()), 0);
  EXPECT_FALSE(equal(one, render_scenes(options, 1, 0, 6)));
  EXPECT_FALSE(equal(one, render_scenes({.seed = 6, .size = 32}, 0, 0, 6)));
  EXPECT_EQ(render_scenes(options, 0, 0, 0).count(), 0);
}

TEST(Scenes, BadOptions) {
  EXPECT_THROW(render_scenes({.size = 7}, 0, 0, 1), Error);
  EXPECT_THROW(render_scenes({.size = 1 << 20}, 0, 0, 1), Error);
  EXPECT_THROW(render_scenes({.samples = 0}, 0, 0, 1), Error);
  EXPECT_THROW(render_scenes({}, 0, -1, 1), Error);
  EXPECT_THROW(render_scenes({}, 0, 0, -1), Error);
  EXPECT_THROW(render_scenes({}, 0, 0, std::int64_t{1} << 60), Error);
  EXPECT_THROW(render(Scene{}, 0, 1, {}), Error);
}

}  // namespace
}  // namespace rapt::tasks::test
