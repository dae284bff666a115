"""Flips of pancakes: lists of small numbers, sliced and reversed; every permutation of nine."""


def fannkuch(n):
    order, counts = list(range(n)), list(range(1, n + 1))
    most, checksum, even, left = 0, 0, True, n
    while True:
        if order[0]:
            stack, flips = order[:], 0
            while first := stack[0]:
                stack[:first + 1] = stack[first::-1]
                flips += 1
            most = max(most, flips)
            checksum += flips if even else -flips
        # The next permutation is one swap away, or a few turns of a prefix.
        if even:
            order[0], order[1] = order[1], order[0]
            even = False
            continue
        order[1], order[2] = order[2], order[1]
        even = True
        for left in range(2, n):
            counts[left] -= 1
            if counts[left]:
                break
            if left == n - 1:
                return checksum, most
            counts[left] = left + 1
            order[:left + 2] = order[1:left + 2] + order[:1]


print(*fannkuch(9))
