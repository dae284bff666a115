/* Where a session's time and randomness come from: the C form of sources.hpp. By default the policy decides.
 *
 *   membrane_sources sources = {.size = sizeof sources, .clock = MEMBRANE_SOURCE_VIRTUAL, .clock_start_ms = 1767258600000,
 *                               .timezone = "Europe/Berlin"};
 *   membrane_session_options options = {.size = sizeof options, .sources = &sources};
 */
#ifndef MEMBRANE_SOURCES_H
#define MEMBRANE_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum membrane_source {
  MEMBRANE_SOURCE_DEFAULT = 0, /* clock and entropy: the policy's; sleep: as the clock */
  MEMBRANE_SOURCE_VIRTUAL = 1, /* clock: from clock_start_ms; sleep: at once; entropy: from the seed */
  MEMBRANE_SOURCE_REAL = 2,    /* the machine's */
  MEMBRANE_SOURCE_ASKED = 3    /* the function's, which must be there */
} membrane_source;

/* Whether the turn must end: it was cancelled, or its time is up. `turn` is the function's argument. */
typedef bool (*membrane_must_stop)(void* turn);

/* Functions get the user_data of the session's options, and are called on the thread of the turn. False: the program's
 * call fails. */
typedef struct membrane_sources {
  size_t size; /* sizeof(membrane_sources): fields that a caller does not know are 0 */
  membrane_source clock;
  int64_t clock_start_ms; /* since 1970, in UTC: 0 to the end of year 9999 */
  bool (*now)(void* user_data, int64_t* now_ns);
  const char* timezone; /* "Europe/Berlin", "+02:00"; NULL: UTC */
  membrane_source sleep;
  /* Returns when the time has passed, or soon after must_stop(turn) returns true. */
  bool (*pass)(void* user_data, uint64_t duration_ns, membrane_must_stop must_stop, void* turn);
  membrane_source entropy;
  uint64_t seed;
  const uint8_t* seed_bytes; /* in its place, where seed_size is not 0 */
  size_t seed_size;
  bool (*fill)(void* user_data, uint8_t* bytes, size_t count);
} membrane_sources;

#ifdef __cplusplus
}
#endif

#endif
