#include "tasks/ray.h"

#include <algorithm>
#include <limits>

namespace rapt::inline v1::tasks {
namespace {

bool hit_ground(const Solid& solid, const Ray& ray, double limit, Hit& hit) {
  const Vec3& up = solid.axes[1];
  const double height = dot(ray.origin - solid.center, up), fall = dot(ray.direction, up);
  if (height <= 0 || fall >= 0) return false;
  const double t = -height / fall;
  if (t >= limit) return false;
  hit = {t, up, 0};
  return true;
}

// The smaller root of a t² + 2 b t + c = 0, where the ray comes from outside.
bool first_root(double a, double b, double c, double& t) {
  const double under = b * b - a * c;
  if (b >= 0 || c <= 0 || under < 0) return false;
  // Not (−b − √)/a, which cancels for small solids far away.
  t = c / (-b + std::sqrt(under));
  return true;
}

bool hit_sphere(const Solid& solid, const Ray& ray, double limit, Hit& hit) {
  const Vec3 from = ray.origin - solid.center;
  const double radius = solid.size.x;
  double t = 0;
  if (!first_root(dot(ray.direction, ray.direction), dot(from, ray.direction), dot(from, from) - radius * radius, t) ||
      t >= limit)
    return false;
  hit = {t, unit(from + ray.direction * t), 0};
  return true;
}

bool hit_box(const Solid& solid, const Ray& ray, double limit, Hit& hit) {
  const Vec3 from = solid.to_own(ray.origin - solid.center), along = solid.to_own(ray.direction);
  const std::array<double, 3> p{from.x, from.y, from.z}, d{along.x, along.y, along.z};
  const std::array<double, 3> half{solid.size.x, solid.size.y, solid.size.z};
  double enter = 0, leave = limit;
  int face = -1;
  for (int n = 0; n < 3; ++n) {
    const auto k = static_cast<std::size_t>(n);
    if (d[k] == 0) {
      if (std::abs(p[k]) >= half[k]) return false;
      continue;
    }
    const double side = d[k] > 0 ? -half[k] : half[k];
    const double in = (side - p[k]) / d[k], out = (-side - p[k]) / d[k];
    if (in > enter) enter = in, face = 2 * n + (d[k] > 0 ? 0 : 1);
    leave = std::min(leave, out);
  }
  if (face < 0 || enter >= leave) return false;
  const Vec3& axis = solid.axes[static_cast<std::size_t>(face / 2)];
  hit = {enter, face % 2 == 0 ? -axis : axis, face};
  return true;
}

bool hit_cylinder(const Solid& solid, const Ray& ray, double limit, Hit& hit) {
  const Vec3 p = solid.to_own(ray.origin - solid.center), d = solid.to_own(ray.direction);
  const double radius = solid.size.x, half = solid.size.y;
  double t = 0;
  if (first_root(d.x * d.x + d.z * d.z, p.x * d.x + p.z * d.z, p.x * p.x + p.z * p.z - radius * radius, t) &&
      t < limit && std::abs(p.y + d.y * t) <= half) {
    hit = {t, unit(solid.from_own({p.x + d.x * t, 0, p.z + d.z * t})), 0};
    return true;
  }
  // A ray can enter only through the cap on its side.
  if (std::abs(p.y) <= half || p.y * d.y >= 0) return false;
  const double side = p.y > 0 ? half : -half;
  t = (side - p.y) / d.y;
  const double x = p.x + d.x * t, z = p.z + d.z * t;
  if (t >= limit || x * x + z * z > radius * radius) return false;
  hit = {t, p.y > 0 ? solid.axes[1] : -solid.axes[1], p.y > 0 ? 1 : 2};
  return true;
}

}  // namespace

bool intersect(const Solid& solid, const Ray& ray, double limit, Hit& hit) {
  switch (solid.kind) {
    case SolidKind::ground: return hit_ground(solid, ray, limit, hit);
    case SolidKind::sphere: return hit_sphere(solid, ray, limit, hit);
    case SolidKind::box: return hit_box(solid, ray, limit, hit);
    case SolidKind::cylinder: return hit_cylinder(solid, ray, limit, hit);
  }
  return false;
}

}  // namespace rapt::inline v1::tasks
