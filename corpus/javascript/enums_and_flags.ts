enum Level { Debug, Info = 10, Warning, Error }
enum Status { New = 'NEW', Paid = 'PAID', Sent = 'SENT' }
const enum Direction { Up = 1, Down = -1 }
enum Permission { None = 0, Read = 1 << 0, Write = 1 << 1, Delete = 1 << 2, All = Read | Write | Delete }

console.log(Level.Warning, Level[11], Level, Status.Paid, Object.values(Status));
console.log(Direction.Up + Direction.Down, Permission.All, Permission[2]);

const has = (p: Permission, flag: Permission): boolean => (p & flag) === flag;
let p: Permission = Permission.Read | Permission.Write;
console.log(has(p, Permission.Write), has(p, Permission.Delete), (p &= ~Permission.Read));

function next(status: Status): Status {
  const order: Status[] = [Status.New, Status.Paid, Status.Sent];
  return order[Math.min(order.indexOf(status) + 1, order.length - 1)];
}
console.log(next(Status.New), next(Status.Sent));

class Logger {
  private lines: string[] = [];
  constructor(private readonly name: string, public level: Level = Level.Info) {}
  log(level: Level, message: string): this {
    if (level >= this.level) this.lines.push(`${Level[level].toUpperCase()} [${this.name}] ${message}`);
    return this;
  }
  get output(): readonly string[] { return this.lines; }
}
const logger = new Logger('shop');
logger.log(Level.Debug, 'hidden').log(Level.Error, 'shown').log(Level.Info, 'also');
console.log(logger.output.join('\n'));
console.log(logger);

namespace Geometry {
  export const origin = { x: 0, y: 0 };
  export function distance(a: { x: number; y: number }, b = origin): number { return Math.hypot(a.x - b.x, a.y - b.y); }
}
console.log(Geometry.distance({ x: 3, y: 4 }), typeof Geometry);
