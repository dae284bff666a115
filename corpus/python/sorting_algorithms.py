import random


def bubble(a):
    a = a[:]
    for end in range(len(a) - 1, 0, -1):
        swapped = False
        for i in range(end):
            if a[i] > a[i + 1]:
                a[i], a[i + 1] = a[i + 1], a[i]
                swapped = True
        if not swapped:
            break
    return a


def insertion(a):
    a = a[:]
    for i in range(1, len(a)):
        key, j = a[i], i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return a


def merge_sort(a):
    if len(a) <= 1:
        return a
    middle = len(a) // 2
    left, right = merge_sort(a[:middle]), merge_sort(a[middle:])
    out, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            out.append(left[i]); i += 1
        else:
            out.append(right[j]); j += 1
    return out + left[i:] + right[j:]


def quick_sort(a):
    if len(a) <= 1:
        return a
    pivot = a[len(a) // 2]
    return quick_sort([x for x in a if x < pivot]) + [x for x in a if x == pivot] + quick_sort([x for x in a if x > pivot])


def heap_sort(a):
    a = a[:]

    def sift(root, end):
        while (child := 2 * root + 1) < end:
            if child + 1 < end and a[child] < a[child + 1]:
                child += 1
            if a[root] >= a[child]:
                return
            a[root], a[child] = a[child], a[root]
            root = child

    for start in range(len(a) // 2 - 1, -1, -1):
        sift(start, len(a))
    for end in range(len(a) - 1, 0, -1):
        a[0], a[end] = a[end], a[0]
        sift(0, end)
    return a


def radix_sort(a):
    shift = 0
    while any(x >> shift for x in a):
        buckets = [[] for _ in range(256)]
        for x in a:
            buckets[(x >> shift) & 255].append(x)
        a = [x for b in buckets for x in b]
        shift += 8
    return a


random.seed(12)
data = [random.randrange(100_000) for _ in range(1500)]
expected = sorted(data)
for f in (bubble, insertion, merge_sort, quick_sort, heap_sort, radix_sort):
    print(f"{f.__name__:<12} {'ok' if f(data) == expected else 'WRONG'}")
print(expected[:5], expected[-5:])
