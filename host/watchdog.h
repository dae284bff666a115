// Interrupts a host call that cannot look at its deadline itself: a thread of the process waits, and calls back when
// the time of a call is over or the owner stops its run.
//
//   const Watchdog::Watch watch(deadline, [&] { api.interrupt(connection); });
//
// Threads: any number of watches at a time. The callback runs in the watchdog's thread, once, and never after the
// watch's destructor has returned; it must not block or throw, nor make or end a watch.
#pragma once

#include <functional>

#include "host/deadline.h"

namespace membrane::host {

class Watchdog {
 public:
  class Watch {
   public:
    // `deadline` is copied; the budget and flag it refers to must outlive the watch. When no thread can be started
    // nothing is called: a second line of defence has to look at the clock.
    Watch(const Deadline& deadline, std::function<void()> on_end);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend class Watchdog;
    Deadline deadline_;
    std::function<void()> on_end_;
    bool called_ = false;
  };

 private:
  class Thread;
};

}  // namespace membrane::host
