import * as fs from 'fs';

interface Employee {
  id: number;
  name: string;
  department: string;
  salary: number;
  hired: Date;
  managerId?: number;
  city: string;
}

type Stats = { count: number; mean: number; max: Employee };

function parse(text: string): Employee[] {
  return text
    .trim()
    .split('\n')
    .slice(1)
    .map((line): Employee => {
      const [id, name, department, salary, hired, manager, city] = line.split(',');
      return { id: +id, name, department, salary: +salary, hired: new Date(hired), managerId: manager ? +manager : undefined, city };
    });
}

function groupBy<T, K extends string | number>(items: readonly T[], key: (item: T) => K): Record<K, T[]> {
  const out = {} as Record<K, T[]>;
  for (const item of items) (out[key(item)] ||= []).push(item);
  return out;
}

const employees = parse(fs.readFileSync('data/employees.csv', 'utf8'));
const byDepartment = groupBy(employees, (e) => e.department);

const stats: Record<string, Stats> = {};
for (const [department, list] of Object.entries(byDepartment)) {
  stats[department] = {
    count: list.length,
    mean: list.reduce((s, e) => s + e.salary, 0) / list.length,
    max: list.reduce((a, b) => (b.salary > a.salary ? b : a)),
  };
}
for (const department of Object.keys(stats).sort()) {
  const { count, mean, max } = stats[department]!;
  console.log(`${department.padEnd(12)} ${count} ${mean.toFixed(1).padStart(9)}  ${max.name} (${max.salary})`);
}

const oldest = employees.sort((a, b) => a.hired.getTime() - b.hired.getTime())[0] as Employee;
console.log(oldest);
const managers = new Map<number, string>(employees.map((e) => [e.id, e.name]));
console.log(employees.filter((e) => e.managerId !== undefined).slice(0, 3).map((e) => `${e.name} -> ${managers.get(e.managerId!) ?? '?'}`));
