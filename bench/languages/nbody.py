"""Five bodies that attract each other: arithmetic with floats, attributes of small objects."""

import math


class Body:
    __slots__ = ("x", "y", "z", "vx", "vy", "vz", "mass")

    def __init__(self, place, speed, mass):
        self.x, self.y, self.z = place
        self.vx, self.vy, self.vz = speed
        self.mass = mass


def bodies():
    found = [Body((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 40.0)]
    for number in range(1, 5):
        angle, far = number * 1.3, number * 5.0
        speed = math.sqrt(40.0 / far)
        found.append(Body((far * math.cos(angle), far * math.sin(angle), 0.1 * number),
                          (-speed * math.sin(angle), speed * math.cos(angle), 0.0), 0.03 / number))
    return found


def advance(pairs, system, dt, steps):
    for _ in range(steps):
        for one, other in pairs:
            dx, dy, dz = one.x - other.x, one.y - other.y, one.z - other.z
            pull = dt / (dx * dx + dy * dy + dz * dz) ** 1.5
            of_one, of_other = one.mass * pull, other.mass * pull
            one.vx -= dx * of_other
            one.vy -= dy * of_other
            one.vz -= dz * of_other
            other.vx += dx * of_one
            other.vy += dy * of_one
            other.vz += dz * of_one
        for body in system:
            body.x += dt * body.vx
            body.y += dt * body.vy
            body.z += dt * body.vz


def energy(pairs, system):
    total = sum(body.mass * (body.vx ** 2 + body.vy ** 2 + body.vz ** 2) / 2 for body in system)
    for one, other in pairs:
        dx, dy, dz = one.x - other.x, one.y - other.y, one.z - other.z
        total -= one.mass * other.mass / math.sqrt(dx * dx + dy * dy + dz * dz)
    return total


system = bodies()
pairs = [(one, other) for number, one in enumerate(system) for other in system[number + 1:]]
advance(pairs, system, 0.005, 80_000)
print(f"{energy(pairs, system):.9f}")
