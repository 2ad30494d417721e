"""Ray-cast scenes with exact truth at every pixel, all scenes at once: the same scenes as `rapt train scenes` has.

Numbers are drawn as src/tasks/scenes.cc draws them, from the same generator, so scene n of a seed and part is the same
scene; rays are then cast for all scenes together, in double precision, on any device PyTorch computes on.
"""

import math

import torch

CLASSES = ("sky", "ground", "wall", "sphere", "box", "cylinder")
SPHERE, BOX, CYLINDER = 0, 1, 2  # kinds of solids; the ground is apart
FAR = 30.0
RESHADING_LIGHT = (-2.0, -3.0, 0.0)
MOST_SOLIDS, MOST_LIGHTS = 7, 3
MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class Random:
    """Random numbers by counting, with the bits of src/tensor/random.cc."""

    def __init__(self, *ids):
        state = mix((len(ids) + STEP) & MASK)
        for one in ids:
            state = mix(mix((state + STEP) & MASK) ^ mix((one + STEP) & MASK))
        self.start, self.twist = mix((state + STEP) & MASK), mix((state + 2 * STEP) & MASK)
        self.position = 0

    def next(self):
        number = mix((mix((self.start + self.position * STEP) & MASK) + self.twist) & MASK)
        self.position += 1
        return number

    def uniform(self):
        return (self.next() >> 11) * 2.0**-53

    def between(self, low, high):
        return low + (high - low) * self.uniform()

    def below(self, n):
        least = (1 << 64) % n  # so many numbers are one too many for some results
        while True:
            number = self.next()
            if number >= least:
                return number % n


def _texture(random):
    kind = random.below(4)
    first, second = ([random.between(0.15, 0.95) for _ in range(3)] for _ in range(2))
    period = random.between(0.25, 0.7)
    turn, tilt = random.between(0, 2 * math.pi), random.between(-0.6, 0.6)
    direction = (math.cos(turn), tilt, math.sin(turn))
    length = math.sqrt(sum(x * x for x in direction))
    return {"kind": kind, "first": first, "second": second, "period": period,
            "direction": [x / length for x in direction], "seed": random.next()}  # fmt: skip


def _turned(yaw):
    c, s = math.cos(yaw), math.sin(yaw)
    return [[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]]


def _solid(random):
    texture, axes = _texture(random), _turned(random.between(0, 2 * math.pi))
    kind = random.below(3)
    if kind == SPHERE:
        size = [random.between(0.35, 0.95), 1.0, 1.0]
        height = size[0]
    elif kind == BOX:
        size = [random.between(0.3, 0.8), random.between(0.25, 0.9), random.between(0.3, 0.8)]
        height = size[1]
    else:
        size = [random.between(0.25, 0.65), random.between(0.3, 0.9), 0.0]
        height = size[1]
        if random.below(3) == 0:  # it lies on its side
            axes, height = [axes[0], axes[2], [-x for x in axes[1]]], size[0]
    return {"kind": kind, "label": 3 + kind, "size": size, "center": [0.0, height, 0.0], "axes": axes, "texture": texture}


def _room(solid):
    size = solid["size"]
    if solid["kind"] == BOX:
        return math.hypot(size[0], size[2])
    if solid["kind"] == CYLINDER:
        return size[0] if abs(solid["axes"][1][1]) > 0.5 else math.hypot(size[0], size[1])
    return size[0]


def _cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def _unit(a):
    length = math.sqrt(sum(x * x for x in a))
    return [x * (1 / length) for x in a]


