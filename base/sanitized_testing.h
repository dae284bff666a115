// Whether this build watches memory or threads: then tests do less of what takes long, and do not measure.
#pragma once

namespace membrane {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

}  // namespace membrane
