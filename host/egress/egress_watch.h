// Who hears of the requests that the egress sends, and traces them.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace membrane::host {

class EgressWatch {
 public:
  virtual ~EgressWatch() = default;
  // A request is about to leave; each redirect is another. Method and host are those of the grant's words, so that neither has
  // anything of the program's choice: "GET", "*.example.org". Gives its number, and into `traceparent` what it carries where
  // the grant says so; "" for nothing.
  virtual uint64_t leaves(std::string_view method, std::string_view host, std::string& traceparent) = 0;
  // Its answer came, with this status; 0: none came.
  virtual void is_over(uint64_t number, int status) = 0;
};

}  // namespace membrane::host
