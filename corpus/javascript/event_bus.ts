type Events = {
  added: { sku: string; quantity: number };
  removed: { sku: string };
  cleared: void;
};

type Handler<P> = (payload: P) => void;

class EventBus<E extends Record<string, any>> {
  private handlers: { [K in keyof E]?: Set<Handler<E[K]>> } = {};

  on<K extends keyof E>(event: K, handler: Handler<E[K]>): () => void {
    (this.handlers[event] ??= new Set()).add(handler);
    return () => this.handlers[event]?.delete(handler);
  }

  emit<K extends keyof E>(event: K, ...[payload]: E[K] extends void ? [] : [E[K]]): number {
    this.handlers[event]?.forEach((h) => h(payload as E[K]));
    return this.handlers[event]?.size ?? 0;
  }
}

const bus = new EventBus<Events>();
const cart = new Map<string, number>();
bus.on('added', ({ sku, quantity }) => cart.set(sku, (cart.get(sku) ?? 0) + quantity));
const stop = bus.on('added', (e) => console.log('log:', e));
bus.on('removed', ({ sku }) => void cart.delete(sku));
bus.on('cleared', () => cart.clear());

bus.emit('added', { sku: 'ink', quantity: 2 });
stop();
bus.emit('added', { sku: 'pen', quantity: 1 });
bus.emit('added', { sku: 'ink', quantity: 3 });
console.log(cart);
bus.emit('removed', { sku: 'pen' });
console.log([...cart.entries()], bus.emit('cleared'), cart.size);

function sealed(target: Function): void {
  Object.seal(target);
  Object.seal(target.prototype);
}
class Timer {
  declare label: string;
  static readonly instances: Timer[] = [];
  readonly #start: number = 0;
  constructor(readonly name: string, protected ticks?: number) { Timer.instances.push(this); }
  tick = (): number => (this.ticks = (this.ticks ?? this.#start) + 1);
}
sealed(Timer);
const t = new Timer('a');
const { tick } = t;
tick();
console.log(tick(), t.name, Timer.instances.length, Object.isSealed(Timer));
let maybe: string | undefined = Math.max(1, 2) > 1 ? 'text' : undefined;
console.log(maybe!.length, maybe?.toUpperCase(), <string>maybe);
