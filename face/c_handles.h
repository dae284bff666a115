// What the handles of the C face hold, and what its functions share.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "membrane/membrane.h"
#include "membrane/session.h"
#include "membrane/session.hpp"

struct membrane_error {
  membrane::Failure failure;
};

struct membrane_policy {
  membrane::Policy policy{};
  std::string text{};  // what explain gave last
};

struct membrane_budget {
  membrane::Budget budget;
};

struct membrane_sandbox {
  membrane::Sandbox sandbox;
  std::vector<std::pair<std::string, std::string>> environment{};
};

// A call that waits, as the C face shows it.
struct WaitingForC {
  membrane::Report::Waiting call{};
  std::vector<membrane_value> arguments{};
  membrane_waiting_call shown{};
};

struct membrane_flows {
  membrane::Flows flows{};
};

struct membrane_receipts {
  membrane::Receipts receipts;
};

struct membrane_report {
  membrane::Report report;
  std::optional<membrane_error> error{};
  std::optional<membrane_error> unsealed{};  // that was asked for
  std::string json{};
  std::string text{};
  membrane_function_call waiting{};  // that was asked for last
  WaitingForC waiting_call{};
};

namespace membrane::face {

inline void give(membrane_error** error, Failure failure) {
  if (error != nullptr) *error = new (std::nothrow) membrane_error{std::move(failure)};
}

// The result of `body`; T{} and an error when it throws, also for lack of memory.
template <typename T, typename Body>
T guarded(membrane_error** error, Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    try {
      give(error, {"exhausted", "the system has no memory left", "", {}, {}});
    } catch (...) {
      if (error != nullptr) *error = nullptr;  // then the caller has to do without the words
    }
  } catch (...) {
    if (error != nullptr) *error = nullptr;
  }
  return T{};
}

inline std::string_view view(const char* text, size_t size) {
  if (text == nullptr) return {};
  return {text, size == 0 ? std::strlen(text) : size};
}
inline std::string_view view(const char* text) { return view(text, 0); }

inline const char* sized(const std::string& text, size_t* size) {
  if (size != nullptr) *size = text.size();
  return text.c_str();
}

// A struct of a caller that knows fewer fields than this library, or more.
template <typename T>
T as_known(const T* given) {
  T known{};
  if (given != nullptr) std::memcpy(&known, given, std::min(given->size, sizeof known));
  return known;
}

// Null: none. (c_agents.cc)
void add_agents(const membrane_agents* given, void* user_data, SessionOptions& options);

inline bool succeeded(const membrane::Expected<void>& done, membrane_error** error) {
  if (!done) give(error, done.error());
  return done.has_value();
}

inline membrane_policy* handle_of(membrane::Expected<membrane::Policy> made, membrane_error** error) {
  if (made) return new membrane_policy{std::move(*made)};
  give(error, std::move(made).error());
  return nullptr;
}

// A copy that the caller frees with membrane_bytes_free.
inline uint8_t* copied(std::string_view bytes, size_t* size) {
  auto* const copy = static_cast<uint8_t*>(std::malloc(std::max<size_t>(bytes.size(), 1)));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, bytes.data(), bytes.size());
  if (size != nullptr) *size = bytes.size();
  return copy;
}

inline uint8_t* dumped(const membrane::Expected<std::vector<uint8_t>>& bytes, size_t* size,
                       membrane_error** error) {
  if (bytes) return copied({reinterpret_cast<const char*>(bytes->data()), bytes->size()}, size);
  give(error, bytes.error());
  return nullptr;
}

template <typename Run>
membrane_report* reported(Run run) {
  return guarded<membrane_report*>(nullptr, [&] {
    auto made = std::make_unique<membrane_report>(run());
    if (!made->report.failures.empty()) made->error.emplace(made->report.failures.front());
    return made.release();
  });
}

}  // namespace membrane::face