def random_scene(seed, part, n):
    """Scene n of a seed and part (0 train, 1 valid, 2 test; further ones are free), as lists of numbers."""
    random = Random(seed, part, n, 0x7363656E6573)
    ground = _texture(random)
    ground["period"] *= 2
    azimuth, elevation = random.between(0, 2 * math.pi), math.radians(1) * random.between(9, 35)
    target = [random.between(-0.5, 0.5), random.between(0.3, 0.9), random.between(-0.5, 0.5)]
    towards = (math.cos(azimuth) * math.cos(elevation), math.sin(elevation), math.sin(azimuth) * math.cos(elevation))
    distance = random.between(4.6, 6.8)
    # The tool's compiler evaluates these two arguments from the right.
    tangent = math.tan(random.between(22, 30) * math.radians(1))
    roll = random.between(-5, 5) * math.radians(1)
    position = [t + w * distance for t, w in zip(target, towards)]
    forward = _unit([t - p for t, p in zip(target, position)])
    level = _unit(_cross(forward, (0.0, 1.0, 0.0)))
    below = _cross(forward, level)
    right = [a * math.cos(roll) + b * math.sin(roll) for a, b in zip(level, below)]
    scene = {
        "ground": ground,
        "solids": [],
        "position": position,
        "frame": [right, _cross(forward, right), forward],
        "tangent": tangent,
    }
    wanted, tries = 3 + random.below(4), 0
    while tries < 200 and len(scene["solids"]) < wanted:
        tries += 1
        solid = _solid(random)
        turn, away = random.between(0, 2 * math.pi), 2.6 * math.sqrt(random.uniform())
        center = solid["center"]
        center[0], center[2] = away * math.cos(turn), away * math.sin(turn)
        if math.hypot(position[0] - center[0], position[2] - center[2]) < _room(solid) + 1:
            continue
        apart = lambda other: math.hypot(other["center"][0] - center[0], other["center"][2] - center[2])
        if all(apart(other) > _room(other) + _room(solid) + 0.05 for other in scene["solids"]):
            scene["solids"].append(solid)
    if random.below(2) != 0:
        texture = _texture(random)
        texture["period"] *= 1.6
        size = [random.between(2.5, 7), random.between(0.8, 2.2), 0.12]
        away, distance = azimuth + math.pi + random.between(-0.4, 0.4), random.between(4.2, 6)
        axes = _turned(math.pi / 2 - away + random.between(-0.5, 0.5))
        center = [distance * math.cos(away), size[1], distance * math.sin(away)]
        scene["solids"].append({"kind": BOX, "label": 2, "size": size, "center": center, "axes": axes, "texture": texture})
    lights = 1 + random.below(3)
    scene["ambient"] = random.between(0.2, 0.38)
    shares = [random.between(0.4, 1) for _ in range(lights)]
    total = random.between(0.65, 0.95)
    scene["lights"] = []
    for share in shares:
        turn, height = random.between(0, 2 * math.pi), random.between(35, 75) * math.radians(1)
        distance, strength = random.between(8, 16), total * share / sum(shares)
        place = (math.cos(turn) * math.cos(height), math.sin(height), math.sin(turn) * math.cos(height))
        scene["lights"].append(([x * distance for x in place], [strength * random.between(0.9, 1.1) for _ in range(3)]))
    shade = random.between(0, 1)
    scene["sky"] = [
        [0.72 + 0.2 * shade, 0.8 + 0.05 * shade, 0.92 - 0.2 * shade],
        [0.25 + 0.2 * shade, 0.45, random.between(0.65, 0.95)],
    ]
    return scene


