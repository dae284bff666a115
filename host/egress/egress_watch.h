// Observes the requests that the egress sends, and traces them.
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
  // A request is about to leave; each redirect is a separate one. Method and host come from the grant's text, so
  // that the program chooses nothing in them: "GET", "*.example.org". Returns the request's number, and sets
  // `traceparent` to its trace header if the grant says so; "" for none.
  virtual uint64_t leaves(std::string_view method, std::string_view host, std::string& traceparent) = 0;
  // Its response arrived, with this status; 0: none did.
  virtual void is_over(uint64_t number, int status) = 0;
};

}  // namespace membrane::host
