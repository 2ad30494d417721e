#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tasks/ray.h"
#include "tensor/array.h"

// Ray-cast scenes by seed, with exact ground truth at every pixel for several tasks.
namespace rapt::inline v1::tasks {

enum class SceneClass : std::uint8_t { sky, ground, wall, sphere, box, cylinder };
inline constexpr std::array<std::string_view, 6> kSceneClasses{"sky", "ground", "wall", "sphere", "box", "cylinder"};

using SceneColor = std::array<double, 3>;

// A pattern in space, in a solid's own frame.
struct SurfaceTexture {
  enum class Kind : std::uint8_t { plain, checker, stripes, noise };
  Kind kind = Kind::plain;
  SceneColor first{0.7, 0.7, 0.7};
  SceneColor second{0.3, 0.3, 0.3};
  double period = 0.5;
  Vec3 direction{1, 0, 0};  // across stripes
  std::uint64_t seed = 0;   // of noise
};

struct SceneObject {
  Solid solid;
  SceneClass label = SceneClass::sphere;
  SurfaceTexture texture;
};

struct SceneLight {
  Vec3 position;
  SceneColor color{1, 1, 1};
};

// A pinhole. Its frame: x to the right, y down, z along the view axis; all unit and at right angles.
struct SceneCamera {
  Vec3 position;
  Vec3 right{1, 0, 0};
  Vec3 down{0, -1, 0};
  Vec3 forward{0, 0, -1};
  double tangent = 0.5;  // of half the angle of view

  Vec3 to_own(const Vec3& v) const { return {dot(v, right), dot(v, down), dot(v, forward)}; }
  // Through a point of the picture, 0 to 1 from the left and from the top. t is the depth.
  Ray ray(double across, double from_top) const;
};

// A camera at `position` that looks at `target`, rotated by `roll` about its axis.
SceneCamera look_at(const Vec3& position, const Vec3& target, double roll, double tangent);

struct Scene {
  std::vector<SceneObject> objects;  // the ground among them
  std::vector<SceneLight> lights;
  SceneCamera camera;
  double ambient = 0.3;
  SceneColor sky_low{0.8, 0.85, 0.9};
  SceneColor sky_high{0.4, 0.6, 0.9};
};

// Anything farther away is sky, whose depth is this.
inline constexpr double kSceneFar = 30;
// In the camera's frame: above it, to the left. Reshading is as if this were the only light.
inline constexpr Vec3 kReshadingLight{-2, -3, 0};

// Ground, three to six solids that do not touch, perhaps a wall behind them, one to three lights. Scene n of one seed and
// part is always the same; parts (training, test …) share none.
Scene random_scene(std::uint64_t seed, int part, std::int64_t n);

// Where the pixels of one picture of size × size go; what is null is not rendered.
struct ScenePixels {
  float* rgb = nullptr;                  // [S, S, 3], 0 to 1: Lambert, ambient light, shadows
  std::uint8_t* segmentation = nullptr;  // [S, S], SceneClass
  float* depth = nullptr;                // [S, S], along the view axis; sky: kSceneFar
  float* normals = nullptr;              // [S, S, 3], in the camera's frame, unit; sky: 0
  std::uint8_t* edges = nullptr;         // [S, S], 1 where the surface to the right or below is another one
  float* reshading = nullptr;            // [S, S], max(0, normal · light) without textures and shadows; sky: 0
};

// All but rgb are of the ray through the pixel's middle; rgb is the mean of samples² rays.
void render(const Scene& scene, std::int64_t size, int samples, const ScenePixels& out);

struct SceneOptions {
  std::uint64_t seed = 1;
  std::int64_t size = 64;  // 8 to 512
  int samples = 2;         // 1 to 8
};

// Scenes first … first + count − 1 of a part, rendered.
struct SceneData {
  Array rgb, depth, normals, reshading;  // f32
  Array segmentation, edges;             // u8

  std::int64_t count() const { return rgb.shape()[0]; }
  std::int64_t size() const { return rgb.shape()[1]; }
};

SceneData render_scenes(const SceneOptions& options, int part, std::int64_t first, std::int64_t count);

}  // namespace rapt::inline v1::tasks