class _Scenes:
    """Many scenes as tensors [scenes, …]; solids that a scene does not have are marked so."""

    def __init__(self, scenes, device):
        number = lambda values: torch.tensor(values, dtype=torch.float64, device=device)
        signed = lambda seed: seed - (1 << 64) if seed >> 63 else seed
        empty = {
            "kind": SPHERE,
            "label": 0,
            "size": [0.0] * 3,
            "center": [0.0] * 3,
            "axes": _turned(0.0),
            "texture": scenes[0]["ground"],
        }
        solids = [scene["solids"] + [empty] * (MOST_SOLIDS - len(scene["solids"])) for scene in scenes]
        dark = ([0.0, 1.0, 0.0], [0.0] * 3)
        lights = [scene["lights"] + [dark] * (MOST_LIGHTS - len(scene["lights"])) for scene in scenes]
        of = lambda key: number([[solid[key] for solid in row] for row in solids])
        self.kind, self.label, self.size, self.center, self.axes = (
            of("kind"),
            of("label").long(),
            of("size"),
            of("center"),
            of("axes"),
        )
        self.there = torch.arange(MOST_SOLIDS, device=device) < number([len(scene["solids"]) for scene in scenes])[:, None]
        textures = [
            [solid["texture"] for solid in row] + [scene["ground"]] for row, scene in zip(solids, scenes)
        ]  # the ground is last
        of = lambda key: number([[texture[key] for texture in row] for row in textures])
        self.pattern, self.first, self.second, self.period, self.across = (
            of(key) for key in ("kind", "first", "second", "period", "direction")
        )
        self.seed = torch.tensor([[signed(texture["seed"]) for texture in row] for row in textures], device=device)
        self.position, self.frame, self.tangent = (
            number([scene[key] for scene in scenes]) for key in ("position", "frame", "tangent")
        )
        self.ambient, self.sky = (number([scene[key] for scene in scenes]) for key in ("ambient", "sky"))
        self.lamps = number([[lamp[0] for lamp in row] for row in lights])
        self.colors = number([[lamp[1] for lamp in row] for row in lights])

    def rays(self, across, from_top):
        """Directions [scenes, rays, 3] through points of the picture."""
        right, down, forward = self.frame.unbind(1)
        x, y = ((2 * t - 1)[None, :, None] * self.tangent[:, None, None] for t in (across, from_top))
        return forward[:, None] + right[:, None] * x + down[:, None] * y

    def solids(self, origin, direction, limit):
        """(t, normal, face) of the nearest solid before `limit`, its place, and whether there is one; [scenes, rays, …]."""
        away = origin[:, :, None] - self.center[:, None]  # [scenes, rays, solids, 3]
        own = lambda v: torch.einsum("nrki,nkai->nrka", v, self.axes)
        p, d = own(away), own(direction[:, :, None].expand_as(away))
        size = self.size[:, None]
        kind = self.kind[:, None].expand(p.shape[:3])
        sphere, sphere_normal = _sphere(p, d, size)
        box, box_normal, box_face = _box(p, d, size)
        cylinder, cylinder_normal, cylinder_face = _cylinder(p, d, size)
        pick = lambda a, b, c: torch.where(_like(kind == SPHERE, a), a, torch.where(_like(kind == BOX, b), b, c))
        t = pick(sphere, box, cylinder).masked_fill(~self.there[:, None], math.inf)
        t, place = torch.where(t < limit, t, math.inf).min(-1)
        normal = _chosen(pick(sphere_normal, box_normal, cylinder_normal), place)
        axes = self.axes.gather(1, place[:, :, None, None].expand(-1, -1, 3, 3))
        face = _chosen(pick(torch.zeros_like(box_face), box_face, cylinder_face), place)
        return t, torch.einsum("nra,nrai->nri", normal, axes), face, place, t < math.inf

    def trace(self, direction):
        """(t, normal, face, object): −1 is sky, MOST_SOLIDS the ground."""
        origin = self.position[:, None].expand_as(direction)
        fall = direction[..., 1]
        ground = torch.where((fall < 0) & (origin[..., 1] > 0), -origin[..., 1] / fall, math.inf)
        t, normal, face, place, hit = self.solids(origin, direction, FAR)
        on_ground = (ground < FAR) & ~(t < ground)
        up = torch.tensor([0.0, 1.0, 0.0], dtype=t.dtype, device=t.device)
        place = torch.where(on_ground, MOST_SOLIDS, torch.where(hit, place, -1))
        return (
            torch.where(on_ground, ground, t),
            torch.where(on_ground[..., None], up, normal),
            face.masked_fill(on_ground, 0),
            place,
        )

    def color(self, direction, t, normal, place, size):
        unit = direction / direction.norm(dim=-1, keepdim=True)
        height = (unit[..., 1:2] / 0.5).clamp(0, 1)
        sky = self.sky[:, None, 0] + (self.sky[:, 1] - self.sky[:, 0])[:, None] * height
        is_sky = place < 0
        t = t.masked_fill(is_sky, 1.0)
        point = self.position[:, None] + direction * t[..., None]
        light = self.ambient[:, None, None].expand_as(point).clone()
        for n in range(MOST_LIGHTS):
            to_lamp = self.lamps[:, n, None] - point
            cosine = (normal * to_lamp).sum(-1) / to_lamp.norm(dim=-1)
            shaded = self.solids(point + normal * 1e-7, to_lamp, 1.0)[4]
            strength = torch.where((cosine > 0) & ~shaded, cosine, 0.0)
            light = light + self.colors[:, n, None] * strength[..., None]
        albedo = self.albedo(unit, t, normal, point, place.clamp_min(0), size)
        return torch.where(is_sky[..., None], sky, (albedo * light).clamp_max(1.0))

    def albedo(self, unit, t, normal, point, place, size):
        of = lambda values: values.gather(
            1, place.reshape(*place.shape, *([1] * (values.dim() - 2))).expand(-1, -1, *values.shape[2:])
        )
        identity = torch.eye(3, dtype=t.dtype, device=t.device).expand(len(t), 1, 3, 3)
        center = of(torch.cat([self.center, torch.zeros_like(self.center[:, :1])], 1))
        axes = of(torch.cat([self.axes, identity], 1))
        p = torch.einsum("nri,nrai->nra", point - center, axes)
        pattern, period = of(self.pattern), of(self.period)
        odd = lambda x: torch.floor(x / period).long() & 1
        shift = torch.tensor([0.013, 0.017, 0.019], dtype=t.dtype, device=t.device)
        x, y, z = (p + shift).unbind(-1)
        checker = ((odd(x) + odd(y) + odd(z)) & 1).double()
        stripes = odd((p * of(self.across)).sum(-1)).double()
        seed, scaled = of(self.seed), p / period[..., None]
        noise = 0.65 * smooth_noise(seed, scaled) + 0.35 * smooth_noise(seed ^ 0x5BD1, scaled * 2.3)
        noise = (3 * (noise - 0.5) + 0.5).clamp(0, 1)
        share = torch.where(pattern == 1, checker, torch.where(pattern == 2, stripes, torch.where(pattern == 3, noise, 0.0)))
        slant = (-(unit * normal).sum(-1)).clamp_min(0.02)
        width = 2 * self.tangent[:, None] * t / (size * slant)
        faded = share + (0.5 - share) * (width / period - 0.5).clamp(0, 1)
        share = torch.where(pattern == 0, share, faded)[..., None]
        return of(self.first) + (of(self.second) - of(self.first)) * share


