import { launchError } from './variable-reader.js';

const remedy = 'set MASTER_ADDR to the address of the first host';
const maximumHosts = 65_536;

/**
 * Expands a Slurm node list: `gpu[01-03,7],login` becomes gpu01, gpu02, gpu03, gpu7, login. Numbers keep
 * their leading zeros. A name may have several brackets (`rack[1-2]node[1-4]`); the last bracket varies
 * fastest.
 *
 * @throws ConfigurationError MTL_LAUNCH_ENVIRONMENT if the list does not have this syntax
 */
export function expandHostList(list: string): string[] {
  const hosts = splitOutsideBrackets(list).flatMap((pattern) => expandPattern(pattern, list));
  if (hosts.length === 0) throw launchError(`the list of hosts "${list}" is empty`, { remedy });
  return hosts;
}

function splitOutsideBrackets(list: string): string[] {
  const parts: string[] = [];
  let [depth, start] = [0, 0];
  for (let at = 0; at <= list.length; at++) {
    const letter = list[at];
    if (letter === '[') depth += 1;
    if (letter === ']') depth -= 1;
    if (depth < 0 || depth > 1) throw unreadable(list);
    if (letter !== undefined && (letter !== ',' || depth > 0)) continue;
    const part = list.slice(start, at).trim();
    if (part !== '') parts.push(part);
    start = at + 1;
  }
  if (depth !== 0) throw unreadable(list);
  return parts;
}

function expandPattern(pattern: string, list: string): string[] {
  const [, before, ranges, after] = /^([^[\]]*)\[([^[\]]*)\](.*)$/.exec(pattern) ?? [];
  if (before === undefined || ranges === undefined || after === undefined) return [pattern];
  const numbers = ranges.split(',').flatMap((range) => expandRange(range.trim(), list));
  const rests = expandPattern(after, list);
  if (numbers.length * rests.length > maximumHosts) throw unreadable(list);
  return numbers.flatMap((number) => rests.map((rest) => `${before}${number}${rest}`));
}

function expandRange(range: string, list: string): string[] {
  const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(range) ?? [];
  if (first === undefined || last === undefined) throw unreadable(list);
  const [from, to] = [Number(first), Number(last)];
  if (to < from || to - from >= maximumHosts) throw unreadable(list);
  return Array.from({ length: to - from + 1 }, (_, index) =>
    String(from + index).padStart(first.length, '0'),
  );
}

function unreadable(list: string): Error {
  return launchError(`the list of hosts "${list}" cannot be read`, {
    expected: 'a list such as node[01-04,7],login',
    remedy,
  });
}
