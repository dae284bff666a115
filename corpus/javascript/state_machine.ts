const transitions = {
  idle: { start: 'running' },
  running: { pause: 'paused', stop: 'idle', fail: 'failed' },
  paused: { resume: 'running', stop: 'idle' },
  failed: { reset: 'idle' },
} as const;

type State = keyof typeof transitions;
type EventOf<S extends State> = keyof (typeof transitions)[S];
type AnyEvent = { [S in State]: EventOf<S> }[State];

class Machine {
  private history: Array<[State, AnyEvent]> = [];
  constructor(public state: State = 'idle') {}
  send(event: AnyEvent): State {
    const next = (transitions[this.state] as Partial<Record<AnyEvent, State>>)[event];
    if (next === undefined) throw new Error(`"${event}" is not possible in "${this.state}" (possible: ${Object.keys(transitions[this.state]).join(', ')})`);
    this.history.push([this.state, event]);
    return (this.state = next);
  }
  get trace(): string {
    return [...this.history.map(([s, e]) => `${s} --${e}-->`), this.state].join(' ');
  }
}

const machine = new Machine();
for (const event of ['start', 'pause', 'start', 'resume', 'fail', 'reset'] satisfies AnyEvent[]) {
  try {
    console.log(event, '->', machine.send(event));
  } catch (e) {
    console.log((e as Error).message);
  }
}
console.log(machine.trace);

// Breadth first: which states can be reached, and how
function reachable(from: State): Map<State, AnyEvent[]> {
  const paths = new Map<State, AnyEvent[]>([[from, []]]);
  const queue: State[] = [from];
  for (let s = queue.shift(); s; s = queue.shift()) {
    for (const [event, target] of Object.entries(transitions[s]) as [AnyEvent, State][]) {
      if (!paths.has(target)) {
        paths.set(target, [...paths.get(s)!, event]);
        queue.push(target);
      }
    }
  }
  return paths;
}
console.log(reachable('idle'));
type Upper<S extends string> = `${Uppercase<S>}!`;
const shout = <S extends string>(s: S): Upper<S> => `${s.toUpperCase()}!` as Upper<S>;
console.log(shout('stop'));