def _like(mask, values):
    return mask.reshape(*mask.shape, *([1] * (values.dim() - mask.dim())))


def _chosen(values, place):
    """values[…, solids, …] at each ray's own solid."""
    index = place.reshape(*place.shape, 1, *([1] * (values.dim() - 3))).expand(-1, -1, 1, *values.shape[3:])
    return values.gather(2, index).squeeze(2)


def _first_root(a, b, c):
    """The smaller root of a t² + 2 b t + c = 0 where the ray comes from outside, else infinite."""
    under = b * b - a * c
    hit = (b < 0) & (c > 0) & (under >= 0)
    return torch.where(hit, c / (-b + under.clamp_min(0).sqrt()), math.inf)


def _sphere(p, d, size):
    t = _first_root((d * d).sum(-1), (p * d).sum(-1), (p * p).sum(-1) - size[..., 0] ** 2)
    normal = p + d * torch.where(t < math.inf, t, 0.0)[..., None]
    return t, normal / normal.norm(dim=-1, keepdim=True).clamp_min(1e-300)


def _box(p, d, size):
    side = torch.where(d > 0, -size, size)
    moving = d != 0
    divisor = torch.where(moving, d, 1.0)
    enter = torch.where(moving, (side - p) / divisor, -math.inf)
    leave = torch.where(moving, (-side - p) / divisor, math.inf)
    missed = (~moving & (p.abs() >= size)).any(-1)
    t, axis = enter.max(-1)
    hit = (t > 0) & (t < leave.min(-1).values) & ~missed
    forwards = d.gather(-1, axis[..., None]).squeeze(-1) > 0
    normal = torch.nn.functional.one_hot(axis, 3).to(p.dtype) * torch.where(forwards, -1.0, 1.0)[..., None]
    return torch.where(hit, t, math.inf), normal, 2 * axis + (~forwards).long()


