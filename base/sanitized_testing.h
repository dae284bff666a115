// Whether this build has sanitizers: tests then do less slow work, and take no measurements.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MEMBRANE_IS_SANITIZED 1
#elif defined(__has_feature)  // clang's spelling
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MEMBRANE_IS_SANITIZED 1
#endif
#endif
#ifndef MEMBRANE_IS_SANITIZED
#define MEMBRANE_IS_SANITIZED 0
#endif

#if defined(__SANITIZE_THREAD__)
#define MEMBRANE_IS_THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MEMBRANE_IS_THREAD_SANITIZED 1
#endif
#endif
#ifndef MEMBRANE_IS_THREAD_SANITIZED
#define MEMBRANE_IS_THREAD_SANITIZED 0
#endif

namespace membrane {

inline constexpr bool kIsSanitized = MEMBRANE_IS_SANITIZED;
inline constexpr bool kIsThreadSanitized = MEMBRANE_IS_THREAD_SANITIZED;

}  // namespace membrane
