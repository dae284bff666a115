"""A bank with two tellers, simulated event by event."""
import heapq
import random
import statistics


def simulate(tellers, minutes, seed):
    rng = random.Random(seed)
    events, waiting, free = [(rng.expovariate(1 / 2.0), 0, "arrive")], [], tellers
    waits, served, longest, number = [], 0, 0, 0
    while events:
        now, customer, what = heapq.heappop(events)
        if what == "arrive":
            waiting.append((now, customer))
            number += 1
            following = now + rng.expovariate(1 / 2.0)
            if following < minutes:
                heapq.heappush(events, (following, number, "arrive"))
        else:
            free += 1
            served += 1
        while free and waiting:
            came, who = waiting.pop(0)
            waits.append(now - came)
            free -= 1
            heapq.heappush(events, (now + rng.uniform(1.5, 5.0), who, "leave"))
        longest = max(longest, len(waiting))
    return served, statistics.mean(waits), max(waits), longest


for tellers in (1, 2, 3):
    served, mean, worst, longest = simulate(tellers, 480, seed=99)
    print(f"{tellers} tellers: served {served}, mean wait {mean:.2f} min, worst {worst:.2f}, longest queue {longest}")
