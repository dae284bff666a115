// A door for the guests' tests: requests on stdin, answers on stdout, each preceded by its length in decimal digits
// and a newline. Its world is in memory, with a page at http://h/.
#include <iostream>

#include "host/calls/door.h"
#include "host/world/machine_testing.h"

int main() {
  using namespace membrane::host;
  Machine machine;
  machine.world.pages["http://h/"] = {
      .status = 200, .headers = {{"content-type", "text/plain"}}, .body = "h\xC3\xA9", .final_url = ""};
  machine.world.pages["http://h/bytes"] = {
      .status = 404, .headers = {}, .body = "\xFF", .final_url = "http://h/there"};
  Door door(machine.guest, machine.dispatcher);
  size_t length = 0;
  while (std::cin >> length && std::cin.get() == '\n') {
    std::string request(length, '\0');
    std::cin.read(request.data(), static_cast<std::streamsize>(length));
    const std::string answer = door.answer(request);
    std::cout << answer.size() << '\n' << answer << std::flush;
  }
}
