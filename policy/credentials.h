// What a report hides of a request: values that give access, as credentials do.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace membrane::policy {

inline constexpr std::string_view kHiddenCredential = "***";

// Whether a header, or a parameter of a URL, has a credential as its value by its name: Authorization,
// Proxy-Authorization, Cookie, and names that are, or end in, token, key, secret or password as a word.
bool is_name_of_credential(std::string_view name);

// The URL with `***` for user information and for the values of such parameters, in its query and its fragment. The
// text may be malformed.
std::string without_credentials(std::string_view url);

// JSON with `***` for the texts of such members, at any depth, as far as it makes at least `most_bytes`. The text may
// be malformed.
std::string json_without_credentials(std::string_view json, size_t most_bytes);

}  // namespace membrane::policy
