// Floating point in registers and small structures: n steps of five bodies that attract each other, with
// the masses and orbits of the Sun and the four giant planets (units: solar mass, astronomical unit, day).
#include "freestanding.h"

enum { kBodies = 5 };
struct Body {
  double position[3], velocity[3], mass;
};

// Positions and velocities of some day, rounded: the sum must be reproducible, not astronomy.
static const struct Body kStart[kBodies] = {
    {{0, 0, 0}, {0, 0, 0}, 1.0},
    {{4.841, -1.160, -0.1036}, {0.001660, 0.007699, -0.0000690}, 9.5479e-4},
    {{8.343, 4.125, -0.4035}, {-0.002767, 0.004998, 0.0000230}, 2.8588e-4},
    {{12.894, -15.111, -0.2233}, {0.002964, 0.002378, -0.0000297}, 4.3662e-5},
    {{15.379, -25.919, 0.1793}, {0.002681, 0.001628, -0.0000952}, 5.1514e-5}};
static struct Body bodies[kBodies];

static const double kGravity = 2.9591220828559e-4;  // AU^3 / (solar mass * day^2)

static void attract(struct Body* a, struct Body* b, double step_days) {
  double apart[3];
  double square = 0;
  for (int i = 0; i < 3; ++i) {
    apart[i] = a->position[i] - b->position[i];
    square += apart[i] * apart[i];
  }
  const double pull = kGravity * step_days / (square * __builtin_sqrt(square));
  for (int i = 0; i < 3; ++i) {
    a->velocity[i] -= apart[i] * b->mass * pull;
    b->velocity[i] += apart[i] * a->mass * pull;
  }
}

static void step(double step_days) {
  for (int i = 0; i < kBodies; ++i)
    for (int j = i + 1; j < kBodies; ++j) attract(&bodies[i], &bodies[j], step_days);
  for (int i = 0; i < kBodies; ++i)
    for (int j = 0; j < 3; ++j) bodies[i].position[j] += step_days * bodies[i].velocity[j];
}

double EXPORT(run)(int32_t n) {
  for (int i = 0; i < kBodies; ++i) bodies[i] = kStart[i];
  for (int32_t i = 0; i < n; ++i) step(1.0);
  double sum = 0;
  for (int i = 0; i < kBodies; ++i)
    for (int j = 0; j < 3; ++j) sum += bodies[i].position[j] * (double)(i + 2 * j + 1);
  return sum;
}