def _cylinder(p, d, size):
    radius, half = size[..., 0], size[..., 1]
    flat = torch.tensor([1.0, 0.0, 1.0], dtype=p.dtype, device=p.device)
    t = _first_root((d * d * flat).sum(-1), (p * d * flat).sum(-1), (p * p * flat).sum(-1) - radius**2)
    finite = torch.where(t < math.inf, t, 0.0)
    side = (t < math.inf) & ((p[..., 1] + d[..., 1] * finite).abs() <= half)
    normal = (p + d * finite[..., None]) * flat
    normal = normal / normal.norm(dim=-1, keepdim=True).clamp_min(1e-300)
    above = p[..., 1] > 0
    cap = (torch.where(above, half, -half) - p[..., 1]) / torch.where(d[..., 1] == 0, 1.0, d[..., 1])
    x, z = (p[..., n] + d[..., n] * cap for n in (0, 2))
    through = (p[..., 1].abs() > half) & (p[..., 1] * d[..., 1] < 0) & (x * x + z * z <= radius**2)
    up = torch.stack([torch.zeros_like(cap), torch.where(above, 1.0, -1.0), torch.zeros_like(cap)], -1)
    t = torch.where(side, t, torch.where(through, cap, math.inf))
    return t, torch.where(side[..., None], normal, up), torch.where(side, 0, torch.where(above, 1, 2))


def _lattice(seed, cell):
    """Well mixed bits of a lattice point as a number from 0 to 1; integers wrap around as those of 64 bits do."""
    h = seed
    for n in range(3):
        h = (h ^ cell[..., n]) * (STEP - (1 << 64))
        h = h ^ ((h >> 29) & ((1 << 35) - 1))
    return ((h >> 11) & ((1 << 53) - 1)).double() * 2.0**-53


def smooth_noise(seed, p):
    low = torch.floor(p)
    part = p - low
    part = part * part * (3 - 2 * part)
    cell, total = low.long(), 0.0
    for corner in range(8):
        bits = torch.tensor([corner & 1, corner >> 1 & 1, corner >> 2], device=p.device)
        weight = torch.where(bits.bool(), part, 1 - part).prod(-1)
        total = total + weight * _lattice(seed, cell + bits)
    return total


def render(seed, part, first, count, size=32, samples=2, device="cpu", together=64):
    """rgb [N, S, S, 3], segmentation, depth (sky: not a number), normals [N, S, S, 3], edges, reshading: f32 and u8."""
    at = torch.arange(size, device=device, dtype=torch.float64)
    found = {name: [] for name in ("rgb", "segmentation", "depth", "normals", "edges", "reshading")}
    for begin in range(first, first + count, together):
        scenes = _Scenes([random_scene(seed, part, n) for n in range(begin, min(begin + together, first + count))], device)
        batch, square = len(scenes.position), (len(scenes.position), size, size)
        grid = lambda dx, dy: (((at + dx) / size).repeat(size), ((at + dy) / size).repeat_interleave(size))
        direction = scenes.rays(*grid(0.5, 0.5))
        t, normal, face, place = scenes.trace(direction)
        sky = place < 0
        labels = (
            torch.cat([scenes.label, torch.ones_like(scenes.label[:, :1])], 1).gather(1, place.clamp_min(0)).masked_fill(sky, 0)
        )
        own = torch.einsum("nri,nai->nra", normal, scenes.frame).masked_fill(sky[..., None], 0)
        point = torch.einsum("nri,nai->nra", direction * t.masked_fill(sky, 0.0)[..., None], scenes.frame)
        to_light = torch.tensor(RESHADING_LIGHT, dtype=t.dtype, device=device) - point
        shade = ((own * to_light).sum(-1) / to_light.norm(dim=-1)).clamp_min(0).masked_fill(sky, 0)
        surface = torch.where(sky, -1, 8 * place + face).reshape(square)
        edge = torch.zeros(square, dtype=torch.bool, device=device)
        edge[:, :, :-1] |= surface[:, :, :-1] != surface[:, :, 1:]
        edge[:, :-1] |= surface[:, :-1] != surface[:, 1:]
        rgb = 0.0
        for i in range(samples):
            for j in range(samples):
                through = scenes.rays(*grid((j + 0.5) / samples, (i + 0.5) / samples))
                hit, facing, _, solid = scenes.trace(through)
                rgb = rgb + scenes.color(through, hit, facing, solid, size)
        depth = t.masked_fill(sky, math.nan)
        found["rgb"].append((rgb / samples**2).float().reshape(batch, size, size, 3))
        found["segmentation"].append(labels.to(torch.uint8).reshape(square))
        found["depth"].append(depth.float().reshape(square))
        found["normals"].append(own.float().reshape(batch, size, size, 3))
        found["edges"].append(edge.to(torch.uint8))
        found["reshading"].append(shade.float().reshape(square))
    return {name: torch.cat(parts) for name, parts in found.items()}
