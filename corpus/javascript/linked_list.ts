interface ListNode<T> { value: T; next?: ListNode<T> }

class LinkedList<T> {
  head?: ListNode<T>;
  length = 0;

  static from<T>(items: Iterable<T>): LinkedList<T> {
    const list = new LinkedList<T>();
    for (const item of items) list.append(item);
    return list;
  }
  append(value: T): this {
    let slot: ListNode<T> | undefined = this.head;
    const node: ListNode<T> = { value };
    if (!slot) this.head = node;
    else {
      while (slot.next) slot = slot.next;
      slot.next = node;
    }
    this.length += 1;
    return this;
  }
  reverse(): this {
    let previous: ListNode<T> | undefined;
    for (let node = this.head; node; ) [node.next, previous, node] = [previous, node, node.next];
    this.head = previous;
    return this;
  }
  map<U>(f: (value: T, index: number) => U): LinkedList<U> {
    let i = 0;
    const out = new LinkedList<U>();
    for (const v of this) out.append(f(v, i++));
    return out;
  }
  *[Symbol.iterator](): IterableIterator<T> {
    for (let node = this.head; node; node = node.next) yield node.value;
  }
  hasCycle(): boolean {
    let slow = this.head, fast = this.head;
    while (fast?.next) {
      slow = slow!.next;
      fast = fast.next.next;
      if (slow === fast) return true;
    }
    return false;
  }
}

const list = LinkedList.from([1, 2, 3, 4]);
console.log([...list.reverse()], list.length, [...list.map((v, i) => `${i}:${v * v}`)], list.hasCycle());
console.log(LinkedList.from('ab').head);
let last = list.head!;
while (last.next) last = last.next;
last.next = list.head!.next;
console.log(list.hasCycle());

function mergeSort<T>(items: T[], compare: (a: T, b: T) => number): T[] {
  if (items.length < 2) return items;
  const middle = items.length >> 1;
  const [left, right] = [mergeSort(items.slice(0, middle), compare), mergeSort(items.slice(middle), compare)];
  const out: T[] = [];
  while (left.length && right.length) out.push(compare(left[0]!, right[0]!) <= 0 ? left.shift()! : right.shift()!);
  return [...out, ...left, ...right];
}
console.log(mergeSort(['pear', 'fig', 'apple', 'kiwi'], (a, b) => a.length - b.length || a.localeCompare(b)));
type Deep<T> = T | Deep<T>[];
const flatten = <T>(x: Deep<T>): T[] => (Array.isArray(x) ? x.flatMap((y) => flatten(y as Deep<T>)) : [x]);
console.log(flatten<number>([1, [2, [3, [[4]]]]]));
