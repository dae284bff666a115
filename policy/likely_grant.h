// The grant that a person who wrote a wrong one probably meant.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>

namespace membrane::policy {

// For a text that --allow refuses: "http:example.org" for "example.org", "fs:write:./data" for "fs:rw:./data". "" if
// nothing is likely. It may be refused, too: try it before it is suggested.
std::string likely_grant(std::string_view text);

}  // namespace membrane::policy
