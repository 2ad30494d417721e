#pragma once

#include <array>
#include <cmath>
#include <cstdint>

// Exact intersections of rays with the simple solids of the scenes.
namespace rapt::inline v1::tasks {

struct Vec3 {
  double x = 0, y = 0, z = 0;

  friend Vec3 operator+(const Vec3& a, const Vec3& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
  friend Vec3 operator-(const Vec3& a, const Vec3& b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
  friend Vec3 operator*(const Vec3& a, double s) { return {a.x * s, a.y * s, a.z * s}; }
  friend Vec3 operator-(const Vec3& a) { return {-a.x, -a.y, -a.z}; }
  bool operator==(const Vec3&) const = default;
};

inline double dot(const Vec3& a, const Vec3& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Vec3 cross(const Vec3& a, const Vec3& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}
inline double length(const Vec3& a) { return std::sqrt(dot(a, a)); }
inline Vec3 unit(const Vec3& a) { return a * (1 / length(a)); }

// Points are origin + t·direction with t > 0; the direction may have any length.
struct Ray {
  Vec3 origin;
  Vec3 direction;
};

enum class SolidKind : std::uint8_t { ground, sphere, box, cylinder };

// The ground is the plane through `center` across axis 1. A box has its half sizes along its axes; a sphere has the
// radius size.x; a cylinder the radius size.x around axis 1 and the half height size.y, with both caps.
struct Solid {
  SolidKind kind = SolidKind::sphere;
  Vec3 center{};
  Vec3 size{1, 1, 1};
  std::array<Vec3, 3> axes{Vec3{1, 0, 0}, Vec3{0, 1, 0}, Vec3{0, 0, 1}};  // unit, at right angles

  Vec3 to_own(const Vec3& v) const { return {dot(v, axes[0]), dot(v, axes[1]), dot(v, axes[2])}; }
  Vec3 from_own(const Vec3& v) const { return axes[0] * v.x + axes[1] * v.y + axes[2] * v.z; }
};

struct Hit {
  double t = 0;
  Vec3 normal;   // unit, outwards
  int face = 0;  // another one across every crease: of a box 0 … 5, of a cylinder 0 (side), 1 and 2 (caps)
};

// Where the ray enters the solid, if that is before `limit`. A ray that starts inside a solid does not hit it.
bool intersect(const Solid& solid, const Ray& ray, double limit, Hit& hit);

}  // namespace rapt::inline v1::tasks
